//! Measures suspend, resume and clone of a kernel zone.
//!
//! The guest prints a tick on its serial line every five milliseconds: the first tick after a
//! resume is the earliest visible sign that the guest runs. zoneadmd writes a message to the same
//! console history just before it starts QEMU's processors.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::figures::{Row, put};
use crate::incoming;
use crate::place::{Place, Zones, wait};

/// Memory of the zone, and the filled part of it, in MiB.
pub const MEMORY: u64 = 1024;
pub const DATA: u64 = 720;

/// The text that the guest prints repeatedly while it runs.
pub const TICK: &str = "~tick~";

/// The names of rows that are compared.
const LAZY_RUNS: &str = "lazy resume, cont to first sign of the guest";
const EAGER_RUNS: &str = "eager resume, cont to first sign of the guest";
const QEMU_LOADS: &str = "QEMU's -incoming, start to image read";
const QEMU_RUNS: &str = "QEMU's -incoming, cont to first sign of the guest";

/// Runs all measurements `rounds` times; `guest` is the root of a small system.
pub fn measure(place: &Place, guest: &Path, rounds: usize) -> Result<Vec<Row>> {
    let _zones = Zones(place);
    boot(place, guest, DATA)?;
    let mut theirs = incoming::Guest::start(guest, &place.root)?;
    let mut rows = Vec::new();
    for round in 0..rounds {
        eprintln!("zone, round {}", round + 1);
        for (name, words) in [
            ("lazy", &["boot"][..]),
            ("eager", &["boot", "--", "--eager"]),
        ] {
            suspend(place, &mut rows)?;
            warm(place)?;
            resume(place, name, words, &mut rows)?;
        }
        // Each guest runs while the other one is measured, and prints its ticks.
        theirs.save()?;
        warm(place)?;
        let times = theirs.resume()?;
        put(&mut rows, QEMU_LOADS, "ms", millis(times.load));
        put(&mut rows, QEMU_RUNS, "ms", millis(times.tick));
    }
    for (ours, name) in [
        (
            LAZY_RUNS,
            "lazy resume / QEMU's -incoming, cont to first sign",
        ),
        (
            EAGER_RUNS,
            "eager resume / QEMU's -incoming, cont to first sign",
        ),
    ] {
        for (ours, theirs) in pairs(&rows, ours, QEMU_RUNS) {
            put(&mut rows, name, "times", ours / theirs);
        }
    }
    drop(theirs);
    place.zoneadm(&["-z", "k1", "halt"])?;
    for _ in 0..rounds {
        let began = Instant::now();
        place.zoneadm(&["-z", "k2", "clone", "--create", "k1"])?;
        put(&mut rows, "clone", "ms", millis(began.elapsed()));
        place.zoneadm(&["-z", "k2", "uninstall", "-F"])?;
        place.run("zonecfg", &["-z", "k2", "delete", "-F"])?;
    }
    Ok(rows)
}

/// Installs and boots the zone k1 of a host from the root `guest`. The guest has `data` MiB of a file in
/// its memory, and prints ticks.
pub fn boot(place: &Place, guest: &Path, data: u64) -> Result<()> {
    fs::create_dir_all(&place.root)?;
    fill(&guest.join("data"), data << 20)?;
    let commands = format!(
        "create -t SYSsolaris-kz; remove -F anet; set bootargs=\"mitigations=off loglevel=3\"; \
         select capped-memory; set physical={MEMORY}m; end; \
         select virtual-cpu; set ncpus=1; end"
    );
    place.run("zonecfg", &["-z", "k1", &commands])?;
    let from = guest.to_str().context("a path that is no UTF-8")?;
    let size = format!("install-size={}M", data + 256);
    place.zoneadm(&["-z", "k1", "install", "-d", from, "-x", &size])?;
    place.zoneadm(&["-z", "k1", "boot"])?;
    wait("agent in the guest", || place.guest("true").ok())?;
    // The content of the file stays in the guest's page cache.
    place.guest("cat /data >/dev/null")?;
    place.guest(&format!(
        "mkfifo /run/f; setsid sh -c 'exec 3<>/run/f; \
         while :; do echo {TICK}; read -t 0.005 -u 3 x; done' >/dev/ttyS0 2>&1 </dev/null &"
    ))?;
    Ok(())
}

fn suspend(place: &Place, rows: &mut Vec<Row>) -> Result<()> {
    let log = place.log("messages");
    let began = Instant::now();
    place.zoneadm(&["-z", "k1", "suspend"])?;
    put(
        rows,
        "zoneadm suspend, all of it",
        "ms",
        millis(began.elapsed()),
    );
    for (line, name) in [
        ("suspend: raw ", "suspend, raw"),
        ("suspend: compressed ", "suspend, compressed"),
        ("suspend without fsync: raw ", "suspend without fsync, raw"),
        (
            "suspend without fsync: compressed ",
            "suspend without fsync, compressed",
        ),
    ] {
        put(rows, name, "MB/s", rate(&log.line(line)?)?);
    }
    Ok(())
}

