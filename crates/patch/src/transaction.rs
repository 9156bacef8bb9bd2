//! One zone: snapshot, work in a copy, verify, switch.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | journal: working | nothing of the zone has changed |
//! | snapshot, and a clone of that beside the zone | the old zone; the clone and the snapshot go |
//! | the package manager works in the clone, nothing synced | the same |
//! | verify; one sync; the clone's top is sealed | the same |
//! | journal: switching, with the sealed layer | the same |
//! | **the zone takes over the clone's layers** | the new zone |
//! | history; the clone goes; the journal goes | the same |

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use model::{Config, State, Verb, ZoneName};
use storage::{Dataset, Name, Stack, driver_at};
use zone::environments::{self, When};
use zone::job::{self, Job};
use zone::subject::{Start, Subject};
use zone::{Error, Host, flatten};

use crate::environment;
use crate::follow;
use crate::health::Health;
use crate::inventory::{self, Inventory};
use crate::manager::{self, Mood, NOT_BEGUN, NOT_SOUND, SHOWN, TOLD, Work};
use crate::memory;
use crate::order::Order;
use crate::record::{self, Change, Entry, History, How, Journal, Phase, Standing};
use crate::recover::{self, End};

/// Longest log that is looked through for a reason, in bytes.
const MAX_LOG: u64 = 4 << 20;

/// What all zones of one command have in common.
#[derive(Debug)]
pub struct Patch<'a> {
    /// The host.
    pub host: &'a Host,
    /// The name of the patch, unique on this host.
    pub name: String,
    /// What is to be done.
    pub order: Order,
    /// A folder with the package files of the order.
    pub files: Option<PathBuf>,
    /// Snapshots of former patches that a zone keeps.
    pub keep: usize,
    /// What is done with zones that run.
    pub running: Running,
    /// What says whether a zone is well with its patch.
    pub health: Health,
}

/// How zones that run are patched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Running {
    /// Not at all.
    #[default]
    Refused,
    /// In a boot environment, which they take then.
    Environment(When),
    /// In place.
    Live,
}

/// What became of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is patched.
    Patched(Box<Entry>, Box<Witness>),
    /// There was nothing to do.
    Unchanged,
}

/// What others may take over from a zone that was patched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// The tree of the layer with the changes.
    pub tree: PathBuf,
    /// Trees that lie between the base of its group and that, topmost first.
    pub above: Vec<PathBuf>,
    /// What its fingerprint is now.
    pub fingerprint: String,
    /// Why nobody can.
    pub unfit: Option<String>,
    /// What went wrong when it had its patch.
    pub warning: Option<String>,
}

impl Done {
    /// A zone that has its patch, though something failed when it had.
    pub(crate) fn late(entry: Box<Entry>, error: &Error) -> Self {
        let witness = Witness {
            unfit: Some("something failed when it was patched".to_owned()),
            warning: Some(not_cleared(error)),
            ..Witness::default()
        };
        Self::Patched(entry, Box::new(witness))
    }
}

fn not_cleared(error: &Error) -> String {
    format!(
        "it has its patch, but what is beside it could not be cleared up: {}",
        flatten(error)
    )
}

/// Takes the zone's lock.
///
/// # Errors
/// When its state forbids it.
pub fn admit(host: &Host, zone: &ZoneName) -> Result<Box<Subject>, Error> {
    match Subject::admit(host, zone, Verb::Snapshot) {
        Ok(Start::Go(subject)) => {
            environments::complete(&subject)?;
            Ok(subject)
        }
        Ok(Start::Already(notice)) => Err(Error::Refused(notice.to_owned())),
        Err(Error::Refused(text)) => Err(Error::Refused(text.replace("snapshot", "patch"))),
        Err(error) => Err(error),
    }
}

/// Where the copy of a zone is: beside it, or in it where it is a file system of its own,
/// as layers cannot leave one.
///
/// # Errors
/// When the zonepath cannot be looked at.
pub fn place_beside(zonepath: &Path, name: &str) -> Result<PathBuf, Error> {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| {
        fs::metadata(path)
            .map(|meta| meta.dev())
            .map_err(Error::io(format!("look at {}", path.display())))
    };
    let parent = zonepath.parent().unwrap_or(zonepath);
    Ok(match device(parent)? == device(zonepath)? {
        true => parent.join(name),
        false => zonepath.join(name),
    })
}

