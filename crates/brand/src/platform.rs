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
    /// The mount point, an absolute path in the zone.
    pub target: &'static str,
    /// File system type; always one that needs no device.
    pub fstype: &'static str,
    /// Permissions of its root.
    pub mode: u32,
    /// True where programs may not be started from it. Set-id programs and
    /// device nodes never work on these mounts.
    pub noexec: bool,
}

/// The parts of the virtual platform that all zones of a brand share.
#[derive(Clone, Copy, Debug)]
pub struct Platform {
    /// The brand's own name.
    pub name: &'static str,
    /// True where directories of the host may be inherited.
    pub sparse: bool,
    /// The privileges of a zone whose `limitpriv` is empty, in its language.
    pub privileges: &'static str,
    /// The paths in the zone's root where init is searched when the configuration names none, in
    /// this order.
    pub inits: &'static [&'static str],
    /// The environment of the zone's programs before anything else sets more.
    pub environment: &'static [(&'static str, &'static str)],
    /// Character devices, readable and writable by all; a zone may open these, its own terminals,
    /// and the devices of its configuration.
    pub devices: &'static [Device],
    /// Further mounts, in order.
    pub mounts: &'static [Mount],
}

impl Platform {
    /// Any Linux userland: the brands that run one differ only a little.
    pub const LINUX: Self = Self {
        name: "",
        sparse: false,
        privileges: "default",
        inits: INITS,
        environment: ENVIRONMENT,
        devices: DEVICES,
        mounts: MOUNTS,
    };

    /// The privilege list that holds for a zone: its own, or the brand's.
    #[must_use]
    pub fn privileges<'c>(&self, config: &'c model::Config) -> &'c str {
        match config.limitpriv() {
            "" => self.privileges,
            own => own,
        }
    }
}

const fn device(name: &'static str, major: u32, minor: u32) -> Device {
    Device { name, major, minor }
}

/// The paths where a distribution may keep its init, in the kernel's own order.
const INITS: &[&str] = &["/sbin/init", "/etc/init", "/bin/init"];

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("TERM", "linux"),
    // Read by systemd, OpenRC and others to tell that they run in a container.
    ("container", "zone"),
];

/// The devices of every Linux userland. Terminals (`console`, `ptmx`, `pts`)
/// belong to the zone's own devpts and are not listed.
const DEVICES: &[Device] = &[
    device("null", 1, 3),
    device("zero", 1, 5),
    device("full", 1, 7),
    device("random", 1, 8),
    device("urandom", 1, 9),
    device("tty", 5, 0),
];

/// `/run` holds files that must not outlive a boot; the rest is on the zone's own disk.
const MOUNTS: &[Mount] = &[Mount {
    target: "/run",
    fstype: "tmpfs",
    mode: 0o755,
    noexec: false,
}];
