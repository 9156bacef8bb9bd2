//! The wrapper of a program that other programs start, so that strace traces it from its first
//! call.
//!
//! If the ZONES_ROOT has options for the program, the wrapper attaches strace to its own process.
//! Then it executes the real program, which keeps the process id, the descriptors and the parent.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::strike::orders;

/// Executes the real program of the wrapper at `own`. Returns only the reason why this failed.
#[must_use]
pub fn become_program(own: &Path) -> String {
    let name = own.file_name().unwrap_or_default();
    // The real program's folder is beside the wrapper's folder: see `crate::programs`.
    let real = |folder: &str| -> PathBuf {
        let parent = own.parent().and_then(Path::parent);
        parent.unwrap_or(Path::new("/")).join(folder).join(name)
    };
    let program = if name == "zoneadm" {
        real("front")
    } else {
        real("real")
    };
    if let Some(root) = std::env::var_os("ZONES_ROOT") {
        let orders = orders(Path::new(&root), &name.to_string_lossy());
        if let Ok(words) = fs::read_to_string(orders) {
            trace(&words);
        }
    }
    let error = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .exec();
    format!("{}: {error}", program.display())
}

/// Attaches strace to this process, without the descriptors of this process: the pipes and locks of
/// a killed process must be released.
fn trace(words: &str) {
    const START: &str = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; \
                         /usr/bin/strace \"$@\" </dev/null >/dev/null 2>&1 &";
    let own = std::process::id().to_string();
    let started = Command::new("/bin/sh")
        .args(["-c", START, "sh"])
        .args(words.lines())
        .args(["-p", &own])
        .status();
    if !started.is_ok_and(|status| status.success()) {
        return;
    }
    // If strace does not start, the record stays empty, which the test notices.
    for _ in 0..5_000 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if !status.contains("TracerPid:\t0\n") {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
