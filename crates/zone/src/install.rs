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
    let image = match image_of(options)? {
        None => None,
        Some(_) if !config.inherited_dirs().is_empty() => {
            return Err(Error::Usage(
                "-i is for whole-root zones; this one has inherit-pkg-dir resources".to_owned(),
            ));
        }
        Some(word) => Some(crate::images::open(host)?.find(word)?.digest.to_string()),
    };
    let plan = plan(&subject, config.brand(), options, image, uuid);
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

/// The image that `-i` names; it goes with no other source.
fn image_of(options: &[String]) -> Result<Option<&str>, Error> {
    match options {
        [flag, word] if flag == "-i" => Ok(Some(word)),
        [word] if word.starts_with("-i") && word.len() > 2 => Ok(Some(&word[2..])),
        words if words.iter().any(|word| word.starts_with("-i")) => Err(Error::Usage(
            "-i takes the name or digest of an image, and nothing goes with it".to_owned(),
        )),
        _ => Ok(None),
    }
}

fn plan(
    subject: &Subject,
    brand: &str,
    options: &[String],
    image: Option<String>,
    uuid: Uuid,
) -> ZonePlan {
    let path = subject.zonepath.clone();
    let root = match image {
        Some(image) => vec![Step::StandOnImage {
            image,
            path: path.clone(),
        }],
        None => vec![
            Step::MakeDataset { path: path.clone() },
            Step::Populate {
                brand: brand.to_owned(),
                root: path.join(ROOT),
                options: options.to_vec(),
            },
        ],
    };
    let mut steps = vec![
        Step::Begin { uuid },
        Step::MakeZonepath { path: path.clone() },
    ];
    steps.extend(root);
    steps.extend([
        Step::Identify {
            path: path.clone(),
            uuid,
        },
        Step::Sync { path },
        Step::Record {
            state: State::Installed,
            uuid: Some(uuid),
        },
    ]);
    ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Install,
        steps,
    }
}
