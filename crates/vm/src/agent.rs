//! Runs commands in the guest through the guest agent, over a virtual serial port.
//!
//! The protocol is that of QEMU's guest agent, reduced to the commands that kernel zones need.
//! zoneagent in the guest uses the same protocol. The guest is hostile: the size of a reply is
//! limited, and a reply is used only as text and numbers.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::wire::{Wire, within};
use crate::{Error, base64, qmp};

/// Maximum size of a reply without a command's output, in bytes.
const MAX_REPLY_BYTES: usize = 64 << 10;

/// Maximum size of a reply with a command's output, in bytes. The agent limits each output to 16
/// MiB; base64 makes it longer, and a reply has two outputs.
const MAX_OUTPUT_REPLY_BYTES: usize = 48 << 20;

/// The part of a command's output that the caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    /// All output that the agent has kept.
    All,
    /// Little or no output: a reply with more than some thousand bytes of output is an error.
    Little,
}

/// An answer of the agent: only the members with a field in this struct are kept.
#[derive(Deserialize)]
struct Said<'a, T> {
    #[serde(rename = "return")]
    done: Option<T>,
    #[serde(borrow)]
    error: Option<Why<'a>>,
}

#[derive(Deserialize)]
struct Why<'a> {
    #[serde(borrow)]
    desc: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Begun {
    pid: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Status<'a> {
    #[serde(default)]
    exited: bool,
    exitcode: Option<i64>,
    signal: Option<i64>,
    #[serde(borrow)]
    out_data: Option<Cow<'a, str>>,
    #[serde(borrow)]
    err_data: Option<Cow<'a, str>>,
    #[serde(default)]
    out_truncated: bool,
    #[serde(default)]
    err_truncated: bool,
}

const WHAT: &str = "the agent in the zone";

/// The result of a command in the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The exit status of the command, or 128 plus the number of the signal that ended it.
    pub status: u8,
    /// The bytes of the command's standard output.
    pub output: Vec<u8>,
    /// The bytes of the command's standard error.
    pub errors: Vec<u8>,
    /// True if the agent left out a part of the command's output.
    pub cut: bool,
}

/// A connection to the guest agent.
#[derive(Debug)]
pub struct Agent {
    wire: Wire,
}

impl Agent {
    /// Starts a connection to the agent. The rest of an earlier answer is dropped.
    ///
    /// # Errors
    /// Fails if the agent does not reply within `limit`.
    pub fn begin(socket: OwnedFd, limit: Duration) -> Result<Self, Error> {
        let mut agent = Self {
            wire: Wire::new(socket, WHAT, MAX_REPLY_BYTES),
        };
        // The agent may still be sending a reply to a client that has ended, and this reply may be
        // very long.
        agent.wire.take_up_to(MAX_REPLY_BYTES, true);
        let end = Instant::now() + limit;
        let mut number = [0; 4];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::Io("get random bytes".to_owned(), errno.into()))?;
        let id = u32::from_be_bytes(number) >> 1;
        // The byte 0xff is not part of any JSON text. It makes the agent forget the part of a
        // command that it has read so far.
        let mut call = vec![0xff];
        call.extend(line("guest-sync", &json!({ "id": id })));
        within(limit, agent.wire.send(&call, end))?;
        loop {
            let said = within(limit, agent.wire.line(end))?;
            let said: Option<Value> = serde_json::from_slice(&said).ok();
            if said.is_some_and(|said| said["return"] == id) {
                agent.wire.forget();
                return Ok(agent);
            }
        }
    }

    /// Starts a program in the guest; returns the agent's number for the program.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if the program cannot be started.
    pub fn start(
        &mut self,
        path: &str,
        arguments: &[&str],
        input: Option<&[u8]>,
        limit: Duration,
    ) -> Result<u64, Error> {
        let mut what = json!({
            "path": path,
            "arg": arguments,
            "capture-output": true,
        });
        if let Some(input) = input {
            what["input-data"] = json!(base64::encode(input));
        }
        let said = self.ask("guest-exec", &what, MAX_REPLY_BYTES, limit)?;
        done::<Begun>("guest-exec", &said).map(|begun| begun.pid)
    }

    /// Returns the result of a program that was started, or `None` while the program runs.
    ///
    /// # Errors
    /// Fails if the agent does not know the program.
    pub fn ended(
        &mut self,
        number: u64,
        printed: Printed,
        limit: Duration,
    ) -> Result<Option<Ended>, Error> {
        let longest = match printed {
            Printed::All => MAX_OUTPUT_REPLY_BYTES,
            Printed::Little => MAX_REPLY_BYTES,
        };
        let what = json!({ "pid": number });
        let said = self.ask("guest-exec-status", &what, longest, limit)?;
        let said: Status<'_> = done("guest-exec-status", &said)?;
        if !said.exited {
            return Ok(None);
        }
        let bytes = |text: Option<Cow<'_, str>>| match text {
            None => Ok(Vec::new()),
            Some(text) => base64::decode(&text).ok_or_else(|| odd("not base64")),
        };
        let byte = |number: Option<i64>| number.and_then(|code| u8::try_from(code).ok());
        let signal = || Some(128_u8.saturating_add(byte(said.signal)?));
        let status = byte(said.exitcode).or_else(signal);
        Ok(Some(Ended {
            status: status.unwrap_or(u8::MAX),
            output: bytes(said.out_data)?,
            errors: bytes(said.err_data)?,
            cut: said.out_truncated || said.err_truncated,
        }))
    }

    /// Freezes the file systems of the guest. Returns the number that the agent tells; the guest can
    /// lie. An agent that did not answer in time may still carry the order out, so the caller calls
    /// [`thaw`](Self::thaw) in any case.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] and the agent's text, and if no answer comes within `limit`.
    pub fn freeze(&mut self, limit: Duration) -> Result<u64, Error> {
        self.count("guest-fsfreeze-freeze", limit)
    }

    /// Thaws the file systems of the guest. Returns the number that the agent tells, which is 0 if
    /// the file systems were not frozen any more.
    ///
    /// # Errors
    /// Fails as [`freeze`](Self::freeze) does.
    pub fn thaw(&mut self, limit: Duration) -> Result<u64, Error> {
        self.count("guest-fsfreeze-thaw", limit)
    }

    fn count(&mut self, command: &str, limit: Duration) -> Result<u64, Error> {
        let said = self.ask(command, &json!({}), MAX_REPLY_BYTES, limit)?;
        done(command, &said)
    }

    /// Asks the guest to power off; the agent does not answer this command.
    ///
    /// # Errors
    /// Fails if the command cannot be sent.
    pub fn power_off(&self, limit: Duration) -> Result<(), Error> {
        let call = line("guest-shutdown", &json!({ "mode": "powerdown" }));
        within(limit, self.wire.send(&call, Instant::now() + limit))
    }

    fn ask(
        &mut self,
        command: &str,
        arguments: &Value,
        longest: usize,
        limit: Duration,
    ) -> Result<Vec<u8>, Error> {
        let end = Instant::now() + limit;
        within(limit, self.wire.send(&line(command, arguments), end))?;
        self.wire.take_up_to(longest, false);
        within(limit, self.wire.line(end))
    }
}

