//! Measures live migration: a zone that moves between two hosts on this machine over ssh, and a guest
//! that QEMU's own `migrate` moves over a socket, with the same settings.
//!
//! A listener reads the consoles of both sides. The longest time without a tick is the standstill that a
//! client outside sees; `zoneadm migrate` and QEMU also report one.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::figures::{Row, put};
use crate::place::{Place, Zones};
use crate::qemu::{Qemu, System, first_tick};
use crate::zones::{boot, millis};

/// The filled part of the memory, in MiB, beside that which a load rewrites.
const DATA: u64 = 400;

/// The size of the pieces in which a load rewrites memory, in MiB.
const PIECE: u64 = 16;

/// Interval between reads of the consoles.
const LISTEN_INTERVAL: Duration = Duration::from_millis(1);

/// A load of the guest.
struct Load {
    name: &'static str,
    /// The amount of memory that is rewritten again and again, in MiB.
    rewritten: u64,
    /// The pause after each time, in seconds, as sleep(1) reads it.
    pause: &'static str,
}

const LOADS: [Load; 3] = [
    Load {
        name: "idle",
        rewritten: 0,
        pause: "",
    },
    Load {
        name: "rewrites 32 MiB, pauses 0.2 s, and so on",
        rewritten: 32,
        pause: "0.2",
    },
    Load {
        name: "rewrites 256 MiB without a pause",
        rewritten: 256,
        pause: "0",
    },
];

impl Load {
    /// Returns lines of shell that start the load in the background. It ends when the file
    /// `folder`/calm exists.
    fn script(&self, folder: &str) -> String {
        if self.rewritten == 0 {
            return String::new();
        }
        let mut rewrite = String::new();
        for at in 0..self.rewritten / PIECE {
            let _ = write!(
                rewrite,
                "busybox dd if={folder}/piece of={folder}/hot bs=1M seek={} conv=notrunc; ",
                at * PIECE
            );
        }
        format!(
            "busybox mkdir -p {folder}; busybox rm -f {folder}/calm
busybox dd if=/dev/urandom of={folder}/piece bs=1M count={PIECE} 2>/dev/null
busybox sh -c 'while [ ! -e {folder}/calm ]; do {rewrite} busybox sleep {}; done' </dev/null >/dev/null 2>&1 &",
            self.pause
        )
    }
}

/// The two hosts, each with the options with which ssh reaches it.
pub struct Sides {
    pub hosts: [Place; 2],
    pub ssh: [Vec<String>; 2],
}

/// The figures of all rounds.
pub struct Measured {
    pub rows: Vec<Row>,
    /// Number of QEMU's own migrations that failed. They have no figures.
    pub failed: usize,
}

/// Measures each load `rounds` times; `guest` is the root of a small system.
pub fn measure(sides: &Sides, guest: &Path, rounds: usize) -> Result<Measured> {
    for host in &sides.hosts {
        fs::create_dir_all(&host.root)?;
    }
    let _zones = sides.hosts.each_ref().map(Zones);
    boot(&sides.hosts[0], guest, DATA)?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    let mut at = 0;
    for round in 0..rounds {
        for load in &LOADS {
            eprintln!("live migration, round {}: {}", round + 1, load.name);
            ours(sides, at, load, &mut rows).context("the zone")?;
            at = 1 - at;
            let scratch = sides.hosts[0].root.join("theirs");
            let mut figures = Vec::new();
            match theirs(guest, &scratch, load, &mut figures) {
                Ok(()) => {
                    for (name, value) in figures {
                        put(&mut rows, &name, "ms", value);
                    }
                }
                Err(error) => {
                    eprintln!("QEMU's own migration failed: {error:#}");
                    failed += 1;
                }
            }
        }
    }
    Ok(Measured { rows, failed })
}

