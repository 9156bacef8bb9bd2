//! The hooks of a brand, and the facts that the hooks get.

use std::fmt;
use std::path::{Path, PathBuf};

use model::Config;

use crate::boot::{self, BootError, BootRequest, BootSpec};
use crate::install::{Error, InstallRequest, Installed, Origin};
use crate::platform::Platform;

/// The facts of the host that `verify` uses.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// The root of the host: `/` except in tests.
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
    /// The configuration of the zone.
    pub config: &'a Config,
    /// The zonepath on the host.
    pub zonepath: &'a Path,
    /// The writable top of the zone's root.
    pub top: &'a Path,
    /// The layers below the top, the uppermost first; empty for a root without layers.
    pub layers: &'a [PathBuf],
}

/// The hooks of one brand. A hook with a default body does nothing for brands that do not need it.
pub trait Brand: fmt::Debug + Sync {
    /// Returns the constant facts of the brand.
    fn platform(&self) -> &'static Platform;

    /// Returns the reasons why `config` cannot run on this host, one line each; empty if it can
    /// run.
    fn verify(&self, config: &Config, host: &HostFacts) -> Vec<String>;

    /// Chooses the source of a new zone's root from the options of the command line and from the
    /// host. Makes no change.
    ///
    /// # Errors
    /// Fails with [`Error::Usage`] or [`Error::Refused`].
    fn origin(
        &self,
        config: &Config,
        options: &[String],
        host: &HostFacts,
    ) -> Result<Origin, Error> {
        let _ = (config, options, host);
        Ok(Origin::Empty)
    }

    /// Fills the empty root of a new zone whose origin is [`Origin::Empty`].
    ///
    /// Files are not synced; the caller syncs them once. After an error the root is unfinished, and
    /// the zone is incomplete.
    ///
    /// # Errors
    /// Fails with [`Error::Usage`] for options that the brand does not support (exit status 2), and
    /// with other errors for failures (exit status 1).
    fn install(&self, request: &mut InstallRequest<'_>) -> Result<Installed, Error>;

    /// Prepares a newly installed or cloned root for its first boot. The root already has its name
    /// and machine id. If there are layers, the changes go into the top.
    ///
    /// # Errors
    /// Fails with the step that failed. The install or clone is then undone.
    fn prepare(&self, zone: &Place<'_>) -> Result<(), Error> {
        let _ = zone;
        Ok(())
    }

    /// Chooses the init, and the signals that shut it down.
    ///
    /// # Errors
    /// Fails if the chosen init is not in the root.
    fn boot(&self, request: &BootRequest<'_>) -> Result<BootSpec, BootError> {
        boot::spec(self.platform(), request)
    }
}
