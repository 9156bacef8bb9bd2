//! The network of a zone, and what the host holds of it: `/run/zones/network`.
//!
//! `ZONE.json` says what there is to take back for a zone, `.host.json` what was changed
//! for all of them together, and `ZONE.ns` holds the network namespace of a zone that
//! has links of the host's. They are written before what they say is done.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use model::plan::network::{Link, Subnet};
use model::table::Address;
use model::{Config, ZoneName};
use net::host::{HostLink, Way};
use net::host_side::{self, Needs, Settings};
use net::plan::{Facts, Owner};
use net::record::Held;
use net::{Ends, Record};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::atomic::{self, Durability};
use store::index::{Entry, Index};
use store::lock;

use crate::{Error, Host, flatten, subject};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Does something in the host's mount namespace.
type InMountsOfHost<'a> = &'a dyn Fn(&dyn Fn() -> Result<(), AnyError>) -> Result<(), AnyError>;

/// Largest file that is read, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// The links of a zone on this host.
///
/// # Errors
/// [`Error::Refused`] with what cannot be had here.
pub(crate) fn links(config: &Config, entry: &Entry) -> Result<Vec<Link>, Error> {
    let has = |resource| config.resources_of(resource).next().is_some();
    if !has("net") && !has("anet") {
        return Ok(Vec::new());
    }
    let kernel = net::Netlink::open().map_err(Error::io("look at the host's links"))?;
    let owner = Owner {
        uuid: entry.uuid,
        slot: entry.slot,
        random: true,
    };
    net::plan::links(config, owner, &kernel)
        .map_err(|error| Error::Refused(format!("{}.", flatten(&error))))
}

/// The links of a zone that is up, by one of the configurations that are compared.
pub(crate) fn links_of_running(
    host: &Host,
    config: &Config,
    entry: &Entry,
) -> Result<Vec<Link>, Error> {
    let record = Records::of(&host.root).load(&entry.name);
    let record = record.map_err(Error::Daemon)?.unwrap_or_default();
    let kernel = net::Netlink::open().map_err(Error::io("look at the host's links"))?;
    let facts = WithMoved { kernel, record };
    let owner = Owner {
        uuid: entry.uuid,
        slot: entry.slot,
        random: false,
    };
    net::plan::links(config, owner, &facts)
        .map_err(|error| Error::Refused(format!("{}.", flatten(&error))))
}

/// The host's links, and those that it has lent to the zone.
struct WithMoved {
    kernel: net::Netlink,
    record: Record,
}

impl Facts for WithMoved {
    fn link(&self, name: &str) -> io::Result<Option<HostLink>> {
        let lent = self.record.moved().any(|(moved, _)| moved == name);
        match Facts::link(&self.kernel, name)? {
            None if lent => Ok(Some(HostLink::lent(name))),
            found => Ok(found),
        }
    }

    fn link_at(&self, index: u32) -> io::Result<Option<HostLink>> {
        Facts::link_at(&self.kernel, index)
    }

    fn way_out(&self) -> io::Result<Option<Way>> {
        Facts::way_out(&self.kernel)
    }

    fn addresses(&self, link: u32) -> io::Result<Vec<Subnet>> {
        Facts::addresses(&self.kernel, link)
    }
}

/// What keeps a zone from having its links on this host, beside what other zones have.
///
/// # Errors
/// When the configuration of another zone cannot be read.
pub(crate) fn problems(
    host: &Host,
    config: &Config,
    entry: &Entry,
    index: &Index,
) -> Result<Vec<String>, Error> {
    let mut problems = Vec::new();
    // What a running zone has is its own.
    let is_up = Records::of(&host.root)
        .load(&entry.name)
        .is_ok_and(|known| known.is_some());
    if !is_up {
        if let Err(error) = links(config, entry) {
            problems.push(explained(host, config, error).to_string());
        }
    }
    let own = addresses(config);
    if !is_up && !own.is_empty() {
        let kernel = net::Netlink::open().and_then(|kernel| kernel.all_addresses());
        let of_host = kernel.map_err(Error::io("look at the host's addresses"))?;
        let is_of_host = |ip: &&IpAddr| of_host.iter().any(|(_, has)| has.ip == **ip);
        let taken = own.iter().filter(is_of_host);
        problems.extend(taken.map(|ip| format!("the address {ip} is the host's own.")));
    }
    if own.is_empty() {
        return Ok(problems);
    }
    for other in index
        .entries()
        .iter()
        .filter(|other| other.name != entry.name)
    {
        let theirs = addresses(&store::xml::load(&host.root, &other.name)?);
        for address in own.iter().filter(|address| theirs.contains(address)) {
            problems.push(format!("the address {address} is zone '{}''s.", other.name));
        }
    }
    Ok(problems)
}

