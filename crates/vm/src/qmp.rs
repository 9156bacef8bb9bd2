//! QEMU's monitor (QMP): commands, answers and events, each one a line of JSON.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::wire::{Wire, within};

/// Maximum length in bytes of a line of a reply; usual replies have some thousand bytes.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Maximum number of events that are kept; older ones are dropped.
const MAX_EVENTS: usize = 256;

/// Maximum number of bytes that one call reads for events: a QEMU that writes without end must not
/// keep the caller from other work.
const MAX_EVENT_READ_BYTES: usize = 256 * 1024;

/// The name of the monitor's peer in error messages.
const WHAT: &str = "QEMU";

/// An event that QEMU sends without a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The name of the event, for example `SHUTDOWN`.
    pub name: String,
    /// The data of the event.
    pub data: Value,
}

/// The reason of QEMU for the end of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The guest powered off.
    PowerOff,
    /// The guest restarted.
    Restart,
    /// The kernel of the guest panicked.
    Panic,
    /// A client of the monitor ended QEMU.
    Quit,
    /// A signal that QEMU handles, such as SIGTERM, ended QEMU.
    Signal,
    /// QEMU ended because of an error of the host.
    HostError,
    /// QEMU gave another reason.
    Unknown,
}

impl Cause {
    /// Returns the cause in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::PowerOff => "the guest powered off",
            Self::Restart => "the guest restarted",
            Self::Panic => "the kernel of the guest gave up",
            Self::Quit => "QEMU was told to quit",
            Self::Signal => "QEMU was ended by a signal",
            Self::HostError => "QEMU ended because of an error of the host",
            Self::Unknown => "the machine ended for a reason that is not known here",
        }
    }

    /// Returns true if neither the guest nor the host asked for this end.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Panic | Self::HostError | Self::Unknown)
    }
}

impl Event {
    /// Returns true if the guest asked for a restart.
    #[must_use]
    pub fn is_restart(&self) -> bool {
        self.name == "SHUTDOWN" && self.data["reason"] == "guest-reset"
    }

    /// Returns the reason for the end of the guest, if this event reports its end.
    #[must_use]
    pub fn end(&self) -> Option<Cause> {
        if self.name != "SHUTDOWN" {
            return None;
        }
        Some(match self.data["reason"].as_str().unwrap_or_default() {
            "guest-shutdown" => Cause::PowerOff,
            "guest-reset" => Cause::Restart,
            "guest-panic" => Cause::Panic,
            "host-qmp-quit" => Cause::Quit,
            "host-signal" => Cause::Signal,
            "host-error" => Cause::HostError,
            _ => Cause::Unknown,
        })
    }

    /// Returns true if the event reports that the guest's kernel has panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self.name.as_str(), "GUEST_PANICKED" | "GUEST_CRASHLOADED")
    }

    /// Returns true if the event reports that QEMU paused the guest because of an error of a disk,
    /// such as a full file system.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.name == "BLOCK_IO_ERROR" && self.data["action"] == "stop"
    }
}

/// A connection to QEMU's monitor.
#[derive(Debug)]
pub struct Monitor {
    wire: Wire,
    events: VecDeque<Event>,
    /// The version of QEMU in the greeting.
    version: String,
    /// The number of the last command; QEMU repeats this number in its answer.
    number: u64,
    /// The deadline for all commands together, in addition to the timeout of each command.
    deadline: Option<Instant>,
}

impl Monitor {
    /// Waits for the greeting of QEMU and negotiates the capabilities.
    ///
    /// # Errors
    /// Fails if QEMU sends no greeting within `limit`.
    pub fn greet(socket: OwnedFd, limit: Duration) -> Result<Self, Error> {
        let mut monitor = Self {
            wire: Wire::new(socket, WHAT, MAX_LINE_BYTES),
            events: VecDeque::new(),
            version: String::new(),
            number: 0,
            deadline: None,
        };
        let end = Instant::now() + limit;
        let greeting = within(limit, monitor.receive(end))?;
        let number = &greeting["QMP"]["version"]["qemu"];
        let part = |name: &str| number[name].as_u64();
        let (Some(major), Some(minor), Some(micro)) = (part("major"), part("minor"), part("micro"))
        else {
            return Err(odd("no greeting"));
        };
        monitor.version = format!("{major}.{minor}.{micro}");
        monitor.execute("qmp_capabilities", None, limit)?;
        Ok(monitor)
    }

    /// Sets a deadline for all following commands together; `None` removes the deadline, so that
    /// each command has only its own timeout.
    pub fn hurry(&mut self, end: Option<Instant>) {
        self.deadline = end;
    }

