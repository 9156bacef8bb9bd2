//! Sets up the network of a zone and the host's side of it: `/run/zones/network`.
//!
//! `ZONE.json` lists the changes on the host that must be undone for a zone, and `ZONE.ns` keeps
//! the network namespace of a zone that has links of the host. Both are written before the changes
//! are made. `common` holds the changes that all zones of the host share.

mod common;
mod error;
mod file;
pub mod host_network;
pub mod labels;
mod published;
pub mod resolver;

use std::cell::RefCell;
use std::fs::{self, DirBuilder};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use model::plan::network::{Link, LinkLabel, Subnet};
use model::table::Address;
use model::{Config, ZoneName};
use net::host::{HostLink, Way};
use net::host_side::{self, Needs, Settings};
use net::make::HostLabel;
use net::netlink::Netlink;
use net::plan::{Facts, Owner};
use net::record::Held;
use net::{Ends, Record};
use serde::{Deserialize, Serialize};
use store::index::{Entry, Index};

use crate::network::common::Common;
use host::{Error, Host, flatten};

use error::AnyError;
use file::{read, save};

pub use error::NetworkError;

/// The links of a zone that is booting.
#[derive(Debug)]
pub struct MadeLinks {
    /// The remarks about the host's side of the links, for the user.
    pub remarks: Vec<String>,
    /// The sockets that announced the addresses; they are closed when the zone has booted.
    pub announced: Vec<OwnedFd>,
}

/// The reservations and preparations for new links.
#[derive(Debug, Default)]
struct Begun {
    remarks: Vec<String>,
    label: Option<HostLabel>,
}

/// Calls a function in the host's mount namespace.
type InMountsOfHost<'a> = &'a dyn Fn(&dyn Fn() -> Result<(), AnyError>) -> Result<(), AnyError>;

/// Returns the links of a zone on this host.
///
/// # Errors
/// Fails with [`Error::Refused`], which names the address or link that this host cannot give.
pub fn links(host: &Host, config: &Config, entry: &Entry) -> Result<Vec<Link>, Error> {
    let has = |resource| config.resources_of(resource).next().is_some();
    if !has("net") && !has("anet") {
        return Ok(Vec::new());
    }
    let kernel = net::Netlink::open().map_err(Error::io("look at the host's links"))?;
    let owner = Owner {
        uuid: entry.uuid,
        slot: pool_slot(host, entry).map_err(Error::io("look at the addresses of zones"))?,
        random: true,
    };
    net::plan::links(config, owner, &kernel)
        .map_err(|error| Error::Refused(format!("{}.", flatten(&error))))
        .and_then(|links| with_label(host, config, links))
}

/// Gives the links of a zone the zone's label, the networks that this label may reach, and the
/// zone's multilevel ports.
fn with_label(host: &Host, config: &Config, mut links: Vec<Link>) -> Result<Vec<Link>, Error> {
    let Some(label) = config.label() else {
        return Ok(links);
    };
    let network = store::labels::network::load(&host.root)?;
    let label = LinkLabel {
        label: label.to_string(),
        remotes: network.remotes(label),
        ports: network.zone(config.name()).all().collect(),
    };
    for link in &mut links {
        link.label = Some(label.clone());
    }
    Ok(links)
}

/// Returns the links of a running zone, by one of the two configurations that are compared.
pub fn links_of_running(host: &Host, config: &Config, entry: &Entry) -> Result<Vec<Link>, Error> {
    let record = Records::of(&host.root).load(&entry.name);
    let record = record?.unwrap_or_default();
    let kernel = net::Netlink::open().map_err(Error::io("look at the host's links"))?;
    let slot = match record.pool_slot() {
        Some(slot) => Some(slot),
        None => pool_slot(host, entry).map_err(Error::io("look at the addresses of zones"))?,
    };
    let facts = WithMoved { kernel, record };
    let owner = Owner {
        uuid: entry.uuid,
        slot,
        random: false,
    };
    net::plan::links(config, owner, &facts)
        .map_err(|error| Error::Refused(format!("{}.", flatten(&error))))
        .and_then(|links| with_label(host, config, links))
}

