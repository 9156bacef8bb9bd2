//! Helpers for tests of kernel zones: a small guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::run::run;
use crate::{Host, Ran, skip, wait_for};

/// Words on the kernel's command line that make an emulated guest start sooner.
const QUICKLY: &str = "mitigations=off loglevel=3 nokaslr rcupdate.rcu_expedited=1";

/// Returns whether QEMU is installed; prints a message if it is not.
#[must_use]
pub fn has_qemu() -> bool {
    let there = Path::new("/usr/bin/qemu-system-x86_64").exists();
    if !there {
        skip("QEMU is not installed (package qemu-system-x86)");
    }
    there
}

/// Returns the root of a small system with Debian's kernel: the folder that `ZONES_GUEST` names, or
/// a new folder below the host's folder. Returns `None`, with a message, if it cannot be created.
///
/// # Panics
/// Fails if creating it fails.
#[must_use]
pub fn guest(host: &Host) -> Option<PathBuf> {
    static NAMED: OnceLock<Option<PathBuf>> = OnceLock::new();
    if !has_qemu() {
        return None;
    }
    let named = NAMED.get_or_init(|| std::env::var_os("ZONES_GUEST").map(PathBuf::from));
    if let Some(named) = named {
        return Some(named.clone());
    }
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let script = manifest.join("../vm/run");
    let guest = host.path("/guest");
    let programs = host.command("zoneagent", &[]);
    let programs = Path::new(programs.get_program()).parent()?;
    let mut make = Command::new(script);
    make.arg("--guest").arg(&guest).arg(programs);
    let ran = run(&mut make, b"");
    match ran.code() {
        Some(0) => Some(guest),
        Some(77) => {
            let said = ran.out.clone() + &ran.err;
            skip(said.lines().last().unwrap_or("no guest can be made"));
            None
        }
        _ => panic!("{ran:?}"),
    }
}

/// Configures a small kernel zone without a network, with further commands of zonecfg.
#[track_caller]
pub fn configure(host: &Host, zone: &str, more: &str) {
    let commands = format!(
        "create -t SYSsolaris-kz; remove -F anet; set bootargs=\"{QUICKLY}\"; \
         select capped-memory; set physical=192m; end; \
         select virtual-cpu; set ncpus=1; end; {more}"
    );
    host.zonecfg(&["-z", zone, &commands]).quiet();
}

/// Installs the guest in a configured zone.
#[track_caller]
pub fn install(host: &Host, zone: &str, guest: &Path) {
    let guest = guest.to_string_lossy().into_owned();
    let words = ["install", "-d", &guest, "-x", "install-size=256M"];
    let said = host.on(zone, &words).ok().out;
    assert!(said.contains("Kernel: /boot/vmlinuz"), "{said}");
}

/// Boots the zone, and waits until the guest's agent answers.
#[track_caller]
pub fn boot(host: &Host, zone: &str) {
    done(host.on(zone, &["boot"]));
    up(host, zone);
}

/// Waits until the agent in the guest answers.
pub fn up(host: &Host, zone: &str) {
    wait_for("agent in the guest", || {
        (host.zlogin(&["-n", zone, "true"]).code() == Some(0)).then_some(())
    });
}

/// Expects success, and ignores a warning that the guest is emulated.
#[track_caller]
pub fn done(ran: Ran) {
    let _ = ran.ok();
}

/// Returns the auxiliary state of a zone in `list -s`.
#[must_use]
pub fn auxiliary(host: &Host, zone: &str) -> String {
    let listed = host.on(zone, &["list", "-s"]).ok();
    let line = listed.out.lines().nth(1).unwrap_or_default();
    // The words after the name and the state.
    let words: Vec<&str> = line.split_whitespace().skip(2).collect();
    words.join(" ")
}

/// Returns the first block of a disk or CD that prints a text on the serial line, and halts.
///
/// # Panics
/// Fails if the text is too long for the block.
#[must_use]
pub fn loader(says: &str) -> Vec<u8> {
    // ds = 0, si = the text. Each byte goes to port 0x3f8 when 0x3fd reports that the transmitter
    // is empty: on a busy host, a byte that is sent earlier is lost. Then the code halts.
    let mut block =
        b"\x31\xc0\x8e\xd8\xbe\x21\x7c\xac\x84\xc0\x74\x12\x88\xc4\xba\xfd\x03\xec\xa8\x20\x74\xfb"
            .to_vec();
    block.extend(b"\xba\xf8\x03\x88\xe0\xee\xeb\xe9\xf4\xeb\xfd");
    block.extend(says.as_bytes());
    block.extend(b"\r\n\0");
    assert!(block.len() <= 440, "too long for a boot sector");
    block.resize(510, 0);
    block.extend(b"\x55\xaa");
    block
}

/// Returns the image of a CD with a [`loader`] (El Torito).
#[must_use]
pub fn cd(says: &str) -> Vec<u8> {
    let mut image = vec![0; 2048 * 32];
    let mut put = |at: usize, what: &[u8]| image[at..at + what.len()].copy_from_slice(what);
    put(16 * 2048, b"\x01CD001\x01");
    put(17 * 2048, b"\x00CD001\x01EL TORITO SPECIFICATION");
    put(17 * 2048 + 0x47, &19_u32.to_le_bytes());
    put(18 * 2048, b"\xffCD001\x01");
    // The sum of its words is zero: 0x0001 + 0x55aa + 0xaa55.
    put(19 * 2048, &[1]);
    put(19 * 2048 + 28, b"\xaa\x55\x55\xaa");
    // Bootable, no emulation, four blocks from sector 20.
    put(19 * 2048 + 32, &[0x88, 0, 0, 0, 0, 0, 4, 0, 20]);
    put(20 * 2048, &loader(says));
    image
}

/// Waits until the zone's console has printed a text.
pub fn hears(host: &Host, zone: &str, text: &str) {
    let path = host.path(&format!("/var/log/zones/{zone}.console"));
    wait_for(&format!("{text:?} on the console of {zone}"), || {
        let said = fs::read(&path).unwrap_or_default();
        String::from_utf8_lossy(&said).contains(text).then_some(())
    });
}
