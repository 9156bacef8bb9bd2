//! Measures the speed of suspend and resume here, and the limits of memory, processors and disk.
//! Every round runs each test once, so that other work of the host affects all tests alike; ratios
//! are computed within a round.

mod memory;
mod qemu;
mod report;
mod roofline;
mod trial;

use std::num::NonZero;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use suspend::codec::Codec;
use suspend::{Choice, Io, Key};

use memory::Memory;
use report::Report;
use trial::Trial;

/// The measurements to make.
pub struct Plan<'a> {
    /// The image.
    pub file: &'a Path,
    /// Bytes.
    pub memory: usize,
    pub rounds: usize,
    /// At most.
    pub threads: NonZero<usize>,
    /// The folder of the files of memory.
    pub folder: Option<&'a Path>,
    /// True if QEMU's own way is measured, too.
    pub qemu: bool,
    /// True if only the most important tests run: adaptive and lz4 with all threads, lz4 with one
    /// thread, and their baselines.
    pub brief: bool,
}

/// Bytes of memory that are free, or could be.
fn available() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    // Where that is not said, the one who calls must know.
    kibibytes.map_or(usize::MAX, |number: usize| number.saturating_mul(1024))
}

/// The ways to save.
const CHOICES: [(&str, Choice); 4] = [
    ("adaptive", Choice::Adaptive),
    ("raw", Choice::Always(Codec::Raw)),
    ("lz4", Choice::Always(Codec::Lz4)),
    ("zstd", Choice::Always(Codec::Zstd)),
];

/// Removes the trial image, however it ends.
struct Remove<'a>(&'a Path);

impl Drop for Remove<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

pub fn run(plan: &Plan<'_>) -> Result<Report> {
    ensure!(
        !plan.file.exists(),
        "{}: is there; it would be replaced",
        plan.file.display()
    );
    let key = Key::random().context("no random numbers")?;
    let memory = Memory::filled(plan.folder, plan.memory)?;
    let _remove = Remove(plan.file);
    let trial = Trial {
        file: plan.file,
        key: &key,
        memory: &memory,
    };
    let all = plan.threads;
    // The restored memory needs space beside the saved one.
    let twice = available() > plan.memory + plan.memory / 16;
    let mut report = Report::new(plan, memory.nonzero);
    let threads = match all.get() {
        1 => vec![all],
        _ => vec![NonZero::<usize>::MIN, all],
    };
    // Once unmeasured: pages of the file and of the program are there.
    trial.save(Choice::Adaptive, Io::Auto, all)?;
    for round in 0..plan.rounds {
        report.begin();
        for &threads in &threads {
            let at = |what: &str| format!("{what}, {threads} thr");
            // With one thread, in a brief run, only the test that shows how lz4 scales.
            let (whole, many) = (!plan.brief, !plan.brief || threads == all);
            let length = memory.nonzero;
            if many {
                report.add(
                    &at("roofline memory copy"),
                    roofline::copy(&memory, threads)?,
                );
            }
            if whole {
                report.add(&at("roofline zero scan"), roofline::scan(&memory, threads)?);
                report.add(
                    &at("roofline AES-256-GCM"),
                    roofline::seal(length, threads)?,
                );
            }
            report.add(&at("roofline lz4"), roofline::pack(&memory, threads)?);
            if twice && whole {
                let populated = roofline::populate(&memory, threads)?;
                report.add(&at("roofline new memory"), populated);
            }
            if many {
                let disk = roofline::disk(plan.file, length, threads)?;
                report.add(&at("roofline disk"), disk.written);
                report.add(&at("roofline disk, synced"), disk.synced);
                report.add(&at("roofline disk, read"), disk.read);
            }
            for (name, choice) in CHOICES {
                let telling = name == "lz4" || (name == "adaptive" && many);
                if whole || telling {
                    let saved = trial.save(choice, Io::Auto, threads)?;
                    report.saved(&at(&format!("save {name}")), &saved);
                }
            }
            if threads == all && whole {
                let saved = trial.save(Choice::Adaptive, Io::Plain, threads)?;
                report.saved(&at("save adaptive, plain"), &saved);
            }
            if threads == all && plan.qemu {
                for (name, through) in qemu::WAYS {
                    if plan.brief && name != qemu::TELLING {
                        continue;
                    }
                    let written = qemu::write(plan.file, &memory, through)?;
                    report.add(&format!("QEMU {name}, unsynced"), written.written);
                    report.add(&format!("QEMU {name}"), written.synced);
                    report.add(&format!("QEMU {name}, as stored"), written.stored);
                }
            }
            for (name, choice) in &CHOICES[..3] {
                if plan.brief && (threads != all || *name == "raw") {
                    continue;
                }
                trial.save(*choice, Io::Auto, threads)?;
                if !twice {
                    report.add(&at(&format!("verify {name}")), trial.verify(threads)?);
                    continue;
                }
                roofline::touch(&memory, threads)?;
                let restored = trial.restore(threads, round == 0 && threads == all)?;
                report.add(&at(&format!("restore {name}")), restored);
                if threads == all {
                    roofline::touch(&memory, threads)?;
                    let paged = trial.page_in(threads)?;
                    if let Some(paged) = paged {
                        report.paged(&at(&format!("lazy {name}")), memory.nonzero, &paged);
                    }
                }
            }
        }
    }
    Ok(report)
}
