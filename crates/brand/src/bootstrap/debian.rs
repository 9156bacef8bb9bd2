//! Installs Debian and its derivatives with mmdebstrap or debootstrap.

use std::fs;
use std::path::{Path, PathBuf};

use model::plan::Recipe;

use super::{Call, System, Tool, read};
use crate::install::Error;

/// The packages that a zone needs beyond the essential ones: an init, the message bus that controls
/// it, and the programs that show a network.
const INCLUDED: &str = "systemd-sysv,dbus,iproute2";

/// Maximum number of files of package sources.
const MAX_FILES: usize = 256;

fn is_debian(system: &System) -> bool {
    system.is_any(&["debian", "ubuntu"])
}

/// The faster tool of the two. It uses all package sources of the host, with security updates.
pub(super) struct Mmdebstrap;

impl Tool for Mmdebstrap {
    fn name(&self) -> &'static str {
        "mmdebstrap"
    }

    fn suits(&self, system: &System) -> bool {
        is_debian(system)
    }

    fn recipe(&self, system: &System) -> Result<Call, Error> {
        let words = [
            "--mode=root",
            "--variant=minbase",
            "--format=directory",
            "--aptopt=APT::Install-Recommends \"false\"",
        ];
        let mut arguments: Vec<String> = words.map(str::to_owned).into();
        arguments.push(format!("--include={INCLUDED}"));
        arguments.extend([system.codename.clone(), Recipe::ROOT.to_owned()]);
        let sources = sources(system)?;
        arguments.extend(sources.iter().map(Source::line));
        Ok(Call {
            arguments,
            ..Call::default()
        })
    }
}

/// The older tool of the two. It uses one package source, so updates are installed by the first
/// upgrade.
pub(super) struct Debootstrap;

impl Tool for Debootstrap {
    fn name(&self) -> &'static str {
        "debootstrap"
    }

    fn suits(&self, system: &System) -> bool {
        is_debian(system)
    }

    fn recipe(&self, system: &System) -> Result<Call, Error> {
        let sources = sources(system)?;
        let main = sources.iter().find(|one| one.suite == system.codename);
        let main = main.ok_or_else(|| nothing(system))?;
        let mut arguments = vec![
            "--variant=minbase".to_owned(),
            format!("--include={INCLUDED}"),
            format!("--components={}", main.components.join(",")),
        ];
        arguments.extend(main.key.iter().map(|key| format!("--keyring={key}")));
        arguments.extend([
            system.codename.clone(),
            Recipe::ROOT.to_owned(),
            main.uri.clone(),
        ]);
        let list: String = sources.iter().map(|one| one.line() + "\n").collect();
        Ok(Call {
            arguments,
            files: vec![("etc/apt/sources.list".into(), list)],
            ..Call::default()
        })
    }
}

/// A package source.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    uri: String,
    suite: String,
    components: Vec<String>,
    /// The file with the keys that sign the source.
    key: Option<String>,
}

impl Source {
    fn line(&self) -> String {
        let key = self.key.as_ref();
        let key = key.map_or_else(String::new, |key| format!("[signed-by={key}] "));
        format!(
            "deb {key}{} {} {}",
            self.uri,
            self.suite,
            self.components.join(" ")
        )
    }
}

fn nothing(system: &System) -> Error {
    Error::Refused(format!(
        "/etc/apt has no source of this host's release ('{}')",
        system.codename
    ))
}

/// Returns the host's package sources of its own release. Sources of third parties are only for the
/// host.
fn sources(system: &System) -> Result<Vec<Source>, Error> {
    let apt = system.root.join("etc/apt");
    let mut files = vec![apt.join("sources.list")];
    let listed = fs::read_dir(apt.join("sources.list.d"));
    let mut more: Vec<PathBuf> = listed
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .take(MAX_FILES)
        .collect();
    more.sort();
    files.append(&mut more);
    let mut found = Vec::new();
    for file in files {
        let kind = file.extension().and_then(|kind| kind.to_str());
        let text = match kind {
            Some("list" | "sources") => read(&file).unwrap_or_default(),
            _ => continue,
        };
        found.extend(match kind {
            Some("list") => text.lines().filter_map(of_line).collect(),
            _ => text.split("\n\n").flat_map(of_stanza).collect::<Vec<_>>(),
        });
    }
    let release = &system.codename;
    let suites = ["", "-updates", "-security", "/updates"].map(|rest| format!("{release}{rest}"));
    found.retain(|source| !release.is_empty() && suites.contains(&source.suite));
    let mut own: Vec<Source> = Vec::new();
    for source in found {
        if !own.contains(&source) {
            own.push(source);
        }
    }
    match own.is_empty() {
        true => Err(nothing(system)),
        false => Ok(own),
    }
}

