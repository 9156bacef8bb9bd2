//! Measures the speed of suspend and resume on this host, and the limits of memory, processors and
//! disk. Every round runs each test once, so that other work of the host affects all tests alike;
//! ratios are computed within a round.

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
    /// The path of the trial image.
    pub file: &'a Path,
    /// The size of the memory, in bytes.
    pub memory: usize,
    pub rounds: usize,
    /// The maximum number of threads.
    pub threads: NonZero<usize>,
    /// The folder whose files fill the memory.
    pub folder: Option<&'a Path>,
    /// True if QEMU's own migration to a file is measured, too.
    pub qemu: bool,
    /// True if only the most important tests run: adaptive and lz4 with all threads, lz4 with one
    /// thread, and their baselines.
    pub brief: bool,
}

/// Returns the bytes of memory that the kernel reports as available.
fn available() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    // If the kernel does not report it, the caller must know.
    kibibytes.map_or(usize::MAX, |number: usize| number.saturating_mul(1024))
}

/// The codecs to measure.
const CHOICES: [(&str, Choice); 4] = [
    ("adaptive", Choice::Adaptive),
    ("raw", Choice::Always(Codec::Raw)),
    ("lz4", Choice::Always(Codec::Lz4)),
    ("zstd", Choice::Always(Codec::Zstd)),
];

/// Removes the trial image when it is dropped.
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
    // The restored memory needs space beside the saved one.
    let twice = available() > plan.memory + plan.memory / 16;
    let mut report = Report::new(plan, memory.nonzero);
    let threads = match plan.threads.get() {
        1 => vec![plan.threads],
        _ => vec![NonZero::<usize>::MIN, plan.threads],
    };
    // One save without a measurement, which brings the file and the program into the page cache.
    trial.save(Choice::Adaptive, Io::Auto, plan.threads)?;
    for number in 0..plan.rounds {
        report.begin();
        for &threads in &threads {
            let round = Round {
                plan,
                trial: &trial,
                memory: &memory,
                threads,
                is_widest: threads == plan.threads,
                is_first: number == 0,
                twice,
            };
            round.rooflines(&mut report)?;
            round.save(&mut report)?;
            round.restore(&mut report)?;
        }
    }
    Ok(report)
}

/// The tests of a round with one number of threads.
struct Round<'a> {
    plan: &'a Plan<'a>,
    trial: &'a Trial<'a>,
    memory: &'a Memory,
    threads: NonZero<usize>,
    /// True if the round uses all threads of the plan.
    is_widest: bool,
    /// True in the first round.
    is_first: bool,
    /// True if there is space for the restored memory beside the saved one.
    twice: bool,
}

impl Round<'_> {
    /// Returns the name of a test.
    fn at(&self, test: &str) -> String {
        format!("{test}, {} thr", self.threads)
    }

    /// Returns whether all tests run.
    fn is_whole(&self) -> bool {
        !self.plan.brief
    }

    /// Returns whether more tests run than the one that shows how lz4 scales. A brief run makes
    /// only that test with one thread.
    fn has_many(&self) -> bool {
        self.is_whole() || self.is_widest
    }

    /// Measures the limits of memory, processors and disk.
    fn rooflines(&self, report: &mut Report) -> Result<()> {
        let (memory, threads, length) = (self.memory, self.threads, self.memory.nonzero);
        if self.has_many() {
            report.add(
                &self.at("roofline memory copy"),
                roofline::copy(memory, threads)?,
            );
        }
        if self.is_whole() {
            report.add(
                &self.at("roofline zero scan"),
                roofline::scan(memory, threads)?,
            );
            report.add(
                &self.at("roofline AES-256-GCM"),
                roofline::seal(length, threads)?,
            );
        }
        report.add(&self.at("roofline lz4"), roofline::pack(memory, threads)?);
        if self.twice && self.is_whole() {
            let populated = roofline::populate(memory, threads)?;
            report.add(&self.at("roofline new memory"), populated);
        }
        if self.has_many() {
            let disk = roofline::disk(self.plan.file, length, threads)?;
            report.add(&self.at("roofline disk"), disk.written);
            report.add(&self.at("roofline disk, synced"), disk.synced);
            report.add(&self.at("roofline disk, read"), disk.read);
        }
        Ok(())
    }

    /// Measures each way to save, and QEMU's ways.
    fn save(&self, report: &mut Report) -> Result<()> {
        for (name, choice) in CHOICES {
            let telling = name == "lz4" || (name == "adaptive" && self.has_many());
            if self.is_whole() || telling {
                let saved = self.trial.save(choice, Io::Auto, self.threads)?;
                report.saved(&self.at(&format!("save {name}")), &saved);
            }
        }
        if self.is_widest && self.is_whole() {
            let saved = self.trial.save(Choice::Adaptive, Io::Plain, self.threads)?;
            report.saved(&self.at("save adaptive, plain"), &saved);
        }
        if self.is_widest && self.plan.qemu {
            for (name, through) in qemu::WAYS {
                if self.plan.brief && name != qemu::TELLING {
                    continue;
                }
                let written = qemu::write(self.plan.file, self.memory, through)?;
                report.add(&format!("QEMU {name}, unsynced"), written.written);
                report.add(&format!("QEMU {name}"), written.synced);
                report.add(&format!("QEMU {name}, as stored"), written.stored);
            }
        }
        Ok(())
    }

    /// Measures each way to restore.
    fn restore(&self, report: &mut Report) -> Result<()> {
        let (trial, threads) = (self.trial, self.threads);
        for (name, choice) in &CHOICES[..3] {
            if self.plan.brief && (!self.is_widest || *name == "raw") {
                continue;
            }
            trial.save(*choice, Io::Auto, threads)?;
            if !self.twice {
                report.add(&self.at(&format!("verify {name}")), trial.verify(threads)?);
                continue;
            }
            roofline::touch(self.memory, threads)?;
            let restored = trial.restore(threads, self.is_first && self.is_widest)?;
            report.add(&self.at(&format!("restore {name}")), restored);
            if self.is_widest {
                roofline::touch(self.memory, threads)?;
                if let Some(paged) = trial.page_in(threads)? {
                    report.paged(
                        &self.at(&format!("lazy {name}")),
                        self.memory.nonzero,
                        &paged,
                    );
                }
            }
        }
        Ok(())
    }
}
