//! The lx brand: any Linux distribution with its own root and init.
//!
//! The attributes `kernel-version`, `kernel-name` and `machine` set the kernel that programs of the
//! zone see: in uname(2), also from statically linked programs, in /proc/version and below
//! /proc/sys/kernel.

use std::path::Path;

use model::Config;
use model::plan::Kernel;

use crate::install::{Error, InstallRequest, Installed};
use crate::platform::Platform;
use crate::{BootError, BootRequest, BootSpec, Brand, HostFacts, foreign, image};

/// The lx brand.
#[derive(Debug)]
pub struct Lx;

const PLATFORM: Platform = Platform {
    name: "lx",
    ..Platform::LINUX
};

impl Brand for Lx {
    fn platform(&self) -> &'static Platform {
        &PLATFORM
    }

    fn verify(&self, config: &Config, _host: &HostFacts) -> Vec<String> {
        let mut problems = crate::boot::verify(config);
        for (name, value) in shown(config) {
            if !Kernel::is_word(value) {
                problems.push(format!(
                    "could not verify attr {name}: {value}: not a word of at most {} letters, digits and ._+-~",
                    Kernel::MAX_WORD_BYTES
                ));
            }
        }
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

    fn boot(&self, request: &BootRequest<'_>) -> Result<BootSpec, BootError> {
        let mut spec = crate::boot::spec(&PLATFORM, request)?;
        spec.kernel = kernel(request.config);
        spec.interpreter = foreign::interpreter(request.root, Path::new("/"));
        match &spec.interpreter {
            // A registration for the whole host is enough, too.
            Some(needed) if is_registered(&needed.machine) => spec.interpreter = None,
            Some(needed) if needed.program.is_none() => {
                return Err(BootError::Foreign(needed.machine.clone()));
            }
            _ => {}
        }
        Ok(spec)
    }
}

/// Returns true if the host has registered an interpreter that works in every zone: the kernel
/// opened it at registration.
fn is_registered(machine: &str) -> bool {
    let path = format!("/proc/sys/fs/binfmt_misc/qemu-{machine}");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags: "));
    text.starts_with("enabled\n") && flags.is_some_and(|flags| flags.contains('F'))
}

const NAME: &str = "kernel-name";
const VERSION: &str = "kernel-version";
const MACHINE: &str = "machine";

/// The attributes that set the visible kernel.
fn shown(config: &Config) -> impl Iterator<Item = (&'static str, &str)> {
    [NAME, VERSION, MACHINE]
        .into_iter()
        .filter_map(|name| Some((name, config.attr(name)?)))
}

fn kernel(config: &Config) -> Option<Kernel> {
    shown(config).next()?;
    let word = |name| config.attr(name).map(str::to_owned);
    Some(Kernel {
        name: word(NAME),
        release: word(VERSION),
        machine: word(MACHINE),
    })
}

#[cfg(test)]
mod tests {
    use model::config::Resource;

    use super::*;

    fn with(attributes: &[(&str, &str)]) -> Config {
        let mut config = Config::new("tiny".parse().unwrap());
        for (name, value) in attributes {
            let mut attr = Resource::new(model::table::resource("attr").unwrap());
            for (property, value) in [("name", *name), ("type", "string"), ("value", *value)] {
                attr.set(property, value).unwrap();
            }
            config.add(attr).unwrap();
        }
        config
    }

    #[test]
    fn attributes_choose_the_kernel() {
        assert_eq!(kernel(&with(&[("init", "/sbin/init")])), None);
        let kernel = kernel(&with(&[(VERSION, "2.6.18"), (MACHINE, "i686")])).unwrap();
        assert_eq!(kernel.release.as_deref(), Some("2.6.18"));
        assert_eq!(
            (kernel.name, kernel.machine.as_deref()),
            (None, Some("i686"))
        );
    }

    #[test]
    fn kernel_versions_that_uname_cannot_hold_are_refused() {
        let long = "1".repeat(65);
        for bad in ["a b", "2/6", &long] {
            let problems = Lx.verify(&with(&[(VERSION, bad)]), &HostFacts::default());
            assert_eq!(problems.len(), 1, "{bad}: {problems:?}");
            assert!(problems[0].contains(VERSION), "{problems:?}");
        }
        let good = with(&[(VERSION, "2.6.18-398.el5_x86+1~rc")]);
        assert_eq!(Lx.verify(&good, &HostFacts::default()), [""; 0]);
    }
}
