//! Tests standard output that fails: a full disk, a closed stream, a pipe without a reader.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::run::{Ran, run};
use e2e::{Host, start};

/// The commands of each program that print text without any zone.
const PRINTING: &[(&str, &[&str])] = &[
    ("zlogin", &["-h"]),
    ("zoneadm", &["help"]),
    ("zoneadm", &["help", "boot"]),
    ("zoneadm", &["boot", "--help"]),
    ("zoneadm", &["check", "-j"]),
    ("zoneadm", &["list"]),
    ("zoneadm", &["list", "-cv"]),
    ("zoneadm", &["-z", "web", "links"]),
    ("zoneadm", &["network"]),
    ("zoneadmd", &["--help"]),
    ("zoneagent", &["--help"]),
    ("zoneauthd", &["--help"]),
    ("tncfg", &["--help"]),
    ("zonecfg", &["-z", "web", "info"]),
    ("zonecfg", &["help"]),
    ("zonefetch", &["--help"]),
    ("zoneimg", &["help"]),
    ("zoneimg", &["list", "-j"]),
    ("clzonecluster", &["--help"]),
    ("fence_zone", &["--help"]),
    ("fence_zone", &["-o", "metadata"]),
    ("zonecluster", &["--help"]),
    ("zonelabel", &["--help"]),
    ("zonelabel", &["plabel"]),
    ("zonelabel", &["getlabel", "--help"]),
    ("zonelabel", &["getlabel", "/"]),
    ("zonename", &[]),
    ("zonename", &["-h"]),
    ("zonep2vchk", &[]),
    ("zonep2vchk", &["-h"]),
    ("zonepatch", &["help"]),
    ("zonepatch", &["status"]),
    ("zones-service", &["--help"]),
    ("zones-service", &["start", "-n"]),
    ("zonestat", &["-h"]),
    ("zonestat", &["1", "1"]),
    ("zonesuspend", &["help"]),
    ("zps", &[]),
    ("zps", &["--help"]),
];

/// Programs that have no standard output, or that do not check whether it is open.
const NO_COMMANDS: [&str; 1] = ["zinit"];
const WITHOUT_A_LOOK: [&str; 2] = ["zoneagent", "zonefetch"];

/// Runs a program with its streams as a shell redirects them.
fn redirected(host: &Host, program: &str, words: &[&str], how: &str) -> Ran {
    let inner = host.command(program, words);
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec \"$@\" {how}"), "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear()
        .envs(
            inner
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        );
    run(&mut command, b"")
}

/// Runs a program whose standard output is a pipe without a reader.
fn without_reader(host: &Host, program: &str, words: &[&str]) -> Output {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    drop(reader);
    let mut command = host.command(program, words);
    command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped());
    let child = start(&mut command);
    child.wait_with_output().expect("an ended child")
}

#[test]
fn every_program_tells_that_its_output_is_lost_and_none_panics() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    for (program, words) in PRINTING {
        let full = redirected(&host, program, words, ">/dev/full");
        assert!(full.err.contains("No space left on device"), "{full:?}");
        assert_eq!(full.code(), Some(1), "{full:?}");
        assert!(!full.err.contains("panicked"), "{full:?}");
        if !WITHOUT_A_LOOK.contains(program) {
            let closed = redirected(&host, program, words, ">&-");
            assert!(closed.err.contains("Bad file descriptor"), "{closed:?}");
            assert_eq!(closed.code(), Some(1), "{closed:?}");
        }
        // With standard error closed as well, no message is possible.
        let mute = redirected(&host, program, words, ">/dev/full 2>/dev/full");
        assert_eq!(mute.code(), Some(1), "{mute:?}");
        let wrong = redirected(&host, program, &["--nonsense"], "2>/dev/full");
        let usage = match *program {
            // The exit statuses of Solaris Cluster.
            "clzonecluster" => 3,
            // 2 tells that a node is off.
            "fence_zone" => 1,
            _ => 2,
        };
        assert_eq!(wrong.code(), Some(usage), "{wrong:?}");
    }
}

#[test]
fn the_table_names_every_program() {
    let listed: BTreeSet<&str> = PRINTING.iter().map(|(program, _)| *program).collect();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin");
    for entry in fs::read_dir(programs).expect("the folder of programs") {
        let entry = entry.expect("a program");
        let name = entry.file_name().into_string().expect("a plain name");
        if entry.path().is_dir() && !NO_COMMANDS.contains(&name.as_str()) {
            assert!(listed.contains(name.as_str()), "{name}");
        }
    }
}

#[test]
fn a_closed_pipe_ends_printing_programs_silently() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    for (program, words) in PRINTING {
        let ended = without_reader(&host, program, words);
        let err = String::from_utf8_lossy(&ended.stderr);
        match *program {
            // A session continues, because it may have more commands to run.
            "zonecfg" if !words.contains(&"help") => {
                assert_eq!((ended.status.code(), &*err), (Some(0), ""), "{words:?}");
            }
            program if WITHOUT_A_LOOK.contains(&program) => {
                assert_eq!(ended.status.code(), Some(1), "{program} {err}");
            }
            _ => {
                let signal = ended.status.signal();
                assert_eq!(
                    (signal, &*err),
                    (Some(libc::SIGPIPE), ""),
                    "{program} {words:?}"
                );
            }
        }
    }
}

#[test]
fn a_change_is_finished_though_nobody_reads() {
    let Some(host) = Host::new() else { return };
    for zone in ["web", "other"] {
        host.configure(zone, "");
    }
    let ended = without_reader(&host, "zoneadm", &["-z", "web", "install"]);
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(err.contains("could not write to standard output"), "{err}");
    assert_eq!(ended.status.code(), Some(1), "{err}");
    assert_eq!(host.state("web"), "installed");
    let _ = without_reader(&host, "zoneadm", &["-z", "other", "clone", "web"]);
    assert_eq!(host.state("other"), "installed");
    let _ = without_reader(&host, "zoneadm", &["-z", "web", "-z", "other", "boot"]);
    for zone in ["web", "other"] {
        assert_eq!(host.state(zone), "running");
    }
}
