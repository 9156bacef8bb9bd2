//! Measures disk space: the blocks of a tree, and file systems in a file.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use lifecycle::lane::Call;
use lifecycle::root;

/// The way in which the disk space of a fleet is measured.
#[derive(Debug, Clone)]
pub enum Space {
    /// The blocks of all files below a path.
    Tree(PathBuf),
    /// The used space of the file system that is mounted at a path.
    Mount(PathBuf),
}

impl Space {
    /// Returns the used space in KiB.
    pub fn used(&self) -> Result<f64> {
        let bytes = match self {
            Self::Tree(path) => {
                let (mut seen, mut blocks) = (HashSet::new(), 0);
                add(path, &mut seen, &mut blocks)?;
                blocks * 512
            }
            Self::Mount(path) => {
                let folder = std::fs::File::open(path)?;
                rustix::fs::syncfs(&folder)?;
                let stat = rustix::fs::fstatvfs(&folder)?;
                (stat.f_blocks - stat.f_bfree) * stat.f_frsize
            }
        };
        Ok(bytes as f64 / 1024.0)
    }
}

/// Adds the blocks of a tree on one file system; hard links count once.
fn add(path: &Path, seen: &mut HashSet<u64>, blocks: &mut u64) -> Result<()> {
    let is = path
        .symlink_metadata()
        .with_context(|| path.display().to_string())?;
    if is.nlink() == 1 || is.is_dir() || seen.insert(is.ino()) {
        *blocks += is.blocks();
    }
    if is.is_dir() {
        for entry in std::fs::read_dir(path)? {
            let entry = entry?.path();
            if entry
                .symlink_metadata()
                .is_ok_and(|inner| inner.dev() == is.dev())
            {
                add(&entry, seen, blocks)?;
            }
        }
    }
    Ok(())
}

/// A file system in a file of the scratch folder, mounted at `disk-KIND` in that folder.
#[derive(Debug)]
pub struct Image {
    pub at: PathBuf,
    file: PathBuf,
}

impl Image {
    pub fn make(scratch: &Path, kind: &str, mib: u64) -> Result<Self> {
        let file = scratch.join(format!("image-{kind}"));
        let at = scratch.join(format!("disk-{kind}"));
        let room = rustix::fs::statvfs(scratch)?;
        let free = (room.f_bavail * room.f_frsize) >> 20;
        if free < mib + 1024 {
            bail!(
                "{free} MiB are free in {}; {mib} and some are needed",
                scratch.display()
            );
        }
        let mkfs = ["/usr/sbin", "/sbin"]
            .map(|folder| Path::new(folder).join(format!("mkfs.{kind}")))
            .into_iter()
            .find(|path| path.exists())
            .with_context(|| format!("mkfs.{kind} is not installed"))?;
        std::fs::File::create(&file)?.set_len(mib << 20)?;
        std::fs::create_dir(&at)?;
        root::run(Call::new(mkfs).args(["-q"]).args([&file]))?;
        root::run(Call::new("mount").args(["-o", "loop"]).args([&file, &at]))?;
        Ok(Self { at, file })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // If it is still in use, bench/z2/run unmounts it later.
        if root::run(Call::new("umount").args([&self.at])).is_ok() {
            let _ = std::fs::remove_file(&self.file);
            let _ = std::fs::remove_dir(&self.at);
        }
    }
}