/// Returns true if a word is legal as an argument and in a line of package sources.
fn is_word(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reads a line `deb [signed-by=FILE arch=amd64] URI SUITE COMPONENT...`.
fn of_line(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?;
    let mut rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
    let mut key = None;
    if let Some(options) = rest.strip_prefix('[') {
        let (options, behind) = options.split_once(']')?;
        key = options
            .split_whitespace()
            .find_map(|option| option.strip_prefix("signed-by="))
            .map(str::to_owned);
        rest = behind;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    let source = Source {
        uri: words.next()?,
        suite: words.next()?,
        components: words.collect(),
        key,
    };
    source
        .components
        .iter()
        .all(|one| is_word(one))
        .then_some(source)
}

/// Reads a stanza of a `.sources` file, which combines every URI with every suite.
fn of_stanza(stanza: &str) -> Vec<Source> {
    let lines = stanza.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    let field = |name: &str| -> Option<Vec<String>> {
        let at = lines.iter().position(|line| {
            line.split_once(':')
                .is_some_and(|(key, _)| key.eq_ignore_ascii_case(name))
        })?;
        let (_, first) = lines[at].split_once(':')?;
        // A line that begins with a space continues the previous one.
        let more = lines[at + 1..]
            .iter()
            .take_while(|line| line.starts_with([' ', '\t']));
        let all = std::iter::once(first).chain(more.copied());
        let words = all.flat_map(str::split_whitespace).map(str::to_owned);
        Some(words.collect())
    };
    let has = |name: &str, word: &str| {
        field(name).is_some_and(|words| words.iter().any(|one| one == word))
    };
    if !has("Types", "deb") || has("Enabled", "no") {
        return Vec::new();
    }
    let key = field("Signed-By").and_then(|words| match words.as_slice() {
        // This field may contain the key itself instead of the name of a file.
        [path] if Path::new(path).is_absolute() => Some(path.clone()),
        _ => None,
    });
    let components = field("Components").unwrap_or_default();
    let uris = field("URIs").unwrap_or_default();
    let suites = field("Suites").unwrap_or_default();
    let pairs = uris
        .iter()
        .flat_map(|uri| suites.iter().map(move |suite| (uri.clone(), suite.clone())));
    pairs
        .filter(|(uri, _)| is_word(uri))
        .map(|(uri, suite)| Source {
            uri,
            suite,
            components: components.clone(),
            key: key.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join("etc/apt").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let system = System {
            root: root.path().to_owned(),
            id: "debian".to_owned(),
            codename: "bookworm".to_owned(),
            ..System::default()
        };
        (root, system)
    }

    #[test]
    fn both_kinds_of_files_are_read_and_foreign_sources_left_out() {
        let stanza = "# made by hand\nTypes: deb deb-src\nURIs: http://a/debian\n\
                      Suites: bookworm\n bookworm-updates\nComponents: main contrib\n\
                      Signed-By: /usr/share/keyrings/d.gpg\n\n\
                      Types: deb\nEnabled: no\nURIs: http://off\nSuites: bookworm\nComponents: main\n\n\
                      Types: deb\nURIs: http://b/security\nSuites: bookworm-security\nComponents: main\n\
                      Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n";
        let (_root, system) = system(&[
            (
                "sources.list",
                "# deb http://x bookworm main\ndeb-src http://s bookworm main\n\
              deb [arch=amd64 signed-by=/k.gpg] http://c/debian bookworm main # here\n",
            ),
            ("sources.list.d/debian.sources", stanza),
            (
                "sources.list.d/other.list",
                "deb http://tools nodistro main\n",
            ),
            (
                "sources.list.d/old.list.save",
                "deb http://old bookworm main\n",
            ),
        ]);
        let lines: Vec<String> = sources(&system).unwrap().iter().map(Source::line).collect();
        assert_eq!(
            lines,
            [
                "deb [signed-by=/k.gpg] http://c/debian bookworm main",
                "deb [signed-by=/usr/share/keyrings/d.gpg] http://a/debian bookworm main contrib",
                "deb [signed-by=/usr/share/keyrings/d.gpg] http://a/debian bookworm-updates main contrib",
                "deb http://b/security bookworm-security main",
            ]
        );
    }

    #[test]
    fn a_missing_source_of_the_release_is_named() {
        let (_root, system) = system(&[("sources.list", "deb http://x trixie main\n")]);
        let error = Mmdebstrap.recipe(&system).unwrap_err().to_string();
        assert!(error.contains("bookworm"), "{error}");
    }

    #[test]
    fn the_command_line_of_mmdebstrap_is_exact() {
        let (_root, system) = system(&[(
            "sources.list",
            "deb [signed-by=/k.gpg] http://m/debian bookworm main\ndeb http://m/s bookworm-security main\n",
        )]);
        let call = Mmdebstrap.recipe(&system).unwrap();
        assert_eq!(
            call.arguments[4..],
            [
                "--include=systemd-sysv,dbus,iproute2",
                "bookworm",
                "{root}",
                "deb [signed-by=/k.gpg] http://m/debian bookworm main",
                "deb http://m/s bookworm-security main",
            ]
        );
        let call = Debootstrap.recipe(&system).unwrap();
        assert_eq!(
            call.arguments[2..],
            [
                "--components=main",
                "--keyring=/k.gpg",
                "bookworm",
                "{root}",
                "http://m/debian"
            ]
        );
        assert!(call.files[0].1.contains("bookworm-security"));
    }

    #[test]
    fn words_that_would_be_options_are_no_sources() {
        assert_eq!(of_line("deb http://a bookworm --x"), None);
        assert_eq!(of_line("debris http://a bookworm main"), None);
        assert_eq!(
            of_stanza("Types: deb\nURIs: --help\nSuites: s\nComponents: c\n"),
            []
        );
    }
}
