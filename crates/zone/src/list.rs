//! `zoneadm list`: zones and their states.

use std::path::PathBuf;

use model::config::IpType;
use model::{State, Uuid, ZoneName, name};
use serde::Serialize;
use store::index::{Entry, Index};
use store::runtime::Runtime;

use crate::daemon::client;
use crate::subject::state;
use crate::{Error, Host};

/// Which zones are listed.
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

/// One zone as listed.
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
}

/// Lists zones: active ones by id, then the rest in the order of the index. The
/// global zone comes first, if `global` asks for it and the selection is not by name.
///
/// # Errors
/// When the index cannot be read. A zone that vanishes meanwhile is left out.
pub fn list(host: &Host, selection: &Selection, global: bool) -> Result<Vec<Row>, Error> {
    let index = Index::load(&host.root)?;
    let named = match selection {
        Selection::Named(names) => Some(names),
        _ => None,
    };
    let mut active = Vec::new();
    let mut rest = Vec::new();
    for entry in index.entries() {
        if named.is_some_and(|names| !names.contains(&entry.name)) {
            continue;
        }
        let (state, runtime) = state(host, entry)?;
        let wanted = match selection {
            Selection::Active => state.is_active(),
            Selection::Installed => state >= State::Installed,
            Selection::All | Selection::Named(_) => true,
        };
        if !wanted {
            continue;
        }
        if let Some(runtime) = &runtime {
            revive(host, entry, runtime);
        }
        let Some(row) = row(host, entry, state, runtime.as_ref())? else {
            continue;
        };
        if row.id.is_some() {
            active.push(row);
        } else {
            rest.push(row);
        }
    }
    active.sort_by_key(|row| row.id);
    let mut rows = Vec::new();
    if global && named.is_none() {
        rows.push(global_row());
    }
    rows.append(&mut active);
    rows.append(&mut rest);
    Ok(rows)
}

/// A running zone whose zoneadmd died gets a new one from whoever looks.
fn revive(host: &Host, entry: &Entry, runtime: &Runtime) {
    if rustix::process::geteuid().is_root() && !runtime.daemon.is_alive() {
        // Listing goes on; whoever acts on the zone will hear why it fails.
        let _ = client::adopt(host, &entry.name);
    }
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
    Ok(Some(Row {
        id: runtime.map(|runtime| runtime.id),
        name: entry.name.to_string(),
        state,
        zonepath: entry.zonepath.clone(),
        uuid: entry.uuid,
        brand: config.brand().to_owned(),
        ip_type: config.ip_type(),
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
    }
}
