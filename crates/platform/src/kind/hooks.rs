//! The differences between the kinds of zones.

use std::fmt;
use std::path::{Path, PathBuf};

use brand::BootSpec;
use model::plan::{BootPlan, DeviceNode, Init, Step};
use model::{Config, Uuid, Verb, ZoneName};
use store::index::Entry;
use store::runtime::Runtime;

use host::{Error, Host};
use kernelzone::disks::Added;
use kernelzone::facts::Facts;
use kernelzone::record::Record;
use subject::Subject;

/// The options of an install, by who reads them.
#[derive(Debug)]
pub struct InstallOptions {
    /// Those about the zone's root: for images and the brand.
    pub root: Vec<String>,
    /// Those about the disks of a machine; none for a container.
    pub machine: Option<Vec<String>>,
}

/// The facts of the host that a boot needs.
#[derive(Debug)]
pub struct BootFacts {
    /// The devices of the host that the zone is shown.
    pub nodes: Vec<DeviceNode>,
    /// The first pattern for devices that matches too many, in a sentence.
    pub too_many: Option<String>,
    /// The facts about the machine; none for a container.
    pub machine: Option<Facts>,
}

/// The boot options that decide about the image of a suspended zone.
#[derive(Clone, Copy, Debug)]
pub struct ResumeOptions {
    /// True to throw the image away.
    pub discard: bool,
    /// True to have all memory before the zone runs.
    pub eager: bool,
    /// True to change nothing.
    pub dry_run: bool,
}

/// The sockets of a machine.
#[derive(Debug)]
pub struct Sockets {
    /// QEMU's monitor.
    pub monitor: PathBuf,
    /// The serial line.
    pub console: PathBuf,
}

/// The way of a command into a running zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// The command joins the namespaces of the zone.
    Namespaces,
    /// The agent in the guest runs the command.
    Agent,
}

/// The hooks of one kind of zones: everything in which the kinds differ for a verb.
pub trait ZoneKind: fmt::Debug + Sync {
    /// Refuses a verb that zones of this kind do not have.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason and a verb that does it instead.
    fn admit(&self, verb: Verb, config: &Config) -> Result<(), Error>;

    /// Returns why the zone has no snapshots to clone from, if it has none.
    fn why_no_snapshots(&self) -> Option<&'static str> {
        None
    }

    /// Returns the problems that keep a zone from `verb`, one line each.
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

    /// Sorts the options of an install, and checks them together with a profile.
    ///
    /// # Errors
    /// [`Error::Usage`] for options that zones of this kind do not have.
    fn install_options(
        &self,
        options: &[String],
        profile: Option<&Path>,
    ) -> Result<InstallOptions, Error>;

    /// Returns the step that makes a new root the zone's own: `machine` has the options of an
    /// install for its disks.
    fn own_new_root(&self, path: PathBuf, uuid: Uuid, machine: Option<Vec<String>>) -> Step;

    /// Returns the step that makes the cloned root at `to` another zone than that at `from`.
    fn own_cloned_root(&self, from: PathBuf, to: PathBuf, uuid: Uuid) -> Step;

    /// Returns the steps of an uninstall that remove the parts of a zone beside its root.
    fn steps_beside_root(&self, path: PathBuf) -> Vec<Step>;

    /// Removes the parts of a zone beside its root: the disks and the image of a machine.
    ///
    /// # Errors
    /// [`Error::Refused`] with the file that cannot be removed.
    fn remove_beside_root(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
    ) -> Result<(), Error>;

    /// Returns the record of the zone's machine; none for a container.
    ///
    /// # Errors
    /// [`Error::Store`] if it cannot be read.
    fn record(&self, zonepath: &Path) -> Result<Option<Record>, Error>;

    /// Checks that a zone which comes from another host, with the record of a machine or without
    /// one, is of this kind, and that nothing is in the place of its disks.
    ///
    /// # Errors
    /// [`Error::Refused`].
    fn check_incoming(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
        has_record: bool,
    ) -> Result<(), Error>;

    /// Returns the patterns of the devices of the host that the zone is shown as devices.
    fn device_patterns(&self, config: &Config) -> Vec<String>;

    /// Returns whether the configured file systems and devices are mounts in the running zone.
    fn has_mounts(&self) -> bool;

    /// Returns whether a zone that is not active has an image of its memory.
    fn is_suspended(&self, host: &Host, entry: &Entry, config: &Config) -> bool;

    /// Makes the files that a cold boot needs and that do not exist yet. Returns messages for the
    /// user. A repetition after a boot that failed finds them and changes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::Io`].
    fn prepare_boot(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
    ) -> Result<Vec<String>, Error>;

    /// Collects the facts of the host that a boot needs.
    ///
    /// # Errors
    /// [`Error::Verify`] and [`Error::Refused`] with the reason that the zone cannot start.
    fn boot_facts(
        &self,
        host: &Host,
        subject: &Subject,
        config: &Config,
        added: Added,
    ) -> Result<BootFacts, Error>;

    /// Returns the init of the zone where it does not come from the zone's root.
    fn own_init(&self, brand: &dyn brand::Brand) -> Option<BootSpec>;

    /// Makes the boot of a suspended zone go on from its image, or throws the image away. Returns
    /// messages for the user.
    ///
    /// # Errors
    /// [`Error::Refused`] with the reason that the image cannot be used; the image stays.
    fn resume(
        &self,
        host: &Host,
        subject: &Subject,
        config: &Config,
        facts: &BootFacts,
        plan: &mut BootPlan,
        options: ResumeOptions,
    ) -> Result<Vec<String>, Error>;

    /// Returns the part of an init that a zone in state ready is told when it boots.
    fn init_of_ready(&self, init: Init) -> Init;

    /// Counts the start of a zone, after which no older image of its memory fits. Returns a
    /// message if that could not be written and does not matter.
    ///
    /// # Errors
    /// Fails if the count could not be written and matters.
    fn count_boot(
        &self,
        subject: &Subject,
        facts: &BootFacts,
        plan: &BootPlan,
    ) -> Result<Option<String>, Error>;

    /// Returns whether a running zone hears the order to shut down.
    fn hears_shutdown(&self, runtime: &Runtime) -> bool;

    /// Returns whether the zone is shown its limits in files of /proc and /sys.
    fn has_limit_files(&self) -> bool;

    /// Returns the sockets of a running machine; none for a container.
    fn sockets(&self, host: &Host, zone: &ZoneName) -> Option<Sockets>;

    /// Returns the way of commands into the running zone.
    fn entrance(&self) -> Entrance;
}

/// Returns the error for a zone that comes from another host as a zone of another kind.
pub(super) fn other_brand(config: &Config) -> Error {
    Error::Refused(format!(
        "is configured as zone of brand {} here.",
        config.brand()
    ))
}
