//! The first rule: a file of the host is copied when it is a package's
//! configuration file and still has the checksum it was packaged with.
//!
//! Such a file is public: it is part of the package. The content is read once, so that the hashed
//! bytes are the written bytes.

use std::path::Path;

use md5::{Digest, Md5};
use packages::{Conffile, Package};

use crate::install::Error;
use crate::native::fill::{Fill, relative};
use crate::tree::Meta;

/// Largest configuration file copied.
const MAX_FILE: u64 = 16 << 20;

/// Copies the configuration files of all packages that are in place.
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
            // Set-id bits mean nothing on a configuration file.
            let mut meta = Meta::of(&stat);
            meta.mode &= 0o777;
            fill.file(name, meta, &content)?;
        }
        Some(_) => fill.leave_out(name, "changed on this host"),
        None if fill.host.stat(name)?.is_some() => {
            fill.leave_out(name, "no plain file of acceptable size on this host");
        }
        // Removed by the administrator, or reached through a link.
        None => {}
    }
    Ok(())
}

/// Only configuration is copied; and a file that another part of the install makes is not copied,
/// even if a package ships it.
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
