//! The differences between the kinds of zones.

use std::fmt;
use std::path::{Path, PathBuf};

use brand::BootSpec;
use brand::first_boot::Kind;
use model::plan::{BootPlan, DeviceNode, Init, Step};
use model::{Config, State, Uuid, Verb, ZoneName};
use store::index::Entry;
use store::runtime::Runtime;

use host::{Error, Host};
use kernelzone::disks::Added;
use kernelzone::facts::Facts;
use kernelzone::record::Record;
use subject::Subject;

/// The options of an install, by the part of the code that reads them.
#[derive(Debug)]
pub struct InstallOptions {
    /// Options for the zone's root, which images and the brand read.
    pub root: Vec<String>,
    /// Options for the disks of a guest; empty for a container.
    pub machine: Option<Vec<String>>,
}

/// The facts of the host that a boot needs.
#[derive(Debug)]
pub struct BootFacts {
    /// The devices of the host that the zone gets.
    pub nodes: Vec<DeviceNode>,
    /// A sentence about the first device pattern that matches too many devices.
    pub too_many: Option<String>,
    /// The facts about the guest; `None` for a container.
    pub machine: Option<Facts>,
}

/// The boot options about the image of a suspended zone.
#[derive(Clone, Copy, Debug)]
pub struct ResumeOptions {
    /// True to discard the image.
    pub discard: bool,
    /// True to load all memory before the zone runs.
    pub eager: bool,
    /// True to change nothing (`-n`).
    pub dry_run: bool,
}

/// The sockets of a guest.
#[derive(Debug)]
pub struct Sockets {
    /// QEMU's monitor.
    pub monitor: PathBuf,
    /// The socket of the serial line.
    pub console: PathBuf,
}

/// The method by which a command enters a running zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// The command joins the namespaces of the zone.
    Namespaces,
    /// The agent in the guest runs the command.
    Agent,
}

/// The hooks of one kind of zone: everything in which the kinds differ for a verb.
pub trait ZoneKind: fmt::Debug + Sync {
    /// Refuses a verb that this kind of zone does not support.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`], the reason, and a verb that does the same for this kind.
    fn admit(&self, verb: Verb, config: &Config) -> Result<(), Error>;

