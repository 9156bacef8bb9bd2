//! zoneagent: runs commands for zlogin in the guest of a kernel zone.
//!
//! A guest with QEMU's own guest agent does not need zoneagent. zoneagent is a small static
//! program, and implements the part of the same protocol that zlogin and zoneadm use. It
//! obeys root of the host, who controls the guest anyway.

mod freeze;
mod job;
mod port;

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

use freeze::{FileSystems, Freezer, Kernel, MAX_FROZEN};
use job::Jobs;
use port::Port;

const USAGE: &str = "\
usage: zoneagent [DEVICE]

Runs in the guest of a kernel zone, as root, and starts the commands of zlogin. It
reads requests from DEVICE, a virtual serial port. Without DEVICE it waits up to one
minute for the port org.qemu.guest_agent.0.

Exit status: 1 the port does not exist or cannot be read, 2 usage.

example: zoneagent &
";

/// Maximum size of a request, in bytes: a command and 1 MiB of input for it, in base64.
const MAX_REQUEST_BYTES: usize = 4 << 20;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let device = match (words.next(), words.next()) {
        (None, _) => None,
        (Some(word), None) if word.starts_with('/') => Some(word),
        (Some(word), None) if matches!(word.as_str(), "--help" | "-?" | "--version") => {
            let version = concat!("zoneagent ", env!("CARGO_PKG_VERSION"), "\n");
            let text = if word == "--version" { version } else { USAGE };
            return match io::stdout().write_all(text.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    let text = "zoneagent: could not write to standard output";
                    complain(&format!("{text}: {error}\n"));
                    ExitCode::FAILURE
                }
            };
        }
        _ => {
            complain(USAGE);
            return ExitCode::from(2);
        }
    };
    let mut port = match Port::open(device) {
        Ok(port) => port,
        Err(error) => {
            complain(&format!("zoneagent: {error}\n"));
            return ExitCode::FAILURE;
        }
    };
    let mut jobs = Jobs::default();
    let freezer = Freezer::new(Kernel, MAX_FROZEN);
    loop {
        let line = match port.line(MAX_REQUEST_BYTES) {
            Ok(line) => line,
            Err(error) => {
                complain(&format!("zoneagent: {error}\n"));
                return ExitCode::FAILURE;
            }
        };
        let Some(answer) = answer(&line, &mut jobs, &freezer) else {
            continue;
        };
        // The write fails if the client has ended.
        let _ = port.write_all(format!("{answer}\n").as_bytes());
    }
}

