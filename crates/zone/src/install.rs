//! `zoneadm install`: populates the root of a configured zone.

use model::plan::{Step, ZonePlan};
use model::{State, Uuid, Verb, ZoneName};
use storage::ROOT;

use crate::apply::{self, Outcome, Work};
use crate::subject::{Start, Subject};
use crate::{Error, Host, verify};

/// Installs a zone with the brand's options of the command line.
///
/// # Errors
/// [`Error::Verify`] when it could not run; [`Error::Step`] when a step failed:
/// the zone is then configured again.
pub fn install(
    host: &Host,
    zone: &ZoneName,
    options: &[String],
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Install)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let config = subject.config(host)?;
    verify::before(host, &subject, &config, Verb::Install)?;
    let uuid = apply::new_uuid()?;
    let plan = plan(&subject, config.brand(), options, uuid);
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    let mut work = Work {
        host,
        config: &config,
        entry: subject.entry.clone(),
        record: &mut |entry| apply::record_now(host, entry),
        progress,
    };
    apply::run(&mut work, &plan, &mut host.fault.clone())?;
    Ok(Outcome::Done)
}

fn plan(subject: &Subject, brand: &str, options: &[String], uuid: Uuid) -> ZonePlan {
    let path = subject.zonepath.clone();
    ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Install,
        steps: vec![
            Step::Begin { uuid },
            Step::MakeZonepath { path: path.clone() },
            Step::MakeDataset { path: path.clone() },
            Step::Populate {
                brand: brand.to_owned(),
                root: path.join(ROOT),
                options: options.to_vec(),
            },
            Step::Identify {
                path: path.clone(),
                uuid,
            },
            Step::Sync { path },
            Step::Record {
                state: State::Installed,
                uuid: Some(uuid),
            },
        ],
    }
}
