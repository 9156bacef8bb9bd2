//! Commands that read from and write to the store, and the end of a session.

use model::brands;
use model::config::Resource;
use model::verify::{self, Problem};
use model::{State, table};

use super::{Backing, Change, Console, Done, Finish, Flow, Mode, Refused, Session, chain};
use crate::command::{How, Template};

/// The template of `create -b`.
const BLANK: &str = "SUNWblank";

impl<B: Backing, C: Console> Session<B, C> {
    pub(super) fn create(&mut self, force: bool, template: &Template) -> Flow {
        if self.zone.is_global() {
            self.fail("The global zone is there already: set changes it.");
            return Flow::Go;
        }
        let (stored, state) = match (self.stored(), self.state()) {
            (Ok(stored), Ok(state)) => (stored, state),
            _ => return Flow::Go,
        };
        if state.is_some_and(|state| state > State::Configured) {
            let _ = self.check_not_installed("create");
            return Flow::Go;
        }
        if stored.is_some() && force {
            let text = format!("Zone {} already exists; overwriting.\n", self.zone);
            self.console.print(&text);
        } else if stored.is_some() {
            let question = format!("Zone {} already exists; create anyway", self.zone);
            let stop = self.confirm(
                &question,
                "Zone exists, input not from terminal and -F not specified:\n\
                 create command ignored, exiting.",
            );
            if let Some(flow) = stop {
                return flow;
            }
        }
        let zone = &self.zone;
        let config = match template {
            Template::Default => self.backing.template(None, zone),
            Template::Blank => self.backing.template(Some(BLANK), zone),
            Template::Named(name) => self.backing.template(Some(name), zone),
            Template::Detached(zonepath) => self.backing.detached(zonepath, zone),
            Template::Existing => self.backing.existing(zone),
        };
        match config {
            Ok(config) => {
                self.base = stored;
                self.config = Some(config);
                self.changed = true;
            }
            Err(error) => self.fail(&chain(&error)),
        }
        Flow::Go
    }

    /// Returns the stored configuration of the zone. Fails if the file cannot be read; `delete -F`
    /// can remove such a file.
    fn stored(&mut self) -> Done<Option<model::Config>> {
        match self.backing.load(&self.stored_as) {
            Ok(config) => Ok(config),
            Err(error) => self.refuse(&chain(&error)),
        }
    }

    pub(super) fn delete(&mut self, force: bool) -> Flow {
        if self.zone.is_global() {
            self.fail("The global zone cannot be deleted: clear and remove change it.");
            return Flow::Go;
        }
        if !force {
            if self.config().is_err() {
                return Flow::Go;
            }
            let question = format!("Are you sure you want to delete zone {}", self.zone);
            let stop = self.confirm(
                &question,
                "Input not from terminal and -F not specified:\n\
                 delete command ignored, exiting.",
            );
            if let Some(flow) = stop {
                return flow;
            }
        }
        // An error message was already printed and recorded, and the session continues.
        let _ = self.delete_stored(force);
        Flow::Go
    }

    fn delete_stored(&mut self, force: bool) -> Done {
        let zone = self.zone.clone();
        match self.state()? {
            // The zone exists only in this session.
            None if self.changed => {
                self.forget();
                return Ok(());
            }
            // With force, the store also searches for remains of a zone that is not stored.
            None if !force => return self.refuse(&format!("{zone}: No such zone configured")),
            Some(state) if state.is_active() || state == State::Mounted => {
                return self.refuse(&format!(
                    "Zone {zone} is {state}; delete not allowed.  Halt it first."
                ));
            }
            Some(state) if state != State::Configured && !force => {
                return self.refuse(&format!(
                    "Zone {zone} not in configured state; delete not allowed.  Use -F to force delete."
                ));
            }
            _ => {}
        }
        if let Err(error) = self.backing.delete(&self.stored_as, force) {
            return self.refuse(&chain(&error));
        }
        self.forget();
        Ok(())
    }

    /// Asks the user to confirm a command. Returns `None` if the command must continue, otherwise
    /// the flow after the command. If no user can answer, prints `otherwise` and ends the session.
    fn confirm(&mut self, question: &str, otherwise: &str) -> Option<Flow> {
        match self.console.ask(question) {
            Some(true) => None,
            Some(false) => Some(Flow::Go),
            None => {
                self.fail(otherwise);
                Some(Flow::Abort)
            }
        }
    }

