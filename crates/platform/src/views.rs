//! Read-down: a zone with a label reads the exported files of the running zones whose labels its
//! own label dominates, at /zone/NAME/export.
//!
//! A view is a read-only mount of the lower zone's folder `export/root`. It appears when both zones
//! are ready, and goes before the root of the lower zone does. The file `READER.views` in the
//! folder of the runtime state lists the views of a reader, so that a command can find views that a
//! crash left.

use std::fs::File;
use std::path::{Path, PathBuf};

use label::{Label, Relation};
use model::{State, ZoneName};
use rustix::fs::CWD;
use rustix::mount::MountAttrFlags;
use serde::{Deserialize, Serialize};
use store::atomic::{self, Durability};
use store::runtime::{self, Mounted, Process, Runtime};
use store::{labels, lock};
use sys::mount::{Attr, Extent};

use crate::visit::{InUse, Way, What};
use host::{Error, Host, flatten};

/// The mount point in a zone of the folder that zones of higher labels can read.
pub const EXPORT: &str = "/export";

/// The folder in a zone with the views of other zones.
pub const ZONES: &str = "/zone";

/// Largest list of views that is read, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// A view of a lower zone in a reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct View {
    lower: ZoneName,
    /// The first process of the lower zone. After a reboot of the zone it is another one.
    of: Process,
    /// The first process of the reader.
    reader: Process,
    mounted: Mounted,
}

/// A running zone with its label.
#[derive(Clone)]
struct Running {
    name: ZoneName,
    label: Label,
    runtime: Runtime,
    zonepath: PathBuf,
}

/// Mounts the views of a zone that has become ready: those of lower zones in this zone, and those
/// of this zone in higher zones. Returns a remark for each view that could not be mounted.
///
/// # Errors
/// Fails if the state of the zones cannot be read.
pub fn appear(host: &Host, zone: &ZoneName) -> Result<Vec<String>, Error> {
    // Most zones have no label.
    if labels::of_zone(&host.root, zone)?.is_none() {
        return Ok(Vec::new());
    }
    let _lock = lock_views(host)?;
    let running = running(host)?;
    let Some(own) = running.iter().find(|one| one.name == *zone) else {
        return Ok(Vec::new());
    };
    let mut remarks = Vec::new();
    let mut show = |lower: &Running, reader: &Running| {
        if let Err(error) = show(host, lower, reader) {
            remarks.push(format!(
                "the files of zone {} do not appear at {} in zone {}: {}",
                lower.name,
                point(&lower.name).display(),
                reader.name,
                flatten(&error)
            ));
        }
    };
    for other in &running {
        match own.label.relation(other.label) {
            Relation::Above => show(other, own),
            Relation::Below => show(own, other),
            Relation::Equal | Relation::Incomparable => {}
        }
    }
    Ok(remarks)
}

/// Unmounts the views of a zone that ends in all readers. Readers that have a file of a view open
/// keep this file only. Returns a remark for each view that could not be unmounted.
///
/// # Errors
/// Fails if the state of the zones cannot be read.
pub fn vanish(host: &Host, zone: &ZoneName) -> Result<Vec<String>, Error> {
    // Most hosts have no labels, and so no file of the lock.
    if !lock_file(host).exists() {
        return Ok(Vec::new());
    }
    // Only the holder of the lock makes files of views, so none is missing from the list.
    let _lock = lock_views(host)?;
    let has_views = |name: &ZoneName| file_of(host, name).exists();
    let readers: Vec<ZoneName> = store::index::Index::load(&host.root)?
        .entries()
        .iter()
        .map(|entry| entry.name.clone())
        .filter(has_views)
        .collect();
    let mut remarks = Vec::new();
    for reader in readers {
        if reader == *zone {
            // The mounts end with the zone.
            atomic::remove(&file_of(host, &reader))?;
            continue;
        }
        // The views in other readers must go, even if the list of one is damaged.
        if let Err(error) = vanish_from(host, &reader, zone, &mut remarks) {
            remarks.push(remark_of(zone, &reader, &error));
        }
    }
    Ok(remarks)
}

