//! The files of the system that is looked at, which may be another than this one: no
//! link in it leads out of it, and nothing in it is read whole that is not small.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

/// Most that is read of a file of configuration, in bytes.
const MAX_SIZE: u64 = 4 << 20;

/// Most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 100_000;

/// A system by its root.
#[derive(Debug)]
pub struct System {
    root: OwnedFd,
}

impl System {
    /// Opens the root.
    pub fn open(root: &Path) -> Result<Self, String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, root, flags, Mode::empty())
            .map(|root| Self { root })
            .map_err(|error| format!("cannot open {}: {error}", root.display()))
    }

    fn find(&self, path: &str, flags: OFlags) -> Option<OwnedFd> {
        sys::root::open(&self.root, path, flags).ok()
    }

    /// A regular file, open.
    pub fn file(&self, path: &str) -> Option<File> {
        sys::root::file(&self.root, path).ok()?
    }

    /// The text of a file; empty without one.
    pub fn read(&self, path: &str) -> String {
        let mut bytes = Vec::new();
        if let Some(file) = self.file(path) {
            // A file that cannot be read to its end counts up to the error.
            let _ = file.take(MAX_SIZE).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The lines of a file that say something, without comments and outer blanks.
    pub fn lines(&self, path: &str) -> Vec<String> {
        let text = self.read(path);
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
            .map(str::to_owned)
            .collect()
    }

    /// The names in a folder, in order; none without one.
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

    /// The paths in a folder whose names end so.
    pub fn paths(&self, folder: &str, ending: &str) -> Vec<String> {
        let names = self.names(folder).into_iter();
        names
            .filter(|name| name.ends_with(ending))
            .map(|name| format!("{folder}/{name}"))
            .collect()
    }

    /// Returns whether there is such a folder; a folder behind a link does not count.
    pub fn is_folder(&self, path: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        self.find(&path.to_string_lossy(), flags).is_some()
    }

    /// Its name.
    pub fn host_name(&self) -> String {
        let name = self.lines("etc/hostname").into_iter().next();
        name.unwrap_or_else(|| "unknown".to_owned())
    }

    /// The name of its operating system.
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

    /// Its running kernel; empty when it does not run.
    pub fn kernel(&self) -> String {
        self.read("proc/sys/kernel/osrelease").trim().to_owned()
    }

    /// Its memory in KiB, if it runs.
    pub fn memory(&self) -> Option<u64> {
        let text = self.read("proc/meminfo");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Its processors, if it runs.
    pub fn processors(&self) -> usize {
        let text = self.read("proc/cpuinfo");
        text.lines()
            .filter(|line| line.starts_with("processor"))
            .count()
    }
}

/// The last part of a path.
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
