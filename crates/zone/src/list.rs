//! `zoneadm list`: zones and their states.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use model::config::IpType;
use model::{State, Uuid, ZoneName, name};
use serde::Serialize;
use store::index::{Entry, Index};
use store::lock;
use store::runtime::Runtime;

use crate::suspend;
use control::client;
use host::{Error, Host};
use subject::state;

/// The zones that are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Those with a virtual platform.
    Active,
    /// Those installed or beyond (`-i`).
    Installed,
    /// Every zone (`-c`).
    All,
    /// These, in whatever state.
    Named(Vec<ZoneName>),
}

/// A zone as listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The numeric id of an active zone.
    pub id: Option<u32>,
    /// The name; `global` for the host.
    pub name: String,
    /// The state.
    pub state: State,
    /// The zonepath.
    pub zonepath: PathBuf,
    /// Given at install.
    pub uuid: Option<Uuid>,
    /// The brand as configured.
    pub brand: String,
    /// Whose network it uses.
    pub ip_type: IpType,
    /// The auxiliary state (`-s`), as `panicked`; mostly empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub auxiliary: String,
}

/// Zones as listed, and those that could not be.
#[derive(Debug, Default)]
pub struct Listing {
    /// A row per zone.
    pub rows: Vec<Row>,
    /// Zones whose files are damaged, and how.
    pub damaged: Vec<(ZoneName, Error)>,
}

/// Maximum number of zones that a listing repairs at a time.
const REVIVERS: usize = 4;

/// Maximum time that a listing waits for zones whose zoneadmd died.
const MAX_REVIVAL_WAIT: Duration = Duration::from_secs(2);

/// Lists zones: active ones by id, then the rest in the order of the index. The
/// global zone comes first, if `global` asks for it. A zone that vanishes meanwhile is
/// left out.
///
/// # Errors
/// When the index cannot be read.
pub fn list(host: &Host, selection: &Selection, global: bool) -> Result<Listing, Error> {
    let index = Index::load(&host.root)?;
    let mut listing = Listing::default();
    let mut active = Vec::new();
    let mut rest = Vec::new();
    let mut orphans = VecDeque::new();
    for entry in index.entries() {
        match one(host, entry, selection) {
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

/// The missing part of a zone whose zoneadmd died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// It runs, without a zoneadmd.
    Zoneadmd,
    /// It died, too: somebody to clear it away.
    Burial,
}

/// Returns the missing part of a zone that is listed, if its zoneadmd died.
fn lacks(host: &Host, zone: &ZoneName, runtime: Option<&Runtime>) -> Option<Lacks> {
    match runtime {
        Some(runtime) => (!runtime.daemon.is_alive()).then_some(Lacks::Zoneadmd),
        None => subject::has_remains(host, zone).then_some(Lacks::Burial),
    }
}

/// The row of a zone, if it is selected, and its missing parts.
fn one(
    host: &Host,
    entry: &Entry,
    selection: &Selection,
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
    Ok((row(host, entry, state, runtime.as_ref())?, lacks))
}

/// A running zone whose zoneadmd died gets a new one from the command that lists it, and
/// a zone that died together with its zoneadmd is cleaned up: links of the host come
/// back. The listing waits for them a little, so that they are there when it is done, and
/// continues without those that take longer or fail: the next command on the zone reports
/// the reason.
fn revive(host: &Host, orphans: VecDeque<(ZoneName, Lacks)>) {
    let deadline = Instant::now() + MAX_REVIVAL_WAIT;
    let workers = orphans.len().min(REVIVERS);
    let queue = Arc::new(Mutex::new(orphans));
    let (done, ends) = mpsc::channel::<()>();
    for _ in 0..workers {
        let (host, queue, done) = (host.clone(), Arc::clone(&queue), done.clone());
        // Nobody joins these threads: one that hangs must not hold up the rest.
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
                    // The next command on the zone reports the reason.
                    Lacks::Burial => drop(subject::tidy(&host, &zone)),
                }
            }
        });
    }
    drop(done);
    // Nothing is ever sent: this ends with the last thread, or in time.
    let _ = ends.recv_timeout(MAX_REVIVAL_WAIT);
}

fn adopt(host: &Host, zone: &ZoneName) {
    match lock::try_exclusive(&host.root.adopt_lock(zone)) {
        // Should somebody else take it now, this thread waits and the listing does not.
        Ok(Some(free)) => drop(free),
        // Somebody is at it already.
        Ok(None) | Err(_) => return,
    }
    let _ = client::adopt(host, zone);
}

fn row(
    host: &Host,
    entry: &Entry,
    state: State,
    runtime: Option<&Runtime>,
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
    }))
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
    }
}
