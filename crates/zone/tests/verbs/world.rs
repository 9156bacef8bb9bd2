//! Compares the expected state of the zones with their state in the index and on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use host::{Error, Host, flatten};
use model::{Config, State, Verb, ZoneName};
use storage::Dataset;
use store::Root;
use store::index::{self, Entry, Index, Pending};
use subject::Subject;
use zone::clone::{Origin, Prepared, Unknown, prepare, store_all};
use zone::snapshot::Name;
use zone::{attach, detach, install, mark, merge, relocate, rollback, snapshot, uninstall};

/// A verb and its zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Install(&'static str),
    Clone(&'static str, &'static str),
    Uninstall(&'static str),
    Detach(&'static str),
    Attach(&'static str),
    Mark(&'static str),
    /// A program in the zone writes a file.
    Write(&'static str),
    Snapshot(&'static str),
    Rollback(&'static str),
    DestroySnapshot(&'static str),
    Merge(&'static str),
    /// The zonepath moves to a folder for moved zones, or from there to the first folder.
    Move(&'static str),
}

/// The injected interruption of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    None,
    /// The step with this number, counted from 1, fails.
    Fails(usize),
    /// The verb is killed before the effect with this number.
    Killed(u32),
}

/// The expected state of a zone: its state, the text of its file, and the text of this file in its
/// snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Zone {
    state: State,
    /// True if the zone is configured and its zonepath contains a root.
    is_detached: bool,
    text: Option<String>,
    snapshot: Option<Option<String>>,
    /// True if the zonepath is in the folder for moved zones.
    is_moved: bool,
}

const EMPTY: Zone = Zone {
    state: State::Configured,
    is_detached: false,
    text: None,
    snapshot: None,
    is_moved: false,
};

/// The folder of moved zones.
const MOVED: &str = "/moved";

/// The path of the file that the tests write in each zone.
const FILE: &str = "srv/word";

/// The text of the file in a newly installed zone.
const FIRST: &str = "installed";

pub struct World {
    folder: tempfile::TempDir,
    names: &'static [&'static str],
    known: BTreeMap<&'static str, Zone>,
    written: u32,
}

fn name_of(zone: &str) -> ZoneName {
    zone.parse().expect("a name")
}

/// Returns the zonepath of a zone that was not moved.
fn first_zonepath(zone: &str) -> String {
    match zone {
        "db" => "/zones with a blank/db".to_owned(),
        zone => format!("/zones/{zone}"),
    }
}

fn snapshot_name() -> Name {
    "one".parse().expect("a name")
}

impl World {
    pub fn new(names: &'static [&'static str]) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let world = Self {
            folder,
            names,
            known: names.iter().map(|name| (*name, EMPTY)).collect(),
            written: 0,
        };
        fs::create_dir_all(world.root().path(Path::new(MOVED)))?;
        for folder in ["etc/ssh", "srv", "usr/bin", "var"] {
            fs::create_dir_all(world.source().join(folder))?;
        }
        fs::write(world.source().join(FILE), FIRST)?;
        let root = world.root();
        for zone in names {
            let mut config = Config::new(name_of(zone));
            config.set("brand", "lx")?;
            config.set_zonepath(&first_zonepath(zone))?;
            store::xml::save(&root, &config)?;
            let entry = Entry::configured(config.name().clone(), config.zonepath());
            index::update(&root, |index| {
                index.put(entry);
                Ok::<(), store::Error>(())
            })?;
        }
        Ok(world)
    }

    fn root(&self) -> Root {
        Root::new(&self.folder.path().join("host"))
    }

    /// Returns the folder from which zones are installed.
    fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    /// Returns the host as a new command sees it.
    fn host(&self) -> Host {
        Host::new(self.root(), PathBuf::from("zones-no-such-group"), None)
    }

    fn zonepath(&self, zone: &str) -> Result<PathBuf, String> {
        let index = Index::load(&self.root()).map_err(|error| error.to_string())?;
        let entry = index
            .get(&name_of(zone))
            .map_err(|error| error.to_string())?;
        Ok(self.root().path(&entry.zonepath))
    }

    /// Returns the zone that a verb changes and its expected state after the verb; `None` if the
    /// verb may not begin.
    fn after(&self, act: &Act) -> Option<(&'static str, Zone)> {
        let is = |zone: &str, state: State| self.known[zone].state == state;
        let installed = |zone: &'static str| {
            let known = &self.known[zone];
            (known.state == State::Installed).then(|| known.clone())
        };
        let empty = |zone: &str| self.is_empty(zone);
        let (zone, new) = match *act {
            Act::Install(zone) if empty(zone) => {
                let text = Some(FIRST.to_owned());
                (
                    zone,
                    Zone {
                        state: State::Installed,
                        text,
                        ..EMPTY
                    },
                )
            }
            Act::Clone(from, to) if empty(to) => {
                let text = installed(from)?.text;
                (
                    to,
                    Zone {
                        state: State::Installed,
                        text,
                        ..EMPTY
                    },
                )
            }
            Act::Uninstall(zone) if is(zone, State::Installed) || is(zone, State::Incomplete) => {
                (zone, EMPTY)
            }
            Act::Detach(zone) => {
                let state = State::Configured;
                (
                    zone,
                    Zone {
                        state,
                        is_detached: true,
                        ..installed(zone)?
                    },
                )
            }
            Act::Attach(zone) if self.known[zone].is_detached => {
                let known = self.known[zone].clone();
                (
                    zone,
                    Zone {
                        state: State::Installed,
                        is_detached: false,
                        ..known
                    },
                )
            }
            Act::Mark(zone) => {
                installed(zone)?;
                let state = State::Incomplete;
                (zone, Zone { state, ..EMPTY })
            }
            Act::Write(zone) => {
                let text = Some(format!("{}", self.written));
                (
                    zone,
                    Zone {
                        text,
                        ..installed(zone)?
                    },
                )
            }
            Act::Snapshot(zone) => {
                let known = installed(zone).filter(|known| known.snapshot.is_none())?;
                (
                    zone,
                    Zone {
                        snapshot: Some(known.text.clone()),
                        ..known
                    },
                )
            }
            Act::Rollback(zone) => {
                let known = installed(zone)?;
                (
                    zone,
                    Zone {
                        text: known.snapshot.clone()?,
                        ..known
                    },
                )
            }
            Act::DestroySnapshot(zone) => {
                let known = installed(zone)?;
                known.snapshot.as_ref()?;
                (
                    zone,
                    Zone {
                        snapshot: None,
                        ..known
                    },
                )
            }
            Act::Merge(zone) => (zone, installed(zone)?),
            Act::Move(zone) => {
                let known = installed(zone)?;
                let is_moved = !known.is_moved;
                return Some((zone, Zone { is_moved, ..known }));
            }
            _ => return None,
        };
        let is_moved = self.known[zone].is_moved;
        Some((zone, Zone { is_moved, ..new }))
    }

    /// Returns true if a zone is configured and has no files.
    fn is_empty(&self, zone: &str) -> bool {
        let known = self.known[zone].clone();
        let is_moved = false;
        Zone { is_moved, ..known } == EMPTY
    }

    /// Runs a verb with its injected failure, and then the command that continues. Returns true if
    /// the verb ended without the failure. Fails at the first invariant that does not hold.
    pub fn carry_out(&mut self, act: &Act, harm: Harm) -> Result<bool, String> {
        self.written += 1;
        let Some((zone, new)) = self.after(act) else {
            return Ok(true);
        };
        let old = self.known[zone].clone();
        let done = match harm {
            Harm::None => Some(self.act(act, None)),
            Harm::Fails(step) => Some(self.act(act, Some(step))),
            Harm::Killed(effect) => sys::crash::run(effect, || self.act(act, None)).ok(),
        };
        let is_through = matches!(done, Some(Ok(())));
        if let (Some(Err(error)), Harm::None | Harm::Killed(_)) = (&done, harm) {
            return Err(format!("failed: {}", flatten(error)));
        }
        let found = self.look(zone)?;
        let is_right = match is_through {
            true => found == new,
            false => found == old || found == new || found.state == State::Incomplete,
        };
        if !is_right {
            return Err(format!(
                "zone {zone} was {old:?}, should be {new:?}, is {found:?}"
            ));
        }
        self.go_on(act, zone, &found, new)?;
        self.compare()?;
        self.nothing_is_left(zone)?;
        Ok(is_through)
    }

    /// Runs the command that continues after an interruption: the same verb again, or the uninstall
    /// of an incomplete zone.
    fn go_on(
        &mut self,
        act: &Act,
        zone: &'static str,
        found: &Zone,
        new: Zone,
    ) -> Result<(), String> {
        let again = |world: &mut Self, act: &Act| {
            let done = world.act(act, None);
            done.map_err(|error| format!("then {act:?} failed: {}", flatten(&error)))
        };
        let should_be = if *found == new {
            new
        } else if found.state == State::Incomplete {
            again(self, &Act::Uninstall(zone))?;
            let is_moved = found.is_moved;
            Zone { is_moved, ..EMPTY }
        } else {
            again(self, act)?;
            new
        };
        // This verify stands for any later command: each of them removes the remains of the last
        // command on the zone.
        if should_be.state == State::Installed {
            let begun = Subject::admit(&self.host(), &name_of(zone), Verb::Verify);
            begun.map_err(|error| format!("then verify failed: {}", flatten(&error)))?;
        }
        let found = self.look(zone)?;
        match found == should_be {
            true => drop(self.known.insert(zone, found)),
            false => return Err(format!("zone {zone} then is {found:?}, not {should_be:?}")),
        }
        Ok(())
    }

    fn act(&mut self, act: &Act, fails: Option<usize>) -> Result<(), Error> {
        let mut host = self.host();
        let mut set = |verb: &str| {
            let fault = fails.and_then(|step| format!("{verb}:{step}:fail").parse().ok());
            host.fault = fault.unwrap_or_default();
        };
        let say = &mut |_: &str| {};
        match *act {
            Act::Install(zone) => {
                set("install");
                let options = ["-d".to_owned(), self.source().display().to_string()];
                install::install(&host, &name_of(zone), &options, false, say).map(drop)
            }
            Act::Clone(from, to) => {
                set("clone");
                let origin = Origin::open(&host, &name_of(from), None)?;
                let to = name_of(to);
                let made = prepare(&host, &origin, &to, Unknown::Refuse, false, say)?;
                match made {
                    Prepared::Cloned(one) => {
                        store_all(&host, vec![one]).map_err(|unstored| unstored.error)
                    }
                    other => Err(Error::Refused(format!("{other:?}"))),
                }
            }
            Act::Uninstall(zone) => {
                set("uninstall");
                uninstall::uninstall(&host, &name_of(zone), uninstall::Data::Removed, false, say)
                    .map(drop)
            }
            Act::Detach(zone) => {
                set("detach");
                detach::detach(&host, &name_of(zone), false, false, say).map(drop)
            }
            Act::Attach(zone) => {
                set("attach");
                let options = attach::Options {
                    take_over: false,
                    force: true,
                    ..attach::Options::default()
                };
                let updater = &|_: &Path, _: &[String]| Err("no package manager".into());
                attach::attach(&host, &name_of(zone), &options, updater, say).map(drop)
            }
            Act::Mark(zone) => mark::incomplete(&host, &name_of(zone), false).map(drop),
            Act::Write(zone) => {
                let dataset = self.zonepath(zone).map_err(Error::Refused)?;
                let file = Dataset::open(&dataset)?.stack()?.top.join(FILE);
                let folder = file.parent().unwrap_or(&file).to_owned();
                let text = self.written.to_string();
                fs::create_dir_all(folder)
                    .and_then(|()| fs::write(&file, text))
                    .map_err(Error::io("write"))
            }
            Act::Snapshot(zone) => {
                set("snapshot");
                let name = snapshot_name();
                snapshot::snapshot(&host, &name_of(zone), &name, false, say).map(drop)
            }
            Act::Rollback(zone) => {
                set("rollback");
                rollback::rollback(&host, &name_of(zone), &snapshot_name(), false).map(drop)
            }
            Act::DestroySnapshot(zone) => {
                set("destroy-snapshot");
                snapshot::destroy(&host, &name_of(zone), &snapshot_name(), false).map(drop)
            }
            Act::Merge(zone) => {
                set("merge");
                merge::merge(&host, &name_of(zone), false, &mut |_, _| {}).map(drop)
            }
            Act::Move(zone) => {
                set("move");
                let to = match self.known[zone].is_moved {
                    true => first_zonepath(zone),
                    false => format!("{MOVED}/{zone}"),
                };
                relocate::relocate(&host, &name_of(zone), to.as_ref(), false, say).map(drop)
            }
        }
    }

    /// Returns the state of a zone according to the index and the disk.
    fn look(&self, zone: &str) -> Result<Zone, String> {
        let index = Index::load(&self.root()).map_err(|error| error.to_string())?;
        let entry = index
            .get(&name_of(zone))
            .map_err(|error| error.to_string())?;
        let (state, runtime) =
            subject::state(&self.host(), entry).map_err(|error| flatten(&error))?;
        if runtime.is_some() {
            return Err(format!("zone {zone} runs"));
        }
        let mut shown = entry.zonepath.clone();
        // A killed move has renamed the zonepath. The next command stores its new path.
        if let Some(Pending::Move { other, .. }) = index.pending_of(&entry.name) {
            if subject::lacks_root(&self.root().path(&shown)) {
                shown.clone_from(other);
            }
        }
        let zonepath = self.root().path(&shown);
        let is_detached = state == State::Configured && zonepath.join(subject::DETACHED).exists();
        let mut found = Zone {
            state,
            is_detached,
            is_moved: shown.starts_with(MOVED),
            ..EMPTY
        };
        if state == State::Installed && entry.uuid.is_none() {
            return Err(format!("zone {zone} is installed and has no uuid"));
        }
        if state != State::Installed && !is_detached {
            return Ok(found);
        }
        let dataset = Dataset::open(&zonepath).map_err(|error| error.to_string())?;
        let read = |stack: storage::Stack| {
            let mut layers = [stack.top].into_iter().chain(stack.lowers);
            layers.find_map(|layer| fs::read_to_string(layer.join(FILE)).ok())
        };
        found.text = read(dataset.stack().map_err(|error| error.to_string())?);
        let snapshots = dataset.snapshots().map_err(|error| error.to_string())?;
        if let Some(one) = snapshots.first() {
            let stack = dataset.snapshot_stack(&one.name);
            found.snapshot = Some(read(stack.map_err(|error| error.to_string())?));
        }
        Ok(found)
    }

    /// Checks that every zone has its expected state, and that no two zones have the same ids.
    fn compare(&self) -> Result<(), String> {
        let mut slots = BTreeSet::new();
        let index = Index::load(&self.root()).map_err(|error| error.to_string())?;
        for entry in index.entries() {
            if entry.slot.is_some_and(|slot| !slots.insert(slot)) {
                return Err(format!("two zones have the ids of {}", entry.name));
            }
        }
        for (zone, known) in &self.known {
            let found = self.look(zone)?;
            if found != *known {
                return Err(format!("zone {zone} should be {known:?}, is {found:?}"));
            }
        }
        Ok(())
    }

    /// Checks that no unused layer, temporary file or zonepath is left.
    fn nothing_is_left(&self, zone: &str) -> Result<(), String> {
        let zonepath = self.zonepath(zone)?;
        let layers = zonepath.with_file_name(".layers");
        match storage::survey(&layers).map_err(|error| error.to_string())? {
            Some(left) if left.is_empty() => {}
            left => return Err(format!("left among the layers: {left:?}")),
        }
        for folder in [self.root().etc(), self.root().run(), zonepath.clone()] {
            let left = store::atomic::left_aside(&folder).map_err(|error| error.to_string())?;
            if !left.is_empty() {
                return Err(format!("left by writers: {left:?}"));
            }
        }
        let index = Index::load(&self.root()).map_err(|error| error.to_string())?;
        if !index.pending().is_empty() {
            return Err(format!("left in the index: {:?}", index.pending()));
        }
        if self.is_empty(zone) && zonepath.exists() {
            let left: Vec<_> = fs::read_dir(&zonepath)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name())
                .collect();
            return Err(format!("left of zone {zone}: {left:?}"));
        }
        Ok(())
    }

    /// Uninstalls all zones, and checks that no file of them stays.
    pub fn end(mut self) -> Result<(), String> {
        for &zone in self.names {
            if self.known[zone].is_detached {
                self.carry_out(&Act::Attach(zone), Harm::None)?;
            }
            self.carry_out(&Act::Uninstall(zone), Harm::None)?;
        }
        for folder in ["zones", "zones with a blank", "moved"] {
            let entries = fs::read_dir(self.root().dir().join(folder));
            let left: Vec<PathBuf> = entries
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .collect();
            if !left.is_empty() {
                return Err(format!("left after all zones have gone: {left:?}"));
            }
        }
        Ok(())
    }
}
