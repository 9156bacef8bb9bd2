//! Patches running zones in place, without a boot and without a private copy.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | journal: working | nothing of the zone has changed |
//! | snapshot of the running zone | the same; the snapshot goes |
//! | **the next boot is to take the snapshot** | the same |
//! | journal: live | the same |
//! | the package manager works in the running zone | a zone between old and new, whose next boot takes the snapshot |
//! | verify, the health command; one sync | the same |
//! | **history** | the new zone, if somebody recovers before it boots; the old one otherwise |
//! | the next boot uses the present root; the journal is removed | the new zone |
//!
//! If a step fails after the package manager may have changed the root, a reboot into the snapshot
//! undoes the step. Files that the zone wrote in the meantime are in the boot environment that the
//! zone leaves. A crash alone reboots no zone. No command is needed for a zone to return to its
//! snapshot, because the next boot of the zone uses it.

use std::fs::File;

use host::{Error, Host, flatten};
use model::State;
use model::immutable::Immutable;
use platform::enter::RunningZone;
use subject::Subject;
use zone::boot::BootOptions;
use zone::{environments, job, reboot};

use crate::ending::End;
use crate::inside::{self, Ended, quoted};
use crate::inventory::{self, Inventory};
use crate::manager::{Mood, NOT_BEGUN, NOT_READY, SHOWN, Work};
use crate::order::Order;
use crate::record::{Change, Entry, How, Journal, Phase};
use crate::recover::stay;
use crate::stale::{self, Stale};
use crate::transaction::{Done, Patch, Ready, Said, Witness};
use crate::{ending, record, recover};

/// The result of patching a zone in place.
#[derive(Debug)]
pub(crate) struct Lived {
    pub(crate) done: Done,
    /// The processes that still use replaced files.
    pub(crate) stale: Vec<Stale>,
    /// True if the health command of the zone was run.
    pub(crate) is_healthy: bool,
}

/// The reason why the patch is undone.
struct Trouble {
    why: Error,
    /// True if the package manager changed the zone.
    changed: bool,
}

impl Trouble {
    fn before_work(why: Error) -> Self {
        Self {
            why,
            changed: false,
        }
    }
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
    /// Fails with the reason why the zone could not be patched. The zone was then returned to its
    /// snapshot, unless the text of the error says otherwise.
    pub(crate) fn live(&self, ready: Ready) -> Result<Lived, Error> {
        admit(&ready)?;
        let work = ready.manager.work(&self.order, Mood::Live)?;
        let journal = self.keep_way_back(&ready)?;
        let worked = job::open_log(&self.log(&ready.subject.entry.name))
            .map_err(Trouble::before_work)
            .and_then(|log| self.in_place(&ready, &work, &log))
            .and_then(|found| {
                if let Some((entry, _)) = &found {
                    record::add(&self.host.root, &ready.subject.entry, entry.clone())?;
                }
                Ok(found)
            });
        match worked {
            Ok(None) => {
                self.leave_alone(&ready, journal)?;
                Ok(Lived {
                    done: Done::Unchanged,
                    stale: Vec::new(),
                    is_healthy: false,
                })
            }
            Ok(Some((entry, is_healthy))) => Ok(Lived {
                done: self.stay(&ready, &journal, Box::new(entry)),
                stale: goes_on(self.host, &ready.subject),
                is_healthy,
            }),
            Err(trouble) if trouble.changed => Err(self.take_back(ready, &journal, &trouble.why)),
            Err(trouble) => Err(match self.leave_alone(&ready, journal) {
                Ok(()) => trouble.why,
                Err(also) => Error::Refused(format!(
                    "{}; and could not clear up: {}",
                    flatten(&trouble.why),
                    flatten(&also)
                )),
            }),
        }
    }

    /// Makes the next boot of the zone use the zone's present state, and returns the journal in
    /// phase live.
    fn keep_way_back(&self, ready: &Ready) -> Result<Journal, Error> {
        let (host, subject) = (self.host, &ready.subject);
        let name = self.snapshot()?;
        let mut journal = self.begin(subject, name.as_str(), Phase::Working)?;
        let path = record::journal_of(&host.root, &subject.entry);
        if let Err(error) = zone::snapshot::of_locked(host, subject, &name) {
            recover::zone(host, subject)?;
            return Err(error);
        }
        // From here on, the next boot of the zone returns to the snapshot, even if this process is
        // killed.
        let chosen = environments::choose(subject, Some(&name))
            .and_then(|()| Ok(ready.dataset.settle(&path)?));
        journal.phase = Phase::Live;
        if let Err(error) = chosen.and_then(|()| record::save(&path, &journal)) {
            recover::zone(host, subject)?;
            return Err(error);
        }
        Ok(journal)
    }

    /// Makes the next boot use the present root of a patched zone, and removes the files of the
    /// transaction.
    fn stay(&self, ready: &Ready, journal: &Journal, entry: Box<Entry>) -> Done {
        match stay(&ready.subject, journal) {
            Ok(()) => {
                let warning = self.leave(ready, journal, &End::New(entry.clone()));
                let witness = Witness {
                    warning,
                    ..Witness::default()
                };
                Done::Patched(entry, Box::new(witness))
            }
            Err(error) => Done::late(entry, &error),
        }
    }

    /// Reboots a changed zone into its snapshot. Returns the reason why the zone is not patched.
    fn take_back(&self, ready: Ready, journal: &Journal, why: &Error) -> Error {
        let (host, subject) = (self.host, &ready.subject);
        // Files that cannot be removed here are removed by the next call.
        let _ = ending::finish(host, subject, &ready.dataset, journal, &End::Back);
        let (zone, why) = (subject.entry.name.clone(), flatten(why));
        // The reboot needs the locks that `ready` holds.
        drop(ready);
        let back = reboot::reboot(host, &zone, &BootOptions::default(), false);
        Error::Refused(match back {
            Ok(_) => format!("{why}; the zone was taken back with a reboot"),
            Err(also) => format!(
                "{why}; the zone goes back with its next boot, as its reboot failed: {}",
                flatten(&also)
            ),
        })
    }

