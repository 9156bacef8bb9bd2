//! Reads files of the system that is checked, which may be another system than the running one. No
//! link leads out of the system's root, and every read has a maximum size.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

/// Maximum number of bytes that are read of a configuration file.
const MAX_SIZE: u64 = 4 << 20;

/// Maximum number of entries of a folder that are read.
const MAX_ENTRIES: usize = 100_000;

/// A system by its root.
#[derive(Debug)]
pub struct System {
    root: OwnedFd,
}

impl System {
    /// Opens the root folder of a system.
    pub fn open(root: &Path) -> Result<Self, String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, root, flags, Mode::empty())
            .map(|root| Self { root })
            .map_err(|error| format!("cannot open {}: {error}", root.display()))
    }

    fn find(&self, path: &str, flags: OFlags) -> Option<OwnedFd> {
        sys::root::open(&self.root, path, flags).ok()
    }

    /// Opens a regular file of the system.
    pub fn file(&self, path: &str) -> Option<File> {
        sys::root::file(&self.root, path).ok()?
    }

    /// Returns the text of a file; empty if the file does not exist.
    pub fn read(&self, path: &str) -> String {
        let mut bytes = Vec::new();
        if let Some(file) = self.file(path) {
            // If a read fails in the middle of a file, the text before the error is used.
            let _ = file.take(MAX_SIZE).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the lines of a file without comments, empty lines and outer blanks.
    pub fn lines(&self, path: &str) -> Vec<String> {
        let text = self.read(path);
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
            .map(str::to_owned)
            .collect()
    }

    /// Returns the names in a folder, sorted; empty if the folder does not exist.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let opened = self.find(folder, OFlags::RDONLY | OFlags::DIRECTORY);
        let Some(entries) = opened.and_then(|folder| Dir::read_from(folder).ok()) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .take(MAX_ENTRIES)
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "." && name != "..")
            .collect();
        names.sort_unstable();
        names
    }

    /// Returns the paths in a folder whose names end with `ending`.
    pub fn paths(&self, folder: &str, ending: &str) -> Vec<String> {
        let names = self.names(folder).into_iter();
        names
            .filter(|name| name.ends_with(ending))
            .map(|name| format!("{folder}/{name}"))
            .collect()
    }

    /// Returns true if the path is a folder; a folder behind a link does not count.
    pub fn is_folder(&self, path: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        self.find(&path.to_string_lossy(), flags).is_some()
    }

    /// Returns the host name of the system.
    pub fn host_name(&self) -> String {
        let name = self.lines("etc/hostname").into_iter().next();
        name.unwrap_or_else(|| "unknown".to_owned())
    }

    /// Returns the name of the system's operating system.
    pub fn release(&self) -> String {
        let mut lines = self.lines("etc/os-release");
        if lines.is_empty() {
            lines = self.lines("usr/lib/os-release");
        }
        let name = lines
            .iter()
            .find_map(|line| line.strip_prefix("PRETTY_NAME="));
        name.map_or("unknown", |name| name.trim_matches(['"', '\'']))
            .to_owned()
    }

    /// Returns the version of the running kernel from /proc below the system root; empty if /proc
    /// is not readable.
    pub fn kernel(&self) -> String {
        self.read("proc/sys/kernel/osrelease").trim().to_owned()
    }

    /// Returns the memory in KiB from /proc below the system root; `None` if /proc is not readable.
    pub fn memory(&self) -> Option<u64> {
        let text = self.read("proc/meminfo");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Returns the number of processors from /proc below the system root.
    pub fn processors(&self) -> usize {
        let text = self.read("proc/cpuinfo");
        text.lines()
            .filter(|line| line.starts_with("processor"))
            .count()
    }
}

/// Returns the last component of a path.
pub fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_do_not_lead_out_of_the_checked_system() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("etc/inner")).unwrap();
        fs::write(tree.path().join("etc/hostname"), "# name\nold\n").unwrap();
        symlink("/etc/hostname", tree.path().join("etc/link")).unwrap();
        symlink("../../../../../etc", tree.path().join("etc/up")).unwrap();
        symlink("/", tree.path().join("etc/inner/all")).unwrap();
        let system = System::open(tree.path()).unwrap();
        assert_eq!(system.host_name(), "old");
        assert_eq!(system.lines("/etc/link"), ["old"]);
        assert_eq!(system.lines("etc/up/hostname"), ["old"]);
        assert_eq!(system.names("etc/up"), ["hostname", "inner", "link", "up"]);
        assert_eq!(system.read("etc/passwd"), "");
        assert!(system.file("etc").is_none());
        assert!(system.is_folder(Path::new("/etc/inner")));
        assert!(!system.is_folder(Path::new("/etc/inner/all")));
        assert_eq!(system.release(), "unknown");
        assert_eq!((system.memory(), system.processors()), (None, 0));
        assert!(System::open(&tree.path().join("etc/hostname")).is_err());
    }
}
