//! The hooks of a brand, and the facts that they get.

use std::fmt;
use std::path::{Path, PathBuf};

use model::Config;

use crate::boot::{self, BootError, BootRequest, BootSpec};
use crate::install::{Error, InstallRequest, Installed, Origin};
use crate::platform::Platform;

/// The facts of the host that `verify` uses.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// The host's root, `/` except in tests.
    pub root: PathBuf,
}

impl Default for HostFacts {
    fn default() -> Self {
        Self { root: "/".into() }
    }
}

/// A zone that has a root, for the hooks that work on it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The zone's configuration.
    pub config: &'a Config,
    /// Its folder on the host.
    pub zonepath: &'a Path,
    /// The writable top of its root.
    pub top: &'a Path,
    /// The layers below, the uppermost first; none for a root that is complete.
    pub layers: &'a [PathBuf],
}

/// The hooks of one brand. Those with a body are for brands that have something to do
/// at that moment.
pub trait Brand: fmt::Debug + Sync {
    /// The constant part.
    fn platform(&self) -> &'static Platform;

    /// Lists the reasons why `config` cannot run here, one line each; empty if it can.
    fn verify(&self, config: &Config, host: &HostFacts) -> Vec<String>;

    /// Chooses the source of the root of a new zone, by the options of the command line
    /// and the host. Nothing is done yet.
    ///
    /// # Errors
    /// [`Error::Usage`] and [`Error::Refused`].
    fn origin(
        &self,
        config: &Config,
        options: &[String],
        host: &HostFacts,
    ) -> Result<Origin, Error> {
        let _ = (config, options, host);
        Ok(Origin::Empty)
    }

    /// Populates the empty root of a new zone: one of [`Origin::Empty`].
    ///
    /// Nothing is synced; the caller does that once. After an error the root
    /// holds an unfinished tree: the zone is incomplete.
    ///
    /// # Errors
    /// [`Error::Usage`] for options that the brand does not take (exit status 2), the
    /// others for failures (exit status 1).
    fn install(&self, request: &mut InstallRequest<'_>) -> Result<Installed, Error>;

    /// Makes a root that was just installed or cloned ready for its first boot. It has
    /// its name and machine id already. With layers, the changes go into the top.
    ///
    /// # Errors
    /// Fails with the step that could not be done; the install or clone is then undone.
    fn prepare(&self, zone: &Place<'_>) -> Result<(), Error> {
        let _ = zone;
        Ok(())
    }

    /// Chooses the init, and the way in which it is asked to end.
    ///
    /// # Errors
    /// Fails when the chosen init is not in the root.
    fn boot(&self, request: &BootRequest<'_>) -> Result<BootSpec, BootError> {
        boot::spec(self.platform(), request)
    }
}
