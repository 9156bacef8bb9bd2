//! zonecfg for users who are not root: asks zoneauthd, and, if zoneauthd has started it as root for
//! a user, refuses actions that the user may not do.
//!
//! The user must not become root of the host. So the user cannot name a file to read or write and
//! cannot create or delete a zone. A committed configuration may differ only in properties of the
//! zone alone (`authority::change`). These checks stand between the session and the store, so they
//! apply to every command.

use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};

use authority::{Program, change};
use cli::delegate::{self, Input, Outcome};
use label::Label;
use model::{Config, State, ZoneName};
use syntax::{Backing, Change};

use crate::args::{Args, Commands};
use crate::backing::{self, Stored};

/// Asks zoneauthd to run a session that may change the configuration. Returns the exit status of
/// the session, or `None` if the session must run in this process, which cannot change anything.
pub fn ask(zone: &ZoneName, args: &Args) -> Option<u8> {
    let mut words = vec!["-z".into(), zone.as_str().into()];
    words.extend(args.atomic.then(|| "--atomic".into()));
    if let Some(expected) = &args.expected {
        words.extend(["--expect".into(), expected.into()]);
    }
    let input = match &args.commands {
        Commands::Words(text) if !text.lines().any(changes) => return None,
        Commands::Words(text) => {
            words.push(text.into());
            Input::Nothing
        }
        Commands::Interactive => Input::Standard,
        Commands::File(file) if file == "-" => {
            words.extend(["-f".into(), "-".into()]);
            Input::Standard
        }
        // zoneauthd runs as root and would open the user's file as root.
        Commands::File(_) => return None,
    };
    match (delegate::run(Program::Zonecfg, &words, input), input) {
        (Outcome::Ended(status), _) => Some(status),
        (Outcome::Refused(why), Input::Nothing) => {
            eprintln!("{why}");
            Some(cli::status::ERROR)
        }
        _ => None,
    }
}

/// Returns true for a line with a command that read-only sessions refuse.
fn changes(line: &str) -> bool {
    let commands = syntax::parse_line(line);
    commands
        .into_iter()
        .flatten()
        .any(|command| command.verb().spec().changes)
}

/// The user for whom the session runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The user who has started zonecfg.
    Himself,
    /// A user whom an `admin` resource of the zone names.
    Delegated,
}

impl Caller {
    /// Returns the caller that the environment names. zoneauthd sets the variable for its programs,
    /// and a user who sets the variable gains nothing.
    pub fn of_environment() -> Self {
        match std::env::var_os(authority::UID_VARIABLE) {
            Some(_) => Self::Delegated,
            None => Self::Himself,
        }
    }
}

/// The reason why the guarded store refused an operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store itself refused.
    #[error(transparent)]
    Stored(#[from] backing::Error),
    /// The user wants to create or delete a zone, which only root may.
    #[error("{zone}: Permission denied: only root may {what} a zone")]
    Zone {
        /// The zone.
        zone: ZoneName,
        /// The action: create or delete.
        what: &'static str,
    },
    /// The change affects the host.
    #[error("{zone}: Permission denied: only root may change {}", what.join(", "))]
    Reaches {
        /// The zone.
        zone: ZoneName,
        /// The properties and resources that affect the host.
        what: Vec<&'static str>,
    },
}

/// The store, restricted to the operations that the caller may use.
#[derive(Debug)]
pub struct Guarded {
    stored: Stored,
    caller: Caller,
}

impl Guarded {
    /// Guards a store against a caller.
    pub const fn new(stored: Stored, caller: Caller) -> Self {
        Self { stored, caller }
    }

    fn for_root(&self, zone: &ZoneName, what: &'static str) -> Result<(), Error> {
        match self.caller {
            Caller::Himself => Ok(()),
            Caller::Delegated => Err(Error::Zone {
                zone: zone.clone(),
                what,
            }),
        }
    }

    /// Refuses a change that affects the host.
    fn check(&self, change: &Change) -> Result<(), Error> {
        if self.caller == Caller::Himself {
            return Ok(());
        }
        let zone = change.zone.clone();
        let Some(base) = change.base else {
            return Err(Error::Zone {
                zone,
                what: "create",
            });
        };
        match change::forbidden(base, change.config) {
            what if what.is_empty() && !change.zonepath_forced => Ok(()),
            what => Err(Error::Reaches { zone, what }),
        }
    }
}

impl Deref for Guarded {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        &self.stored
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Stored {
        &mut self.stored
    }
}

impl Backing for Guarded {
    type Error = Error;

    fn load(&mut self, zone: &ZoneName) -> Result<Option<Config>, Error> {
        Ok(self.stored.load(zone)?)
    }

    fn state(&mut self, zone: &ZoneName) -> Result<Option<State>, Error> {
        Ok(self.stored.state(zone)?)
    }