/// A zone whose lock is held, and what is found there.
#[derive(Debug)]
pub struct Ready {
    /// The zone.
    pub subject: Box<Subject>,
    /// Its configuration.
    pub config: Config,
    /// Its data.
    pub dataset: Dataset,
    /// What is installed.
    pub before: Inventory,
    /// Which package manager it has.
    pub manager: &'static dyn manager::Manager,
}

/// Locks a zone and looks into it.
///
/// # Errors
/// When it cannot be patched, and why.
pub fn prepare(host: &Host, zone: &ZoneName) -> Result<Ready, Error> {
    let subject = admit(host, zone)?;
    recover::zone(host, &subject)?;
    environment::refuse_pending(&subject)?;
    if subject.state == State::Installed {
        job::settle(host, &subject)?;
    }
    let config = subject.config(host)?;
    if !driver_at(&subject.zonepath)?.has_layers() {
        return Err(Error::Refused(
            "is stored on ZFS, where zonepatch does not work yet; make a snapshot and update it inside."
                .to_owned(),
        ));
    }
    let dataset = Dataset::open(&subject.zonepath)?;
    let (before, manager) = job::look(host, &config, &dataset.stack()?, |root| {
        let manager = manager::of(root)
            .ok_or_else(|| Error::Refused("has no package manager that is known.".to_owned()))?;
        // Says so by name when it cannot be driven.
        manager
            .work(&Order::Upgrade, Mood::Try)
            .map_err(Error::Refused)?;
        Ok((inventory::read(root)?, manager))
    })?;
    Ok(Ready {
        subject,
        config,
        dataset,
        before,
        manager,
    })
}