fn resume(place: &Place, name: &str, words: &[&str], rows: &mut Vec<Row>) -> Result<()> {
    let (messages, console) = (place.log("messages"), place.log("console"));
    let words = [&["-z", "k1"], words].concat();
    let began = Instant::now();
    let mut command = place.command("zoneadm", &words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut command = command.spawn()?;
    let seen = |what: &str| {
        wait(what, || console.text().contains(what).then_some(()))?;
        anyhow::Ok(began.elapsed())
    };
    let lets = seen("Zone resuming");
    let ticks = lets.and_then(|lets| Ok((lets, seen(TICK)?)));
    let status = command.wait()?;
    ensure!(status.success(), "zoneadm {words:?}: {status}");
    let (lets, ticks) = ticks?;
    let mut add = |what: &str, took: Duration| {
        put(rows, &format!("{name} resume, {what}"), "ms", millis(took));
    };
    add("boot to cont", lets);
    add("cont to first sign of the guest", ticks - lets);
    add("boot to first sign of the guest", ticks);
    let line = messages.line("resume: raw ")?;
    let what = format!("{name} resume, memory complete");
    put(rows, &what, "MB/s", rate(&line)?);
    Ok(())
}

/// Returns the rate at the end of a line of the messages, or before the line's first remark.
fn rate(line: &str) -> Result<f64> {
    let before = line.split(" MB/s").next().unwrap_or_default();
    let number = before.rsplit(' ').next().unwrap_or_default();
    number
        .parse()
        .with_context(|| format!("no rate in {line:?}"))
}

/// Has pages at hand for the memory of the zone: in a virtual machine the first touch of a
/// page may be one of its host's. They are large ones, as the zone's: small ones that are
/// given back come from elsewhere, and are seldom joined.
fn warm(place: &Place) -> Result<()> {
    let folder = place.root.join("warm");
    fs::create_dir_all(&folder)?;
    // Reserved space is not touched by the reservation.
    let script = format!(
        "mount -t tmpfs -o size={0}m,huge=always warm \"$1\" && \
         dd if=/dev/zero of=\"$1/pages\" bs=2M count={1} status=none",
        MEMORY + 256,
        (MEMORY + 256) / 2
    );
    let status = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            &script,
            "sh",
        ])
        .arg(&folder)
        .status()?;
    ensure!(status.success(), "cannot touch memory: {status}");
    read_program()
}

/// Reads the files that QEMU is made of: where a host has given up pages that nobody used
/// for some seconds, its start would be measured as that of the disk.
fn read_program() -> Result<()> {
    let mut qemu = Command::new("qemu-system-x86_64")
        .args(["-machine", "q35", "-nodefaults", "-display", "none", "-S"])
        .args(["-qmp", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut words = qemu.stdin.take().context("no way to QEMU")?;
    for word in ["qmp_capabilities", "quit"] {
        writeln!(words, "{{\"execute\":\"{word}\"}}")?;
    }
    let status = qemu.wait()?;
    ensure!(status.success(), "cannot start QEMU: {status}");
    Ok(())
}

/// Fills a file with the content of files in /usr.
fn fill(path: &Path, size: u64) -> Result<()> {
    let mut out = File::create(path)?;
    let mut left = size;
    let mut folders = vec![PathBuf::from("/usr/share"), PathBuf::from("/usr/lib")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() && left > 0 => {
                    let Ok(file) = File::open(entry.path()) else {
                        continue;
                    };
                    left -= std::io::copy(&mut file.take(left), &mut out)?;
                }
                _ => {}
            }
        }
    }
    Ok(out.flush()?)
}

/// Returns the values of two rows, of each round.
fn pairs(rows: &[Row], ours: &str, theirs: &str) -> Vec<(f64, f64)> {
    let of = |name: &str| rows.iter().find(|row| row.name == name);
    let (Some(ours), Some(theirs)) = (of(ours), of(theirs)) else {
        return Vec::new();
    };
    let pairs = ours.rounds.iter().zip(&theirs.rounds);
    pairs.map(|(&ours, &theirs)| (ours, theirs)).collect()
}

pub fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_messages() {
        let line = "x zone 'k1': resume: raw 87.5 MB in 0.487 s, 179.8 MB/s, of 87.1 MB compressed";
        assert_eq!(rate(line).unwrap(), 179.8);
        assert_eq!(
            rate("suspend: raw 1.0 MB in 0.1 s, 10.0 MB/s").unwrap(),
            10.0
        );
        assert!(rate("nothing").is_err());
    }
}