fn vanish_from(
    host: &Host,
    reader: &ZoneName,
    zone: &ZoneName,
    remarks: &mut Vec<String>,
) -> Result<(), Error> {
    let views = read(host, reader)?;
    let (gone, kept): (Vec<View>, Vec<View>) =
        views.into_iter().partition(|view| view.lower == *zone);
    if gone.is_empty() {
        return Ok(());
    }
    for view in &gone {
        if let Err(error) = hide(host, reader, view) {
            remarks.push(remark_of(zone, reader, &error));
        }
    }
    save(host, reader, &kept)
}

fn remark_of(zone: &ZoneName, reader: &ZoneName, error: &Error) -> String {
    let why = flatten(error);
    format!("the view of zone {zone} in zone {reader}: {why}")
}

fn show(host: &Host, lower: &Running, reader: &Running) -> Result<(), Error> {
    let mut views = live_views(host, reader)?;
    if let Some(view) = views.iter().find(|view| view.lower == lower.name).cloned() {
        if view.of == lower.runtime.init {
            return Ok(());
        }
        // A crash left the view of an earlier boot.
        hide(host, &reader.name, &view)?;
        views.retain(|one| *one != view);
    }
    let way = Way::open(&reader.runtime, host.root.run().join("mnt"))?;
    let source = lower.zonepath.join(storage::EXPORT).join(storage::ROOT);
    let mount = view_of(&source, &way).map_err(|error| Error::Refused(flatten(&error)))?;
    way.mount(&What::Host(&mount), &point(&lower.name), &mut |mounted| {
        views.push(View {
            lower: lower.name.clone(),
            of: lower.runtime.init,
            reader: reader.runtime.init,
            mounted,
        });
        save(host, &reader.name, &views)
    })
}

/// Returns the mount of a view, which is not attached yet.
fn view_of(source: &Path, way: &Way) -> Result<sys::mount::MountFd, sys::mount::Error> {
    // Only the host can write to the folders of a zonepath.
    let mount = sys::mount::open_tree(CWD, source, Extent::One)?;
    let attr = Attr {
        set: MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
            | MountAttrFlags::MOUNT_ATTR_NOATIME,
        clear: MountAttrFlags::MOUNT_ATTR__ATIME,
        private: true,
        idmap: Some(way.users()),
    };
    sys::mount::set_attr(&mount, &attr, Extent::One, source)?;
    Ok(mount)
}

fn hide(host: &Host, reader: &ZoneName, view: &View) -> Result<(), Error> {
    let runtime = runtime::load(&host.root, reader)?;
    // The mounts of a reader that has ended are gone.
    let Some(runtime) = runtime.filter(|runtime| runtime.init == view.reader) else {
        return Ok(());
    };
    let way = Way::open(&runtime, host.root.run().join("mnt"))?;
    way.unmount(&view.mounted, InUse::Detach)
}

fn point(lower: &ZoneName) -> PathBuf {
    Path::new(ZONES).join(lower.as_str()).join("export")
}

fn running(host: &Host) -> Result<Vec<Running>, Error> {
    let index = store::index::Index::load(&host.root)?;
    let mut list = Vec::new();
    for (name, label) in labels::of_zones(&host.root)? {
        let (Some(label), Some(runtime)) = (label, runtime::load(&host.root, &name)?) else {
            continue;
        };
        // The views of a zone that ends are gone before its first process is, and must not return.
        if runtime.state == State::ShuttingDown {
            continue;
        }
        let zonepath = host.root.path(&index.get(&name)?.zonepath);
        // A guest has no such folder.
        if zonepath.join(storage::EXPORT).join(storage::ROOT).is_dir() {
            list.push(Running {
                name,
                label,
                runtime,
                zonepath,
            });
        }
    }
    Ok(list)
}

fn lock_views(host: &Host) -> Result<File, Error> {
    Ok(lock::exclusive(&lock_file(host))?)
}

fn lock_file(host: &Host) -> PathBuf {
    host.root.run().join(".views.lock")
}

fn file_of(host: &Host, reader: &ZoneName) -> PathBuf {
    host.root.run().join(format!("{reader}.views"))
}

/// Returns the views of the present boot of a reader.
fn live_views(host: &Host, reader: &Running) -> Result<Vec<View>, Error> {
    let mut views = read(host, &reader.name)?;
    views.retain(|view| view.reader == reader.runtime.init);
    Ok(views)
}

