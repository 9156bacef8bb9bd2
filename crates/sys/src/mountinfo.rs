//! Reads the list of mounts of a process from /proc/PID/mountinfo.
//!
//! In paths, the kernel writes blanks, tabs, line ends and backslashes as a backslash and three
//! octal digits. A program that compares a path with an undecoded line would miss a mount below
//! "/zones/a b". Therefore this is the only reader of that file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The list of mounts of the calling thread, which may be in a mount namespace of its own.
/// /proc/self would show the mounts of the first thread.
const OWN: &str = "/proc/thread-self/mountinfo";

/// A mount; see proc_pid_mountinfo(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The number of the mount. The kernel uses it again after the mount ends.
    pub id: u64,
    /// The number of the file system, as `major:minor`. All subvolumes of a btrfs have the same
    /// number here, but not in stat(2).
    pub device: String,
    /// The folder of the file system that is visible at [`Mount::point`].
    pub root: PathBuf,
    /// The mount point, relative to the root of the process.
    pub point: PathBuf,
    /// The type of the file system.
    pub fstype: String,
    /// The source of the mount: a device, or the name that the file system gave.
    pub source: PathBuf,
    /// The options of the file system itself; for a cgroup v1 mount, these are its controllers.
    pub options: String,
}

/// Returns the mounts that the calling thread sees, in the order of the kernel: a mount that covers
/// another one comes later.
///
/// # Errors
/// Fails if /proc is not mounted.
pub fn own() -> io::Result<Vec<Mount>> {
    #[cfg(feature = "fake")]
    if let Some(text) = fake::text() {
        return Ok(parse(&text));
    }
    Ok(parse(&crate::file::read_small(Path::new(OWN))?))
}

/// A list of mounts that a test sets for its own thread. Nothing is really mounted.
#[cfg(feature = "fake")]
pub mod fake {
    use std::cell::RefCell;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    thread_local! {
        static POINTS: RefCell<Option<Vec<PathBuf>>> = const { RefCell::new(None) };
    }

    /// Calls `work` with a list of mounts that has exactly these mount points.
    pub fn mounted<T>(points: &[PathBuf], work: impl FnOnce() -> T) -> T {
        let before = POINTS.replace(Some(points.to_vec()));
        let done = work();
        POINTS.set(before);
        done
    }

    /// Returns the list as text, in the kernel's format.
    pub(super) fn text() -> Option<Vec<u8>> {
        let line = |(number, point): (usize, &PathBuf)| {
            let (id, point) = (number + 100, escape(point));
            format!("{id} 1 0:9 / {point} rw - tmpfs none rw\n")
        };
        POINTS.with_borrow(|points| {
            let lines = points.as_ref()?.iter().enumerate().map(line);
            Some(lines.collect::<String>().into_bytes())
        })
    }

    /// Returns a path with blanks, tabs, line ends and backslashes as mangle_path() of the
    /// kernel writes them.
    fn escape(path: &Path) -> String {
        let mut text = String::new();
        for byte in path.as_os_str().as_bytes() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\\' => text.push_str(&format!("\\{byte:03o}")),
                byte => text.push(char::from(*byte)),
            }
        }
        text
    }
}

/// Returns the mount points at and below a folder, in the order in which they were mounted. The
/// path of the folder may contain symbolic links.
///
/// # Errors
/// Fails if /proc is not mounted, or if the folder does not exist.
pub fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let real = fs::canonicalize(folder)?;
    let points = own()?.into_iter().map(|mount| mount.point);
    Ok(points.filter(|point| point.starts_with(&real)).collect())
}

/// Returns the mounts in the text of a mountinfo file. Lines in another format are left out.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n')
        .filter_map(mount)
        .collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let mut fields = fields.skip(1);
    let device = String::from_utf8_lossy(fields.next()?).into_owned();
    let (root, point) = (path(fields.next()?), path(fields.next()?));
    // After the mount options there is any number of optional fields, and then a dash.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let fstype = String::from_utf8_lossy(rest.next()?).into_owned();
    let source = path(rest.next()?);
    // If the file system has no options, nothing follows the source.
    let options = String::from_utf8_lossy(rest.next().unwrap_or_default()).into_owned();
    Some(Mount {
        id,
        device,
        root,
        point,
        fstype,
        source,
        options,
    })
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

/// Decodes a field of /proc/PID/mountinfo, /proc/PID/mounts or fstab(5): replaces each backslash
/// with three octal digits by the byte that they encode.
#[must_use]
pub fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            // from_str_radix also accepts a sign.
            let octal = digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
            let digits = std::str::from_utf8(digits).ok().filter(|_| octal)?;
            u8::from_str_radix(digits, 8).ok()
        });
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_mounts_with_odd_names() {
        let text = b"36 35 98:0 /mnt1 /z/a\\040b rw,noatime master:1 shared:2 - ext4 /dev/x\\011y rw,errors=continue\n\
            37 36 0:3 / /z/back\\134slash rw - proc p rw\n\
            38 36 0:4 /with\\012line /z/new\\012line rw - cgroup cgroup rw,cpu,cpuacct\n\
            39 36 0:4 / /z/nothing rw - tmpfs none\n\
            bad line\n\
            40 36 0:4 / /z/cut";
        let mounts = parse(text);
        let points: Vec<&Path> = mounts.iter().map(|mount| mount.point.as_path()).collect();
        let expected = ["/z/a b", "/z/back\\slash", "/z/new\nline", "/z/nothing"];
        assert_eq!(points, expected.map(Path::new));
        assert_eq!(mounts[0].id, 36);
        assert_eq!(mounts[0].device, "98:0");
        assert_eq!(mounts[0].source, Path::new("/dev/x\ty"));
        assert_eq!(mounts[0].options, "rw,errors=continue");
        assert_eq!(mounts[2].root, Path::new("/with\nline"));
        assert_eq!(mounts[2].fstype, "cgroup");
        assert_eq!(mounts[2].options, "rw,cpu,cpuacct");
        assert_eq!(mounts[3].options, "");
    }

    #[test]
    fn invalid_escapes_stay_as_they_are() {
        assert_eq!(unescape(b"a\\9x"), b"a\\9x");
        assert_eq!(unescape(b"\\+12\\04"), b"\\+12\\04");
        assert_eq!(unescape(b"\\777"), b"\\777");
        assert_eq!(unescape(b"\\134040"), b"\\040");
    }

    #[test]
    fn the_root_is_mounted() {
        let mounts = own().unwrap();
        assert!(mounts.iter().any(|mount| mount.point == Path::new("/")));
        assert!(below(Path::new("/")).unwrap().len() >= mounts.len());
        assert!(below(Path::new("/nothing is here")).is_err());
    }
}