/// Returns the number by which a zone gets its addresses of the pool: its slot, or, if a zone of
/// another ZONES_ROOT on this host has the addresses of that slot, a number that is no slot.
fn pool_slot(host: &Host, entry: &Entry) -> io::Result<Option<u32>> {
    let Some(slot) = entry.slot else {
        return Ok(None);
    };
    let records = Records::of(&host.root);
    let own = [records.path_of(&entry.name), records.hold_of(&entry.name)];
    for slot in net::pool::slots(slot, &own[0].as_os_str().to_string_lossy()) {
        let Some([first, _]) = net::pool::of_link(slot, 0) else {
            break;
        };
        match common::owner_of(first.ip)? {
            Some(owner) if !own.contains(&owner) => {}
            _ => return Ok(Some(slot)),
        }
    }
    Ok(None)
}

/// The links of the host, and those that it has moved into the zone.
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

/// Returns the reasons why a zone cannot have its links on this host, except conflicts with other
/// zones.
///
/// # Errors
/// Fails if the configuration of another zone cannot be read.
pub fn problems(
    host: &Host,
    config: &Config,
    entry: &Entry,
    index: &Index,
) -> Result<Vec<String>, Error> {
    let mut problems = Vec::new();
    // The addresses of a running zone do not conflict with its own configuration.
    let is_up = Records::of(&host.root)
        .load(&entry.name)
        .is_ok_and(|known| known.is_some());
    if !is_up {
        if let Err(error) = links(host, config, entry) {
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

/// Returns the addresses that a configuration names.
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

/// As [`links`], for a zone that is to boot. If a link is missing, a zone that died together with
/// its zoneadmd may still hold it: the link is then moved back to the host first.
pub fn links_to_make(host: &Host, config: &Config, entry: &Entry) -> Result<Vec<Link>, Error> {
    let error = match links(host, config, entry) {
        Err(error @ Error::Refused(_)) => error,
        other => return other,
    };
    let records = Records::of(&host.root);
    let nets = config.resources_of("net");
    let owners = nets.filter_map(|net| records.who_has(net.get("physical")));
    let mut is_tidied = false;
    for owner in owners.filter_map(|owner| owner.parse::<ZoneName>().ok()) {
        // The error names the links that could not be moved back.
        is_tidied |= crate::tidy(host, &owner).is_ok();
    }
    match is_tidied {
        true => links(host, config, entry).map_err(|error| explained(host, config, error)),
        false => Err(explained(host, config, error)),
    }
}

/// Returns the error with an explanation: a link that the host does not have may be in another
/// zone.
pub fn explained(host: &Host, config: &Config, error: Error) -> Error {
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

/// A running zone.
#[derive(Clone, Copy, Debug)]
pub struct Up {
    /// Its numeric id.
    pub id: u32,
    /// Its first process.
    pub init: i32,
}

/// The folder with the network records of one ZONES_ROOT.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

impl Records {
    /// Returns the records in this folder.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// Returns the records of a ZONES_ROOT.
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

    /// Returns the path of a zone's record. Zones of different ZONES_ROOTs have different paths.
    fn path_of(&self, zone: &ZoneName) -> PathBuf {
        let folder = fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.clone());
        folder.join(format!("{zone}.json"))
    }

    /// Returns the domain of the names of the zones.
    #[must_use]
    pub fn domain(&self) -> String {
        let root = common::root_of(&self.folder.join("zone.json")).to_owned();
        resolver::domain(&fs::canonicalize(&root).unwrap_or(root))
    }

    /// Returns the path of the file with the addresses that a suspended zone holds.
    fn hold_of(&self, zone: &ZoneName) -> PathBuf {
        self.path_of(zone).with_extension("held")
    }

    /// Returns the record of a zone's network; `None` if it has no record.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn load(&self, zone: &ZoneName) -> Result<Option<Record>, NetworkError> {
        read(&self.record(zone.as_str()))
    }

    /// Announces the addresses of a zone to the neighbours again. A failure has no consequence.
    pub fn announce_again(&self, zone: &ZoneName) {
        let (Ok(Some(record)), Ok(kernel)) = (self.load(zone), Netlink::open()) else {
            return;
        };
        let _ = net::make::announce_again(&kernel, &record);
    }

    /// Returns whether the host holds network objects for a zone.
    pub fn has(&self, zone: &ZoneName) -> bool {
        self.record(zone.as_str()).exists()
    }

    /// Returns the name of the zone that has a link of the host.
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

    /// Creates a zone's links. `host` and `inside` are the network namespaces of both; the calling
    /// thread may be in either. `in_mounts_of_host` calls a function in the host's mount namespace.
    pub fn make(
        &self,
        zone: &ZoneName,
        id: u32,
        links: &[Link],
        host: OwnedFd,
        inside: OwnedFd,
        in_mounts_of_host: InMountsOfHost<'_>,
    ) -> Result<MadeLinks, AnyError> {
        let whose = net::make::Zone { name: zone, id };
        let mut record = net::make::intent(whose, links, 0);
        let ends = Ends::open(host, inside)?;
        record.namespace = net::ends::within(ends.host_namespace(), net::ends::number)??;
        let needs = Needs::of(links);
        let state = RefCell::new((&mut record, Begun::default()));
        // The paths of the records of other ZONES_ROOTs are valid in the host's mount namespace.
        in_mounts_of_host(&|| {
            let (record, begun) = &mut *state.borrow_mut();
            let begin = || self.begin(whose, links, record, &Record::default(), &needs);
            *begun = net::ends::within(ends.host_namespace(), begin)??;
            Ok(())
        })?;
        let (_, Begun { remarks, label }) = state.into_inner();
        if record.moved().next().is_some() {
            let pin = || self.pin(zone, ends.zone_namespace());
            in_mounts_of_host(&pin)?;
        }
        let active = |other: &str| self.record(other).exists();
        let made = net::make::make(whose, links, label.as_ref(), &ends, &mut record, &active);
        // Also if a link could not be created: names may differ from the planned ones.
        save(&self.record(zone.as_str()), &record)?;
        let announced = made?;
        if self.hold_of(zone).exists() {
            // The links exist, so the routes of the hold are removed before the hold of the
            // addresses.
            in_mounts_of_host(&|| {
                Ok(net::ends::within(ends.host_namespace(), || {
                    self.let_go(zone)
                })??)
            })?;
        }
        Ok(MadeLinks { remarks, announced })
    }

    /// Changes the links of a running zone from those of `before` to those of `after`. A link that
    /// differs in any property is created anew. Must be called in the host's namespaces, with the
    /// zone's lock held.
    pub fn change(
        &self,
        zone: &ZoneName,
        up: Up,
        before: &[Link],
        after: &[Link],
    ) -> Result<Vec<String>, AnyError> {
        let mut record = self.load(zone)?.unwrap_or_default();
        // Published ports are rules of the host, and the networks of a label are in the host's map:
        // they do not require a new link.
        let stays = |held: &Held| {
            let link = |list: &[Link]| {
                let link = list.iter().find(|link| link.name == held.name);
                link.map(|link| Link {
                    published: Vec::new(),
                    label: link.label.clone().map(|label| LinkLabel {
                        remotes: Vec::new(),
                        ..label
                    }),
                    ..link.clone()
                })
            };
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
        self.leave(zone, &going)?;
        self.change_published(zone, &mut record, after)?;
        let begun = self.begin(whose, &new, &mut coming, &record, &Needs::of(&new));
        let stored = self.load(zone)?.unwrap_or_default().links;
        let is_stored = |gone: &Held| stored.iter().any(|held| held.name == gone.name);
        if !going.links.iter().any(is_stored) {
            Common::open()?.leave_tables(&self.path_of(zone), &going);
        }
        let Begun { remarks, label } = begun?;
        let both = |coming: &Record| together(&record, coming);
        let inside = net::ends::namespace(&path)?;
        if coming.moved().next().is_some() && !self.pinned(zone).exists() {
            self.pin(zone, inside.as_fd())?;
        }
        let ends = Ends::open(net::ends::here()?, inside)?;
        let active = |other: &str| self.record(other).exists();
        let made = net::make::make(whose, &new, label.as_ref(), &ends, &mut coming, &active);
        save(&self.record(zone.as_str()), &both(&coming))?;
        made?;
        Ok(remarks)
    }

    /// Reserves addresses, names and tables for new links, stores their record together with that
    /// of the links that the zone has `kept`, and prepares the host. Must be called in the host's
    /// namespaces.
    fn begin(
        &self,
        zone: net::make::Zone<'_>,
        links: &[Link],
        coming: &mut Record,
        kept: &Record,
        needs: &Needs,
    ) -> Result<Begun, AnyError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&self.folder)?;
        let common = Common::open()?;
        self.adopt(&common)?;
        let path = self.path_of(zone.name);
        // A reservation whose record is not stored has no owner: if a reservation fails, nothing is
        // left.
        save(&path, kept)?;
        let claimed = self.claim(&common, zone, coming);
        let joined = claimed.and_then(|()| labels::join(&common, links, &mut coming.links));
        let label = match joined {
            Ok(label) => label,
            Err(error) => {
                common.leave(&path, coming);
                common.leave_tables(&path, coming);
                return Err(error);
            }
        };
        let all = together(kept, coming);
        save(&path, &all)?;
        resolver::name(&common, &path, &all)?;
        let mut begun = Begun {
            remarks: Vec::new(),
            label,
        };
        if needs.is_nothing() && begun.label.is_none() {
            return Ok(begun);
        }
        common.take_zone(&path)?;
        if needs.is_nothing() {
            return Ok(begun);
        }
        begun.remarks = prepare(&common, needs)?;
        Ok(begun)
    }

    fn claim(
        &self,
        common: &Common,
        zone: net::make::Zone<'_>,
        coming: &mut Record,
    ) -> Result<(), AnyError> {
        let path = self.path_of(zone.name);
        let kernel = Netlink::open()?;
        let free = |number: usize, outer: bool| -> Result<Option<String>, AnyError> {
            for name in net::make::names(zone.id, number, outer) {
                // A link of a zone that ended a moment ago may still exist.
                if kernel.link(&name)?.is_none() && common.take_name(&path, &name)? {
                    return Ok(Some(name));
                }
            }
            Err("every name for a link of the zone is in use".into())
        };
        // The steps that can be refused come first: until then the record holds only this zone's
        // links.
        for held in coming.links.iter().filter(|held| held.routed) {
            common.take_addresses(&path, held)?;
            common.take_ports(&path, &held.published)?;
        }
        for held in &mut coming.links {
            if held.host.is_some() {
                held.host = free(held.number, false)?;
            }
            if held.outer.is_some() {
                held.outer = free(held.number, true)?;
            }
            if let Some((table, _)) = &mut held.table {
                *table = common.take_table(&path)?;
            }
        }
        Ok(())
    }

    /// Takes over the files that programs before 2027 wrote for each ZONES_ROOT.
    fn adopt(&self, common: &Common) -> Result<(), AnyError> {
        let old = self.folder.join(".host.json");
        let Some(theirs) = read::<Settings>(&old)? else {
            return Ok(());
        };
        if theirs.namespace == net::ends::number()? {
            let mut settings: Settings = read(&common.settings())?.unwrap_or_default();
            settings.adopt(theirs);
            for file in fs::read_dir(&self.folder)?.flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                let zone = name.strip_suffix(".json");
                let Some(zone) = zone.and_then(|zone| zone.parse::<ZoneName>().ok()) else {
                    continue;
                };
                let path = self.path_of(&zone);
                let Some(record) = read::<Record>(&path)? else {
                    continue;
                };
                common.take_zone(&path)?;
                for held in &record.links {
                    common.take_known(&path, held)?;
                }
            }
            save(&common.settings(), &settings)?;
        }
        Ok(fs::remove_file(&old)?)
    }

    /// Releases the names and addresses of links that no longer exist.
    fn leave(&self, zone: &ZoneName, gone: &Record) -> Result<(), AnyError> {
        if !gone.links.is_empty() {
            Common::open()?.leave(&self.path_of(zone), gone);
        }
        Ok(())
    }

    /// Keeps the zone's network namespace, so that the host's links in it can be moved back even if
    /// the zone dies. Must be called in the host's mount namespace.
    fn pin(&self, zone: &ZoneName, namespace: BorrowedFd<'_>) -> Result<(), AnyError> {
        let path = self.pinned(zone);
        fs::write(&path, "")?;
        let mount = sys::mount::open_tree(namespace, Path::new(""), sys::mount::Extent::One)?;
        Ok(sys::mount::attach(&mount, rustix::fs::CWD, &path)?)
    }

    /// Undoes the changes on the host for a zone, and with the last zone the changes for all zones.
    /// Must be called in the host's namespaces, after the last process of the zone has ended.
    ///
    /// # Errors
    /// Fails with all errors; the record then stays.
    pub fn release(&self, zone: &ZoneName) -> Result<(), NetworkError> {
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
        if !failed.is_empty() {
            return Err(NetworkError::Kernel(failed));
        }
        if is_pinned {
            unpin(&pinned)?;
        }
        let common = Common::open().map_err(NetworkError::Common)?;
        self.adopt(&common).map_err(NetworkError::Common)?;
        let path = self.path_of(zone);
        common.leave(&path, &record);
        common.leave_zone(&path);
        remove(&path)?;
        common.leave_tables(&path, &record);
        if let Some(hold) = read::<Hold>(&self.hold_of(zone))? {
            let noted = common.take_held(&self.hold_of(zone), &hold.addresses);
            noted.map_err(NetworkError::Note)?;
        }
        close(common)
    }

    /// Blocks packets for the addresses of a zone from the host's default route between the zone's
    /// end and its next boot: a router there would reset the zone's connections. Must be called in
    /// the host's namespaces, before [`release`](Self::release).
    pub fn hold(&self, zone: &ZoneName) -> Result<(), NetworkError> {
        let Some(record) = self.load(zone)? else {
            return Ok(());
        };
        let here = net::ends::number().map_err(NetworkError::Namespace)?;
        let routed = record.links.iter().filter(|held| held.routed);
        let addresses = routed.flat_map(|held| held.addresses.iter().map(|one| one.ip));
        let addresses: Vec<IpAddr> = addresses.collect();
        if record.namespace != here || addresses.is_empty() {
            return Ok(());
        }
        let hold = Hold {
            namespace: here,
            addresses,
        };
        save(&self.hold_of(zone), &hold).map_err(NetworkError::Common)?;
        net::hold(&hold.addresses, true).map_err(NetworkError::Kernel)
    }

    /// Ends the block that [`hold`](Self::hold) began. Must be called in the host's namespaces.
    pub fn let_go(&self, zone: &ZoneName) -> Result<(), NetworkError> {
        // In most cases there is no hold, and the true path of the record is not needed.
        let Some(hold) = read::<Hold>(&self.record(zone.as_str()).with_extension("held"))? else {
            return Ok(());
        };
        let file = self.hold_of(zone);
        if net::ends::number().is_ok_and(|here| here == hold.namespace) {
            net::hold(&hold.addresses, false).map_err(NetworkError::Kernel)?;
        }
        let common = Common::open().map_err(NetworkError::Common)?;
        common.leave_held(&file, &hold.addresses);
        remove(&file)?;
        close(common)
    }

    /// As [`release`](Self::release), from a thread in another network namespace.
    pub fn release_in(&self, host: &OwnedFd, zone: &ZoneName) -> Result<(), NetworkError> {
        net::ends::within(host.as_fd(), || self.release(zone)).map_err(NetworkError::Return)?
    }
}

