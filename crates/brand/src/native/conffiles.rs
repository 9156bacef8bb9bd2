//! The first rule: a file of the host is copied if it is a package's configuration file with its
//! packaged checksum.
//!
//! Such a file is public, because it is part of the package. The content is read once, so the
//! checked bytes are exactly the written bytes.

use std::path::Path;

use md5::{Digest, Md5};
use packages::{Conffile, Package};

use crate::install::Error;
use crate::native::fill::{Fill, relative};
use crate::tree::Meta;

/// Maximum size of a configuration file, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Copies the configuration files of all installed packages.
pub fn copy(fill: &mut Fill<'_>, packages: &[Package]) -> Result<(), Error> {
    for package in packages.iter().filter(|one| one.status.is_unpacked()) {
        for conffile in &package.conffiles {
            copy_one(fill, conffile)?;
        }
    }
    Ok(())
}

fn copy_one(fill: &mut Fill<'_>, conffile: &Conffile) -> Result<(), Error> {
    let (Some(name), Some(md5)) = (relative(&conffile.path), conffile.md5) else {
        return Ok(());
    };
    if conffile.remove_on_upgrade || fill.is_inherited(name) || is_filled_otherwise(name) {
        return Ok(());
    }
    // Two packages may name the same obsolete file.
    if fill.has(name)? {
        return Ok(());
    }
    match fill.host.read(name, MAX_FILE)? {
        Some((content, stat)) if Md5::digest(&content)[..] == md5 => {
            // Set-id bits have no meaning on a configuration file, so they are removed.
            let mut meta = Meta::of(&stat);
            meta.mode &= 0o777;
            fill.file(name, meta, &content)?;
        }
        Some(_) => fill.leave_out(name, "changed on this host"),
        None if fill.host.stat(name)?.is_some() => {
            fill.leave_out(name, "no plain file of acceptable size on this host");
        }
        // The administrator has removed the file, or its path leads through a link.
        None => {}
    }
    Ok(())
}

/// Only configuration files are copied. A file that another part of the install creates is not
/// copied, even if a package contains it.
pub fn is_filled_otherwise(name: &Path) -> bool {
    const OURS: &[&str] = &[
        "dev",
        "proc",
        "run",
        "sys",
        "tmp",
        "var/lib/dpkg",
        "etc/passwd",
        "etc/group",
        "etc/shadow",
        "etc/gshadow",
        "etc/machine-id",
        "etc/hostname",
        "etc/hosts",
        "etc/ld.so.cache",
    ];
    OURS.iter().any(|ours| name.starts_with(ours))
}
