//! The identity of a zone in its zonepath, so that a host that finds the zonepath on storage
//! of a host that died takes the zone over as the same one: with its uuid, from which its
//! Ethernet addresses come. The file also says which host owns the zonepath: the one that
//! installed or attached the zone last. A host that owned it before refuses to use it.

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

/// Longest name of a host that is shown, in characters.
const MAX_HOST_NAME: usize = 64;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The uuid of the zone.
    pub uuid: Option<Uuid>,
    /// The name of the host that installed or attached it last.
    pub(crate) host: Option<String>,
    /// The identity of that host; older programs wrote none.
    pub(crate) owner: Option<Uuid>,
}

/// Writes the file for a zone that this host has installed or attached. A file that is lost
/// in a power cut is written again at the next boot of the zone.
pub fn write(root: &Root, zonepath: &Path, uuid: Uuid) -> Result<(), Error> {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let wanted = Identity {
        uuid: Some(uuid),
        host: Some(host.clone()),
        owner: Some(host_id(root)?),
    };
    if read(zonepath) == wanted || !zonepath.is_dir() {
        return Ok(());
    }
    let owner = wanted.owner.map(|owner| format!("owner={owner}\n"));
    let text = format!(
        "format=1\nuuid={uuid}\nhost={host}\n{}",
        owner.unwrap_or_default()
    );
    Ok(atomic::replace(
        &zonepath.join(FILE),
        text.as_bytes(),
        0o600,
        Durability::Volatile,
    )?)
}

/// Returns the identity of this host, which is made when it is first needed. The identity
/// belongs to the index: both are in /etc/zones, so that names and machine ids of hosts may
/// change.
fn host_id(root: &Root) -> Result<Uuid, Error> {
    let path = root.host_id();
    if let Some(known) = known_host_id(&path) {
        return Ok(known);
    }
    let made = format!("{}\n", new_uuid()?);
    // Another command may have made it meanwhile.
    atomic::create(&path, made.as_bytes(), 0o644)?;
    known_host_id(&path)
        .ok_or_else(|| Error::Refused(format!("{}: expected a uuid", path.display())))
}

fn known_host_id(path: &Path) -> Option<Uuid> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MAX_FILE).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Returns the name of the other host that owns the zonepath; none where this host does, or
/// where no owner is known.
pub fn other_owner(root: &Root, zonepath: &Path) -> Option<String> {
    let found = read(zonepath);
    let owner = found.owner?;
    (known_host_id(&root.host_id()) != Some(owner))
        .then(|| found.host.unwrap_or_else(|| owner.to_string()))
}

/// Reads the file; it is empty where there is none, or where it is damaged.
pub fn read(zonepath: &Path) -> Identity {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(zonepath.join(FILE), flags, Mode::empty()) else {
        return Identity::default();
    };
    let mut text = String::new();
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
        // Of programs that wrote no owner.
        let old = format!("format=1\nuuid={uuid}\nhost=b\n");
        std::fs::write(folder.path().join(FILE), old).unwrap();
        assert_eq!(other_owner(&hosts[0], folder.path()), None);
        let hostile = parse("uuid=no\nhost=\u{1b}[2Ja b;c\n");
        assert_eq!(hostile.uuid, None);
        assert_eq!(hostile.host.as_deref(), Some("2Jabc"));
        assert_eq!(parse("host=\u{1b}\n"), Identity::default());
        // A folder that is gone is not made again.
        let gone = folder.path().join("gone");
        write(&hosts[0], &gone, uuid).unwrap();
        assert!(!gone.exists());
    }
}
