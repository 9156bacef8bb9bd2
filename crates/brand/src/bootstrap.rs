//! Installs roots of the host's own distribution with the distribution's own installer.
//!
//! Each package system has a tool that fills an empty folder from the package sources of the host.
//! `Tool::recipe` returns the call of the tool as plain data, and [`run()`] runs it. The new root
//! is kept as an image, so the next zone shares the same files on disk and in memory.

mod debian;
mod others;
mod run;

use std::fs;
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};
use model::plan::Recipe;

use crate::install::Error;

pub use run::run;

/// Maximum size of a configuration file of a package system, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The folders in which tools are searched. `PATH` is not used.
const FOLDERS: [&str; 4] = ["usr/sbin", "usr/bin", "sbin", "bin"];

/// The facts about the host's distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct System {
    /// The root of the host: `/` except in tests.
    root: PathBuf,
    /// `ID` of os-release, for example `debian`.
    id: String,
    /// `ID_LIKE` of os-release: the distributions from which it is derived.
    like: String,
    /// `VERSION_ID` of os-release, for example `12`.
    version: String,
    /// `VERSION_CODENAME` of os-release, for example `bookworm`.
    codename: String,
}

impl System {
    pub(crate) fn of(root: &Path) -> Self {
        let places = ["etc/os-release", "usr/lib/os-release"];
        let text = places.iter().find_map(|place| read(&root.join(place)));
        let text = text.unwrap_or_default();
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            let value = lines.find(|(key, _)| *key == name);
            value.map_or_else(String::new, |(_, value)| {
                value.trim().trim_matches(['"', '\'']).to_owned()
            })
        };
        Self {
            root: root.to_owned(),
            id: field("ID"),
            like: field("ID_LIKE"),
            version: field("VERSION_ID"),
            codename: field("VERSION_CODENAME"),
        }
    }

    fn is_any(&self, names: &[&str]) -> bool {
        let mut own = std::iter::once(self.id.as_str()).chain(self.like.split_whitespace());
        own.any(|name| names.contains(&name))
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        let mut places = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
        let place = places.find(|place| self.root.join(place).is_file())?;
        Some(Path::new("/").join(place))
    }
}

fn read(path: &Path) -> Option<String> {
    let small = fs::metadata(path).ok()?.len() <= MAX_FILE;
    small.then(|| fs::read_to_string(path).ok()).flatten()
}

/// A tool that fills an empty folder with a distribution.
pub(crate) trait Tool: Sync {
    /// Returns the name of the program.
    fn name(&self) -> &'static str;

    /// Returns true if the tool is for hosts of this distribution.
    fn suits(&self, system: &System) -> bool;

    /// Returns the call of the tool: arguments, in which [`Recipe::ROOT`] stands for the folder,
    /// and files to write into the root afterwards.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if the host's configuration lacks a needed value.
    fn recipe(&self, system: &System) -> Result<Call, Error>;
}

/// The call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    arguments: Vec<String>,
    files: Vec<(PathBuf, String)>,
    /// The package sources in files of the host that are not arguments. Other sources make another
    /// image.
    sources: Vec<String>,
}

/// All tools. Of the tools for the host's distribution, the first installed one is used.
const TOOLS: &[&dyn Tool] = &[
    &debian::Mmdebstrap,
    &debian::Debootstrap,
    &others::Dnf,
    &others::Apk,
    &others::Pacstrap,
    &others::Zypper,
];