/// Prints on standard error. A failed write is ignored, so that it causes no panic.
fn complain(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

fn answer(line: &[u8], jobs: &mut Jobs, freezer: &Freezer<impl FileSystems>) -> Option<Value> {
    let call: Value = match serde_json::from_slice(line) {
        Ok(call) => call,
        Err(error) => return Some(refusal(&format!("not a request: {error}"))),
    };
    let arguments = &call["arguments"];
    let done = match call["execute"].as_str() {
        Some("guest-sync" | "guest-sync-delimited") => Ok(arguments["id"].clone()),
        Some("guest-ping") => Ok(json!({})),
        Some("guest-info") => Ok(json!({ "version": env!("CARGO_PKG_VERSION") })),
        // A program could wait for a frozen file system, and the agent with it.
        Some("guest-exec" | "guest-shutdown") if freezer.is_frozen() => {
            Err("the file systems are frozen: thaw them first".to_owned())
        }
        Some("guest-fsfreeze-freeze") => freezer.freeze().map(|count| json!(count)),
        Some("guest-fsfreeze-thaw") => Ok(json!(freezer.thaw())),
        Some("guest-fsfreeze-status") => Ok(json!(match freezer.is_frozen() {
            true => "frozen",
            false => "thawed",
        })),
        Some("guest-exec") => jobs.start(arguments),
        Some("guest-exec-status") => jobs.status(arguments),
        Some("guest-shutdown") => match shut_down(arguments) {
            Ok(()) => return None,
            Err(error) => Err(error),
        },
        Some(other) => Err(format!("the command {other} is not known")),
        None => Err("no command".to_owned()),
    };
    Some(match done {
        Ok(value) => json!({ "return": value }),
        Err(why) => refusal(&why),
    })
}

fn refusal(why: &str) -> Value {
    json!({ "error": { "class": "GenericError", "desc": why } })
}

/// Starts the guest's own command for shutdown.
fn shut_down(arguments: &Value) -> Result<(), String> {
    let command = match arguments["mode"].as_str() {
        None | Some("powerdown") => "poweroff",
        Some("reboot") => "reboot",
        Some("halt") => "halt",
        Some(other) => return Err(format!("the mode {other} is not known")),
    };
    std::process::Command::new(command)
        .spawn()
        .map(drop)
        .map_err(|error| format!("{command}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(jobs: &mut Jobs, call: &Value) -> Value {
        let freezer = Freezer::new(Nothing, MAX_FROZEN);
        answer(call.to_string().as_bytes(), jobs, &freezer).unwrap()
    }

    /// A machine with one file system.
    struct Nothing;

    impl FileSystems for Nothing {
        type One = ();

        fn mounted(&self) -> io::Result<Vec<()>> {
            Ok(vec![()])
        }

        fn freeze(&self, (): &()) -> io::Result<bool> {
            Ok(true)
        }

        fn thaw(&self, (): &()) -> io::Result<()> {
            Ok(())
        }

        fn name(&self, (): &()) -> String {
            "/".to_owned()
        }
    }

    #[test]
    fn a_frozen_guest_starts_no_program() {
        let freezer = Freezer::new(Nothing, MAX_FROZEN);
        let mut jobs = Jobs::default();
        let mut say = |command: &str| {
            let call = json!({ "execute": command, "arguments": { "path": "/bin/true" } });
            let said = answer(call.to_string().as_bytes(), &mut jobs, &freezer).unwrap();
            match said["error"]["desc"].as_str() {
                Some(why) => json!(why),
                None => said["return"].clone(),
            }
        };
        assert_eq!(say("guest-fsfreeze-status"), "thawed");
        assert_eq!(say("guest-fsfreeze-freeze"), 1);
        assert_eq!(say("guest-fsfreeze-status"), "frozen");
        for refused in ["guest-exec", "guest-shutdown", "guest-fsfreeze-freeze"] {
            let why = say(refused);
            assert!(why.as_str().unwrap().contains("frozen"), "{why}");
        }
        assert_eq!(say("guest-ping"), json!({}));
        assert_eq!(say("guest-fsfreeze-thaw"), 1);
        assert!(say("guest-exec")["pid"].is_u64());
    }

    #[test]
    fn a_command_runs_and_its_output_is_kept() {
        let mut jobs = Jobs::default();
        let started = ask(
            &mut jobs,
            &json!({ "execute": "guest-exec", "arguments": {
                "path": "/bin/sh", "arg": ["-c", "cat; echo no >&2; exit 3"],
                "input-data": "aGk=", "capture-output": true } }),
        );
        let pid = started["return"]["pid"].as_u64().unwrap();
        let status = json!({ "execute": "guest-exec-status", "arguments": { "pid": pid } });
        let ended = loop {
            let said = ask(&mut jobs, &status);
            if said["return"]["exited"] == true {
                break said["return"].clone();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert_eq!(ended["exitcode"], 3);
        assert_eq!(ended["out-data"], "aGk=");
        assert_eq!(ended["err-data"], "bm8K");
        // The status of an ended program is returned only once.
        assert!(ask(&mut jobs, &status)["error"].is_object());
    }

    #[test]
    fn unknown_requests_are_refused() {
        let mut jobs = Jobs::default();
        for call in [
            json!({ "execute": "guest-what" }),
            json!({}),
            json!([1]),
            json!({ "execute": "guest-exec", "arguments": {} }),
            json!({ "execute": "guest-exec", "arguments": { "path": "/no/such" } }),
            json!({ "execute": "guest-exec", "arguments": { "path": "/bin/sh", "input-data": "?" } }),
            json!({ "execute": "guest-exec-status", "arguments": { "pid": 1 } }),
            json!({ "execute": "guest-shutdown", "arguments": { "mode": "?" } }),
        ] {
            assert!(ask(&mut jobs, &call)["error"].is_object(), "{call}");
        }
        let freezer = Freezer::new(Nothing, MAX_FROZEN);
        assert!(answer(b"{", &mut jobs, &freezer).unwrap()["error"].is_object());
        assert_eq!(
            ask(
                &mut jobs,
                &json!({ "execute": "guest-sync", "arguments": { "id": 7 } })
            ),
            json!({ "return": 7 })
        );
    }
}
