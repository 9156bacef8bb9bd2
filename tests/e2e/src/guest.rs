//! Kernel zones with a small guest, which counts seconds in /run/count.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::run::run;
use crate::{Host, Ran, skip, wait_for};

/// Prints what no other boot of a guest has.
pub const BOOT_ID: &str = "cat /proc/sys/kernel/random/boot_id";

/// The root of a small guest: what `ZONES_GUEST` names, or made once for all tests of a
/// program.
fn guest() -> Option<&'static Path> {
    static GUEST: OnceLock<Option<PathBuf>> = OnceLock::new();
    GUEST.get_or_init(make_guest).as_deref()
}

fn make_guest() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ZONES_GUEST") {
        return Some(named.into());
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::temp_dir().join(format!("zones-guest-{}", std::process::id()));
    fs::create_dir_all(&folder).ok()?;
    let mut command = Command::new(top.join("tests/vm/run"));
    command.arg("--guest").arg(&folder);
    if let Some(programs) = std::env::var_os("ZONES_BIN") {
        command.arg(programs);
    }
    let ran = run(&mut command, b"");
    (ran.code() == Some(0)).then_some(folder)
}

/// Configures, installs and boots the kernel zone `k1`, with more resources; false, said,
/// where there can be none.
#[track_caller]
#[must_use]
pub fn boot_machine(host: &Host, more: &str) -> bool {
    if !Path::new("/usr/bin/qemu-system-x86_64").exists() {
        skip("no QEMU");
        return false;
    }
    let Some(guest) = guest() else {
        skip("no guest could be made");
        return false;
    };
    host.zonecfg(&[
        "-z",
        "k1",
        &format!(
            "create -t SYSsolaris-kz; remove anet; select capped-memory; set physical=192M; end; \
             select virtual-cpu; set ncpus=1; end; {more}"
        ),
    ])
    .quiet();
    let guest = guest.to_str().expect("a path in UTF-8");
    let _ = host
        .on("k1", &["install", "-d", guest, "-x", "install-size=512M"])
        .ok();
    let _ = host.on("k1", &["boot"]).ok();
    wait_for_guest(host);
    true
}

/// Runs a script in the guest.
#[must_use]
pub fn in_guest(host: &Host, script: &str) -> Ran {
    host.zlogin(&["k1", script])
}

/// Waits until the agent in the guest answers; returns how far its counter is.
pub fn wait_for_guest(host: &Host) -> u64 {
    wait_for("answer of the guest", || {
        let ran = in_guest(host, "cat /run/count");
        (ran.code() == Some(0))
            .then(|| ran.text().parse().ok())
            .flatten()
    })
}

/// What a script in the guest prints.
#[track_caller]
#[must_use]
pub fn said(host: &Host, script: &str) -> String {
    in_guest(host, script).ok().text().to_owned()
}

/// Where the image of `k1` is.
#[must_use]
pub fn image(host: &Host) -> PathBuf {
    host.path("zones/k1/suspend")
}

/// What is in the messages of `k1`.
#[must_use]
pub fn messages(host: &Host) -> String {
    fs::read_to_string(host.path("var/log/zones/k1.messages")).unwrap_or_default()
}

/// Looks at the file system on the disk of `k1`, which does not run: its journal is played
/// back, and then nothing may be wrong.
///
/// # Panics
/// When something is.
#[track_caller]
pub fn disk_is_whole(host: &Host) {
    let disk = host.path("zones/k1/disk0");
    let check = |words: &[&str]| run(Command::new("e2fsck").args(words).arg(&disk), b"");
    let _ = check(&["-y", "-E", "journal_only"]);
    let ran = check(&["-f", "-n"]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
}