    fn limit(&self, limit: Duration) -> Duration {
        let left = |end: Instant| end.saturating_duration_since(Instant::now());
        self.deadline.map_or(limit, |end| limit.min(left(end)))
    }

    /// Returns the version of the connected QEMU.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the socket of the monitor, to wait for events.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }

    /// Sends a command to QEMU and returns the result.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] and the error of QEMU, and if no answer arrives within
    /// `limit`.
    pub fn execute(
        &mut self,
        command: &str,
        arguments: Option<Value>,
        limit: Duration,
    ) -> Result<Value, Error> {
        let line = self.text(command, arguments);
        let limit = self.limit(limit);
        let end = Instant::now() + limit;
        within(limit, self.wire.send(line.as_bytes(), end))?;
        self.answer(command, limit, end)
    }

    /// Sends a command together with a descriptor, for example `getfd`.
    ///
    /// # Errors
    /// Fails as [`Monitor::execute`] does.
    pub fn execute_with(
        &mut self,
        command: &str,
        arguments: Option<Value>,
        descriptor: BorrowedFd<'_>,
        limit: Duration,
    ) -> Result<Value, Error> {
        let line = self.text(command, arguments);
        let limit = self.limit(limit);
        let end = Instant::now() + limit;
        within(limit, self.wire.send_with(line.as_bytes(), descriptor, end))?;
        self.answer(command, limit, end)
    }

    fn text(&mut self, command: &str, arguments: Option<Value>) -> String {
        self.number += 1;
        let mut line = json!({ "execute": command, "id": self.number });
        if let Some(arguments) = arguments {
            line["arguments"] = arguments;
        }
        format!("{line}\n")
    }

    fn answer(&mut self, command: &str, limit: Duration, end: Instant) -> Result<Value, Error> {
        loop {
            let mut said = within(limit, self.receive(end))?;
            // A late answer to an earlier command that timed out is skipped.
            let another = said["id"].as_u64().is_some_and(|id| id != self.number);
            if self.is_event(&said) || another {
                continue;
            }
            if let Some(done) = said.get_mut("return") {
                return Ok(done.take());
            }
            let why = said["error"]["desc"].as_str();
            return Err(match why {
                Some(why) => Error::Refused {
                    command: command.to_owned(),
                    why: printable(why),
                },
                None => odd("neither an answer nor an event"),
            });
        }
    }

