//! Messages of possibly hostile peers: frames of a migration (`m` and the frames), and replies of
//! the agent in a kernel zone's guest (`g` and the lines).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;
use vm::agent::{Agent, Printed};

/// Timeout for a reply of the agent, which never expires: the agent's end of the socket is closed
/// after the last line.
const AGENT_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a conversation of each side of a migration, and replies of an agent.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let digest = "0".repeat(64);
    let hello = br#"{"version":4,"id":"1","manifest":"<zone/>","image":null,"layers":[],"dry_run":false,"update":false,"machine":null}"#;
    let source = [
        frame(b'h', hello),
        frame(b'l', b""),
        frame(b'd', b"piece"),
        frame(b'e', b""),
        frame(b't', b""),
        frame(b'r', b"etc/motd\0"),
        frame(b'v', digest.as_bytes()),
        frame(b'm', br#"{"machine":{},"disks":[{"id":0,"size":1048576}]}"#),
        frame(b'b', b"\0piece"),
        frame(b'c', br#"{"boot":true}"#),
    ];
    let target = [
        frame(b'w', br#"{"have":1,"files":["disk0"]}"#),
        frame(b'k', b""),
        frame(b'n', b"no room"),
        frame(b'x', b"no\x1b space"),
    ];
    let agent = [
        r#"{"return": {"pid": 42}}"#,
        r#"{"return": {"exited": true, "exitcode": 3, "out-data": "aGk=", "err-truncated": true}}"#,
        r#"{"return": {"exited": true, "signal": 9}}"#,
        r#"{"error": {"desc": "no such file"}}"#,
    ];
    vec![
        [b"m".to_vec(), source.concat()].concat(),
        [b"m".to_vec(), target.concat()].concat(),
        format!("g{}\n", agent.join("\n")).into_bytes(),
    ]
}

fn frame(letter: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a seed is short");
    [&[letter], &length.to_be_bytes()[..], body].concat()
}

/// Checks the messages of one peer.
///
/// # Panics
/// Panics if accepted frames are sent on with changes, or if more of a command's output is kept
/// than the agent sent.
pub fn check(data: &[u8]) {
    match data.split_first() {
        Some((b'm', frames)) => {
            if let Ok(again) = migrate::frames_again(frames) {
                assert_eq!(again, frames);
            }
        }
        Some((b'g', lines)) => hear_agent(lines),
        _ => {}
    }
}

/// Starts a command in a guest whose agent sends these lines, and waits for the command's end.
fn hear_agent(lines: &[u8]) {
    let (ours, theirs) = UnixStream::pair().expect("there are sockets");
    std::thread::scope(|scope| {
        scope.spawn(move || speak(&theirs, lines));
        let Ok(mut agent) = Agent::begin(ours.into(), AGENT_REPLY_TIMEOUT) else {
            return;
        };
        let arguments = ["-c", "true"];
        let Ok(number) = agent.start("/bin/sh", &arguments, None, AGENT_REPLY_TIMEOUT) else {
            return;
        };
        while let Ok(ended) = agent.ended(number, Printed::All, AGENT_REPLY_TIMEOUT) {
            if let Some(ended) = ended {
                assert!(ended.output.len() + ended.errors.len() <= lines.len());
                return;
            }
        }
    });
}

/// Answers the first question to the agent, and then sends the lines, whatever the next questions
/// are.
fn speak(theirs: &UnixStream, lines: &[u8]) {
    let mut heard = BufReader::new(theirs);
    let mut call = Vec::new();
    let Ok(_) = heard.read_until(b'\n', &mut call) else {
        return;
    };
    let call: Value = serde_json::from_slice(&call[1..]).expect("we ask with JSON");
    let mut to = theirs;
    // The client may have closed its end already.
    let _ = writeln!(to, "{{\"return\": {}}}", call["arguments"]["id"]);
    let mut rest = lines;
    while !rest.is_empty() {
        if heard.read_until(b'\n', &mut Vec::new()).is_err() {
            return;
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (line, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        let _ = to.write_all(line);
        rest = after;
    }
}
