//! The files in which a zone reads the version of its kernel.

use std::fs;
use std::io;
use std::path::Path;

use model::plan::Kernel;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use sys::mount::{Attr, Extent};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Maximum size of these files, in bytes.
const MAX_FILE_BYTES: usize = 4096;

/// Mounts files with the configured version over the kernel's own files. The caller is in the
/// zone's root, with the zone's /proc and /dev mounted.
pub(super) fn show(kernel: &Kernel) -> Result<(), AnyError> {
    let line = |word: &String| format!("{word}\n");
    let version = fs::read_to_string("/proc/version")?;
    cover("/proc/version", &reworded(&version, kernel))?;
    for (path, word) in [
        ("/proc/sys/kernel/ostype", &kernel.name),
        ("/proc/sys/kernel/osrelease", &kernel.release),
        ("/proc/sys/kernel/arch", &kernel.machine),
    ] {
        if let Some(word) = word {
            cover(path, &line(word))?;
        }
    }
    Ok(())
}

/// Mounts a file with an id of the zone's own over the file with the id of the host's boot. The
/// caller is in the zone's root, with the zone's /proc and /dev mounted.
pub(super) fn show_boot_id() -> Result<(), AnyError> {
    // The kernel returns a new id at each read of this file.
    let id = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    cover("/proc/sys/kernel/random/boot_id", &id)
}

/// Returns the text "Linux version 6.1.0 (...)" with its first and third word replaced.
fn reworded(version: &str, kernel: &Kernel) -> String {
    let mut words: Vec<&str> = version.trim_end().split(' ').collect();
    for (at, word) in [(0, &kernel.name), (2, &kernel.release)] {
        if let (Some(place), Some(word)) = (words.get_mut(at), word) {
            *place = word;
        }
    }
    let mut text = words.join(" ");
    text.truncate(MAX_FILE_BYTES);
    text.push('\n');
    text
}

/// Mounts a file of the zone's /dev over another file. The zone cannot write to the mounted file.
fn cover(path: &str, text: &str) -> Result<(), AnyError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let place = match openat(CWD, path, flags, Mode::empty()) {
        // This kernel does not have the file.
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    // No device has this name. The file has it only until it is mounted.
    let name = Path::new("/dev/.kernel");
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(CWD, name, flags, Mode::from_raw_mode(0o444))?;
    let covered = || -> Result<(), AnyError> {
        io::Write::write_all(&mut fs::File::from(file), text.as_bytes())?;
        let mount = sys::mount::open_tree(CWD, name, Extent::One)?;
        let attr = Attr {
            set: MountAttrFlags::MOUNT_ATTR_RDONLY,
            ..Attr::default()
        };
        sys::mount::set_attr(&mount, &attr, Extent::One, name)?;
        Ok(sys::mount::attach(&mount, &place, Path::new(""))?)
    };
    let covered = covered();
    rustix::fs::unlinkat(CWD, name, AtFlags::empty())?;
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_kernel_changes_only_name_and_release() {
        let kernel = Kernel {
            release: Some("2.6.18".to_owned()),
            ..Kernel::default()
        };
        assert_eq!(
            reworded("Linux version 6.1.0-44 (a@b) (gcc 12) #1 SMP\n", &kernel),
            "Linux version 2.6.18 (a@b) (gcc 12) #1 SMP\n"
        );
        assert_eq!(reworded("odd", &kernel), "odd\n");
    }
}
