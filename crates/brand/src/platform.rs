//! The constant part of a brand, as data.

/// A device node in the zone's `/dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name below `/dev`.
    pub name: &'static str,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// A file system mounted in every zone of a brand, beyond `/proc`, `/sys` and `/dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where, as an absolute path in the zone.
    pub target: &'static str,
    /// File system type; always one that needs no device.
    pub fstype: &'static str,
    /// Permissions of its root.
    pub mode: u32,
    /// True where programs may not be started from it. Set-id programs and
    /// device nodes never work on these mounts.
    pub noexec: bool,
}

/// What is the same for all zones of a brand.
#[derive(Clone, Copy, Debug)]
pub struct Platform {
    /// The brand's own name.
    pub name: &'static str,
    /// True where directories of the host may be inherited.
    pub sparse: bool,
    /// Character devices, readable and writable by all.
    pub devices: &'static [Device],
    /// Further mounts, in order.
    pub mounts: &'static [Mount],
}

const fn device(name: &'static str, major: u32, minor: u32) -> Device {
    Device { name, major, minor }
}

/// The devices of every Linux userland. Terminals (`console`, `ptmx`, `pts`)
/// belong to the zone's own devpts and are not listed.
pub const DEVICES: &[Device] = &[
    device("null", 1, 3),
    device("zero", 1, 5),
    device("full", 1, 7),
    device("random", 1, 8),
    device("urandom", 1, 9),
    device("tty", 5, 0),
];

/// `/run` holds what must not outlive a boot; the rest is on the zone's own disk.
pub const MOUNTS: &[Mount] = &[Mount {
    target: "/run",
    fstype: "tmpfs",
    mode: 0o755,
    noexec: false,
}];
