//! The state that the zones of one network namespace share, whatever their ZONES_ROOT.
//!
//! The state of the host's network belongs to the host. `/run/zones-network` has a folder for each
//! network namespace, named by the inode number of the namespace, which the kernel never reuses
//! until the host boots. `settings.json` in it lists the changes on the host that all zones share.
//! The folders `zones`, `addresses`, `tables`, `names` and `ports` hold a symbolic link for each
//! zone, address, routing table, link of the host and published port that a zone has. The symbolic
//! link leads to the record of this zone. A dangling symbolic link has no meaning: its zone has
//! ended, or its whole ZONES_ROOT was removed.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use model::plan::network::Published;
use net::Record;
use net::record::Held;
use store::lock;

use crate::network::error::AnyError;
use crate::network::file::read;
use crate::network::{labels, resolver};

/// The folder that holds the folders of all network namespaces, whatever the ZONES_ROOT.
const BASE: &str = "/run/zones-network";

const ZONES: &str = "zones";
const ADDRESSES: &str = "addresses";
const TABLES: &str = "tables";
const NAMES: &str = "names";
const PORTS: &str = "ports";

/// All kinds of objects that a zone can have.
const KINDS: [&str; 5] = [ZONES, ADDRESSES, TABLES, NAMES, PORTS];

/// The number of routing tables that zones may have.
const MAX_TABLES: u32 = 65_536;

/// The shared state of the calling thread's network namespace. No other process changes it while
/// this value exists.
#[derive(Debug)]
pub(super) struct Common {
    folder: PathBuf,
    _lock: fs::File,
}

/// An address that another zone has.
#[derive(Debug, thiserror::Error)]
#[error("the address {address} is in use by {owner}")]
pub(super) struct Taken {
    address: IpAddr,
    owner: String,
}

/// A port that the zone cannot publish, because its owner has it.
#[derive(Debug, thiserror::Error)]
#[error("port {port} of the host is in use by {owner}: publish another port")]
pub(super) struct PortTaken {
    port: String,
    owner: String,
}

impl Common {
    /// Waits until no other process changes the state, and creates the state's folder. Must be
    /// called in the host's namespaces.
    pub(super) fn open() -> Result<Self, AnyError> {
        let base = Path::new(BASE);
        make_folder(base)?;
        let lock = lock::exclusive(&base.join(".lock"))?;
        let folder = folder_here()?;
        if !folder.exists() {
            sweep(base);
        }
        make_folder(&folder)?;
        for kind in KINDS {
            make_folder(&folder.join(kind))?;
        }
        resolver::make_folder(&folder)?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    /// Returns the state, or nothing if no zone uses the network of this namespace. Waits until no
    /// other process changes the state. Must be called in the host's namespaces.
    pub(super) fn open_existing() -> Result<Option<Self>, AnyError> {
        let base = Path::new(BASE);
        let folder = folder_here()?;
        if !folder.exists() {
            return Ok(None);
        }
        let lock = lock::exclusive(&base.join(".lock"))?;
        Ok(is_used(&folder).then_some(Self {
            folder,
            _lock: lock,
        }))
    }

    /// Returns the folder of the state.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes the names of zones whose ZONES_ROOT was removed while they ran.
    pub(super) fn forget_names_of_the_dead(&self) {
        for file in resolver::files(&self.folder) {
            let zone = file.file_name().unwrap_or_default();
            if !is_live(&self.folder.join(ZONES).join(zone)) {
                let _ = fs::remove_file(file);
            }
        }
    }

    /// Returns the path of the file that lists the settings that were changed on the host.
    pub(super) fn settings(&self) -> PathBuf {
        self.folder.join("settings.json")
    }

    /// Records that a zone needs the host's network.
    pub(super) fn take_zone(&self, record: &Path) -> io::Result<()> {
        self.take(ZONES, &key(record), record).map(drop)
    }

    /// Records the addresses of a link. The zone may have held them while it was suspended.
    pub(super) fn take_addresses(&self, record: &Path, held: &Held) -> Result<(), AnyError> {
        for address in held.addresses.iter().map(|one| one.ip) {
            if let Some(owner) = self.take(ADDRESSES, &address.to_string(), record)? {
                let owner = whose(&owner, record);
                return Err(Taken { address, owner }.into());
            }
        }
        Ok(())
    }

    /// Records the ports of the host that a link publishes. Fails with [`PortTaken`] if another
    /// zone, or a program of the host, has one of them.
    pub(super) fn take_ports(
        &self,
        record: &Path,
        published: &[Published],
    ) -> Result<(), AnyError> {
        for port in published {
            if let Some(taken) = self.publisher_of(port, record)? {
                return Err(taken.into());
            }
            if let Some((number, owner)) = net::listeners::on(port)? {
                let port = format!("{number}/{}", port.protocol);
                return Err(PortTaken { port, owner }.into());
            }
            self.take(PORTS, &port_key(port), record)?;
        }
        Ok(())
    }

    /// Records again a port that the zone publishes already.
    pub(super) fn keep_port(&self, record: &Path, port: &Published) -> io::Result<()> {
        self.take(PORTS, &port_key(port), record).map(drop)
    }

    /// Returns the other zone that publishes one of these ports.
    fn publisher_of(
        &self,
        wanted: &Published,
        record: &Path,
    ) -> Result<Option<PortTaken>, AnyError> {
        for owner in self.publishers() {
            if owner == record || is_of_same_zone(&owner, record) {
                continue;
            }
            let Some(theirs) = read::<Record>(&owner)? else {
                continue;
            };
            let mut ports = theirs.links.iter().flat_map(|held| &held.published);
            if let Some(port) = ports.find(|port| port.overlaps(wanted)) {
                return Ok(Some(PortTaken {
                    port: port.to_string(),
                    owner: whose(&owner, record),
                }));
            }
        }
        Ok(None)
    }

    /// Removes the records of a zone's published ports.
    pub(super) fn leave_ports(&self, record: &Path, published: &[Published]) {
        for port in published {
            self.forget(PORTS, &port_key(port), record);
        }
    }

    /// Returns the records of all zones that publish ports.
    pub(super) fn publishers(&self) -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(self.folder.join(PORTS)).into_iter().flatten();
        let links = entries.flatten().map(|entry| entry.path());
        let owners = links.filter_map(|link| fs::read_link(link).ok());
        owners.filter(|owner| is_there(owner)).collect()
    }

