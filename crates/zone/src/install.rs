//! `zoneadm install`: populates the root of a configured zone.

use std::path::PathBuf;

use brand::Origin;
use model::plan::{Recipe, Step, ZonePlan};
use model::{State, Uuid, Verb, ZoneName};
use storage::ROOT;

use crate::executor::{self, Outcome, Work};
use crate::images::wanted::{Named, Wanted};
use crate::verify;
use host::{Error, Host};
use subject::zfs_stream::Received;
use subject::{Start, Subject};

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
    let uuid = executor::new_uuid()?;
    let (profile, options) = profile_of(options)?;
    let options = options.as_slice();
    let machine = verify::brand_of(&config)?.is_machine();
    let wanted = match machine {
        true if options.iter().any(|word| word.starts_with("-i")) => {
            return Err(Error::Usage(
                "-i is for zones that share the host's kernel; -a takes the image of a disk"
                    .to_owned(),
            ));
        }
        // The options of a machine are for its disks.
        true => Wanted::default(),
        false => Wanted::read(options)?,
    };
    let init = wanted.init;
    let mut import = None;
    let source = match wanted.image {
        Some(_) if !config.inherited_dirs().is_empty() => {
            return Err(Error::Usage(
                "images are for whole-root zones; this one has inherit-pkg-dir resources"
                    .to_owned(),
            ));
        }
        Some(Named::Here(word)) => {
            Source::Image(crate::images::find(host, &word)?.digest.to_string())
        }
        Some(Named::There(request)) => {
            let source = request.source.to_string();
            import = Some(request);
            Source::Import(source)
        }
        None if machine => {
            brand::kz::Options::parse(options).map_err(refused)?;
            Source::Brand(config.brand().to_owned(), Vec::new())
        }
        None => {
            let brand = verify::brand_of(&config)?;
            match brand
                .origin(&config, options, &host.facts())
                .map_err(refused)?
            {
                Origin::Empty => {
                    Received::check(&subject.zonepath, options)?;
                    Source::Brand(config.brand().to_owned(), options.to_vec())
                }
                Origin::Bootstrap(recipe) => Source::Recipe(recipe),
            }
        }
    };
    if machine && profile.is_some() {
        return Err(Error::Usage(
            "-c and -p put files into the root of a zone; that of a kernel zone is on its disk"
                .to_owned(),
        ));
    }
    let machine = machine.then(|| options.to_vec());
    let plan = plan(&subject, source, init, profile, machine, uuid);
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    let mut work = Work {
        host,
        config: &config,
        entry: subject.entry.clone(),
        record: &mut |entry| executor::record_now(host, entry),
        progress,
        import,
        image: None,
    };
    executor::run(&mut work, &plan, &mut host.fault.clone())?;
    Ok(Outcome::Done)
}

/// Returns the error with the usage if the command line is wrong, otherwise without it.
fn refused(error: brand::Error) -> Error {
    match error.is_usage() {
        true => Error::Usage(error.to_string()),
        false => Error::Brand(error),
    }
}

/// Takes `-c DIR` and `-p DIR` out of the options: a folder of files that the zone gets
/// over its own, its identity among them.
fn profile_of(options: &[String]) -> Result<(Option<PathBuf>, Vec<String>), Error> {
    let (mut profile, mut rest) = (None, Vec::new());
    let mut words = options.iter().peekable();
    while let Some(word) = words.next() {
        let is_path = words.peek().is_some_and(|next| next.starts_with('/'));
        // A bare -p is Solaris 10's, for which the brand has an answer.
        if word != "-c" && !(word == "-p" && is_path) {
            rest.push(word.clone());
            continue;
        }
        let path = words.next().map(PathBuf::from).unwrap_or_default();
        crate::clone::check_profile(&path).map_err(Error::Usage)?;
        if profile.replace(path).is_some() {
            return Err(Error::Usage("give one profile, once".to_owned()));
        }
    }
    Ok((profile, rest))
}

/// The source of the root.
enum Source {
    /// An image, by its digest.
    Image(String),
    /// An image that is imported from there.
    Import(String),
    /// An image that is made if there is none.
    Recipe(Recipe),
    /// A brand, by its options.
    Brand(String, Vec<String>),
}

fn plan(
    subject: &Subject,
    source: Source,
    init: bool,
    profile: Option<PathBuf>,
    machine: Option<Vec<String>>,
    uuid: Uuid,
) -> ZonePlan {
    let path = subject.zonepath.clone();
    let on = |image| Step::StandOnImage {
        image,
        path: path.clone(),
    };
    let mut steps = Vec::new();
    if let Source::Import(source) = &source {
        // Before anything is made: it may take long.
        steps.push(Step::ImportImage {
            source: source.clone(),
        });
    }
    let root = match source {
        Source::Image(image) | Source::Import(image) => vec![on(image)],
        Source::Recipe(recipe) => {
            let image = recipe.image.clone();
            vec![Step::Bootstrap { recipe }, on(image)]
        }
        Source::Brand(brand, options) => vec![
            Step::MakeDataset { path: path.clone() },
            Step::Populate {
                brand,
                root: path.join(ROOT),
                options,
            },
        ],
    };
    let profile = profile.map(|profile| Step::LayProfile {
        path: path.clone(),
        profile,
    });
    steps.push(Step::Begin { uuid });
    steps.push(Step::MakeZonepath { path: path.clone() });
    steps.extend(root);
    if init {
        steps.push(Step::LayImageInit { path: path.clone() });
    }
    // Who the guest of a machine is is on its disk.
    steps.push(match machine {
        Some(options) => Step::MakeMachine {
            path: path.clone(),
            options,
        },
        None => Step::Identify {
            path: path.clone(),
            uuid,
        },
    });
    steps.extend(profile);
    steps.extend([
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
