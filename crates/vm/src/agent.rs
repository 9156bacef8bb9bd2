//! The agent in the guest: commands there, over a virtual serial port.
//!
//! This is the protocol of QEMU's guest agent, as far as it is needed; ours in the
//! guest speaks the same. The guest is hostile: an answer is bounded, and nothing in it
//! is believed to be more than a text and a number for whoever asked.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wire::{Wire, within};
use crate::{Error, base64, qmp};

/// Longest line of an answer: the agent's own bound for a command's output is 16 MiB,
/// which base64 makes longer, and there are two outputs.
const LONGEST: usize = 48 << 20;

const WHAT: &str = "the agent in the zone";

/// What came of a command in the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status, or 128 and the signal that ended it.
    pub status: u8,
    /// What it wrote to its standard output.
    pub output: Vec<u8>,
    /// What it wrote to its standard error.
    pub errors: Vec<u8>,
    /// Whether some of that was left out.
    pub cut: bool,
}

/// A conversation with the agent.
#[derive(Debug)]
pub struct Agent {
    wire: Wire,
}

impl Agent {
    /// Begins a conversation. What is left of an earlier one is thrown away.
    ///
    /// # Errors
    /// When nobody answers within `limit`.
    pub fn begin(socket: OwnedFd, limit: Duration) -> Result<Self, Error> {
        let mut agent = Self {
            wire: Wire::new(socket, WHAT, LONGEST),
        };
        let end = Instant::now() + limit;
        let mut number = [0; 4];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::Io("get random bytes".to_owned(), errno.into()))?;
        let id = u32::from_be_bytes(number) >> 1;
        // A byte that is in no JSON makes the agent forget what it has read so far.
        let mut call = vec![0xff];
        call.extend(line("guest-sync", Some(json!({ "id": id }))));
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

    /// Starts a program; returns the agent's number for it.
    ///
    /// # Errors
    /// [`Error::Refused`] when it cannot be started.
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
        let said = self.ask("guest-exec", Some(what), limit)?;
        said["pid"].as_u64().ok_or_else(|| odd("no process number"))
    }

    /// What came of a program that was started; `None` while it runs.
    ///
    /// # Errors
    /// When the agent does not know it.
    pub fn ended(&mut self, number: u64, limit: Duration) -> Result<Option<Ended>, Error> {
        let said = self.ask("guest-exec-status", Some(json!({ "pid": number })), limit)?;
        if said["exited"] != true {
            return Ok(None);
        }
        let bytes = |name: &str| match &said[name] {
            Value::Null => Ok(Vec::new()),
            Value::String(text) => base64::decode(text).ok_or_else(|| odd("not base64")),
            _ => Err(odd("an output that is no text")),
        };
        let byte = |name: &str| said[name].as_u64().and_then(|code| u8::try_from(code).ok());
        let status = byte("exitcode").or_else(|| Some(128_u8.saturating_add(byte("signal")?)));
        Ok(Some(Ended {
            status: status.unwrap_or(u8::MAX),
            output: bytes("out-data")?,
            errors: bytes("err-data")?,
            cut: said["out-truncated"] == true || said["err-truncated"] == true,
        }))
    }

    /// Asks the guest to power off; there is no answer to that.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn power_off(&self, limit: Duration) -> Result<(), Error> {
        let call = line("guest-shutdown", Some(json!({ "mode": "powerdown" })));
        within(limit, self.wire.send(&call, Instant::now() + limit))
    }

    fn ask(
        &mut self,
        command: &str,
        arguments: Option<Value>,
        limit: Duration,
    ) -> Result<Value, Error> {
        let end = Instant::now() + limit;
        within(limit, self.wire.send(&line(command, arguments), end))?;
        let said = within(limit, self.wire.line(end))?;
        let mut said: Value =
            serde_json::from_slice(&said).map_err(|error| odd(&error.to_string()))?;
        if let Some(done) = said.get_mut("return") {
            return Ok(done.take());
        }
        match said["error"]["desc"].as_str() {
            Some(why) => Err(Error::Refused {
                command: command.to_owned(),
                why: qmp::printable(why),
            }),
            None => Err(odd("neither an answer nor an error")),
        }
    }
}

fn line(command: &str, arguments: Option<Value>) -> Vec<u8> {
    let mut call = json!({ "execute": command });
    if let Some(arguments) = arguments {
        call["arguments"] = arguments;
    }
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

    /// An agent that answers a sync properly and then says these lines.
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
                writeln!(to, "{answer}").unwrap();
            }
            call_of(&mut said);
        });
        Agent::begin(ours.into(), LIMIT)
    }

    fn call_of(said: &mut BufReader<UnixStream>) {
        let _ = said.read_until(b'\n', &mut Vec::new());
    }

    #[test]
    fn a_command_and_what_came_of_it() {
        let mut agent = agent(&[
            r#"{"return": {"pid": 42}}"#,
            r#"{"return": {"exited": false}}"#,
            r#"{"return": {"exited": true, "exitcode": 3, "out-data": "aGk=", "err-truncated": true}}"#,
            r#"{"return": {"exited": true, "signal": 9}}"#,
        ])
        .unwrap();
        let number = agent.start("/bin/sh", &["-c", "x"], None, LIMIT).unwrap();
        assert_eq!(number, 42);
        assert_eq!(agent.ended(42, LIMIT).unwrap(), None);
        let ended = agent.ended(42, LIMIT).unwrap().unwrap();
        assert_eq!((ended.status, ended.output.as_slice()), (3, &b"hi"[..]));
        assert!(ended.cut);
        assert_eq!(agent.ended(42, LIMIT).unwrap().unwrap().status, 137);
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
        assert!(agent.ended(1, LIMIT).is_err());
        assert!(agent.ended(1, LIMIT).is_err());
        assert_eq!(agent.ended(1, LIMIT).unwrap().unwrap().status, 255);
        assert!(agent.ended(1, LIMIT).is_err());
    }

    #[test]
    fn nobody_there_is_told() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let error = Agent::begin(ours.into(), Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, Error::Late { .. }), "{error}");
    }
}
