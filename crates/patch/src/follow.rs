//! Patches sparse zones. Their programs are those of the host, which the host's package manager
//! updates. Only the zone's own part of each package is patched, and always to the host's version.

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

/// The reason why an order cannot be carried out in a sparse zone.
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
/// Fails if the host has no readable package database.
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

/// Returns the time of the last change by the host's package manager, in seconds since 1970, if the
/// package manager is configured to record this time.
pub(crate) fn host_changed(host: &Host) -> Option<u64> {
    let meta = fs::metadata(record::folder(&host.root).join("host-changed")).ok()?;
    let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

/// Refuses to forget packages that the zone itself installed. The zone may forget a package that
/// the host removed: the files of that package were in the inherited folders.
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

/// Updates a copy of a zone to the host's packages.
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
        // A full disk on the host does not end the work in the zone.
        let _ = writeln!(log, "{line}");
    }
    // The host's package manager may have changed packages in the meantime.
    match attach::differs(host, copy.zonepath(), config)? {
        true => Err(Error::Refused(
            "the host's packages changed while the zone followed them; apply again.".to_owned(),
        )),
        false => Ok(()),
    }
}
