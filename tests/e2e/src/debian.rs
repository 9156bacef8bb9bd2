//! Makes a small Debian root from this machine's own packages, in which apt-get works, and packages
//! and an archive for it, without a network.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::{run, start};
use crate::skip;

/// The packages for which the root is made. Their dependencies are added.
const WANTED: &[&str] = &[
    "apt",
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dash",
    "debconf",
    "diffutils",
    "dpkg",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "libc-bin",
    "mawk",
    "perl-base",
    "sed",
    "tar",
];

/// Files that are left out, because no test reads them.
const UNREAD: &[&str] = &[
    "/usr/share/doc",
    "/usr/share/man",
    "/usr/share/locale",
    "/usr/share/info",
    "/usr/share/lintian",
    "/usr/share/bug",
    "/usr/lib/x86_64-linux-gnu/gconv",
    "/usr/share/i18n",
];

/// Returns true if this machine can make such a root; otherwise prints the reason.
#[must_use]
pub fn can_be_made() -> bool {
    for program in [
        "/usr/bin/dpkg-deb",
        "/usr/bin/apt-get",
        "/usr/bin/dpkg-query",
    ] {
        if !Path::new(program).exists() {
            skip(&format!("no {program}"));
            return false;
        }
    }
    true
}

/// Returns, for each name, the installed package that provides it, and the dependencies of that
/// package.
fn installed() -> (BTreeMap<String, String>, BTreeMap<String, Vec<String>>) {
    let mut query = Command::new("dpkg-query");
    query.args([
        "-W",
        "-f",
        "${Status}\\t${Package}\\t${Provides}\\t${Pre-Depends}, ${Depends}\\n",
    ]);
    let (mut stands, mut needs) = (BTreeMap::new(), BTreeMap::new());
    let text = run(&mut query, b"").ok().out;
    let mut provided = Vec::new();
    let bare = |word: &str| {
        let word = word.trim().split([' ', '(', ':']).next();
        word.unwrap_or_default().to_owned()
    };
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [status, name, provides, depends] = fields[..] else {
            continue;
        };
        if !status.ends_with(" installed") {
            continue;
        }
        stands.insert(name.to_owned(), name.to_owned());
        provided.extend(
            provides
                .split(',')
                .map(|word| (bare(word), name.to_owned())),
        );
        let alternatives = |word: &str| word.split('|').map(bare).collect::<Vec<_>>().join("|");
        let list = depends.split(',').map(alternatives).collect();
        needs.insert(name.to_owned(), list);
    }
    for (word, name) in provided {
        stands.entry(word).or_insert(name);
    }
    (stands, needs)
}

/// Returns the packages of the root.
fn closure() -> BTreeSet<String> {
    let (stands, needs) = installed();
    let mut all = BTreeSet::new();
    let mut open: Vec<String> = WANTED.iter().map(|&name| name.to_owned()).collect();
    while let Some(words) = open.pop() {
        let found = words.split('|').find_map(|word| stands.get(word));
        if let Some(name) = found {
            if all.insert(name.clone()) {
                open.extend(needs.get(name).into_iter().flatten().cloned());
            }
        }
    }
    all
}

