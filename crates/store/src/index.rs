//! `/etc/zones/index` has one line per zone: `name:state:zonepath:uuid:slot`.
//!
//! The first four fields are those of Solaris. The field `slot` is an addition: the number of the
//! zone's range of [`IDS_PER_ZONE`] user and group ids. Lines that begin with `#` are kept. As on
//! Solaris, a zonepath with a colon is in double quotes.
//!
//! Only the states `configured`, `incomplete` and `installed` are stored. The kernel knows the
//! other states; see [`crate::runtime`].

mod pending;
mod reader;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::{State, Uuid, ZoneName};

use crate::lock::{self, Wait};
use crate::{Damage, Error, Root, atomic, format};

pub use pending::{Pending, Way};
pub use reader::Reader;

/// Number of user and group ids of each zone.
pub const IDS_PER_ZONE: u32 = 65_536;

/// First id of slot 0. The range 0x20000000-0x6fffffff is inside the range that systemd leaves to
/// container managers (524288-1879048191). The range is also far above the ranges that useradd
/// assigns in /etc/subuid (from 100000 up).
pub const FIRST_ID: u32 = 0x2000_0000;

/// Maximum number of zones that have their own ids.
pub const SLOTS: u32 = (0x7000_0000 - FIRST_ID) / IDS_PER_ZONE;

/// Maximum size of the index in bytes: enough for 100,000 zones with long paths.
const MAX_SIZE: u64 = 64 << 20;

/// The index format that this program writes. An index without a format line has format 1.
const FORMAT: u64 = 1;

/// Usual length of a line in bytes, from which the number of lines is estimated.
const USUAL_LINE: usize = 64;

const HEADER: &str = "# Zones of this host: name:state:zonepath:uuid:slot\n# Written by zonecfg and zoneadm; change it with them.\n";

/// The entry of a zone in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the zone.
    pub name: ZoneName,
    /// The stored state: `configured`, `incomplete` or `installed`.
    pub state: State,
    /// The zonepath as configured, with its tokens expanded, but without the alternate root.
    pub zonepath: PathBuf,
    /// The UUID, which the installation assigns.
    pub uuid: Option<Uuid>,
    /// The number of the id range, which the installation assigns.
    pub slot: Option<u32>,
}

impl Entry {
    /// Returns the entry of a zone that is configured but not installed.
    #[must_use]
    pub fn configured(name: ZoneName, zonepath: PathBuf) -> Self {
        Self {
            name,
            state: State::Configured,
            zonepath,
            uuid: None,
            slot: None,
        }
    }

    /// Returns the host id that is id 0 of the zone.
    #[must_use]
    pub fn first_id(&self) -> Option<u32> {
        self.slot.map(|slot| FIRST_ID + slot * IDS_PER_ZONE)
    }
}

/// The whole index, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    comments: String,
    entries: Vec<Entry>,
    /// The moves and renames that have begun and not ended.
    pending: Vec<Pending>,
}