    /// Records everything of a link that exists already. An address that another zone has meanwhile
    /// stays with that zone.
    pub(super) fn take_known(&self, record: &Path, held: &Held) -> io::Result<()> {
        if held.routed {
            for address in &held.addresses {
                self.take(ADDRESSES, &address.ip.to_string(), record)?;
            }
        }
        for name in held.host.iter().chain(&held.outer) {
            self.take(NAMES, name, record)?;
        }
        let table = held.table.as_ref();
        let table = table.and_then(|(table, _)| table.checked_sub(net::make::FIRST_TABLE));
        if let Some(table) = table {
            self.take(TABLES, &table.to_string(), record)?;
        }
        Ok(())
    }

    /// Records the addresses that a suspended zone holds.
    pub(super) fn take_held(&self, file: &Path, addresses: &[IpAddr]) -> io::Result<()> {
        for address in addresses {
            self.take(ADDRESSES, &address.to_string(), file)?;
        }
        self.take_zone(file)
    }

    /// Removes the records of the addresses that a suspended zone held.
    pub(super) fn leave_held(&self, file: &Path, addresses: &[IpAddr]) {
        for address in addresses {
            self.forget(ADDRESSES, &address.to_string(), file);
        }
        self.leave_zone(file);
    }

    /// Takes the first routing table that no zone has.
    pub(super) fn take_table(&self, record: &Path) -> Result<u32, AnyError> {
        for number in 0..MAX_TABLES {
            let link = self.folder.join(TABLES).join(number.to_string());
            // The table that the zone itself recorded may belong to another of its links.
            if is_live(&link) {
                continue;
            }
            self.take(TABLES, &number.to_string(), record)?;
            return Ok(net::make::FIRST_TABLE + number);
        }
        Err("every table of routes for links of zones is in use".into())
    }

    /// Reserves a name for a link of the host. Returns false if another zone has it.
    pub(super) fn take_name(&self, record: &Path, name: &str) -> io::Result<bool> {
        Ok(self.take(NAMES, name, record)?.is_none())
    }

    /// Reserves a name. Returns the record of the other zone that has it already, if there is one.
    fn take(&self, kind: &str, name: &str, record: &Path) -> io::Result<Option<PathBuf>> {
        let link = self.folder.join(kind).join(name);
        match fs::read_link(&link) {
            Ok(owner) if owner == record => return Ok(None),
            Ok(owner) if is_there(&owner) && !is_of_same_zone(&owner, record) => {
                return Ok(Some(owner));
            }
            Ok(owner) => {
                // The former owner has ended without a trace: its name must not lead to the new one.
                let _ = fs::remove_file(resolver::file_of(&self.folder, &owner));
                fs::remove_file(&link)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        symlink(record, &link)?;
        Ok(None)
    }

    /// Removes the records of a zone for these links.
    pub(super) fn leave(&self, record: &Path, was: &Record) {
        // If this fails, the addresses stay known as a zone's. The next boot of a zone with a label
        // writes the map again.
        let _ = labels::leave(&self.folder, &self.link_records(), record, &was.links);
        for held in &was.links {
            for address in &held.addresses {
                self.forget(ADDRESSES, &address.ip.to_string(), record);
            }
            for name in held.host.iter().chain(&held.outer) {
                self.forget(NAMES, name, record);
            }
            self.leave_ports(record, &held.published);
        }
    }

    /// Frees the routing tables of links. The stored record must no longer name them: if the caller
    /// is killed, the next command releases what the record names, and with it the routes of the
    /// zone that has taken the table meanwhile.
    pub(super) fn leave_tables(&self, record: &Path, was: &Record) {
        let tables = was.links.iter().filter_map(|held| held.table.as_ref());
        for table in tables.filter_map(|(table, _)| table.checked_sub(net::make::FIRST_TABLE)) {
            self.forget(TABLES, &table.to_string(), record);
        }
    }

    /// Removes the record that a zone needs the host's network.
    pub(super) fn leave_zone(&self, record: &Path) {
        self.forget(ZONES, &key(record), record);
        let _ = fs::remove_file(resolver::file_of(&self.folder, record));
    }

    fn forget(&self, kind: &str, name: &str, record: &Path) {
        let link = self.folder.join(kind).join(name);
        if fs::read_link(&link).is_ok_and(|owner| owner == record) {
            let _ = fs::remove_file(&link);
        }
    }

    /// Returns whether any zone needs the host's network.
    pub(super) fn is_used(&self) -> bool {
        is_used(&self.folder)
    }

    /// Returns the records of all zones that need the host's network.
    pub(super) fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.join(ZONES)).into_iter().flatten();
        let links = entries.flatten().map(|entry| entry.path());
        let owners = links.filter_map(|link| fs::read_link(link).ok());
        owners.filter(|owner| is_there(owner)).collect()
    }

