//! Changes the root of a sparse zone for `attach -u`, and undoes each interrupted update.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use model::Config;
use storage::{Name, Stack, driver_at};

use crate::{inventory, root_view};
use host::{Error, Host};

/// Name of the file that exists in the zonepath while the zone's root is being changed.
pub(super) const UPDATING: &str = ".attaching";

/// Name of the snapshot from which an interrupted update is undone.
const BEFORE: &str = "before-attach";

/// Returns a zone to its state before an interrupted update. The caller must hold the zone's lock,
/// and the zone must not have booted since the update.
pub(super) fn recover(zonepath: &Path) -> Result<(), Error> {
    if !zonepath.join(UPDATING).exists() {
        return Ok(());
    }
    let driver = driver_at(zonepath)?;
    let before = before()?;
    let known = driver.snapshots(zonepath)?;
    // If the snapshot does not exist, the update either had not begun or was complete.
    if known.iter().any(|one| one.name == before) {
        driver.rollback(zonepath, &before)?;
        driver.destroy_snapshot(zonepath, &before)?;
    }
    unmark(zonepath)
}

pub(super) fn before() -> Result<Name, Error> {
    BEFORE
        .parse()
        .map_err(|error: storage::BadName| Error::Refused(error.to_string()))
}

pub(super) fn unmark(zonepath: &Path) -> Result<(), Error> {
    match fs::remove_file(zonepath.join(UPDATING)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::Io(
            format!("remove {}/{UPDATING}", zonepath.display()),
            error,
        )),
        _ => Ok(()),
    }
}

/// Takes a snapshot of the root, to which a failed update returns. Returns the name of the
/// snapshot.
pub(super) fn begin(zonepath: &Path) -> Result<Name, Error> {
    let driver = driver_at(zonepath)?;
    let before = before()?;
    let known = driver.snapshots(zonepath)?;
    if known.iter().any(|one| one.name == before) {
        return Err(Error::Refused(format!(
            "has a snapshot {BEFORE}, which is needed here: remove it first."
        )));
    }
    let mark = zonepath.join(UPDATING);
    fs::write(&mark, "").map_err(Error::io(format!("write {}", mark.display())))?;
    driver.snapshot(zonepath, &before)?;
    Ok(before)
}

/// Updates a sparse zone to the host's packages, or leaves the zone unchanged.
pub fn follow(
    host: &Host,
    zonepath: &Path,
    config: &Config,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let driver = driver_at(zonepath)?;
    let before = begin(zonepath)?;
    let said = match follow_in(host, config, &driver.stack(zonepath)?) {
        Ok(said) => said,
        Err(error) => {
            recover(zonepath)?;
            return Err(error);
        }
    };
    driver.destroy_snapshot(zonepath, &before)?;
    unmark(zonepath)?;
    said.iter().for_each(|line| progress(line));
    Ok(())
}

/// Updates the root of a sparse zone, which `stack` describes, to the host's packages. No other
/// process may write to the root. Returns remarks. After an error the root may be half changed.
pub(super) fn follow_in(host: &Host, config: &Config, stack: &Stack) -> Result<Vec<String>, Error> {
    let scratch = inventory::scratch(host)?;
    let mut said = Vec::new();
    let followed = root_view::with_root(stack, &scratch, |root| {
        let mut say = |line: &str| said.push(line.to_owned());
        Ok(brand::follow(config, Path::new("/"), root, &mut say)?)
    })?;
    if followed.taken > 0 {
        said.push(format!("Took over {} configuration files.", followed.taken));
    }
    said.extend(followed.kept.iter().map(|path| {
        format!(
            "Kept {}, which was changed in the zone: the new one is beside it, with .dpkg-dist.",
            path.display()
        )
    }));
    if !followed.accounts.is_empty() {
        said.push(format!(
            "Added accounts and groups: {}.",
            followed.accounts.join(", ")
        ));
    }
    Ok(said)
}