    pub(super) fn revert(&mut self, force: bool) -> Flow {
        if self.config.is_none() {
            self.fail("No changes to revert.");
            return Flow::Go;
        }
        if !force {
            let stop = self.confirm(
                "Are you sure you want to revert",
                "Input not from terminal and -F not specified:\n\
                 revert command ignored, exiting.",
            );
            if let Some(flow) = stop {
                return flow;
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

    /// Resets the session to its start.
    fn forget(&mut self) {
        self.zone = self.stored_as.clone();
        self.config = None;
        self.base = None;
        self.scope = None;
        self.changed = false;
        self.zonepath_forced = false;
    }

    pub(super) fn verify(&mut self) -> Done {
        match self.problem()? {
            None => {
                for line in verify::without_effect(self.config()?) {
                    self.console.notice(&format!("{}: {line}", self.zone));
                }
                Ok(())
            }
            Some(phrase) => self.refuse(&format!("{}: {phrase}", self.zone)),
        }
    }

    /// Refuses a configuration that cannot be stored.
    pub(super) fn check_whole(&mut self) -> Done {
        self.complete()?;
        if let Some(phrase) = self.problem()? {
            let text = format!("Zone {} failed to verify", self.zone);
            self.fail(&text);
            return self.refuse(&format!("{}: {phrase}", self.zone));
        }
        Ok(())
    }

    pub(super) fn commit(&mut self, how: How) -> Done {
        self.check_whole()?;
        let Some(config) = &self.config else {
            return Err(Refused);
        };
        let change = Change {
            zone: &self.stored_as,
            base: self.base.as_ref(),
            config,
            zonepath_forced: self.zonepath_forced,
        };
        if let Err(error) = self.backing.commit_how(&change, how) {
            return self.refuse(&chain(&error));
        }
        if how.dry_run {
            return Ok(());
        }
        self.base = Some(config.clone());
        self.stored_as = self.zone.clone();
        self.changed = false;
        self.zonepath_forced = false;
        Ok(())
    }

    /// Prints every problem of the configuration. Returns the phrase of Solaris' libzonecfg for the
    /// first one.
    fn problem(&mut self) -> Done<Option<&'static str>> {
        let problems = verify::config(self.config()?);
        let mut phrase = problems.first().map(Problem::phrase);
        for problem in problems {
            self.fail(&problem.to_string());
        }
        if let Some(config) = &self.config {
            for text in self.backing.problems(config) {
                self.fail(&text);
                phrase = phrase.or(Some("Invalid argument"));
            }
        }
        if self.scope.is_some() {
            self.fail("resource specification incomplete");
            phrase = phrase.or(Some("Insufficient specification"));
        }
        Ok(phrase)
    }

    /// Adds the inherited directories of a sparse root if the name of the brand asks for a sparse
    /// root. A zone that already has its root stays unchanged.
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

    /// Ends the session. Commits the accepted changes, unless a resource is incomplete.
    pub fn finish(&mut self) -> Finish {
        if self.scope.is_some() && self.force_exit {
            self.failed = true;
        } else if self.scope.is_some() {
            match self.ask_at_end("Resource incomplete; really quit") {
                Some(true) => {}
                Some(false) => return Finish::Again,
                None => {
                    self.fail("Resource incomplete.");
                    return Finish::Failed;
                }
            }
        }
        if self.atomic && self.failed {
            if self.changed {
                self.fail("Configuration not saved: --atomic saves all changes or none.");
            }
            return Finish::Failed;
        }
        if self.changed && self.config.is_some() && self.commit(How::default()).is_err() {
            match self.ask_at_end("Configuration not saved; really quit") {
                Some(true) => {}
                Some(false) => return Finish::Again,
                None => self.fail("Configuration not saved."),
            }
            return Finish::Failed;
        }
        if self.failed {
            Finish::Failed
        } else {
            Finish::Ok
        }
    }
    /// Asks a question at the end of a session. Returns `None` unless the session is interactive,
    /// because other sessions have no input for an answer.
    fn ask_at_end(&mut self, question: &str) -> Option<bool> {
        if self.mode == Mode::Interactive && !self.force_exit {
            self.console.ask(question)
        } else {
            None
        }
    }
}
