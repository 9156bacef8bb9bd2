//! `zoneadm clone`: installs a configured zone as a copy of an installed one.
//!
//! The origin's top is sealed once into a layer. Each clone is a new, empty top on this layer.
//! Nothing is copied, whatever the size of the origin.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::plan::{Step, ZonePlan};
use model::{Config, State, Uuid, Verb, ZoneName};
use storage::{Name, driver_at};
use store::index::Entry;
use store::lock::{self, Wait, ZoneLock};
use store::xml;

use crate::executor::{self, Work};
use crate::first_boot::Given;
use crate::{import, quota, suspend, verify};
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject, UNFINISHED, identity};

/// The zone that is cloned.
#[derive(Debug)]
pub struct Origin {
    entry: Entry,
    path: PathBuf,
    config: Config,
    /// The snapshot that is cloned instead of the present root of the zone.
    snapshot: Option<Name>,
    /// The settings for the first boot of each clone.
    profile: Option<Given>,
    /// The limit of the files of each clone, in bytes.
    default_limit: Option<u64>,
    _lock: ZoneLock,
}

impl Origin {
    /// Takes the origin's lock, and checks that the origin is halted. Waits for other commands that
    /// clone the origin. A snapshot may be cloned in any state of the zone.
    ///
    /// # Errors
    /// Fails with [`Error::Source`] if the zone is not installed, or does not have this snapshot.
    pub fn open(host: &Host, zone: &ZoneName, snapshot: Option<Name>) -> Result<Self, Error> {
        let (lock, entry, _) = subject::lock_known(host, zone, Wait::Yes)?;
        let (state, _) = subject::state(host, &entry)?;
        let path = host.root.path(&entry.zonepath);
        let config = xml::load(&host.root, zone)?;
        if let (Some(_), Some(why)) = (&snapshot, kind::of(&config).why_no_snapshots()) {
            return Err(Error::Source(format!("zone {zone} {why}.")));
        }
        let has_root = state.is_active() || matches!(state, State::Installed | State::Mounted);
        match &snapshot {
            Some(name) if has_root => {
                let all = driver_at(&path)?.snapshots(&path)?;
                if all.iter().all(|one| one.name != *name) {
                    return Err(Error::Source(format!(
                        "zone {zone} has no snapshot {name}."
                    )));
                }
            }
            None if state == State::Installed => crate::settle::settle(host, zone)?,
            _ => {
                return Err(Error::Source(format!(
                    "zone {zone} is {state}; installed is required."
                )));
            }
        }
        // Cloning changes the files of the origin's disks, so a suspended origin could not resume
        // from its image afterwards.
        if suspend::is_suspended(host, &entry, &config) {
            return Err(Error::Source(format!(
                "zone {zone} is suspended: boot it and shut it down, or throw its image away, before it is cloned."
            )));
        }
        Ok(Self {
            entry,
            path,
            config,
            snapshot,
            profile: None,
            default_limit: quota::default_limit(host)?,
            _lock: lock,
        })
    }

    /// Gives each clone the settings at a path of the host for its first boot: profiles, a seed for
    /// cloud-init, or files. They also replace files of the clone's identity, such as its host name.
    ///
    /// # Errors
    /// Fails with [`Error::Source`] if the path is not absolute, or leads to no settings.
    pub fn with_profile(mut self, profile: PathBuf) -> Result<Self, Error> {
        let given = Given::at(profile).map_err(|error| Error::Source(error.to_string()))?;
        self.profile = Some(given);
        Ok(self)
    }
}

/// A clone that is complete but not stored in the index yet.
#[derive(Debug)]
pub struct Cloned {
    entry: Entry,
    zonepath: PathBuf,
    /// True if the clone's configuration was made by this command.
    new: bool,
    lock: ZoneLock,
}

/// The result of preparing a clone.
#[derive(Debug)]
pub enum Prepared {
    /// A clone that [`store_all`] must store.
    Cloned(Box<Cloned>),
    /// The plan of a dry run.
    Planned(String),
    /// No clone is needed, for the reason in this notice.
    Already(&'static str),
}

/// The treatment of a zone without a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The zone is refused.
    Refuse,
    /// The zone is configured like the origin, except for its name and zonepath.
    Configure,
}

