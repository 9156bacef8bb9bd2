//! Records the properties of boot environments that snapshots do not have. Each record is the
//! target text of a symbolic link in `<zonepath>/be`.
//!
//! | link | text |
//! |---|---|
//! | `active` | the name of the one that is the root, and when it was made; absent: `initial` |
//! | `next` | the name of the one that the next boot takes; absent: the active one |
//! | `switch` | a change that is under way, see `switch.rs` |
//! | `inside-NAME` | when the zone itself made that one, in seconds since 1970 |
//! | `scheduled-NAME` | `auto`: a schedule made that one, and removes it |
//! | `mount-NAME` | `made` or `kept`, and the folder on which it is shown |

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use storage::Name;

use host::Error;

/// Name of the folder in the zonepath that contains the marks.
const FOLDER: &str = "be";

/// Name of the boot environment with which a zone was installed.
const INITIAL: &str = "initial";

/// Prefix of the mark of a mounted boot environment.
const MOUNT: &str = "mount-";

/// Prefix of the mark of a boot environment that the zone itself made.
const INSIDE: &str = "inside-";

/// Prefix of the mark of an automatic snapshot.
const SCHEDULED: &str = "scheduled-";

/// Text of the mark of an automatic snapshot.
const AUTOMATIC: &str = "auto";

/// The active boot environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Active {
    pub(super) name: Name,
    /// The time of creation in seconds since 1970; `None` for the boot environment with which the
    /// zone was installed.
    pub(super) created: Option<u64>,
}

/// A mounted boot environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) path: PathBuf,
    /// True if the mount point was made for this mount, and is removed with it.
    pub(super) made: bool,
}

impl Mounted {
    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

/// A switch from one boot environment to another, in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    pub(super) from: Name,
    pub(super) to: Name,
    /// True if the next boot switches back.
    pub(super) once: bool,
    /// True if the former root is already kept as a snapshot. The switch can only be completed
    /// then, not undone.
    pub(super) kept: bool,
}

/// The marks of the zone at a zonepath.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    folder: PathBuf,
}

impl Marks {
    pub(super) fn at(zonepath: &Path) -> Self {
        Self {
            folder: zonepath.join(FOLDER),
        }
    }

    pub(super) fn active(&self) -> Result<Active, Error> {
        let initial = || Active {
            name: initial(),
            created: None,
        };
        let Some(text) = self.read("active")? else {
            return Ok(initial());
        };
        let (name, created) = text.split_once(' ').unwrap_or((&text, ""));
        Ok(Active {
            name: self.name("active", name)?,
            // Earlier versions stored 0 for a time that they could not read.
            created: created.parse().ok().filter(|created| *created > 0),
        })
    }

    /// Sets the active boot environment. It belongs to the user from now on, also if it was an
    /// automatic snapshot: a later switch keeps what the zone writes under the same name.
    pub(super) fn set_active(&self, active: &Active) -> Result<(), Error> {
        self.set_scheduled(&active.name, false)?;
        let created = active.created.map(|created| created.to_string());
        let text = format!("{} {}", active.name, created.unwrap_or_default());
        self.write("active", text.trim_end())
    }

    pub(super) fn next(&self) -> Result<Option<Name>, Error> {
        let text = self.read("next")?;
        text.map(|text| self.name("next", &text)).transpose()
    }

    pub(super) fn set_next(&self, name: Option<&Name>) -> Result<(), Error> {
        match name {
            Some(name) => self.write("next", name.as_str()),
            None => self.remove("next"),
        }
    }

    pub(super) fn switch(&self) -> Result<Option<Switch>, Error> {
        let Some(text) = self.read("switch")? else {
            return Ok(None);
        };
        let words: Vec<&str> = text.split(' ').collect();
        let [from, to, once, kept] = words[..] else {
            return Err(self.damaged("switch", &text));
        };
        Ok(Some(Switch {
            from: self.name("switch", from)?,
            to: self.name("switch", to)?,
            once: once == "once",
            kept: kept == "kept",
        }))
    }

