//! `attach -u` and `-U` of a whole-root zone: the zone's own package manager updates a copy of the
//! root. The package manager sees the same environment as in the running zone.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | the zone gets its range of ids | nothing else has changed |
//! | mark; snapshot; a clone of that beside the zone | the old zone: clone and snapshot go |
//! | the package manager works in the clone, nothing synced | the same |
//! | compare with this host; one sync; the clone's top is sealed | the same |
//! | the zone takes over the clone's layers | the same: it goes back to the snapshot |
//! | **the snapshot goes** | the new zone |
//! | the clone goes; the mark goes; the zone is installed | the same |
//!
//! On ZFS a root has no layers, so the package manager works in the root itself. A snapshot keeps
//! the old root: until the snapshot is removed, a crash returns the zone to its old root.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Config, ZoneName};
use storage::{Dataset, Stack, driver_at};

use crate::attach::{Updater, compared, update};
use crate::inventory::System;
use crate::job::{self, Job};
use crate::{executor, inventory};
use host::{Error, Host, flatten};
use subject::Subject;

/// Maximum number of bytes of a log in which an error message is searched.
const MAX_LOG: u64 = 4 << 20;

/// Maximum number of characters of the error message, which comes from the zone.
const MAX_REASON: usize = 300;

/// Maximum time for a package manager, as for zonepatch. The limit exists because package scripts
/// come from the zone, and the zone is locked meanwhile.
const UPDATE_TIME_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// An update of the packages of a whole-root zone.
pub(super) struct Work<'a> {
    pub(super) host: &'a Host,
    pub(super) config: &'a Config,
    pub(super) updater: Updater<'a>,
    /// Packages that must get the versions of this host, as `name=version`.
    pub(super) wanted: Vec<String>,
    /// True if all other packages are also updated to the newest available version.
    pub(super) all: bool,
}

fn place_beside(zonepath: &Path, zone: &ZoneName) -> Result<PathBuf, Error> {
    job::place_beside(zonepath, &format!(".attach-{zone}"))
}

/// Removes the copy and the other files that an interrupted update left beside the zone. The caller
/// must hold the zone's lock.
pub(super) fn clear(host: &Host, subject: &Subject) -> Result<(), Error> {
    if !subject.zonepath.join(update::UPDATING).exists() {
        return Ok(());
    }
    let zone = &subject.entry.name;
    job::clear(host, zone, subject.state)?;
    job::remove_copy(&place_beside(&subject.zonepath, zone)?)
}

