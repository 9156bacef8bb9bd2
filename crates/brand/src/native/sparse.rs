//! Computes the directories of the host that a sparse zone inherits, and the links at its root.
//!
//! On a host with merged `/usr`, `/bin`, `/lib` and similar names are links into `/usr`. A zone
//! gets the same links and inherits only `/usr`. On other hosts each real directory is inherited.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use model::Config;

/// The directories that a sparse zone inherits if its configuration names none: those in which
/// Linux distributions install programs and libraries.
const DEFAULT: &[&str] = &[
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libo32", "libx32",
];

/// The inherited part of a sparse zone's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Absolute paths of host directories to mount read-only at the same path in the zone, sorted.
    /// No directory is inside another one.
    pub dirs: Vec<PathBuf>,
    /// Links at the root, as on the host: their absolute paths and target texts.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Requested directories that the host does not have.
    pub missing: Vec<PathBuf>,
}

impl Layout {
    /// Returns true if `path`, as the zone sees it, is inherited. Links at the root are followed.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        let resolved = self.resolve(path);
        self.dirs.iter().any(|dir| resolved.starts_with(dir))
    }

    /// Replaces a link at the root by its target.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        let path = lexical(path);
        for (link, target) in &self.links {
            if let Ok(rest) = path.strip_prefix(link) {
                return lexical(&Path::new("/").join(target).join(rest));
            }
        }
        path
    }
}

/// Returns the directories that a sparse zone inherits by default on this host.
///
/// # Errors
/// Fails if the host's root cannot be read.
pub fn inherited_dirs(host_root: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(default_layout(host_root)?.dirs)
}

/// Returns the layout of the default directories.
///
/// # Errors
/// Fails if the host's root cannot be read.
pub fn default_layout(host_root: &Path) -> io::Result<Layout> {
    let dirs: Vec<PathBuf> = DEFAULT.iter().map(|dir| Path::new("/").join(dir)).collect();
    let mut layout = layout(&dirs, host_root)?;
    layout.missing.clear();
    Ok(layout)
}

/// Returns true if the zone inherits directories of the host.
#[must_use]
pub fn is_sparse(config: &Config) -> bool {
    !config.inherited_dirs().is_empty()
        || model::brands::find(config.brand()).is_some_and(|brand| brand.sparse)
}

/// Returns the layout of a configured zone; `None` for a whole-root zone.
///
/// # Errors
/// Fails if the host's root cannot be read.
pub fn of(config: &Config, host_root: &Path) -> io::Result<Option<Layout>> {
    let dirs = config.inherited_dirs();
    if !dirs.is_empty() {
        return layout(&dirs, host_root).map(Some);
    }
    is_sparse(config)
        .then(|| default_layout(host_root))
        .transpose()
}

