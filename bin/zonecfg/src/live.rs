//! `zonecfg -r`: reads and changes the configuration of a running zone instead of the stored one.
//! Committed changes take effect at once, and are lost when the zone boots.

use std::ops::{Deref, DerefMut};

use host::{Host, flatten};
use label::Label;
use model::{Config, State, ZoneName};
use syntax::{Backing, Change, How};
use zone::executor::Outcome;
use zone::live::{Options, Told};

use crate::backing::Stored;
use crate::delegated::{self, Guarded};

/// The reason why a configuration could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed or refused.
    #[error(transparent)]
    Stored(#[from] delegated::Error),
    /// The running zone failed.
    #[error("zonecfg: zone '{0}': {1}")]
    Running(ZoneName, String),
    /// The command applies only to stored configurations.
    #[error(
        "zonecfg: zone '{0}': {1} applies to the stored configuration, not to a running zone (-r)"
    )]
    OnlyStored(ZoneName, &'static str),
}

/// The store of a session's configurations.
#[derive(Debug)]
pub enum Kept {
    /// The store of this host.
    Stored(Guarded),
    /// The running zones of this host.
    Running(Guarded, Box<Host>),
}

impl Kept {
    fn for_stored<T>(
        &mut self,
        zone: &ZoneName,
        what: &'static str,
        act: impl FnOnce(&mut Guarded) -> Result<T, delegated::Error>,
    ) -> Result<T, Error> {
        match self {
            Self::Stored(stored) => Ok(act(stored)?),
            Self::Running(..) => Err(Error::OnlyStored(zone.clone(), what)),
        }
    }

    const fn guarded(&self) -> &Guarded {
        match self {
            Self::Stored(stored) | Self::Running(stored, _) => stored,
        }
    }
}

/// Returns the configuration that a zone currently runs with.
pub fn running(host: &Host, zone: &ZoneName) -> Result<Config, Error> {
    zone::live::running(host, zone).map_err(|error| Error::Running(zone.clone(), flatten(&error)))
}

impl Deref for Kept {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        self.guarded()
    }
}

impl DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut Stored {
        match self {
            Self::Stored(stored) | Self::Running(stored, _) => stored,
        }
    }
}

impl Backing for Kept {
    type Error = Error;

    fn load(&mut self, zone: &ZoneName) -> Result<Option<Config>, Error> {
        match self {
            Self::Stored(stored) => Ok(stored.load(zone)?),
            Self::Running(_, host) => running(host, zone).map(Some),
        }
    }

    fn state(&mut self, zone: &ZoneName) -> Result<Option<State>, Error> {
        match self {
            Self::Stored(stored) | Self::Running(stored, _) => Ok(stored.state(zone)?),
        }
    }

    fn has_files(&mut self, zone: &ZoneName) -> Result<bool, Error> {
        match self {
            Self::Stored(stored) | Self::Running(stored, _) => Ok(stored.has_files(zone)?),
        }
    }

    fn template(&mut self, template: Option<&str>, zone: &ZoneName) -> Result<Config, Error> {
        self.for_stored(zone, "create", |stored| stored.template(template, zone))
    }

    fn detached(&mut self, zonepath: &str, zone: &ZoneName) -> Result<Config, Error> {
        self.for_stored(zone, "create", |stored| stored.detached(zonepath, zone))
    }

    fn existing(&mut self, zone: &ZoneName) -> Result<Config, Error> {
        self.for_stored(zone, "create", |stored| stored.existing(zone))
    }

    fn problems(&mut self, config: &Config) -> Vec<String> {
        match self {
            Self::Stored(stored) | Self::Running(stored, _) => stored.problems(config),
        }
    }

    fn label(&mut self, text: &str) -> Result<String, Error> {
        match self {
            Self::Stored(stored) | Self::Running(stored, _) => Ok(stored.label(text)?),
        }
    }

    fn label_text(&mut self, label: Label) -> Option<String> {
        match self {
            Self::Stored(stored) | Self::Running(stored, _) => stored.label_text(label),
        }
    }

    fn unlabeled(&mut self, zone: &ZoneName) -> Result<Vec<ZoneName>, Error> {
        match self {
            Self::Stored(stored) | Self::Running(stored, _) => Ok(stored.unlabeled(zone)?),
        }
    }

    fn host_dirs(&self) -> &[&str] {
        self.guarded().host_dirs()
    }

    fn commit(&mut self, change: &Change) -> Result<(), Error> {
        self.commit_how(change, How::default())
    }

    fn commit_how(&mut self, change: &Change, how: How) -> Result<(), Error> {
        match self {
            Self::Stored(stored) => Ok(stored.commit_how(change, how)?),
            Self::Running(_, host) => apply(host, change, how),
        }
    }

    fn delete(&mut self, zone: &ZoneName, force: bool) -> Result<(), Error> {
        self.for_stored(zone, "delete", |stored| stored.delete(zone, force))
    }

    fn write_export(&mut self, file: &str, text: &str) -> std::io::Result<()> {
        match self {
            Self::Stored(stored) | Self::Running(stored, _) => stored.write_export(file, text),
        }
    }
}

fn apply(host: &Host, change: &Change, how: How) -> Result<(), Error> {
    let zone = change.zone;
    let mut tell = |told| match told {
        Told::Progress(text) => println!("zone '{zone}': {text}"),
        Told::Warning(text) => eprintln!("zone '{zone}': warning: {text}"),
    };
    let options = Options {
        dry_run: how.dry_run,
        quiet: how.quiet,
    };
    let done = zone::live::commit(host, zone, change.base, change.config, options, &mut tell);
    if let Outcome::Already(notice) =
        done.map_err(|error| Error::Running(zone.clone(), flatten(&error)))?
    {
        println!("zone '{zone}': {notice}");
    }
    Ok(())
}
