//! The settings for the first boot of a zone, from `install -c` and `clone -c`.

use std::path::{Path, PathBuf};

use brand::first_boot::seed::{self, Instance, Seed};
use brand::first_boot::{self, Kind};
use model::plan::Step;
use model::{Config, Uuid, ZoneName};

use host::Error;
use platform::kind;

/// The reason why a path cannot be used with `-c`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadProfile {
    /// The path is relative, so its meaning would depend on the working directory of the command.
    #[error("profile {}: the path must be absolute.", .0.display())]
    Relative(PathBuf),
    /// The path leads to nothing, or to another kind of file.
    #[error("profile {} is not a directory, nor a profile in XML.", .0.display())]
    NoFolder(PathBuf),
}

/// The settings that the administrator gave with `-c`, and their kind.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    path: PathBuf,
    kind: Kind,
}

impl Given {
    /// Finds the kind of the settings at `path`.
    pub(crate) fn at(path: PathBuf) -> Result<Self, BadProfile> {
        if !path.is_absolute() {
            return Err(BadProfile::Relative(path));
        }
        match first_boot::kind_of(&path) {
            Ok(kind) => Ok(Self { path, kind }),
            Err(_) => Err(BadProfile::NoFolder(path)),
        }
    }

    /// Reads the settings without applying them, so that a plan and the first step of a verb already
    /// report their errors.
    ///
    /// # Errors
    /// Fails with [`Error::Brand`], whose message has no value of the settings.
    pub(crate) fn check(&self, config: &Config, uuid: Uuid) -> Result<(), Error> {
        kind::of(config).admit_settings(&self.kind)?;
        match &self.kind {
            Kind::Files => Ok(()),
            Kind::Profiles(paths) => Ok(first_boot::read(paths)?.check(config)?),
            Kind::Seed => {
                read_seed(&self.path, config.name(), uuid)?;
                Ok(())
            }
        }
    }

    /// Returns the step that applies the settings to the root of the zone at `path`.
    pub(crate) fn step(self, config: &Config, path: PathBuf, uuid: Uuid) -> Step {
        let profile = self.path;
        match self.kind {
            Kind::Files => Step::LayProfile { path, profile },
            Kind::Profiles(_) => Step::ApplyProfile { path, profile },
            Kind::Seed => kind::of(config).give_seed(path, profile, uuid),
        }
    }
}

/// Reads the seed in a folder for a zone whose links the host configures.
pub(crate) fn read_seed(folder: &Path, zone: &ZoneName, uuid: Uuid) -> Result<Seed, brand::Error> {
    seed::read(
        folder,
        &Instance {
            name: zone.as_str(),
            uuid: uuid.to_string(),
            network: Some(seed::NO_NETWORK),
        },
    )
}

/// Reads the seed in a folder for a guest, which configures its network itself.
pub(crate) fn read_seed_of_guest(
    folder: &Path,
    config: &Config,
    uuid: Uuid,
) -> Result<Seed, brand::Error> {
    seed::read(
        folder,
        &Instance {
            name: config.name().as_str(),
            uuid: uuid.to_string(),
            network: seed::guest_network(config).as_deref(),
        },
    )
}
