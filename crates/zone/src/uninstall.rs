//! `zoneadm uninstall`: removes the root that install or clone made. With `--delete`, the
//! configurations of the zones are deleted, too.

use std::path::PathBuf;

use limits::{Base, ZoneCgroups};
use model::plan::{Step, ZonePlan};
use model::{Config, State, Verb, ZoneName};
use store::index::Entry;
use store::lock::ZoneLock;

use crate::delete;
use crate::executor::{self, Outcome, Work};
use host::error::is_full;
use host::{Error, Host};
use platform::kind;
use subject::away::Away;
use subject::deletion::Deletion;
pub use subject::deletion::Unlisted;
use subject::network::Records;
use subject::{Start, Subject, arrived, identity};

/// The treatment of a zone's configuration after the removal of the zone's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// The configuration stays, and the zone is configured. A configured zone is refused.
    Kept,
    /// The configuration is deleted, too. A configured zone has only this to delete.
    Deleted(Unlisted),
}

/// The treatment of data in the zonepath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// All data in the zonepath is removed.
    Removed,
    /// A zone with data in its zonepath is refused. Only a kernel zone whose disks are all elsewhere
    /// has none.
    Refused {
        /// True if a zone that may already be on another host is given up, too.
        gives_up: bool,
    },
}

/// A locked zone that is about to be uninstalled.
#[derive(Debug)]
pub struct Subjected {
    zone: ZoneName,
    /// The files to remove; `None` for a configured zone that is deleted.
    files: Option<Files>,
    lock: ZoneLock,
}

impl Subjected {
    /// Returns the name of the zone.
    #[must_use]
    pub const fn zone(&self) -> &ZoneName {
        &self.zone
    }

    /// Returns the lock of the zone.
    #[must_use]
    pub const fn lock(&self) -> &ZoneLock {
        &self.lock
    }
}

/// The files of a zone, and the facts that their removal needs.
#[derive(Debug)]
struct Files {
    entry: Entry,
    config: Config,
    was: State,
    zonepath: PathBuf,
}

/// The result of admitting a zone to an uninstall.
#[derive(Debug)]
pub enum Admitted {
    /// The zone can be uninstalled.
    Go(Box<Subjected>),
    /// No uninstall is needed or wanted, with the outcome to report.
    Over(Outcome),
}

/// Uninstalls a zone.
///
/// # Errors
/// Fails with [`Error::Refused`] if `data` says so, and with [`Error::Step`] if a step failed. The zone is then incomplete and can be uninstalled
/// again.
pub fn uninstall(
    host: &Host,
    zone: &ZoneName,
    data: Data,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match admit(host, zone, Configuration::Kept, false)? {
        Admitted::Go(subject) => subject,
        Admitted::Over(outcome) => return Ok(outcome),
    };
    let Some(files) = &subject.files else {
        return Ok(Outcome::Done);
    };
    if let Data::Refused { gives_up } = data {
        if !gives_up && let Some(away) = Away::of(&files.zonepath)? {
            return Err(Error::Refused(format!(
                "may already be on {}: give its zoneadm migrate command again. If that host is off, -F gives the zone up here. Nothing was removed.",
                away.host.as_deref().unwrap_or("another host")
            )));
        }
        let kind = kind::of(&files.config);
        kind.refuse_data(host, &files.config, &files.zonepath, files.was)?;
    }
    let plan = plan(files, Configuration::Kept);
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    files.remember(host)?;
    carry_out(host, files, &plan, progress, &mut |entry| {
        let is_mark = entry.state == State::Incomplete;
        match executor::record_now(host, entry) {
            // A full disk is accepted here, because the removal of the zone makes space for the
            // last record. If the process is killed meanwhile, an installed zone without a root
            // remains, and every command reports this.
            Err(error) if is_mark && is_full(&error) => Ok(()),
            other => other,
        }
    })?;
    Ok(Outcome::Done)
}

