//! The identity of a zone, stored in its zonepath. A host that finds the zonepath on the storage of
//! a dead host takes the zone over with the same uuid, from which its Ethernet addresses are
//! derived. The file also names the host that owns the zonepath: the host that last installed or
//! attached the zone. A former owner refuses to use the zonepath.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use model::Uuid;
use rustix::fs::{Mode, OFlags};
use store::Root;
use store::atomic::{self, Durability};

use host::Error;
use host::uuid::new_uuid;

/// The file in the zonepath.
pub const FILE: &str = ".identity";

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4096;

/// Maximum length of a host's name in messages, in characters.
const MAX_HOST_NAME: usize = 64;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The uuid of the zone.
    pub uuid: Option<Uuid>,
    /// The name of the host that last installed or attached the zone.
    pub(crate) host: Option<String>,
    /// The identity of that host; `None` in a file of older programs.
    pub(crate) owner: Option<Uuid>,
}

/// The identity file of a zonepath, read once, and the identity of the host that read it.
#[derive(Debug)]
pub(crate) struct Known {
    file: Identity,
    here: Option<Uuid>,
}

impl Known {
    /// Reads the file and the host's identity.
    pub(crate) fn of(root: &Root, zonepath: &Path) -> Self {
        let file = read(zonepath);
        // The host's identity is read only if the file names an owner: a host need not have one.
        let here = file.owner.and_then(|_| known_host_id(&root.host_id()));
        Self { file, here }
    }

    /// See [`other_owner`].
    pub(crate) fn other_owner(&self) -> Option<String> {
        let owner = self.file.owner.filter(|owner| self.here != Some(*owner))?;
        let name = self.file.host.clone();
        Some(name.unwrap_or_else(|| owner.to_string()))
    }

    /// Returns whether [`write()`] would leave the file as it is.
    pub(crate) fn is_of(&self, uuid: Uuid) -> bool {
        self.here
            .is_some_and(|here| self.file == of_zone(uuid, here))
    }
}

/// Returns the text of the identity file of a zone that the host with the identity `here` has
/// installed.
fn of_zone(uuid: Uuid, here: Uuid) -> Identity {
    let host = rustix::system::uname();
    Identity {
        uuid: Some(uuid),
        host: Some(host.nodename().to_string_lossy().into_owned()),
        owner: Some(here),
    }
}

/// Returns the text of the file for a zone that this host has installed or attached.
fn text(root: &Root, uuid: Uuid) -> Result<String, Error> {
    let here = host_id(root)?;
    let host = of_zone(uuid, here).host.unwrap_or_default();
    Ok(format!(
        "format=1\nuuid={uuid}\nhost={host}\nowner={here}\n"
    ))
}

/// Writes the file for a zone that this host has installed or attached. If a power cut loses the
/// file, the next boot of the zone writes it again.
pub fn write(root: &Root, zonepath: &Path, uuid: Uuid) -> Result<(), Error> {
    if Known::of(root, zonepath).is_of(uuid) || !zonepath.is_dir() {
        return Ok(());
    }
    Ok(atomic::replace(
        &zonepath.join(FILE),
        text(root, uuid)?.as_bytes(),
        0o600,
        Durability::Volatile,
    )?)
}

/// Turns the mark of a complete clone into the identity file, by a rename in its zonepath: this
/// creates one file less than [`write()`] does. The mark is gone afterwards in any case.
pub fn write_over_mark(root: &Root, zonepath: &Path, mark: &str, uuid: Uuid) {
    let mark = zonepath.join(mark);
    let written = || -> Result<(), Error> {
        let text = text(root, uuid)?;
        let shown = mark.display();
        sys::crash::point();
        std::fs::write(&mark, text).map_err(Error::io(format!("write {shown}")))?;
        sys::crash::point();
        let file = zonepath.join(FILE);
        std::fs::rename(&mark, file).map_err(Error::io(format!("rename {shown}")))
    };
    // Both are tried again by each later command that looks at the zone.
    if written().is_err() {
        let _ = std::fs::remove_file(&mark);
    }
}

