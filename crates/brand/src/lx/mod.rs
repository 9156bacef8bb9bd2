//! The lx brand: any Linux distribution with a root and an init of its own.

use model::Config;

use crate::install::{Error, InstallRequest, Installed};
use crate::platform::{DEVICES, MOUNTS, PRIVILEGES, Platform};
use crate::{Brand, HostFacts};

/// The lx brand.
#[derive(Debug)]
pub struct Lx;

const PLATFORM: Platform = Platform {
    name: "lx",
    sparse: false,
    privileges: PRIVILEGES,
    devices: DEVICES,
    mounts: MOUNTS,
};

impl Brand for Lx {
    fn platform(&self) -> &'static Platform {
        &PLATFORM
    }

    fn verify(&self, config: &Config, host: &HostFacts) -> Vec<String> {
        let _ = (config, host);
        Vec::new()
    }

    fn install(&self, request: &mut InstallRequest<'_>) -> Result<Installed, Error> {
        let _ = request;
        Err(Error::Refused("install: being written".to_owned()))
    }
}
