//! The constant facts of a brand, as data.

/// A device node in the zone's `/dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The name of the node below `/dev`.
    pub name: &'static str,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// A file system that is mounted in every zone of a brand, in addition to `/proc`, `/sys` and
/// `/dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point, an absolute path in the zone.
    pub target: &'static str,
    /// The file system type, which never needs a device.
    pub fstype: &'static str,
    /// The permissions of the file system's root.
    pub mode: u32,
    /// True if programs on this mount cannot be executed. Set-id programs and device nodes never
    /// work on these mounts.
    pub noexec: bool,
}

/// The parts of the virtual platform that all zones of a brand share.
#[derive(Clone, Copy, Debug)]
pub struct Platform {
    /// The name of the brand.
    pub name: &'static str,
    /// True if zones of the brand may inherit directories of the host.
    pub sparse: bool,
    /// The default privileges, for a zone with an empty `limitpriv`, in the syntax of that
    /// property.
    pub privileges: &'static str,
    /// The paths in the zone's root at which init is searched, in this order, if the configuration
    /// names none.
    pub inits: &'static [&'static str],
    /// The initial environment of the zone's programs, before other settings are added.
    pub environment: &'static [(&'static str, &'static str)],
    /// Character devices that all users may read and write. A zone may open these devices, its own
    /// terminals, and the devices of its configuration.
    pub devices: &'static [Device],
    /// Further mounts, in the order in which they are mounted.
    pub mounts: &'static [Mount],
}

impl Platform {
    /// The platform of any Linux userland. The brands that run one differ only in a few fields.
    pub const LINUX: Self = Self {
        name: "",
        sparse: false,
        privileges: "default",
        inits: INITS,
        environment: ENVIRONMENT,
        devices: DEVICES,
        mounts: MOUNTS,
    };

    /// Returns the privilege list of a zone: its own, or the default of the brand.
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

/// The paths at which a distribution may have its init, in the kernel's own order.
const INITS: &[&str] = &["/sbin/init", "/etc/init", "/bin/init"];

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("TERM", "linux"),
    // systemd, OpenRC and other programs read this variable to detect a container.
    ("container", "zone"),
];

/// The devices of every Linux userland. Terminals (`console`, `ptmx`, `pts`) belong to the zone's
/// own devpts and are not in this list.
const DEVICES: &[Device] = &[
    device("null", 1, 3),
    device("zero", 1, 5),
    device("full", 1, 7),
    device("random", 1, 8),
    device("urandom", 1, 9),
    device("tty", 5, 0),
];

/// `/run` holds files that must not outlive a boot. All other files are on the zone's own disk.
const MOUNTS: &[Mount] = &[Mount {
    target: "/run",
    fstype: "tmpfs",
    mode: 0o755,
    noexec: false,
}];
