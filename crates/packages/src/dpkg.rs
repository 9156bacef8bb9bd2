//! Reads the database of dpkg (deb-conffiles(5), dpkg-query(1), `/var/lib/dpkg`).

mod records;
mod status;

use std::fs::File;
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

pub use records::{parse_list, parse_md5sums};
pub use status::parse;

use crate::lines::ParseError;
use crate::{Database, Error, Package};

/// The folder of the database, below the root.
pub const DIR: &str = "var/lib/dpkg";

/// The folder, in the database, of records that are newer than the status file. dpkg writes the
/// status file only at times, and when it ends. If dpkg is killed, it leaves the records in this
/// folder.
const UPDATES: &str = "updates";

/// Maximum number of records in that folder. dpkg itself writes some hundreds at most.
const MAX_UPDATES: usize = 10_000;

/// The dpkg database of one root.
#[derive(Debug)]
pub struct Dpkg {
    dir: OwnedFd,
    path: PathBuf,
    packages: Vec<Package>,
}

impl Dpkg {
    /// Opens and reads the database of the system at `root`. Returns `None` if the system has no
    /// such database.
    ///
    /// # Errors
    /// Fails if the database exists and cannot be read.
    pub fn open(root: &Path) -> Result<Option<Self>, Error> {
        // `root` may be the path of an open descriptor in /proc.
        let path = Path::new("/").join(DIR);
        let io = |path: &Path, errno: Errno| Error::Io {
            path: path.to_owned(),
            source: errno.into(),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root_fd =
            rustix::fs::open(root, flags, Mode::empty()).map_err(|errno| io(root, errno))?;
        // Symbolic links on the path belong to the system (for example a /var on another disk).
        // They are resolved below its root.
        let dir = match sys::root::open(root_fd, DIR, flags) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(io(&path, errno)),
        };
        let mut database = Self {
            dir,
            path,
            packages: Vec::new(),
        };
        let status = Path::new("status");
        let Some(file) = database.open_file(status)? else {
            return Ok(None);
        };
        let packages = parse(BufReader::with_capacity(64 << 10, file));
        database.packages = packages.map_err(|source| database.malformed(status, source))?;
        database.update()?;
        Ok(Some(database))
    }

    /// Replaces records of the status file with the newer records that dpkg left in `updates`, in
    /// their order. dpkg does the same when it is called next.
    fn update(&mut self) -> Result<(), Error> {
        for name in self.updates()? {
            let name = Path::new(UPDATES).join(name);
            // dpkg has just ended, and has removed the newer records.
            let Some(file) = self.open_file(&name)? else {
                continue;
            };
            let records =
                parse(BufReader::new(file)).map_err(|source| self.malformed(&name, source))?;
            for record in records {
                let is_same = |one: &&mut Package| {
                    let several = one.multi_arch_same || record.multi_arch_same;
                    one.name == record.name && (!several || one.architecture == record.architecture)
                };
                match self.packages.iter_mut().find(is_same) {
                    Some(one) => *one = record,
                    None => self.packages.push(record),
                }
            }
        }
        Ok(())
    }