    /// Ends a transaction that changed nothing.
    fn leave_alone(&self, ready: &Ready, mut journal: Journal) -> Result<(), Error> {
        let (host, subject) = (self.host, &ready.subject);
        // The phase goes back to working first. Otherwise a crash during these steps would make the
        // next boot return to the snapshot without need.
        journal.phase = Phase::Working;
        record::save(&record::journal_of(&host.root, &subject.entry), &journal)?;
        stay(subject, &journal)?;
        ending::finish(host, subject, &ready.dataset, &journal, &End::Old)
    }

    /// Patches the zone and checks the result. Returns `None` if nothing changed, or else an entry
    /// for the history, and true if the health command was run.
    fn in_place(
        &self,
        ready: &Ready,
        work: &Work,
        log: &File,
    ) -> Result<Option<(Entry, bool)>, Trouble> {
        let (host, subject) = (self.host, &ready.subject);
        let zone = &subject.entry.name;
        let ended = self.hand_over(ready, work, log);
        let ended = ended.map_err(Trouble::before_work)?;
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
                // A killed process has recorded no result.
                let changed = changed || !is_early(status, &ready.before);
                return Err(Trouble { why, changed });
            }
            Ended::TooLate => {
                let why = Error::Refused(format!(
                    "its package manager had not ended after {} s (see --time-limit).",
                    self.within.unwrap_or_default().as_secs()
                ));
                return Err(Trouble { why, changed: true });
            }
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

    /// Runs the zone's package manager in the zone.
    fn hand_over(&self, ready: &Ready, work: &Work, log: &File) -> Result<Ended, Error> {
        let (host, zone) = (self.host, &ready.subject.entry.name);
        // The command sees only the root of the zone, so this folder is inside the root.
        let place = format!("/var/cache/zonepatch-{}", self.name);
        let mut script = String::new();
        if let Order::Files(files) = &self.order {
            let small = |command: String| self.small(ready, &command, log);
            small(format!("mkdir -m 700 {}", quoted(&place)))?;
            let put = files.iter().try_for_each(|file| {
                let input =
                    File::open(file).map_err(Error::io(format!("read {}", file.display())))?;
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let put = format!("cat >{}", quoted(&format!("{place}/{name}")));
                match inside::run(host, zone, &put, Some(input), self.within, log)? {
                    Ended::With(0) => Ok(()),
                    Ended::With(_) => Err(Error::Refused(format!("has no room for {name}."))),
                    Ended::TooLate => Err(self.too_late(&format!("take {name}"))),
                }
            });
            if put.is_err() {
                let _ = small(format!("rm -rf {}", quoted(&place)));
            }
            put?;
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
        inside::run(host, zone, &script, None, self.within, log)
    }

    /// Runs a command in the zone with the timeout of the run. The zone's programs are not trusted.
    fn small(&self, ready: &Ready, command: &str, log: &File) -> Result<(), Error> {
        let zone = &ready.subject.entry.name;
        match inside::run(self.host, zone, command, None, self.within, log)? {
            Ended::With(0) => Ok(()),
            Ended::With(_) => Err(Error::Refused(format!("cannot {command}."))),
            Ended::TooLate => Err(self.too_late(command)),
        }
    }

    fn too_late(&self, deed: &str) -> Error {
        Error::Refused(format!(
            "did not {deed} within {} s (see --time-limit).",
            self.within.unwrap_or_default().as_secs()
        ))
    }
}

/// Fails if the zone cannot be patched in place.
fn admit(ready: &Ready) -> Result<(), Error> {
    let state = ready.subject.state;
    if state != State::Running {
        return Err(Error::Refused(format!("is {state}; halt it first.")));
    }
    let running = ready.subject.runtime.as_ref();
    if running
        .and_then(|one| one.immutable)
        .is_some_and(Immutable::is_sealed)
    {
        return Err(Error::Refused(
            "is immutable; patch it for its next boot (--activate=next) or with a reboot (--activate=now)."
                .to_owned(),
        ));
    }
    if ready.is_sparse()? {
        return Err(Error::Refused(
            "is sparse, and follows the host with its next boot (--activate=next) or a reboot (--activate=now)."
                .to_owned(),
        ));
    }
    Ok(())
}

/// Returns the zone's processes that still use replaced files.
fn goes_on(host: &Host, subject: &Subject) -> Vec<Stale> {
    let zone = RunningZone::open(host, &subject.entry.name);
    zone.map_or_else(|_| Vec::new(), |zone| stale::among(&zone.processes()))
}

/// Returns true if a script with this exit status has not changed any package.
fn is_early(status: i32, before: &Inventory) -> bool {
    match status {
        NOT_BEGUN => true,
        // With this status, the script may have completed an earlier, interrupted operation.
        _ if NOT_READY.contains(&status) => before.broken.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_ends_in_the_midst_of_the_work_has_changed_something() {
        let mut before = Inventory::default();
        for (status, early, half_done) in [
            (NOT_BEGUN, true, true),
            (10, true, false),
            (11, true, false),
            (12, false, false),
            (64, false, false),
            (137, false, false),
        ] {
            before.broken.clear();
            assert_eq!(is_early(status, &before), early, "{status}");
            before.broken.push("a is half installed".to_owned());
            assert_eq!(is_early(status, &before), half_done, "{status}");
        }
    }
}
