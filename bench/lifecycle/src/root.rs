//! The root that every tool gets: that of a sparse zone of ours, with /usr of
//! the host bound into it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::lane::Call;
use crate::options::Options;

/// The zone that all others are cloned from.
pub const MASTER: &str = "master";
/// The host's id of root in the zones of the other tools.
pub const BASE_ID: u32 = 1_000_000_000;
/// Number of ids of a zone.
pub const IDS: u32 = 65_536;

/// Copies of the root for the tools that do not use ours, with zinit in them.
#[derive(Debug)]
pub struct Roots {
    /// With plain owners.
    pub plain: PathBuf,
    /// With owners shifted by [`BASE_ID`]. lxc wants "base", its name there, in the path.
    pub shifted: PathBuf,
    /// The name of the cgroup for everything of this run.
    pub cgroup: String,
}

/// The alternate root that our commands work in.
pub fn zones_root(options: &Options) -> PathBuf {
    options.scratch.join("zones")
}

/// The cgroup of this run: one name, so that it can be found and removed.
pub fn cgroup_name(scratch: &Path) -> String {
    let name = scratch.file_name().unwrap_or_default().to_string_lossy();
    format!("bench-{}", name.replace('.', "-"))
}

/// A command of ours in that root.
pub fn zones_call(programs: &Path, root: &Path, program: &str) -> Call {
    let scratch = root.parent().unwrap_or(root);
    Call::new(programs.join(program))
        .env("ZONES_ROOT", root)
        .env("ZONES_CGROUP", format!("/{}/zones", cgroup_name(scratch)))
}

/// Puts the programs beside the zones, makes the master zone when our commands
/// are measured, and copies of its root.
///
/// # Errors
/// When a copy or one of our commands fails.
pub fn prepare(options: &Options) -> Result<Roots> {
    let scratch = &options.scratch;
    let roots = Roots {
        plain: scratch.join("plain/rootfs"),
        shifted: scratch.join("base/rootfs"),
        cgroup: cgroup_name(scratch),
    };
    std::fs::create_dir_all(scratch.join("plain"))?;
    std::fs::create_dir_all(scratch.join("base"))?;

    let bin = scratch.join("bin");
    std::fs::create_dir_all(&bin)?;
    for name in ["zoneadm", "zonecfg", "zoneadmd", "zinit", "zlogin"] {
        let from = options.programs.join(name);
        std::fs::copy(&from, bin.join(name)).with_context(|| from.display().to_string())?;
    }

    if options.tools.iter().any(|tool| tool.starts_with("zones")) {
        let root = zones_root(options);
        std::fs::create_dir_all(&root)?;
        for (program, words) in [("zonecfg", "create"), ("zoneadm", "install")] {
            run(zones_call(&bin, &root, program).args(["-z", MASTER, words]))?;
        }
        let master = root.join("zones").join(MASTER).join("root");
        copy(&master, &roots.plain)?;
    } else {
        small_root(&roots.plain)?;
    }
    std::fs::copy(bin.join("zinit"), roots.plain.join("zinit")).context("zinit")?;
    copy(&roots.plain, &roots.shifted)?;
    shift_owners(&roots.shifted)?;
    Ok(roots)
}

/// Copies a tree as it is.
///
/// # Errors
/// When cp fails.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    run(Call::new("cp").args(["-a".into(), from.to_owned(), to.to_owned()]))
}

/// Something like the root of a sparse zone, for a run without our commands.
fn small_root(root: &Path) -> Result<()> {
    for folder in "etc usr var/log var/lib proc sys dev tmp run root home mnt".split(' ') {
        std::fs::create_dir_all(root.join(folder))?;
    }
    for link in ["bin", "sbin", "lib", "lib64"] {
        std::os::unix::fs::symlink(Path::new("usr").join(link), root.join(link))?;
    }
    for file in ["etc/passwd", "etc/group"] {
        std::fs::copy(Path::new("/").join(file), root.join(file)).context(file)?;
    }
    Ok(())
}

/// Adds [`BASE_ID`] to the owner and group of everything in the tree.
fn shift_owners(root: &Path) -> Result<()> {
    use std::os::unix::fs::{MetadataExt, lchown};
    let mut folders = vec![root.to_owned()];
    let shift = |path: &Path| -> Result<()> {
        let is = path.symlink_metadata()?;
        // Changing the owner clears the setuid bit: put the mode back.
        lchown(path, Some(is.uid() + BASE_ID), Some(is.gid() + BASE_ID))?;
        if !is.is_symlink() {
            std::fs::set_permissions(path, is.permissions())?;
        }
        Ok(())
    };
    while let Some(folder) = folders.pop() {
        shift(&folder)?;
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                shift(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// Runs a command that is not measured.
///
/// # Errors
/// When it does not end with success, with what it said.
pub fn run(call: Call) -> Result<()> {
    let output = Command::new(&call.program)
        .args(&call.args)
        .envs(call.env)
        .output()
        .with_context(|| call.program.display().to_string())?;
    if !output.status.success() {
        bail!(
            "{} {:?}: {}\n{}",
            call.program.display(),
            call.args,
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