fn read(host: &Host, reader: &ZoneName) -> Result<Vec<View>, Error> {
    let path = file_of(host, reader);
    let fail = Error::io(format!("read {}", path.display()));
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(meta) if meta.len() <= MAX_SIZE => {}
        Ok(_) => return Err(fail(std::io::Error::other("too large for a list of views"))),
        Err(error) => return Err(fail(error)),
    }
    let text = std::fs::read(&path).map_err(Error::io(format!("read {}", path.display())))?;
    serde_json::from_slice(&text).map_err(|error| fail(error.into()))
}

fn save(host: &Host, reader: &ZoneName, views: &[View]) -> Result<(), Error> {
    let path = file_of(host, reader);
    let text = serde_json::to_vec(views)
        .map_err(|error| Error::io(format!("write {}", path.display()))(error.into()))?;
    Ok(atomic::replace(&path, &text, 0o600, Durability::Volatile)?)
}

#[cfg(test)]
mod tests {
    use model::Config;
    use store::Root;
    use store::index::{self, Entry};

    use super::*;

    const LOW: &str = "0x0002-08-08";
    const HIGH: &str = "0x0004-08-68";

    fn me() -> Process {
        Process::find(i32::try_from(std::process::id()).unwrap()).unwrap()
    }

    fn host_with(zones: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        std::fs::create_dir_all(root.etc()).unwrap();
        std::fs::create_dir_all(root.run()).unwrap();
        for (name, label) in zones {
            let name: ZoneName = name.parse().unwrap();
            let mut config = Config::new(name.clone());
            config.set_zonepath("/zones/%{zonename}").unwrap();
            config.set("label", label).unwrap();
            store::xml::save(&root, &config).unwrap();
            let zonepath = PathBuf::from(format!("/zones/{name}"));
            let export = root.path(&zonepath).join(storage::EXPORT);
            std::fs::create_dir_all(export.join(storage::ROOT)).unwrap();
            index::update(&root, |index| {
                index.put(Entry::configured(name, zonepath));
                Ok::<(), store::Error>(())
            })
            .unwrap();
        }
        (folder, Host::new(root, PathBuf::new(), None))
    }

    fn run_in(host: &Host, zone: &str, state: State) {
        let runtime = Runtime {
            id: 1,
            state,
            init: me(),
            daemon: me(),
            cgroups: Vec::new(),
            first_id: 0x2000_0000,
            shutdown_signal: 30,
            capabilities: 0,
            seccomp: Vec::new(),
            kernel: false,
            environment: Vec::new(),
            controls: model::controls::Controls::default(),
            auxiliary: String::new(),
            pager: None,
            immutable: None,
        };
        runtime::save(&host.root, &zone.parse().unwrap(), &runtime).unwrap();
    }

    #[test]
    fn a_zone_that_ends_gets_no_new_views() {
        let (_folder, host) = host_with(&[("low", LOW), ("high", HIGH)]);
        run_in(&host, "low", State::Running);
        run_in(&host, "high", State::Ready);
        assert_eq!(running(&host).unwrap().len(), 2);
        // Its first process still lives after its views are gone.
        run_in(&host, "low", State::ShuttingDown);
        let names: Vec<String> = running(&host)
            .unwrap()
            .into_iter()
            .map(|one| one.name.to_string())
            .collect();
        assert_eq!(names, ["high"]);
    }

    #[test]
    fn a_damaged_list_keeps_no_view_in_another_reader() {
        let zones = [
            ("low", LOW),
            ("first", HIGH),
            ("second", HIGH),
            ("third", HIGH),
        ];
        let (_folder, host) = host_with(&zones);
        let low: ZoneName = "low".parse().unwrap();
        drop(lock_views(&host).unwrap());
        let view = View {
            lower: low.clone(),
            of: me(),
            reader: me(),
            mounted: Mounted {
                at: point(&low),
                id: 1,
                unique: None,
            },
        };
        let readers = ["first", "third"].map(|name| name.parse::<ZoneName>().unwrap());
        for reader in &readers {
            save(&host, reader, std::slice::from_ref(&view)).unwrap();
        }
        let second: ZoneName = "second".parse().unwrap();
        std::fs::write(file_of(&host, &second), "[{").unwrap();
        let remarks = vanish(&host, &low).unwrap();
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(
            remarks[0].contains("zone low in zone second"),
            "{remarks:?}"
        );
        for reader in &readers {
            assert_eq!(read(&host, reader).unwrap(), []);
        }
    }
}
