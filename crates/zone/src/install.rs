//! `zoneadm install`: populates the root of a configured zone.

use std::path::{Path, PathBuf};

use brand::Origin;
use model::plan::{Recipe, Step, ZonePlan};
use model::{Config, State, Uuid, Verb, ZoneName};
use storage::ROOT;

use crate::executor::{self, Outcome, Work};
use crate::first_boot::Given;
use crate::images::wanted::{ByName, Named, Wanted, without_t};
use crate::images::{self, Request};
use crate::{quota, verify};
use host::{Error, Host};
use platform::kind;
use subject::zfs_stream::Received;
use subject::{Start, Subject};

/// Installs a zone with the brand's options from the command line.
///
/// # Errors
/// Fails with [`Error::Verify`] if the zone could not run on this host, and with [`Error::Step`] if
/// a step failed. The zone is then configured as before.
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
    let (profile, options) = profile_of(&without_t(options))?;
    let kind = kind::of(&config);
    let options = kind.install_options(&options)?;
    if let Some(given) = &profile {
        given.check(&config, uuid)?;
    }
    let wanted = Wanted::read(&options.root)?;
    let init = wanted.init;
    let (source, import) = source(host, &subject, &config, wanted, options.root, progress)?;
    let own = kind.own_new_root(subject.zonepath.clone(), uuid, options.machine);
    let profile = profile.map(|given| given.step(&config, subject.zonepath.clone(), uuid));
    let limit = quota::default_step(quota::default_limit(host)?, &config, &subject.zonepath);
    let last = profile.into_iter().chain(limit).collect();
    let plan = plan(&subject, source, init, own, last, uuid);
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    let entry = subject.entry.clone();
    let record = &mut |entry| executor::record_now(host, entry);
    let mut work = Work {
        import,
        ..Work::new(host, &config, entry, record, progress)
    };
    executor::run(&mut work, &plan, &mut host.fault.clone())?;
    Ok(Outcome::Done)
}

/// Returns the source of the root that the options name, and the request for an image that must be
/// imported first.
fn source(
    host: &Host,
    subject: &Subject,
    config: &Config,
    wanted: Wanted,
    options: Vec<String>,
    progress: &mut dyn FnMut(&str),
) -> Result<(Source, Option<Request>), Error> {
    let source = match wanted.image {
        Some(_) if !config.inherited_dirs().is_empty() => {
            return Err(Error::Usage(
                "images are for whole-root zones; this one has inherit-pkg-dir resources"
                    .to_owned(),
            ));
        }
        Some(Named::Here(named)) => return by_name(host, named, progress),
        Some(Named::There(request)) => {
            return Ok((Source::Import(request.source.to_string()), Some(request)));
        }
        None => {
            let brand = verify::brand_of(config)?;
            match brand
                .origin(config, &options, &host.facts())
                .map_err(refused)?
            {
                Origin::Empty => {
                    Received::check(&subject.zonepath, &options)?;
                    for pair in options.windows(2).filter(|pair| pair[0].starts_with('-')) {
                        crate::label::admit_source(host, config, Path::new(&pair[1]))?;
                    }
                    Source::Brand(config.brand().to_owned(), options)
                }
                Origin::Bootstrap(recipe) => Source::Recipe(recipe),
            }
        }
    };
    Ok((source, None))
}

/// Returns the image of this host with a name. If this host has none, returns the request for the
/// image of this name in a catalogue.
fn by_name(
    host: &Host,
    named: ByName,
    progress: &mut dyn FnMut(&str),
) -> Result<(Source, Option<Request>), Error> {
    match images::find(host, &named.word) {
        Ok(_) if named.architecture.is_some() || named.credentials.is_some() => Err(Error::Usage(
            "-x arch and -x credentials are for images that are fetched".to_owned(),
        )),
        Ok(image) => Ok((Source::Image(image.digest.to_string()), None)),
        Err(Error::Storage(storage::Error::NoImage(_))) => {
            let architecture = named.architecture.as_deref();
            let source = images::by_name::resolve(host, &named.word, architecture, progress)?;
            let request = Request {
                architecture: named.architecture,
                credentials: named.credentials,
                ..Request::of(source)
            };
            Ok((Source::Import(request.source.to_string()), Some(request)))
        }
        Err(error) => Err(error),
    }
}

/// Converts an error of the brand. An error of the command line becomes [`Error::Usage`].
fn refused(error: brand::Error) -> Error {
    match error.is_usage() {
        true => Error::Usage(error.to_string()),
        false => Error::Brand(error),
    }
}

/// Removes `-c PATH` and `-p PATH` from the options. PATH names the settings for the first boot.
/// Returns them and the other options.
fn profile_of(options: &[String]) -> Result<(Option<Given>, Vec<String>), Error> {
    let (mut profile, mut rest) = (None, Vec::new());
    let mut words = options.iter().peekable();
    while let Some(word) = words.next() {
        let is_path = words.peek().is_some_and(|next| next.starts_with('/'));
        // The option -p without a path has another meaning in Solaris 10. The brand handles it.
        if word != "-c" && !(word == "-p" && is_path) {
            rest.push(word.clone());
            continue;
        }
        let path = words.next().map(PathBuf::from).unwrap_or_default();
        let given = Given::at(path).map_err(|error| Error::Usage(error.to_string()))?;
        if profile.replace(given).is_some() {
            return Err(Error::Usage("give one profile, once".to_owned()));
        }
    }
    Ok((profile, rest))
}

/// The source from which an install makes the root.
enum Source {
    /// An existing image, by its digest.
    Image(String),
    /// An image that is imported from this source.
    Import(String),
    /// An image that is made from this recipe if it does not exist.
    Recipe(Recipe),
    /// The brand, which fills the root according to its options.
    Brand(String, Vec<String>),
}

fn plan(
    subject: &Subject,
    source: Source,
    init: bool,
    own: Step,
    last: Vec<Step>,
    uuid: Uuid,
) -> ZonePlan {
    let path = subject.zonepath.clone();
    let on = |image| Step::StandOnImage {
        image,
        path: path.clone(),
    };
    let mut steps = Vec::new();
    if let Source::Import(source) = &source {
        // The import comes before all other steps, because it may take long.
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
    steps.push(Step::Begin { uuid });
    steps.push(Step::MakeZonepath { path: path.clone() });
    steps.extend(root);
    if init {
        steps.push(Step::LayImageInit { path: path.clone() });
    }
    steps.push(own);
    steps.extend(last);
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
