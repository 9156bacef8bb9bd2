//! Zones that run, patched in place: no boot, and no private copy.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | journal: working | nothing of the zone has changed |
//! | snapshot of the running zone | the same; the snapshot goes |
//! | journal: live | the same |
//! | the package manager works in the running zone | a zone between old and new, **whose next boot takes the snapshot** |
//! | verify, the health command; one sync | the same |
//! | history; the journal goes | the new zone |
//!
//! What fails after the package manager has changed something is taken back by a reboot
//! into the snapshot. What the zone wrote meanwhile is in the boot environment that it
//! leaves. A crash alone reboots nothing.

use std::fs::File;

use model::State;
use storage::{Dataset, Name};
use zone::boot::BootOptions;
use zone::enter::RunningZone;
use zone::environments;
use zone::{Error, Host, Subject, flatten, job, reboot};

use crate::inside::{self, Ended, quoted};
use crate::inventory::{self, Inventory};
use crate::manager::{Mood, SHOWN, Work};
use crate::order::Order;
use crate::record::{self, Change, Entry, How, Journal, Phase};
use crate::recover;
use crate::stale::{self, Stale};
use crate::transaction::{self, Done, Patch, Ready, Said, place_beside};

/// What a zone that was patched in place has come to.
#[derive(Debug)]
pub(crate) struct Lived {
    pub(crate) done: Done,
    /// Processes that go on with what was replaced.
    pub(crate) stale: Vec<Stale>,
    /// Whether its health command was run.
    pub(crate) is_healthy: bool,
}

/// What keeps the work from being kept.
struct Trouble {
    why: Error,
    /// Whether the zone has changed.
    changed: bool,
}

impl From<Error> for Trouble {
    fn from(why: Error) -> Self {
        Self { why, changed: true }
    }
}

