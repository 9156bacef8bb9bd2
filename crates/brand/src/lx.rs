//! The lx brand: any Linux distribution with a root and an init of its own.

use model::Config;

use crate::install::{Error, InstallRequest, Installed};
use crate::platform::{DEVICES, MOUNTS, Platform};
use crate::{Brand, HostFacts, image};

/// The lx brand.
#[derive(Debug)]
pub struct Lx;

const PLATFORM: Platform = Platform {
    name: "lx",
    sparse: false,
    devices: DEVICES,
    mounts: MOUNTS,
};

impl Brand for Lx {
    fn platform(&self) -> &'static Platform {
        &PLATFORM
    }

    fn verify(&self, config: &Config, _host: &HostFacts) -> Vec<String> {
        let mut problems = crate::boot::verify(config);
        if !config.inherited_dirs().is_empty() {
            problems.push("could not verify inherit-pkg-dir: not for brand 'lx'".to_owned());
        }
        problems
    }

    fn install(&self, request: &mut InstallRequest<'_>) -> Result<Installed, Error> {
        match image::Options::parse(request.options)?.source {
            Some(source) => image::install(request, &source),
            None => Err(Error::Usage(
                "brand 'lx' is installed from an archive (-a) or a directory (-d)".to_owned(),
            )),
        }
    }
}