    /// Returns the records of the links of all zones for which the host routes.
    pub(super) fn link_records(&self) -> Vec<PathBuf> {
        let mut records = self.records();
        records.retain(|path| !is_hold(path));
        records
    }

    /// Returns whether a suspended zone holds addresses.
    pub(super) fn has_holds(&self) -> bool {
        self.records().iter().any(|path| is_hold(path))
    }

    /// Removes the whole state when no zone needs the host's network any more.
    pub(super) fn remove(self) {
        remove(&self.folder);
    }
}

/// Returns the record of the zone that has an address in the calling thread's network namespace, if
/// one is known.
pub(super) fn owner_of(address: IpAddr) -> io::Result<Option<PathBuf>> {
    let link = folder_here()?.join(ADDRESSES).join(address.to_string());
    match fs::read_link(link) {
        Ok(owner) => Ok(Some(owner).filter(|owner| is_there(owner))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn folder_here() -> io::Result<PathBuf> {
    Ok(Path::new(BASE).join(sys::link::network_cookie()?.to_string()))
}

pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Returns false if it is certain that the file does not exist.
fn is_there(path: &Path) -> bool {
    !matches!(path.try_exists(), Ok(false))
}

fn is_live(link: &Path) -> bool {
    fs::read_link(link).is_ok_and(|owner| is_there(&owner))
}

/// Returns whether two records belong to one zone: the record of its links, and the record of the
/// addresses that it holds while it is suspended.
fn is_of_same_zone(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| path.with_extension("");
    of(one) == of(other)
}

/// Returns whether the file records the addresses that a suspended zone holds.
fn is_hold(record: &Path) -> bool {
    record
        .extension()
        .is_some_and(|extension| extension == "held")
}

/// Returns a short name for a record. Two records have the same name only by an improbable
/// collision.
pub(super) fn key(record: &Path) -> String {
    let hash = hash(record.as_os_str().as_encoded_bytes());
    let zone = record.file_stem().unwrap_or_default().to_string_lossy();
    format!("{zone}-{hash:016x}")
}

/// Returns the FNV-1a hash with 64 bits: security does not depend on it.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns a description of the owner of a record, for a message to the owner of another record.
fn whose(owner: &Path, record: &Path) -> String {
    let zone = owner.file_stem().unwrap_or_default().to_string_lossy();
    if owner.parent() == record.parent() {
        return format!("zone '{zone}'");
    }
    format!("zone '{zone}' of ZONES_ROOT {}", root_of(owner).display())
}

/// Returns the ZONES_ROOT of a record. The record's path is
/// `ZONES_ROOT/run/zones/network/ZONE.json`.
pub(super) fn root_of(record: &Path) -> &Path {
    record.ancestors().nth(4).unwrap_or(Path::new("/"))
}

/// Returns the file name of a published port in the folder of ports.
fn port_key(port: &Published) -> String {
    port.to_string().replace('/', "-")
}

fn is_used(folder: &Path) -> bool {
    let entries = fs::read_dir(folder.join(ZONES)).into_iter().flatten();
    entries.flatten().any(|entry| is_live(&entry.path()))
}

/// Removes the folders of network namespaces that no zone uses any more. Most of these namespaces
/// do not exist any more.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !is_used(&path) {
            remove(&path);
        }
    }
}

/// Removes a folder that this program created, but no file that another program put into it.
fn remove(folder: &Path) {
    resolver::remove(folder);
    for kind in KINDS {
        let within = folder.join(kind);
        let entries = fs::read_dir(&within).into_iter().flatten().flatten();
        // A zone that does not need the host's network has its names here, too.
        for link in entries
            .map(|entry| entry.path())
            .filter(|link| !is_live(link))
        {
            let _ = fs::remove_file(link);
        }
        let _ = fs::remove_dir(within);
    }
    let _ = fs::remove_file(folder.join("settings.json"));
    labels::remove(folder);
    let _ = fs::remove_dir(folder);
}
