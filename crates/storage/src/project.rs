//! Limits the space of a top on ext4 and xfs by project quotas.
//!
//! The top is the root of a project of its own. Its folders pass the project on, so everything that
//! is written there counts. The project is stored in the inode of the top, and the kernel knows
//! which projects have files, so there is no list of projects. A sealed top keeps its project,
//! without a limit, and the next top gets another one: layers do not count.
//!
//! The kernel renames or links a file into a folder that passes its project on only if the file is
//! of the same project, and fails with EXDEV otherwise. Therefore
//!
//! - the work folder of overlay is moved to the project of the top before each mount
//!   ([`align_work`]);
//! - the zonepath and the folder of layers pass no project on, so a top can be renamed to a layer
//!   and back whatever its project is, and merges link files of several projects;
//! - a top that is filled with links to the files of another layer leaves its project before
//!   ([`leave`]).

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use sys::project::{self, Membership};

use crate::attributes::Attributes;
use crate::copy::Copier;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::{crash, fstype, remove};

/// The first number of the projects of tops. Administrators usually number their own projects from
/// 1.
const FIRST_PROJECT: u32 = 1 << 30;

/// Number of numbers for projects of tops.
const PROJECTS: u32 = 1 << 30;

/// Maximum number of projects that are tried until one without files is found.
const MAX_TRIED_PROJECTS: u32 = 4096;

/// Maximum depth of nested folders in a top that is moved to a project.
const MAX_FOLDER_DEPTH: usize = 256;

/// Returns the reason why the file system of a folder cannot limit the space of a top, with the
/// remedy, or `None` if it can.
pub(crate) fn why_not(folder: &Folder) -> Option<String> {
    let name = fstype::name(folder);
    let remedy = match name.as_str() {
        "ext4" | "xfs" if project::is_enforced(folder) => return None,
        "ext4" => {
            "unmount it, run 'tune2fs -O project,quota -Q prjquota DEVICE', and mount it with the \
             option prjquota"
        }
        "xfs" => {
            "mount it with the option prjquota (the root file system: with rootflags=prjquota on \
             the kernel's command line)"
        }
        _ => {
            return Some(format!(
                "{name} limits no single folder; put the zonepath on btrfs, ZFS, or ext4 or xfs \
                 with project quotas"
            ));
        }
    };
    Some(format!(
        "{name} is not mounted with project quotas: {remedy}"
    ))
}

/// Returns the project of a top, or `None` if the top is not the root of a project.
pub(crate) fn of(top: &Folder) -> Option<u32> {
    let found = project::membership(top).ok()?;
    let of_tops = FIRST_PROJECT..FIRST_PROJECT + PROJECTS;
    (found.inherited && of_tops.contains(&found.project)).then_some(found.project)
}

/// Limits the space of a top that is the root of a project. `None` removes the limit.
pub(crate) fn limit(top: &Folder, project: u32, bytes: Option<u64>) -> Result<()> {
    project::limit(top, project, bytes).map_err(|e| top.fail("limit", "", e))
}

/// Makes a top the root of a project without other files, and returns the project. `scratch` and
/// `links` are empty folders on the same file system, which belong to no project and which the
/// caller removes.
///
/// The top itself is moved last. After a crash it is therefore not the root of a project, and the
/// next call moves all files again. No process may use the top meanwhile.
pub(crate) fn assign(top: &Folder, scratch: Folder, links: Folder) -> Result<u32> {
    let project = unused(top)?;
    move_to(top, Some(project), scratch, links)?;
    Ok(project)
}

/// Makes a tree the root of a project, or takes it out of its project, as [`assign`] does.
pub(crate) fn move_to(
    tree: &Folder,
    project: Option<u32>,
    scratch: Folder,
    links: Folder,
) -> Result<()> {
    let root = project.map_or(Membership::NONE, |project| Membership {
        project,
        inherited: true,
    });
    set(&scratch, root)?;
    let mut mover = Mover {
        root,
        scratch,
        copier: Copier::replacing(links),
    };
    mover.folder(tree, 0)?;
    crash::point();
    set(tree, root)
}

/// Makes an empty top the root of a project without other files, and returns the project.
pub(crate) fn assign_empty(top: &Folder) -> Result<u32> {
    let project = unused(top)?;
    let root = Membership {
        project,
        inherited: true,
    };
    set(top, root)?;
    Ok(project)
}

/// Removes the limit of a top that was sealed or moved to the graves, so that the number of its
/// project has no limit when another top gets it. A failure does no harm: nobody writes into the
/// project any more.
pub(crate) fn forget(top: &Folder) {
    if let Some(project) = of(top) {
        let _ = project::limit(top, project, None);
    }
}

