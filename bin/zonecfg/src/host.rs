//! What a new zone's configuration depends on in this host.

use std::fs;
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

/// The ZFS pool of the host's root, where that is on ZFS.
pub fn root_pool() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let root = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (source, target, fstype) = (fields.next()?, fields.next()?, fields.next()?);
        (target == "/" && fstype == "zfs").then_some(source)
    })?;
    root.split('/').next().map(str::to_owned)
}

/// Whether the host has a user of this name. Users of other sources than /etc/passwd
/// are asked for with getent(1): a static program cannot load the modules for them.
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