/// Makes one clone, but does not store its state: see [`store_all`].
///
/// # Errors
/// Fails with [`Error::Verify`], [`Error::Refused`], or [`Error::Step`] if a step failed. After an
/// error the zone is configured as before.
pub fn prepare(
    host: &Host,
    origin: &Origin,
    zone: &ZoneName,
    unknown: Unknown,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Prepared, Error> {
    if *zone == origin.entry.name {
        return Err(Error::Refused(
            "source and target of a clone must be different zones.".to_owned(),
        ));
    }
    let mut made = None;
    let start = match unknown {
        Unknown::Refuse => Subject::admit(host, zone, Verb::Clone)?,
        Unknown::Configure => Subject::admit_new(host, zone, Verb::Clone, || {
            let config = configuration_for(&origin.config, zone)?;
            let entry = Entry::configured(zone.clone(), config.zonepath());
            made = Some(config);
            Ok(entry)
        })
        .inspect_err(|_| {
            // The zone is stored as configured, because only the files of a known zone can be
            // removed. A clone that was killed earlier may have left files.
            if let (Some(config), false) = (&made, dry_run) {
                let _ = import::configure(host, config);
            }
        })?,
    };
    let subject = match start {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Prepared::Already(notice)),
    };
    let new = made.is_some();
    let config = match made {
        Some(config) => config,
        None => subject.config(host)?,
    };
    if config.family() != origin.config.family() {
        return Err(Error::Refused(format!(
            "zone {} is of brand {}; a clone must be of the same.",
            origin.entry.name,
            origin.config.brand()
        )));
    }
    verify::labels::admit_copy(&origin.config, &config)?;
    if subject.unfinished && !dry_run {
        driver_at(&subject.zonepath)?.destroy(&subject.zonepath)?;
    }
    verify::before(host, &subject, &config, Verb::Clone)?;
    let uuid = executor::new_uuid()?;
    if let Some(given) = &origin.profile {
        given.check(&config, uuid)?;
    }
    let limit = quota::default_step(origin.default_limit, &config, &subject.zonepath);
    let plan = plan(&subject, origin, limit, uuid);
    if dry_run {
        if new {
            lock::forget(&host.root, zone, &subject.into_lock())?;
        }
        return Ok(Prepared::Planned(plan.to_string()));
    }
    if new {
        xml::save_before_settle(&host.root, &config)?;
    }
    let mut whole = None;
    let record = &mut |entry| {
        whole = Some(entry);
        Ok(())
    };
    let mut work = Work::new(host, &config, subject.entry.clone(), record, progress);
    if let Err(error) = executor::run(&mut work, &plan, &mut host.fault.clone()) {
        if new {
            // The configuration file is removed, because a configuration without an entry in the
            // index is ignored and would confuse the administrator.
            let _ = xml::remove(&host.root, zone);
        }
        return Err(error);
    }
    let entry = whole.ok_or_else(|| Error::Refused("the plan stored nothing".to_owned()))?;
    Ok(Prepared::Cloned(Box::new(Cloned {
        entry,
        zonepath: subject.zonepath.clone(),
        new,
        lock: subject.into_lock(),
    })))
}

/// The first clone that could not be stored, and the reason.
#[derive(Debug)]
pub struct Unstored {
    /// The zone of the clone.
    pub zone: ZoneName,
    /// The error of the store.
    pub error: Error,
}

/// Stores clones as installed, all in one write of the index. If the disk is full, removes the last
/// clones until the others can be stored.
///
/// # Errors
/// Fails with [`Unstored`]. If the disk was full, the clones before this one are stored. After
/// another error no clone is stored, and the next clone command starts from the beginning.
pub fn store_all(host: &Host, mut clones: Vec<Box<Cloned>>) -> Result<(), Unstored> {
    let mut failed = None;
    while !clones.is_empty() {
        let new = clones.iter().filter(|clone| clone.new);
        let new: Vec<_> = new.map(|clone| &clone.entry.name).collect();
        let entries = clones.iter().map(|clone| clone.entry.clone()).collect();
        let stored = sync(host, &clones).and_then(|()| {
            xml::settle(&host.root, &new)?;
            Ok(executor::record_all(host, entries)?)
        });
        let Err(error) = stored else {
            break;
        };
        let last = match error.is_full() {
            true => clones.len() - 1,
            false => 0,
        };
        // If a clone that is given up here cannot be removed, it stays unfinished.
        let given_up = clones.split_off(last);
        let zone = given_up[0].entry.name.clone();
        if error.is_full() {
            give_up(host, &given_up[0]);
        }
        failed = Some(Unstored { zone, error });
    }
    for clone in &clones {
        // A crash here does no harm: a clone that keeps the unfinished mark works equally well.
        if let Some(uuid) = clone.entry.uuid {
            identity::write_over_mark(&host.root, &clone.zonepath, UNFINISHED, uuid);
        }
    }
    // The locks of the zones are released only here.
    drop(clones);
    failed.map_or(Ok(()), Err)
}

/// Maximum number of clones of a command whose files are written out one by one. For more clones
/// one `syncfs` is quicker, even if other processes write much.
const MAX_SINGLE_WRITES: usize = 16;

/// Makes sure that the identity of each clone is on stable storage before the index is. Identities
/// are contents of files, and no journal keeps their order. Without this, an installed zone could
/// be without its host name after a power failure.
fn sync(host: &Host, clones: &[Box<Cloned>]) -> Result<(), Error> {
    let index = host.root.index();
    let mut synced = BTreeSet::new();
    for clone in clones {
        if clones.len() <= MAX_SINGLE_WRITES && storage::write_out(&clone.zonepath, &index)? {
            continue;
        }
        // The device number of the root cannot be used, because on btrfs and ZFS each root has its
        // own device number.
        let device = std::fs::metadata(&clone.zonepath).map(|found| found.dev());
        let path = clone.zonepath.join(storage::ROOT);
        let done = device.and_then(|device| match synced.insert(device) {
            true => Ok(rustix::fs::syncfs(File::open(&path)?)?),
            false => Ok(()),
        });
        done.map_err(Error::io(format!("sync {}", path.display())))?;
    }
    Ok(())
}