/// Admits one of several zones to an uninstall. The caller then calls [`mark_all`], [`remove`], and
/// [`store_all`] or [`delete::all`].
///
/// # Errors
/// Fails if the zone does not exist, if its lock is held, or with [`Error::Refused`] if its state
/// does not allow an uninstall.
pub fn admit(
    host: &Host,
    zone: &ZoneName,
    configuration: Configuration,
    dry_run: bool,
) -> Result<Admitted, Error> {
    let (files, lock) = match configuration {
        Configuration::Kept => match Subject::admit(host, zone, Verb::Uninstall)? {
            Start::Go(subject) => Files::of(host, *subject)?,
            Start::Already(notice) => return Ok(Admitted::Over(Outcome::Already(notice))),
        },
        Configuration::Deleted(unlisted) => match Deletion::admit(host, zone, unlisted)? {
            Deletion::Installed(subject) => Files::of(host, *subject)?,
            Deletion::Configured(lock) | Deletion::Unlisted(lock) => (None, lock),
        },
    };
    if dry_run {
        let plan = files
            .as_ref()
            .map_or_else(|| delete::plan(zone), |files| plan(files, configuration));
        return Ok(Admitted::Over(Outcome::Planned(plan.to_string())));
    }
    Ok(Admitted::Go(Box::new(Subjected {
        zone: zone.clone(),
        files,
        lock,
    })))
}

impl Files {
    fn of(host: &Host, subject: Subject) -> Result<(Option<Self>, ZoneLock), Error> {
        let files = Self {
            config: subject.config(host)?,
            entry: subject.entry.clone(),
            was: subject.state,
            zonepath: subject.zonepath.clone(),
        };
        Ok((Some(files), subject.into_lock()))
    }

    /// Records the migration that brought the zone here, before the zone is marked incomplete. The
    /// source may not know of the migration's success, and must not run the zone again: its disks
    /// may be on shared storage. A zone that is incomplete already was recorded before it was
    /// marked, or never arrived.
    fn remember(&self, host: &Host) -> Result<(), Error> {
        match self.was {
            State::Installed => arrived::remember(&host.root, &self.zonepath),
            _ => Ok(()),
        }
    }
}

/// Stores several zones as incomplete in one write of the index. Zones without files are left out.
///
/// # Errors
/// Fails with [`Error::Store`] or [`Error::Io`]. No zone has changed then.
pub fn mark_all(host: &Host, subjects: &[Box<Subjected>]) -> Result<(), Error> {
    let files = subjects.iter().filter_map(|subject| subject.files.as_ref());
    let files: Vec<&Files> = files.collect();
    files.iter().try_for_each(|one| one.remember(host))?;
    let marked: Vec<Entry> = files
        .iter()
        .map(|files| Entry {
            state: State::Incomplete,
            ..files.entry.clone()
        })
        .collect();
    if marked.is_empty() {
        return Ok(());
    }
    match executor::record_all(host, marked) {
        Err(error) if is_full(&error) => Ok(()),
        other => Ok(other?),
    }
}

