//! Brands: what kind of system a zone is, and how it is verified, installed and started.
//!
//! A brand is a [`Platform`] (plain data: privileges, devices, mounts) and the
//! hooks of [`Brand`]. The verbs in `crates/zone` call the hooks and know no
//! brand by name. Two brands exist: `native`, the host's own distribution, with
//! a sparse or whole root; and `lx`, any other Linux distribution with an init
//! of its own.
//!
//! What makes a zone itself (its host name, machine id, ...) is the same for
//! every brand and stands in [`identity`].

pub mod boot;
pub mod identity;
mod image;
mod install;
mod lx;
mod native;
mod platform;
mod tree;

use std::fmt;

use model::Config;

pub use boot::{BootError, BootRequest, BootSpec, InitProgram, ShutdownSignals};
pub use identity::Identity;
pub use image::{Source as ImageSource, unpack as unpack_image};
pub use install::{Error, InstallRequest, Installed};
pub use native::sparse;
pub use platform::{Device, Mount, Platform};

/// What `verify` may know of the host.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// The host's root, `/` except in tests.
    pub root: std::path::PathBuf,
}

impl Default for HostFacts {
    fn default() -> Self {
        Self { root: "/".into() }
    }
}

/// The hooks of one brand.
pub trait Brand: fmt::Debug + Sync {
    /// The constant part.
    fn platform(&self) -> &'static Platform;

    /// Lists what keeps `config` from running here, one line each; empty when nothing does.
    fn verify(&self, config: &Config, host: &HostFacts) -> Vec<String>;

    /// Populates the empty root of a new zone.
    ///
    /// Nothing is synced; the caller does that once. After an error the root
    /// holds an unfinished tree: the zone is incomplete.
    ///
    /// # Errors
    /// [`Error::Usage`] for options the brand does not take (exit status 2),
    /// the others for what went wrong (exit status 1).
    fn install(&self, request: &mut InstallRequest<'_>) -> Result<Installed, Error>;

    /// Decides what runs as init and how it is told to end.
    ///
    /// # Errors
    /// Fails when the chosen init is not in the root.
    fn boot(&self, request: &BootRequest<'_>) -> Result<BootSpec, BootError> {
        boot::spec(self.platform(), request)
    }
}

/// Finds the brand that a configured brand name acts as.
///
/// Names of other releases (`solaris`, `ipkg`, `lipkg`, `sparse`) act as native.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Brand> {
    use model::brands::Family;
    model::brands::find(name).and_then(|brand| match brand.family {
        Family::Native => Some(&native::Native as &'static dyn Brand),
        Family::Lx => Some(&lx::Lx),
        // Kernel zones can be configured, not installed yet.
        Family::Kz | Family::Global => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configurable_brand_has_hooks() {
        for brand in model::brands::BRANDS {
            let kz = brand.family == model::brands::Family::Kz;
            assert_eq!(by_name(brand.name).is_none(), kz, "{}", brand.name);
        }
        assert_eq!(by_name("ipkg").unwrap().platform().name, "native");
        assert_eq!(by_name("lx").unwrap().platform().name, "lx");
        assert!(by_name("SUNWdefault").is_none());
    }
}
