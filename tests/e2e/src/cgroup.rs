//! Finds the control groups of a host by their names, and not by the output of the programs under
//! test.

use std::fs;
use std::path::{Path, PathBuf};

/// The mount point of control groups.
const MOUNTED: &str = "/sys/fs/cgroup";

/// Returns every group named `name`, in any hierarchy, with the groups below it, the deepest first.
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

/// Calls `see` for each folder below `folder`, inner folders first.
fn walk(folder: &Path, see: &mut dyn FnMut(&Path)) {
    // A group may be removed during the search.
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

/// Returns the processes in these groups.
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

/// Returns a process as text: its pid and command line.
#[must_use]
pub fn describe(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    format!("process {pid} {}", line.trim_end())
}