    pub(super) fn set_switch(&self, switch: Option<&Switch>) -> Result<(), Error> {
        let Some(switch) = switch else {
            return self.remove("switch");
        };
        let Switch {
            from,
            to,
            once,
            kept,
        } = switch;
        let once = if *once { "once" } else { "stay" };
        let kept = if *kept { "kept" } else { "begun" };
        self.write("switch", &format!("{from} {to} {once} {kept}"))
    }

    pub(super) fn mounted(&self, name: &Name) -> Result<Option<Mounted>, Error> {
        let text = self.read(&format!("{MOUNT}{name}"))?;
        Ok(text.and_then(|text| {
            let (how, path) = text.split_once(' ')?;
            Some(Mounted {
                path: path.into(),
                made: how == "made",
            })
        }))
    }

    pub(super) fn set_mounted(&self, name: &Name, at: Option<&Mounted>) -> Result<(), Error> {
        let link = format!("{MOUNT}{name}");
        match at {
            None => self.remove(&link),
            Some(at) => {
                // Files that are written there stay in it, so it is no automatic snapshot any longer.
                self.set_scheduled(name, false)?;
                let how = if at.made { "made" } else { "kept" };
                self.write(&link, &format!("{how} {}", at.path.display()))
            }
        }
    }

    /// Returns the time at which the zone itself made a boot environment of this name.
    pub(super) fn inside(&self, name: &Name) -> Result<Option<u64>, Error> {
        let text = self.read(&format!("{INSIDE}{name}"))?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    pub(super) fn set_inside(&self, name: &Name, created: Option<u64>) -> Result<(), Error> {
        let link = format!("{INSIDE}{name}");
        match created {
            Some(created) => self.write(&link, &created.to_string()),
            None => self.remove(&link),
        }
    }

    /// Returns the names of the snapshots that a schedule made.
    pub(super) fn all_scheduled(&self) -> Result<Vec<Name>, Error> {
        self.all(SCHEDULED)
    }

    pub(super) fn set_scheduled(&self, name: &Name, is_scheduled: bool) -> Result<(), Error> {
        let link = format!("{SCHEDULED}{name}");
        match is_scheduled {
            true => self.write(&link, AUTOMATIC),
            false => self.remove(&link),
        }
    }

    /// Returns the boot environments that are mounted on the host.
    pub(super) fn all_mounted(&self) -> Result<Vec<Name>, Error> {
        self.all(MOUNT)
    }

    /// Returns the boot environments that have a mark with this prefix.
    fn all(&self, prefix: &str) -> Result<Vec<Name>, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(Error::io(format!("read {}", self.folder.display())))?,
        };
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix(prefix)?.parse().ok()
        });
        Ok(names.collect())
    }

    /// Removes all marks and their folder.
    pub(super) fn remove_all(&self) -> Result<(), Error> {
        // Most zones have never had a mark.
        if !self.folder.exists() {
            return Ok(());
        }
        for name in ["active", "next", "switch"] {
            self.remove(name)?;
        }
        for name in self.all(INSIDE)? {
            self.set_inside(&name, None)?;
        }
        for name in self.all(SCHEDULED)? {
            self.set_scheduled(&name, false)?;
        }
        match fs::remove_dir(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::Io(
                format!("remove {}", self.folder.display()),
                error,
            )),
            _ => Ok(()),
        }
    }

    /// Returns the default mount point of a boot environment.
    pub(super) fn place(&self, name: &Name) -> PathBuf {
        self.folder.join(format!("at-{name}"))
    }

    /// Makes the folder for the marks.
    pub(super) fn make(&self) -> Result<(), Error> {
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(Error::Io(format!("make {}", self.folder.display()), error))
            }
            _ => Ok(()),
        }
    }

    fn name(&self, link: &str, text: &str) -> Result<Name, Error> {
        text.parse().map_err(|_| self.damaged(link, text))
    }

    fn damaged(&self, link: &str, text: &str) -> Error {
        let text: String = text.chars().take(80).collect();
        Error::Refused(format!(
            "{}: {text:?} is not a valid target of this link.",
            self.folder.join(link).display()
        ))
    }

    fn read(&self, link: &str) -> Result<Option<String>, Error> {
        let path = self.folder.join(link);
        match fs::read_link(&path) {
            Ok(text) => {
                let text = String::from_utf8_lossy(text.as_os_str().as_bytes());
                Ok(Some(text.into_owned()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::Io(format!("read {}", path.display()), error)),
        }
    }

    /// Writes a link in one step, and replaces an existing link of this name.
    fn write(&self, link: &str, text: &str) -> Result<(), Error> {
        self.make()?;
        let aside = self.folder.join(format!("{link}.new"));
        let path = self.folder.join(link);
        let _ = fs::remove_file(&aside);
        symlink(text, &aside)
            .and_then(|()| fs::rename(&aside, &path))
            .map_err(Error::io(format!("write {}", path.display())))
    }

    fn remove(&self, link: &str) -> Result<(), Error> {
        for name in [link.to_owned(), format!("{link}.new")] {
            let path = self.folder.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::Io(format!("remove {}", path.display()), error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the name of the first boot environment. The parse cannot fail, because the name is a
/// constant.
fn initial() -> Name {
    INITIAL
        .parse()
        .unwrap_or_else(|_| unreachable!("{INITIAL} is a name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn marks_are_read_as_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let marks = Marks::at(dir.path());
        assert_eq!(marks.active().unwrap().name.as_str(), "initial");
        assert_eq!(marks.next().unwrap(), None);
        assert_eq!(marks.switch().unwrap(), None);
        let active = Active {
            name: name("be-1"),
            created: Some(7),
        };
        marks.set_active(&active).unwrap();
        assert_eq!(marks.active().unwrap(), active);
        // A snapshot that was booted is no automatic one any longer.
        for auto in ["auto-1", "auto-2"] {
            marks.set_scheduled(&name(auto), true).unwrap();
        }
        marks
            .set_active(&Active {
                name: name("auto-1"),
                created: None,
            })
            .unwrap();
        assert_eq!(marks.all_scheduled().unwrap(), [name("auto-2")]);
        let active = Active {
            name: name("be-2"),
            created: None,
        };
        marks.set_active(&active).unwrap();
        assert_eq!(marks.active().unwrap(), active);
        marks.set_next(Some(&name("a"))).unwrap();
        assert_eq!(marks.next().unwrap(), Some(name("a")));
        let switch = Switch {
            from: name("a"),
            to: name("b"),
            once: true,
            kept: false,
        };
        marks.set_switch(Some(&switch)).unwrap();
        assert_eq!(marks.switch().unwrap(), Some(switch));
        let at = Mounted {
            path: "/mnt/a b".into(),
            made: true,
        };
        marks.set_mounted(&name("c"), Some(&at)).unwrap();
        assert_eq!(marks.mounted(&name("c")).unwrap(), Some(at));
        assert_eq!(marks.all_mounted().unwrap(), [name("c")]);
        marks.set_mounted(&name("c"), None).unwrap();
        marks.set_inside(&name("c"), Some(7)).unwrap();
        assert_eq!(marks.inside(&name("c")).unwrap(), Some(7));
        assert_eq!(marks.inside(&name("d")).unwrap(), None);
        marks.remove_all().unwrap();
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
        marks.remove_all().unwrap();
    }

    #[test]
    fn unreadable_marks_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let marks = Marks::at(dir.path());
        marks.write("switch", "a b").unwrap();
        assert!(marks.switch().is_err());
        marks.write("next", "../x").unwrap();
        assert!(marks.next().is_err());
    }
}
