//! The native brand: the host's own distribution.
//!
//! A **sparse** zone shares the host's programs, and has its own /etc and /var. A file is copied to
//! them only by one of two rules: it is a package's configuration file with its packaged checksum
//! ([`conffiles`]), or it is on the reviewed list of generated files ([`generated`]).
//!
//! On a host without dpkg, the first rule and the package database do not apply. The zone gets a
//! minimal skeleton: the directories of hier(7), the accounts, and those files of the list for
//! which the host has a source or whose content is constant (profile to locale and time zone, the
//! loader's cache, trusted certificates). Programs that need other files of /etc do not find them.
//!
//! A **whole-root** zone is unpacked from an archive or a directory, like lx. Without a source, the
//! host's own installer makes its root ([`crate::bootstrap`]).

mod accounts;
mod certificates;
mod conffiles;
mod database;
mod fill;
pub mod follow;
mod generated;
mod links;
mod loader;
mod pam;
mod skeleton;
pub mod sparse;

use std::path::{Path, PathBuf};

use model::Config;
use packages::Database;
use packages::dpkg::Dpkg;

use crate::install::{Error, InstallRequest, Installed, Origin};
use crate::platform::Platform;
use crate::tree::Tree;
use crate::{Brand, HostFacts, bootstrap, image};

/// The native brand.
#[derive(Debug)]
pub struct Native;

const PLATFORM: Platform = Platform {
    name: "native",
    sparse: true,
    ..Platform::LINUX
};

impl Brand for Native {
    fn platform(&self) -> &'static Platform {
        &PLATFORM
    }

    fn verify(&self, config: &Config, host: &HostFacts) -> Vec<String> {
        let mut problems = crate::boot::verify(config);
        match sparse::of(config, &host.root) {
            Ok(Some(layout)) => problems.extend(sparse::verify(&layout, &host.root)),
            Ok(None) => {}
            Err(error) => problems.push(format!("could not verify inherit-pkg-dir: {error}")),
        }
        problems
    }

    fn origin(
        &self,
        config: &Config,
        options: &[String],
        host: &HostFacts,
    ) -> Result<Origin, Error> {
        let given = image::Options::parse(options)?.source.is_some();
        match given || sparse::is_sparse(config) {
            true => Ok(Origin::Empty),
            false => Ok(Origin::Bootstrap(bootstrap::recipe(&host.root)?)),
        }
    }

    fn install(&self, request: &mut InstallRequest<'_>) -> Result<Installed, Error> {
        let source = image::Options::parse(request.options)?.source;
        let layout = sparse::of(request.config, request.host_root)
            .map_err(|error| Error::io("look at", request.host_root, error))?;
        match (layout, source) {
            (Some(layout), None) => install_sparse(request, layout),
            (Some(_), Some(_)) => Err(Error::Usage(
                "-a and -d are for whole-root zones; this one has inherit-pkg-dir resources"
                    .to_owned(),
            )),
            (None, Some(source)) => image::install(request, &source),
            (None, None) => Err(Error::Usage(
                "a whole-root zone is installed from an archive (-a) or a directory (-d)"
                    .to_owned(),
            )),
        }
    }
}

fn install_sparse(
    request: &mut InstallRequest<'_>,
    layout: sparse::Layout,
) -> Result<Installed, Error> {
    let problems = sparse::verify(&layout, request.host_root);
    if !problems.is_empty() {
        return Err(Error::Refused(problems.join("; ")));
    }
    let host = Tree::open(request.host_root)?;
    let root = Tree::open(request.root)?;
    crate::install::check_empty(&root)?;
    let accounts = accounts::Accounts::of(&host)?;
    let mut fill = fill::Fill {
        host,
        root,
        layout,
        accounts,
        done: Installed::default(),
        last_parent: PathBuf::new(),
        progress: &mut *request.progress,
    };
    if fill.host.stat(Path::new(packages::dpkg::DIR))?.is_some() {
        database::wait_until_idle(&mut fill)?;
    }
    let dpkg = Dpkg::open(request.host_root)?;
    skeleton::make(&mut fill, dpkg.is_some())?;
    for (name, meta, text) in fill.accounts.files() {
        fill.file(&Path::new("etc").join(name), meta, text.as_bytes())?;
    }
    let mut shipped_links = Vec::new();
    match &dpkg {
        Some(dpkg) => {
            let packages = dpkg.packages();
            (fill.progress)(&format!(
                "Copying the records of {} packages.",
                packages.len()
            ));
            let listed = database::copy(&mut fill, packages)?;
            shipped_links = database::make_listed_dirs(&mut fill, &listed)?;
            (fill.progress)("Copying unchanged configuration files.");
            conffiles::copy(&mut fill, packages)?;
        }
        None => (fill.progress)("The host has no dpkg: making a minimal skeleton."),
    }
    (fill.progress)("Making generated files.");
    generated::make(&mut fill)?;
    if dpkg.is_some() {
        database::copy_alternatives(&mut fill)?;
    }
    links::make_packaged(&mut fill, &shipped_links)?;
    Ok(fill.done)
}
