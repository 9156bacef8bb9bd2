//! Kernel zones: QEMU is the zone's only process, and the zone's system runs on its own kernel.

mod resume;

use std::path::{Path, PathBuf};

use brand::first_boot::Kind;
use brand::kz::Options;
use brand::{BootSpec, InitProgram, ShutdownSignals};
use model::plan::{BootPlan, Init, Step};
use model::{Config, State, Uuid, Verb, ZoneName};
use store::index::Entry;
use store::runtime::Runtime;

use super::hooks::{
    BootFacts, Entrance, InstallOptions, ResumeOptions, Sockets, ZoneKind, other_brand,
};
use crate::plan::guest::words_of_boot;
use host::{Error, Host};
use kernelzone::disks::{self, Added};
use kernelzone::record::Record;
use kernelzone::{adopt, disk_size, facts, image, install, ports, uefi};
use subject::Subject;

/// The hooks of kernel zones.
#[derive(Debug)]
pub(super) struct Machine;

impl ZoneKind for Machine {
    /// Refuses the verbs that act on the root or the processes of a zone. A kernel zone has them on
    /// its disks and in its memory.
    fn admit(&self, verb: Verb, _: &Config) -> Result<(), Error> {
        match verb {
            Verb::Beadm
            | Verb::Export
            | Verb::Backup
            | Verb::Diff
            | Verb::Files
            | Verb::RestoreFiles => Err(Error::Refused(format!(
                "{verb} cannot read the disks of a kernel zone: clone the zone, or use the tools of its guest."
            ))),
            Verb::Push | Verb::Pull => Err(Error::Refused(format!(
                "{verb} cannot reach the files of a kernel zone: copy over its network (scp), or small files with zlogin ZONE tar."
            ))),
            Verb::Quota => Err(Error::Refused(
                "the disks of a kernel zone have a fixed size and need no quota: zonecfg 'select device id=0; set size=SIZE' and zoneadm apply change it."
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn why_no_snapshots(&self) -> Option<&'static str> {
        Some(
            "is a kernel zone, whose snapshots cannot be cloned: roll it back to the snapshot, and clone the zone",
        )
    }

    fn keeps_disks(&self) -> bool {
        true
    }

    fn problems(
        &self,
        host: &Host,
        subject: &Subject,
        config: &Config,
        verb: Verb,
    ) -> Result<Vec<String>, Error> {
        let mut problems = Vec::new();
        // A zone that runs needs the key of its suspend image.
        if matches!(verb, Verb::Boot | Verb::Ready | Verb::Verify) {
            problems.extend(image::why_no_key(config));
            problems.extend(image::place::why_not_usable(host, subject, config)?);
        }
        let is_made = matches!(verb, Verb::Boot | Verb::Ready | Verb::Apply)
            || verb == Verb::Verify && Record::load(&subject.zonepath).is_ok();
        if is_made {
            problems.extend(disk_size::problems(host, config, &subject.zonepath)?);
        }
        if matches!(verb, Verb::Install | Verb::Verify) {
            let record = Record::load(&subject.zonepath).ok();
            problems.extend(uefi::problems(config, record.as_ref()));
        }
        Ok(problems)
    }

    fn install_options(&self, options: &[String]) -> Result<InstallOptions, Error> {
        let usage = |text: &str| Error::Usage(text.to_owned());
        if options.iter().any(|word| word.starts_with("-i")) {
            return Err(usage(
                "-i is for zones that share the host's kernel; -a takes the image of a disk",
            ));
        }
        Options::parse(options).map_err(|error| match error.is_usage() {
            true => Error::Usage(error.to_string()),
            false => Error::Brand(error),
        })?;
        Ok(InstallOptions {
            root: Vec::new(),
            machine: Some(options.to_vec()),
        })
    }

    fn admit_settings(&self, settings: &Kind) -> Result<(), Error> {
        match settings {
            Kind::Seed => Ok(()),
            Kind::Files | Kind::Profiles(_) => Err(Error::Usage(
                "the root of a kernel zone is on its disk: -c takes a directory with user-data, which cloud-init in the guest reads".to_owned(),
            )),
        }
    }

    fn give_seed(&self, path: PathBuf, seed: PathBuf, uuid: Uuid) -> Step {
        Step::MakeSeedDisk { path, seed, uuid }
    }

    /// The identity of the guest is stored on its disk.
    fn own_new_root(&self, path: PathBuf, _: Uuid, machine: Option<Vec<String>>) -> Step {
        Step::MakeMachine {
            path,
            options: machine.unwrap_or_default(),
        }
    }

    fn own_cloned_root(&self, from: PathBuf, to: PathBuf, _: Uuid) -> Step {
        Step::CloneMachine { from, to }
    }

    fn steps_beside_root(&self, path: PathBuf) -> Vec<Step> {
        vec![Step::DestroyMachine { path }]
    }

    /// Also removes an image outside the zonepath, unless another host resumes from it or has a
    /// copy.
    fn remove_beside_root(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
    ) -> Result<(), Error> {
        if let Some(image) = image::path(host, config) {
            image::remove(&image)?;
        }
        install::remove(host, config, zonepath).map_err(|error| Error::Refused(error.to_string()))
    }

    fn record(&self, zonepath: &Path) -> Result<Option<Record>, Error> {
        Ok(Some(Record::load(zonepath)?))
    }

    fn check_incoming(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
        has_record: bool,
    ) -> Result<(), Error> {
        if !has_record {
            return Err(other_brand(config));
        }
        install::refuse_there(host, config, zonepath)
            .map_err(|error| Error::Refused(format!("{error}.")))
    }

    fn is_elsewhere(&self, host: &Host, config: &Config, zonepath: &Path) -> bool {
        adopt::is_elsewhere(host, config, zonepath)
    }

    fn missing_disk(&self, host: &Host, config: &Config, zonepath: &Path) -> Option<String> {
        adopt::missing(host, config, zonepath)
    }

    fn refuse_data(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
        state: State,
    ) -> Result<(), Error> {
        adopt::refuse_data(host, config, zonepath, state)
    }

    fn adopt(&self, host: &Host, config: &Config, zonepath: &Path) -> Result<(), Error> {
        adopt::make_record(host, config, zonepath)
    }

    /// A device resource, which is a device node in other zones, is a disk of the guest here.
    fn device_patterns(&self, _: &Config) -> Vec<String> {
        Vec::new()
    }

    /// The guest mounts its file systems itself, and the host mounts none for it.
    fn has_mounts(&self) -> bool {
        false
    }

    fn is_suspended(&self, host: &Host, entry: &Entry, config: &Config) -> bool {
        image::place::is_suspended(host, entry, config)
    }

    fn prepare_boot(
        &self,
        host: &Host,
        config: &Config,
        zonepath: &Path,
    ) -> Result<Vec<String>, Error> {
        let mut remarks = disks::make_added(host, config, zonepath)?;
        remarks.extend(disk_size::grow(host, config, zonepath)?);
        ports::adopt(config, zonepath)?;
        remarks.extend(uefi::prepare(config, zonepath)?);
        Ok(remarks)
    }

    fn boot_facts(
        &self,
        host: &Host,
        subject: &Subject,
        config: &Config,
        added: Added,
    ) -> Result<BootFacts, Error> {
        let machine = facts::find(host, subject, config, added)?;
        Ok(BootFacts {
            nodes: machine.nodes.clone(),
            too_many: None,
            machine: Some(machine),
        })
    }

    /// Returns the init that stands for QEMU. The plan has its command line, and the monitor tells
    /// it to end.
    fn own_init(&self, brand: &dyn brand::Brand) -> Option<BootSpec> {
        const SIGTERM: i32 = 15;
        Some(BootSpec {
            init: InitProgram::Zinit,
            argv: Vec::new(),
            environment: Vec::new(),
            shutdown: ShutdownSignals {
                poweroff: SIGTERM,
                reboot: SIGTERM,
            },
            mounts: brand.platform().mounts,
            kernel: None,
            interpreter: None,
        })
    }

    fn resume(
        &self,
        host: &Host,
        subject: &Subject,
        config: &Config,
        facts: &BootFacts,
        plan: &mut BootPlan,
        options: ResumeOptions,
    ) -> Result<Vec<String>, Error> {
        match &facts.machine {
            Some(facts) if subject.state == State::Installed => {
                resume::prepare(host, subject, config, facts, plan, options)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn init_of_ready(&self, init: Init) -> Init {
        words_of_boot(&init)
    }

    fn count_boot(
        &self,
        subject: &Subject,
        facts: &BootFacts,
        plan: &BootPlan,
    ) -> Result<Option<String>, Error> {
        let (Some(facts), None) = (&facts.machine, &plan.resume) else {
            return Ok(None);
        };
        // No earlier image fits the disks once the zone has run.
        let disks = facts.disks.iter().filter_map(|files| files.paths.first());
        let disks: Vec<PathBuf> = disks.cloned().collect();
        image::count_boot(&subject.zonepath, &disks)
    }

    /// Every guest has a power button.
    fn hears_shutdown(&self, _: &Runtime) -> bool {
        true
    }

    /// A guest sees no files of the host.
    fn has_limit_files(&self) -> bool {
        false
    }

    fn sockets(&self, host: &Host, zone: &ZoneName) -> Option<Sockets> {
        let [monitor, console, _] = facts::sockets(host, zone);
        Some(Sockets { monitor, console })
    }

    fn entrance(&self) -> Entrance {
        Entrance::Agent
    }
}
