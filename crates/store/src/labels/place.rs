//! The label of a path on the host.

use std::fs::{self, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use label::Label;
use rustix::fs::OFlags;

use super::{Error, of_zone};
use crate::Root;
use crate::index::Index;

/// The folders of a zonepath with files of the zone. Each can be mounted at another place.
const FOLDERS: [&str; 4] = ["", "root", "export", "export/root"];

/// The device number and inode number of a file.
type Id = (u64, u64);

fn id(stat: &Metadata) -> Id {
    (stat.dev(), stat.ino())
}

/// Returns the label of a file of the host: that of the zone in whose zonepath it lies, otherwise
/// [`Label::ADMIN_LOW`]. Symbolic links are followed. Folders are compared by device and inode, so a
/// bind mount of a zone's folder has the label of the zone.
///
/// # Errors
/// Fails if the file or the configuration of a zone cannot be read, or with [`Error::Elsewhere`].
pub fn of_path(root: &Root, path: &Path) -> Result<Label, Error> {
    let above = ids_above(path)?;
    let index = Index::load(root)?;
    for entry in index.entries().iter().filter(|one| !one.name.is_global()) {
        let zonepath = root.path(&entry.zonepath);
        let holds = FOLDERS.iter().any(|folder| {
            let stat = fs::metadata(zonepath.join(folder));
            stat.is_ok_and(|stat| above.contains(&id(&stat)))
        });
        if holds {
            return Ok(of_zone(root, &entry.name)?.unwrap_or(Label::ADMIN_LOW));
        }
    }
    Ok(Label::ADMIN_LOW)
}

/// Returns the ids of a file and of the folders above it.
fn ids_above(path: &Path) -> Result<Vec<Id>, Error> {
    let unreadable = |source| crate::Error::File {
        action: "look at",
        path: path.to_owned(),
        source,
    };
    let flags = i32::try_from(OFlags::PATH.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(unreadable)?;
    let own = id(&file.metadata().map_err(unreadable)?);
    // A path through /proc/PID/root leads to mounts that this process does not have. The kernel then
    // tells a path in those mounts, at which this process has another file or none.
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let real: PathBuf = real.map_err(unreadable)?;
    if !fs::metadata(&real).is_ok_and(|stat| id(&stat) == own) {
        return Err(Error::Elsewhere(path.to_owned()));
    }
    let stats = real.ancestors().filter_map(|one| fs::metadata(one).ok());
    Ok(stats.map(|stat| id(&stat)).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use model::Config;
    use model::config::LABEL;

    use super::*;
    use crate::index::{self, Entry};
    use crate::xml;

    #[test]
    fn a_path_has_the_label_of_the_zone_that_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for made in [root.etc(), root.run()] {
            fs::create_dir_all(made).unwrap();
        }
        for (name, label) in [("high", Some("0x0004-08-68")), ("plain", None)] {
            let name: model::ZoneName = name.parse().unwrap();
            let zonepath = Path::new("/zones").join(name.as_str());
            fs::create_dir_all(root.path(&zonepath).join("export/root")).unwrap();
            fs::write(root.path(&zonepath).join("export/root/file"), "").unwrap();
            let mut config = Config::new(name.clone());
            config.set_zonepath("/zones/%{zonename}").unwrap();
            if let Some(label) = label {
                config.set(LABEL, label).unwrap();
            }
            xml::save(&root, &config).unwrap();
            index::update(&root, |index| {
                index.put(Entry::configured(name, zonepath));
                Ok::<(), crate::Error>(())
            })
            .unwrap();
        }
        let link = folder.path().join("link");
        symlink(root.path(Path::new("/zones/high/export")), &link).unwrap();
        symlink("link/root/file", folder.path().join("to-file")).unwrap();
        let high = "0x0004-08-68".parse().unwrap();
        for (path, label) in [
            ("zones", Label::ADMIN_LOW),
            ("zones/high", high),
            ("zones/high/export/root/file", high),
            ("zones/high/export/../../plain", Label::ADMIN_LOW),
            ("zones/plain/export/root/file", Label::ADMIN_LOW),
            ("link/root/file", high),
            ("to-file", high),
        ] {
            let found = of_path(&root, &folder.path().join(path)).unwrap();
            assert_eq!(found, label, "{path}");
        }
        let error = of_path(&root, &folder.path().join("none")).unwrap_err();
        assert!(error.to_string().contains("cannot look at"), "{error}");
    }

    #[test]
    fn a_file_that_has_no_path_here_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone");
        let open = fs::File::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let path = format!("/proc/self/fd/{}", open.as_raw_fd());
        let error = ids_above(Path::new(&path)).unwrap_err();
        assert!(matches!(error, Error::Elsewhere(_)), "{error}");
    }
}