/// Takes an empty top out of its project.
pub(crate) fn leave(top: &Folder) -> Result<()> {
    match of(top) {
        Some(_) => set(top, Membership::NONE),
        None => Ok(()),
    }
}

/// Moves overlay's work folder to the project of the top. Overlay makes the folder inside it anew
/// at each mount.
pub(crate) fn align_work(top: &Path, work: &Path) -> Result<()> {
    let top = Folder::open(top)?;
    // A file system without projects fails here.
    let Ok(wanted) = project::membership(&top) else {
        return Ok(());
    };
    let work = Folder::open(work)?;
    match project::membership(&work) {
        Ok(found) if found != wanted => set(&work, wanted),
        _ => Ok(()),
    }
}

/// Returns the project that a folder passes on to new files, or `None` without one.
pub(crate) fn passed_on(folder: &Folder) -> Option<u32> {
    let found = project::membership(folder).ok()?;
    (found.inherited && found.project != 0).then_some(found.project)
}

/// Returns a project without files. The search starts at the inode number of the top, which no
/// other top of the file system has, so that two processes find different projects.
fn unused(top: &Folder) -> Result<u32> {
    let stat = rustix::fs::fstat(top).map_err(|e| top.fail("fstat", "", e))?;
    for n in 0..MAX_TRIED_PROJECTS {
        let number = (stat.st_ino.wrapping_add(n.into())) % u64::from(PROJECTS);
        let project = FIRST_PROJECT + u32::try_from(number).unwrap_or(0);
        let usage = project::usage(top, project).map_err(|e| top.fail("quotactl", "", e))?;
        if usage.files == 0 && usage.bytes == 0 {
            return Ok(project);
        }
    }
    Err(top.fail("find an unused project for", "", Errno::NOSPC))
}

fn set(file: &Folder, to: Membership) -> Result<()> {
    project::set_membership(file, to).map_err(|e| file.fail("set the project of", "", e))
}

/// Moves the files of a tree to a project.
struct Mover {
    root: Membership,
    scratch: Folder,
    copier: Copier<'static>,
}

impl Mover {
    fn folder(&mut self, at: &Folder, depth: usize) -> Result<()> {
        if depth > MAX_FOLDER_DEPTH {
            return Err(Error::TooDeep(at.path().to_owned()));
        }
        let before = Attributes::of(at)?;
        let mut replaced = false;
        for (name, _) in at.entries()? {
            let stat = rustix::fs::statat(at, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|e| at.fail("stat", &name, e))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let child = at.open_child(&name)?;
                    set(&child, self.root)?;
                    self.folder(&child, depth + 1)?;
                }
                FileType::RegularFile => self.file(at, &name)?,
                // Links and special files cannot be opened, so no ioctl reaches them. A copy that
                // is made in a folder of the project replaces them.
                _ => {
                    self.copier.entry(at, &self.scratch, &name)?;
                    self.scratch.rename(&name, at, &name)?;
                    replaced = true;
                }
            }
        }
        match replaced {
            true => before.apply(at),
            false => Ok(()),
        }
    }

    fn file(&self, at: &Folder, name: &OsStr) -> Result<()> {
        let flags = OFlags::RDONLY
            | OFlags::NOFOLLOW
            | OFlags::NOATIME
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let file = rustix::fs::openat(at, name, flags, Mode::empty())
            .map_err(|e| at.fail("open", name, e))?;
        let to = Membership {
            inherited: false,
            ..self.root
        };
        project::set_membership(file.as_fd(), to)
            .map_err(|e| at.fail("set the project of", name, e))
    }
}

/// Empty folders among the graves, for [`assign`]. Dropping the value removes them.
pub(crate) struct Workplace {
    folder: Folder,
}

impl Workplace {
    /// Makes the folders in the folder of graves.
    pub(crate) fn new(dead: &Folder, name: &str) -> Result<Self> {
        dead.make(name)?;
        let folder = dead.open_child(name)?;
        for inner in ["scratch", "links"] {
            folder.make(inner)?;
        }
        Ok(Self { folder })
    }

    /// Opens the scratch folder and the folder of links.
    pub(crate) fn open(&self) -> Result<(Folder, Folder)> {
        Ok((
            self.folder.open_child("scratch")?,
            self.folder.open_child("links")?,
        ))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // `collect` removes the rest.
        let _ = remove::bury(self.folder.path());
    }
}