    /// Waits for the next event, up to the time `limit`.
    ///
    /// # Errors
    /// Fails if QEMU has ended, or if no event arrives in time.
    pub fn wait_event(&mut self, limit: Duration) -> Result<Event, Error> {
        let end = Instant::now() + limit;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let said = within(limit, self.receive(end))?;
            self.is_event(&said);
        }
    }

    /// Returns the events that have arrived, oldest first. If many events have arrived, it returns
    /// some of them, and the next call returns others. After an error the connection can no longer
    /// be used; the next call returns the events that arrived before the error.
    ///
    /// # Errors
    /// Fails if QEMU has ended or sends invalid data.
    pub fn events(&mut self) -> Result<Vec<Event>, Error> {
        let mut read = 0;
        loop {
            while let Some(line) = self.wire.take_line()? {
                if !line.is_empty() {
                    self.is_event(&parse(&line)?);
                }
            }
            if read >= MAX_EVENT_READ_BYTES {
                break;
            }
            match self.wire.fill() {
                Ok(0) => break,
                Ok(length) => read += length,
                Err(_) if !self.events.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.events.drain(..).collect())
    }

    fn is_event(&mut self, said: &Value) -> bool {
        let Some(name) = said["event"].as_str() else {
            return false;
        };
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            name: printable(name),
            data: few(&said["data"]),
        });
        true
    }

    fn receive(&mut self, end: Instant) -> Result<Value, Error> {
        loop {
            let line = self.wire.line(end)?;
            if !line.is_empty() {
                return parse(&line);
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

fn parse(line: &[u8]) -> Result<Value, Error> {
    // The JSON parser limits the depth of the data.
    let said: Value = serde_json::from_slice(line).map_err(|error| odd(&error.to_string()))?;
    match said.is_object() {
        true => Ok(said),
        false => Err(odd("no object")),
    }
}

/// Returns the part of an event's data that is kept, which is limited because many events can wait
/// and each can be as long as a line. The callers use only short texts and numbers.
fn few(data: &Value) -> Value {
    const MAX_FIELDS: usize = 16;
    let short = |value: &&Value| match value {
        Value::String(text) => text.len() <= MAX_SHOWN_CHARS,
        other => !other.is_object() && !other.is_array(),
    };
    let all = data.as_object().into_iter().flatten();
    let short = all.filter(|(name, value)| name.len() <= MAX_SHOWN_CHARS && short(value));
    let kept = short.take(MAX_FIELDS);
    Value::Object(
        kept.map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

fn odd(why: &str) -> Error {
    Error::Odd {
        what: WHAT,
        why: why.to_owned(),
    }
}

/// Maximum number of characters of a message from QEMU or the guest that is shown.
const MAX_SHOWN_CHARS: usize = 500;

/// Returns a text from QEMU or the guest in a form that is safe to show on a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_SHOWN_CHARS)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    const GREETING: &str = r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": ""}, "capabilities": []}}"#;
    const LIMIT: Duration = Duration::from_secs(30);

    /// Returns a connection to a test QEMU that sends these lines, whatever the command is.
    fn says(lines: &'static [&'static str]) -> UnixStream {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            for line in lines {
                if theirs.write_all(format!("{line}\r\n").as_bytes()).is_err() {
                    return;
                }
            }
            // The test QEMU reads until the client closes its socket.
            let _ = theirs.read_to_end(&mut Vec::new());
        });
        ours
    }

    #[test]
    fn answers_and_events_are_told_apart() {
        let socket = says(&[
            GREETING,
            r#"{"return": {}}"#,
            r#"{"timestamp": {}, "event": "STOP"}"#,
            r#"{"return": {"status": "paused"}}"#,
            r#"{"event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-reset"}}"#,
            r#"{"error": {"class": "GenericError", "desc": "no\u001b such"}}"#,
        ]);
        let mut monitor = Monitor::greet(socket.into(), LIMIT).unwrap();
        assert_eq!(monitor.version(), "7.2.22");
        let status = monitor.execute("query-status", None, LIMIT).unwrap();
        assert_eq!(status["status"], "paused");
        let error = monitor.execute("x", None, LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "x: no  such");
        let events = monitor.events().unwrap();
        assert_eq!(events[0].name, "STOP");
        assert!(!events[0].is_restart() && events[1].is_restart());
    }

    #[test]
    fn malformed_answers_are_errors() {
        for lines in [
            &["{}"][..],
            &["[]"],
            &["not json"],
            &[r#"{"QMP": {"version": {"qemu": {"major": -1}}}}"#],
            &[GREETING, r#"{"neither": 1}"#],
            &[GREETING, "\"text\""],
        ] {
            let socket = says(lines);
            let error = Monitor::greet(socket.into(), LIMIT).unwrap_err();
            assert!(matches!(error, Error::Odd { .. }), "{lines:?}: {error}");
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || while theirs.write_all(&[b'['; 4096]).is_ok() {});
        let error = Monitor::greet(ours.into(), LIMIT).unwrap_err();
        assert!(matches!(error, Error::Odd { .. }), "{error}");
    }

    /// Returns a connection to a test QEMU that negotiates the capabilities, and then repeats this
    /// text without end.
    fn floods(line: &'static [u8]) -> Monitor {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let agreed = format!("{GREETING}\n{{\"return\": {{}}, \"id\": 1}}\n");
            let _ = theirs.write_all(agreed.as_bytes());
            let many = line.repeat(1 + 65536 / line.len());
            while theirs.write_all(&many).is_ok() {}
        });
        Monitor::greet(ours.into(), LIMIT).unwrap()
    }

    #[test]
    fn endless_events_end_in_a_timeout() {
        for line in [&b"{\"event\": \"E\"}\n"[..], b"\r\n", b"{\"id\": 7}\n"] {
            let mut monitor = floods(line);
            // The test passes only if this call returns.
            let few = Duration::from_millis(20);
            let error = monitor.execute("x", None, few).unwrap_err();
            assert!(matches!(error, Error::Late { .. }), "{error}");
            assert!(monitor.events().unwrap().len() <= MAX_EVENTS);
        }
    }

    #[test]
    fn data_of_an_event_is_bounded() {
        let long = "x".repeat(1000);
        let many = (0..100).map(|number| format!("\"n{number}\": {number}"));
        let many = many.collect::<Vec<_>>().join(",");
        let event = format!(
            "{{\"event\": \"E\", \"data\": {{\"reason\": \"guest-reset\", \"a\": [[],[]], \"long\": \"{long}\", {many}}}}}\n"
        );
        let mut monitor = floods(event.leak().as_bytes());
        let few = Duration::from_millis(20);
        monitor.execute("x", None, few).unwrap_err();
        let events = monitor.events().unwrap();
        let data = events[0].data.as_object().unwrap();
        assert!(data.len() <= 16 && !data.contains_key("a") && !data.contains_key("long"));
    }

    #[test]
    fn all_commands_together_end_in_time() {
        let mut monitor = floods(b"{\"id\": 7}\n");
        let began = Instant::now();
        monitor.hurry(Some(began + Duration::from_millis(50)));
        // The test passes only if these calls return.
        let hour = Duration::from_secs(3600);
        for _ in 0..3 {
            let error = monitor.execute("x", None, hour).unwrap_err();
            assert!(matches!(error, Error::Late { seconds: 0, .. }), "{error}");
        }
        let null = std::fs::File::open("/dev/null").unwrap();
        let error = monitor.execute_with("x", None, null.as_fd(), hour);
        assert!(matches!(error, Err(Error::Late { .. })), "{error:?}");
        monitor.hurry(None);
        assert_eq!(monitor.limit(hour), hour);
    }

    #[test]
    fn a_qemu_that_does_not_read_times_out() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let agreed = format!("{GREETING}\n{{\"return\": {{}}}}\n");
        theirs.write_all(agreed.as_bytes()).unwrap();
        let mut monitor = Monitor::greet(ours.into(), LIMIT).unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let few = Duration::from_millis(20);
        let many = json!("x".repeat(8 << 20));
        let error = monitor.execute("x", Some(many), few).unwrap_err();
        assert!(matches!(error, Error::Late { .. }), "{error}");
        // QEMU has received half a line, and would take any later bytes for the rest of this line,
        // so the connection is closed.
        let error = monitor.execute_with("getfd", None, null.as_fd(), few);
        assert!(matches!(error, Err(Error::Closed(_))), "{error:?}");
    }

    #[test]
    fn descriptors_wait_no_longer_than_others() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let agreed = format!("{GREETING}\n{{\"return\": {{}}}}\n");
        theirs.write_all(agreed.as_bytes()).unwrap();
        let mut monitor = Monitor::greet(ours.into(), LIMIT).unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let few = Duration::from_millis(1);
        // The test QEMU reads nothing, so after some hundred commands the socket's buffer is full.
        let other =
            (0..500).find_map(
                |_| match monitor.execute_with("getfd", None, null.as_fd(), few) {
                    Err(Error::Late { .. }) => None,
                    other => Some(other),
                },
            );
        // Each command timed out, or half a line was sent and the connection was closed.
        assert!(matches!(other, None | Some(Err(Error::Closed(_)))));
    }

    #[test]
    fn a_late_answer_is_of_the_command_before() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut asked = BufReader::new(theirs.try_clone().unwrap()).lines();
            writeln!(theirs, "{GREETING}").unwrap();
            asked.next();
            writeln!(theirs, r#"{{"return": {{}}, "id": 1}}"#).unwrap();
            asked.by_ref().take(3).for_each(drop);
            for (what, id) in [("return", 2), ("error", 3), ("return", 4)] {
                let said = json!({ what: { "desc": id }, "id": id });
                writeln!(theirs, "{said}").unwrap();
            }
            asked.next();
        });
        let mut monitor = Monitor::greet(ours.into(), LIMIT).unwrap();
        for _ in 0..2 {
            let error = monitor.execute("x", None, Duration::ZERO).unwrap_err();
            assert!(matches!(error, Error::Late { .. }), "{error}");
        }
        assert_eq!(monitor.execute("y", None, LIMIT).unwrap()["desc"], 4);
    }

    #[test]
    fn depth_is_bounded() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let deep = format!("{{\"a\":{}\n", "[".repeat(100_000));
        std::thread::spawn(move || {
            let _ = theirs.write_all(deep.as_bytes());
            let _ = theirs.read_to_end(&mut Vec::new());
        });
        let error = Monitor::greet(ours.into(), LIMIT).unwrap_err();
        assert!(matches!(error, Error::Odd { .. }), "{error}");
    }

    #[test]
    fn silence_and_an_end_are_told() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let error = Monitor::greet(ours.into(), Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, Error::Late { .. }), "{error}");
        let (ours, _) = UnixStream::pair().unwrap();
        drop(theirs);
        let error = Monitor::greet(ours.into(), LIMIT).unwrap_err();
        assert!(matches!(error, Error::Closed(_)), "{error}");
    }

    #[test]
    fn a_flood_of_events_keeps_the_newest() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut text = format!("{GREETING}\n{{\"return\": {{}}}}\n");
        for number in 0..1000 {
            text.push_str(&format!("{{\"event\": \"E{number}\"}}\n"));
        }
        text.push_str("{\"return\": 1}\n");
        std::thread::spawn(move || {
            let _ = theirs.write_all(text.as_bytes());
            let _ = theirs.read_to_end(&mut Vec::new());
        });
        let mut monitor = Monitor::greet(ours.into(), LIMIT).unwrap();
        monitor.execute("x", None, LIMIT).unwrap();
        let events = monitor.events().unwrap();
        assert_eq!(events.len(), MAX_EVENTS);
        assert_eq!(events.last().unwrap().name, "E999");
    }
}
