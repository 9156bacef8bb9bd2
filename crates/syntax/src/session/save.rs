//! Commands between the session and the store, and the end of a session.

use model::brands;
use model::config::Resource;
use model::verify::{self, Problem};
use model::{State, table};

use super::{Backing, Change, Console, Done, Finish, Flow, Mode, Refused, Session, chain};
use crate::command::Template;

/// The template of `create -b`.
const BLANK: &str = "SUNWblank";

impl<B: Backing, C: Console> Session<B, C> {
    pub(super) fn create(&mut self, force: bool, template: &Template) -> Flow {
        let (stored, state) = match (self.stored(), self.state()) {
            (Ok(stored), Ok(state)) => (stored, state),
            _ => return Flow::Go,
        };
        if state.is_some_and(|state| state > State::Configured) {
            let _ = self.check_not_installed("create");
            return Flow::Go;
        }
        if stored.is_some() {
            if force {
                let text = format!("Zone {} already exists; overwriting.\n", self.zone);
                self.console.print(&text);
            } else {
                let question = format!("Zone {} already exists; create anyway", self.zone);
                match self.console.ask(&question) {
                    Some(true) => {}
                    Some(false) => return Flow::Go,
                    None => {
                        self.fail(
                            "Zone exists, input not from terminal and -F not specified:\n\
                             create command ignored, exiting.",
                        );
                        return Flow::Abort;
                    }
                }
            }
        }
        let template = match template {
            Template::Default => None,
            Template::Blank => Some(BLANK),
            Template::Named(name) => Some(name.as_str()),
        };
        match self.backing.template(template, &self.zone) {
            Ok(config) => {
                self.base = stored;
                self.config = Some(config);
                self.changed = true;
            }
            Err(error) => self.fail(&chain(&error)),
        }
        Flow::Go
    }

    /// What is stored of the zone. A file that cannot be read is an error here:
    /// `delete -F` is what gets rid of it.
    fn stored(&mut self) -> Done<Option<model::Config>> {
        match self.backing.load(&self.stored_as) {
            Ok(config) => Ok(config),
            Err(error) => self.refuse(&chain(&error)),
        }
    }

    pub(super) fn delete(&mut self, force: bool) -> Flow {
        if !force {
            if self.config().is_err() {
                return Flow::Go;
            }
            let question = format!("Are you sure you want to delete zone {}", self.zone);
            match self.console.ask(&question) {
                Some(true) => {}
                Some(false) => return Flow::Go,
                None => {
                    self.fail(
                        "Input not from terminal and -F not specified:\n\
                         delete command ignored, exiting.",
                    );
                    return Flow::Abort;
                }
            }
        }
        let Ok(state) = self.state() else {
            return Flow::Go;
        };
        match state {
            // Only in this session so far.
            None if self.changed => {}
            // What `-F` is for: an entry or a file without the other.
            None if !force => {
                let text = format!("{}: No such zone configured", self.zone);
                self.fail(&text);
                return Flow::Go;
            }
            Some(state) if state.is_active() || state == State::Mounted => {
                let text = format!(
                    "Zone {} is {state}; delete not allowed.  Halt it first.",
                    self.zone
                );
                self.fail(&text);
                return Flow::Go;
            }
            Some(state) if state != State::Configured && !force => {
                let text = format!(
                    "Zone {} not in configured state; delete not allowed.  Use -F to force delete.",
                    self.zone
                );
                self.fail(&text);
                return Flow::Go;
            }
            _ => {}
        }
        if state.is_some() || force {
            if let Err(error) = self.backing.delete(&self.stored_as, force) {
                self.fail(&chain(&error));
                return Flow::Go;
            }
        }
        self.forget();
        Flow::Go
    }

    pub(super) fn revert(&mut self, force: bool) -> Flow {
        if self.config.is_none() {
            self.fail("No changes to revert.");
            return Flow::Go;
        }
        if !force {
            match self.console.ask("Are you sure you want to revert") {
                Some(true) => {}
                Some(false) => return Flow::Go,
                None => {
                    self.fail(
                        "Input not from terminal and -F not specified:\n\
                         revert command ignored, exiting.",
                    );
                    return Flow::Abort;
                }
            }
        }
        self.forget();
        match self.stored() {
            Ok(Some(config)) => {
                self.base = Some(config.clone());
                self.config = Some(config);
            }
            Ok(None) => {
                let text = format!("{}: no such saved zone to revert to.", self.stored_as);
                self.fail(&text);
            }
            Err(Refused) => {}
        }
        Flow::Go
    }

