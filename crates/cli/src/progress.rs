//! Prints the progress and the errors of a command as lines of JSON, for programs.
//!
//! After [`as_json`], all that the command prints passes through this module: each line on standard
//! output becomes a step, and each line on standard error a message. [`end`] prints the last line,
//! with the exit status. Each line is one object:
//!
//! | line | keys |
//! |---|---|
//! | a step | `zone`, `verb`, `step`, and for countable steps `done`, `total`, `unit` |
//! | a message | `zone`, `verb`, `message` |
//! | the last line | `zone`, `verb`, `error` (null, or the text of the error), `status` |
//!
//! `zone` is null if the line is about no zone, or about several.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::stdio::{stderr, stdout};
use serde::Serialize;

use crate::{output, status};

/// Maximum length of a line, in bytes. A longer line, which a delegated command may relay from a
/// zone, is divided.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Maximum number of messages that the last line repeats as its error: the last ones, because the
/// reason of a failure comes at the end.
const MAX_ERROR_LINES: usize = 100;

/// The option that asks for lines of JSON.
pub const OPTION: &str = "progress";

/// The form that [`OPTION`] takes.
pub const FORM: &str = "json";

static PROGRESS: OnceLock<Progress> = OnceLock::new();

struct Progress {
    verb: String,
    /// The zone of a command that acts on one zone.
    zone: Option<String>,
    /// True if standard output carries other data.
    on_stderr: bool,
    parts: Mutex<Parts>,
}

#[derive(Default)]
struct Parts {
    /// The begin of a line of each stream: standard output, standard error.
    begun: [Vec<u8>; 2],
    /// The messages that are no warnings, for the last line.
    errors: VecDeque<String>,
    has_ended: bool,
}

/// The stream on which a text was to be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

#[derive(Serialize)]
struct Line<'a> {
    zone: Option<&'a str>,
    verb: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
}

#[derive(Serialize)]
struct Last<'a> {
    zone: Option<&'a str>,
    verb: &'a str,
    error: Option<&'a str>,
    status: u8,
}

/// Turns all later output of the command `verb` into lines of JSON. `zone` is the zone of a command
/// that acts on one zone. The lines go to standard error if `on_stderr` is true, because standard
/// output then carries other data.
pub fn as_json(verb: &str, zone: Option<&str>, on_stderr: bool) {
    let _ = PROGRESS.set(Progress {
        verb: verb.to_owned(),
        zone: zone.map(str::to_owned),
        on_stderr,
        parts: Mutex::default(),
    });
}

/// Returns true if the output is lines of JSON.
#[must_use]
pub fn is_json() -> bool {
    PROGRESS.get().is_some()
}

/// Prints a step of a zone as a line of JSON. Returns false if the output is plain text, and then
/// prints nothing.
#[must_use]
pub fn step(zone: &str, step: &str) -> bool {
    PROGRESS.get().is_some_and(|progress| {
        progress.line(Line {
            step: Some(step),
            ..progress.about(Some(zone))
        });
        true
    })
}

/// Prints how much of a step is done as a line of JSON. Returns false if the output is plain text,
/// and then prints nothing.
#[must_use]
pub fn amount(zone: Option<&str>, step: &str, done: u64, total: Option<u64>, unit: &str) -> bool {
    PROGRESS.get().is_some_and(|progress| {
        progress.line(Line {
            step: Some(step),
            done: Some(done),
            total,
            unit: Some(unit),
            ..progress.about(zone)
        });
        true
    })
}

/// Takes bytes that were to be printed. Returns false if the output is plain text.
pub(crate) fn take(stream: Stream, bytes: &[u8]) -> bool {
    PROGRESS.get().is_some_and(|progress| {
        progress.take(stream, bytes);
        true
    })
}

/// Takes bytes that a program printed for this command. Returns false if they must be copied as they
/// are: text, or the data of a command that writes data to standard output.
pub(crate) fn relay(stream: Stream, bytes: &[u8]) -> bool {
    let is_data = |progress: &Progress| stream == Stream::Output && progress.on_stderr;
    !PROGRESS.get().is_none_or(is_data) && take(stream, bytes)
}

/// Returns true if the lines of JSON go to standard output.
pub(crate) fn is_on_stdout() -> bool {
    PROGRESS.get().is_some_and(|progress| !progress.on_stderr)
}

/// Prints the begun lines of both streams.
pub(crate) fn finish() {
    if let Some(progress) = PROGRESS.get() {
        progress.finish();
    }
}

/// Prints the last line: the exit status of the command, and its error.
pub(crate) fn end(status: u8) {
    if let Some(progress) = PROGRESS.get() {
        progress.end(status);
    }
}

impl Progress {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn about<'a>(&'a self, zone: Option<&'a str>) -> Line<'a> {
        Line {
            zone: zone.or(self.zone.as_deref()),
            verb: &self.verb,
            step: None,
            message: None,
            done: None,
            total: None,
            unit: None,
        }
    }

    fn line(&self, line: impl Serialize) {
        // A line always has a form in JSON.
        let Ok(mut text) = serde_json::to_vec(&line) else {
            return;
        };
        text.push(b'\n');
        if self.on_stderr {
            let _ = output::write_all(stderr(), &text);
        } else if let Err(errno) = output::write_all(stdout(), &text) {
            output::lost(errno);
        }
    }

