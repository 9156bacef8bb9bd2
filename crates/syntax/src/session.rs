//! A zonecfg session, which applies commands to a configuration, one after the other, in the global
//! scope or in the scope of a resource.
//!
//! The session works on a copy of the configuration. Changes are stored only by `commit`, or by
//! [`Session::finish`], which commits the accepted changes. `delete` alone takes effect at once.

mod backing;
mod edit;
mod labels;
mod save;
mod show;

pub use backing::{Backing, Change};

use model::config::Resource;
use model::table::{self, PropertySpec, ResourceSpec};
use model::{Config, State, ZoneName};

use crate::SyntaxError;
use crate::command::{Command, Filters, Scope, Verb};
use crate::complete::Context;

/// The output of a session, and its questions to the user.
pub trait Console {
    /// Prints a text without any change.
    fn print(&mut self, text: &str);

    /// Prints a text that may be longer than the screen.
    fn page(&mut self, text: &str) {
        self.print(text);
    }

    /// Prints a message that is not an error.
    fn notice(&mut self, text: &str);

    /// Prints one error message.
    fn error(&mut self, text: &str);

    /// Prints the message about a syntax error.
    fn syntax_error(&mut self, error: &SyntaxError);

    /// Asks a question whose default answer is no. Returns `None` if no user can answer.
    fn ask(&mut self, question: &str) -> Option<bool>;
}

/// The source of the commands, which decides if an error ends the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A terminal, or a pipe that replaces the terminal: no error ends the session.
    Interactive,
    /// A file, or a pipe as `-f -`: the first error ends the session.
    File,
    /// The command line: all commands run, and the session asks no questions at its end.
    Words,
}

/// The decision after a command: the session continues or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The session continues: read the next command.
    Go,
    /// The session ends: call [`Session::finish`].
    Exit,
    /// The session ends at once with status 1, and commits nothing.
    Abort,
}

/// The result at the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// All commands succeeded: exit status 0.
    Ok,
    /// A command failed: exit status 1.
    Failed,
    /// The user wants to continue the session.
    Again,
}

/// A zonecfg session on one zone.
#[derive(Debug)]
pub struct Session<B, C> {
    backing: B,
    console: C,
    mode: Mode,
    read_only: bool,
    alternate_root: bool,
    /// The name of the zone that the prompt shows.
    zone: ZoneName,
    /// The name under which the zone is stored. `revert` reads the configuration of this name.
    stored_as: ZoneName,
    config: Option<Config>,
    /// The stored configuration at the time when the session read it.
    base: Option<Config>,
    scope: Option<Open>,
    changed: bool,
    zonepath_forced: bool,
    failed: bool,
    force_exit: bool,
    /// True if the session stores all changes at its end, or none.
    atomic: bool,
}

/// The resource that the user specifies now.
#[derive(Debug)]
struct Open {
    resource: Resource,
    /// The complex value that the user specifies now, in a nested scope.
    nested: Option<Nested>,
    /// The resource before the changes, if it was selected and not added.
    original: Option<Resource>,
}

/// The complex value that the user specifies now (`add mac` in anet).
#[derive(Debug)]
struct Nested {
    spec: &'static PropertySpec,
    fields: Vec<(String, String)>,
}

/// The command failed, and its error message was printed.
struct Refused;

type Done<T = ()> = Result<T, Refused>;

impl<B: Backing, C: Console> Session<B, C> {
    /// Returns a session on one zone. The zone of a session need not exist.
    pub fn new(zone: ZoneName, mode: Mode, backing: B, console: C) -> Self {
        Self {
            backing,
            console,
            mode,
            read_only: false,
            alternate_root: false,
            stored_as: zone.clone(),
            zone,
            config: None,
            base: None,
            scope: None,
            changed: false,
            zonepath_forced: false,
            failed: false,
            force_exit: false,
            atomic: false,
        }
    }

