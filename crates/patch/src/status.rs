//! Shows the state of zones.

use host::{Error, Host, flatten};
use model::{State, ZoneName};
use serde::Serialize;
use storage::driver_at;
use store::index::Index;
use zone::{environments, job};

use crate::environment;
use crate::follow;
use crate::inventory::{self, Inventory};
use crate::record::{self, Entry, Standing};

/// A row of `zonepatch status`.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The name of the zone.
    pub zone: String,
    /// The state of the zone.
    pub state: String,
    /// The number of installed packages.
    pub packages: usize,
    /// The last patch that the zone has, or will have after its next boot.
    pub patch: Option<String>,
    /// The time of the last patch, in seconds since 1970.
    pub at: Option<u64>,
    /// The way in which the last patch was carried out.
    pub how: Option<String>,
    /// Packages on hold, which keep their version.
    pub held: Vec<String>,
    /// The problems of the zone.
    pub problems: Vec<String>,
    /// The fingerprint of the packages. Zones whose fingerprints begin with the same characters
    /// have the same packages.
    pub fingerprint: Option<String>,
    /// Packages of the host that a sparse zone still has to follow.
    pub behind: usize,
    /// The time when the host's package manager last changed packages, in seconds since 1970;
    /// `None` if the host does not record it.
    pub host_changed: Option<u64>,
}

/// A row of `zonepatch history`.
#[derive(Clone, Debug, Serialize)]
pub struct Past {
    /// The name of the zone.
    pub zone: String,
    /// The entry of the history.
    #[serde(flatten)]
    pub entry: Entry,
}

/// Returns the patch state of a zone.
///
/// # Errors
/// Fails if the zone does not exist.
pub fn of(host: &Host, zone: &ZoneName) -> Result<Row, Error> {
    let index = Index::load(&host.root)?;
    let entry = index.get(zone)?;
    let (state, _) = subject::state(host, entry)?;
    let history = environment::history(host, entry)?;
    let pending = history
        .entries
        .iter()
        .find(|one| one.standing == Standing::Pending);
    let mut entries = history.entries.iter().rev();
    let last = entries.find(|one| one.standing == Standing::Applied);
    let mut row = Row {
        zone: zone.to_string(),
        state: state.to_string(),
        packages: 0,
        patch: last.map(|one| one.patch.clone()),
        at: last.map(|one| one.at),
        how: last.map(|one| one.how.as_str().to_owned()),
        held: Vec::new(),
        problems: Vec::new(),
        fingerprint: None,
        behind: 0,
        host_changed: None,
    };
    if let Some(one) = pending {
        let text = format!("patch {} comes with the next boot", one.patch);
        row.problems.push(text);
    }
    if record::journal_of(&host.root, entry).exists() {
        row.problems.push("a patch was cut off".to_owned());
    }
    if state < State::Installed || state == State::Incomplete {
        return Ok(row);
    }
    let zonepath = host.root.path(&entry.zonepath);
    let driver = driver_at(&zonepath)?;
    if let (true, None, true) = (row.problems.is_empty(), pending, driver.has_layers()) {
        // A patch in place that was interrupted set the next boot environment, or the administrator
        // did.
        if let (_, Some(next)) = environments::marked(&zonepath)? {
            row.problems
                .push(format!("its next boot takes boot environment {next}"));
        }
    }
    let config = store::xml::load(&host.root, zone)?;
    let found = driver
        .stack(&zonepath)
        .map_err(Error::from)
        .and_then(|stack| job::look(host, &config, &stack, inventory::read));
    match found {
        Ok(found) => {
            if job::is_sparse(&config)? {
                compare(host, &mut row, &found);
            }
            row.packages = found.packages.len();
            row.held = found.held;
            row.problems.extend(found.broken);
            row.fingerprint = Some(found.fingerprint);
        }
        Err(error) => row.problems.push(flatten(&error)),
    }
    Ok(row)
}

/// Compares the zone's own part of each package with the host's packages.
fn compare(host: &Host, row: &mut Row, found: &Inventory) {
    match follow::lacks(found) {
        Ok(lacks) => row.behind = lacks.len(),
        Err(error) => row.problems.push(flatten(&error)),
    }
    if row.behind > 0 {
        row.host_changed = follow::host_changed(host);
    }
}

/// Returns the patches of a zone, the oldest first.
///
/// # Errors
/// Fails if the zone does not exist, or if its history is damaged.
pub fn history(host: &Host, zone: &ZoneName) -> Result<Vec<Past>, Error> {
    let index = Index::load(&host.root)?;
    let history = environment::history(host, index.get(zone)?)?;
    let past = |entry| Past {
        zone: zone.to_string(),
        entry,
    };
    Ok(history.entries.into_iter().map(past).collect())
}