/// Removes a complete clone, as far as possible.
fn give_up(host: &Host, clone: &Cloned) {
    let path = &clone.zonepath;
    if driver_at(path)
        .and_then(|driver| driver.destroy(path))
        .is_ok()
    {
        let _ = std::fs::remove_file(path.join(UNFINISHED));
        let _ = std::fs::remove_dir(path);
    }
    if clone.new {
        let _ = xml::remove(&host.root, &clone.entry.name);
        let _ = lock::forget(&host.root, &clone.entry.name, &clone.lock);
    }
}

fn configuration_for(origin: &Config, zone: &ZoneName) -> Result<Config, Error> {
    let mut config = origin.clone();
    config.rename(zone.clone());
    forget_own(&mut config).map_err(|error| Error::Refused(error.to_string()))?;
    if config.zonepath() != origin.zonepath() {
        return Ok(config);
    }
    // The configuration contains the zonepath literally, so its last component must be the origin's
    // name.
    let path = origin.zonepath();
    let parent = path.parent().unwrap_or(Path::new("/"));
    if path.file_name() != Some(origin.name().as_str().as_ref()) {
        return Err(Error::Refused(format!(
            "cannot configure zone {zone} like zone {}: its zonepath {} does not end with its name; use zonecfg.",
            origin.name(),
            path.display()
        )));
    }
    let path = parent.join(zone.as_str());
    config
        .set_zonepath(&path.to_string_lossy())
        .map_err(|error| Error::Refused(error.to_string()))?;
    Ok(config)
}

/// Removes the properties from a configuration that belong to one zone only.
fn forget_own(config: &mut Config) -> Result<(), model::config::Error> {
    for (resource, property) in brand::identity::CONFIGURED {
        let Some(resource) = resource else {
            config.clear(property)?;
            continue;
        };
        let given: Vec<_> = config
            .resources_of(resource)
            .filter(|one| one.has(property))
            .cloned()
            .collect();
        for old in given {
            let mut new = old.clone();
            new.clear(property)?;
            config.replace(&old, new)?;
        }
    }
    Ok(())
}

fn plan(subject: &Subject, origin: &Origin, limit: Option<Step>, uuid: Uuid) -> ZonePlan {
    let path = subject.zonepath.clone();
    let mut plan = ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Clone,
        steps: vec![
            Step::MakeZonepath { path: path.clone() },
            Step::CloneDataset {
                origin: origin.entry.name.clone(),
                from: origin.path.clone(),
                to: path.clone(),
                snapshot: origin.snapshot.as_ref().map(Name::to_string),
            },
            kind::of(&origin.config).own_cloned_root(origin.path.clone(), path.clone(), uuid),
            Step::Record {
                state: State::Installed,
                uuid: Some(uuid),
            },
        ],
    };
    let profile = origin.profile.clone();
    let profile = profile.map(|given| given.step(&origin.config, path, uuid));
    let stored = plan.steps.len() - 1;
    let last = profile.into_iter().chain(limit);
    plan.steps.splice(stored..stored, last);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, zonepath: &str) -> Config {
        let mut config = Config::new(name.parse().unwrap());
        config.set_zonepath(zonepath).unwrap();
        config
    }

    #[test]
    fn properties_of_one_zone_are_not_copied_to_a_clone() {
        let mut origin = config("web", "/zones/web");
        origin.set("hostid", "0xBEEF").unwrap();
        origin.set("ip-type", "exclusive").unwrap();
        let spec = model::table::resource("anet").unwrap();
        for (link, mac) in [("net0", "0:3:ba:e:6e:21"), ("net1", "random")] {
            let mut anet = model::config::Resource::new(spec);
            anet.set("linkname", link).unwrap();
            anet.set("mac-address", mac).unwrap();
            anet.set("vlan-id", "7").unwrap();
            origin.add(anet).unwrap();
        }
        let clone = configuration_for(&origin, &"web7".parse().unwrap()).unwrap();
        assert!(!origin.get("hostid").is_empty());
        assert_eq!(clone.get("hostid"), "");
        let anets: Vec<_> = clone.resources_of("anet").collect();
        assert_eq!(anets.len(), 2);
        for (anet, link) in anets.iter().zip(["net0", "net1"]) {
            assert_eq!((anet.get("linkname"), anet.get("vlan-id")), (link, "7"));
            assert_eq!(anet.get("mac-address"), "auto");
        }
    }

    #[test]
    fn a_clone_gets_a_zonepath_of_its_own() {
        let zone: ZoneName = "web7".parse().unwrap();
        let path =
            |from: &str| configuration_for(&config("web", from), &zone).map(|c| c.zonepath());
        assert_eq!(
            path("/zones/%{zonename}").unwrap(),
            Path::new("/zones/web7")
        );
        assert_eq!(path("/zones/web").unwrap(), Path::new("/zones/web7"));
        assert!(
            path("/zones/elsewhere")
                .unwrap_err()
                .to_string()
                .contains("use zonecfg")
        );
    }
}
