//! The plan of a boot.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{InsideStep, PlatformStep};
use crate::config::IpType;
use crate::config::machine::KeySource;
use crate::immutable::Immutable;
use crate::{Uuid, ZoneName};

/// The plan of a zone's virtual platform and of its init.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootPlan {
    /// The name of the zone.
    pub zone: ZoneName,
    /// The numeric id of the zone. The id is 0 in a plan that is only shown.
    pub id: u32,
    /// The UUID of the zone, which the installation assigns.
    pub uuid: Option<Uuid>,
    /// The brand of the zone, as configured.
    pub brand: String,
    /// The network type of the zone: shared with the host, or exclusive.
    pub ip_type: IpType,
    /// First host id of the zone's range of user and group ids.
    pub first_id: u32,
    /// The steps of zoneadmd, in order.
    pub platform: Vec<PlatformStep>,
    /// The steps of the zone's first process, in order. The first process starts these steps after
    /// the steps of zoneadmd.
    pub inside: Vec<InsideStep>,
    /// Mount points of the configuration's file systems and devices. zoneadmd records the mounts at
    /// these mount points, so that they can change while the zone runs.
    pub remembered: Vec<PathBuf>,
    /// The init program, which the first process executes.
    pub init: Init,
    /// The signal that asks init to stop all processes and power off.
    pub shutdown_signal: i32,
    /// True if the boot ends in state ready, without init.
    pub ready_only: bool,
    /// Number of reboots in quick succession that led to this boot.
    #[serde(default)]
    pub reboots: u32,
    /// The boot options, in the form that the zone's console shows.
    #[serde(default)]
    pub words: String,
    /// The profile of an immutable zone; `None` for other zones.
    #[serde(default)]
    pub immutable: Option<Immutable>,
    /// The memory image from which a kernel zone resumes; `None` in every other boot.
    #[serde(default)]
    pub resume: Option<Resume>,
    /// QEMU's names for the disks of a kernel zone that migrates to this host while it runs; `None`
    /// in every other boot.
    #[serde(default)]
    pub arriving: Option<Vec<String>>,
}

/// The memory image of a suspended guest, and the data to resume from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The path of the image.
    pub image: PathBuf,
    /// The source of the image's key.
    pub key: KeySource,
    /// The zonepath. The image names the disks in the zonepath by their file names.
    pub zonepath: PathBuf,
    /// The files of the guest's writable disks.
    pub disks: Vec<PathBuf>,
    /// True if the guest may run before all of its memory is read.
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
    /// The path of the init in the zone; `None` means zinit.
    pub path: Option<PathBuf>,
    /// The arguments of init, including argument 0.
    pub arguments: Vec<String>,
    /// The environment of init, as `NAME=value`.
    pub environment: Vec<String>,
    /// The user id and group id of init in the zone. A process of a user other than root, such as
    /// QEMU, can never gain more rights.
    #[serde(default)]
    pub user: u32,
    /// True if init ends together with the process that started the zone.
    #[serde(default)]
    pub bound: bool,
}