/// The addresses that a configuration names.
pub(crate) fn addresses(config: &Config) -> Vec<IpAddr> {
    let resources = ["net", "anet"]
        .into_iter()
        .flat_map(|name| config.resources_of(name));
    let texts = resources.flat_map(|one| [one.get("address"), one.get("allowed-address")]);
    let parts = texts.flat_map(|text| text.split(','));
    parts
        .filter_map(|one| one.trim().parse::<Address>().ok())
        .map(|address| address.ip)
        .collect()
}

/// [`links`] of a zone that is to boot. A link that is missing may be in a zone that
/// died together with its zoneadmd: then it is brought back first.
pub(crate) fn links_to_make(
    host: &Host,
    config: &Config,
    entry: &Entry,
) -> Result<Vec<Link>, Error> {
    let error = match links(config, entry) {
        Err(error @ Error::Refused(_)) => error,
        other => return other,
    };
    let records = Records::of(&host.root);
    let nets = config.resources_of("net");
    let owners = nets.filter_map(|net| records.who_has(net.get("physical")));
    let mut is_tidied = false;
    for owner in owners.filter_map(|owner| owner.parse::<ZoneName>().ok()) {
        // What cannot be brought back is where the error says.
        is_tidied |= subject::tidy(host, &owner).is_ok();
    }
    match is_tidied {
        true => links(config, entry).map_err(|error| explained(host, config, error)),
        false => Err(explained(host, config, error)),
    }
}

/// A link that the host does not have may be in another zone.
pub(crate) fn explained(host: &Host, config: &Config, error: Error) -> Error {
    let Error::Refused(text) = error else {
        return error;
    };
    let records = Records::of(&host.root);
    let names = config.resources_of("net").map(|net| net.get("physical"));
    for name in names.filter(|name| text.starts_with(&format!("net {name}: the host has no"))) {
        if let Some(owner) = records.who_has(name) {
            return Error::Refused(format!("net {name}: zone '{owner}' has it."));
        }
    }
    Error::Refused(text)
}

/// A zone that is up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Up {
    /// Its numeric id.
    pub id: u32,
    /// Its first process.
    pub init: i32,
}

/// Where the records of a host are.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

impl Records {
    /// In this folder.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Those of a host.
    #[must_use]
    pub fn of(root: &store::Root) -> Self {
        Self::at(&root.network())
    }

    fn record(&self, zone: &str) -> PathBuf {
        self.folder.join(format!("{zone}.json"))
    }

    fn pinned(&self, zone: &ZoneName) -> PathBuf {
        self.folder.join(format!("{zone}.ns"))
    }

    fn settings(&self) -> PathBuf {
        self.folder.join(".host.json")
    }

    fn lock(&self) -> Result<fs::File, store::Error> {
        lock::exclusive(&self.folder.join(".lock"))
    }

