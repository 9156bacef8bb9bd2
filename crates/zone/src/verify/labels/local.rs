//! A zone with a label uses local file systems only: other hosts and programs see the reads and
//! writes of all others. A type that is not known here counts as such a one.

use std::io;
use std::path::Path;

use model::config::{FileSystem, LABEL};
use rustix::fs::FileType;

/// The numbers of local file systems in statfs(2), from linux/magic.h. ext2, ext3 and ext4 have
/// the same number.
const NUMBERS: [i64; 7] = [
    0xef53,
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x2fc1_2fc1, // zfs
    0x0102_1994, // tmpfs
    0x7371_7368, // squashfs
    0x9660,      // iso9660
];

/// The types of local file systems of an `fs` resource.
const TYPES: [&str; 9] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "squashfs", "iso9660",
];

/// Returns the problem of an `fs` resource that may not be local.
pub(super) fn problem(fs: &FileSystem) -> Option<String> {
    let special = Path::new(&fs.special);
    let why = match fs.fstype.as_str() {
        "lofs" => why_not_local(special),
        fstype if !TYPES.contains(&fstype) => Some(format!("is of type {fstype}")),
        // The file system may be in a file.
        _ if is_file(special) => why_not_local(special),
        _ => None,
    }?;
    Some(format!(
        "could not verify fs {}: {} {why}: a zone with a {LABEL} uses local file systems only ({}), because other hosts or programs see the reads and writes of all others",
        fs.dir.display(),
        fs.special,
        TYPES.join(", ")
    ))
}

fn is_file(path: &Path) -> bool {
    let stat = rustix::fs::stat(path);
    path.is_absolute()
        && stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

fn why_not_local(path: &Path) -> Option<String> {
    let stat = match rustix::fs::statfs(path) {
        Ok(stat) => stat,
        Err(error) => {
            let error = io::Error::from(error);
            return Some(format!("is on an unknown file system: {error}"));
        }
    };
    // The type of the number differs between architectures.
    #[allow(clippy::unnecessary_cast)]
    let number = stat.f_type as i64 & 0xffff_ffff;
    (!NUMBERS.contains(&number)).then(|| format!("is on a file system with the number {number:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(fstype: &str, special: &str) -> FileSystem {
        FileSystem {
            dir: "/data".into(),
            special: special.to_owned(),
            raw: None,
            fstype: fstype.to_owned(),
            options: Vec::new(),
        }
    }

    #[test]
    fn only_known_local_file_systems_are_accepted() {
        for (fstype, special, why) in [
            ("ext4", "/dev/none", None),
            ("tmpfs", "swap", None),
            ("zfs", "tank/low", None),
            ("gfs2", "/dev/none", Some("is of type gfs2")),
            ("fuse.sshfs", "a:/b", Some("is of type fuse.sshfs")),
            // The file system proc stands for all unknown ones.
            ("lofs", "/proc/sys", Some("with the number 0x9fa0")),
            ("ext4", "/proc/self/status", Some("with the number 0x9fa0")),
            (
                "lofs",
                "/proc/version/x",
                Some("unknown file system: Not a directory"),
            ),
        ] {
            let found = problem(&source(fstype, special));
            assert_eq!(found.is_some(), why.is_some(), "{found:?}");
            let text = found.unwrap_or_default();
            assert!(text.contains(why.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn a_folder_of_this_host_is_local() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let number = rustix::fs::statfs(path).unwrap().f_type;
        if number == 0x794c_7630 {
            eprintln!("skipped: the folder of temporary files is on an overlay");
            return;
        }
        assert_eq!(problem(&source("lofs", path)), None);
    }
}
