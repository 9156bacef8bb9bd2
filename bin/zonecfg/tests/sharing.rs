//! Several users at once, users without rights, and a user at a terminal.

mod common;

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use common::{Host, ZONECFG};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use store::lock::{self, Wait};

#[test]
fn a_locked_zone_is_not_changed() {
    let host = Host::with_web1();
    let held = lock::zone(&host.root(), &"web1".parse().unwrap(), Wait::No).unwrap();
    insta::assert_snapshot!(host.transcript(&["set autoboot=true", "delete -F", "info autoboot"]));
    drop(held);
    assert_eq!(host.status(&["-z", "web1", "set autoboot=true"]), 0);
}

#[test]
fn a_change_made_meanwhile_is_not_overwritten() {
    let host = Host::with_web1();
    let mut first = host
        .command(&["-z", "web1"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = first.stdin.take().unwrap();
    let mut output = BufReader::new(first.stdout.take().unwrap());
    writeln!(input, "set autoboot=true; info autoboot").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "autoboot: true\n");

    assert_eq!(host.status(&["-z", "web1", "set bootargs=-v"]), 0);
    drop(input);
    let mut errors = String::new();
    first
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(1));
    assert_eq!(
        errors,
        "web1: another session changed the configuration meanwhile: use revert, and make the change again\n\
         Configuration not saved.\n"
    );
    let after = host.run(&["-z", "web1", "info autoboot; info bootargs"]);
    assert!(after.contains("autoboot: false\nbootargs: -v\n"), "{after}");
}

#[test]
fn a_zone_installed_meanwhile_keeps_its_zonepath() {
    let host = Host::with_web1();
    let mut session = host
        .command(&["-z", "web1"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = session.stdin.take().unwrap();
    let mut output = BufReader::new(session.stdout.take().unwrap());
    writeln!(input, "set zonepath=/elsewhere; info zonepath").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "zonepath: /elsewhere\n");
    host.set_state("web1", model::State::Installed);
    drop(input);
    let mut errors = String::new();
    let mut stderr = session.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    assert_eq!(session.wait().unwrap().code(), Some(1));
    assert!(
        errors.starts_with("Zone web1 already installed; its zonepath"),
        "{errors}"
    );
    let after = host.run(&["-z", "web1", "info zonepath"]);
    assert!(after.contains("zonepath: /zones/web1\n"), "{after}");
    // In an alternate root the administrator may know better.
    assert_eq!(host.status(&["-z", "web1", "set zonepath=/elsewhere"]), 1);
    assert_eq!(
        host.status(&["-z", "web1", "set -F zonepath=/elsewhere"]),
        0
    );
}

#[test]
fn many_zones_are_created_at_once() {
    let host = Host::new();
    let names: Vec<String> = (0..100).map(|i| format!("web{i}")).collect();
    let children: Vec<_> = names
        .iter()
        .map(|name| host.command(&["-z", name, "create"]).spawn().unwrap())
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let index = store::index::Index::load(&host.root()).unwrap();
    assert_eq!(index.entries().len(), names.len());
    for name in &names {
        let name = name.parse().unwrap();
        index.get(&name).unwrap();
        store::xml::load(&host.root(), &name).unwrap();
    }
}

#[test]
fn a_user_without_write_access_changes_nothing() {
    let host = Host::with_web1();
    // Other users may not be able to read the build's folders, so the program is copied.
    let program = host.dir().join("zonecfg");
    // Another process makes the copy. A child that another test forks at this moment would inherit
    // a descriptor that is open for writing, and the kernel would not execute the copy.
    let copied = Command::new("cp").arg(ZONECFG).arg(&program).status();
    assert!(copied.unwrap().success());
    for (path, mode) in [(host.dir(), 0o755), (&host.root().etc(), 0o555)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let run = |args: &[&str], input: &str| {
        let mut command = Command::new(&program);
        command.args(args).env_clear().env("ZONES_ROOT", host.dir());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let mut child = command.spawn().unwrap();
        // A zonecfg with a command on its command line does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        format!(
            "{}{}[{}]\n",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            output.status.code().unwrap()
        )
    };
    let report = [
        run(&["-z", "web1", "info autoboot"], ""),
        run(&["-z", "web1", "set autoboot=true"], ""),
        run(&["-z", "web1", "delete -F"], ""),
        run(&["-z", "web1"], "set autoboot=true\ninfo autoboot\n"),
        run(&["-z", "web2", "create"], ""),
    ];
    insta::assert_snapshot!(report.join("\n"));
}

/// Runs a session at a pseudo-terminal. Returns the text on the terminal, and the status.
fn at_terminal(host: &Host, keys: &str) -> (String, Option<i32>) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let open = || {
        let path = name.to_str().unwrap();
        Stdio::from(File::options().read(true).write(true).open(path).unwrap())
    };
    let mut child = host
        .command(&["-z", "web1"])
        .env("TERM", "xterm")
        .stdin(open())
        .stdout(open())
        .stderr(open())
        .spawn()
        .unwrap();
    let mut master = File::from(master);
    let mut seen = Vec::new();
    for line in keys.split_inclusive('\n') {
        // The editor changes the terminal's mode for each line: keys that arrive before its prompt
        // would be read in the wrong mode.
        read_until(&mut master, &mut seen, |text| {
            text.ends_with("> ") || text.ends_with(")? ")
        });
        let line = line.trim_end_matches('\n');
        master.write_all(line.as_bytes()).unwrap();
        master.write_all(b"\r").unwrap();
    }
    read_until(&mut master, &mut seen, |_| false);
    let status = child.wait().unwrap().code();
    (plain(&seen), status)
}

