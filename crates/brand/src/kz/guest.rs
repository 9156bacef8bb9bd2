//! Makes a disk from the root of a system, and finds the kernel that boots it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Dir, Mode, OFlags};

use crate::install::Error;

/// The kernel in the root of a system.
#[derive(Debug)]
pub struct Kernel {
    /// The file of the kernel.
    pub kernel: File,
    /// The initial RAM disk of the kernel, if there is one.
    pub initrd: Option<File>,
    /// The name of the guest, for messages.
    pub name: String,
}

/// Maximum number of entries of /boot.
const MAX_BOOT_ENTRIES: usize = 1000;

/// Maximum size of a kernel or an initial RAM disk, in bytes.
pub const MAX_BOOT_FILE_BYTES: u64 = 1 << 30;

/// Finds the newest kernel of a root: `/boot/vmlinuz*`, with the `initrd.img*` of the same version.
/// Links are resolved inside the root.
///
/// # Errors
/// Fails with [`Error::Source`] if there is no kernel.
pub fn find_kernel(root: &Path) -> Result<Kernel, Error> {
    let fail = |problem: &str| Error::Source {
        origin: root.to_owned(),
        problem: problem.to_owned(),
    };
    let io = |path: &str, errno: rustix::io::Errno| Error::io("open", root.join(path), errno);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root_fd =
        rustix::fs::open(root, flags, Mode::empty()).map_err(|e| Error::io("open", root, e))?;
    let boot = sys::root::open(&root_fd, "boot", OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(|_| fail("it has no folder boot: a machine starts with the kernel there"))?;
    let mut kernels = Vec::new();
    let entries = Dir::read_from(&boot).map_err(|errno| io("boot", errno))?;
    for entry in entries.take(MAX_BOOT_ENTRIES) {
        let entry = entry.map_err(|errno| io("boot", errno))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix("vmlinuz") {
            kernels.push(version.to_owned());
        }
    }
    kernels.sort_by_cached_key(|version| version_key(version));
    while let Some(version) = kernels.pop() {
        let name = format!("boot/vmlinuz{version}");
        let Some(kernel) = regular(&root_fd, &name) else {
            continue;
        };
        let bare = version.trim_start_matches('-');
        let initrds = [
            format!("boot/initrd.img{version}"),
            format!("boot/initramfs{version}.img"),
            format!("boot/initrd{version}"),
            format!("boot/initramfs-{bare}"),
        ];
        return Ok(Kernel {
            kernel,
            initrd: initrds.iter().find_map(|name| regular(&root_fd, name)),
            name: format!("/{name}"),
        });
    }
    Err(fail(
        "it has no kernel boot/vmlinuz*: install one in it first",
    ))
}

/// Compares the numbers in a version by their values.
fn version_key(version: &str) -> Vec<(u64, String)> {
    let mut key = Vec::new();
    let mut rest = version;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let text = after.bytes().take_while(|b| !b.is_ascii_digit()).count();
        // The text is cut before an ASCII character, or at its end.
        let (text, after) = after.split_at(text);
        key.push((number.parse().unwrap_or(0), text.to_owned()));
        rest = after;
    }
    key
}

/// Opens a file whose size is possible for a kernel or an initial RAM disk.
fn regular(root: &OwnedFd, path: &str) -> Option<File> {
    let file = sys::root::file(root, path).ok()??;
    let size = file.metadata().ok()?.len();
    (1..=MAX_BOOT_FILE_BYTES).contains(&size).then_some(file)
}

/// Makes a disk with an ext4 file system and the content of `root`.
///
/// # Errors
/// Fails with [`Error::Refused`] if mkfs.ext4 is not installed, or with its error.
pub fn make_disk(root: &Path, disk: &Path, size: u64) -> Result<(), Error> {
    let tool = [
        "/usr/sbin/mkfs.ext4",
        "/sbin/mkfs.ext4",
        "/usr/bin/mkfs.ext4",
    ]
    .into_iter()
    .map(PathBuf::from)
    .find(|tool| tool.exists())
    .ok_or_else(|| {
        Error::Refused("mkfs.ext4 is not installed: install the package e2fsprogs".to_owned())
    })?;
    let file = File::options()
        .write(true)
        .create_new(true)
        .open(disk)
        .map_err(|error| Error::io("make", disk, error))?;
    file.set_len(size)
        .map_err(|error| Error::io("make", disk, error))?;
    drop(file);
    let mut child = Command::new(&tool)
        .args(["-q", "-F", "-L", "root", "-m", "1"])
        .args(["-E", "lazy_itable_init=1,lazy_journal_init=1"])
        .arg("-d")
        .arg(root)
        .arg(disk)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::io("run", &tool, error))?;
    let mut said = String::new();
    if let Some(errors) = child.stderr.take() {
        // mkfs.ext4 writes few messages, so the beginning of its output is enough.
        let _ = errors.take(4096).read_to_string(&mut said);
    }
    let status = child
        .wait()
        .map_err(|error| Error::io("run", &tool, error))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{} could not make {}: {}",
        tool.display(),
        disk.display(),
        said.trim().replace('\n', "; ")
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn root(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("boot")).unwrap();
        for file in files {
            fs::write(root.path().join("boot").join(file), file).unwrap();
        }
        root
    }

    #[test]
    fn the_newest_kernel_and_what_belongs_to_it() {
        let root = root(&[
            "vmlinuz-6.1.0-9-amd64",
            "vmlinuz-6.1.0-10-amd64",
            "initrd.img-6.1.0-9-amd64",
            "initrd.img-6.1.0-10-amd64",
            "config-7",
        ]);
        let found = find_kernel(root.path()).unwrap();
        assert_eq!(found.name, "/boot/vmlinuz-6.1.0-10-amd64");
        let mut text = String::new();
        found.initrd.unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "initrd.img-6.1.0-10-amd64");
    }

    #[test]
    fn links_lead_nowhere_else() {
        let root = root(&[]);
        symlink("/etc/passwd", root.path().join("boot/vmlinuz")).unwrap();
        symlink("../../../../etc/passwd", root.path().join("boot/vmlinuz-2")).unwrap();
        let error = find_kernel(root.path()).unwrap_err().to_string();
        assert!(error.contains("no kernel"), "{error}");
        fs::write(root.path().join("boot/real"), "kernel").unwrap();
        symlink("/boot/real", root.path().join("boot/vmlinuz-3")).unwrap();
        assert_eq!(find_kernel(root.path()).unwrap().name, "/boot/vmlinuz-3");
    }

    #[test]
    fn a_root_without_a_kernel_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        let error = find_kernel(empty.path()).unwrap_err().to_string();
        assert!(error.contains("no folder boot"), "{error}");
    }
}
