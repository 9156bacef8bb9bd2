//! Restores the memory of a guest while the guest runs. A separate process, the pager, restores the
//! memory, so the restore continues if this zoneadmd dies. A second process, the guardian, has the
//! same image, memory and descriptors, and starts another pager when the first one is killed. If
//! the guardian dies, the pager continues. If the guardian and the pager die, the zone is ended,
//! because its guest would wait for memory without end.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::ZoneName;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, setpgid, waitid,
};
use rustix::time::Timespec;
use store::runtime::Process;
use suspend::{Image, Ledger, Loading, Paged, Pager, Region};
use sys::mapping::Mapping;
use sys::process::Child;
use sys::userfault::Userfault;

use crate::error::{MachineError, PagerError, PagingError};
use crate::rate::rate;
use host::fault::Fault;
use host::flatten;
use kernelzone::image::MEMORY;
use platform::guest::Machine;

/// The first line of a pager's report when all memory is restored.
const WHOLE: &str = "whole";

/// Maximum size in bytes of a pager's report.
const MAX_REPORT_BYTES: u64 = 16 << 10;

/// Maximum number of times that the guardian restarts the pager: without a limit, a pager that is
/// killed each time would be restarted without end.
const MAX_PAGER_RESTARTS: u32 = 10;

/// Guest memory that is partly restored.
pub(super) struct Begun {
    pub target: Mapping,
    pub ledger: Ledger,
    pub since: Instant,
}

/// The guardian and the pager of a guest.
#[derive(Debug)]
pub(super) struct Paging {
    /// The guardian, which leads the process group of the guardian and the pager.
    process: Process,
    pidfd: OwnedFd,
    /// True if this zoneadmd has started the guardian: then the kernel keeps the guardian's process
    /// number until zoneadmd waits for it.
    is_child: bool,
    /// The pipe with the pager's report; `None` if another zoneadmd started the pager.
    report: Option<File>,
}

impl Paging {
    /// Registers the memory of a waiting guest for page faults, and starts the pager that restores
    /// the memory from the image.
    ///
    /// # Errors
    /// Fails if the memory cannot be restored on page faults here; the guest is unchanged, and its
    /// memory can be restored as a whole.
    pub fn start(
        machine: &mut Machine,
        qemu: &Child,
        image: &Image,
        begun: Option<Begun>,
        (fault, zone): (Fault, &ZoneName),
    ) -> Result<Self, PagingError> {
        let device = machine.faults.take().ok_or(PagingError::NoDevice)?;
        let memory = machine.memory.as_ref().ok_or(MachineError::NoMemory)?;
        let size = usize::try_from(machine.size);
        let size = size.map_err(|_| MachineError::TooLarge { size: machine.size })?;
        let regions = regions(qemu.pid, memory.as_fd(), machine.size)?;
        let faults = descriptor(qemu, device)?;
        let (target, ledger, since) = match begun {
            Some(begun) => (begun.target, begun.ledger, begun.since),
            None => {
                let target = Mapping::new(memory.as_fd(), size);
                let stream = image.stream(MEMORY)?;
                let ledger = Ledger::in_memory(stream.chunks());
                (
                    target.map_err(MachineError::Map)?,
                    ledger.map_err(PagingError::Ledger)?,
                    Instant::now(),
                )
            }
        };
        let disarm = || {
            for region in &regions {
                // This does not change ranges that were not registered for page faults.
                let _ = faults.disarm(region.address, region.length);
            }
        };
        let raw = raw(image);
        let started = (|| {
            let pager = Pager::arm(image, MEMORY, &target, &faults, &regions, &ledger)?;
            let pipe = pipe_with(PipeFlags::CLOEXEC);
            let (report, theirs) = pipe.map_err(|errno| PagingError::Start(errno.into()))?;
            let keep = [
                image.as_fd(),
                faults.as_fd(),
                theirs.as_fd(),
                qemu.pidfd.as_fd(),
            ];
            let job = Job {
                fault,
                raw,
                since,
                report: theirs.as_fd(),
                qemu: qemu.pidfd.as_fd(),
            };
            let body = || {
                stand_out(zone);
                guard(&pager, &ledger, &keep, job)
            };
            let child = sys::process::fork(0, None, &keep, body).map_err(PagingError::Start)?;
            drop(theirs);
            if let Some(pid) = Pid::from_raw(child.pid) {
                // The guardian gets its own process group here, so that one signal ends the
                // guardian and the pager even before the guardian has made the group itself.
                let _ = setpgid(Some(pid), Some(pid));
            }
            let process = Process::find(child.pid).ok_or(PagingError::Ended(PagerError::Died))?;
            Ok(Self {
                process,
                pidfd: child.pidfd,
                is_child: true,
                report: Some(File::from(report)),
            })
        })();
        if started.is_err() {
            disarm();
        }
        started
    }

