//! Stored configurations, changed under the zone's lock.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;
use std::time::Duration;

use ::host::flatten;
use control::audit;
use label::Label;
use model::{Config, State, Uuid, ZoneName};
use rustix::fs::{Access, access};
use sha2::{Digest, Sha256};
use store::index::{self, Entry, Index, Pending};
use store::lock::{self, ZoneLock};
use store::template::{self, TemplateError};
use store::{Root, runtime, xml};
use syntax::{Backing, Change};

use crate::host;

/// Time for which zonecfg retries to take a lock that another process holds: the holder may be
/// about to release it.
pub const LOCK_RETRY_TIME: Duration = Duration::from_secs(1);

/// Timeout for writing the root of a halted zone to disk.
const WRITE_OUT_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason why the store refused an operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The label is not valid here.
    #[error(transparent)]
    Label(#[from] store::labels::Error),
    /// The template does not exist.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The default link cannot be added.
    #[error(transparent)]
    Config(#[from] model::config::Error),
    /// Another session committed a change since this session read the configuration.
    #[error(
        "{0}: another session changed the configuration meanwhile: use revert, and make the change again"
    )]
    Changed(ZoneName),
    /// The stored configuration is not the one that the caller has seen (`--expect`).
    #[error("{0}: the configuration has another digest than expected: read it again")]
    Unexpected(ZoneName),
    /// Another zone has the new name.
    #[error("{0}: Zone name already in use")]
    NameInUse(ZoneName),
    /// The zone was installed since this session began.
    #[error(
        "Zone {0} already installed; its zonepath, brand, label and inherit-pkg-dir cannot change."
    )]
    Installed(ZoneName),
    /// The zone was booted since this session began, and cannot be renamed.
    #[error("Zone {0} already running; set zonename not allowed.")]
    Running(ZoneName),
    /// The zone has an image of its memory, and cannot be renamed.
    #[error(
        "Zone {0} is suspended; boot it and shut it down, or throw its image away, before set zonename."
    )]
    Suspended(ZoneName),
    /// A patch of the zone was interrupted, so the zone cannot be renamed.
    #[error("Zone {0} has an interrupted patch; run zonepatch recover before set zonename.")]
    Patching(ZoneName),
    /// A move or rename of the zone that was killed cannot be completed.
    #[error(transparent)]
    Pending(#[from] ::host::Error),
    /// The zone is in a state in which it cannot be deleted.
    #[error("Zone {zone} is {state}; delete not allowed.")]
    State {
        /// The zone.
        zone: ZoneName,
        /// Its state.
        state: State,
    },
    /// No zone has this uuid.
    #[error("{0}: No such zone configured")]
    NoSuchUuid(Uuid),
}

/// The store below one root.
#[derive(Debug)]
pub struct Stored {
    root: Root,
    /// The host's software directories, which only some commands need.
    host_dirs: OnceCell<Vec<&'static str>>,
    /// The ZFS pool of the host's root.
    root_pool: OnceCell<Option<String>>,
    /// The index as read for the current command; `None` before the first read.
    index: Option<Index>,
    /// The digest that the first commit of the session must find.
    expected: Option<String>,
}

