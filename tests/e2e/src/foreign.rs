//! Package systems of other distributions, with their own tools: packages, repositories, and a host
//! of such a distribution. No network is used.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{among_mounts, run};
use crate::{Host, container, skip};

/// Returns true if these programs are in the folders of system programs; otherwise prints the
/// missing one.
#[must_use]
pub fn are_there(programs: &[&str]) -> bool {
    let missing = programs
        .iter()
        .find(|name| !Path::new("/usr/bin").join(name).is_file());
    if let Some(name) = missing {
        skip(&format!("no {name}"));
    }
    missing.is_none()
}

/// Makes a small bootable system in a folder, as the content of a package.
///
/// # Panics
/// Panics if the system cannot be made.
pub fn system(at: &Path, busybox: &[u8], release: &str) {
    fs::create_dir_all(at).unwrap();
    let packed = container::archive(&container::system(busybox));
    let _ = run(
        Command::new("tar").args(["-xf", "-", "-C"]).arg(at),
        &packed,
    )
    .ok();
    fs::write(at.join("etc/os-release"), release).unwrap();
}

/// The contents of an rpm package.
#[derive(Clone, Debug, Default)]
pub struct Rpm<'a> {
    /// The name of the package.
    pub name: &'a str,
    /// The version of the package; its release is 1.
    pub version: &'a str,
    /// The packages that it requires.
    pub requires: &'a str,
    /// The names that the package provides besides its own.
    pub provides: &'a str,
    /// A folder whose content is part of the package.
    pub tree: Option<&'a Path>,
    /// The files: paths below the root, and their content. Files below etc are configuration files.
    pub files: &'a [(&'a str, &'a str)],
    /// The script that runs after the installation.
    pub post: &'a str,
    /// The script that runs before the installation. If it fails, the installation fails.
    pub pre: &'a str,
}

/// A repository of rpm packages with the metadata for dnf and zypper.
#[derive(Debug)]
pub struct Rpms {
    folder: PathBuf,
}

