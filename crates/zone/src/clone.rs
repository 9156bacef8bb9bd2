//! `zoneadm clone`: installs a configured zone as a copy of an installed one.
//!
//! The origin's top is sealed into a layer, once; each clone is a new, empty top
//! on it. Nothing is copied, whatever the origin holds.

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
use crate::{suspend, verify};
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject, UNFINISHED, identity};

/// The zone that is copied.
#[derive(Debug)]
pub struct Origin {
    entry: Entry,
    path: PathBuf,
    config: Config,
    /// The snapshot that is copied in place of the zone.
    snapshot: Option<Name>,
    /// A folder of files that each clone gets.
    profile: Option<PathBuf>,
    _lock: ZoneLock,
}

impl Origin {
    /// Takes the origin's lock, waiting for others that clone it, and checks that it is halted. A
    /// snapshot may be cloned in any state of the zone.
    ///
    /// # Errors
    /// [`Error::Source`] unless it is installed, or has such a snapshot.
    pub fn open(host: &Host, zone: &ZoneName, snapshot: Option<Name>) -> Result<Self, Error> {
        let (lock, entry, _) = subject::lock_known(host, zone, Wait::Yes)?;
        let (state, _) = subject::state(host, &entry)?;
        let path = host.root.path(&entry.zonepath);
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
            None if state == State::Installed => subject::settle(host, zone)?,
            _ => {
                return Err(Error::Source(format!(
                    "zone {zone} is {state}; installed is required."
                )));
            }
        }
        let config = xml::load(&host.root, zone)?;
        // Cloning gives its disks other files, or makes them others: it could not go on.
        if suspend::is_suspended(host, &entry, &config) {
            return Err(Error::Source(format!(
                "zone {zone} is suspended: boot it and shut it down, or throw its image away, before it is cloned."
            )));
        }
        if let (Some(_), Some(why)) = (&snapshot, kind::of(&config).why_no_snapshots()) {
            return Err(Error::Source(format!("zone {zone} {why}.")));
        }
        Ok(Self {
            entry,
            path,
            config,
            snapshot,
            profile: None,
            _lock: lock,
        })
    }

    /// Gives each clone the files in a folder of the host. They replace also files of the clone's
    /// identity, such as its host name.
    ///
    /// # Errors
    /// [`Error::Source`] when it is no folder, or not named by an absolute path.
    pub fn with_profile(mut self, profile: PathBuf) -> Result<Self, Error> {
        check_profile(&profile).map_err(|error| Error::Source(error.to_string()))?;
        self.profile = Some(profile);
        Ok(self)
    }
}

/// The reason why a path cannot be a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadProfile {
    /// It would depend on where the command is called.
    #[error("profile {}: the path must be absolute.", .0.display())]
    Relative(PathBuf),
    /// It has no files.
    #[error("profile {} is not a directory.", .0.display())]
    NoFolder(PathBuf),
}

/// Refuses a path that cannot be a profile.
pub(crate) fn check_profile(profile: &Path) -> Result<(), BadProfile> {
    if !profile.is_absolute() {
        return Err(BadProfile::Relative(profile.to_owned()));
    }
    match profile.is_dir() {
        true => Ok(()),
        false => Err(BadProfile::NoFolder(profile.to_owned())),
    }
}

/// A clone that is whole but not stored yet.
#[derive(Debug)]
pub struct Cloned {
    entry: Entry,
    zonepath: PathBuf,
    /// The configuration was made with it.
    new: bool,
    lock: ZoneLock,
}

/// The result of preparing a clone.
#[derive(Debug)]
pub enum Prepared {
    /// To be stored by [`store_all`].
    Cloned(Box<Cloned>),
    /// Only shown.
    Planned(String),
    /// Not needed: this notice is all there is to say.
    Already(&'static str),
}

/// The treatment of a zone that is not configured yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Refuse it.
    Refuse,
    /// Configure it like the origin, but for name and zonepath.
    Configure,
}

/// Makes one clone, up to storing its state: see [`store_all`].
///
/// # Errors
/// [`Error::Verify`], [`Error::Refused`]; [`Error::Step`] when a step failed:
/// the zone is then configured as before.
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
            // The files of a clone that was killed before it was stored can only be removed if the
            // zone is known.
            if let (Some(config), false) = (&made, dry_run) {
                let _ = remember(host, config);
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
    if subject.unfinished && !dry_run {
        driver_at(&subject.zonepath)?.destroy(&subject.zonepath)?;
    }
    verify::before(host, &subject, &config, Verb::Clone)?;
    let uuid = executor::new_uuid()?;
    let plan = plan(&subject, origin, uuid);
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
            // Without an entry it does not count; nobody should wonder about it.
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

/// Stores a new zone as configured.
fn remember(host: &Host, config: &Config) -> Result<(), Error> {
    xml::save_before_index(&host.root, config)?;
    let entry = Entry::configured(config.name().clone(), config.zonepath());
    Ok(executor::record_now(host, entry)?)
}

/// The first clone that could not be stored.
#[derive(Debug)]
pub struct Unstored {
    /// Its zone.
    pub zone: ZoneName,
    /// The reason.
    pub error: Error,
}

/// Stores clones as installed, all in one write. On a full disk the last ones are
/// given up until there is space to store the others.
///
/// # Errors
/// [`Unstored`]. Where space was the reason those before it are stored; else none is,
/// and the next clone of each begins again.
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
        // A clone that is dropped here stays unfinished if it cannot be removed.
        let given_up = clones.split_off(last);
        let zone = given_up[0].entry.name.clone();
        if error.is_full() {
            give_up(host, &given_up[0]);
        }
        failed = Some(Unstored { zone, error });
    }
    for clone in &clones {
        // With the mark the clone is as good.
        if let Some(uuid) = clone.entry.uuid {
            identity::write_over_mark(&host.root, &clone.zonepath, UNFINISHED, uuid);
        }
    }
    // The locks of the zones are held until here.
    drop(clones);
    failed.map_or(Ok(()), Err)
}

/// Maximum number of clones of a command that are written out one by one; for more one `syncfs` is
/// quicker, even if others write a lot.
const MAX_SINGLE_WRITES: usize = 16;

/// Makes sure that the identity of each clone is on stable storage before the index is. These are
/// contents of files, which no journal keeps in order: without this a zone that is said to be
/// installed could be without a name after a power cut.
fn sync(host: &Host, clones: &[Box<Cloned>]) -> Result<(), Error> {
    let index = host.root.index();
    let mut synced = BTreeSet::new();
    for clone in clones {
        if clones.len() <= MAX_SINGLE_WRITES && storage::write_out(&clone.zonepath, &index)? {
            continue;
        }
        // Not of the root: on btrfs and ZFS each has a number of its own.
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

/// Undoes a whole clone, as far as possible.
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
    // The zonepath was written out: its last part must be the origin's name.
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

/// Removes from a configuration the properties that belong to one zone only.
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

fn plan(subject: &Subject, origin: &Origin, uuid: Uuid) -> ZonePlan {
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
    if let Some(profile) = origin.profile.clone() {
        let stored = plan.steps.len() - 1;
        plan.steps
            .insert(stored, Step::LayProfile { path, profile });
    }
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
