//! Handles a guest that is paused because the file system of its disks is full. QEMU stops the
//! guest during the write, and repeats the write when the guest is resumed.

use std::time::Duration;

use crate::Error;
use crate::qmp::Monitor;

/// Timeout of a QEMU command; it is short, because the caller has other work.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns true if the guest is paused because of a full file system or another disk error.
///
/// # Errors
/// Fails if QEMU does not answer.
pub fn stands(monitor: &mut Monitor) -> Result<bool, Error> {
    let status = monitor.execute("query-status", None, COMMAND_TIMEOUT)?;
    Ok(status["status"] == "io-error")
}

/// Resumes a guest that was paused because of a disk error; a guest that is paused for another
/// reason stays paused. If the write fails again, QEMU sends an event.
///
/// # Errors
/// Fails if QEMU does not answer.
pub fn retry(monitor: &mut Monitor) -> Result<(), Error> {
    match stands(monitor)? {
        true => monitor.execute("cont", None, COMMAND_TIMEOUT).map(drop),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;

    use serde_json::{Value, json};

    use super::*;

    /// Returns the commands that `retry` sends to a QEMU with this status.
    fn told(status: &'static str) -> Vec<String> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let qemu = std::thread::spawn(move || {
            let version = json!({ "major": 7, "minor": 2, "micro": 22 });
            writeln!(
                theirs,
                "{}",
                json!({ "QMP": { "version": { "qemu": version } } })
            )
            .unwrap();
            let mut told = Vec::new();
            for line in BufReader::new(theirs.try_clone().unwrap()).lines() {
                let call: Value = serde_json::from_str(&line.unwrap()).unwrap();
                told.push(call["execute"].as_str().unwrap().to_owned());
                let said = json!({ "return": { "status": status }, "id": call["id"] });
                writeln!(theirs, "{said}").unwrap();
            }
            told
        });
        let mut monitor = Monitor::greet(ours.into(), Duration::from_secs(30)).unwrap();
        retry(&mut monitor).unwrap();
        drop(monitor);
        qemu.join().unwrap()
    }

    #[test]
    fn only_a_machine_paused_by_an_io_error_is_resumed() {
        let asked = ["qmp_capabilities", "query-status"];
        assert_eq!(told("io-error"), [&asked[..], &["cont"]].concat());
        for other in ["paused", "postmigrate", "running"] {
            assert_eq!(told(other), asked, "{other}");
        }
    }
}
