//! Reads the properties of this host that a new zone's configuration depends on.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the directories of software that are real directories on this host. The result is only
/// /usr if the host has a merged /usr and the other directories are links into /usr.
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
        // Without /sys the number of processors is unknown.
        0 => u32::MAX,
        count => u32::try_from(count).unwrap_or(u32::MAX),
    }
}

/// Returns the ZFS pool of the host's root, if the root is on ZFS.
pub fn root_pool() -> Option<String> {
    // The search starts with the last mount, because a later mount on / covers the earlier ones.
    let mounts = sys::mountinfo::own().ok()?.into_iter().rev();
    let mut roots = mounts.filter(|mount| mount.point == Path::new("/"));
    let root = roots.next().filter(|mount| mount.fstype == "zfs")?;
    let dataset = root.source.to_str()?;
    dataset.split('/').next().map(str::to_owned)
}

/// Returns true if the host has a user of this name. getent(1) looks up users that are not in
/// /etc/passwd, because a static program cannot load NSS modules.
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
