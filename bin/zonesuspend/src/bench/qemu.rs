//! Measures how fast QEMU writes the same memory to a file. A virtual machine that never runs has
//! it as its memory, and QEMU migrates the machine to a file.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use serde_json::json;
use vm::qmp::Monitor;

use super::memory::Memory;
use super::trial::Rate;

/// Timeout of a QMP command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of a migration: enough for the slowest program with the largest memory.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(1800);

const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The ways to write the memory: their names, and the program through which QEMU pipes the memory.
pub const WAYS: [(&str, Option<&str>); 3] = [
    ("plain", None),
    ("zstd -T0", Some("zstd -T0 -q -c")),
    ("zstd -1 -T0", Some("zstd -1 -T0 -q -c")),
];

/// The way of QEMU that our suspend must beat.
pub const TELLING: &str = "zstd -T0";

/// Memory that was written to a file.
pub struct Written {
    pub written: Rate,
    pub synced: Rate,
    /// The rate of the file, in the time until it was synced.
    pub stored: Rate,
}

/// A QEMU process that has the memory.
struct Qemu {
    child: Child,
    monitor: Monitor,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes a file when it is dropped.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Makes QEMU write the memory to a file beside `path`, through a program if one is given.
pub fn write(path: &Path, memory: &Memory, through: Option<&str>) -> Result<Written> {
    let beside = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        Remove(PathBuf::from(name))
    };
    let (whole, socket) = (beside(".qemu"), beside(".socket"));
    let mut qemu = start(memory, &socket.0)?;
    let monitor = &mut qemu.monitor;
    let limits = json!({ "max-bandwidth": 1_u64 << 40 });
    monitor.execute("migrate-set-parameters", Some(limits), COMMAND_TIMEOUT)?;
    let name = whole.0.to_str().context("a path that is no UTF-8")?;
    let began = Instant::now();
    let file = match through {
        None => {
            let file = File::create_new(&whole.0)?;
            let given = json!({ "fdname": "file" });
            monitor.execute_with("getfd", Some(given), file.as_fd(), COMMAND_TIMEOUT)?;
            migrate(monitor, "fd:file")?;
            file
        }
        Some(program) => {
            // When QEMU reports the end, data may still be in the program's pipe: the file gets its
            // name after the program has ended.
            let _part = beside(".qemu-part");
            let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
            let part = quoted(&format!("{name}-part"));
            let command = format!("exec:{program} >{part} && mv {part} {}", quoted(name));
            migrate(monitor, &command)?;
            while !whole.0.exists() {
                if began.elapsed() > MIGRATION_TIMEOUT {
                    bail!("{program} does not end");
                }
                std::thread::sleep(POLL_INTERVAL);
            }
            File::open(&whole.0)?
        }
    };
    let written = began.elapsed();
    file.sync_all()?;
    let synced = began.elapsed();
    let stored = usize::try_from(file.metadata()?.len())?;
    Ok(Written {
        written: Rate::new(memory.nonzero, written),
        synced: Rate::new(memory.nonzero, synced),
        stored: Rate::new(stored, synced),
    })
}

fn migrate(monitor: &mut Monitor, uri: &str) -> Result<()> {
    let began = Instant::now();
    monitor.execute("migrate", Some(json!({ "uri": uri })), COMMAND_TIMEOUT)?;
    loop {
        let said = monitor.execute("query-migrate", None, COMMAND_TIMEOUT)?;
        match said["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => bail!("QEMU did not write its memory: {said}"),
            _ if began.elapsed() > MIGRATION_TIMEOUT => bail!("QEMU does not end"),
            _ => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Starts a machine that is stopped before its first instruction, so that the memory stays
/// as it is.
fn start(memory: &Memory, socket: &Path) -> Result<Qemu> {
    let program = vm::program::path(Path::new("/")).context("there is no QEMU here")?;
    let file = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        memory.file.as_raw_fd()
    );
    let size = memory.length;
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    let mut command = Command::new(&program);
    command
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-S"])
        .args(["-machine", "q35,memory-backend=ram0", "-accel", "tcg"])
        .args(["-cpu", "max", "-smp", "1"])
        .args(["-m", &format!("{}M", size >> 20)])
        .arg("-object")
        .arg(format!(
            "memory-backend-file,id=ram0,size={size},mem-path={file},share=on"
        ))
        .arg("-chardev")
        .arg(format!("socket,id=monitor,path={}", socket.display()))
        .args(["-mon", "chardev=monitor,mode=control"])
        .stdin(Stdio::null());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    match greeted(&listener) {
        Ok(monitor) => Ok(Qemu { child, monitor }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error.context("QEMU does not answer"))
        }
    }
}

fn greeted(listener: &UnixListener) -> Result<Monitor> {
    let mut watched = [PollFd::new(listener, PollFlags::IN)];
    let patience = Timespec::try_from(COMMAND_TIMEOUT)?;
    if poll(&mut watched, Some(&patience))? == 0 {
        bail!("it has not called");
    }
    let (socket, _) = listener.accept()?;
    Ok(Monitor::greet(OwnedFd::from(socket), COMMAND_TIMEOUT)?)
}
