//! Manifests of detached zones. A manifest has the configuration and the installed packages.
//!
//! As on Solaris, the file is `SUNWdetached.xml` in the zonepath. The manifest is the configuration
//! with additional elements:
//!
//! ```xml
//! <zone name="web" zonepath="/zones/web" brand="native" ...>
//!   <inherited-pkg-dir directory="/usr"/>
//!   <detached version="1" uuid="..." system="debian 12" manager="dpkg"/>
//!   <package name="libc6" version="2.36-9+deb12u10" arch="amd64"/>
//! </zone>
//! ```
//!
//! The attribute `arch` exists only if several architectures of a package can be installed
//! together. A manifest may come from another host, so it is read with the same limits as a
//! configuration.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use model::{Config, Uuid, ZoneName};
use quick_xml::Reader;
use quick_xml::escape::escape;
use quick_xml::events::{BytesStart, Event};

use super::read::value_of;
use super::{MAX_SIZE, parse_any, read_bounded, render};
use crate::atomic::{self, Durability};
use crate::{Damage, Error};

/// Name of the manifest in a zonepath.
pub const DETACHED: &str = "SUNWdetached.xml";

/// The format of manifests that this program writes.
const FORMAT: u64 = 1;

/// Maximum length of a name, version or other word, in bytes.
const MAX_WORD: usize = 1024;

/// A package that the manifest lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The name of the package.
    pub name: String,
    /// The architecture of the package, if several architectures can be installed together.
    pub architecture: String,
    /// The version of the package.
    pub version: String,
}

/// The content of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The configuration of the zone.
    pub config: Config,
    /// The UUID of the zone, which stays the same when the zone is attached.
    pub uuid: Option<Uuid>,
    /// The distribution in the zone's root, such as `debian 12`; empty if it is unknown.
    pub system: String,
    /// The package manager of the root; empty if the root has none.
    pub manager: String,
    /// The installed packages.
    pub packages: Vec<Package>,
}

impl Manifest {
    /// Returns the text of the whole manifest.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = render(&self.config);
        match text.strip_suffix("</zone>\n") {
            Some(open) => text.truncate(open.len()),
            None => {
                let open = text.strip_suffix("/>\n").map_or(text.len(), str::len);
                text.truncate(open);
                text.push_str(">\n");
            }
        }
        text.push_str("  <detached");
        pair(&mut text, "version", &FORMAT.to_string());
        let uuid = self.uuid.map(|uuid| uuid.to_string()).unwrap_or_default();
        pair(&mut text, "uuid", &uuid);
        pair(&mut text, "system", &self.system);
        pair(&mut text, "manager", &self.manager);
        text.push_str("/>\n");
        for package in &self.packages {
            text.push_str("  <package");
            pair(&mut text, "name", &package.name);
            pair(&mut text, "version", &package.version);
            pair(&mut text, "arch", &package.architecture);
            text.push_str("/>\n");
        }
        text.push_str("</zone>\n");
        text
    }

    /// Parses a manifest. `path` is the name of the manifest in messages.
    ///
    /// # Errors
    /// Fails with [`Error::Damaged`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let damaged = |reason: Damage| Error::Damaged {
            path: path.to_owned(),
            line: 1,
            reason: Box::new(reason),
        };
        let mut reader = Reader::from_str(text);
        let mut manifest: Option<Self> = None;
        loop {
            let event = reader.read_event().map_err(|error| damaged(error.into()))?;
            let start = match &event {
                Event::Eof => break,
                Event::Start(start) | Event::Empty(start) => start,
                _ => continue,
            };
            match (start.name().as_ref(), &mut manifest) {
                (b"zone", None) => {
                    let name = word(start, "name").map_err(damaged)?;
                    let zone: ZoneName = name
                        .parse()
                        .map_err(|_| damaged(Damage::ZoneName(escaped(&name))))?;
                    // `parse_any` skips all elements that do not belong to a configuration.
                    manifest = Some(Self {
                        config: parse_any(text, path, &zone)?,
                        uuid: None,
                        system: String::new(),
                        manager: String::new(),
                        packages: Vec::new(),
                    });
                }
                (b"detached", Some(manifest)) => {
                    let format = word(start, "version").map_err(damaged)?;
                    if !format.is_empty() {
                        let format = format.parse();
                        let format = format.map_err(|_| damaged(Damage::VersionNumber))?;
                        Error::unless_known(path, format, FORMAT)?;
                    }
                    let uuid = word(start, "uuid").map_err(damaged)?;
                    if !uuid.is_empty() {
                        let uuid = uuid.parse::<Uuid>();
                        manifest.uuid = Some(uuid.map_err(|error| damaged(error.into()))?);
                    }
                    manifest.system = word(start, "system").map_err(damaged)?;
                    manifest.manager = word(start, "manager").map_err(damaged)?;
                }
                (b"package", Some(manifest)) => {
                    let package = Package {
                        name: word(start, "name").map_err(damaged)?,
                        architecture: word(start, "arch").map_err(damaged)?,
                        version: word(start, "version").map_err(damaged)?,
                    };
                    if package.name.is_empty() {
                        return Err(damaged(Damage::PackageName));
                    }
                    manifest.packages.push(package);
                }
                _ => {}
            }
        }
        manifest.ok_or_else(|| damaged(Damage::NoZone))
    }

    /// Reads the manifest at `path`. Returns `None` if the file does not exist.
    ///
    /// # Errors
    /// Fails with [`Error::Damaged`] or [`Error::File`].
    pub fn load(path: &Path) -> Result<Option<Self>, Error> {
        read_bounded(path)?
            .map(|text| Self::parse(&text, path))
            .transpose()
    }

    /// Reads a manifest from a stream. `name` is the name of the stream in messages.
    ///
    /// # Errors
    /// Fails with [`Error::Damaged`] or [`Error::File`].
    pub fn from_stream(stream: impl Read, name: &Path) -> Result<Self, Error> {
        let mut text = String::new();
        stream
            .take(MAX_SIZE + 1)
            .read_to_string(&mut text)
            .map_err(Error::file("read", name))?;
        if text.len() as u64 > MAX_SIZE {
            return Err(Error::Damaged {
                path: name.to_owned(),
                line: 1,
                reason: Box::new(Damage::TooLarge { max: MAX_SIZE }),
            });
        }
        Self::parse(&text, name)
    }

    /// Stores a manifest in a zonepath, durably.
    ///
    /// # Errors
    /// Fails with [`Error::File`].
    pub fn save(&self, zonepath: &Path) -> Result<(), Error> {
        let path = zonepath.join(DETACHED);
        atomic::replace(&path, self.text().as_bytes(), 0o600, Durability::Stable)
    }
}

