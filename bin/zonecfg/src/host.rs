//! Reads the properties of this host that a new zone's configuration depends on.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Directories of software, as far as this host has them as real directories:
/// just /usr where /usr is merged and the others are links into it.
pub fn software_dirs() -> Vec<&'static str> {
    [
        "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
    ]
    .into_iter()
    .filter(|dir| fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()))
    .collect()
}

/// Returns how many processors the host has.
pub fn cpus() -> u32 {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match limits::CpuSet::parse(&online).len() {
        // Without /sys the number is not known.
        0 => u32::MAX,
        count => u32::try_from(count).unwrap_or(u32::MAX),
    }
}

/// The ZFS pool of the host's root, where that is on ZFS.
pub fn root_pool() -> Option<String> {
    // The last one covers the others.
    let mounts = sys::mountinfo::own().ok()?.into_iter().rev();
    let mut roots = mounts.filter(|mount| mount.point == Path::new("/"));
    let root = roots.next().filter(|mount| mount.fstype == "zfs")?;
    let dataset = root.source.to_str()?;
    dataset.split('/').next().map(str::to_owned)
}

/// Returns whether the host has a user of this name. Users of other sources than /etc/passwd are
/// asked for with getent(1): a static program cannot load the modules for them.
pub fn user_exists(name: &str) -> bool {
    let local = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let listed = |line: &str| line.split(':').next() == Some(name);
    local.lines().any(listed)
        || Command::new("getent")
            .args(["passwd", "--", name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}