/// Makes the root at `root`, which must not exist yet.
///
/// # Panics
/// Panics if the root cannot be made.
pub fn make(root: &Path) {
    let packages = closure();
    for name in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(root.join("usr").join(name)).unwrap();
        std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name)).unwrap();
    }
    for name in [
        "dev",
        "proc",
        "sys",
        "run",
        "tmp",
        "mnt",
        "repo",
        "root",
        "etc/apt/apt.conf.d",
    ] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let database = Path::new("/var/lib/dpkg");
    let own = root.join("var/lib/dpkg");
    for name in ["info", "updates", "triggers", "parts", "alternatives"] {
        fs::create_dir_all(own.join(name)).unwrap();
    }
    let mut paths = String::new();
    for entry in fs::read_dir(database.join("info")).unwrap().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some((stem, kind)) = file.rsplit_once('.') else {
            continue;
        };
        let name = stem.split(':').next().unwrap_or_default();
        if !packages.contains(name) {
            continue;
        }
        fs::copy(entry.path(), own.join("info").join(&file)).unwrap();
        if kind == "list" {
            for line in fs::read_to_string(entry.path()).unwrap().lines() {
                let unread = UNREAD.iter().any(|prefix| line.starts_with(prefix));
                if !unread && line != "/." && Path::new(line).symlink_metadata().is_ok() {
                    let _ = writeln!(paths, ".{line}");
                }
            }
        }
    }
    let mut pack = Command::new("tar");
    pack.args(["-C", "/", "--no-recursion", "-c", "-T", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut pack = start(&mut pack);
    let mut unpack = Command::new("tar");
    unpack
        .args([
            "-x",
            "-p",
            "--numeric-owner",
            "--keep-directory-symlink",
            "-C",
        ])
        .arg(root)
        .stdin(pack.stdout.take().unwrap());
    let mut unpack = start(&mut unpack);
    let mut stdin = pack.stdin.take().unwrap();
    stdin.write_all(paths.as_bytes()).unwrap();
    drop(stdin);
    let (unpacked, packed) = (unpack.wait().unwrap(), pack.wait().unwrap());
    assert!(unpacked.success(), "{unpacked}");
    // tar ends with status 1 if a file of the host, or only its link count, changed while tar read
    // it.
    assert!(matches!(packed.code(), Some(0 | 1)), "{packed}");
    let status = fs::read_to_string(database.join("status")).unwrap();
    let mut kept = String::new();
    for record in status.split("\n\n") {
        let name = record
            .lines()
            .find_map(|line| line.strip_prefix("Package: "));
        if name.is_some_and(|name| packages.contains(name))
            && record.contains("\nStatus: install ok installed")
        {
            let _ = write!(kept, "{}\n\n", record.trim());
        }
    }
    fs::write(own.join("status"), kept).unwrap();
    fs::write(own.join("info/format"), "1\n").unwrap();
    for name in ["passwd", "group"] {
        let master = Path::new("/usr/share/base-passwd").join(format!("{name}.master"));
        fs::copy(master, root.join("etc").join(name)).unwrap();
    }
    let awk = root.join("usr/bin/awk");
    if awk.symlink_metadata().is_err() {
        std::os::unix::fs::symlink("mawk", awk).unwrap();
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(
        root.join("etc/apt/sources.list"),
        "deb [trusted=yes] file:/repo ./\n",
    )
    .unwrap();
    let own_user = "APT::Sandbox::User \"root\";\n";
    fs::write(root.join("etc/apt/apt.conf.d/99test"), own_user).unwrap();
}

/// An archive of packages in a folder.
#[derive(Debug)]
pub struct Archive {
    folder: PathBuf,
}

/// The contents of a package that a test makes.
#[derive(Clone, Debug, Default)]
pub struct Deb<'a> {
    /// The name of the package.
    pub name: &'a str,
    /// The version of the package.
    pub version: &'a str,
    /// The files: paths below the root, and their content. Files below etc are configuration files.
    pub files: &'a [(&'a str, &'a str)],
    /// The script that runs before the package is unpacked (preinst).
    pub preinst: &'a str,
    /// The script that runs after the package was unpacked (postinst).
    pub postinst: &'a str,
    /// Further fields of the package's record, one per line.
    pub fields: &'a str,
}

impl Archive {
    /// Returns an empty archive.
    ///
    /// # Panics
    /// Panics if the folder cannot be made.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let archive = Self { folder };
        archive.index();
        archive
    }

    /// Returns the folder of the archive.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a package and adds it to the archive.
    ///
    /// # Panics
    /// Panics if the package cannot be made.
    pub fn add(&self, deb: &Deb<'_>) -> PathBuf {
        let tree = self.folder.join(format!(".{}", deb.name));
        let control = tree.join("DEBIAN");
        fs::create_dir_all(&control).unwrap();
        let (mut conffiles, mut sums) = (String::new(), String::new());
        for (path, text) in deb.files {
            let file = tree.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            if path.starts_with("etc/") {
                let _ = writeln!(conffiles, "/{path}");
            } else {
                let sum = run(Command::new("md5sum").arg(&file), b"").ok();
                let sum = sum.text().split(' ').next().unwrap().to_owned();
                let _ = writeln!(sums, "{sum}  {path}");
            }
        }
        let record = format!(
            "Package: {}\nVersion: {}\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\n\
             {}Description: a package of a test\n",
            deb.name, deb.version, deb.fields
        );
        fs::write(control.join("control"), record).unwrap();
        fs::write(control.join("conffiles"), conffiles).unwrap();
        fs::write(control.join("md5sums"), sums).unwrap();
        for (name, text) in [("preinst", deb.preinst), ("postinst", deb.postinst)] {
            if text.is_empty() {
                continue;
            }
            let script = control.join(name);
            fs::write(&script, format!("#!/bin/sh\nset -e\n{text}\n")).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let file = self
            .folder
            .join(format!("{}_{}_all.deb", deb.name, deb.version));
        let mut build = Command::new("dpkg-deb");
        build
            .args(["-Znone", "--root-owner-group", "--build"])
            .arg(&tree)
            .arg(&file);
        let _ = run(&mut build, b"").ok();
        fs::remove_dir_all(&tree).unwrap();
        self.index();
        file
    }

    /// Updates the index of the archive after a package was removed.
    ///
    /// # Panics
    /// Panics if the index cannot be written.
    pub fn refresh(&self) {
        self.index();
    }

    /// Writes the index of the archive.
    fn index(&self) {
        let mut text = String::new();
        let mut files: Vec<PathBuf> = fs::read_dir(&self.folder)
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|kind| kind == "deb"))
            .collect();
        files.sort();
        for file in files {
            let record = run(Command::new("dpkg-deb").arg("-f").arg(&file), b"").ok();
            let sum = run(Command::new("sha256sum").arg(&file), b"").ok();
            let _ = write!(
                text,
                "{}\nFilename: ./{}\nSize: {}\nSHA256: {}\n\n",
                record.text(),
                file.file_name().unwrap().to_string_lossy(),
                file.metadata().unwrap().len(),
                sum.text().split(' ').next().unwrap()
            );
        }
        fs::write(self.folder.join("Packages"), text).unwrap();
    }
}
