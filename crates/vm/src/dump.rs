//! The memory of a machine, into a file that debuggers of kernels read.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Error;
use crate::qmp::Monitor;

/// Timeout of a command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of the whole dump: much memory, slow disks.
pub const DUMP_TIMEOUT: Duration = Duration::from_secs(3600);

/// Interval between looks at the progress: there is an event at the end, but the events that others
/// wait for must stay.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The name by which QEMU knows our descriptor.
const NAME: &str = "core";

/// Packed page by page; QEMU writes it as makedumpfile(8) does to a pipe.
const FORMAT: &str = "kdump-zlib";

/// Writes the memory and the registers of a machine to an empty file. The machine stands
/// still until that is done, and then goes on if it ran.
///
/// # Errors
/// [`Error::Refused`] with the error of QEMU.
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