/// Removes the files of a zone that is marked incomplete. Returns the entry for [`store_all`];
/// `None` for a zone without files.
///
/// # Errors
/// Fails with [`Error::Step`]. The zone stays incomplete and can be uninstalled again.
pub fn remove(
    host: &Host,
    subject: &Subjected,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Entry>, Error> {
    let Some(files) = &subject.files else {
        return Ok(None);
    };
    let mut plan = plan(files, Configuration::Kept);
    // The first step, which marks the zone as incomplete, was already carried out.
    plan.steps.remove(0);
    let mut after = files.entry.clone();
    carry_out(host, files, &plan, progress, &mut |entry| {
        after = entry;
        Ok(())
    })?;
    Ok(Some(after))
}

/// Stores the uninstalled zones as configured in one write of the index.
///
/// # Errors
/// Fails with [`Error::Store`]. The zones stay incomplete.
pub fn store_all(host: &Host, removed: Vec<Entry>) -> Result<(), Error> {
    Ok(executor::record_all(host, removed)?)
}

fn carry_out(
    host: &Host,
    subject: &Files,
    plan: &ZonePlan,
    progress: &mut dyn FnMut(&str),
    record: &mut dyn FnMut(Entry) -> Result<(), store::Error>,
) -> Result<(), Error> {
    let zone = &subject.entry.name;
    // No other host becomes the owner while the root is removed.
    let _hold = identity::hold(&subject.zonepath)?;
    identity::refuse_other(&host.root, &subject.entry, &subject.zonepath)?;
    subject::settle(host, zone)?;
    for remark in platform::views::vanish(host, zone)? {
        progress(&remark);
    }
    // This also clears the control groups of a zone without a record, because zoneadmd may have
    // died before it wrote the record.
    let base = Base::find(&host.cgroup)?;
    subject::clear(&ZoneCgroups::of(&base, zone))?;
    Records::of(&host.root).let_go(zone)?;
    let entry = subject.entry.clone();
    let mut work = Work::new(host, &subject.config, entry, record, progress);
    executor::run(&mut work, plan, &mut host.fault.clone())?;
    if subject.was == State::Incomplete {
        // A killed install or clone may have left layers beside the zonepath. An error of their
        // removal is ignored: it costs only space, and the next command finds these layers too.
        let layers = subject.zonepath.with_file_name(".layers");
        let _ = storage::collect(&layers, storage::Lost::Keep);
    }
    // The last zone of the host also removes the control groups that all zones share.
    limits::hierarchy::tidy(&base);
    Ok(())
}

fn plan(subject: &Files, configuration: Configuration) -> ZonePlan {
    let path = subject.zonepath.clone();
    ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Uninstall,
        steps: {
            let mut steps = vec![
                Step::Record {
                    state: State::Incomplete,
                    uuid: subject.entry.uuid,
                },
                Step::DestroyDataset { path: path.clone() },
            ];
            steps.extend(kind::of(&subject.config).steps_beside_root(path.clone()));
            steps.push(Step::RemoveZonepath { path });
            steps.push(match configuration {
                Configuration::Kept => Step::Record {
                    state: State::Configured,
                    uuid: None,
                },
                Configuration::Deleted(_) => Step::DeleteConfiguration,
            });
            steps
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use store::{Root, index, xml};

    /// Makes a zone that a migration brought to this host.
    fn arrived_zone(root: &Root, name: &str, state: State) -> ZoneName {
        let mut config = Config::new(name.parse().unwrap());
        config.set("brand", "lx").unwrap();
        config.set_zonepath(&format!("/zones/{name}")).unwrap();
        xml::save(root, &config).unwrap();
        let zonepath = root.path(&config.zonepath());
        fs::create_dir_all(&zonepath).unwrap();
        storage::Dataset::create(&zonepath).unwrap();
        fs::write(zonepath.join(arrived::ARRIVED), name).unwrap();
        let entry = Entry {
            state,
            uuid: Some(executor::new_uuid().unwrap()),
            ..Entry::configured(config.name().clone(), config.zonepath())
        };
        index::update(root, |index| {
            index.put(entry);
            Ok::<_, store::Error>(())
        })
        .unwrap();
        config.name().clone()
    }

    #[test]
    fn a_zone_that_arrived_is_remembered_and_one_that_never_was_here_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let host = Host::new(root.clone(), "zones-no-such-group".into(), None);
        let zones = [
            ("one", State::Installed),
            ("two", State::Installed),
            ("half", State::Incomplete),
            ("marked", State::Installed),
        ]
        .map(|(name, state)| arrived_zone(&root, name, state));
        let [one, two, half, marked] = &zones;
        let is_known = |name: &str| arrived::has_gone_on(&root, name).unwrap();
        let mut say = |_: &str| {};

        uninstall(&host, one, Data::Removed, false, &mut say).unwrap();
        assert!(is_known("one") && !is_known("two"));
        assert!(!root.path("/zones/one".as_ref()).exists());
        // One of many, also with --delete: before the mark, so a kill after it loses nothing.
        let Admitted::Go(subject) =
            admit(&host, two, Configuration::Deleted(Unlisted::Kept), false).unwrap()
        else {
            panic!("admitted");
        };
        let subjects = [subject];
        mark_all(&host, &subjects).unwrap();
        assert!(is_known("two"));
        remove(&host, &subjects[0], &mut say).unwrap();
        // The source owns a zone whose migration is not complete.
        uninstall(&host, half, Data::Removed, false, &mut say).unwrap();
        assert!(!is_known("half"));
        crate::mark::incomplete(&host, marked, false).unwrap();
        assert!(is_known("marked"));
    }

    #[test]
    fn a_zone_that_may_be_elsewhere_is_given_up_only_if_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let host = Host::new(root.clone(), "zones-no-such-group".into(), None);
        let zone = arrived_zone(&root, "one", State::Installed);
        let zonepath = root.path("/zones/one".as_ref());
        subject::away::leave(&zonepath, "1f2e", "two").unwrap();
        let why = |gives_up| {
            let data = Data::Refused { gives_up };
            let error = uninstall(&host, &zone, data, false, &mut |_| {}).unwrap_err();
            assert!(zonepath.join(subject::away::AWAY).exists());
            error.to_string()
        };
        assert!(why(false).contains("may already be on two: "));
        // The data of a zone of another brand is kept all the same.
        assert!(!why(true).contains("may already be"));
    }
}