impl Rpms {
    /// The programs that make a repository.
    pub const NEEDS: [&'static str; 2] = ["rpmbuild", "createrepo_c"];

    /// Returns an empty repository.
    ///
    /// # Panics
    /// Panics if the folder cannot be made.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    /// Returns the folder of the repository.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the repository's URL for dnf (`file`) or zypper (`dir`).
    #[must_use]
    pub fn named(&self, scheme: &str, at: &Path) -> String {
        format!(
            "[own]\nname=own\nenabled=1\ngpgcheck=0\nmetadata_expire=0\nbaseurl={scheme}://{}\n",
            at.display()
        )
    }

    /// Makes packages, adds them, and writes the metadata of the repository.
    ///
    /// # Panics
    /// Panics if the packages cannot be made.
    pub fn add(&self, all: &[Rpm<'_>]) {
        let work = self.folder.with_extension("work");
        for rpm in all {
            let (spec, tree) = (work.join("spec"), work.join("tree"));
            fs::create_dir_all(&tree).unwrap();
            if let Some(from) = rpm.tree {
                let mut copy = Command::new("cp");
                copy.arg("-a").arg(from.join(".")).arg(&tree);
                run(&mut copy, b"").quiet();
            }
            let mut listed = String::new();
            for (path, text) in rpm.files {
                let file = tree.join(path);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(&file, text).unwrap();
                let kind = match path.starts_with("etc/") {
                    true => "%config(noreplace) ",
                    false => "",
                };
                let _ = writeln!(listed, "{kind}/{path}");
            }
            if rpm.tree.is_some() {
                listed = "/*\n".to_owned();
            }
            fs::write(&spec, spec_of(rpm, &tree, &listed)).unwrap();
            let mut build = Command::new("rpmbuild");
            build.args(["-bb", "--quiet"]).arg(&spec);
            for (name, value) in [
                ("_topdir", work.join("top")),
                ("_rpmdir", self.folder.clone()),
                ("_dbpath", work.join("db")),
                ("_build_id_links", "none".into()),
                ("__os_install_post", "%{nil}".into()),
                ("_use_internal_dependency_generator", "0".into()),
                ("__find_requires", "%{nil}".into()),
                ("__find_provides", "%{nil}".into()),
                ("debug_package", "%{nil}".into()),
            ] {
                build
                    .arg("--define")
                    .arg(format!("{name} {}", value.display()));
            }
            let _ = run(build.env("HOME", &work), b"").ok();
            fs::remove_dir_all(&work).unwrap();
        }
        let mut index = Command::new("createrepo_c");
        let _ = run(index.arg("-q").arg(&self.folder), b"").ok();
    }
}

fn spec_of(rpm: &Rpm<'_>, tree: &Path, listed: &str) -> String {
    let mut text = format!(
        "Name: {}\nVersion: {}\nRelease: 1\nSummary: a package of a test\nLicense: MIT\n",
        rpm.name, rpm.version
    );
    for (field, value) in [("Requires", rpm.requires), ("Provides", rpm.provides)] {
        if !value.is_empty() {
            let _ = writeln!(text, "{field}: {value}");
        }
    }
    let _ = write!(
        text,
        "%description\nA package of a test.\n%install\nmkdir -p %{{buildroot}}\n\
         cp -a {}/. %{{buildroot}}/\n",
        tree.display()
    );
    for (section, script) in [("pre", rpm.pre), ("post", rpm.post)] {
        if !script.is_empty() {
            let _ = writeln!(text, "%{section}\n{script}");
        }
    }
    let _ = write!(text, "%files\n%defattr(-,root,root)\n{listed}");
    text
}

/// Makes a repository for pacman, called `own`, with one package of the files of a tree.
///
/// # Panics
/// Panics if the repository cannot be made.
pub fn pacman_place(folder: &Path, name: &str, tree: &Path) {
    fs::create_dir_all(folder).unwrap();
    let told = format!(
        "pkgname = {name}\npkgver = 1-1\npkgdesc = a package of a test\nbuilddate = 1700000000\n\
         size = 1\narch = x86_64\n"
    );
    fs::write(tree.join(".PKGINFO"), told).unwrap();
    let file = folder.join(format!("{name}-1-1-x86_64.pkg.tar"));
    let mut pack = Command::new("sh");
    pack.args(["-ec", "tar --owner=0 --group=0 -cf \"$0\" .PKGINFO *"]);
    run(pack.arg(&file).current_dir(tree), b"").quiet();
    let sum = run(Command::new("sha256sum").arg(&file), b"").ok();
    let sum = sum.text().split(' ').next().unwrap().to_owned();
    let desc = format!(
        "%FILENAME%\n{}\n\n%NAME%\n{name}\n\n%VERSION%\n1-1\n\n%CSIZE%\n{}\n\n%ISIZE%\n1\n\n\
         %SHA256SUM%\n{sum}\n\n%ARCH%\nx86_64\n\n",
        file.file_name().unwrap().to_string_lossy(),
        file.metadata().unwrap().len()
    );
    let index = container::archive(&[
        container::folder(&format!("{name}-1-1")),
        container::file(&format!("{name}-1-1/desc"), desc.as_bytes()),
    ]);
    fs::write(folder.join("own.db"), index).unwrap();
}

/// Returns a call of one of our programs on a host of another distribution: these files are added
/// to its /etc. Files that the distribution's tools write below /var are discarded.
///
/// # Panics
/// Panics if the files cannot be written.
#[must_use]
pub fn on(host: &Host, etc: &[(&str, &str)], program: &str, words: &[&str]) -> Command {
    const SCRIPT: &str = "mount --make-rprivate / && \
        mount -t overlay -o \"lowerdir=/etc,upperdir=$0/etc,workdir=$0/work\" none /etc && \
        mount -t tmpfs none /var/cache && mount -t tmpfs none /var/log && exec \"$@\"";
    let own = host.path("/distribution");
    for folder in ["etc", "work"] {
        fs::create_dir_all(own.join(folder)).unwrap();
        fs::set_permissions(own.join(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, text) in etc {
        let file = own.join("etc").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    among_mounts(SCRIPT, &own, &host.command(program, words))
}
