//! Showing the files in a zone, also while it runs.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use model::ZoneName;
use model::controls::Controls;
use rustix::fs::CWD;
use rustix::mount::MountAttrFlags;
use store::{Root, runtime};
use sys::mount::{Attr, Extent};

use crate::proc::files::File;
use crate::proc::sizes::{self, Size};
use crate::visit::{Way, What};
use host::{Error, Host, flatten};

/// Returns a file as a mount that is read-only for all. It keeps the host's owner, which is no user
/// of the zone, as the kernel's own files do, so no process there can take a lease of it.
pub(crate) fn source(path: &Path) -> Result<OwnedFd, sys::mount::Error> {
    let mount = sys::mount::open_tree(CWD, path, Extent::One)?;
    let attr = Attr {
        set: MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        private: true,
        ..Attr::default()
    };
    sys::mount::set_attr(&mount, &attr, Extent::One, path)?;
    Ok(mount)
}

/// The files and sizes by which a zone is shown its limits.
#[derive(Debug)]
pub(crate) struct Shown {
    files: BTreeSet<File>,
    sizes: Vec<Option<Size>>,
}

impl Shown {
    /// Returns those of an active zone that has these controls.
    pub(crate) fn under(host: &Host, zone: &ZoneName, controls: &Controls) -> Self {
        Self {
            files: there(&host.root, zone),
            sizes: sizes_for(controls),
        }
    }
}

/// Returns the sizes of the file systems in memory under these limits.
fn sizes_for(controls: &Controls) -> Vec<Option<Size>> {
    let all = sizes::ALL.into_iter();
    all.map(|target| Size::of(target, controls)).collect()
}

/// Returns the files that a zone is shown.
fn there(root: &Root, zone: &ZoneName) -> BTreeSet<File> {
    let folder = root.proc_files(zone);
    let all = File::ALL.into_iter();
    all.filter(|file| folder.join(file.name()).exists())
        .collect()
}

/// Shows a running zone those of its files that it had not `before`, and gives its file
/// systems in memory the sizes that belong to its limits. A failure is logged:
/// the limits themselves are in force.
pub(crate) fn follow_limits(host: &Host, zone: &ZoneName, before: &Shown, controls: &Controls) {
    let files = there(&host.root, zone);
    let new: Vec<File> = files.difference(&before.files).copied().collect();
    let sizes = sizes_for(controls);
    if new.is_empty() && sizes == before.sizes {
        return;
    }
    let note = |what: &str, error: &Error| {
        let text = format!("WARNING: {what}: {}", flatten(error));
        control::log::note(host, zone, &text);
    };
    let way = match runtime::load(&host.root, zone) {
        Ok(Some(known)) => Way::open(&known, host.root.run().join("mnt")),
        // It has ended meanwhile.
        Ok(None) => return,
        Err(error) => Err(error.into()),
    };
    let way = match way {
        Ok(way) => way,
        Err(error) => return note("could not show the zone its limits", &error),
    };
    let folder = host.root.proc_files(zone);
    for file in new {
        let at = Path::new(file.target());
        let shown = source(&folder.join(file.name()))
            .map_err(|error| Error::Refused(flatten(&error)))
            .and_then(|mount| way.mount(&What::Host(&mount), at, &mut |_| Ok(())));
        if let Err(error) = shown {
            note(
                &format!("could not show the limits in {}", at.display()),
                &error,
            );
        }
    }
    for ((target, size), old) in sizes::ALL.into_iter().zip(sizes).zip(&before.sizes) {
        if size != *old
            && let Some(size) = size.or_else(|| memory_of_host().map(Size::unlimited))
            && let Err(error) = way.resize(Path::new(target), &size.options())
        {
            note(&format!("could not change the size of {target}"), &error);
        }
    }
}

/// Bytes of memory of the host.
fn memory_of_host() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}
