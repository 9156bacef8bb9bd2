//! The store as a session sees it.

use model::{Config, State, ZoneName};

use crate::command::How;

/// A store of configurations.
pub trait Backing {
    /// The errors of the store.
    type Error: std::error::Error;

    /// The stored configuration of a zone; `None` when there is no such zone.
    ///
    /// # Errors
    /// When it cannot be told.
    fn load(&mut self, zone: &ZoneName) -> Result<Option<Config>, Self::Error>;

    /// The state of a zone; `None` when there is no such zone.
    ///
    /// # Errors
    /// When it cannot be told.
    fn state(&mut self, zone: &ZoneName) -> Result<Option<State>, Self::Error>;

    /// A new configuration of `zone` from a template or another zone; the
    /// system's default template when `template` is `None`.
    ///
    /// # Errors
    /// When there is no such template.
    fn template(&mut self, template: Option<&str>, zone: &ZoneName) -> Result<Config, Self::Error>;

    /// The configuration that a detached zone has left in `zonepath`, for `zone`.
    ///
    /// # Errors
    /// When there is none.
    fn detached(&mut self, zonepath: &str, zone: &ZoneName) -> Result<Config, Self::Error>;

    /// The configuration file that is there for a zone that does not exist.
    ///
    /// # Errors
    /// When there is none.
    fn existing(&mut self, zone: &ZoneName) -> Result<Config, Self::Error>;

    /// Returns the problems that a configuration has on this host and that cannot be seen from the
    /// configuration alone, such as users that do not exist.
    fn problems(&mut self, config: &Config) -> Vec<String>;

    /// The directories of software that zones of this host inherit.
    fn host_dirs(&self) -> &[&str];

    /// Stores a configuration.
    ///
    /// # Errors
    /// When it cannot be stored, or when the stored configuration is no longer [`Change::base`].
    fn commit(&mut self, change: &Change) -> Result<(), Self::Error>;

    /// [`Self::commit`] as `commit -n -q` asks for it. A change of the stored configuration has no
    /// remarks; a change of a running zone has.
    ///
    /// # Errors
    /// Those of [`Self::commit`].
    fn commit_how(&mut self, change: &Change, how: How) -> Result<(), Self::Error> {
        if how.dry_run {
            return Ok(());
        }
        self.commit(change)
    }

    /// Deletes a zone's configuration; with `force` also the remains of a zone in any state that is
    /// not active.
    ///
    /// # Errors
    /// When it cannot be deleted.
    fn delete(&mut self, zone: &ZoneName, force: bool) -> Result<(), Self::Error>;

    /// Writes an export to a file.
    ///
    /// # Errors
    /// Those of the file system.
    fn write_export(&mut self, file: &str, text: &str) -> std::io::Result<()>;
}

/// The argument of [`Backing::commit`].
#[derive(Debug)]
pub struct Change<'a> {
    /// The name under which the zone is stored so far, or would be.
    pub zone: &'a ZoneName,
    /// The stored configuration when the session read it.
    pub base: Option<&'a Config>,
    /// The configuration to store, perhaps under a new name.
    pub config: &'a Config,
    /// True when the zonepath of an installed zone was changed by force.
    pub zonepath_forced: bool,
}