/// Returns a digest that differs for different configurations: SHA-256 of the XML file, in
/// hexadecimal.
pub fn digest(config: &Config) -> String {
    let bytes = Sha256::digest(xml::render(config));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Stored {
    /// The store below `root`.
    pub fn new(root: Root) -> Self {
        Self {
            root,
            host_dirs: OnceCell::new(),
            root_pool: OnceCell::new(),
            index: None,
            expected: None,
        }
    }

    /// Returns a store whose first commit fails unless the stored configuration has this digest.
    pub fn expecting(mut self, expected: Option<String>) -> Self {
        self.expected = expected;
        self
    }

    /// Refuses a change whose base is not the configuration that the caller has seen. Later commits
    /// of the session begin at the session's own changes.
    fn check_expected(&mut self, change: &Change) -> Result<(), Error> {
        match &self.expected {
            Some(expected) if change.base.map(digest).as_ref() != Some(expected) => {
                Err(Error::Unexpected(change.zone.clone()))
            }
            _ => {
                self.expected = None;
                Ok(())
            }
        }
    }

    /// Returns true if this user may not change configurations.
    pub fn is_read_only(&self) -> bool {
        let folder = self.root.etc();
        // The first commit makes a zone that does not exist.
        let existing = folder.ancestors().find(|folder| folder.exists());
        existing.is_none_or(|folder| access(folder, Access::WRITE_OK).is_err())
    }

    /// Returns the zone with this uuid.
    pub fn zone_with(&self, uuid: Uuid) -> Result<ZoneName, Error> {
        let index = Index::load(&self.root)?;
        let entry = index.by_uuid(uuid).ok_or(Error::NoSuchUuid(uuid))?;
        Ok(entry.name.clone())
    }

    /// Drops the read configuration: the next command may follow after a while.
    pub fn refresh(&mut self) {
        self.index = None;
    }

    /// Returns the names that `create -t` accepts.
    pub fn templates(&self) -> Vec<String> {
        let built_in = template::built_in().map(str::to_owned);
        let files = fs::read_dir(self.root.etc()).into_iter().flatten();
        let files = files
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".xml").map(str::to_owned))
            .filter(|name| !name.starts_with('.'));
        built_in.chain(files).collect()
    }

    /// Returns the configuration with the defaults of this host.
    fn here(&self, config: Config) -> Config {
        match self.root_pool.get_or_init(host::root_pool) {
            Some(pool) => config.on_root_pool(pool),
            None => config,
        }
    }

    /// Returns the configuration of the global zone. Without a file, the global zone has all
    /// defaults.
    fn global(&self) -> Result<Config, Error> {
        match xml::load(&self.root, &ZoneName::global()) {
            Ok(config) => Ok(self.here(config)),
            Err(store::Error::NoSuchZone(name)) => Ok(self.here(Config::new(name))),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether a new zone gets a default link. Zones below another root than the host's
    /// get none unless the global zone's configuration asks for it: such roots are for tests and
    /// for systems that another host boots.
    fn has_default_network(&self) -> Result<bool, Error> {
        let global = self.global()?;
        Ok(match global.get("default-network") {
            "anet" => true,
            "none" => false,
            _ => self.root.dir() == Path::new("/"),
        })
    }

    fn commit_global(&self, change: &Change) -> Result<(), Error> {
        let _held = lock::zone_within(&self.root, change.zone, LOCK_RETRY_TIME)?;
        if Some(&self.global()?) != change.base {
            return Err(Error::Changed(change.zone.clone()));
        }
        Ok(xml::save(&self.root, change.config)?)
    }

    fn index(&mut self) -> Result<&Index, store::Error> {
        if self.index.is_none() {
            self.index = Some(Index::load(&self.root)?);
        }
        Ok(self.index.get_or_insert_default())
    }

    /// Waits while an ending zoneadmd still closes the zone's root. After a rename no lock would
    /// prevent a boot of the zone meanwhile.
    fn wait_until_closed(&self, zone: &ZoneName) -> Result<(), store::Error> {
        let path = self.root.root_lock(zone);
        if path.exists() && lock::exclusive_within(&path, WRITE_OUT_TIMEOUT)?.is_none() {
            return Err(store::Error::Locked(zone.clone().into()));
        }
        Ok(())
    }

    /// Refuses to rename a zone that is in use or that another command must complete first.
    fn refuse_rename(&mut self, old: &ZoneName, config: &Config) -> Result<(), Error> {
        // zoneadm holds the same lock while it boots a zone.
        if self.state(old)?.is_some_and(is_in_use) {
            return Err(Error::Running(old.clone()));
        }
        self.wait_until_closed(old)?;
        let image = config.suspend_path().map(|path| {
            let is_own = path.starts_with(config.zonepath());
            if is_own { self.root.path(&path) } else { path }
        });
        if image.is_some_and(|path| path.symlink_metadata().is_ok()) {
            return Err(Error::Suspended(old.clone()));
        }
        let journal = self.index()?.find(old).cloned();
        let journal = journal.map(|entry| zone::patch_files::journal_of(&self.root, &entry));
        match journal.is_some_and(|path| path.exists()) {
            true => Err(Error::Patching(old.clone())),
            false => Ok(()),
        }
    }

    /// Stores a zone under its new name, with its zonepath. The caller holds the locks of both
    /// names. After a kill, the zone has one of the names, and the next command on it removes the
    /// files of the other.
    fn store_renamed(&self, old: &ZoneName, config: &Config) -> Result<(), Error> {
        let (new, zonepath) = (config.name(), config.zonepath());
        let pending = Pending::Rename {
            from: old.clone(),
            to: new.clone(),
        };
        let begun = pending.clone();
        index::update(&self.root, |index| {
            index.begin(begun);
            Ok::<(), store::Error>(())
        })?;
        let stored = xml::save(&self.root, config).and_then(|()| {
            index::update(&self.root, |index| {
                index.rename(old, new.clone())?;
                let mut entry = index.get(new)?.clone();
                entry.zonepath = zonepath;
                index.put(entry);
                Ok(())
            })
        });
        // This removes the files of the old name, or after an error those of the new one.
        let ended = subject::pending::complete(&self.root, &pending);
        stored?;
        ended?;
        Ok(())
    }

    /// Completes the moves and renames of a zone that were killed. The caller holds the locks of
    /// both names.
    fn recover_held(&mut self, old: &ZoneName, new: &ZoneName) -> Result<(), Error> {
        for name in [old, new] {
            let pending = self.index()?.pending_of(name).cloned();
            let is_held = match &pending {
                Some(Pending::Rename { from, to }) => {
                    [from, to].iter().all(|name| *name == old || *name == new)
                }
                _ => true,
            };
            match pending.filter(|_| is_held) {
                Some(pending) => drop(subject::pending::complete(&self.root, &pending)?),
                None => self.recover(name)?,
            }
            self.refresh();
        }
        Ok(())
    }

    /// Completes a move or rename of a zone that was killed. The caller holds the zone's lock.
    fn recover(&mut self, zone: &ZoneName) -> Result<(), Error> {
        let index = self.index()?.clone();
        if subject::pending::recover(&self.root, zone, &index)? {
            self.refresh();
        }
        Ok(())
    }

    /// Takes the locks of a zone and of its new name, always in the same order.
    fn lock(&self, zone: &ZoneName, new: &ZoneName) -> Result<Vec<ZoneLock>, store::Error> {
        let mut names = vec![zone, new];
        names.sort_unstable();
        names.dedup();
        let locks = names
            .iter()
            .map(|name| lock::zone_within(&self.root, name, LOCK_RETRY_TIME));
        locks.collect()
    }

    /// Stores a changed configuration.
    fn store(&mut self, change: &Change) -> Result<(), Error> {
        self.check_expected(change)?;
        if change.zone.is_global() {
            return self.commit_global(change);
        }
        let (old, config) = (change.zone, change.config);
        let new = config.name();
        let _held = self.lock(old, new)?;
        self.refresh();
        self.recover_held(old, new)?;
        if self.load(old)?.as_ref() != change.base {
            return Err(Error::Changed(old.clone()));
        }
        if old != new {
            self.refuse_rename(old, config)?;
        }
        let index = self.index()?;
        if old != new && index.find(new).is_some() {
            return Err(Error::NameInUse(new.clone()));
        }
        let entry = index.find(old).cloned();
        let installed = entry.as_ref().is_some_and(|e| e.state > State::Configured);
        if installed && differs(change) {
            return Err(Error::Installed(old.clone()));
        }
        self.refresh();
        if old != new && entry.is_some() {
            return self.store_renamed(old, config);
        }
        let zonepath = config.zonepath();
        match &entry {
            Some(_) => xml::save(&self.root, config)?,
            // The write of the index follows at once and makes the name of the zone's file
            // durable, too.
            None => xml::save_before_index(&self.root, config)?,
        }
        if entry
            .as_ref()
            .is_some_and(|entry| entry.zonepath == zonepath)
        {
            return Ok(());
        }
        index::update(&self.root, |index| {
            let entry = match index.find(new) {
                None => Entry::configured(new.clone(), zonepath),
                Some(entry) => Entry {
                    zonepath,
                    ..entry.clone()
                },
            };
            index.put(entry);
            Ok::<(), store::Error>(())
        })?;
        Ok(())
    }
}

impl Backing for Stored {
    type Error = Error;

    fn load(&mut self, zone: &ZoneName) -> Result<Option<Config>, Error> {
        if zone.is_global() {
            return self.global().map(Some);
        }
        if zone.is_template() {
            return match self.template(Some(zone.as_str()), zone) {
                Ok(config) => Ok(Some(config)),
                Err(Error::Template(TemplateError::NoSuchTemplate(_))) => Ok(None),
                Err(error) => Err(error),
            };
        }
        // A zone file without an index entry is a template or an unfinished zone.
        if self.index()?.find(zone).is_none() {
            return Ok(None);
        }
        match xml::load(&self.root, zone) {
            Ok(config) => Ok(Some(self.here(config))),
            Err(store::Error::NoSuchZone(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn state(&mut self, zone: &ZoneName) -> Result<Option<State>, Error> {
        if zone.is_global() {
            return Ok(Some(State::Running));
        }
        let Some(state) = self.index()?.find(zone).map(|entry| entry.state) else {
            return Ok(None);
        };
        if state < State::Installed {
            return Ok(Some(state));
        }
        let active = runtime::load(&self.root, zone)?;
        Ok(Some(active.map_or(state, |runtime| runtime.state)))
    }

    fn template(&mut self, template: Option<&str>, zone: &ZoneName) -> Result<Config, Error> {
        let name = template.unwrap_or(template::DEFAULT);
        let mut config = template::load(&self.root, name, zone, self.host_dirs(), host::cpus())?;
        if template.is_none() && self.has_default_network()? {
            config.add_default_link()?;
        }
        Ok(self.here(config))
    }

    fn detached(&mut self, zonepath: &str, zone: &ZoneName) -> Result<Config, Error> {
        let config = template::detached(&self.root, zonepath, zone)?;
        Ok(self.here(config))
    }

    fn existing(&mut self, zone: &ZoneName) -> Result<Config, Error> {
        Ok(self.here(xml::load(&self.root, zone)?))
    }

    fn problems(&mut self, config: &Config) -> Vec<String> {
        let strangers = config
            .admins()
            .filter(|admin| !host::user_exists(&admin.user));
        strangers
            .map(|admin| {
                format!(
                    "admin user: Invalid argument: '{}' is not a user of this host.",
                    admin.user
                )
            })
            .collect()
    }

    fn label(&mut self, text: &str) -> Result<String, Error> {
        let names = store::labels::encodings(&self.root)?;
        let label = names
            .parse_accredited(text)
            .map_err(store::labels::Error::from)?;
        Ok(label.to_string())
    }

    fn label_text(&mut self, label: Label) -> Option<String> {
        let names = store::labels::encodings(&self.root).ok()?;
        names.check(label).is_ok().then(|| names.text(label))
    }

    fn unlabeled(&mut self, zone: &ZoneName) -> Result<Vec<ZoneName>, Error> {
        let zones = store::labels::of_zones(&self.root)?;
        if zones.iter().any(|(_, label)| label.is_some()) {
            return Ok(Vec::new());
        }
        let names = zones.into_iter().map(|(name, _)| name);
        Ok(names.filter(|name| name != zone).collect())
    }

    fn host_dirs(&self) -> &[&str] {
        self.host_dirs.get_or_init(host::software_dirs)
    }

    fn commit(&mut self, change: &Change) -> Result<(), Error> {
        let done = self.store(change);
        let (before, label) = (change.base.and_then(Config::label), change.config.label());
        if before != label {
            let why = done.as_ref().err().map(|error| flatten(error));
            let (root, zone) = (&self.root, change.config.name());
            audit::record(root, audit::Event::Label, zone, label, why.as_deref());
        }
        done
    }

    fn has_files(&mut self, zone: &ZoneName) -> Result<bool, Error> {
        let entry = self.index()?.find(zone).cloned();
        // The root of a detached zone stays in the zonepath.
        Ok(entry.is_some_and(|entry| {
            let zonepath = self.root.path(&entry.zonepath);
            entry.state > State::Configured || !subject::lacks_root(&zonepath)
        }))
    }

    fn delete(&mut self, zone: &ZoneName, force: bool) -> Result<(), Error> {
        let held = lock::zone_within(&self.root, zone, LOCK_RETRY_TIME)?;
        self.refresh();
        self.recover(zone)?;
        let state = self.state(zone)?;
        let allowed = match state {
            None | Some(State::Configured) => true,
            Some(state) => force && !is_in_use(state),
        };
        if let (false, Some(state)) = (allowed, state) {
            let zone = zone.clone();
            return Err(Error::State { zone, state });
        }
        if state.is_none() && !self.root.xml(zone).exists() {
            lock::forget(&self.root, zone, &held)?;
            return Err(store::Error::NoSuchZone(zone.clone()).into());
        }
        zone::delete::all(&self.root, &[(zone, &held)])?;
        self.refresh();
        Ok(())
    }

    fn write_export(&mut self, file: &str, text: &str) -> std::io::Result<()> {
        fs::write(file, text)
    }
}

/// Returns true if processes or mounts depend on the zone's name and zonepath.
pub const fn is_in_use(state: State) -> bool {
    state.is_active() || matches!(state, State::Mounted)
}

/// Returns true if the change would make the configuration differ from an installed zone's files.
fn differs(change: &Change) -> bool {
    let Some(base) = change.base else {
        return false;
    };
    let config = change.config;
    (base.zonepath() != config.zonepath() && !change.zonepath_forced)
        || base.brand() != config.brand()
        || base.label() != config.label()
        || base.inherited_dirs() != config.inherited_dirs()
}
