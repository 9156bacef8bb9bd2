//! Mounts the files in a zone, also while the zone runs.

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

/// Returns a mount of a file that is read-only for all processes. The file belongs to a user of the
/// host who is not a user of the zone, like the kernel's own files. So no process of the zone can
/// take a lease of the file.
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

/// The files and the sizes of file systems that show a zone its limits.
#[derive(Debug)]
pub(crate) struct Shown {
    files: BTreeSet<File>,
    sizes: Vec<Option<Size>>,
}

impl Shown {
    /// Returns the files and sizes of an active zone that has these controls.
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

/// Returns the files that exist for a zone.
fn there(root: &Root, zone: &ZoneName) -> BTreeSet<File> {
    let folder = root.proc_files(zone);
    let all = File::ALL.into_iter();
    all.filter(|file| folder.join(file.name()).exists())
        .collect()
}

/// Mounts the files in a running zone that it did not have `before`, and gives its file systems in
/// memory the sizes that follow from its limits. A failure is logged and is not an error, because
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
        // The zone has ended in the meantime.
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

/// Returns the size of the host's memory in bytes.
fn memory_of_host() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}