    fn take(&self, stream: Stream, mut bytes: &[u8]) {
        let mut lines = Vec::new();
        {
            let mut parts = self.parts();
            let begun = &mut parts.begun[stream as usize];
            while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                begun.extend_from_slice(&bytes[..end]);
                lines.push(std::mem::take(begun));
                bytes = &bytes[end + 1..];
            }
            begun.extend_from_slice(bytes);
            if begun.len() > MAX_LINE_BYTES {
                lines.push(std::mem::take(begun));
            }
        }
        for line in lines {
            self.whole(stream, &line);
        }
    }

    /// Prints a whole line of a stream.
    fn whole(&self, stream: Stream, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let (zone, text) = about(text.trim_end());
        if text.is_empty() {
            return;
        }
        let about = self.about(zone);
        match stream {
            Stream::Output => self.line(Line {
                step: Some(text),
                ..about
            }),
            Stream::Error => {
                let is_warning = text.to_ascii_uppercase().starts_with("WARNING");
                let mut parts = self.parts();
                if !is_warning {
                    if parts.errors.len() == MAX_ERROR_LINES {
                        parts.errors.pop_front();
                    }
                    parts.errors.push_back(text.to_owned());
                }
                drop(parts);
                self.line(Line {
                    message: Some(text),
                    ..about
                });
            }
        }
    }

    fn finish(&self) {
        let rest = std::mem::take(&mut self.parts().begun);
        for (stream, line) in [Stream::Output, Stream::Error].into_iter().zip(rest) {
            self.whole(stream, &line);
        }
    }

    fn end(&self, status: u8) {
        let errors = {
            let mut parts = self.parts();
            if std::mem::replace(&mut parts.has_ended, true) {
                return;
            }
            Vec::from(std::mem::take(&mut parts.errors)).join("\n")
        };
        self.line(Last {
            zone: self.zone.as_deref(),
            verb: &self.verb,
            error: (status != status::OK).then_some(errors.as_str()),
            status,
        });
    }
}

/// Divides a line `program: zone 'NAME': text` into the name and the text. Other lines are about no
/// particular zone.
fn about(line: &str) -> (Option<&str>, &str) {
    let is_program = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    let text = match line.split_once(": ") {
        Some((program, text)) if is_program(program) => text,
        _ => line,
    };
    let named = text
        .strip_prefix("zone '")
        .and_then(|rest| rest.split_once("': "));
    match named {
        Some((zone, text)) => (Some(zone), text),
        None => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_of_a_line_is_found() {
        for (line, zone, text) in [
            (
                "zoneadm: zone 'web1': not enough room",
                Some("web1"),
                "not enough room",
            ),
            (
                "zone 'web1': cpu-cap: 1 to 2",
                Some("web1"),
                "cpu-cap: 1 to 2",
            ),
            ("zoneadm: clone: 3 of 9 zones", None, "clone: 3 of 9 zones"),
            ("Copied 3 entries.", None, "Copied 3 entries."),
            ("Storage: ZFS", None, "Storage: ZFS"),
            ("", None, ""),
        ] {
            assert_eq!(about(line), (zone, text), "{line}");
        }
    }

    #[test]
    fn a_line_is_an_object_with_the_keys_that_it_needs() {
        let progress = Progress {
            verb: "install".to_owned(),
            zone: Some("web1".to_owned()),
            on_stderr: false,
            parts: Mutex::default(),
        };
        let line = Line {
            step: Some("Unpacking \"x\"\u{1b}"),
            done: Some(3),
            unit: Some("bytes"),
            ..progress.about(None)
        };
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            r#"{"zone":"web1","verb":"install","step":"Unpacking \"x\"\u001b","done":3,"unit":"bytes"}"#
        );
        let last = Last {
            zone: None,
            verb: "clone",
            error: Some("no room"),
            status: 1,
        };
        assert_eq!(
            serde_json::to_string(&last).unwrap(),
            r#"{"zone":null,"verb":"clone","error":"no room","status":1}"#
        );
    }

    #[test]
    fn pieces_of_lines_are_put_together_and_warnings_are_no_errors() {
        let progress = Progress {
            verb: "boot".to_owned(),
            zone: None,
            on_stderr: true,
            parts: Mutex::default(),
        };
        progress.take(Stream::Error, b"zoneadm: zone 'a': WARN");
        progress.take(Stream::Error, b"ING: odd\nzoneadm: zone 'a': is gone\nre");
        progress.take(Stream::Error, b"st\n");
        let parts = progress.parts();
        assert_eq!(parts.errors, ["is gone", "rest"]);
        assert!(parts.begun.iter().all(Vec::is_empty));
        drop(parts);
        // Of many messages, the last line repeats the last ones.
        for number in 0..250 {
            progress.take(Stream::Error, format!("error {number}\n").as_bytes());
        }
        let parts = progress.parts();
        assert_eq!(parts.errors.len(), MAX_ERROR_LINES);
        assert_eq!(parts.errors.front().unwrap(), "error 150");
        assert_eq!(parts.errors.back().unwrap(), "error 249");
    }
}