/// Removes the manifest from a zonepath. A missing manifest is no error.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn remove(zonepath: &Path) -> Result<(), Error> {
    let path = zonepath.join(DETACHED);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("remove", &path)(error))
        }
        _ => {
            // The sync makes the removal durable, because a zone with a manifest counts as
            // detached.
            let _ = File::open(zonepath).and_then(|folder| folder.sync_all());
            Ok(())
        }
    }
}

fn pair(text: &mut String, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    text.push(' ');
    text.push_str(name);
    text.push_str("=\"");
    text.push_str(&escape(value));
    text.push('"');
}

/// Returns the value of an attribute, or an empty string if the attribute is missing. Fails for
/// control characters, because the value may be printed on a terminal.
fn word(start: &BytesStart, name: &'static str) -> Result<String, Damage> {
    for attribute in start.attributes() {
        let attribute = attribute?;
        if attribute.key.as_ref() != name.as_bytes() {
            continue;
        }
        let value = value_of(&attribute)?;
        if value.len() > MAX_WORD || value.chars().any(char::is_control) {
            return Err(Damage::Word(name));
        }
        return Ok(value);
    }
    Ok(String::new())
}

fn escaped(text: &str) -> String {
    text.chars()
        .take(80)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let mut config = Config::new("web".parse().unwrap());
        config.set_zonepath("/zones/web").unwrap();
        Manifest {
            config,
            uuid: Some("0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff".parse().unwrap()),
            system: "debian 12".to_owned(),
            manager: "dpkg".to_owned(),
            packages: vec![
                Package {
                    name: "libc6".to_owned(),
                    architecture: "amd64".to_owned(),
                    version: "2.36-9+deb12u10".to_owned(),
                },
                Package {
                    name: "a\"b".to_owned(),
                    architecture: String::new(),
                    version: "1:2~<3>".to_owned(),
                },
            ],
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_is_written() {
        let mut manifest = manifest();
        let path = Path::new("SUNWdetached.xml");
        assert_eq!(Manifest::parse(&manifest.text(), path).unwrap(), manifest);
        // The manifest is also read back if the configuration has resource elements.
        let spec = model::table::resource("inherit-pkg-dir").unwrap();
        let mut dir = model::config::Resource::new(spec);
        dir.set("dir", "/usr").unwrap();
        manifest.config.add(dir).unwrap();
        let text = manifest.text();
        assert_eq!(Manifest::parse(&text, path).unwrap(), manifest);
        assert_eq!(
            Manifest::from_stream(text.as_bytes(), path).unwrap(),
            manifest
        );
        // The manifest is also a valid configuration file.
        let zone = "web".parse().unwrap();
        assert_eq!(parse_any(&text, path, &zone).unwrap(), manifest.config);
    }

    #[test]
    fn invalid_manifests_are_refused() {
        for text in [
            "",
            "<zone/>",
            "<zone name='../x'/>",
            "<zone name='web'><package version='1'/></zone>",
            "<zone name='web'><detached uuid='x'/></zone>",
            "<zone name='web'><package name='a&#27;[2J'/></zone>",
            "<zone name='web'><unknown/></zone>",
        ] {
            assert!(Manifest::parse(text, Path::new("m")).is_err(), "{text}");
        }
    }

    #[test]
    fn an_older_manifest_is_read_and_a_newer_one_refused() {
        let path = Path::new("SUNWdetached.xml");
        // The programs of commit df5d183 wrote this file.
        let old = Manifest::parse(include_str!("../../fixtures/SUNWdetached.xml"), path).unwrap();
        assert_eq!(old.config.name().as_str(), "away");
        assert!(old.uuid.is_some());
        let newer = manifest()
            .text()
            .replace("detached version=\"1\"", "detached version=\"2\"");
        let error = Manifest::parse(&newer, path).unwrap_err().to_string();
        assert!(error.contains("has format 2"), "{error}");
        let newer = manifest()
            .text()
            .replacen("<zone ", "<zone version=\"2\" ", 1);
        let error = Manifest::parse(&newer, path).unwrap_err().to_string();
        assert!(error.contains("format 2"), "{error}");
    }

    #[test]
    fn a_manifest_is_stored_in_the_zonepath() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::load(&dir.path().join(DETACHED)).unwrap(), None);
        manifest().save(dir.path()).unwrap();
        let path = dir.path().join(DETACHED);
        assert_eq!(Manifest::load(&path).unwrap(), Some(manifest()));
        remove(dir.path()).unwrap();
        remove(dir.path()).unwrap();
        assert!(!path.exists());
    }
}