/// Returns the value in an answer of the agent.
fn done<'a, T: Deserialize<'a>>(command: &str, said: &'a [u8]) -> Result<T, Error> {
    let said: Said<'a, T> =
        serde_json::from_slice(said).map_err(|error| odd(&error.to_string()))?;
    if let Some(done) = said.done {
        return Ok(done);
    }
    match said.error.and_then(|error| error.desc) {
        Some(why) => Err(Error::Refused {
            command: command.to_owned(),
            why: qmp::printable(&why),
        }),
        None => Err(odd("neither an answer nor an error")),
    }
}

fn line(command: &str, arguments: &Value) -> Vec<u8> {
    let call = json!({ "execute": command, "arguments": arguments });
    format!("{call}\n").into_bytes()
}

fn odd(why: &str) -> Error {
    Error::Odd {
        what: WHAT,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Returns a connection to a test agent that answers the sync properly and then sends these
    /// lines.
    fn agent(answers: &'static [&'static str]) -> Result<Agent, Error> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut said = BufReader::new(theirs.try_clone().unwrap());
            let mut to = theirs;
            let mut call = Vec::new();
            said.read_until(b'\n', &mut call).unwrap();
            assert_eq!(call[0], 0xff);
            let call: Value = serde_json::from_slice(&call[1..]).unwrap();
            let id = &call["arguments"]["id"];
            write!(to, "half an ans\n{{\"return\": 7}}\n{{\"return\": {id}}}\n").unwrap();
            for answer in answers {
                call_of(&mut said);
                // The client may have closed its socket.
                let _ = writeln!(to, "{answer}");
            }
            call_of(&mut said);
        });
        Agent::begin(ours.into(), LIMIT)
    }

    fn call_of(said: &mut BufReader<UnixStream>) {
        let _ = said.read_until(b'\n', &mut Vec::new());
    }

    #[test]
    fn a_command_ends_with_its_status_and_output() {
        let mut agent = agent(&[
            r#"{"return": {"pid": 42}}"#,
            r#"{"return": {"exited": false}}"#,
            r#"{"return": {"exited": true, "exitcode": 3, "out-data": "aGk=", "err-truncated": true}}"#,
            r#"{"return": {"exited": true, "signal": 9}}"#,
        ])
        .unwrap();
        let number = agent.start("/bin/sh", &["-c", "x"], None, LIMIT).unwrap();
        assert_eq!(number, 42);
        assert_eq!(agent.ended(42, Printed::All, LIMIT).unwrap(), None);
        let ended = agent.ended(42, Printed::All, LIMIT).unwrap().unwrap();
        assert_eq!((ended.status, ended.output.as_slice()), (3, &b"hi"[..]));
        assert!(ended.cut);
        assert_eq!(
            agent
                .ended(42, Printed::All, LIMIT)
                .unwrap()
                .unwrap()
                .status,
            137
        );
    }

    #[test]
    fn file_systems_are_frozen_and_thawed() {
        let mut agent = agent(&[
            r#"{"return": 3}"#,
            r#"{"error": {"desc": "the file systems are frozen already"}}"#,
            r#"{"return": 3}"#,
            r#"{"return": -1}"#,
            r#"{"return": {"frozen": 3}}"#,
            "{",
        ])
        .unwrap();
        assert_eq!(agent.freeze(LIMIT).unwrap(), 3);
        let why = agent.freeze(LIMIT).unwrap_err();
        assert!(matches!(why, Error::Refused { .. }), "{why}");
        assert_eq!(agent.thaw(LIMIT).unwrap(), 3);
        for _ in 0..3 {
            let why = agent.freeze(LIMIT).unwrap_err();
            assert!(matches!(why, Error::Odd { .. }), "{why}");
        }
    }

    #[test]
    fn a_hostile_agent_is_an_error() {
        let mut agent = agent(&[
            r#"{"error": {"desc": "no such\u0007 file"}}"#,
            r#"{"return": {"pid": -1}}"#,
            r#"{"return": {"exited": true, "exitcode": 300, "out-data": 7}}"#,
            r#"{"return": {"exited": true, "exitcode": 300, "out-data": "?"}}"#,
            r#"{"return": {"exited": true, "exitcode": 300, "signal": 300}}"#,
            "[[[[",
        ])
        .unwrap();
        let error = agent.start("/x", &[], None, LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "guest-exec: no such  file");
        assert!(agent.start("/x", &[], None, LIMIT).is_err());
        assert!(agent.ended(1, Printed::All, LIMIT).is_err());
        assert!(agent.ended(1, Printed::All, LIMIT).is_err());
        assert_eq!(
            agent.ended(1, Printed::All, LIMIT).unwrap().unwrap().status,
            255
        );
        assert!(agent.ended(1, Printed::All, LIMIT).is_err());
    }

    #[test]
    fn an_overlong_answer_is_not_kept() {
        let long = |length: usize| {
            let text = "A".repeat(length);
            let said =
                format!(r#"{{"return": {{"exited": true, "exitcode": 0, "out-data": "{text}"}}}}"#);
            &*said.leak()
        };
        // Unknown members of an answer are not kept, whatever their size.
        let odd = format!(
            r#"{{"return": {{"pid": 7, "more": [{}]}}}}"#,
            ["[]"; 10_000].join(",")
        );
        let answers = [&*odd.leak(), long(1 << 20), long(4000), long(1 << 20)];
        let mut agent = agent(Box::leak(Box::new(answers))).unwrap();
        assert_eq!(agent.start("/x", &[], None, LIMIT).unwrap(), 7);
        let ended = agent.ended(1, Printed::All, LIMIT).unwrap().unwrap();
        assert_eq!(ended.output.len(), (1 << 20) / 4 * 3);
        let ended = agent.ended(1, Printed::Little, LIMIT).unwrap().unwrap();
        assert_eq!(ended.output.len(), 3000);
        let error = agent.ended(1, Printed::Little, LIMIT).unwrap_err();
        assert!(matches!(error, Error::Odd { .. }), "{error}");
    }

    #[test]
    fn the_rest_of_an_earlier_answer_is_skipped() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut said = BufReader::new(theirs.try_clone().unwrap());
            let mut call = Vec::new();
            said.read_until(b'\n', &mut call).unwrap();
            let call: Value = serde_json::from_slice(&call[1..]).unwrap();
            for _ in 0..64 {
                theirs.write_all(&[b'A'; 1 << 20]).unwrap();
            }
            let id = &call["arguments"]["id"];
            write!(theirs, "\n{{\"return\": {id}}}\n").unwrap();
            call_of(&mut said);
        });
        // The answer before the sync is longer than the maximum, and is skipped.
        let agent = Agent::begin(ours.into(), LIMIT).unwrap();
        assert!(agent.wire.held() <= 1 << 20, "{}", agent.wire.held());
    }

    #[test]
    fn a_silent_agent_is_reported_as_late() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let error = Agent::begin(ours.into(), Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, Error::Late { .. }), "{error}");
    }
}
