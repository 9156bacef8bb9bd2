//! The native brand: the host's own distribution.

pub mod sparse;

use model::Config;

use crate::install::{Error, InstallRequest, Installed};
use crate::platform::{DEVICES, MOUNTS, PRIVILEGES, Platform};
use crate::{Brand, HostFacts};

/// The native brand.
#[derive(Debug)]
pub struct Native;

const PLATFORM: Platform = Platform {
    name: "native",
    sparse: true,
    privileges: PRIVILEGES,
    devices: DEVICES,
    mounts: MOUNTS,
};

impl Brand for Native {
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