/// Returns the recipe that makes a root of the host's own distribution.
///
/// # Errors
/// Fails with [`Error::Refused`] if no tool is known, if none is installed, or if the host has no
/// package sources.
pub fn recipe(host_root: &Path) -> Result<Recipe, Error> {
    const OTHERWISE: &str = "or give an archive (-a), a directory (-d) or an image (-i)";
    let system = System::of(host_root);
    let mut suitable = TOOLS.iter().filter(|tool| tool.suits(&system)).peekable();
    if suitable.peek().is_none() {
        let id = &system.id;
        return Err(Error::Refused(format!(
            "no way is known to make a whole root of this host's distribution ('{id}'): give an archive (-a), a directory (-d) or an image (-i)"
        )));
    }
    let names: Vec<&str> = suitable.clone().map(|tool| tool.name()).collect();
    let found = suitable.find_map(|tool| Some((tool, system.program(tool.name())?)));
    let Some((tool, program)) = found else {
        return Err(Error::Refused(format!(
            "a whole root of this host's distribution is made with {}, which is not installed here: install it, {OTHERWISE}",
            names.join(" or ")
        )));
    };
    let call = tool.recipe(&system)?;
    let release = [&system.codename, &system.version];
    let release = release.into_iter().find(|text| !text.is_empty());
    let release = release.map_or("rolling", |text| text);
    let digest = digest(tool.name(), &call);
    Ok(Recipe {
        image: format!("native-{}-{release}-{digest}", system.id),
        program,
        arguments: call.arguments,
        files: call.files,
    })
}

/// Returns eight digits that differ if any part of the call differs.
fn digest(name: &str, call: &Call) -> String {
    let mut hash = Md5::new();
    let files = call.files.iter().map(|(_, text)| text);
    for word in call.arguments.iter().chain(files).chain(&call.sources) {
        hash.update(word.as_bytes());
        hash.update([0]);
    }
    hash.update(name.as_bytes());
    let sum = hash.finalize();
    sum.iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const DEBIAN: &str = "ID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n";
    const SOURCES: &str = "deb http://deb.example/debian bookworm main\n";

    #[test]
    fn the_tool_that_is_there_is_taken_and_a_missing_one_named() {
        let files = [
            ("etc/os-release", DEBIAN),
            ("etc/apt/sources.list", SOURCES),
        ];
        let root = host(&files);
        let error = recipe(root.path()).unwrap_err().to_string();
        assert!(error.contains("mmdebstrap or debootstrap"), "{error}");
        fs::create_dir_all(root.path().join("usr/sbin")).unwrap();
        fs::write(root.path().join("usr/sbin/debootstrap"), "").unwrap();
        let made = recipe(root.path()).unwrap();
        assert_eq!(made.program, Path::new("/usr/sbin/debootstrap"));
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        fs::write(root.path().join("usr/bin/mmdebstrap"), "").unwrap();
        let other = recipe(root.path()).unwrap();
        assert_eq!(other.program, Path::new("/usr/bin/mmdebstrap"));
        assert!(other.image.starts_with("native-debian-bookworm-"));
        assert_ne!(made.image, other.image);
    }

    #[test]
    fn other_sources_are_another_image() {
        let files = [
            ("etc/os-release", DEBIAN),
            ("etc/apt/sources.list", SOURCES),
            ("usr/bin/mmdebstrap", ""),
        ];
        let root = host(&files);
        let before = recipe(root.path()).unwrap().image;
        assert_eq!(recipe(root.path()).unwrap().image, before);
        let path = root.path().join("etc/apt/sources.list");
        fs::write(path, SOURCES.replace("main", "main contrib")).unwrap();
        assert_ne!(recipe(root.path()).unwrap().image, before);
    }

    #[test]
    fn a_distribution_without_a_known_tool_is_named() {
        let root = host(&[("etc/os-release", "ID=gentoo\n")]);
        let error = recipe(root.path()).unwrap_err().to_string();
        assert!(error.contains("gentoo") && error.contains("-a"), "{error}");
    }

    #[test]
    fn derivatives_use_the_tool_of_their_origin() {
        let system = |text: &str| System::of(host(&[("etc/os-release", text)]).path());
        for (text, name) in [
            ("ID=ubuntu\nID_LIKE=debian\n", "mmdebstrap"),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf"),
            ("ID=fedora\n", "dnf"),
            ("ID=alpine\n", "apk"),
            ("ID=arch\n", "pacstrap"),
            (
                "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n",
                "zypper",
            ),
        ] {
            let system = system(text);
            let tool = TOOLS.iter().find(|tool| tool.suits(&system));
            assert_eq!(tool.map(|tool| tool.name()), Some(name), "{text}");
        }
    }
}