/// Reads until the text since the last call satisfies `enough`, or the program closes the terminal.
fn read_until(master: &mut File, seen: &mut Vec<u8>, enough: impl Fn(&str) -> bool) {
    let start = seen.len();
    let mut buffer = [0; 4096];
    loop {
        // The timeout prevents a hang of the test if the prompt never appears.
        let mut fds = [PollFd::new(master, PollFlags::IN)];
        let deadline = Timespec {
            tv_sec: 30,
            tv_nsec: 0,
        };
        let ready = poll(&mut fds, Some(&deadline)).unwrap();
        assert!(ready > 0, "nothing after: {}", plain(seen));
        // EIO: the program has ended.
        let Ok(count) = master.read(&mut buffer) else {
            return;
        };
        seen.extend_from_slice(&buffer[..count]);
        if count == 0 || enough(&plain(&seen[start..])) {
            return;
        }
    }
}

/// Returns the text without the escape sequences of the line editor.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else if c != '\r' {
            out.push(c);
        }
    }
    out
}

#[test]
fn a_user_at_a_terminal_is_prompted_and_asked() {
    let host = Host::new();
    let (seen, status) = at_terminal(
        &host,
        "create -b\nset autoboot=tr\t\nadd attr\nset name=a\ncancel\nexit\n",
    );
    assert_eq!(status, Some(0), "{seen}");
    assert!(
        seen.starts_with(
            "web1: No such zone configured\nUse 'create' to begin configuring a new zone.\n"
        ),
        "{seen}"
    );
    assert!(
        seen.contains("zonecfg:web1> ") && seen.contains("zonecfg:web1:attr> "),
        "{seen}"
    );
    // TAB completed the word.
    let after = host.run(&["-z", "web1", "info autoboot"]);
    assert!(after.contains("autoboot: true"), "{after}\n{seen}");

    let (seen, status) = at_terminal(&host, "delete\nn\nexit\n");
    assert!(
        seen.contains("Are you sure you want to delete zone web1 (y/[n])? "),
        "{seen}"
    );
    assert_eq!((status, host.status(&["-z", "web1", "info"])), (Some(0), 0));
    let (_, status) = at_terminal(&host, "delete\ny\nexit\n");
    assert_eq!((status, host.status(&["-z", "web1", "info"])), (Some(0), 1));
}
