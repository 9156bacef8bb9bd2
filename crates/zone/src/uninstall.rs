//! `zoneadm uninstall`: removes what install or clone made.

use limits::{Base, ZoneCgroups};
use model::plan::{Step, ZonePlan};
use model::{State, Verb, ZoneName};

use crate::apply::{self, Outcome, Work};
use crate::subject::{self, Start, Subject};
use crate::{Error, Host};

/// Uninstalls a zone.
///
/// # Errors
/// [`Error::Step`]: the zone is then incomplete and can be uninstalled again.
pub fn uninstall(
    host: &Host,
    zone: &ZoneName,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Uninstall)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let config = subject.config(host)?;
    let plan = plan(&subject);
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    subject::settle(host, zone)?;
    // Also without a record: zoneadmd may have died before it wrote one.
    let base = Base::find(&host.cgroup)?;
    subject::clear(&ZoneCgroups::of(&base, zone))?;
    let mut work = Work {
        host,
        config: &config,
        entry: subject.entry.clone(),
        record: &mut |entry| apply::record_now(host, entry),
        progress,
    };
    apply::run(&mut work, &plan, &mut host.fault.clone())?;
    if subject.state == State::Incomplete {
        // What died here may have left more beside it. That nobody looks for it now
        // loses no more than space: `zoneimg prune` finds it, too.
        let layers = subject.zonepath.with_file_name(".layers");
        let _ = storage::collect(&layers, storage::Lost::Keep);
    }
    // The last zone to go takes the control groups of all along.
    limits::hierarchy::tidy(&base);
    Ok(Outcome::Done)
}

fn plan(subject: &Subject) -> ZonePlan {
    let path = subject.zonepath.clone();
    ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Uninstall,
        steps: vec![
            Step::Record {
                state: State::Incomplete,
                uuid: subject.entry.uuid,
            },
            Step::DestroyDataset { path: path.clone() },
            Step::RemoveZonepath { path },
            Step::Record {
                state: State::Configured,
                uuid: None,
            },
        ],
    }
}
