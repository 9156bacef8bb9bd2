//! Tests the last line of JSON of a program whose output was lost. It is a test of its own, because
//! it changes the standard output of the process.

use std::fs::{self, File};

use cli::{output, progress, status};
use rustix::stdio::{dup2_stdout, stdout};

#[test]
fn the_last_line_has_the_exit_status_of_a_program_that_lost_lines() {
    let dir = tempfile::tempdir().expect("a folder");
    let before = rustix::io::dup(stdout()).expect("a descriptor");
    let full = File::options().write(true).open("/dev/full");
    dup2_stdout(full.expect("/dev/full")).expect("a descriptor");
    progress::as_json("boot", None, false);
    output::print(format_args!("lost\n"));
    let path = dir.path().join("lines");
    dup2_stdout(File::create(&path).expect("a file")).expect("a descriptor");
    let ended = output::end("zoneadm", status::OK);
    dup2_stdout(before).expect("a descriptor");
    let lines = fs::read_to_string(&path).expect("lines");
    let last = lines.lines().last().expect("a last line");
    assert!(last.ends_with(r#""status":1}"#), "{lines}");
    assert!(
        last.contains("could not write to standard output"),
        "{lines}"
    );
    let failed = std::process::ExitCode::from(status::ERROR);
    assert_eq!(format!("{ended:?}"), format!("{failed:?}"));
}
