//! Brands: the kinds of systems in zones, and how each kind is verified, installed and started.
//!
//! A brand is a [`Platform`] (plain data: init, privileges, devices, mounts) and the hooks of
//! [`Brand`]. docs/brands.md explains how to add a brand. The verbs in `crates/zone` call the
//! hooks, and never test for a brand's name. There are three brands: `native`, the host's own
//! distribution, with a sparse or whole root; `lx`, any other Linux distribution with its own init;
//! and `kz`, a guest with its own kernel.
//!
//! The identity of a zone (its host name, machine id, ...) is the same for every brand: see
//! [`identity`].

pub mod boot;
pub mod bootstrap;
pub mod first_boot;
mod foreign;
mod hooks;
pub mod identity;
mod image;
mod install;
pub mod kz;
mod lx;
mod native;
mod platform;
mod tree;

pub use boot::{BootError, BootRequest, BootSpec, InitProgram, ShutdownSignals};
pub use hooks::{Brand, HostFacts, Place};
pub use identity::Identity;
pub use image::pack::{Pack, Packed};
pub use image::{
    Content, Limits as ImageLimits, Screened, Source as ImageSource, ZfsStream, container,
    first_member, init, is_supported_squashfs, remove_from, screen, unpack as unpack_image,
    unpack_layer, unpack_part, unpack_stream, unpack_within,
};
pub use install::{Error, InstallRequest, Installed, Origin};
pub use native::follow::{Followed, follow};
pub use native::sparse;
pub use platform::{Device, Mount, Platform};

/// Returns the brand for a configured brand name.
///
/// Brand names of Solaris releases (`solaris`, `ipkg`, `lipkg`, `sparse`) mean native.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Brand> {
    use model::brands::Family;
    model::brands::find(name).and_then(|brand| match brand.family {
        Family::Native => Some(&native::Native as &'static dyn Brand),
        Family::Lx => Some(&lx::Lx),
        Family::Kz => Some(&kz::Kz),
        Family::Global => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configurable_brand_has_hooks() {
        for brand in model::brands::BRANDS {
            assert!(by_name(brand.name).is_some(), "{}", brand.name);
        }
        assert_eq!(by_name("ipkg").unwrap().platform().name, "native");
        assert_eq!(by_name("lx").unwrap().platform().name, "lx");
        assert!(by_name("SUNWdefault").is_none());
    }
}