    fn has_files(&mut self, zone: &ZoneName) -> Result<bool, Error> {
        Ok(self.stored.has_files(zone)?)
    }

    fn template(&mut self, template: Option<&str>, zone: &ZoneName) -> Result<Config, Error> {
        self.for_root(zone, "create")?;
        Ok(self.stored.template(template, zone)?)
    }

    fn detached(&mut self, zonepath: &str, zone: &ZoneName) -> Result<Config, Error> {
        self.for_root(zone, "create")?;
        Ok(self.stored.detached(zonepath, zone)?)
    }

    fn existing(&mut self, zone: &ZoneName) -> Result<Config, Error> {
        self.for_root(zone, "create")?;
        Ok(self.stored.existing(zone)?)
    }

    fn problems(&mut self, config: &Config) -> Vec<String> {
        self.stored.problems(config)
    }

    fn label(&mut self, text: &str) -> Result<String, Error> {
        Ok(self.stored.label(text)?)
    }

    fn label_text(&mut self, label: Label) -> Option<String> {
        self.stored.label_text(label)
    }

    fn unlabeled(&mut self, zone: &ZoneName) -> Result<Vec<ZoneName>, Error> {
        Ok(self.stored.unlabeled(zone)?)
    }

    fn host_dirs(&self) -> &[&str] {
        self.stored.host_dirs()
    }

    fn commit(&mut self, change: &Change) -> Result<(), Error> {
        self.check(change)?;
        Ok(self.stored.commit(change)?)
    }

    fn delete(&mut self, zone: &ZoneName, force: bool) -> Result<(), Error> {
        self.for_root(zone, "delete")?;
        Ok(self.stored.delete(zone, force)?)
    }

    fn write_export(&mut self, file: &str, text: &str) -> std::io::Result<()> {
        match self.caller {
            Caller::Himself => self.stored.write_export(file, text),
            Caller::Delegated => Err(ErrorKind::PermissionDenied.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use store::Root;

    use super::*;

    fn name(text: &str) -> ZoneName {
        text.parse().unwrap()
    }

    /// Creates a store with zone `web` as root, and guards it against a user.
    fn guarded() -> (tempfile::TempDir, Guarded, Config) {
        let folder = tempfile::tempdir().unwrap();
        let stored = || Stored::new(Root::new(folder.path()));
        let mut root = Guarded::new(stored(), Caller::Himself);
        let config = root.template(None, &name("web")).unwrap();
        let change = Change {
            zone: config.name(),
            base: None,
            config: &config,
            zonepath_forced: false,
        };
        root.commit(&change).unwrap();
        let user = Guarded::new(stored(), Caller::Delegated);
        (folder, user, config)
    }

    #[test]
    fn only_changes_that_stay_in_the_zone_are_stored() {
        let (_folder, mut user, base) = guarded();
        let commit = |user: &mut Guarded, new: &Config, forced| {
            let change = Change {
                zone: base.name(),
                base: Some(&base),
                config: new,
                zonepath_forced: forced,
            };
            user.commit(&change).map_err(|error| error.to_string())
        };
        let mut new = base.clone();
        new.set("zonepath", "/elsewhere").unwrap();
        new.set("limitpriv", "default,sys_time").unwrap();
        assert_eq!(
            commit(&mut user, &new, false),
            Err("web: Permission denied: only root may change zonepath, limitpriv".to_owned())
        );
        assert!(commit(&mut user, &base, true).is_err());
        let mut renamed = base.clone();
        renamed.rename(name("db"));
        assert!(commit(&mut user, &renamed, false).is_err());
        assert_eq!(user.load(&name("web")).unwrap(), Some(base.clone()));
        let mut new = base.clone();
        new.set("autoboot", "true").unwrap();
        assert_eq!(commit(&mut user, &new, false), Ok(()));
        assert_eq!(user.load(&name("web")).unwrap(), Some(new));
    }

    #[test]
    fn no_zone_is_made_or_deleted_and_no_file_named() {
        let (folder, mut user, config) = guarded();
        let (web, db) = (name("web"), name("db"));
        assert!(user.template(None, &db).is_err());
        assert!(user.template(Some("web"), &db).is_err());
        assert!(user.detached("/etc", &db).is_err());
        assert!(user.existing(&db).is_err());
        let new = Change {
            zone: &db,
            base: None,
            config: &config,
            zonepath_forced: false,
        };
        assert!(user.commit(&new).is_err());
        assert!(user.delete(&web, true).is_err());
        let file = folder.path().join("export");
        assert!(user.write_export(file.to_str().unwrap(), "x").is_err());
        assert!(!file.exists());
        assert_eq!(user.load(&web).unwrap(), Some(config));
    }
}
