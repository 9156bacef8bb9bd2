//! `zoneadm list`: lists zones and their states.

mod details;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use model::config::IpType;
use model::immutable::{Immutable, Profile};
use model::{Config, State, Uuid, ZoneName, name};
use serde::Serialize;
use store::index::{Entry, Index};
use store::lock;
use store::runtime::Runtime;

use crate::suspend;
use control::client;
pub use details::Details;
use host::{Error, Host};
use subject::state;

/// Selects the zones that are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Zones with a virtual platform.
    Active,
    /// Zones that are installed or in a later state (`-i`).
    Installed,
    /// Every zone (`-c`).
    All,
    /// Zones with these names, in any state.
    Named(Vec<ZoneName>),
}

/// A zone in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The numeric id of an active zone; `None` for other zones.
    pub id: Option<u32>,
    /// The name of the zone; `global` for the host.
    pub name: String,
    /// The state of the zone.
    pub state: State,
    /// The zonepath.
    pub zonepath: PathBuf,
    /// The uuid, which install assigns.
    pub uuid: Option<Uuid>,
    /// The configured brand.
    pub brand: String,
    /// The configured IP type: shared for the host's network, exclusive for the zone's own network.
    pub ip_type: IpType,
    /// The auxiliary state (`-s`), for example `panicked`; empty for most zones.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub auxiliary: String,
    /// True if the root of an active zone is read-only, false if it is writable; `None` for the
    /// host, and for zones that are not active.
    pub read_only: Option<bool>,
    /// The profile of an immutable zone: that of the running zone, else the configured one. `none`
    /// for other zones, empty for the host.
    pub file_mac_profile: String,
    /// The label of the zone as text, or in hexadecimal if the host has no name for it; `None` for
    /// a zone without a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// More facts, if the listing asks for [`Depth::Full`].
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

/// Selects the facts that a listing finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The facts that Solaris lists.
    Plain,
    /// The [`Details`] of each zone too.
    Full,
}

/// The zones of a listing, and the zones that could not be listed.
#[derive(Debug, Default)]
pub struct Listing {
    /// A row for each zone.
    pub rows: Vec<Row>,
    /// Zones with damaged files, and the error of each.
    pub damaged: Vec<(ZoneName, Error)>,
}

/// Maximum number of zones that a listing repairs at the same time.
const REVIVERS: usize = 4;

/// Maximum time that a listing waits for the repair of zones whose zoneadmd died.
const MAX_REVIVAL_WAIT: Duration = Duration::from_secs(2);

/// Lists zones: active zones by id, then the other zones in the order of the index. The global zone
/// comes first if `global` is true. A zone that is deleted meanwhile is left out.
///
/// # Errors
/// Fails if the index cannot be read.
pub fn list(
    host: &Host,
    selection: &Selection,
    global: bool,
    depth: Depth,
) -> Result<Listing, Error> {
    let index = Index::load(&host.root)?;
    let mut listing = Listing::default();
    let mut active = Vec::new();
    let mut rest = Vec::new();
    let mut orphans = VecDeque::new();
    for entry in index.entries() {
        match one(host, entry, selection, depth) {
            Ok((row, lacks)) => {
                orphans.extend(lacks.map(|lacks| (entry.name.clone(), lacks)));
                match row {
                    Some(row) if row.id.is_some() => active.push(row),
                    Some(row) => rest.push(row),
                    None => {}
                }
            }
            Err(error) => listing.damaged.push((entry.name.clone(), error)),
        }
    }
    if !orphans.is_empty() && rustix::process::geteuid().is_root() {
        revive(host, orphans);
    }
    active.sort_by_key(|row| row.id);
    listing.rows.extend(global.then(global_row));
    listing.rows.append(&mut active);
    listing.rows.append(&mut rest);
    Ok(listing)
}

/// The repair that a zone needs because its zoneadmd died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// The zone runs without a zoneadmd and needs a new one.
    Zoneadmd,
    /// The zone died together with its zoneadmd, and its remains must be removed.
    Burial,
}

/// Returns the repair that a zone needs if its zoneadmd died; `None` otherwise.
fn lacks(host: &Host, zone: &ZoneName, runtime: Option<&Runtime>) -> Option<Lacks> {
    match runtime {
        Some(runtime) => (!runtime.daemon.is_alive()).then_some(Lacks::Zoneadmd),
        None => subject::has_remains(host, zone).then_some(Lacks::Burial),
    }
}

