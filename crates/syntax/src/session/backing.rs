//! The interface between a session and the store.

use label::Label;
use model::{Config, State, ZoneName};

use crate::command::How;

/// A store of zone configurations.
pub trait Backing {
    /// The errors of the store.
    type Error: std::error::Error;

    /// Returns the stored configuration of a zone, or `None` if the zone does not exist.
    ///
    /// # Errors
    /// Fails if the configuration cannot be read.
    fn load(&mut self, zone: &ZoneName) -> Result<Option<Config>, Self::Error>;

    /// Returns the state of a zone, or `None` if the zone does not exist.
    ///
    /// # Errors
    /// Fails if the state cannot be determined.
    fn state(&mut self, zone: &ZoneName) -> Result<Option<State>, Self::Error>;

    /// Returns a new configuration of `zone` from a template or from another zone. If `template` is
    /// `None`, uses the default template of the system.
    ///
    /// # Errors
    /// Fails if the template does not exist.
    fn template(&mut self, template: Option<&str>, zone: &ZoneName) -> Result<Config, Self::Error>;

    /// Returns the configuration that a detached zone left in `zonepath`, as a configuration of
    /// `zone`.
    ///
    /// # Errors
    /// Fails if `zonepath` has no such configuration.
    fn detached(&mut self, zonepath: &str, zone: &ZoneName) -> Result<Config, Self::Error>;

    /// Returns the configuration in an existing file of a zone that is not in the index.
    ///
    /// # Errors
    /// Fails if the file does not exist.
    fn existing(&mut self, zone: &ZoneName) -> Result<Config, Self::Error>;

    /// Returns the problems of a configuration that depend on this host, such as users that do not
    /// exist.
    fn problems(&mut self, config: &Config) -> Vec<String>;

    /// Returns the stored form of a label that the user typed: hexadecimal. The default
    /// implementation returns the text, for a store without names of labels.
    ///
    /// # Errors
    /// Fails if the label is not valid, or if the host has no names of labels.
    fn label(&mut self, text: &str) -> Result<String, Self::Error> {
        Ok(text.to_owned())
    }

    /// Returns the text of a stored label, or `None` if the host has no name for the label.
    fn label_text(&mut self, _label: Label) -> Option<String> {
        None
    }

    /// Returns the zones without a label, except `zone`, if no zone has a label yet: they do not
    /// boot after `zone` has got a label.
    ///
    /// # Errors
    /// Fails if the configurations of the zones cannot be read.
    fn unlabeled(&mut self, _zone: &ZoneName) -> Result<Vec<ZoneName>, Self::Error> {
        Ok(Vec::new())
    }

    /// Returns the software directories that sparse zones of this host inherit.
    fn host_dirs(&self) -> &[&str];

    /// Stores a changed configuration.
    ///
    /// # Errors
    /// Fails if the configuration cannot be stored, or if the stored configuration is no longer
    /// [`Change::base`].
    fn commit(&mut self, change: &Change) -> Result<(), Self::Error>;

    /// Stores a configuration like [`Self::commit`], with the options of `commit -n -q`. The
    /// default implementation ignores `-q`, because only a change of a running zone has remarks.
    ///
    /// # Errors
    /// Fails like [`Self::commit`].
    fn commit_how(&mut self, change: &Change, how: How) -> Result<(), Self::Error> {
        if how.dry_run {
            return Ok(());
        }
        self.commit(change)
    }

    /// Returns true if the files of a zone exist in its zonepath. At a rename, the zonepath of such
    /// a zone stays.
    ///
    /// # Errors
    /// Fails like [`Self::state`].
    fn has_files(&mut self, zone: &ZoneName) -> Result<bool, Self::Error>;

    /// Deletes a zone's configuration. With `force`, also deletes the remains of a zone in any
    /// state that is not active.
    ///
    /// # Errors
    /// Fails if the configuration cannot be deleted.
    fn delete(&mut self, zone: &ZoneName, force: bool) -> Result<(), Self::Error>;

    /// Writes an export to a file.
    ///
    /// # Errors
    /// Fails with the error of the file system.
    fn write_export(&mut self, file: &str, text: &str) -> std::io::Result<()>;
}

/// The change that [`Backing::commit`] stores.
#[derive(Debug)]
pub struct Change<'a> {
    /// The present name of the zone in the store. For a new zone, which is not stored yet, this is
    /// the name at the start of the session.
    pub zone: &'a ZoneName,
    /// The stored configuration at the time when the session read it.
    pub base: Option<&'a Config>,
    /// The configuration to store, whose zone name may be new.
    pub config: &'a Config,
    /// True if `set -F` changed the zonepath of an installed zone.
    pub zonepath_forced: bool,
}
