//! `zoneadm detach`: an installed zone becomes a configured one whose root stays.

use model::plan::{Step, ZonePlan};
use model::{State, Verb, ZoneName};
use storage::driver_at;

use crate::apply::{self, Outcome, Work};
use crate::subject::{self, Start, Subject};
use crate::{Error, Host, inventory, job, migrate};

/// Detaches a halted zone; a dry run gives its manifest instead.
///
/// # Errors
/// [`Error::Step`]; the zone is then installed as before.
pub fn detach(
    host: &Host,
    zone: &ZoneName,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Detach)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let config = subject.config(host)?;
    if dry_run {
        let system = inventory::of_zone(host, &subject.zonepath, &config)?;
        let manifest = inventory::manifest(&config, subject.entry.uuid, system);
        return Ok(Outcome::Planned(manifest.text()));
    }
    // Who has no root here cannot be brought to its old or its new one.
    if job::journal_of(&host.root, &subject.entry).exists() {
        return Err(Error::Refused(
            "has a patch that was cut off; clear up after it first with zonepatch recover."
                .to_owned(),
        ));
    }
    subject::settle(host, zone)?;
    // Wherever it goes: who sent it here and has not heard of it is not to run it again.
    migrate::arrived::remember(&host.root, &subject.zonepath)?;
    let path = subject.zonepath.clone();
    let depth = driver_at(&path)?.stack(&path)?.lowers.len();
    let plan = ZonePlan {
        zone: zone.clone(),
        verb: Verb::Detach,
        steps: vec![
            Step::WriteManifest { path: path.clone() },
            Step::Sync { path },
            // It keeps its uuid and its ids: nobody else may have them while its root lies
            // there.
            Step::Record {
                state: State::Configured,
                uuid: subject.entry.uuid,
            },
        ],
    };
    let mut work = Work {
        host,
        config: &config,
        entry: subject.entry.clone(),
        record: &mut |entry| apply::record_now(host, entry),
        progress,
        import: None,
        image: None,
    };
    apply::run(&mut work, &plan, &mut host.fault.clone())?;
    if depth > 0 {
        progress(&format!(
            "Its root stands on {depth} layers beside the zonepath: a copy of the zonepath alone is not the zone. zoneadm export and migrate take all of it along."
        ));
    }
    Ok(Outcome::Done)
}