/// Sorts `wanted` into directories and links, and adds the host's root links
/// that lead into the directories.
fn layout(wanted: &[PathBuf], host_root: &Path) -> io::Result<Layout> {
    let mut layout = Layout::default();
    let mut links = Vec::new();
    for dir in wanted {
        let dir = lexical(dir);
        // Only names at the root may be links. Deeper directories are mounted by descriptor.
        let on_host = host_root.join(dir.strip_prefix("/").unwrap_or(&dir));
        match std::fs::symlink_metadata(&on_host) {
            Ok(meta) if meta.is_dir() => layout.dirs.push(dir),
            Ok(meta) if meta.is_symlink() && dir.components().count() == 2 => links.push(dir),
            Ok(_) => layout.missing.push(dir),
            Err(error) if is_absent(&error) => layout.missing.push(dir),
            Err(error) => return Err(error),
        }
    }
    layout.dirs.sort();
    layout.dirs.dedup();
    let all = layout.dirs.clone();
    layout.dirs.retain(|dir| {
        !all.iter()
            .any(|other| dir != other && dir.starts_with(other))
    });
    links.extend(DEFAULT.iter().map(|dir| Path::new("/").join(dir)));
    links.sort();
    links.dedup();
    for link in links {
        let on_host = host_root.join(link.strip_prefix("/").unwrap_or(&link));
        let Ok(target) = std::fs::read_link(on_host) else {
            continue;
        };
        let leads_to = lexical(&Path::new("/").join(&target));
        if layout.dirs.iter().any(|dir| leads_to.starts_with(dir)) {
            layout.links.push((link, target));
        } else if wanted.contains(&link) {
            layout.missing.push(link);
        }
    }
    Ok(layout)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Returns an absolute path without `.` and `..`, from its text alone.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// Returns the problems of an inherited directory: it is missing, or users other than the host's
/// root can write programs to it.
pub(crate) fn verify(layout: &Layout, host_root: &Path) -> Vec<String> {
    let missing = layout.missing.iter().map(|dir| {
        let dir = dir.display();
        format!("could not verify inherit-pkg-dir {dir}: no such directory on this host")
    });
    let open = layout.dirs.iter().filter(|dir| {
        let on_host = host_root.join(dir.strip_prefix("/").unwrap_or(dir));
        !std::fs::symlink_metadata(on_host)
            .is_ok_and(|meta| meta.uid() == 0 && meta.mode() & 0o022 == 0)
    });
    let open = open.map(|dir| {
        let dir = dir.display();
        format!("could not verify inherit-pkg-dir {dir}: users other than root can write to it")
    });
    missing.chain(open).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn host(dirs: &[&str], links: &[(&str, &str)]) -> tempfile::TempDir {
        let host = tempfile::tempdir().unwrap();
        for dir in dirs {
            fs::create_dir_all(host.path().join(dir)).unwrap();
        }
        for (link, target) in links {
            symlink(target, host.path().join(link)).unwrap();
        }
        host
    }

    #[test]
    fn merged_usr_shares_usr_and_keeps_the_links() {
        let host = host(
            &["usr/bin", "usr/lib"],
            &[
                ("bin", "usr/bin"),
                ("lib", "usr/lib"),
                ("lib64", "usr/lib64"),
            ],
        );
        let layout = default_layout(host.path()).unwrap();
        assert_eq!(layout.dirs, [PathBuf::from("/usr")]);
        let links: Vec<_> = layout.links.iter().map(|(link, _)| link.clone()).collect();
        assert_eq!(links, ["/bin", "/lib", "/lib64"].map(PathBuf::from));
        assert!(layout.missing.is_empty());
        assert!(layout.covers(Path::new("/bin/sh")));
        assert!(layout.covers(Path::new("/usr/../lib/x")));
        assert!(!layout.covers(Path::new("/usr/../etc/passwd")));
        assert!(!layout.covers(Path::new("/usrlocal")));
    }

    #[test]
    fn split_usr_shares_each_directory() {
        let host = host(&["usr", "bin", "sbin", "lib"], &[]);
        assert_eq!(
            inherited_dirs(host.path()).unwrap(),
            ["/bin", "/lib", "/sbin", "/usr"].map(PathBuf::from)
        );
    }

    #[test]
    fn configured_directories_are_sorted_out() {
        let host = host(
            &["usr/share", "opt/tools", "etc"],
            &[("lib", "usr/lib"), ("sbin", "/etc")],
        );
        let wanted = [
            "/lib",
            "/opt/tools",
            "/usr",
            "/usr/share",
            "/platform",
            "/sbin",
        ];
        let layout = layout(&wanted.map(PathBuf::from), host.path()).unwrap();
        assert_eq!(layout.dirs, ["/opt/tools", "/usr"].map(PathBuf::from));
        assert_eq!(layout.links, [("/lib".into(), PathBuf::from("usr/lib"))]);
        assert_eq!(layout.missing, ["/platform", "/sbin"].map(PathBuf::from));
    }
}
