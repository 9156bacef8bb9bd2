//! Tests text that is pasted into an interactive zonecfg, or typed before its prompts.

use e2e::{Host, Terminal};

/// The bytes that a terminal with bracketed paste sends before and after a paste.
const PASTE: (&str, &str) = ("\x1b[200~", "\x1b[201~");

/// Starts zonecfg on a terminal with the features of xterm.
fn zonecfg(host: &Host, zone: &str) -> Terminal {
    let mut command = host.command("zonecfg", &["-z", zone]);
    command.env("TERM", "xterm");
    Terminal::start(command)
}

fn export(host: &Host, zone: &str) -> String {
    host.zonecfg(&["-z", zone, "export"]).ok().out
}

/// Returns a configuration of `count` file systems, as an administrator may keep it in a file. It
/// is several times larger than the line buffer of a terminal and the buffer of a reader.
fn commands(count: usize) -> String {
    let mut text = String::from("create -b\nset zonepath=/zones/pasted\n");
    for number in 0..count {
        text.push_str(&format!(
            "add fs\nset dir=/data/{number}\nset special=/srv/{number}\nset type=lofs\nend\n"
        ));
    }
    text.push_str("set bootargs=\"-m verbose\"\n");
    text
}

/// Pastes a whole configuration in one piece and exits. The result must equal the zone `by-file`.
fn paste(host: &Host, zone: &str, text: &str) {
    let mut terminal = zonecfg(host, zone);
    terminal.expect("> ");
    terminal.types(text);
    assert_eq!(terminal.status(), 0, "{zone}");
    assert_eq!(export(host, zone), export(host, "by-file"));
}

/// Makes the zone `by-file`, with which pastes are compared.
fn by_file(host: &Host) {
    let file = host.path("/by-file.cfg");
    std::fs::write(&file, commands(100)).expect("a file of commands");
    let file = file.to_str().expect("a plain path");
    host.zonecfg(&["-z", "by-file", "-f", file]).quiet();
}

#[test]
fn a_paste_is_taken_whole() {
    let Some(host) = Host::new() else { return };
    by_file(&host);
    let text = commands(100);
    assert!(text.len() > 4096);
    // The Enter key sends a carriage return, and terminals paste line breaks as carriage returns.
    paste(
        &host,
        "keys",
        &format!("{}exit\r", text.replace('\n', "\r")),
    );
    paste(&host, "lines", &format!("{text}exit\n"));
}

#[test]
fn a_marked_paste_is_taken_whole_when_enter_is_pressed() {
    let Some(host) = Host::new() else { return };
    by_file(&host);
    let (begin, end) = PASTE;
    let text = commands(100);
    paste(&host, "marked", &format!("{begin}{text}exit{end}\r"));
    // The last line of the paste may or may not end with a line break.
    let keys = text.replace('\n', "\r");
    paste(&host, "complete", &format!("{begin}{keys}{end}\rexit\r"));
}

#[test]
fn input_typed_before_the_first_prompt_is_read() {
    let Some(host) = Host::new() else { return };
    let mut terminal = zonecfg(&host, "early");
    // The test does not wait for a prompt: all lines are typed before zonecfg shows the first one.
    terminal.types("create\nset autoboot=true\nset bootargs=-s\nexit\n");
    assert_eq!(terminal.status(), 0);
    let export = export(&host, "early");
    assert!(
        export.contains("set autoboot=true\n") && export.contains("set bootargs=-s\n"),
        "{export}"
    );
}

#[test]
fn a_question_takes_the_next_line_of_a_paste() {
    let Some(host) = Host::new() else { return };
    let (begin, end) = PASTE;
    for (zone, paste) in [
        ("typed", "delete\ry\rcreate -b\rexit\r".to_owned()),
        (
            "marked",
            format!("{begin}delete\ny\ncreate -b\nexit{end}\r"),
        ),
    ] {
        host.zonecfg(&["-z", zone, "create; set bootargs=-s"])
            .quiet();
        let mut terminal = zonecfg(&host, zone);
        terminal.expect("> ");
        terminal.types(&paste);
        assert_eq!(terminal.status(), 0, "{zone}");
        let export = export(&host, zone);
        assert!(!export.contains("bootargs"), "{zone}: {export}");
        assert!(!export.contains("inherit-pkg-dir"), "{zone}: {export}");
    }
}
