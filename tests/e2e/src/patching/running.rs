//! Running zones that have version 1 of a package, and an archive with version 2.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{install_with, zonepatch};
use crate::Host;
use crate::debian::{self, Archive, Deb};

/// A first process that runs as long as a test needs it.
const INIT: &str = "#!/bin/sh\ntrap 'exit 0' TERM INT\nwhile :; do sleep 1; done\n";

/// Result of [`version`] before the patch.
pub const OLD: &str = "1 ii 111";

/// Result of [`version`] after the patch.
pub const NEW: &str = "2 ii 222";

/// Returns a package. Each version other than 1 has the files of version 2.
#[must_use]
pub fn app(version: &str) -> Deb<'_> {
    Deb {
        name: "app",
        version,
        files: match version {
            "1" => &[("opt/app/a", "1"), ("opt/app/z", "1")],
            _ => &[("opt/app/a", "2"), ("opt/app/z", "2")],
        },
        postinst: "cat /opt/app/a >/var/lib/app",
        ..Deb::default()
    }
}

/// Returns a host with halted zones that have version 1 of `app`, and an archive with version 2.
/// `None` if this machine cannot make them.
///
/// # Panics
/// Fails if a file or zone cannot be made.
#[must_use]
pub fn running(zones: &str) -> Option<Host> {
    if !debian::can_be_made() {
        return None;
    }
    let host = Host::new()?;
    let root = host.path("/debian");
    debian::make(&root);
    fs::create_dir_all(root.join("usr/sbin")).unwrap();
    let init = root.join("usr/sbin/init");
    fs::write(&init, INIT).unwrap();
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).unwrap();
    let archive = Archive::new(host.path("/repo"));
    let first = archive.add(&app("1")).display().to_string();
    install_with(&host, "master", &archive);
    let _ = zonepatch(&host, &["apply", "-z", "master", &first]).ok();
    host.clone_from("master", zones);
    archive.add(&app("2"));
    Some(host)
}

/// Returns the version of `app` in a running zone, its state, and the content of its files.
#[must_use]
pub fn version(host: &Host, zone: &str) -> String {
    let look = "dpkg-query -W -f '${Version} ${db:Status-Abbrev}' app; \
                cat /opt/app/a /opt/app/z /var/lib/app";
    host.sh(zone, look)
}
