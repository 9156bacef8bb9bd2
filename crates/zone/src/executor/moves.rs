//! The steps of a move of a zonepath. [`subject::pending`] completes a move that was killed.

use std::path::Path;
use std::time::{Duration, Instant};

use storage::Copied;
use store::index::{self, Index, Pending, Way};
use store::xml;

use super::Work;
use host::outcome::AnyError;
use host::undo::UndoStack;
use subject::pending::{self, KeepFolder};
use subject::{identity, lacks_root};

/// Interval between two reports of the progress of a copy.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Number of bytes of a MiB.
const MIB: u64 = 1 << 20;

/// Records in the index that the zone is being moved.
pub(super) fn begin(
    work: &Work<'_>,
    to: &Path,
    copy: bool,
    undo: &mut UndoStack,
) -> Result<(), AnyError> {
    let (root, zone) = (&work.host.root, &work.entry.name);
    let uuid = work.entry.uuid.ok_or("the zone has no uuid in the index")?;
    // After a kill, this file tells which folder is the zone's.
    let zonepath = root.path(&work.entry.zonepath);
    identity::write(root, &work.entry, &zonepath, uuid)?;
    let pending = Pending::Move {
        zone: zone.clone(),
        way: match (copy, to.symlink_metadata().is_ok()) {
            (false, _) => Way::Rename,
            (true, false) => Way::Copy,
            (true, true) => Way::CopyInto,
        },
        other: root.shown(to),
    };
    let taken = index::update(root, |index| {
        let taken = holder(index, work, &root.shown(to));
        if taken.is_none() {
            index.begin(pending.clone());
        }
        Ok::<_, store::Error>(taken)
    })?;
    if let Some(other) = taken {
        return Err(format!("zone {other} has the zonepath {}", root.shown(to).display()).into());
    }
    let root = root.clone();
    undo.push("the record of the move", move || {
        let left = pending::complete(&root, &pending)?;
        left.map_or(Ok(()), |text| Err(text.into()))
    });
    Ok(())
}

/// Returns the name of another zone that has a zonepath, or is being moved there. Another command
/// may have begun since the check before this one.
fn holder(index: &Index, work: &Work<'_>, zonepath: &Path) -> Option<String> {
    let of_entries = index.entries().iter();
    let mut names = of_entries.filter(|entry| entry.zonepath == *zonepath);
    if let Some(entry) = names.find(|entry| entry.name != work.entry.name) {
        return Some(entry.name.to_string());
    }
    index.pending().iter().find_map(|one| match one {
        Pending::Move { zone, other, .. } if other == zonepath => Some(zone.to_string()),
        _ => None,
    })
}

/// Renames the zonepath.
pub(super) fn rename(from: &Path, to: &Path, undo: &mut UndoStack) -> Result<(), AnyError> {
    let (old, new) = (from.to_owned(), to.to_owned());
    undo.push("the rename of the zonepath", move || {
        match lacks_root(&old) && !lacks_root(&new) {
            true => Ok(storage::rename_zonepath(&new, &old)?),
            false => Ok(()),
        }
    });
    Ok(storage::rename_zonepath(from, to)?)
}

/// Copies the zonepath, and reports the progress.
pub(super) fn copy(
    work: &mut Work<'_>,
    from: &Path,
    to: &Path,
    undo: &mut UndoStack,
) -> Result<(), AnyError> {
    let uuid = work.entry.uuid.ok_or("the zone has no uuid in the index")?;
    let made = to.to_owned();
    undo.push(format!("the copy at {}", to.display()), move || {
        Ok(pending::remove(&made, Some(uuid), KeepFolder::Yes)?)
    });
    pending::mark(to, uuid)?;
    sys::crash::point();
    let mut reported = Instant::now();
    let mut tell = |done: &Copied| {
        if reported.elapsed() >= REPORT_INTERVAL {
            reported = Instant::now();
            (work.progress)(&report(done));
        }
    };
    let done = storage::copy_zonepath(from, to, &mut tell)?;
    (work.progress)(&report(&done));
    Ok(())
}

fn report(done: &Copied) -> String {
    let bytes = done.copied_bytes.saturating_add(done.shared_bytes);
    format!("Copied {} files, {} MiB.", done.entries, bytes / MIB)
}

/// Stores the new zonepath in the configuration, and then in the index.
pub(super) fn store(work: &mut Work<'_>, to: &Path, undo: &mut UndoStack) -> Result<(), AnyError> {
    let root = &work.host.root;
    let shown = root.shown(to);
    let before = xml::load(root, &work.entry.name)?;
    let mut config = before.clone();
    config.relocate(&shown)?;
    let kept = root.clone();
    undo.push("the zonepath in the configuration", move || {
        Ok(xml::save(&kept, &before)?)
    });
    xml::save(root, &config)?;
    pending::store_at(root, &work.entry.name, &shown)?;
    work.entry.zonepath = shown;
    Ok(())
}

/// Removes the original of a copied zonepath, and the record of the move.
pub(super) fn end(work: &Work<'_>) -> Result<(), AnyError> {
    let index = Index::load(&work.host.root)?;
    let Some(pending) = index.pending_of(&work.entry.name) else {
        return Ok(());
    };
    let left = pending::complete(&work.host.root, pending)?;
    left.map_or(Ok(()), |text| Err(text.into()))
}