    /// Back to the beginning of the session.
    fn forget(&mut self) {
        self.zone = self.stored_as.clone();
        self.config = None;
        self.base = None;
        self.scope = None;
        self.changed = false;
    }

    pub(super) fn verify(&mut self) -> Done {
        match self.problem()? {
            None => Ok(()),
            Some(phrase) => self.refuse(&format!("{}: {phrase}", self.zone)),
        }
    }

    pub(super) fn commit(&mut self) -> Done {
        self.complete()?;
        if let Some(phrase) = self.problem()? {
            let text = format!("Zone {} failed to verify", self.zone);
            self.fail(&text);
            return self.refuse(&format!("{}: {phrase}", self.zone));
        }
        let Some(config) = &self.config else {
            return Err(Refused);
        };
        let change = Change {
            zone: &self.stored_as,
            base: self.base.as_ref(),
            config,
        };
        if let Err(error) = self.backing.commit(&change) {
            return self.refuse(&chain(&error));
        }
        self.base = Some(config.clone());
        self.stored_as = self.zone.clone();
        self.changed = false;
        Ok(())
    }

    /// Prints every problem; gives the library's phrase for the first.
    fn problem(&mut self) -> Done<Option<&'static str>> {
        let problems = verify::config(self.config()?);
        let mut phrase = problems.first().map(Problem::phrase);
        for problem in problems {
            self.fail(&problem.to_string());
        }
        if self.scope.is_some() {
            self.fail("resource specification incomplete");
            phrase = phrase.or(Some("Insufficient specification"));
        }
        Ok(phrase)
    }

    /// A brand whose name asks for a sparse root gets one, unless the zone
    /// already has its root.
    fn complete(&mut self) -> Done {
        let config = self.config()?;
        let wants = brands::find(config.brand()).is_some_and(|brand| brand.sparse);
        if !wants || !config.inherited_dirs().is_empty() {
            return Ok(());
        }
        if self.state()?.is_some_and(|state| state > State::Configured) {
            return Ok(());
        }
        let Some(spec) = table::resource("inherit-pkg-dir") else {
            return Ok(());
        };
        let dirs: Vec<String> = self
            .backing
            .host_dirs()
            .iter()
            .map(|dir| (*dir).to_owned())
            .collect();
        for dir in dirs {
            let mut resource = Resource::new(spec);
            let added = resource
                .set("dir", &dir)
                .and_then(|()| self.config.as_mut().map_or(Ok(()), |c| c.add(resource)));
            if let Err(error) = added {
                return self.refuse(&error.to_string());
            }
        }
        Ok(())
    }

    /// Ends the session: commits what was accepted, unless a resource is
    /// incomplete.
    pub fn finish(&mut self) -> Finish {
        // With commands from the command line there is no more input to ask for.
        let may_ask = self.mode == Mode::Interactive && !self.force_exit;
        if self.scope.is_some() {
            if self.force_exit {
                self.failed = true;
            } else {
                let answer = if may_ask {
                    self.console.ask("Resource incomplete; really quit")
                } else {
                    None
                };
                match answer {
                    Some(true) => {}
                    Some(false) => return Finish::Again,
                    None => {
                        self.fail("Resource incomplete.");
                        return Finish::Failed;
                    }
                }
            }
        }
        if self.changed && self.config.is_some() {
            let failed = self.commit().is_err();
            if failed {
                let answer = if may_ask {
                    self.console.ask("Configuration not saved; really quit")
                } else {
                    None
                };
                match answer {
                    Some(false) => return Finish::Again,
                    Some(true) => {}
                    None => self.fail("Configuration not saved."),
                }
                return Finish::Failed;
            }
        }
        if self.failed {
            Finish::Failed
        } else {
            Finish::Ok
        }
    }
}