impl Patch<'_> {
    /// The name of the snapshot before this patch.
    ///
    /// # Errors
    /// Never; the name of a patch is made for it.
    pub fn snapshot(&self) -> Result<Name, Error> {
        format!("patch-{}", self.name)
            .parse()
            .map_err(|error: storage::BadName| Error::Refused(error.to_string()))
    }

    /// The name of the boot environment that is made of a zone that runs.
    fn environment(&self) -> Result<Name, Error> {
        recover::name(&format!("patched-{}", self.name))
    }

    /// The name of what is made of a zone before the package manager works.
    fn start_of(&self, subject: &Subject) -> Result<Name, Error> {
        match subject.state {
            State::Installed => self.snapshot(),
            _ => self.environment(),
        }
    }

    /// Patches a zone: a halted one at once, one that runs for its next boot. `base` is the
    /// tree of the layer that it has in common with its group.
    ///
    /// # Errors
    /// Why it could not be patched; it is then as it was.
    pub fn zone(&self, ready: &Ready, base: Option<&Path>) -> Result<Done, Error> {
        let Ready {
            subject, dataset, ..
        } = ready;
        match (subject.state, self.running) {
            (State::Installed, _) | (State::Running, Running::Environment(_)) => {}
            (State::Running, _) => {
                let in_place = match ready.is_sparse()? {
                    true => "",
                    false => ", or patch it in place (--live)",
                };
                return Err(Error::Refused(format!(
                    "is running; halt it first, or patch a boot environment of it, for the next boot (--activate=next) or with a reboot (--activate=now){in_place}."
                )));
            }
            (state, _) => {
                return Err(Error::Refused(format!("is {state}; halt it first.")));
            }
        }
        let work = match ready.is_sparse()? {
            true => {
                follow::refuse_order(&self.order)?;
                // Nothing of it is taken in hand for nothing.
                if follow::lacks(&ready.before)?.is_empty() {
                    return Ok(Done::Unchanged);
                }
                None
            }
            false => {
                let work = ready.manager.work(&self.order, Mood::Do);
                Some(work.map_err(Error::Refused)?)
            }
        };
        let zone = &subject.entry.name;
        let copy = place_beside(&subject.zonepath, &format!(".patch-{zone}"))?;
        let journal = Journal {
            patch: self.name.clone(),
            zone: Some(zone.to_string()),
            snapshot: self.start_of(subject)?.to_string(),
            copy,
            phase: Phase::Working,
        };
        let path = record::journal_of(&self.host.root, &subject.entry);
        record::save(&path, &journal)?;
        match self.work(ready, &journal, work.as_ref(), base) {
            Ok(Done::Unchanged) => {
                recover::finish(self.host, subject, dataset, &journal, &End::Old)?;
                Ok(Done::Unchanged)
            }
            Ok(Done::Patched(entry, mut witness)) => {
                let end = End::New(entry.clone());
                witness.warning = self.leave(ready, &journal, &end);
                Ok(Done::Patched(entry, witness))
            }
            // Takes back what was begun; what fails here is tried again by the next call.
            Err(error) => match recover::zone(self.host, subject) {
                Ok(Some(End::New(entry))) => Ok(Done::late(entry, &error)),
                Ok(_) => Err(error),
                Err(also) => Err(Error::Refused(format!(
                    "{}; and could not clear up: {}",
                    flatten(&error),
                    flatten(&also)
                ))),
            },
        }
    }

    /// Clears up after a zone that has its patch; what cannot be done then is a warning, and
    /// left for the next call.
    pub(crate) fn leave(&self, ready: &Ready, journal: &Journal, end: &End) -> Option<String> {
        let Ready {
            subject, dataset, ..
        } = ready;
        let left = recover::finish(self.host, subject, dataset, journal, end)
            .and_then(|()| self.thin_out(dataset, ready));
        left.err().map(|error| not_cleared(&error))
    }

    fn work(
        &self,
        ready: &Ready,
        journal: &Journal,
        work: Option<&Work>,
        base: Option<&Path>,
    ) -> Result<Done, Error> {
        let (subject, dataset) = (&ready.subject, &ready.dataset);
        let (name, host) = (self.start_of(subject)?, self.host);
        let halted = subject.state == State::Installed;
        self.start(ready, &name)?;
        let above = above(&dataset.stack()?.lowers, base);
        let copy = dataset.clone_snapshot_to(&name, &journal.copy)?;
        let said = match work {
            Some(work) => self.run(ready, &copy, work)?,
            None => {
                let log = open_log(&self.log(&subject.entry.name))?;
                follow::carry_out(host, ready, &copy, &log)?;
                Said::default()
            }
        };
        let tells = ready.manager.tells();
        let look = |root: &Path| {
            let after = inventory::read(root)?;
            if tells {
                return Ok((after, said.changes()));
            }
            let changes = inventory::changes(&ready.before, &after);
            inventory::verify(root, &changes)?;
            Ok((after, changes))
        };
        let (after, changes) = match work {
            Some(_) => job::look(host, &ready.config, &copy.stack()?, look)?,
            // What it has from the host is not its business.
            None => job::look_at_own(host, &copy.stack()?, look)?,
        };
        if !after.broken.is_empty() {
            return Err(Error::Refused(after.broken.join(", ")));
        }
        // A database may change by being read.
        if changes.is_empty() && (tells || after.fingerprint == ready.before.fingerprint) {
            dataset.destroy_snapshot(&name)?;
            return Ok(Done::Unchanged);
        }
        // Nothing of the copy was written to disk in time: all of it is now, at once.
        copy.sync()?;
        let tree = copy.seal_tree()?;
        let how = match work {
            Some(_) => How::Real,
            None => How::Host,
        };
        let mut entry = self.entry(&subject.entry.name, how, changes, said.services);
        if !halted {
            let (active, _) = environments::marked(&subject.zonepath)?;
            entry.how = How::Environment;
            entry.standing = Standing::Pending;
            entry.snapshot = Some(active.to_string());
            entry.environment = Some(name.to_string());
            environment::remember(host, &subject.entry)?;
        }
        let path = record::journal_of(&host.root, &subject.entry);
        let (tree_of, entry_of) = (tree.clone(), Box::new(entry.clone()));
        let switching = Journal {
            phase: match halted {
                true => Phase::Switching {
                    tree: tree_of,
                    entry: entry_of,
                },
                false => Phase::Environment {
                    tree: tree_of,
                    entry: entry_of,
                },
            },
            ..journal.clone()
        };
        record::save(&path, &switching)?;
        if halted {
            dataset.take_over(&copy)?;
        } else {
            dataset.take_as_snapshot(&name, &copy)?;
            environments::choose(subject, Some(&name))?;
        }
        let witness = Witness {
            tree,
            above: above.clone().unwrap_or_default(),
            fingerprint: after.fingerprint,
            unfit: match (&above, said.identity_changed) {
                _ if !halted => Some("it runs".to_owned()),
                (None, _) => Some("its layers were merged".to_owned()),
                _ if tells => Some("its package manager's results are not compared".to_owned()),
                (_, true) => Some("the patch changes what makes a zone itself".to_owned()),
                _ => None,
            },
            warning: None,
        };
        Ok(Done::Patched(Box::new(entry), Box::new(witness)))
    }

    /// Makes what a copy stands on.
    fn start(&self, ready: &Ready, name: &Name) -> Result<(), Error> {
        match ready.subject.state {
            State::Installed => Ok(ready.dataset.snapshot(name)?),
            // Its root is written into meanwhile.
            _ => zone::snapshot::of_locked(self.host, &ready.subject, name),
        }
    }

    /// An entry of the history.
    #[must_use]
    pub fn entry(
        &self,
        zone: &ZoneName,
        how: How,
        packages: Vec<Change>,
        services: Vec<String>,
    ) -> Entry {
        Entry {
            patch: self.name.clone(),
            at: record::now(),
            order: self.order.clone(),
            how,
            standing: Standing::Applied,
            snapshot: Some(format!("patch-{}", self.name)),
            environment: None,
            packages,
            services,
            log: self.host.root.shown(&self.log(zone)),
        }
    }

    /// Where is written what the package manager of a zone says.
    #[must_use]
    pub fn log(&self, zone: &ZoneName) -> PathBuf {
        let name = format!("zonepatch.{}.{zone}", self.name);
        self.host.root.log().join(name)
    }

    /// Runs the work in a copy.
    fn run(&self, ready: &Ready, copy: &Dataset, work: &Work) -> Result<Said, Error> {
        let path = self.log(&ready.subject.entry.name);
        let log = open_log(&path)?;
        if let Some(status) = self.in_memory(ready, copy, work, &log)? {
            let said = Said::read(&path);
            if status == 0 {
                return Ok(said);
            }
            if !said.lacks_room() && status < 128 {
                return Err(Error::Refused(said.reason(ready.manager.program(), status)));
            }
        }
        // The disk may have the room.
        log.set_len(0)
            .map_err(Error::io(format!("write {}", path.display())))?;
        let ran = self.job(ready, work, &log, copy.stack()?);
        let said = Said::read(&path);
        match ran? {
            0 => Ok(said),
            status => Err(Error::Refused(said.reason(ready.manager.program(), status))),
        }
    }

    /// Runs the work in memory, and puts what it came to into the copy; nothing when it
    /// cannot be run there.
    fn in_memory(
        &self,
        ready: &Ready,
        copy: &Dataset,
        work: &Work,
        log: &File,
    ) -> Result<Option<i32>, Error> {
        let Some(grant) = memory::grant(&ready.config, copy, &self.order) else {
            return Ok(None);
        };
        // Whoever assembles the root has to see what is mounted here.
        job::aside(|| {
            let top = copy.memory_top(grant.bytes());
            let ran = top.map_err(Error::from).and_then(|top| {
                let status = self.job(ready, work, log, top.stack().clone())?;
                Ok((top, status))
            });
            match ran {
                // Before Linux 6.3 no tmpfs can be shown with other owners.
                Err(_) => Ok(None),
                Ok((top, 0)) => {
                    copy.keep_memory(&top)?;
                    Ok(Some(0))
                }
                Ok((_, status)) => Ok(Some(status)),
            }
        })
    }

    fn job(&self, ready: &Ready, work: &Work, log: &File, stack: Stack) -> Result<i32, Error> {
        let volatile = !stack.lowers.is_empty();
        let shown = self.files.clone();
        job::run(
            self.host,
            &ready.subject,
            &Job {
                stack: Stack { volatile, ..stack },
                script: work.script,
                words: &work.words,
                shown: shown.map(|folder| (folder, PathBuf::from(SHOWN))),
                log,
            },
        )
    }

    /// What the work would do, as the package manager says.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub fn try_out(&self, ready: &Ready) -> Result<Vec<Change>, Error> {
        let subject = &ready.subject;
        if ready.is_sparse()? {
            follow::refuse_order(&self.order)?;
            return follow::lacks(&ready.before);
        }
        let work = ready
            .manager
            .work(&self.order, Mood::Try)
            .map_err(Error::Refused)?;
        let zone = &subject.entry.name;
        let journal = Journal {
            patch: self.name.clone(),
            zone: Some(zone.to_string()),
            snapshot: self.start_of(subject)?.to_string(),
            copy: place_beside(&subject.zonepath, &format!(".patch-{zone}"))?,
            phase: Phase::Working,
        };
        let path = record::journal_of(&self.host.root, &subject.entry);
        record::save(&path, &journal)?;
        let name = self.start_of(subject)?;
        let copy = |()| Ok(ready.dataset.clone_snapshot_to(&name, &journal.copy)?);
        let tried = self
            .start(ready, &name)
            .and_then(copy)
            .and_then(|copy| self.run(ready, &copy, &work));
        let tells = ready.manager.tells();
        let said = tried.map(|said| match tells {
            true => said.changes(),
            false => said.planned,
        });
        recover::zone(self.host, subject)?;
        let _ = fs::remove_file(self.log(zone));
        said
    }

    /// Removes snapshots of older patches than are kept.
    pub(crate) fn thin_out(&self, dataset: &Dataset, ready: &Ready) -> Result<(), Error> {
        let (root, subject) = (&self.host.root, &ready.subject);
        let history: Option<History> = record::load(&record::history_of(root, &subject.entry))?;
        let history = history.unwrap_or_default();
        let (active, next) = environments::marked(&subject.zonepath)?;
        let mut old = Vec::new();
        for one in dataset.snapshots()? {
            let is_taken = one.name == active || Some(&one.name) == next.as_ref();
            if history.made(one.name.as_str())
                && !is_taken
                && !environments::is_in_use(subject, &one)?
            {
                old.push(one.name);
            }
        }
        old.truncate(old.len().saturating_sub(self.keep.max(1)));
        let mut gone = Vec::new();
        let removed = old.iter().try_for_each(|name| {
            dataset.destroy_snapshot(name)?;
            gone.push(name.as_str());
            Ok(())
        });
        if !gone.is_empty() {
            record::change(root, &subject.entry, |history| {
                for entry in &mut history.entries {
                    entry.snapshot.take_if(|name| gone.contains(&name.as_str()));
                }
            })?;
        }
        removed
    }
}