    /// What the host holds for a zone; `None` when it holds nothing.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn load(&self, zone: &ZoneName) -> Result<Option<Record>, String> {
        read(&self.record(zone.as_str()))
    }

    /// Whether the host holds something for a zone.
    pub(crate) fn has(&self, zone: &ZoneName) -> bool {
        self.record(zone.as_str()).exists()
    }

    /// The zone that a link of the host is in.
    fn who_has(&self, nic: &str) -> Option<String> {
        let files = fs::read_dir(&self.folder).ok()?;
        files.flatten().find_map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            let zone = name
                .strip_suffix(".json")
                .filter(|zone| !zone.starts_with('.'))?;
            let record: Record = read(&file.path()).ok()??;
            let has = record.moved().any(|(moved, _)| moved == nic);
            has.then(|| zone.to_owned())
        })
    }

    /// Whether the host holds something for any zone.
    fn is_used(&self) -> bool {
        let Ok(files) = fs::read_dir(&self.folder) else {
            return false;
        };
        files.flatten().any(|file| {
            let name = file.file_name();
            let name = name.to_string_lossy();
            name.ends_with(".json") && !name.starts_with('.')
        })
    }

    /// Makes a zone's links. `host` and `inside` are the network namespaces of both; the
    /// calling thread may be in either. `in_mounts_of_host` does something in the host's
    /// mount namespace.
    pub(crate) fn make(
        &self,
        zone: &ZoneName,
        id: u32,
        links: &[Link],
        host: OwnedFd,
        inside: OwnedFd,
        in_mounts_of_host: InMountsOfHost<'_>,
    ) -> Result<Vec<String>, AnyError> {
        let whose = net::make::Zone { name: zone, id };
        let mut record = net::make::intent(whose, links, 0);
        let ends = Ends::open(host, inside)?;
        record.namespace = net::ends::within(ends.host_namespace(), net::ends::number)??;
        let needs = Needs::of(links);
        let remarks = {
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(&self.folder)?;
            let _lock = self.lock()?;
            save(&self.record(zone.as_str()), &record)?;
            match needs.is_nothing() {
                true => Vec::new(),
                false => net::ends::within(ends.host_namespace(), || self.prepare(&needs))??,
            }
        };
        if record.moved().next().is_some() {
            let pin = || self.pin(zone, ends.zone_namespace());
            in_mounts_of_host(&pin)?;
        }
        let active = |other: &str| self.record(other).exists();
        let made = net::make::make(whose, links, &ends, &mut record, &active);
        // Also when not all could be made: names may be others than were meant.
        save(&self.record(zone.as_str()), &record)?;
        made?;
        Ok(remarks)
    }

    /// Changes the links of a zone that is up: those of `before` become those of `after`.
    /// A link of which anything is different is made anew. To be called in the host's
    /// namespaces, under the zone's lock.
    pub(crate) fn change(
        &self,
        zone: &ZoneName,
        up: Up,
        before: &[Link],
        after: &[Link],
    ) -> Result<Vec<String>, AnyError> {
        let mut record = self.load(zone)?.unwrap_or_default();
        let stays = |held: &Held| {
            let link = |list: &[Link]| list.iter().find(|link| link.name == held.name).cloned();
            link(after).is_some() && link(before) == link(after)
        };
        let (kept, gone): (Vec<Held>, Vec<Held>) = record.links.drain(..).partition(stays);
        let is_new = |link: &&Link| kept.iter().all(|held| held.name != link.name);
        let new: Vec<Link> = after.iter().filter(is_new).cloned().collect();
        let path = PathBuf::from(format!("/proc/{}/ns/net", up.init));
        let whose = net::make::Zone {
            name: zone,
            id: up.id,
        };
        record.namespace = net::ends::number()?;
        let going = Record {
            links: gone,
            ..record.clone()
        };
        net::remove(&going, &path).map_err(|errors| errors.join("; "))?;
        let mut coming = net::make::intent(whose, &new, record.numbers);
        record.numbers = coming.numbers;
        record.links = kept;
        let both = |coming: &Record| Record {
            links: record.links.iter().chain(&coming.links).cloned().collect(),
            ..record.clone()
        };
        let needs = Needs::of(&new);
        let remarks = {
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(&self.folder)?;
            let _lock = self.lock()?;
            save(&self.record(zone.as_str()), &both(&coming))?;
            match needs.is_nothing() {
                true => Vec::new(),
                false => self.prepare(&needs)?,
            }
        };
        let inside = net::ends::namespace(&path)?;
        if coming.moved().next().is_some() && !self.pinned(zone).exists() {
            self.pin(zone, inside.as_fd())?;
        }
        let ends = Ends::open(net::ends::here()?, inside)?;
        let active = |other: &str| self.record(other).exists();
        let made = net::make::make(whose, &new, &ends, &mut coming, &active);
        save(&self.record(zone.as_str()), &both(&coming))?;
        made?;
        Ok(remarks)
    }

    fn prepare(&self, needs: &Needs) -> Result<Vec<String>, AnyError> {
        let path = self.settings();
        let mut settings: Settings = read(&path)?.unwrap_or_default();
        let mut store = |settings: &Settings| save(&path, settings);
        Ok(host_side::prepare(needs, &mut settings, &mut store)??)
    }

    /// Holds the zone's network namespace, so that the host's links in it can come back
    /// whatever becomes of the zone. To be called in the host's mount namespace.
    fn pin(&self, zone: &ZoneName, namespace: BorrowedFd<'_>) -> Result<(), AnyError> {
        let path = self.pinned(zone);
        fs::write(&path, "")?;
        let mount = sys::mount::open_tree(namespace, Path::new(""), sys::mount::Extent::One)?;
        Ok(sys::mount::attach(&mount, rustix::fs::CWD, &path)?)
    }

    /// Takes back what the host holds for a zone, and with the last zone what it holds
    /// for all. To be called in the host's namespaces, when no process of the zone is
    /// left.
    ///
    /// # Errors
    /// All that went wrong; the record then stays.
    pub fn release(&self, zone: &ZoneName) -> Result<(), String> {
        let Some(record) = self.load(zone)? else {
            return Ok(());
        };
        let mut failed = Vec::new();
        let pinned = self.pinned(zone);
        let is_pinned = pinned.exists();
        let held = is_pinned.then_some(pinned.as_path());
        if let Err(mut errors) = net::release(&record, held) {
            failed.append(&mut errors);
        }
        if is_pinned && failed.is_empty() {
            failed.extend(unpin(&pinned).err());
        }
        if !failed.is_empty() {
            return Err(failed.join("; "));
        }
        let _lock = self.lock().map_err(|error| flatten(&error))?;
        let path = self.record(zone.as_str());
        fs::remove_file(&path)
            .map_err(|error| format!("could not remove {}: {error}", path.display()))?;
        if self.is_used() {
            return Ok(());
        }
        let path = self.settings();
        if let Some(settings) = read::<Settings>(&path)? {
            host_side::restore(&settings).map_err(|errors| errors.join("; "))?;
            fs::remove_file(&path)
                .map_err(|error| format!("could not remove {}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// [`release`](Self::release) from a thread in another network namespace.
    pub(crate) fn release_in(&self, host: &OwnedFd, zone: &ZoneName) -> Result<(), String> {
        net::ends::within(host.as_fd(), || self.release(zone))
            .map_err(|error| format!("could not go back to the host's network: {error}"))?
    }
}

fn unpin(path: &Path) -> Result<(), String> {
    match sys::mount::detach(path) {
        // Not mounted: the zone died before it was.
        Err(error) if error.errno() == rustix::io::Errno::INVAL.raw_os_error() => {}
        other => other.map_err(|error| flatten(&error))?,
    }
    fs::remove_file(path).map_err(|error| format!("could not remove {}: {error}", path.display()))
}

fn save(path: &Path, what: &impl Serialize) -> Result<(), AnyError> {
    let text = serde_json::to_vec(what)?;
    Ok(atomic::replace(path, &text, 0o644, Durability::Volatile)?)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    let fail = |why: String| format!("could not read {}: {why}", path.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error.to_string())),
        Ok(meta) if meta.len() > MAX_SIZE => return Err(fail("too large".to_owned())),
        Ok(_) => {}
    }
    let text = fs::read(path).map_err(|error| fail(error.to_string()))?;
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| fail(error.to_string()))
}
