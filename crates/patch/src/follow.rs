//! Sparse zones: their programs are the host's, which its package manager updates. Only
//! the part of the packages in the zone itself is patched, and always to the versions of
//! the host.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use host::{Error, Host, flatten};
use model::Config;
use storage::{Dataset, Stack};
use zone::{attach, job};

use crate::inventory::{self, Inventory};
use crate::order::Order;
use crate::record::{self, Change};
use crate::transaction::Ready;

/// Why an order is nothing for a sparse zone.
pub(crate) fn refuse_order(order: &Order) -> Result<(), Error> {
    match order {
        Order::Back { .. } => Err(Error::Refused(
            "is sparse: its packages are the host's. Take them back there and apply, or roll the zone back."
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Returns the differences between the packages of a zone and those of the host.
///
/// # Errors
/// When the host has no package database that can be read.
pub(crate) fn lacks(zone: &Inventory) -> Result<Vec<Change>, Error> {
    let host = inventory::read(Path::new("/"))
        .map_err(|error| Error::Refused(format!("the host {}", flatten(&error))))?;
    if let Some(broken) = host.broken.first() {
        return Err(Error::Refused(format!(
            "package {broken} on the host; let its package manager finish first."
        )));
    }
    Ok(inventory::changes(zone, &host))
}

/// When the host's package manager changed something last, in seconds since 1970, if it
/// was set up to write that down.
pub(crate) fn host_changed(host: &Host) -> Option<u64> {
    let meta = fs::metadata(record::folder(&host.root).join("host-changed")).ok()?;
    let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

/// Refuses to forget packages that the zone installed by itself. Packages that the host
/// had, and has removed, had files in the shared folders.
fn refuse_own(root: &Path, config: &Config, changes: &[Change]) -> Result<(), Error> {
    let gone: Vec<&Change> = changes.iter().filter(|one| one.to.is_none()).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let shared = job::inherited(config)?;
    let refused = |error: packages::Error| Error::Refused(flatten(&error));
    let Some(database) = packages::open(root).map_err(refused)? else {
        return Ok(());
    };
    for package in database.packages() {
        let of = |one: &&&Change| {
            one.package == package.name && one.architecture == package.architecture
        };
        if gone.iter().find(of).is_none() || !package.status.is_unpacked() {
            continue;
        }
        let paths = database.paths(package).map_err(refused)?;
        let is_shared = |path: &PathBuf| {
            let inside = |dir: &PathBuf| path.starts_with(dir) && path != dir;
            shared.iter().any(inside)
        };
        if !paths.iter().any(is_shared) {
            return Err(Error::Refused(format!(
                "package {} is the zone's own, which a zone that follows the host would forget: remove it there.",
                package.name
            )));
        }
    }
    Ok(())
}

/// Brings a copy of a zone to the host's packages.
pub(crate) fn carry_out(
    host: &Host,
    ready: &Ready,
    copy: &Dataset,
    mut log: &File,
) -> Result<(), Error> {
    let config = &ready.config;
    let mut stack: Stack = copy.stack()?;
    job::look(host, config, &stack, |root| {
        refuse_own(root, config, &lacks(&ready.before)?)
    })?;
    stack.volatile = !stack.lowers.is_empty();
    for line in attach::follow(host, config, &stack)? {
        // A full disk on the host is no reason to stop.
        let _ = writeln!(log, "{line}");
    }
    // Its package manager may have been at work meanwhile.
    match attach::differs(host, copy.zonepath(), config)? {
        true => Err(Error::Refused(
            "the host's packages changed while the zone followed them; apply again.".to_owned(),
        )),
        false => Ok(()),
    }
}
