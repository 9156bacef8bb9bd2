//! Control groups of a host, found by name and not by what the programs say.

use std::fs;
use std::path::{Path, PathBuf};

/// The mount point of control groups.
const MOUNTED: &str = "/sys/fs/cgroup";

/// Every group named `name`, in whichever hierarchy, and the groups below each,
/// the deepest first.
#[must_use]
pub fn below(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(Path::new(MOUNTED), &mut |path| {
        if path
            .components()
            .any(|part| part.as_os_str() == std::ffi::OsStr::new(name))
        {
            found.push(path.to_owned());
        }
    });
    found
}

/// Calls `see` for each folder below `folder`, inner ones first.
fn walk(folder: &Path, see: &mut dyn FnMut(&Path)) {
    // A group may vanish while we look.
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = entry.path();
            walk(&path, see);
            see(&path);
        }
    }
}

/// The processes in these groups.
#[must_use]
pub fn processes(groups: &[PathBuf]) -> Vec<i32> {
    let mut pids: Vec<i32> = groups
        .iter()
        .filter_map(|group| fs::read_to_string(group.join("cgroup.procs")).ok())
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| line.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// A process as people know it: number and command line.
#[must_use]
pub fn describe(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    format!("process {pid} {}", line.trim_end())
}
