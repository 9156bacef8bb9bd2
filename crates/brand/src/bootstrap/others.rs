//! The tools of the other package systems. Each uses all enabled repositories of the host.

use std::fs;
use std::path::{Path, PathBuf};

use model::plan::Recipe;

use super::{Call, System, Tool, read};
use crate::install::Error;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Maximum number of files of repositories.
const MAX_FILES: usize = 256;

/// Returns the files in a folder of the host whose names have this ending, with their names.
fn listed(system: &System, folder: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let all = fs::read_dir(system.root.join(folder));
    let mut names: Vec<PathBuf> = all
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name())))
        .filter(|name| name.extension().is_some_and(|kind| kind == ending))
        .take(MAX_FILES)
        .collect();
    names.sort();
    let file = |name: PathBuf| {
        let path = Path::new(folder).join(name);
        let text = read(&system.root.join(&path))?;
        Some((path, text))
    };
    names.into_iter().filter_map(file).collect()
}

/// Returns the words of a file of the host; empty if the file does not exist.
fn told(system: &System, file: &str) -> Vec<String> {
    read(&system.root.join(file)).into_iter().collect()
}

/// Returns only the texts of the files.
fn texts(files: &[(PathBuf, String)]) -> Vec<String> {
    files.iter().map(|(_, text)| text.clone()).collect()
}

/// The tool of Fedora, RHEL and their derivatives.
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
        // Repositories exist only for major releases, so `9.4` becomes `9`.
        let release = system.version.split('.').next().unwrap_or_default();
        arguments.push(format!("--releasever={release}"));
        if is_dnf5(system) {
            // dnf 5, unlike older versions, searches for repositories in the empty root.
            arguments.push("--use-host-config".to_owned());
        }
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
        let mut sources = texts(&listed(system, "etc/yum.repos.d", "repo"));
        sources.extend(told(system, "etc/dnf/dnf.conf"));
        Ok(Call {
            arguments,
            sources,
            ..Call::default()
        })
    }
}

/// Returns true if `dnf` is version 5. Fedora has version 5 under both names.
fn is_dnf5(system: &System) -> bool {
    let target = fs::read_link(system.root.join("usr/bin/dnf"));
    target.is_ok_and(|target| target.file_name().is_some_and(|name| name == "dnf5"))
}

/// The tool of Alpine Linux.
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
            ..Call::default()
        })
    }
}

/// The tool of Arch Linux.
pub(super) struct Pacstrap;

impl Tool for Pacstrap {
    fn name(&self) -> &'static str {
        "pacstrap"
    }

    fn suits(&self, system: &System) -> bool {
        system.is_any(&["arch"])
    }

    fn recipe(&self, system: &System) -> Result<Call, Error> {
        let mut sources = told(system, "etc/pacman.conf");
        sources.extend(texts(&listed(system, "etc/pacman.d", "conf")));
        sources.extend(told(system, "etc/pacman.d/mirrorlist"));
        Ok(Call {
            // The tool uses the host's cache of packages, and a new keyring.
            arguments: words(&["-c", "-K", Recipe::ROOT, "base"]),
            sources,
            ..Call::default()
        })
    }
}

/// The tool of openSUSE and SLES.
pub(super) struct Zypper;

impl Tool for Zypper {
    fn name(&self) -> &'static str {
        "zypper"
    }

    fn suits(&self, system: &System) -> bool {
        system.is_any(&["suse", "opensuse", "sles"])
    }

    fn recipe(&self, system: &System) -> Result<Call, Error> {
        let arguments = words(&[
            "--non-interactive",
            "--installroot",
            Recipe::ROOT,
            "install",
            "--no-recommends",
            "patterns-base-minimal_base",
            "systemd",
            "zypper",
            "iproute2",
        ]);
        Ok(Call {
            arguments,
            // On a host that was installed with these files, they belong to no package.
            files: listed(system, "etc/zypp/repos.d", "repo"),
            ..Call::default()
        })
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
        let minor = System {
            version: "9.4".to_owned(),
            ..system.clone()
        };
        let dnf = Dnf.recipe(&minor).unwrap();
        assert!(dnf.arguments.contains(&"--releasever=9".to_owned()));
        let apk = Apk.recipe(&system).unwrap();
        assert_eq!(apk.files[0].1, "https://x/main\n");
    }

    #[test]
    fn repositories_of_the_host_count() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("etc/yum.repos.d/b.repo", "[b]\n");
        put("etc/yum.repos.d/a.repo", "[a]\n");
        put("etc/yum.repos.d/a.repo.save", "[old]\n");
        put("etc/dnf/dnf.conf", "[main]\n");
        put("etc/zypp/repos.d/oss.repo", "[oss]\n");
        put("etc/pacman.conf", "[core]\n");
        let system = System {
            root: root.path().to_owned(),
            ..System::default()
        };
        assert_eq!(
            Dnf.recipe(&system).unwrap().sources,
            ["[a]\n", "[b]\n", "[main]\n"]
        );
        assert_eq!(Pacstrap.recipe(&system).unwrap().sources, ["[core]\n"]);
        let zypper = Zypper.recipe(&system).unwrap();
        let oss = ("etc/zypp/repos.d/oss.repo".into(), "[oss]\n".to_owned());
        assert_eq!(zypper.files, [oss]);
    }

    #[test]
    fn the_fifth_dnf_is_told_to_ask_the_host() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("usr/bin");
        std::fs::create_dir_all(&bin).unwrap();
        let system = System {
            root: root.path().to_owned(),
            ..System::default()
        };
        let asks = || {
            let call = Dnf.recipe(&system).unwrap();
            call.arguments.contains(&"--use-host-config".to_owned())
        };
        std::os::unix::fs::symlink("dnf-3", bin.join("dnf")).unwrap();
        assert!(!asks());
        std::fs::remove_file(bin.join("dnf")).unwrap();
        std::os::unix::fs::symlink("dnf5", bin.join("dnf")).unwrap();
        assert!(asks());
    }
}