    /// If `atomic` is true, the first error ends the session and nothing is stored. `commit` then
    /// only checks the configuration, and `delete` is refused.
    #[must_use]
    pub const fn atomic(mut self, atomic: bool) -> Self {
        self.atomic = atomic;
        self
    }

    /// If `read_only` is true, the session refuses every command that changes the configuration.
    #[must_use]
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// If `alternate_root` is true, the session allows `set -F zonepath`, which is allowed only in
    /// an alternate root.
    #[must_use]
    pub const fn alternate_root(mut self, alternate_root: bool) -> Self {
        self.alternate_root = alternate_root;
        self
    }

    /// Prints a message at the start of an interactive session if the zone does not exist.
    pub fn greet(&mut self) {
        // A missing zone does not count as a failure here, because the user is about to create it.
        if !self.read_only && self.config().is_err() {
            self.failed = false;
        }
    }

    /// Returns the prompt.
    #[must_use]
    pub fn prompt(&self) -> String {
        match &self.scope {
            Some(Open {
                resource,
                nested: Some(nested),
                ..
            }) => format!(
                "zonecfg:{}:{}:{}> ",
                self.zone,
                resource.spec().name,
                nested.spec.name
            ),
            Some(open) => format!("zonecfg:{}:{}> ", self.zone, open.resource.spec().name),
            None => format!("zonecfg:{}> ", self.zone),
        }
    }

    /// Returns the state of the session that completion uses.
    #[must_use]
    pub fn context<'a>(&'a self, templates: &'a [String]) -> Context<'a> {
        Context {
            config: self.config.as_ref(),
            resource: self.scope.as_ref().map(|open| &open.resource),
            templates,
        }
    }

    /// Returns the console of the session.
    pub const fn console(&mut self) -> &mut C {
        &mut self.console
    }

    /// Returns the store of the session.
    pub const fn backing(&mut self) -> &mut B {
        &mut self.backing
    }

    /// Runs the commands of one line.
    pub fn line(&mut self, line: &str) -> Flow {
        for command in crate::parse_line(line) {
            let flow = match command {
                Ok(command) => self.execute(command),
                Err(error) => {
                    self.failed = true;
                    self.console.syntax_error(&error);
                    Flow::Go
                }
            };
            if flow != Flow::Go {
                return flow;
            }
            if self.failed && (self.atomic || self.mode == Mode::File) {
                return Flow::Exit;
            }
        }
        Flow::Go
    }

    /// Runs one command.
    pub fn execute(&mut self, command: Command) -> Flow {
        let verb = command.verb();
        if verb.spec().changes && self.read_only {
            let mut text = format!("{}: cannot {verb} in read-only mode.", self.zone);
            if self.zone.is_template() {
                text.push_str(&format!(
                    " A zone like it is made with create -t {}.",
                    self.zone
                ));
            }
            self.fail(&text);
            return Flow::Go;
        }
        if self.check_scope(verb).is_err() {
            return Flow::Go;
        }
        let done = match command {
            Command::Exit { force } => return self.exit(force),
            Command::Create { force, template } => return self.create(force, &template),
            Command::Delete { .. } if self.atomic => {
                self.refuse("delete takes effect at once, so --atomic refuses it.")
            }
            Command::Delete { force } => return self.delete(force),
            Command::Revert { force } => return self.revert(force),
            Command::Add { what, value } => self.add(&what, value),
            Command::Cancel => {
                self.cancel();
                Ok(())
            }
            Command::Clear { property } => self.clear(&property),
            // The end of the session stores the changes.
            Command::Commit(_) if self.atomic => self.check_whole(),
            Command::Commit(how) => self.commit(how),
            Command::End => self.end(),
            Command::Export { json, file } => self.export(json, file.as_deref()),
            Command::Help { subject } => self.help(subject.as_deref()),
            Command::Info {
                json,
                what,
                filters,
            } => self.info(json, what.as_deref(), &filters),
            Command::Remove {
                force,
                what,
                argument,
            } => self.remove(force, &what, argument),
            Command::Select { what, filters } => self.select(&what, &filters),
            Command::Set {
                force,
                property,
                value,
            } => self.set(force, &property, value),
            Command::Verify => self.verify(),
        };
        // An error message was already printed and recorded, and the session continues.
        let _ = done;
        Flow::Go
    }