impl Ready {
    /// Whether folders of the host are part of the zone's root.
    ///
    /// # Errors
    /// When the host's folders cannot be looked at.
    pub fn is_sparse(&self) -> Result<bool, Error> {
        job::is_sparse(&self.config)
    }
}

/// The layers above `base`; none when it is not among them.
fn above(lowers: &[PathBuf], base: Option<&Path>) -> Option<Vec<PathBuf>> {
    let base = base?;
    let at = lowers.iter().position(|tree| tree == base)?;
    Some(lowers[..at].to_vec())
}

pub(crate) fn open_log(path: &Path) -> Result<File, Error> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io(format!("make {}", folder.display())))?;
    }
    let mut options = File::options();
    options.create(true).append(true).mode(0o600);
    options
        .open(path)
        .map_err(Error::io(format!("write {}", path.display())))
}

/// What a package manager said. All of it comes from the zone.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) services: Vec<String>,
    identity_changed: bool,
    planned: Vec<Change>,
    /// What was installed before and after, where the package manager tells.
    told: [BTreeMap<(String, String), String>; 2],
    errors: Vec<String>,
    last: String,
}

/// Most lines that are kept of a kind.
const MOST: usize = 10_000;

impl Said {
    pub(crate) fn read(path: &Path) -> Self {
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(path) {
            let _ = file.take(MAX_LOG).read_to_end(&mut bytes);
        }
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(text: &str) -> Self {
        let mut said = Self::default();
        for line in text.lines() {
            let line: String = line.chars().filter(|char| !char.is_control()).collect();
            let line = line.trim();
            if let Some(told) = line.strip_prefix(TOLD) {
                if told == "identity changed" {
                    said.identity_changed = true;
                } else if let Some(package) = told.strip_prefix("was ") {
                    said.installed(0, package);
                } else if let Some(package) = told.strip_prefix("is ") {
                    said.installed(1, package);
                } else if let Some(service) = told.strip_prefix("service ") {
                    let service = service.to_owned();
                    if said.services.len() < MOST && !said.services.contains(&service) {
                        said.services.push(service);
                    }
                }
                continue;
            }
            if said.planned.len() < MOST {
                said.planned.extend(planned(line));
            }
            // Of apt, dpkg, dnf and rpm, apk.
            let begins = ["E: ", "dpkg: error", "Error: ", "error: ", "ERROR: "];
            let is_error = begins.iter().any(|begin| line.starts_with(begin))
                || line.contains("No space left on device");
            if is_error && said.errors.len() < MOST {
                said.errors.push(line.to_owned());
            }
            if !line.is_empty() {
                line.clone_into(&mut said.last);
            }
        }
        said
    }

    fn installed(&mut self, at: usize, text: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        if let ([name, architecture, version], true) =
            (words.as_slice(), self.told[at].len() < MOST)
        {
            let key = ((*name).to_owned(), (*architecture).to_owned());
            self.told[at].insert(key, (*version).to_owned());
        }
    }

    /// What changed, where the package manager tells what is installed.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let [was, is] = &self.told;
        inventory::differences(was, is)
    }