impl Patch<'_> {
    /// Patches a running zone in place.
    ///
    /// # Errors
    /// Why it could not be patched; it was then taken back, if the text does not say
    /// otherwise.
    pub(crate) fn live(&self, ready: Ready) -> Result<Lived, Error> {
        let subject = &ready.subject;
        if subject.state != State::Running {
            let state = subject.state;
            return Err(Error::Refused(format!("is {state}; halt it first.")));
        }
        if ready.is_sparse()? {
            return Err(Error::Refused(
                "is sparse, and follows the host with its next boot (--activate=next) or a reboot (--activate=now)."
                    .to_owned(),
            ));
        }
        let work = ready
            .manager
            .work(&self.order, Mood::Live)
            .map_err(Error::Refused)?;
        let (host, zone) = (self.host, &subject.entry.name);
        let name = self.snapshot()?;
        let mut journal = Journal {
            patch: self.name.clone(),
            zone: Some(zone.to_string()),
            snapshot: name.to_string(),
            copy: place_beside(&subject.zonepath, &format!(".patch-{zone}"))?,
            phase: Phase::Working,
        };
        let path = record::journal_of(&host.root, &subject.entry);
        record::save(&path, &journal)?;
        if let Err(error) = zone::snapshot::of_locked(host, subject, &name) {
            recover::zone(host, subject)?;
            return Err(error);
        }
        journal.phase = Phase::Live;
        record::save(&path, &journal)?;
        let log = transaction::open_log(&self.log(zone))?;
        let trouble = match self.in_place(&ready, &work, &log) {
            Ok(None) => {
                store::atomic::remove(&path)?;
                ready.dataset.destroy_snapshot(&name)?;
                return Ok(Lived {
                    done: Done::Unchanged,
                    stale: Vec::new(),
                    is_healthy: false,
                });
            }
            Ok(Some((entry, is_healthy))) => {
                record::add(&host.root, &subject.entry, entry.clone())?;
                store::atomic::remove(&path)?;
                self.thin_out(&ready.dataset, &ready)?;
                return Ok(Lived {
                    done: Done::Patched(Box::new(entry), Box::default()),
                    stale: goes_on(host, subject),
                    is_healthy,
                });
            }
            Err(trouble) => trouble,
        };
        if !trouble.changed {
            store::atomic::remove(&path)?;
            ready.dataset.destroy_snapshot(&name)?;
            return Err(trouble.why);
        }
        // From here on the zone goes back, also when this command is killed.
        environments::choose(subject, Some(&name))?;
        store::atomic::remove(&path)?;
        let (zone, why) = (zone.clone(), flatten(&trouble.why));
        drop(ready);
        let back = reboot::reboot(host, &zone, &BootOptions::default(), false);
        Err(Error::Refused(match back {
            Ok(_) => format!("{why}; the zone was taken back with a reboot"),
            Err(also) => format!(
                "{why}; the zone goes back with its next boot, as its reboot failed: {}",
                flatten(&also)
            ),
        }))
    }

    /// Works, and looks at what came of it: nothing, or an entry for the history and
    /// whether the zone was asked for its health.
    fn in_place(
        &self,
        ready: &Ready,
        work: &Work,
        log: &File,
    ) -> Result<Option<(Entry, bool)>, Trouble> {
        let (host, subject) = (self.host, &ready.subject);
        let zone = &subject.entry.name;
        let ended = self.hand_over(ready, work, log);
        let ended = ended.map_err(|why| Trouble {
            why,
            changed: false,
        })?;
        let said = Said::read(&self.log(zone));
        let tells = ready.manager.tells();
        let stack = ready.dataset.stack().map_err(Error::from)?;
        let looked = job::look(host, &ready.config, &stack, |root| {
            let after = inventory::read(root)?;
            if tells {
                return Ok((after, said.changes(), Ok(())));
            }
            let changes = inventory::changes(&ready.before, &after);
            let verified = inventory::verify(root, &changes);
            Ok((after, changes, verified))
        });
        let (after, changes, verified): (Inventory, Vec<Change>, _) = looked?;
        let changed = after.fingerprint != ready.before.fingerprint;
        match ended {
            Ended::With(0) => {}
            Ended::With(status) => {
                let why = Error::Refused(said.reason(ready.manager.program(), status));
                return Err(Trouble { why, changed });
            }
            Ended::TooLate => return Err(Error::Refused("had no time.".to_owned()).into()),
        }
        verified?;
        if !after.broken.is_empty() {
            return Err(Error::Refused(after.broken.join(", ")).into());
        }
        if changes.is_empty() && (tells || !changed) {
            return Ok(None);
        }
        let health = self.health.of(&ready.config);
        if let Some(command) = &health {
            self.health.check(host, zone, command, log)?;
        }
        ready.dataset.sync().map_err(Error::from)?;
        let entry = self.entry(zone, How::Live, changes, said.services);
        Ok(Some((entry, health.is_some())))
    }

    /// Lets the zone's package manager work in the zone.
    fn hand_over(&self, ready: &Ready, work: &Work, log: &File) -> Result<Ended, Error> {
        let (host, zone) = (self.host, &ready.subject.entry.name);
        // Of the zone's root alone.
        let place = format!("/var/cache/zonepatch-{}", self.name);
        let mut script = String::new();
        if let Order::Files(files) = &self.order {
            run(
                host,
                ready,
                &format!("mkdir -m 700 {}", quoted(&place)),
                log,
            )?;
            for file in files {
                let input =
                    File::open(file).map_err(Error::io(format!("read {}", file.display())))?;
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let put = format!("cat >{}", quoted(&format!("{place}/{name}")));
                match inside::run(host, zone, &put, Some(input), None, log)? {
                    Ended::With(0) => {}
                    _ => return Err(Error::Refused(format!("has no room for {name}."))),
                }
            }
            script = format!("trap 'rm -rf {place}' EXIT\n");
        }
        let words = work.words.iter().map(|word| {
            let shown = word
                .strip_prefix(SHOWN)
                .filter(|rest| rest.starts_with('/'));
            quoted(&shown.map_or_else(|| word.clone(), |rest| format!("{place}{rest}")))
        });
        let words: Vec<String> = words.collect();
        script.push_str(&format!("set -- {}\n{}", words.join(" "), work.script));
        inside::run(host, zone, &script, None, None, log)
    }
}

fn run(host: &Host, ready: &Ready, command: &str, log: &File) -> Result<(), Error> {
    match inside::run(host, &ready.subject.entry.name, command, None, None, log)? {
        Ended::With(0) => Ok(()),
        _ => Err(Error::Refused(format!("cannot {command}."))),
    }
}

/// The zone's processes that go on with what was replaced.
fn goes_on(host: &Host, subject: &Subject) -> Vec<Stale> {
    let zone = RunningZone::open(host, &subject.entry.name);
    zone.map_or_else(|_| Vec::new(), |zone| stale::among(&zone.processes()))
}

/// After a crash: the zone's next boot takes the snapshot from before, if the package
/// manager may have begun. Says whether it does.
pub(crate) fn recover(subject: &Subject, dataset: &Dataset, name: &Name) -> Result<bool, Error> {
    let known = dataset.snapshots()?;
    if !known.iter().any(|one| one.name == *name) {
        return Ok(false);
    }
    environments::choose(subject, Some(name))?;
    Ok(true)
}