    /// Returns the file names of the newer records: numbers with leading zeros.
    fn updates(&self) -> Result<Vec<String>, Error> {
        let failed = |errno: Errno| Error::Io {
            path: self.path.join(UPDATES),
            source: errno.into(),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let folder = match rustix::fs::openat2(&self.dir, UPDATES, flags, Mode::empty(), resolve) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            Err(errno) => return Err(failed(errno)),
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // The other buffers are reused for the next record.
            if let Ok(name) = entry.file_name().to_str()
                && name.bytes().all(|byte| byte.is_ascii_digit())
            {
                names.push(name.to_owned());
            }
            if names.len() > MAX_UPDATES {
                return Err(failed(Errno::FBIG));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns the prefix of the names of the package's files in `info`.
    #[must_use]
    pub fn info_stem(package: &Package) -> String {
        if package.multi_arch_same {
            format!("{}:{}", package.name, package.architecture)
        } else {
            package.name.clone()
        }
    }

    /// Opens a regular file of the database. Returns `None` if the file does not exist.
    fn open_file(&self, name: &Path) -> Result<Option<File>, Error> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = rustix::fs::openat2(&self.dir, name, flags, Mode::empty(), resolve)
            .and_then(|fd| Ok((rustix::fs::fstat(&fd)?, fd)));
        let failed = |errno: Errno| Error::Io {
            path: self.path.join(name),
            source: errno.into(),
        };
        match opened {
            Ok((stat, fd)) => match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
                rustix::fs::FileType::RegularFile => Ok(Some(File::from(fd))),
                kind => Err(Error::Io {
                    path: self.path.join(name),
                    source: std::io::Error::other(format!("expected a file, found {kind:?}")),
                }),
            },
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }

    fn open_info(
        &self,
        package: &Package,
        kind: &str,
    ) -> Result<Option<(PathBuf, BufReader<File>)>, Error> {
        let name = PathBuf::from(format!("info/{}.{kind}", Self::info_stem(package)));
        let file = self.open_file(&name)?;
        Ok(file.map(|file| (name, BufReader::new(file))))
    }

    fn malformed(&self, name: &Path, source: ParseError) -> Error {
        Error::Malformed {
            path: self.path.join(name),
            source,
        }
    }
}

impl Database for Dpkg {
    fn manager(&self) -> &'static str {
        "dpkg"
    }

    fn packages(&self) -> &[Package] {
        &self.packages
    }

    fn paths(&self, package: &Package) -> Result<Vec<PathBuf>, Error> {
        match self.open_info(package, "list")? {
            Some((name, file)) => parse_list(file).map_err(|source| self.malformed(&name, source)),
            None => Ok(Vec::new()),
        }
    }

    fn checksums(&self, package: &Package) -> Result<Vec<(PathBuf, [u8; 16])>, Error> {
        match self.open_info(package, "md5sums")? {
            Some((name, file)) => {
                parse_md5sums(file).map_err(|source| self.malformed(&name, source))
            }
            None => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn reads_a_database_below_any_root() {
        let root = root(&[
            (
                "var/lib/dpkg/status",
                "Package: a\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n\n\
                 Package: b\nStatus: install ok installed\nArchitecture: amd64\n\
                 Multi-Arch: same\nVersion: 2\n",
            ),
            ("var/lib/dpkg/info/a.list", "/.\n/etc\n/etc/a\n"),
            (
                "var/lib/dpkg/info/b:amd64.md5sums",
                "d41d8cd98f00b204e9800998ecf8427e  usr/lib/b\n",
            ),
        ]);
        let database = crate::open(root.path()).unwrap().unwrap();
        assert_eq!(database.manager(), "dpkg");
        let [a, b] = database.packages() else {
            panic!("{:?}", database.packages());
        };
        assert_eq!(
            database.paths(a).unwrap(),
            ["/", "/etc", "/etc/a"].map(PathBuf::from)
        );
        assert!(database.checksums(a).unwrap().is_empty());
        assert_eq!(
            database.checksums(b).unwrap()[0].0,
            PathBuf::from("/usr/lib/b")
        );
    }

    #[test]
    fn records_that_dpkg_left_aside_count() {
        let record = |name: &str, status: &str, version: &str| {
            format!(
                "Package: {name}\nStatus: install ok {status}\nArchitecture: all\nVersion: {version}\n"
            )
        };
        let old = record("a", "installed", "1");
        let half = record("a", "half-installed", "1");
        let unpacked = record("a", "unpacked", "2");
        let new = record("b", "unpacked", "1");
        let root = root(&[
            ("var/lib/dpkg/status", &old),
            ("var/lib/dpkg/updates/0001", &unpacked),
            ("var/lib/dpkg/updates/0000", &half),
            ("var/lib/dpkg/updates/0002", &new),
            ("var/lib/dpkg/updates/tmp.i", "#padding\n"),
        ]);
        let database = crate::open(root.path()).unwrap().unwrap();
        let told: Vec<_> = database
            .packages()
            .iter()
            .map(|one| (one.name.as_str(), one.version.as_str(), one.status))
            .collect();
        assert_eq!(
            told,
            [
                ("a", "2", crate::Status::Unpacked),
                ("b", "1", crate::Status::Unpacked)
            ]
        );
    }

    #[test]
    fn a_root_without_dpkg_has_none() {
        let root = root(&[("etc/x", "")]);
        assert!(crate::open(root.path()).unwrap().is_none());
    }

    #[test]
    fn errors_name_file_and_line() {
        let root = root(&[("var/lib/dpkg/status", "Package: a\nnonsense\n")]);
        let error = crate::open(root.path()).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /var/lib/dpkg/status");
        let reason = std::error::Error::source(&error).unwrap();
        assert_eq!(reason.to_string(), "line 2: no field name");
    }

    #[test]
    fn a_linked_status_file_is_refused() {
        let root = root(&[("secret", "x"), ("var/lib/dpkg/x", "")]);
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("var/lib/dpkg/status")).unwrap();
        assert!(matches!(Dpkg::open(root.path()), Err(Error::Io { .. })));
    }

    #[test]
    fn a_pipe_in_place_of_the_status_file_is_refused_at_once() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let root = root(&[("var/lib/dpkg/x", "")]);
        let status = root.path().join("var/lib/dpkg/status");
        mknodat(CWD, &status, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let error = Dpkg::open(root.path()).unwrap_err();
        let reason = std::error::Error::source(&error).unwrap();
        assert_eq!(reason.to_string(), "expected a file, found Fifo");
    }

    #[test]
    fn reads_the_database_of_this_machine_whole() {
        let Ok(text) = fs::read_to_string("/var/lib/dpkg/status") else {
            eprintln!("skipped: this machine has no dpkg");
            return;
        };
        let database = crate::open(Path::new("/")).unwrap().unwrap();
        let stanzas = text.lines().filter(|line| line.starts_with("Package: "));
        assert_eq!(database.packages().len(), stanzas.count());
        for package in database.packages() {
            if package.status.is_unpacked() {
                assert!(!database.paths(package).unwrap().is_empty(), "{package:?}");
                database.checksums(package).unwrap();
            }
        }
    }
}
