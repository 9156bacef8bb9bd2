//! A configuration store and a user, both in memory.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use model::{Config, State, ZoneName, generate};
use syntax::{Backing, Change, Console, SyntaxError};

/// A configuration store with one zone.
pub struct Memory {
    /// The zone, if it exists.
    pub zone: Option<(Config, State)>,
}

/// The reason why the store refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: No such zone configured")]
    NoTemplate(String),
    #[error("changed meanwhile")]
    Changed,
}

impl Backing for Memory {
    type Error = Error;

    fn load(&mut self, zone: &ZoneName) -> Result<Option<Config>, Error> {
        let stored = self.zone.as_ref().map(|(config, _)| config);
        Ok(stored.filter(|config| config.name() == zone).cloned())
    }

    fn state(&mut self, zone: &ZoneName) -> Result<Option<State>, Error> {
        let stored = self.zone.as_ref();
        let stored = stored.filter(|(config, _)| config.name() == zone);
        Ok(stored.map(|(_, state)| *state))
    }

    fn has_files(&mut self, zone: &ZoneName) -> Result<bool, Error> {
        let state = self.state(zone)?;
        Ok(state.is_some_and(|state| state > State::Configured))
    }

    fn template(&mut self, template: Option<&str>, zone: &ZoneName) -> Result<Config, Error> {
        match template {
            None => Ok(generate::config(zone, b"zones")),
            Some("SUNWblank") => Ok(Config::new(zone.clone())),
            Some(other) => Err(Error::NoTemplate(other.to_owned())),
        }
    }

    fn detached(&mut self, zonepath: &str, zone: &ZoneName) -> Result<Config, Error> {
        let mut config = generate::config(zone, b"detached");
        let set = config.set_zonepath(zonepath);
        set.map_err(|_| Error::NoTemplate(zonepath.to_owned()))?;
        Ok(config)
    }

    fn existing(&mut self, zone: &ZoneName) -> Result<Config, Error> {
        Err(Error::NoTemplate(zone.to_string()))
    }

    fn problems(&mut self, config: &Config) -> Vec<String> {
        let missing = config.admins().filter(|admin| admin.user == "nobody-here");
        missing.map(|admin| admin.user.to_owned()).collect()
    }

    fn host_dirs(&self) -> &[&str] {
        &["/usr", "/opt"]
    }

    fn commit(&mut self, change: &Change) -> Result<(), Error> {
        if self.load(change.zone)?.as_ref() != change.base {
            return Err(Error::Changed);
        }
        crate::session::check_config(change.config);
        let state = self.state(change.zone)?.unwrap_or(State::Configured);
        self.zone = Some((change.config.clone(), state));
        Ok(())
    }

    fn delete(&mut self, _: &ZoneName, _: bool) -> Result<(), Error> {
        self.zone = None;
        Ok(())
    }

    fn write_export(&mut self, file: &str, _: &str) -> io::Result<()> {
        if file.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }
}

/// The messages to a user.
#[derive(Default)]
pub struct Told {
    /// The printed text.
    pub printed: String,
    /// The error messages.
    pub errors: Vec<String>,
}

/// A user who always gives the same answer.
pub struct User {
    /// The messages, shared with the code that checks them.
    pub told: Rc<RefCell<Told>>,
    /// The answer; `None` if the session is not interactive.
    pub answer: Option<bool>,
}

impl Console for User {
    fn print(&mut self, text: &str) {
        self.told.borrow_mut().printed.push_str(text);
    }

    fn notice(&mut self, _: &str) {}

    fn error(&mut self, text: &str) {
        self.told.borrow_mut().errors.push(text.to_owned());
    }

    fn syntax_error(&mut self, error: &SyntaxError) {
        self.error(&error.to_string());
    }

    fn ask(&mut self, _: &str) -> Option<bool> {
        self.answer
    }
}
