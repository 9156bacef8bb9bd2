//! Enables controllers of v2. A group has a controller only if every group above it passes this
//! controller down.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// Controllers that zones get on every host that has them: for limits that are set later, and to
/// measure the use.
pub(crate) const USUAL: [&str; 4] = ["cpu", "memory", "pids", "io"];

/// The file of the controllers that a group passes down.
const HANDED_DOWN: &str = "cgroup.subtree_control";
/// The file of the controllers that a group has.
const CONTROLLERS: &str = "cgroup.controllers";

/// Enables these controllers for the groups in `base`, as far as possible. Returns the reason for
/// the first one that failed. A controller that the host has in v1, or does not have, is not a
/// failure.
pub(crate) fn hand_down(base: &Path, wanted: &[&str]) -> Result<(), Error> {
    if missing(base, wanted).is_empty() {
        return Ok(());
    }
    // The loop starts at the top, because a group can pass down only its own controllers.
    let groups: Vec<&Path> = base
        .ancestors()
        .take_while(|path| path.join(CONTROLLERS).exists())
        .collect();
    let Some(top) = groups.last() else {
        return Ok(());
    };
    let there = read(&top.join(CONTROLLERS));
    let mut result = Ok(());
    for name in wanted.iter().filter(|name| has(&there, name)) {
        for group in groups.iter().rev() {
            if missing(group, &[*name]).is_empty() {
                continue;
            }
            // Each controller is written separately, because the kernel accepts all of a write or
            // nothing.
            let path = group.join(HANDED_DOWN);
            if let Err(error) = fs::write(&path, format!("+{name}")) {
                result = result.and(Err(explain(path, error)));
                break;
            }
        }
    }
    result
}

fn explain(path: PathBuf, source: io::Error) -> Error {
    Error::File {
        action: if source.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) {
            "hand controllers down, for there are processes in the group of"
        } else {
            "hand controllers down in"
        },
        path,
        source,
    }
}

/// Returns the controllers of `wanted` that the group does not pass down.
fn missing<'a>(group: &Path, wanted: &[&'a str]) -> Vec<&'a str> {
    let handed_down = read(&group.join(HANDED_DOWN));
    let wanted = wanted.iter().copied();
    wanted.filter(|name| !has(&handed_down, name)).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn has(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|one| one == name)
}
