//! A zone with a shell and few other files, so that few system calls create it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use e2e::run::run;

use crate::bench::{Bench, first_clone};

/// The first process of the zone.
pub(super) const INIT: &str = "#!/bin/sh\ntrap 'exit 0' TERM INT\nwhile :; do sleep 1; done\n";

/// Programs of the host that are copied into the zone.
const PROGRAMS: &[&str] = &["sh", "cat", "sleep", "hostname"];

impl Bench {
    /// Returns a host with a small zone `master` of brand lx that was cloned before.
    pub(super) fn with_small() -> Option<Self> {
        let bench = Self::new()?;
        let host = &bench.host;
        let tree = host.path("/tiny");
        make(&tree);
        host.zonecfg(&["-z", "master", "create -t SUNWlx"]).quiet();
        let tree = tree.display().to_string();
        let _ = host.on("master", &["install", "-d", &tree]).ok();
        first_clone(host);
        Some(bench)
    }
}

/// Creates the tree: some programs of the host and their libraries.
fn make(tree: &Path) {
    for name in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(tree.join("usr").join(name)).expect("a folder");
        symlink(format!("usr/{name}"), tree.join(name)).expect("a link");
    }
    for name in ["etc", "var", "dev", "proc", "sys", "run", "tmp"] {
        fs::create_dir_all(tree.join(name)).expect("a folder");
    }
    let mut files = BTreeSet::new();
    for name in PROGRAMS {
        let program = format!("/usr/bin/{name}");
        let needs = run(Command::new("ldd").arg(&program), b"").out;
        let words = needs
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        files.extend(words.map(str::to_owned));
        files.insert(program);
    }
    for file in files {
        let target = tree.join(file.trim_start_matches('/'));
        fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
        fs::copy(&file, target).expect("a file of the host");
    }
    let init = tree.join("usr/sbin/init");
    fs::write(&init, INIT).expect("an init");
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).expect("an init");
    fs::write(tree.join("etc/hostname"), "master\n").expect("a file");
    fs::write(tree.join("etc/passwd"), "root::0:0:root:/:/bin/sh\n").expect("a file");
}