/// The addresses that a suspended zone holds.
#[derive(Debug, Serialize, Deserialize)]
struct Hold {
    /// The inode number of the host's network namespace.
    namespace: u64,
    /// The addresses to which the host routed packets.
    addresses: Vec<IpAddr>,
}

/// Undoes the shared changes that no zone needs any more.
fn close(common: Common) -> Result<(), NetworkError> {
    if common.is_used() {
        return published::publish(&common).map_err(NetworkError::Common);
    }
    if let Some(settings) = read::<Settings>(&common.settings())? {
        host_side::restore(&settings).map_err(NetworkError::Kernel)?;
    }
    common.remove();
    Ok(())
}

/// Returns one record with the links of both.
fn together(kept: &Record, coming: &Record) -> Record {
    Record {
        namespace: coming.namespace.max(kept.namespace),
        numbers: coming.numbers,
        links: kept.links.iter().chain(&coming.links).cloned().collect(),
    }
}

/// Prepares the host for zones, and repairs settings that another program removed from running
/// zones.
fn prepare(common: &Common, needs: &Needs) -> Result<Vec<String>, AnyError> {
    let path = common.settings();
    let mut settings: Settings = read(&path)?.unwrap_or_default();
    let mut store = |settings: &Settings| save(&path, settings);
    let forwards = published::forwards(common)?;
    let prepared = host_side::prepare(needs, &forwards, &mut settings, &mut store)??;
    if prepared.lost_address {
        let kernel = Netlink::open()?;
        let here = net::ends::number()?;
        for record in common.records() {
            // An unreadable record is an error only for its own zone.
            let Ok(Some(record)) = read::<Record>(&record) else {
                continue;
            };
            if record.namespace == here {
                net::make::lead_again(&kernel, &record)?;
            }
        }
    }
    let mut remarks = prepared.remarks;
    if needs.has_pool() {
        remarks.extend(resolver::keep(common));
    }
    Ok(remarks)
}

fn unpin(path: &Path) -> Result<(), NetworkError> {
    match sys::mount::detach(path) {
        // The namespace is not mounted: the zone died before it was.
        Err(error) if error.errno() == rustix::io::Errno::INVAL.raw_os_error() => {}
        other => other?,
    }
    remove(path)
}

fn remove(path: &Path) -> Result<(), NetworkError> {
    fs::remove_file(path).map_err(|source| NetworkError::Remove {
        path: path.to_owned(),
        source,
    })
}