    /// Takes over the guardian and the pager that another zoneadmd started. Returns `None` if all
    /// memory is restored.
    ///
    /// # Errors
    /// Fails if memory is missing and no process restores it: then the guest must be ended.
    pub fn adopt(known: Option<Process>, qemu: i32) -> Result<Option<Self>, PagingError> {
        let alive = known.filter(|known| known.is_alive()).and_then(|process| {
            let pid = Pid::from_raw(process.pid)?;
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            // The process number may have been reused in the meantime.
            process.is_alive().then_some(Self {
                process,
                pidfd,
                is_child: false,
                report: None,
            })
        });
        match alive {
            None if is_armed(qemu) => Err(PagingError::Missing(PagerError::Died)),
            alive => Ok(alive),
        }
    }

    /// Returns the process number and start time, with which another process finds the guardian
    /// again.
    pub const fn process(&self) -> Process {
        self.process
    }

    /// Returns true if the guardian ends within the time `patience`.
    pub fn ends_within(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok();
            let mut watched = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut watched, left.as_ref()) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(_) if Instant::now() >= end => return false,
                Err(_) => {}
            }
        }
    }

    /// Waits up to 5 s for the end of the guardian, which follows the end of the guest.
    pub fn ends_soon(&self) -> bool {
        self.ends_within(Duration::from_secs(5))
    }

    /// Returns the result of the pager after its end.
    ///
    /// # Errors
    /// Fails with the reason if memory is missing and the guest must be ended. Fails with
    /// [`PagerError::MachineEnded`] if the guest has already ended.
    pub fn end(mut self, qemu: i32) -> Result<Whole, PagerError> {
        let Some(report) = self.report.take() else {
            return match is_armed(qemu) {
                true => Err(PagerError::Died),
                false => Ok(Whole {
                    line: "resume: all memory is there".to_owned(),
                    asked: Vec::new(),
                }),
            };
        };
        let mut text = String::new();
        let read = report.take(MAX_REPORT_BYTES).read_to_string(&mut text);
        match text.split_once('\n') {
            _ if read.is_err() => Err(PagerError::Died),
            Some((WHOLE, rest)) => {
                let (line, asked) = rest.split_once('\n').unwrap_or((rest, ""));
                let asked = asked.split_whitespace();
                Ok(Whole {
                    line: line.to_owned(),
                    asked: asked.filter_map(|number| number.parse().ok()).collect(),
                })
            }
            Some(("", _)) => Err(PagerError::MachineEnded),
            Some((why, _)) => Err(PagerError::Reported {
                text: why.to_owned(),
            }),
            None => Err(PagerError::Died),
        }
    }
}

impl AsFd for Paging {
    /// Returns the descriptor that is readable when the pager has ended: the report that the pager
    /// or the guardian writes, or the process descriptor of a guardian that another zoneadmd
    /// started.
    fn as_fd(&self) -> BorrowedFd<'_> {
        let report = self.report.as_ref().map(AsFd::as_fd);
        report.unwrap_or(self.pidfd.as_fd())
    }
}

