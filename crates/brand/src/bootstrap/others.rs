//! The tools of the other package systems. Each takes the host's own repositories.

use std::path::PathBuf;

use model::plan::Recipe;

use super::{Call, System, Tool, read};
use crate::install::Error;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn call(arguments: Vec<String>) -> Call {
    Call {
        arguments,
        files: Vec::new(),
    }
}

/// Fedora, RHEL and their kin.
pub(super) struct Dnf;

impl Tool for Dnf {
    fn name(&self) -> &'static str {
        "dnf"
    }

    fn suits(&self, system: &System) -> bool {
        system.is_any(&["fedora", "rhel", "centos"])
    }

    fn recipe(&self, system: &System) -> Result<Call, Error> {
        let mut arguments = words(&["-y", "--installroot", Recipe::ROOT]);
        arguments.push(format!("--releasever={}", system.version));
        arguments.extend(words(&[
            "--setopt=install_weak_deps=False",
            "--setopt=tsflags=nodocs",
            "install",
            "systemd",
            "dnf",
            "passwd",
            "iproute",
            "rootfiles",
        ]));
        Ok(call(arguments))
    }
}

/// Alpine.
pub(super) struct Apk;

impl Tool for Apk {
    fn name(&self) -> &'static str {
        "apk"
    }

    fn suits(&self, system: &System) -> bool {
        system.is_any(&["alpine", "postmarketos"])
    }

    fn recipe(&self, system: &System) -> Result<Call, Error> {
        let repositories = "etc/apk/repositories";
        let list = read(&system.root.join(repositories)).ok_or_else(|| {
            Error::Refused(format!("/{repositories}: no repositories are configured"))
        })?;
        let arguments = words(&[
            "--root",
            Recipe::ROOT,
            "--initdb",
            "--no-cache",
            "--keys-dir",
            "/etc/apk/keys",
            "--repositories-file",
            "/etc/apk/repositories",
            "add",
            "alpine-base",
        ]);
        Ok(Call {
            arguments,
            files: vec![(PathBuf::from(repositories), list)],
        })
    }
}

/// Arch.
pub(super) struct Pacstrap;

impl Tool for Pacstrap {
    fn name(&self) -> &'static str {
        "pacstrap"
    }

    fn suits(&self, system: &System) -> bool {
        system.is_any(&["arch"])
    }

    fn recipe(&self, _system: &System) -> Result<Call, Error> {
        // With the host's cache of packages, and a keyring of its own.
        Ok(call(words(&["-c", "-K", Recipe::ROOT, "base"])))
    }
}

/// openSUSE and SLES.
pub(super) struct Zypper;

impl Tool for Zypper {
    fn name(&self) -> &'static str {
        "zypper"
    }

    fn suits(&self, system: &System) -> bool {
        system.is_any(&["suse", "opensuse", "sles"])
    }

    fn recipe(&self, _system: &System) -> Result<Call, Error> {
        Ok(call(words(&[
            "--non-interactive",
            "--installroot",
            Recipe::ROOT,
            "install",
            "--no-recommends",
            "patterns-base-minimal_base",
            "systemd",
            "zypper",
            "iproute2",
        ])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fills_the_root_it_is_given() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("etc/apk")).unwrap();
        std::fs::write(root.path().join("etc/apk/repositories"), "https://x/main\n").unwrap();
        let system = System {
            root: root.path().to_owned(),
            version: "41".to_owned(),
            ..System::default()
        };
        let tools: [&dyn Tool; 4] = [&Dnf, &Apk, &Pacstrap, &Zypper];
        for tool in tools {
            let call = tool.recipe(&system).unwrap();
            let roots = call.arguments.iter().filter(|word| *word == Recipe::ROOT);
            assert_eq!(roots.count(), 1, "{}", tool.name());
        }
        let dnf = Dnf.recipe(&system).unwrap();
        assert!(dnf.arguments.contains(&"--releasever=41".to_owned()));
        let apk = Apk.recipe(&system).unwrap();
        assert_eq!(apk.files[0].1, "https://x/main\n");
    }
}
