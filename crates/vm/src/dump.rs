//! Writes the memory of a guest to a file that kernel debuggers can read.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Error;
use crate::qmp::Monitor;

/// Timeout of a QEMU command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of the whole dump, chosen for much memory and slow disks.
pub const DUMP_TIMEOUT: Duration = Duration::from_secs(3600);

/// Interval between checks of the progress. QEMU also sends an event at the end, but reading events
/// here would take them from other readers.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The name under which QEMU knows the descriptor of the dump file.
const NAME: &str = "core";

/// The dump format, compressed page by page. QEMU writes it to a pipe in the form that
/// makedumpfile(8) uses for a pipe.
const FORMAT: &str = "kdump-zlib";

/// Writes the memory and the registers of a guest to an empty file. The guest is paused during the
/// dump, and runs on afterwards if it ran before.
///
/// # Errors
/// Fails with [`Error::Refused`] and the error of QEMU.
pub fn write(monitor: &mut Monitor, file: BorrowedFd<'_>) -> Result<(), Error> {
    let name = json!({ "fdname": NAME });
    monitor.execute_with("getfd", Some(name), file, COMMAND_TIMEOUT)?;
    let order = json!({
        "paging": false,
        "protocol": format!("fd:{NAME}"),
        "detach": true,
        "format": FORMAT,
    });
    if let Err(error) = monitor.execute("dump-guest-memory", Some(order), COMMAND_TIMEOUT) {
        let _ = monitor.execute("closefd", Some(json!({ "fdname": NAME })), COMMAND_TIMEOUT);
        return Err(error);
    }
    let end = Instant::now() + DUMP_TIMEOUT;
    loop {
        let said = monitor.execute("query-dump", None, COMMAND_TIMEOUT)?;
        match said["status"].as_str() {
            Some("active") if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
            Some("completed") => return Ok(()),
            Some("active") => {
                return Err(Error::Late {
                    what: "the memory of the machine",
                    seconds: DUMP_TIMEOUT.as_secs(),
                });
            }
            _ => {
                return Err(Error::Refused {
                    command: "dump-guest-memory".to_owned(),
                    why: "it failed: is there room for it?".to_owned(),
                });
            }
        }
    }
}
