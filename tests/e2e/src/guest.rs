//! The kernel zone `k1` with the small guest of [`machine`], which counts seconds in /run/count,
//! for tests of suspend.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::run::run;
use crate::{Host, Ran, machine, wait_for};

/// A script that prints values that differ at each boot of a guest.
pub const BOOT_ID: &str = "cat /proc/sys/kernel/random/boot_id";

/// Configures, installs and boots the kernel zone `k1`, with more resources. Returns false, and
/// prints the reason, if kernel zones are impossible here.
#[track_caller]
#[must_use]
pub fn boot_machine(host: &Host, more: &str) -> bool {
    let Some(guest) = machine::guest(host) else {
        return false;
    };
    machine::configure(host, "k1", more);
    machine::install(host, "k1", &guest);
    machine::done(host.on("k1", &["boot"]));
    wait_for_guest(host);
    true
}

/// Does the same as [`boot_machine`], and makes the zone `k2` as a clone of `k1`. If files cannot
/// share their blocks, the disks of both use one base file.
#[track_caller]
#[must_use]
pub fn boot_cloned_machine(host: &Host) -> bool {
    let Some(guest) = machine::guest(host) else {
        return false;
    };
    machine::configure(host, "k1", "");
    machine::install(host, "k1", &guest);
    machine::done(host.on("k2", &["clone", "--create", "k1"]));
    machine::done(host.on("k1", &["boot"]));
    wait_for_guest(host);
    true
}

/// Runs a script in the guest.
#[must_use]
pub fn in_guest(host: &Host, script: &str) -> Ran {
    host.zlogin(&["k1", script])
}

/// Writes random bytes to `/run/data`, which is in the memory of the guest. Panics with the state of
/// the guest's memory if that fails.
#[track_caller]
pub fn fill_memory(host: &Host, bytes: u64) {
    // head tells of no error number when it cannot write; cat does.
    let state = "{ df /run; free; dmesg | tail -n 5; exit 1; } >&2";
    let script =
        format!("set -o pipefail; head -c {bytes} /dev/urandom | cat >/run/data || {state}");
    let _ = in_guest(host, &script).ok();
}

/// Waits until the agent in the guest answers, and returns the guest's counter.
pub fn wait_for_guest(host: &Host) -> u64 {
    wait_for("answer of the guest", || {
        let ran = in_guest(host, "cat /run/count");
        (ran.code() == Some(0))
            .then(|| ran.text().parse().ok())
            .flatten()
    })
}

/// Returns the output of a script in the guest.
#[track_caller]
#[must_use]
pub fn said(host: &Host, script: &str) -> String {
    in_guest(host, script).ok().text().to_owned()
}

/// The properties of a guest that must be the same after a resume.
#[derive(Debug)]
pub struct Kept {
    boot: String,
    sums: String,
    count: u64,
}

impl Kept {
    const SUM: &str = "md5sum /run/data /root.data";

    /// Reads the properties of `k1`, and makes files in the guest's memory and on its disk.
    #[track_caller]
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let make = "head -c 4000000 /dev/urandom >/run/data; cp /run/data /root.data";
        Self {
            boot: said(host, BOOT_ID),
            sums: said(host, &format!("{make}; {}", Self::SUM)),
            count: wait_for_guest(host),
        }
    }

    /// Checks that this guest runs on a host, and was not booted again.
    ///
    /// # Panics
    /// Panics if the guest is another one.
    #[track_caller]
    pub fn goes_on(&self, host: &Host) {
        assert_eq!(host.state("k1"), "running");
        let now = wait_for_guest(host);
        let count = self.count;
        assert!(now >= count, "the counter was {count} and is {now}");
        assert_eq!(said(host, BOOT_ID), self.boot);
        assert_eq!(said(host, Self::SUM), self.sums);
        assert!(!image(host).exists());
    }
}

/// Returns the path of the image of `k1`.
#[must_use]
pub fn image(host: &Host) -> PathBuf {
    host.path("zones/k1/suspend")
}

/// Checks the boot of a suspended `k1` with a damaged image: either the damage was found in time,
/// or the zone was ended and does not wait forever.
///
/// # Panics
/// Panics otherwise.
#[track_caller]
pub fn memory_is_refused(host: &Host, booted: &Ran) {
    if booted.code() == Some(0) {
        wait_for("end of the zone", || {
            (host.state("k1") == "installed").then_some(())
        });
        let log = messages(host);
        assert!(
            log.contains("stopped: not all of its memory could be restored: "),
            "{log}"
        );
    } else {
        assert!(booted.err.contains("could not resume: "), "{booted:?}");
        assert_eq!(host.state("k1"), "installed");
    }
}

/// Returns the messages of `k1`.
#[must_use]
pub fn messages(host: &Host) -> String {
    fs::read_to_string(host.path("var/log/zones/k1.messages")).unwrap_or_default()
}

/// Checks the file system on the disk of the halted `k1`: after a replay of its journal, it must
/// have no errors.
///
/// # Panics
/// Panics if the file system has errors.
#[track_caller]
pub fn disk_is_whole(host: &Host) {
    let disk = host.path("zones/k1/disk0");
    let check = |words: &[&str]| run(Command::new("e2fsck").args(words).arg(&disk), b"");
    let _ = check(&["-y", "-E", "journal_only"]);
    let ran = check(&["-f", "-n"]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
}
