//! Tests a script of 300 lines, valid and invalid ones, with every input method of zonecfg.

use e2e::{Host, Terminal};

const SCRIPT: &str = include_str!("data/script.cfg");

/// Returns the configuration of a zone; empty if the zone does not exist.
fn export(host: &Host, zone: &str) -> String {
    host.zonecfg(&["-z", zone, "export"]).out
}

fn file(host: &Host, text: &str) -> String {
    let path = host.path("/commands.cfg");
    std::fs::write(&path, text).expect("a file of commands");
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn arguments_standard_input_and_a_terminal_come_to_the_same() {
    let Some(host) = Host::new() else { return };
    assert_eq!(SCRIPT.lines().count(), 300);

    let by_words = host.zonecfg(&["-z", "words", SCRIPT]);
    assert_eq!(by_words.code(), Some(1), "{by_words:?}");

    let mut command = host.command("zonecfg", &["-z", "stdin"]);
    let by_stdin = e2e::run::run(&mut command, SCRIPT.as_bytes());
    assert_eq!(by_stdin.code(), Some(1), "{by_stdin:?}");

    let mut command = host.command("zonecfg", &["-z", "typed"]);
    let mut terminal = Terminal::start({
        command.env("TERM", "dumb");
        command
    });
    for line in SCRIPT.lines() {
        terminal.expect("> ");
        terminal.types(&format!("{line}\n"));
    }
    terminal.expect("> ");
    terminal.types("exit\n");
    assert_eq!(terminal.status(), 1);

    let words = export(&host, "words");
    assert!(words.contains("\nset dir=/many/"), "{words}");
    assert!(words.lines().count() > 100, "{words}");
    for other in ["stdin", "typed"] {
        assert_eq!(export(&host, other), words, "{other}");
    }
}

#[test]
fn a_line_does_the_same_as_an_argument_and_in_a_file() {
    let Some(host) = Host::new() else { return };
    let mut good = 0;
    for line in SCRIPT.lines() {
        // Only commands in arguments continue after an error, so the test removes the
        // `cancel` that would clean up after the error.
        let line = line.strip_suffix("; cancel").unwrap_or(line);
        let by_words = host.zonecfg(&["-z", "by-argument", line]);
        let by_file = host.zonecfg(&["-z", "by-file", "-f", &file(&host, &format!("{line}\n"))]);
        assert_eq!(by_words.code(), by_file.code(), "{by_words:?}\n{by_file:?}");
        assert_eq!(
            by_words.out.replace("by-argument", "by-file"),
            by_file.out,
            "{by_words:?}"
        );
        assert_eq!(
            export(&host, "by-argument"),
            export(&host, "by-file"),
            "{line}"
        );
        good += i32::from(by_words.code() == Some(0));
    }
    assert!((100..250).contains(&good), "{good} lines are right");
}

#[test]
fn a_file_ends_at_its_first_error() {
    let Some(host) = Host::new() else { return };
    let lines: Vec<&str> = SCRIPT.lines().collect();
    let path = file(&host, SCRIPT);
    let ran = host.zonecfg(&["-z", "file", "-f", &path]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    let place = ran
        .err
        .split_once("line ")
        .expect("an error names its line")
        .1;
    let digits: String = place.chars().take_while(char::is_ascii_digit).collect();
    let at: usize = digits.parse().expect("the number of a line");
    assert!(at > 1, "{ran:?}");
    let before = lines[..at - 1].join("\n");
    assert_eq!(host.zonecfg(&["-z", "words", &before]).code(), Some(0));
    assert_eq!(export(&host, "file"), export(&host, "words"));
    let mut command = host.command("zonecfg", &["-z", "pipe", "-f", "-"]);
    let by_pipe = e2e::run::run(&mut command, SCRIPT.as_bytes());
    assert_eq!(by_pipe.code(), Some(1), "{by_pipe:?}");
    assert_eq!(export(&host, "pipe"), export(&host, "words"));
    assert!(by_pipe.err.contains(&format!("line {at} ")), "{by_pipe:?}");
}

#[test]
fn a_pipe_ends_at_its_first_error() {
    let Some(host) = Host::new() else { return };
    host.zonecfg(&["-z", "web", "create"]).quiet();
    let input = "set bootargs=-s\nset cpu-shares=abc\nset max-lwps=5\n";
    let mut command = host.command("zonecfg", &["-z", "web", "-f", "-"]);
    e2e::run::run(&mut command, input.as_bytes()).mentions(1, "On line 2:");
    let export = export(&host, "web");
    assert!(export.contains("set bootargs=-s\n"), "{export}");
    assert!(!export.contains("max-lwps"), "{export}");
}

#[test]
fn templates_can_be_read_and_not_changed() {
    let Some(host) = Host::new() else { return };
    for template in ["SYSdefault", "SUNWdefault"] {
        let info = host.zonecfg(&["-z", template, "info"]).ok().out;
        assert!(
            info.starts_with(&format!("zonename: {template}\n")),
            "{info}"
        );
        host.zonecfg(&["-z", template, "set autoboot=true"])
            .mentions(1, &format!("{template}: cannot set in read-only mode."));
        host.zonecfg(&["-z", template, "delete -F"])
            .mentions(1, "cannot delete in read-only mode.");
    }
    let exported = export(&host, "SYSdefault");
    let file = file(&host, &exported);
    host.zonecfg(&["-z", "like", "-f", &file]).quiet();
    host.zonecfg(&["-z", "made", "create -t SYSdefault"])
        .quiet();
    let made = export(&host, "made");
    assert_eq!(export(&host, "like"), made.replace("made", "like"));
    host.zonecfg(&["-z", "SYSnosuch", "info"])
        .mentions(1, "SYSnosuch: No such zone configured");
    assert!(!host.path("/etc/zones").exists() || !host.path("/etc/zones/SYSdefault.xml").exists());
}

#[test]
fn a_pipe_stops_at_its_first_error_like_a_file() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    let mut command = host.command("zonecfg", &["-z", "web", "-f", "-"]);
    let ran = e2e::run::run(
        &mut command,
        b"set autoboot=true\nset cpu-shares=abc\nset max-lwps=5\n",
    );
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    let stored = export(&host, "web");
    // The accepted commands are saved, those after the error are not read.
    assert!(stored.contains("set autoboot=true"), "{stored}");
    assert!(!stored.contains("max-lwps"), "{stored}");
}

#[test]
fn an_atomic_session_saves_all_or_nothing_and_finds_a_lost_update() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    let digest = || host.zonecfg(&["-z", "web", "--digest"]).ok().out;
    let change = |words: &[&str], text: &str| {
        let words = [&["-z", "web", "--atomic"], words, &["-f", "-"]].concat();
        e2e::run::run(&mut host.command("zonecfg", &words), text.as_bytes())
    };
    let first = digest();
    assert_eq!(first.trim().len(), 64);
    let ran = change(&[], "set autoboot=true\nset cpu-shares=abc\n");
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(
        ran.err.contains("--atomic saves all changes or none"),
        "{ran:?}"
    );
    assert_eq!(digest(), first);
    change(
        &["--expect", first.trim()],
        "set autoboot=true\nset max-lwps=50\n",
    )
    .quiet();
    let second = digest();
    assert_ne!(second, first);
    // This session has read the configuration before the other one saved its change.
    change(&["--expect", first.trim()], "set max-lwps=60\n").mentions(
        1,
        "web: the configuration has another digest than expected: read it again",
    );
    assert_eq!(digest(), second);
    change(&["--expect", second.trim()], "set max-lwps=60\n").quiet();
    assert!(export(&host, "web").contains("limit=60"));
    host.zonecfg(&["-z", "none", "--digest"])
        .says(1, "none: No such zone configured");
}