impl Drop for Paging {
    fn drop(&mut self) {
        // The guardian and the pager have ended, or the guest has ended or will end.
        let is_known = self.is_child || self.process.is_alive();
        if let Some(pid) = Pid::from_raw(self.process.pid).filter(|_| is_known) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = sys::process::send_signal(self.pidfd.as_fd(), Signal::KILL.as_raw());
        let _ = self.ends_within(Duration::from_secs(10));
        let pidfd = WaitId::PidFd(self.pidfd.as_fd());
        let _ = waitid(pidfd, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// The result of a pager that has restored all memory.
pub(super) struct Whole {
    /// A line for the log.
    pub line: String,
    /// The numbers of the memory chunks that the guest asked for, in this order.
    pub asked: Vec<u64>,
}

/// Returns a callback that stops the restore if a test requests this.
pub(super) fn watch(fault: Fault) -> impl Fn(suspend::Progress) -> ControlFlow<()> + Sync {
    let fault = Mutex::new(fault);
    move |_| {
        let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
        match fault.strikes("pager") {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The descriptors and figures that the guardian and the pager use.
struct Job<'a> {
    fault: Fault,
    /// Bytes of memory that the image holds.
    raw: u64,
    /// The time at which the restore began.
    since: Instant,
    report: BorrowedFd<'a>,
    qemu: BorrowedFd<'a>,
}

/// The name of the guardian and the pager in lists of processes; without it they would look like a
/// second zoneadmd.
const NAME: &std::ffi::CStr = c"zonepager";

/// Value of oom_score_adj that makes the kernel kill any other process first when memory is short:
/// without the pager the guest would be lost.
const OOM_SCORE: &str = "-1000";

/// Gives this process its own name, and makes it the last one that the kernel kills when memory is
/// short.
fn stand_out(zone: &ZoneName) {
    // Errors are ignored, because the guest can run without these settings.
    let _ = rustix::thread::set_name(NAME);
    if let Ok(text) = CString::new(format!("{}: memory of {zone}", NAME.to_string_lossy())) {
        let _ = sys::process::show_as(text);
    }
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

/// Runs the guardian: starts the pager, and restarts a pager that was killed.
fn guard(pager: &Pager<'_>, ledger: &Ledger, keep: &[BorrowedFd<'_>], mut job: Job<'_>) -> u8 {
    let _ = setpgid(None, None);
    for _ in 0..=MAX_PAGER_RESTARTS {
        let fault = std::mem::take(&mut job.fault);
        let started = sys::process::fork(0, None, keep, || work(pager, &job, fault));
        let Ok(worker) = started else { break };
        let ended = loop {
            match waitid(WaitId::PidFd(worker.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Err(Errno::INTR) => {}
                other => break other.ok().flatten(),
            }
        };
        if let Some(status) = ended.and_then(|status| status.exit_status()) {
            return u8::try_from(status).unwrap_or(1);
        }
        // The killed pager may have been reading chunks; these chunks are read again.
        ledger.forget_taken();
    }
    let _ = sys::process::send_signal(job.qemu, Signal::KILL.as_raw());
    say(&job, &format!("{}\n", PagerError::Died));
    1
}

/// Runs the pager, which restores memory.
fn work(pager: &Pager<'_>, job: &Job<'_>, fault: Fault) -> u8 {
    let qemu = job.qemu;
    let watch = watch(fault);
    let loading = Loading {
        watch: &watch,
        ..Loading::default()
    };
    let (text, status) = match pager.run(&loading) {
        Ok(paged) => {
            let asked: Vec<String> = paged.asked.iter().map(u64::to_string).collect();
            let line = told(job.raw, job.since.elapsed(), &paged);
            (format!("{WHOLE}\n{line}\n{}\n", asked.join(" ")), 0)
        }
        Err(error) => {
            // QEMU's memory is released some time before the process ends, and then the error is
            // ESRCH.
            let lost = |error: &std::io::Error| {
                error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
            };
            let gone = matches!(&error, suspend::Error::Faults { source, .. } if lost(source))
                || has_ended(qemu);
            // QEMU is killed before the pager reports: without the pager it could only wait without
            // end.
            let _ = sys::process::send_signal(qemu, Signal::KILL.as_raw());
            match gone {
                true => ("\n".to_owned(), 0),
                false => (format!("{}\n", flatten(&error).replace('\n', " ")), 1),
            }
        }
    };
    say(job, &text);
    status
}

/// Writes the report for zoneadmd. The text is lost if zoneadmd has died.
fn say(job: &Job<'_>, text: &str) {
    if let Ok(report) = job.report.try_clone_to_owned() {
        let _ = File::from(report).write_all(text.as_bytes());
    }
}

fn told(raw: u64, took: Duration, paged: &Paged) -> String {
    format!(
        "resume: raw {}, while the zone ran; {} pieces before, {} page faults, {} pieces on demand, the longest in {:.1} ms",
        rate(raw, took),
        paged.ahead,
        paged.faults,
        paged.on_demand,
        paged.longest.as_secs_f64() * 1e3
    )
}

/// Returns the bytes of memory that an image holds.
fn raw(image: &Image) -> u64 {
    let entries = image.index().entries.iter();
    entries
        .map(|entry| u64::from(entry.pages.count_ones()) * suspend::format::PAGE as u64)
        .sum()
}

fn has_ended(process: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut watched, Some(&now)), Ok(1..))
}

/// Returns a descriptor that reports page faults of QEMU. QEMU has not run any code of the guest
/// before this.
#[cfg(target_arch = "x86_64")]
fn descriptor(qemu: &Child, device: i32) -> Result<Userfault, PagingError> {
    let stop = sys::remote::Stopped::new(qemu.pid);
    let mut stopped = stop.map_err(PagingError::Stop)?;
    let (faults, _) =
        Userfault::of(&mut stopped, qemu.pidfd.as_fd(), device).map_err(PagingError::Descriptor)?;
    drop(stopped);
    faults.agree().map_err(PagingError::SharedMemory)?;
    Ok(faults)
}

#[cfg(not(target_arch = "x86_64"))]
fn descriptor(_: &Child, _: i32) -> Result<Userfault, PagingError> {
    Err(PagingError::Processor)
}

/// Returns the memory regions of a process that map a file. Fails if the regions do not cover the
/// whole file.
fn regions(pid: i32, file: BorrowedFd<'_>, size: u64) -> Result<Vec<Region>, PagingError> {
    let file = file.try_clone_to_owned().map(File::from);
    let meta = file.and_then(|file| file.metadata());
    let meta = meta.map_err(PagingError::ReadMappings)?;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
    let maps = maps.map_err(PagingError::ReadMappings)?;
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let device = format!("{major:02x}:{minor:02x}");
    let regions: Vec<Region> = maps
        .lines()
        .filter_map(|line| region(line, &device, meta.ino()))
        .collect();
    match regions.iter().map(|region| region.length).sum::<u64>() == size {
        true => Ok(regions),
        false => Err(PagingError::Mappings),
    }
}

/// Returns the region in a line of /proc/PID/maps, or `None` if the line is about another file.
fn region(line: &str, device: &str, inode: u64) -> Option<Region> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let ours = words.next()? == device && words.next()?.parse() == Ok(inode);
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (address, end) = (number(start)?, number(end)?);
    ours.then_some(Region {
        address,
        offset: number(offset)?,
        length: end.checked_sub(address)?,
    })
}

/// Returns true if a process has memory that is registered for page faults with a userfaultfd.
fn is_armed(pid: i32) -> bool {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let mut flags = smaps
        .lines()
        .filter_map(|line| line.strip_prefix("VmFlags:"));
    flags.any(|flags| {
        flags
            .split_whitespace()
            .any(|flag| matches!(flag, "um" | "ui"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pager_is_told_from_zoneadmd_and_killed_last() {
        let before = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        stand_out(&"web".parse().unwrap());
        assert_eq!(rustix::thread::name().unwrap().as_c_str(), NAME);
        let after = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        let shown = std::fs::read("/proc/self/cmdline").unwrap();
        if let Err(error) = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE) {
            println!("skipped: a_pager_is_told_from_zoneadmd_and_killed_last: {error}");
            return;
        }
        assert_eq!(after.trim(), OOM_SCORE);
        assert_eq!(shown, b"zonepager: memory of web\0");
        std::fs::write("/proc/self/oom_score_adj", before).unwrap();
    }

    #[test]
    fn a_mapping_is_found_by_its_file() {
        let line = "7f0000000000-7f0008000000 rw-s 00001000 00:2f 12    /memory (deleted)";
        let found = region(line, "00:2f", 12).unwrap();
        assert_eq!(
            (found.address, found.offset, found.length),
            (0x7f00_0000_0000, 0x1000, 0x800_0000)
        );
        assert_eq!(region(line, "00:2e", 12), None);
        assert_eq!(region(line, "00:2f", 13), None);
        assert_eq!(region("", "00:2f", 12), None);
    }

    #[test]
    fn armed_ranges_are_found_in_a_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(!is_armed(pid));
        assert!(Paging::adopt(None, pid).unwrap().is_none());
        let file = rustix::fs::memfd_create("m", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 8192).unwrap();
        let mapping = Mapping::new(file.as_fd(), 8192).unwrap();
        let found = regions(pid, file.as_fd(), 8192).unwrap();
        assert_eq!(found[0].address, mapping.address());
        assert!(regions(pid, file.as_fd(), 4096).is_err());
        let Ok(faults) = Userfault::new(sys::userfault::Whose::Programs) else {
            println!("skipped: no userfaultfd here");
            return;
        };
        faults.agree().unwrap();
        faults.arm(mapping.address(), 8192).unwrap();
        assert!(is_armed(pid));
        assert!(Paging::adopt(None, pid).is_err());
        faults.disarm(mapping.address(), 8192).unwrap();
        assert!(!is_armed(pid));
    }
}
