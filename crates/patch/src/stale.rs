//! Finds processes that still use files that a patch replaced. The program of such a process, or
//! one of its libraries, is a deleted file.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;

use serde::Serialize;

/// Maximum number of bytes to read from a file in /proc.
const MAX_PROC_BYTES: u64 = 16 << 20;

/// The suffix of a deleted file's name in /proc.
const DELETED: &str = " (deleted)";

/// A process that should be restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stale {
    /// The pid on the host.
    pub pid: i32,
    /// The name of the process, which it chose itself.
    pub name: String,
    /// The deleted files that the process still uses.
    pub files: Vec<String>,
}

/// Returns the processes of the list that still use deleted files. A process that ends in the
/// meantime is left out.
pub(crate) fn among(pids: &[i32]) -> Vec<Stale> {
    let one = |pid: &i32| {
        let maps = read(&format!("/proc/{pid}/maps"))?;
        let files = replaced(&maps);
        (!files.is_empty()).then(|| Stale {
            pid: *pid,
            name: plain(
                read(&format!("/proc/{pid}/comm"))
                    .unwrap_or_default()
                    .trim(),
            ),
            files: files.into_iter().collect(),
        })
    };
    pids.iter().filter_map(one).collect()
}

fn read(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(MAX_PROC_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn plain(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

/// Returns the mapped files with code that are deleted. Files in memory and in folders for
/// temporary files are left out, because they never had a lasting name.
fn replaced(maps: &str) -> BTreeSet<String> {
    let of = |line: &str| {
        // The fields of a line: ADDRESS PERMISSIONS OFFSET DEVICE INODE PATH.
        let mut fields = line.splitn(6, ' ');
        let permissions = fields.nth(1)?;
        let path = fields.nth(3)?.trim_start().strip_suffix(DELETED)?;
        let temporary = ["/memfd:", "/dev/", "/tmp/", "/run/", "/SYSV", "/["];
        let counts = permissions.contains('x')
            && path.starts_with('/')
            && !temporary.iter().any(|prefix| path.starts_with(prefix));
        counts.then(|| plain(path))
    };
    maps.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_a_name_is_found() {
        let maps = "\
55d0-55d1 r-xp 00001000 fe:01 12      /usr/sbin/nginx (deleted)
55d1-55d2 r--p 00002000 fe:01 13      /usr/share/locale/x (deleted)
7f00-7f01 r-xp 00000000 fe:01 14      /usr/lib/libssl.so.3
7f01-7f02 r-xp 00000000 fe:01 15      /usr/lib/lib with blank.so (deleted)
7f02-7f03 rwxp 00000000 00:01 16      /memfd:jit (deleted)
7f03-7f04 rwxp 00000000 00:05 17      /dev/zero (deleted)
7ffe-7fff r-xp 00000000 00:00 0       [vdso]
";
        let found: Vec<String> = replaced(maps).into_iter().collect();
        assert_eq!(found, ["/usr/lib/lib with blank.so", "/usr/sbin/nginx"]);
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(among(&[own]), []);
    }
}