    fn check_scope(&mut self, verb: Verb) -> Done {
        let other = match (verb.spec().scope, &self.scope) {
            (Scope::Global, Some(_)) if verb == Verb::Revert => {
                return self.refuse(
                    "You can only use revert in the global scope.\n\
                     Use 'cancel' to cancel changes to a resource specification.",
                );
            }
            (Scope::Global, Some(_)) => "global",
            (Scope::Resource, None) => "resource",
            _ => return Ok(()),
        };
        self.refuse(&format!(
            "The {verb} command only makes sense in the {other} scope."
        ))
    }

    fn exit(&mut self, force: bool) -> Flow {
        self.force_exit |= force;
        if self.scope.is_none() || force {
            return Flow::Exit;
        }
        match self.console.ask("Resource incomplete; really quit") {
            Some(true) => {
                self.force_exit = true;
                Flow::Exit
            }
            Some(false) => Flow::Go,
            None => {
                self.fail(
                    "Resource incomplete, input not from terminal and -F not specified:\n\
                     exit command ignored, but exiting anyway.",
                );
                Flow::Abort
            }
        }
    }

    /// Returns the configuration. The first call of `config` reads the configuration from the
    /// store.
    fn config(&mut self) -> Done<&mut Config> {
        if self.config.is_none() {
            match self.backing.load(&self.stored_as) {
                Ok(Some(config)) => {
                    self.base = Some(config.clone());
                    self.config = Some(config);
                }
                Ok(None) => {
                    let text = format!("{}: No such zone configured", self.zone);
                    self.fail(&text);
                    if self.mode == Mode::Interactive && !self.read_only {
                        self.console
                            .print("Use 'create' to begin configuring a new zone.\n");
                    }
                }
                Err(error) => self.fail(&chain(&error)),
            }
        }
        self.config.as_mut().ok_or(Refused)
    }

    /// Returns the state of the stored zone, or `None` if the zone is not stored.
    fn state(&mut self) -> Done<Option<State>> {
        match self.backing.state(&self.stored_as) {
            Ok(state) => Ok(state),
            Err(error) => self.refuse(&chain(&error)),
        }
    }

    /// Refuses the command `what` if the zone is incomplete or installed.
    fn check_not_installed(&mut self, what: &str) -> Done {
        match self.state()? {
            None | Some(State::Configured) => Ok(()),
            Some(State::Incomplete) => self.refuse(&format!(
                "Zone {} is incomplete; {what} not allowed.",
                self.zone
            )),
            Some(_) => self.refuse(&format!(
                "Zone {} already installed; {what} not allowed.",
                self.zone
            )),
        }
    }

    fn resource_spec(&mut self, name: &str) -> Done<&'static ResourceSpec> {
        match table::resource(name) {
            Some(spec) => Ok(spec),
            None => self.refuse(&format!("{name}: No such resource type")),
        }
    }

    /// Prints an error message and records the failure.
    fn fail(&mut self, text: &str) {
        self.failed = true;
        self.console.error(text);
    }

    fn refuse<T>(&mut self, text: &str) -> Done<T> {
        self.fail(text);
        Err(Refused)
    }
}

/// Returns a message if filters name a property that the resource does not have.
fn unknown_filter(spec: &ResourceSpec, filters: &Filters) -> Option<String> {
    let mut names = filters.iter().map(|(name, _)| name);
    names
        .find(|name| spec.property(name).is_none())
        .map(|name| format!("{name}: No such property type"))
}

/// Returns an error and its causes in one text.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
