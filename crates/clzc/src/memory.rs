//! The store of a session whose configuration is in memory.

use model::{Config, State, ZoneName};
use syntax::{Backing, Change, Console, Mode, Session, SyntaxError};

/// The source of templates for `create`.
pub trait Templates {
    /// Returns a configuration of a zone from a template, or `None` if the template does not exist. If `name` is `None`,
    /// uses the default template of the system.
    fn template(&self, name: Option<&str>, zone: &ZoneName) -> Option<Config>;

    /// Returns the software directories that sparse zones of this host inherit.
    fn host_dirs(&self) -> &[&str] {
        &[]
    }
}

/// Only the blank template, with which each export begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTemplates;

/// Name of the template of `create -b`.
const BLANK: &str = "SUNWblank";

impl Templates for NoTemplates {
    fn template(&self, name: Option<&str>, zone: &ZoneName) -> Option<Config> {
        (name == Some(BLANK)).then(|| Config::new(zone.clone()))
    }
}

/// A configuration in memory, and the templates.
#[derive(Debug)]
pub(crate) struct Memory<T> {
    pub stored: Option<Config>,
    pub templates: T,
}

/// The reason why the store in memory refuses a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("{0}: No such template")]
    NoTemplate(String),
    #[error(
        "create -a and -X read files of one host, and a zone cluster has several: use create, -b or -t"
    )]
    OneHost,
    #[error("a part of a zone cluster is stored only with the whole")]
    Part,
}

impl<T: Templates> Backing for Memory<T> {
    type Error = Refused;

    fn load(&mut self, _: &ZoneName) -> Result<Option<Config>, Refused> {
        Ok(self.stored.clone())
    }

    fn state(&mut self, _: &ZoneName) -> Result<Option<State>, Refused> {
        // The state of each node's zone is checked by the zonecfg of its host.
        Ok(self.stored.as_ref().map(|_| State::Configured))
    }

    fn template(&mut self, template: Option<&str>, zone: &ZoneName) -> Result<Config, Refused> {
        let missing = || Refused::NoTemplate(template.unwrap_or("default").to_owned());
        self.templates.template(template, zone).ok_or_else(missing)
    }

    fn detached(&mut self, _: &str, _: &ZoneName) -> Result<Config, Refused> {
        Err(Refused::OneHost)
    }

    fn existing(&mut self, _: &ZoneName) -> Result<Config, Refused> {
        Err(Refused::OneHost)
    }

    fn problems(&mut self, _: &Config) -> Vec<String> {
        Vec::new()
    }

    fn host_dirs(&self) -> &[&str] {
        self.templates.host_dirs()
    }

    fn commit(&mut self, _: &Change) -> Result<(), Refused> {
        Err(Refused::Part)
    }

    fn has_files(&mut self, _: &ZoneName) -> Result<bool, Refused> {
        Ok(false)
    }

    fn delete(&mut self, _: &ZoneName, _: bool) -> Result<(), Refused> {
        Err(Refused::Part)
    }

    fn write_export(&mut self, _: &str, _: &str) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// A console that keeps the first error.
#[derive(Debug, Default)]
pub(crate) struct Errors(pub Option<String>);

impl Console for Errors {
    fn print(&mut self, _: &str) {}

    fn notice(&mut self, _: &str) {}

    fn error(&mut self, text: &str) {
        self.0.get_or_insert_with(|| text.to_owned());
    }

    fn syntax_error(&mut self, error: &SyntaxError) {
        self.error(&format!("syntax error at {}", error.at()));
    }

    fn ask(&mut self, _: &str) -> Option<bool> {
        None
    }
}

/// Returns the configuration that an export of zonecfg makes.
///
/// # Errors
/// Fails with the first error of the commands.
pub fn read_script(zone: &ZoneName, start: Option<Config>, script: &str) -> Result<Config, String> {
    let memory = Memory {
        stored: start,
        templates: NoTemplates,
    };
    let mut session = Session::new(zone.clone(), Mode::File, memory, Errors::default());
    for line in script.lines() {
        session.line(line);
        if let Some(error) = session.console().0.take() {
            return Err(format!("{line}: {error}"));
        }
    }
    let config = session.context(&[]).config.cloned();
    let config = config.or_else(|| session.backing().stored.clone());
    config.ok_or_else(|| "no configuration".to_owned())
}