    /// Whether it was for want of room.
    fn lacks_room(&self) -> bool {
        let room = |line: &String| {
            line.contains("No space left on device") || line.contains("enough free space")
        };
        self.errors.iter().any(room) || room(&self.last)
    }

    /// Why it failed, in one line.
    pub(crate) fn reason(&self, manager: &str, status: i32) -> String {
        let full = |line: &&String| line.contains("No space left on device");
        let said = self.errors.iter().find(full).or(self.errors.first());
        let said = said.unwrap_or(&self.last);
        let said: String = said.chars().take(300).collect();
        match status {
            10 => format!("dpkg could not finish what was left half done: {said}"),
            11 => format!("{manager} update failed: {said}"),
            12 | NOT_BEGUN => format!("{manager} failed: {said}"),
            NOT_SOUND => format!("the result is not sound: {said}"),
            128.. => format!("was ended by signal {}: {said}", status - 128),
            _ => format!("the package manager ended with status {status}: {said}"),
        }
    }
}

/// Reads `Inst NAME [OLD] (NEW ...)` and `Remv NAME [OLD]`.
fn planned(line: &str) -> Option<Change> {
    let mut words = line.split_whitespace();
    let verb = words.next()?;
    let package = words.next()?.to_owned();
    let mut change = Change {
        package,
        architecture: String::new(),
        from: None,
        to: None,
    };
    for word in words {
        if let Some(version) = word
            .strip_prefix('[')
            .and_then(|word| word.strip_suffix(']'))
        {
            if change.to.is_none() && change.from.is_none() {
                change.from = Some(version.to_owned());
            }
        } else if let Some(version) = word.strip_prefix('(') {
            change.to = Some(version.trim_end_matches(')').to_owned());
        }
    }
    match verb {
        "Inst" => Some(change),
        "Remv" => Some(Change { to: None, ..change }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_apt_says_is_understood() {
        let text = "Inst a [1.0] (2.0 Local:stable [all])\n\
                    Inst b (1 Local [amd64])\nConf a (2.0)\nRemv c [3]\n\
                    zonepatch: service apache2 restart\nzonepatch: service apache2 restart\n\
                    zonepatch: identity changed\nE: Sub-process failed\n";
        let said = Said::parse(text);
        let planned: Vec<String> = said.planned.iter().map(ToString::to_string).collect();
        assert_eq!(planned, ["a 1.0 -> 2.0", "b 1 new", "c 3 removed"]);
        assert_eq!(said.services, ["apache2 restart"]);
        assert!(said.identity_changed);
        assert_eq!(
            said.reason("apt-get", 12),
            "apt-get failed: E: Sub-process failed"
        );
        assert_eq!(
            Said::parse("tar: x: No space left on device\nE: y\n").reason("apt-get", 12),
            "apt-get failed: tar: x: No space left on device"
        );
        assert_eq!(
            Said::parse("odd\u{7}\n").reason("apt-get", 3),
            "the package manager ended with status 3: odd"
        );
    }

    #[test]
    fn what_a_package_manager_tells_is_compared() {
        let text = "zonepatch: was a - 1-r0\nzonepatch: was b x 2\nzonepatch: was odd\n\
                    zonepatch: is a - 1-r1\nzonepatch: is c x 3\n";
        let changes = Said::parse(text).changes();
        let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(changes, ["a 1-r0 -> 1-r1", "b 2 removed", "c 3 new"]);
    }

    #[test]
    fn a_base_that_is_gone_has_nothing_above() {
        let lowers: Vec<PathBuf> = ["c", "b", "a"].iter().map(PathBuf::from).collect();
        let of = |base: &str| above(&lowers, Some(Path::new(base)));
        assert_eq!(of("a").unwrap().len(), 2);
        assert_eq!(of("c").unwrap().len(), 0);
        assert_eq!(of("x"), None);
        assert_eq!(above(&lowers, None), None);
    }
}