impl Work<'_> {
    /// Updates all packages of the zone, or leaves the zone unchanged.
    pub(super) fn carry_out(
        &self,
        subject: &mut Subject,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let path = subject.zonepath.clone();
        executor::record_with_ids(self.host, &mut subject.entry)?;
        let done = match driver_at(&path)?.has_layers() {
            true => self.update(subject, progress),
            false => self.update_in_place(subject, progress),
        };
        if let Err(error) = done {
            let cleared = clear(self.host, subject).and_then(|()| update::recover(&path));
            return Err(match cleared {
                Ok(()) => error,
                Err(also) => Error::Refused(format!(
                    "{}; and could not clear up: {}",
                    flatten(&error),
                    flatten(&also)
                )),
            });
        }
        update::unmark(&path)
    }

    fn update(&self, subject: &Subject, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let (host, zone) = (self.host, &subject.entry.name);
        let dataset = Dataset::open(&subject.zonepath)?;
        let place = place_beside(&subject.zonepath, zone)?;
        // This removes the copy of an interrupted update whose zonepath was later removed by hand.
        job::remove_copy(&place)?;
        let before = update::begin(&subject.zonepath)?;
        let was = inventory::of_zone(host, &subject.zonepath, self.config)?.known()?;
        let copy = dataset.clone_snapshot_to(&before, &place)?;
        self.run_all(subject, &copy.stack()?)?;
        let now = self.checked(&place)?;
        // The package manager's files were not synced one by one. This writes all of them to stable
        // storage at once.
        copy.sync()?;
        copy.seal()?;
        dataset.take_over(&copy)?;
        dataset.settle(&host.root.index())?;
        dataset.destroy_snapshot(&before)?;
        drop(copy);
        job::remove_copy(&place)?;
        tell(&was, &now, progress);
        Ok(())
    }

    /// Updates the packages in the root itself, where the root has no layers (ZFS).
    fn update_in_place(
        &self,
        subject: &Subject,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let (host, path) = (self.host, &subject.zonepath);
        let driver = driver_at(path)?;
        let before = update::begin(path)?;
        let was = inventory::of_zone(host, path, self.config)?.known()?;
        // The files get the zone's owners, as at a boot.
        if let Some(first) = subject.entry.first_id() {
            driver.give_to(path, first)?;
        }
        self.run_all(subject, &driver.stack(path)?)?;
        let now = self.checked(path)?;
        driver.settle(path, &host.root.index())?;
        driver.destroy_snapshot(path, &before)?;
        tell(&was, &now, progress);
        Ok(())
    }

    /// Returns the packages of an updated root. Fails if a package is broken or still older than on
    /// this host.
    fn checked(&self, place: &Path) -> Result<System, Error> {
        let now = inventory::of_zone(self.host, place, self.config)?.known()?;
        if let Some(broken) = now.inventory.broken.first() {
            return Err(Error::Refused(format!(
                "package {broken} is not right after the update."
            )));
        }
        compared(self.config, &now)?.refuse_older()?;
        Ok(now)
    }

    /// Runs the package manager for the wanted packages, and then for all packages if requested.
    fn run_all(&self, subject: &Subject, stack: &Stack) -> Result<(), Error> {
        if !self.wanted.is_empty() {
            self.run(subject, stack, &self.wanted)?;
        }
        if self.all {
            self.run(subject, stack, &[])?;
        }
        Ok(())
    }

    /// Runs the package manager once in a root.
    fn run(&self, subject: &Subject, stack: &Stack, wanted: &[String]) -> Result<(), Error> {
        let mut stack = stack.clone();
        let (script, words) = job::look(self.host, self.config, &stack, |root| {
            (self.updater)(root, wanted).map_err(|error| Error::Refused(flatten(error.as_ref())))
        })?;
        stack.volatile = !stack.lowers.is_empty();
        let path = self.log(&subject.entry.name);
        let log = job::open_log(&path)?;
        let job = Job {
            stack,
            script,
            words: &words,
            shown: None,
            log: &log,
            bounds: job::Bounds {
                within: Some(UPDATE_TIME_LIMIT),
                ..job::Bounds::default()
            },
        };
        match job::run(self.host, subject, &job)? {
            0 => Ok(()),
            status => Err(Error::Refused(format!(
                "its packages could not be updated ({status}): {}; see {}",
                reason(&path),
                self.host.root.shown(&path).display()
            ))),
        }
    }

    fn log(&self, zone: &ZoneName) -> PathBuf {
        self.host.root.log().join(format!("attach.{zone}"))
    }
}

/// Reports the number of updated packages.
fn tell(was: &System, now: &System, progress: &mut dyn FnMut(&str)) {
    let all = now.inventory.packages.iter();
    let changed = all.filter(|(key, version)| was.inventory.packages.get(key) != Some(version));
    progress(&format!("Updated {} packages.", changed.count()));
}

/// Returns the package manager's first error message, or its last line.
fn reason(log: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(log) {
        let _ = file.take(MAX_LOG).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| line.starts_with("E: ") || line.starts_with("dpkg: error");
    let line = lines().find(is_error).or_else(|| lines().next_back());
    let plain = line.unwrap_or("it said nothing").chars();
    plain.filter(|c| !c.is_control()).take(MAX_REASON).collect()
}