/// Returns the row of a zone if the zone is selected, and the repair that it needs.
fn one(
    host: &Host,
    entry: &Entry,
    selection: &Selection,
    depth: Depth,
) -> Result<(Option<Row>, Option<Lacks>), Error> {
    if let Selection::Named(names) = selection {
        if !names.contains(&entry.name) {
            return Ok((None, None));
        }
    }
    let (state, runtime) = state(host, entry)?;
    let lacks = lacks(host, &entry.name, runtime.as_ref());
    let wanted = match selection {
        Selection::Active => state.is_active(),
        Selection::Installed => state >= State::Installed,
        Selection::All | Selection::Named(_) => true,
    };
    if !wanted {
        return Ok((None, lacks));
    }
    Ok((row(host, entry, state, runtime.as_ref(), depth)?, lacks))
}

/// Repairs zones whose zoneadmd died. A running zone gets a new zoneadmd. The remains of a zone
/// that died too are removed, which returns links to the host. The listing waits a short time for
/// the repairs. It continues without repairs that take longer or fail: the next command on such a
/// zone reports the reason.
fn revive(host: &Host, orphans: VecDeque<(ZoneName, Lacks)>) {
    let deadline = Instant::now() + MAX_REVIVAL_WAIT;
    let workers = orphans.len().min(REVIVERS);
    let queue = Arc::new(Mutex::new(orphans));
    let (done, ends) = mpsc::channel::<()>();
    for _ in 0..workers {
        let (host, queue, done) = (host.clone(), Arc::clone(&queue), done.clone());
        // These threads are not joined, because a thread that hangs must not delay the listing.
        let _ = thread::Builder::new().spawn(move || {
            let _done = done;
            let next = || {
                queue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front()
            };
            while let Some((zone, lacks)) = next().filter(|_| Instant::now() < deadline) {
                match lacks {
                    Lacks::Zoneadmd => adopt(&host, &zone),
                    // An error is ignored, because the next command on the zone reports the reason.
                    Lacks::Burial => drop(subject::tidy(&host, &zone)),
                }
            }
        });
    }
    drop(done);
    // No message is ever sent. The wait ends when the last thread ends, or after the time limit.
    let _ = ends.recv_timeout(MAX_REVIVAL_WAIT);
}

fn adopt(host: &Host, zone: &ZoneName) {
    match lock::try_exclusive(&host.root.adopt_lock(zone)) {
        // The lock is free. If another process takes it now, only this thread waits, not the
        // listing.
        Ok(Some(free)) => drop(free),
        // Another process repairs this zone already.
        Ok(None) | Err(_) => return,
    }
    let _ = client::adopt(host, zone);
}

fn row(
    host: &Host,
    entry: &Entry,
    state: State,
    runtime: Option<&Runtime>,
    depth: Depth,
) -> Result<Option<Row>, Error> {
    let config = match store::xml::load(&host.root, &entry.name) {
        Ok(config) => config,
        Err(store::Error::NoSuchZone(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let auxiliary = match runtime {
        Some(runtime) => runtime.auxiliary.clone(),
        None if suspend::is_suspended(host, entry, &config) => "suspended".to_owned(),
        None => String::new(),
    };
    Ok(Some(Row {
        id: runtime.map(|runtime| runtime.id),
        name: entry.name.to_string(),
        state,
        zonepath: entry.zonepath.clone(),
        uuid: entry.uuid,
        brand: config.brand().to_owned(),
        ip_type: config.ip_type(),
        auxiliary,
        read_only: runtime.map(|runtime| runtime.immutable.is_some_and(Immutable::is_sealed)),
        file_mac_profile: profile(runtime, &config),
        label: config
            .label()
            .map(|label| store::labels::text(&host.root, label)),
        details: (depth == Depth::Full).then(|| Details::of(host, entry, &config, runtime)),
    }))
}

/// Returns the profile with which a zone runs, or with which it boots next.
fn profile(runtime: Option<&Runtime>, config: &Config) -> String {
    let profile = match runtime {
        Some(runtime) => runtime.immutable.map(|immutable| immutable.profile),
        None => Profile::of(config),
    };
    profile.map_or("none", Profile::name).to_owned()
}

fn global_row() -> Row {
    Row {
        id: Some(0),
        name: name::GLOBAL.to_owned(),
        state: State::Running,
        zonepath: PathBuf::from("/"),
        uuid: None,
        brand: "native".to_owned(),
        ip_type: IpType::Shared,
        auxiliary: String::new(),
        read_only: None,
        file_mac_profile: String::new(),
        label: None,
        details: None,
    }
}