impl Index {
    /// Reads the index. A missing file is an empty index.
    ///
    /// # Errors
    /// Fails with [`Error::Damaged`], which names the first line that cannot be parsed.
    pub fn load(root: &Root) -> Result<Self, Error> {
        let path = root.index();
        if let Ok(meta) = fs::metadata(&path) {
            too_large(&meta, &path)?;
        }
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::file("read", &path)(error)),
        }
    }

    /// Parses the text of an index. `path` is used only in error messages.
    ///
    /// # Errors
    /// Fails with [`Error::Damaged`], which names the first line that cannot be parsed.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        format::check_lines(path, text, FORMAT)?;
        let mut index = Self::default();
        let expected = text.len() / USUAL_LINE;
        index.entries.reserve(expected);
        let mut names = HashSet::with_capacity(expected);
        // The line number of each used slot.
        let mut slots: HashMap<u32, usize> = HashMap::with_capacity(expected);
        for (number, line) in text.lines().enumerate() {
            if let Some(pending) = Pending::parse(line) {
                index.pending.push(pending);
                continue;
            }
            if line.starts_with('#') || line.trim().is_empty() {
                index.comments.push_str(line);
                index.comments.push('\n');
                continue;
            }
            let line_number = number + 1;
            let damaged = |reason| Error::Damaged {
                path: path.to_owned(),
                line: line_number,
                reason: Box::new(reason),
            };
            let Some(entry) = parse_line(line).map_err(damaged)? else {
                continue;
            };
            if !names.insert(line.split(':').next()) {
                return Err(damaged(Damage::SecondZone(entry.name)));
            }
            // The processes of two zones with the same ids could read and kill each other.
            if let Some(other) = entry.slot.and_then(|slot| slots.insert(slot, line_number)) {
                return Err(damaged(Damage::SecondSlot(other)));
            }
            index.entries.push(entry);
        }
        Ok(index)
    }

    /// Returns the entries of all zones except the global zone, in the order of the file.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the entry of the zone with that name.
    ///
    /// # Errors
    /// Fails with [`Error::NoSuchZone`].
    pub fn get(&self, name: &ZoneName) -> Result<&Entry, Error> {
        self.find(name)
            .ok_or_else(|| Error::NoSuchZone(name.clone()))
    }

    /// Returns the entry of the zone with that name, or `None` if the zone does not exist.
    #[must_use]
    pub fn find(&self, name: &ZoneName) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == *name)
    }

    /// Returns the entry of the zone with this UUID.
    #[must_use]
    pub fn by_uuid(&self, uuid: Uuid) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.uuid == Some(uuid))
    }

    /// Adds a zone or replaces the entry of the same name.
    pub fn put(&mut self, entry: Entry) {
        match self
            .entries
            .iter_mut()
            .find(|there| there.name == entry.name)
        {
            Some(there) => *there = entry,
            None => self.entries.push(entry),
        }
    }

    /// Removes a zone and returns its entry.
    pub fn remove(&mut self, name: &ZoneName) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.name == *name)?;
        Some(self.entries.remove(at))
    }

    /// Renames a zone, which keeps its position in the index.
    ///
    /// # Errors
    /// Fails with [`Error::NoSuchZone`].
    pub fn rename(&mut self, from: &ZoneName, to: ZoneName) -> Result<(), Error> {
        let entry = self.entries.iter_mut().find(|entry| entry.name == *from);
        entry.ok_or_else(|| Error::NoSuchZone(from.clone()))?.name = to;
        Ok(())
    }

    /// Returns the `count` lowest free slots.
    ///
    /// # Errors
    /// Fails with [`Error::NoIdsLeft`].
    pub fn free_slots(&self, count: usize) -> Result<Vec<u32>, Error> {
        let mut used = vec![false; SLOTS as usize];
        for slot in self.entries.iter().filter_map(|entry| entry.slot) {
            used[slot as usize] = true;
        }
        let free: Vec<u32> = (0..SLOTS)
            .filter(|slot| !used[*slot as usize])
            .take(count)
            .collect();
        if free.len() == count {
            Ok(free)
        } else {
            Err(Error::NoIdsLeft)
        }
    }

    /// Returns true if no two entries have the same name or the same slot.
    fn is_unique(&self) -> bool {
        let mut names = HashSet::with_capacity(self.entries.len());
        let mut slots = HashSet::with_capacity(self.entries.len());
        self.entries.iter().all(|entry| {
            names.insert(&entry.name) && entry.slot.is_none_or(|slot| slots.insert(slot))
        })
    }

    /// Returns the text of the whole index.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = if self.comments.is_empty() {
            HEADER.to_owned()
        } else {
            self.comments.clone()
        };
        if !text.lines().any(|line| line.starts_with(format::LINE)) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}{FORMAT}", format::LINE);
        }
        for pending in &self.pending {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{pending}");
        }
        text.push_str("global:installed:/\n");
        for entry in &self.entries {
            let path = entry.zonepath.display();
            let quote = if entry
                .zonepath
                .as_os_str()
                .as_encoded_bytes()
                .contains(&b':')
            {
                "\""
            } else {
                ""
            };
            let uuid = entry.uuid.map(|uuid| uuid.to_string()).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "{}:{}:{quote}{path}{quote}:{uuid}",
                entry.name, entry.state
            );
            if let Some(slot) = entry.slot {
                let _ = write!(text, ":{slot}");
            }
            text.push('\n');
        }
        text
    }
}

