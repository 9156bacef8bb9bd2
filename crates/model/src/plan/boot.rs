//! The plan of a boot.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{InsideStep, PlatformStep};
use crate::config::IpType;
use crate::config::machine::KeySource;
use crate::{Uuid, ZoneName};

/// A zone's virtual platform and its init.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootPlan {
    /// The zone.
    pub zone: ZoneName,
    /// Its numeric id; 0 in a plan that is only shown.
    pub id: u32,
    /// Given at install.
    pub uuid: Option<Uuid>,
    /// The brand as configured.
    pub brand: String,
    /// Whose network it uses.
    pub ip_type: IpType,
    /// First host id of its range of user and group ids.
    pub first_id: u32,
    /// The steps of zoneadmd, in order.
    pub platform: Vec<PlatformStep>,
    /// The steps of the zone's first process after them, in order.
    pub inside: Vec<InsideStep>,
    /// Mount points of the configuration's file systems and devices: the mounts there
    /// are remembered, to be changed while the zone runs.
    pub remembered: Vec<PathBuf>,
    /// The program that the first process becomes.
    pub init: Init,
    /// The signal that asks init to stop everything and power off.
    pub shutdown_signal: i32,
    /// True to stop in state ready.
    pub ready_only: bool,
    /// Count of the reboots in quick succession by which the zone came to this boot.
    #[serde(default)]
    pub reboots: u32,
    /// The boot options, as the zone's console shows them.
    #[serde(default)]
    pub words: String,
    /// The image from which a kernel zone resumes.
    #[serde(default)]
    pub resume: Option<Resume>,
    /// The disks of a kernel zone that comes from another host while it runs there, by
    /// QEMU's names for them.
    #[serde(default)]
    pub arriving: Option<Vec<String>>,
}

/// An image of a suspended machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The image.
    pub image: PathBuf,
    /// The source of the key.
    pub key: KeySource,
    /// The zonepath, in which disks go by their names.
    pub zonepath: PathBuf,
    /// The files of the machine's disks that are written to.
    pub disks: Vec<PathBuf>,
    /// True if the machine may run before all of its memory is there.
    #[serde(default)]
    pub lazy: bool,
}

impl fmt::Display for BootPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.first_id + 65_535;
        writeln!(
            f,
            "boot zone {} with user ids {}-{last}:",
            self.zone, self.first_id
        )?;
        self.platform
            .iter()
            .try_for_each(|step| writeln!(f, "  {step}"))?;
        writeln!(f, "  then, as the first process of the zone:")?;
        self.inside
            .iter()
            .try_for_each(|step| writeln!(f, "    {step}"))?;
        if self.ready_only {
            return writeln!(f, "    wait for boot");
        }
        match &self.init.path {
            Some(path) => writeln!(f, "    run {}", path.display()),
            None => writeln!(f, "    run zinit"),
        }?;
        match &self.resume {
            Some(resume) => {
                let first = if resume.lazy {
                    ""
                } else {
                    ", all memory first"
                };
                writeln!(f, "  resume from {}{first}", resume.image.display())
            }
            None => Ok(()),
        }
    }
}

/// The program that becomes process 1 of the zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Init {
    /// A path in the zone, or none for our own zinit.
    pub path: Option<PathBuf>,
    /// Its arguments, its own name first.
    pub arguments: Vec<String>,
    /// Its environment, `NAME=value`.
    pub environment: Vec<String>,
    /// The user and group of the zone that it runs as. A user other than root, as QEMU
    /// gets, can never have more rights.
    #[serde(default)]
    pub user: u32,
    /// True for an init that ends with the process that started the zone.
    #[serde(default)]
    pub bound: bool,
}
