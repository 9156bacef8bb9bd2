//! Zones of the host's kernel: their processes are processes of the host.

use std::path::{Path, PathBuf};

use brand::BootSpec;
use brand::first_boot::Kind;
use model::plan::{BootPlan, Init, Step};
use model::{Config, Uuid, Verb, ZoneName};
use store::index::Entry;
use store::runtime::Runtime;

use super::hooks::{BootFacts, Entrance, InstallOptions, ResumeOptions, Sockets, ZoneKind};
use host::{Error, Host, devices, init_ready};
use kernelzone::disks::Added;
use kernelzone::record::Record;
use subject::Subject;

/// A zone that shares the host's kernel.
#[derive(Debug)]
pub(super) struct Container;

impl ZoneKind for Container {
    fn admit(&self, verb: Verb, config: &Config) -> Result<(), Error> {
        match verb {
            // The processes of a container cannot be saved completely: their objects in the host's
            // kernel (connections, locks, files without a name) would be lost.
            Verb::Suspend => Err(Error::Refused(format!(
                "zones of brand {} cannot be suspended: their processes are the host's. Use shutdown \
                 to stop it in order, snapshot to keep its files, or a zone of brand kz, which has a \
                 kernel of its own.",
                config.brand()
            ))),
            Verb::Savecore => Err(Error::Refused(
                "its kernel is the host's: only zones of brand kz have one of their own."
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn problems(&self, _: &Host, _: &Subject, _: &Config, _: Verb) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn install_options(&self, options: &[String]) -> Result<InstallOptions, Error> {
        Ok(InstallOptions {
            root: options.to_vec(),
            machine: None,
        })
    }

    fn admit_settings(&self, _: &Kind) -> Result<(), Error> {
        Ok(())
    }

    fn give_seed(&self, path: PathBuf, seed: PathBuf, uuid: Uuid) -> Step {
        Step::LaySeed { path, seed, uuid }
    }

    fn own_new_root(&self, path: PathBuf, uuid: Uuid, _: Option<Vec<String>>) -> Step {
        Step::Identify { path, uuid }
    }

    fn own_cloned_root(&self, _: PathBuf, to: PathBuf, uuid: Uuid) -> Step {
        Step::Identify { path: to, uuid }
    }

    fn steps_beside_root(&self, _: PathBuf) -> Vec<Step> {
        Vec::new()
    }

    fn remove_beside_root(&self, _: &Host, _: &Config, _: &Path) -> Result<(), Error> {
        Ok(())
    }

    fn record(&self, _: &Path) -> Result<Option<Record>, Error> {
        Ok(None)
    }

    fn check_incoming(
        &self,
        _: &Host,
        config: &Config,
        _: &Path,
        has_record: bool,
    ) -> Result<(), Error> {
        match has_record {
            true => Err(super::hooks::other_brand(config)),
            false => Ok(()),
        }
    }

    fn device_patterns(&self, config: &Config) -> Vec<String> {
        config.device_patterns().collect()
    }

    fn has_mounts(&self) -> bool {
        true
    }

    fn is_suspended(&self, _: &Host, _: &Entry, _: &Config) -> bool {
        false
    }

    fn prepare_boot(&self, _: &Host, _: &Config, _: &Path) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn boot_facts(
        &self,
        _: &Host,
        _: &Subject,
        config: &Config,
        _: Added,
    ) -> Result<BootFacts, Error> {
        let devices = devices::find(config.device_patterns());
        Ok(BootFacts {
            nodes: devices.nodes,
            too_many: devices.too_many,
            machine: None,
        })
    }

    fn own_init(&self, _: &dyn brand::Brand) -> Option<BootSpec> {
        None
    }

    fn resume(
        &self,
        _: &Host,
        _: &Subject,
        _: &Config,
        _: &BootFacts,
        _: &mut BootPlan,
        _: ResumeOptions,
    ) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn init_of_ready(&self, init: Init) -> Init {
        init
    }

    fn count_boot(
        &self,
        _: &Subject,
        _: &BootFacts,
        _: &BootPlan,
    ) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn hears_shutdown(&self, runtime: &Runtime) -> bool {
        init_ready::is_ready_for(runtime.init.pid, runtime.shutdown_signal)
    }

    fn has_limit_files(&self) -> bool {
        true
    }

    fn sockets(&self, _: &Host, _: &ZoneName) -> Option<Sockets> {
        None
    }

    fn entrance(&self) -> Entrance {
        Entrance::Namespaces
    }
}