    /// Returns the reason why the zone has no snapshots to clone from; `None` if it has them.
    fn why_no_snapshots(&self) -> Option<&'static str> {
        None
    }

    /// Returns true if the snapshots of the zone are files of its disks; false if they are layers
    /// of its root.
    fn keeps_disks(&self) -> bool {
        false
    }

    /// Returns the problems that prevent `verb` for a zone, one line each.
    ///
    /// # Errors
    /// Fails with [`Error::Store`] if the state of other zones cannot be read.
    fn problems(
        &self,
        host: &Host,
        subject: &Subject,
        config: &Config,
        verb: Verb,
    ) -> Result<Vec<String>, Error>;

    /// Sorts the options of an install.
    ///
    /// # Errors
    /// Fails with [`Error::Usage`] for options that this kind of zone does not support.
    fn install_options(&self, options: &[String]) -> Result<InstallOptions, Error>;

    /// Refuses settings of `install -c` and `clone -c` that this kind of zone cannot have.
    ///
    /// # Errors
    /// Fails with [`Error::Usage`].
    fn admit_settings(&self, settings: &Kind) -> Result<(), Error>;

    /// Returns the step that gives cloud-init the seed in the folder `seed` of the host.
    fn give_seed(&self, path: PathBuf, seed: PathBuf, uuid: Uuid) -> Step;

    /// Returns the step that adapts a new root to the zone. `machine` has the install options for
    /// disks.
    fn own_new_root(&self, path: PathBuf, uuid: Uuid, machine: Option<Vec<String>>) -> Step;

    /// Returns the step that gives the cloned root at `to` an identity different from the root at
    /// `from`.
    fn own_cloned_root(&self, from: PathBuf, to: PathBuf, uuid: Uuid) -> Step;

    /// Returns the uninstall steps for the files of a zone outside its root.
    fn steps_beside_root(&self, path: PathBuf) -> Vec<Step>;

    /// Removes the files of a zone outside its root: the disks and the suspend image of a guest.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`], which names the file that cannot be removed.
    fn remove_beside_root(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
    ) -> Result<(), Error>;

    /// Returns the record of the zone's guest; `None` for a container.
    ///
    /// # Errors
    /// Fails with [`Error::Store`] if the record cannot be read.
    fn record(&self, zonepath: &Path) -> Result<Option<Record>, Error>;

    /// Checks a zone that arrives from another host, with or without the record of a guest: the
    /// zone must be of this kind, and no file may exist at the paths of its disks.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`].
    fn check_incoming(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
        has_record: bool,
    ) -> Result<(), Error>;

    /// Returns true if nothing in the zonepath of this zone must survive, because all its disks are
    /// files outside of it.
    fn is_elsewhere(&self, _: &Host, _: &Config, _: &Path) -> bool {
        false
    }

    /// Returns the problem of a disk that should be a file outside of the zonepath and is none.
    fn missing_disk(&self, _: &Host, _: &Config, _: &Path) -> Option<String> {
        None
    }

    /// Refuses to remove the zonepath if [`ZoneKind::adopt`] could not make anew everything in it.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`], or with [`Error::Io`] if the zonepath cannot be read.
    fn refuse_data(&self, _: &Host, config: &Config, _: &Path, _: State) -> Result<(), Error> {
        Err(other_brand(config))
    }

    /// Makes the files in the zonepath of a zone that [`ZoneKind::is_elsewhere`] accepts.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`].
    fn adopt(&self, _: &Host, config: &Config, _: &Path) -> Result<(), Error> {
        Err(other_brand(config))
    }

    /// Returns the patterns of the host devices that the zone gets as device nodes.
    fn device_patterns(&self, config: &Config) -> Vec<String>;

    /// Returns true if the configured file systems and devices are mounts in the running zone.
    fn has_mounts(&self) -> bool;

    /// Returns true if an inactive zone has an image of its memory.
    fn is_suspended(&self, host: &Host, entry: &Entry, config: &Config) -> bool;

    /// Makes missing files that a cold boot needs. Returns messages for the user. After a failed
    /// boot, a second call finds the files and changes nothing.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] or [`Error::Io`].
    fn prepare_boot(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
    ) -> Result<Vec<String>, Error>;

    /// Reads the facts of the host that a boot needs.
    ///
    /// # Errors
    /// Fails with [`Error::Verify`] or [`Error::Refused`] and the reason why the zone cannot start.
    fn boot_facts(
        &self,
        host: &Host,
        subject: &Subject,
        config: &Config,
        added: Added,
    ) -> Result<BootFacts, Error>;

    /// Returns the init of the zone if it is not a program in the zone's root.
    fn own_init(&self, brand: &dyn brand::Brand) -> Option<BootSpec>;

    /// Makes the boot of a suspended zone resume from its image, or discards the image. Returns
    /// messages for the user.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] and the reason why the image cannot be used. The image stays.
    fn resume(
        &self,
        host: &Host,
        subject: &Subject,
        config: &Config,
        facts: &BootFacts,
        plan: &mut BootPlan,
        options: ResumeOptions,
    ) -> Result<Vec<String>, Error>;

    /// Returns the part of an init that a zone in state ready gets at its boot.
    fn init_of_ready(&self, init: Init) -> Init;

    /// Counts the start of a zone. Older images of its memory are invalid afterwards. Returns a
    /// message if the count could not be written and the boot can continue all the same.
    ///
    /// # Errors
    /// Fails if the count could not be written and the boot must not continue.
    fn count_boot(
        &self,
        subject: &Subject,
        facts: &BootFacts,
        plan: &BootPlan,
    ) -> Result<Option<String>, Error>;

    /// Returns true if a running zone reacts to a shutdown order.
    fn hears_shutdown(&self, runtime: &Runtime) -> bool;

    /// Returns true if the zone gets files in /proc and /sys that show its own limits.
    fn has_limit_files(&self) -> bool;

    /// Returns the sockets of a running guest; `None` for a container.
    fn sockets(&self, host: &Host, zone: &ZoneName) -> Option<Sockets>;

    /// Returns how commands enter the running zone.
    fn entrance(&self) -> Entrance;
}

/// Returns the error for a zone that arrives from another host and is of another kind there.
pub(super) fn other_brand(config: &Config) -> Error {
    Error::Refused(format!(
        "is configured as zone of brand {} here.",
        config.brand()
    ))
}