/// Changes the index under its lock: loads the index, calls `change`, and writes the index if
/// `change` modified it.
///
/// # Errors
/// Fails with the error of `change`, or with [`Error`]. If the call fails, the index stays
/// unchanged.
pub fn update<T, E: From<Error>>(
    root: &Root,
    change: impl FnOnce(&mut Index) -> Result<T, E>,
) -> Result<T, E> {
    let lock_path = root.run().join("index.lock");
    let _held = lock::take(&lock_path, Wait::Yes).map_err(Error::file("lock", &lock_path))?;
    let before = Index::load(root)?;
    let mut index = before.clone();
    let result = change(&mut index)?;
    if index != before {
        let path = root.index();
        let text = index.render();
        check_readable(&before, &index, &path)?;
        atomic::write(&path, text.as_bytes(), 0o644)?;
    }
    Ok(result)
}

/// Fails if the index would be read back differently. A zonepath that a line cannot hold must not
/// become a line of its own. An entry of `before` was read from the file, so it is not read back again if
/// it is unchanged: a host can have thousands of zones.
fn check_readable(before: &Index, index: &Index, path: &Path) -> Result<(), Error> {
    let known: HashMap<&ZoneName, &Entry> = before
        .entries
        .iter()
        .map(|entry| (&entry.name, entry))
        .collect();
    let entries = index.entries.iter();
    let changed = Index {
        comments: index.comments.clone(),
        entries: entries
            .filter(|entry| known.get(&entry.name) != Some(entry))
            .cloned()
            .collect(),
        pending: index.pending.clone(),
    };
    let why = match Index::parse(&changed.render(), path) {
        Ok(read) if read.entries != changed.entries || read.pending != changed.pending => {
            "an entry would be read as another".to_owned()
        }
        Ok(_) if !index.is_unique() => {
            "two entries would have the same name or the same ids".to_owned()
        }
        Ok(_) => return Ok(()),
        Err(error) => format!("it could not be read back: {error}"),
    };
    Err(Error::file("write", path)(std::io::Error::new(
        ErrorKind::InvalidInput,
        why,
    )))
}

fn too_large(meta: &fs::Metadata, path: &Path) -> Result<(), Error> {
    if meta.len() <= MAX_SIZE {
        return Ok(());
    }
    Err(Error::Damaged {
        path: path.to_owned(),
        line: 1,
        reason: Box::new(Damage::TooLarge { max: MAX_SIZE }),
    })
}

/// Parses one line. Returns `None` for the line of the global zone.
fn parse_line(line: &str) -> Result<Option<Entry>, Damage> {
    let (name, rest) = line.split_once(':').ok_or(Damage::NoState)?;
    let (state, rest) = rest.split_once(':').ok_or(Damage::NoZonepath)?;
    let state: State = state.parse()?;
    if name == model::name::GLOBAL {
        return Ok(None);
    }
    let (zonepath, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or(Damage::OpenQuote)?,
        None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
    };
    if state > State::Installed {
        return Err(Damage::StoredState(state));
    }
    let mut fields = rest
        .split(':')
        .skip(1)
        .map(|field| Some(field).filter(|text| !text.is_empty()));
    let uuid = fields.next().flatten().map(str::parse).transpose();
    let slot = fields.next().flatten().map(str::parse).transpose();
    let slot: Option<u32> = slot.map_err(|_| Damage::SlotNumber)?;
    if slot.is_some_and(|slot| slot >= SLOTS) {
        return Err(Damage::Slot(SLOTS));
    }
    Ok(Some(Entry {
        name: name.parse()?,
        state,
        zonepath: PathBuf::from(zonepath),
        uuid: uuid?,
        slot,
    }))
}

#[cfg(test)]
mod tests;