/// Moves the zone from the side `at` to the other one.
fn ours(sides: &Sides, at: usize, load: &Load, rows: &mut Vec<Row>) -> Result<()> {
    const FOLDER: &str = "/run/load";
    let (here, there) = (&sides.hosts[at], &sides.hosts[1 - at]);
    here.guest(&format!(
        "mountpoint -q {FOLDER} || {{ mkdir -p {FOLDER}; mount -t tmpfs -o size=300m load {FOLDER}; }}
{}
sleep 2",
        load.script(FOLDER)
    ))?;
    let mut words = vec!["-z", "k1", "migrate"];
    for option in &sides.ssh[1 - at] {
        words.extend(["-o", option]);
    }
    words.push("root@127.0.0.1");
    let consoles = [here, there].map(|host| host.root.join("var/log/zones/k1.console"));
    let began = Instant::now();
    let (ran, silence) = silence_during(&consoles, || here.zoneadm(&words))?;
    let took = began.elapsed();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let stood = text
        .split("stood still for ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|number| number.parse::<f64>().ok());
    let mut add = |what: &str, value: f64| put(rows, &key("zone", load, what), "ms", value);
    add(LASTS, millis(took));
    add(SILENT, millis(silence));
    // A zone that cannot go live moves suspended. Then no standstill is reported.
    if let Some(seconds) = stood {
        add(SAID, seconds * 1e3);
    }
    there.guest(&format!("touch {FOLDER}/calm; rm -f {FOLDER}/hot"))?;
    Ok(())
}

/// Moves a guest from one QEMU to another. Adds the figures, in ms, with their names.
fn theirs(
    guest: &Path,
    scratch: &Path,
    load: &Load,
    figures: &mut Vec<(String, f64)>,
) -> Result<()> {
    // Not in /data, which is full.
    const FOLDER: &str = "/dev/load";
    let script = match load.rewritten {
        0 => String::new(),
        _ => format!(
            "busybox mkdir -p {FOLDER}; busybox mount -t tmpfs -o size=300m load {FOLDER}\n{}",
            load.script(FOLDER)
        ),
    };
    let system = System::new(guest, scratch, DATA, &script)?;
    let [one, two] = ["one", "two"].map(|name| scratch.join(name));
    let socket = scratch.join("socket");
    let _ = fs::remove_file(&socket);
    let uri = format!("unix:{}", socket.display());
    let mut source = Qemu::start(&system, &one, &[])?;
    first_tick(&one)?;
    std::thread::sleep(Duration::from_secs(2));
    let mut target = Qemu::start(&system, &two, &["-incoming", &uri])?;
    for command in [
        r#"{"execute":"migrate-set-capabilities","arguments":{"capabilities":[{"capability":"auto-converge","state":true}]}}"#,
        r#"{"execute":"migrate-set-parameters","arguments":{"max-bandwidth":1099511627776,"downtime-limit":300}}"#,
    ] {
        source.execute(command)?;
    }
    let began = Instant::now();
    let (ended, silence) = silence_during(&[one, two], || {
        source.execute(&format!(
            r#"{{"execute":"migrate","arguments":{{"uri":"{uri}"}}}}"#
        ))?;
        source.until("query-migrate", |answer| {
            answer["status"] == "completed" || answer["status"] == "failed"
        })
    })?;
    let took = began.elapsed();
    ensure!(ended["status"] == "completed", "QEMU's own: {ended}");
    let said = ended["downtime"]
        .as_f64()
        .context("QEMU says no downtime")?;
    let mut add = |what: &str, value: f64| figures.push((key("QEMU", load, what), value));
    add(LASTS, millis(took));
    add(SILENT, millis(silence));
    add(SAID, said);
    source.quit()?;
    target.execute(r#"{"execute":"query-status"}"#)?;
    target.quit()
}

const LASTS: &str = "whole migration";
const SILENT: &str = "longest silence of the console";
const SAID: &str = "reported standstill";

fn key(whose: &str, load: &Load, what: &str) -> String {
    format!("{whose}, {}, {what}", load.name)
}

/// Returns the result of `work`, and the longest time without a tick in the files, until one more tick
/// has come after its end. Fails with the error of `work`, if it has one: then no tick may come any more.
fn silence_during<T>(
    consoles: &[PathBuf; 2],
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Duration)> {
    let mut lengths = [0; 2];
    for (length, path) in lengths.iter_mut().zip(consoles) {
        *length = fs::metadata(path).map_or(0, |meta| meta.len());
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(consoles, lengths, &done));
        let result = work();
        done.store(true, Ordering::Relaxed);
        let silence = listener.join().ok().context("the listener failed")?;
        Ok((result?, silence?))
    })
}

fn listen(consoles: &[PathBuf; 2], mut read: [u64; 2], done: &AtomicBool) -> Result<Duration> {
    const LAST_TICK_TIMEOUT: Duration = Duration::from_secs(60);
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    loop {
        let was_done = done.load(Ordering::Relaxed);
        let mut heard = false;
        for (read, path) in read.iter_mut().zip(consoles) {
            let mut new = Vec::new();
            // The console of the target exists when the zone arrives there.
            if let Ok(mut file) = File::open(path) {
                file.seek(SeekFrom::Start(*read))?;
                file.read_to_end(&mut new)?;
            }
            *read += new.len() as u64;
            // Only ticks contain this character.
            heard |= new.contains(&b'~');
        }
        if heard {
            longest = longest.max(last.elapsed());
            last = Instant::now();
            if was_done {
                return Ok(longest);
            }
        }
        ensure!(
            !was_done || last.elapsed() < LAST_TICK_TIMEOUT,
            "no tick within {LAST_TICK_TIMEOUT:?} after the migration"
        );
        std::thread::sleep(LISTEN_INTERVAL);
    }
}

/// Returns the table: the median and the worst round of each figure.
pub fn table(Measured { rows, failed }: &Measured) -> String {
    let mut text = "| the guest | | zone, ms: median / worst | QEMU's own, ms: median / worst |\n\
                    |---|---|--:|--:|\n"
        .to_owned();
    for load in &LOADS {
        for what in [LASTS, SAID, SILENT] {
            let cell = |whose| {
                let row = rows.iter().find(|row| row.name == key(whose, load, what));
                row.map_or("-".to_owned(), |row| {
                    format!("{:.0} / {:.0}", row.median(), row.worst())
                })
            };
            let _ = writeln!(
                text,
                "| {} | {what} | {} | {} |",
                load.name,
                cell("zone"),
                cell("QEMU")
            );
        }
    }
    if *failed > 0 {
        let _ = writeln!(
            text,
            "| QEMU's own migrations that failed | | - | {failed} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_longest_pause_between_ticks_is_found() {
        let folder = std::env::temp_dir().join(format!("live-bench.{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let consoles = ["one", "two"].map(|name| folder.join(name));
        let write = |path: &Path, text: &[u8]| {
            let mut options = File::options();
            let mut file = options.append(true).create(true).open(path).unwrap();
            file.write_all(text).unwrap();
        };
        let pause = Duration::from_millis(300);
        write(&consoles[0], b"~tick~\n");
        let ((), silence) = silence_during(&consoles, || {
            write(&consoles[0], b"~tick~\n");
            std::thread::sleep(pause);
            write(&consoles[1], b"a line of another program\n");
            std::thread::sleep(pause);
            write(&consoles[1], b"~tick~\n");
            // One more tick comes after the end of the work.
            let path = consoles[1].clone();
            std::thread::spawn(move || {
                std::thread::sleep(pause / 6);
                write(&path, b"~tick~\n");
            });
            Ok(())
        })
        .unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(silence >= pause * 2 - LISTEN_INTERVAL * 20, "{silence:?}");
    }
}