/// Returns the identity of this host, and creates it when it is first needed. The identity belongs
/// to the index: both are in /etc/zones, so that the host's name and machine-id may change.
fn host_id(root: &Root) -> Result<Uuid, Error> {
    let path = root.host_id();
    if let Some(known) = known_host_id(&path) {
        return Ok(known);
    }
    let made = format!("{}\n", new_uuid()?);
    // Another command may have created it at the same time.
    atomic::create(&path, made.as_bytes(), 0o644)?;
    known_host_id(&path)
        .ok_or_else(|| Error::Refused(format!("{}: expected a uuid", path.display())))
}

fn known_host_id(path: &Path) -> Option<Uuid> {
    let mut text = String::with_capacity(256);
    let file = File::open(path).ok()?;
    file.take(MAX_FILE).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Returns the name of the other host that owns the zonepath. Returns `None` if this host owns it,
/// or if no owner is known.
pub fn other_owner(root: &Root, zonepath: &Path) -> Option<String> {
    Known::of(root, zonepath).other_owner()
}

/// Reads the file. Returns an empty identity if the file does not exist or is damaged.
pub fn read(zonepath: &Path) -> Identity {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(zonepath.join(FILE), flags, Mode::empty()) else {
        return Identity::default();
    };
    let mut text = String::with_capacity(256);
    match File::from(file).take(MAX_FILE).read_to_string(&mut text) {
        Ok(_) => parse(&text),
        Err(_) => Identity::default(),
    }
}

fn parse(text: &str) -> Identity {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    };
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    Identity {
        uuid: value("uuid").and_then(|value| value.parse().ok()),
        owner: value("owner").and_then(|value| value.parse().ok()),
        host: value("host")
            .map(|value| value.chars().filter(plain).take(MAX_HOST_NAME).collect())
            .filter(|name: &String| !name.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_and_a_hostile_one_is_harmless() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), Identity::default());
        let uuid: Uuid = "5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10".parse().unwrap();
        let hosts = ["a", "b"].map(|name| Root::new(&folder.path().join(name)));
        write(&hosts[0], folder.path(), uuid).unwrap();
        assert_eq!(read(folder.path()).uuid, Some(uuid));
        assert_eq!(other_owner(&hosts[0], folder.path()), None);
        assert!(other_owner(&hosts[1], folder.path()).is_some());
        write(&hosts[1], folder.path(), uuid).unwrap();
        assert!(other_owner(&hosts[0], folder.path()).is_some());
        assert_eq!(other_owner(&hosts[1], folder.path()), None);
        // A file of programs that wrote no owner.
        let old = format!("format=1\nuuid={uuid}\nhost=b\n");
        std::fs::write(folder.path().join(FILE), old).unwrap();
        assert_eq!(other_owner(&hosts[0], folder.path()), None);
        let hostile = parse("uuid=no\nhost=\u{1b}[2Ja b;c\n");
        assert_eq!(hostile.uuid, None);
        assert_eq!(hostile.host.as_deref(), Some("2Jabc"));
        assert_eq!(parse("host=\u{1b}\n"), Identity::default());
        // A zonepath that does not exist is not created.
        let gone = folder.path().join("gone");
        write(&hosts[0], &gone, uuid).unwrap();
        assert!(!gone.exists());
    }

    #[test]
    fn the_mark_of_a_clone_becomes_the_file_of_its_identity() {
        let folder = tempfile::tempdir().unwrap();
        let uuid: Uuid = "5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10".parse().unwrap();
        let root = Root::new(&folder.path().join("host"));
        let [zonepath, same] = ["web", "same"].map(|zone| folder.path().join(zone));
        for path in [&zonepath, &same] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::write(zonepath.join(".mark"), "a longer text that a kill left").unwrap();
        write_over_mark(&root, &zonepath, ".mark", uuid);
        write(&root, &same, uuid).unwrap();
        assert!(!zonepath.join(".mark").exists());
        let read_text = |path: &Path| std::fs::read_to_string(path.join(FILE)).unwrap();
        assert_eq!(read_text(&zonepath), read_text(&same));
        assert!(Known::of(&root, &zonepath).is_of(uuid));
        // A mark that cannot be renamed to the file is removed.
        std::fs::remove_file(same.join(FILE)).unwrap();
        std::fs::create_dir(same.join(FILE)).unwrap();
        std::fs::write(same.join(".mark"), "").unwrap();
        write_over_mark(&root, &same, ".mark", uuid);
        assert!(!same.join(".mark").exists());
        assert!(!Known::of(&root, &same).is_of(uuid));
    }
}
