//! Saves the memory of a guest to an image, and resumes a guest from its image.

use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::ZoneName;
use model::plan::{BootPlan, Resume};
use rustix::fs::SealFlags;
use store::Root;
use store::runtime::Process;
use suspend::{Image, Loading, Options, Restored, Saved, Stream};
use sys::mapping::Mapping;
use vm::agent::{Agent, Printed};
use vm::migrate::{self, Activity};
use vm::qmp::Monitor;

use crate::ahead::Ahead;
use crate::error::{
    AWAY, AdoptError, ClockError, MachineError, PagerError, ResumeError, ScratchError, StateError,
    SuspendError,
};
use crate::memory_file::scratch;
use crate::pager::Paging;
use crate::processors::bound;
use crate::rate::rate;
use control::log;
use control::protocol::Suspend;
use host::Host;
use host::flatten;
use host::progress::Teller;
use host::unix_socket::{self, Kind};
use kernelzone::image::{self, DEVICES, HOT, MEMORY};
use kernelzone::record::Record;
use platform::Platform;
use platform::guest::Machine;

/// Maximum size in bytes of the state of a guest's devices, which is usually some hundred thousand
/// bytes. An image that a resume could not read must not be written.
const MAX_DEVICE_STATE_BYTES: u64 = 256 << 20;

/// Checks the file of the memory and the file of the device state after QEMU was told to stop. A
/// QEMU that a guest has taken over can still write to these files. The seals fix the device state
/// and the length of the memory; otherwise saving could continue without end.
fn settled(memory: &File, size: u64, devices: &File) -> Result<(), SuspendError> {
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(devices, seals)
        .map_err(|errno| SuspendError::Unsealed(errno.into()))?;
    let length = |file: &File| file.metadata().map(|meta| meta.len());
    let (memory, devices) = (length(memory), length(devices));
    let memory = memory.map_err(SuspendError::Look)?;
    let devices = devices.map_err(SuspendError::Look)?;
    if memory != size {
        return Err(SuspendError::MemoryLength {
            found: memory,
            expected: size,
        });
    }
    if devices > MAX_DEVICE_STATE_BYTES {
        return Err(SuspendError::DevicesLength { found: devices });
    }
    Ok(())
}

/// The reason why a suspend made no image.
pub(super) struct Unsaved {
    pub why: SuspendError,
    /// True if a file at the path of the image can only be from this attempt.
    pub begun: bool,
}

impl<T: Into<SuspendError>> From<T> for Unsaved {
    fn from(why: T) -> Self {
        Self {
            why: why.into(),
            begun: false,
        }
    }
}

/// Stops a guest and writes its memory and the state of its devices to an image.
pub(super) fn save(
    machine: &mut Machine,
    pid: i32,
    order: &Suspend,
    end: Instant,
    hot: &[u64],
    teller: &Teller,
) -> Result<Saved, Unsaved> {
    let record = Record::load(&order.zonepath)?;
    let key = image::read_key(&order.key)?;
    let memory = machine.memory.as_ref().map(OwnedFd::try_clone);
    let memory = memory.ok_or(MachineError::NoMemory)?;
    let memory = File::from(memory.map_err(SuspendError::Descriptor)?);
    let monitor = connection(&mut machine.monitor)?;
    let qemu = monitor.version().to_owned();
    let devices = scratch()?;
    monitor.hurry(Some(end));
    let written = migrate::save(monitor, devices.as_fd());
    // The time limit is lifted, because a resume of the guest after an error must not be cut short.
    monitor.hurry(None);
    written.map_err(MachineError::from)?;
    settled(&memory, machine.size, &devices)?;
    // QEMU has stopped, so the disks no longer change.
    let words = image::words_of(pid)?;
    let identity = image::identity(
        &qemu,
        words.iter().map(String::as_str),
        &order.disks,
        &order.zonepath,
        record.boots,
    )?;
    let watch = |now: suspend::Progress| {
        teller.tell(now.done, now.total);
        match Instant::now() < end {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let numbers = hot.iter().filter_map(|chunk| u32::try_from(*chunk).ok());
    let numbers: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
    let mut first = scratch()?;
    first.write_all(&numbers).map_err(ScratchError::Write)?;
    let request = suspend::Request {
        path: &order.image,
        key: &key,
        identity: &identity,
        streams: &[
            Stream {
                name: DEVICES,
                source: &devices,
            },
            Stream {
                name: MEMORY,
                source: &memory,
            },
            Stream {
                name: HOT,
                source: &first,
            },
        ],
        options: Options {
            first: Some((MEMORY, hot)),
            watch: &watch,
            ..Options::default()
        },
    };
    suspend::save(&request).map_err(|error| Unsaved {
        // In these two cases another process writes to the path, or a file already exists there, so
        // the file is not from this attempt.
        begun: !matches!(
            error,
            suspend::Error::Busy { .. } | suspend::Error::Occupied { .. }
        ),
        why: error.into(),
    })
}

/// Removes the image and lets a stopped guest run. A guest that has run on must never return to an
/// older state.
pub(super) fn go_on(machine: &mut Machine, image: Option<&PathBuf>) -> Result<(), SuspendError> {
    if let Some(image) = image {
        image::remove(image)?;
    }
    let monitor = connection(&mut machine.monitor)?;
    Ok(migrate::go_on(monitor).map_err(MachineError::from)?)
}

/// Returns the connection to QEMU.
fn connection(of: &mut Option<Monitor>) -> Result<&mut Monitor, MachineError> {
    of.as_mut().ok_or(MachineError::Unresponsive)
}

/// Decides how a new zoneadmd handles a guest whose former zoneadmd died during a suspend, a resume
/// or a migration. A guest that is paused in the state of its image is resumed, and the image is
/// removed. A guest that is `away`, and may run on another host, stays paused. Returns the text to
/// log.
///
/// # Errors
/// Fails if the guest must be ended, because its memory was not restored (then the image stays), or
/// because the guest cannot be resumed.
pub(super) fn after_death(
    machine: &mut Machine,
    image: Option<&Path>,
    away: bool,
) -> Result<Option<&'static str>, AdoptError> {
    let monitor = connection(&mut machine.monitor)?;
    match migrate::activity(monitor)? {
        Activity::Runs => {
            machine.full = vm::full::stands(monitor)?;
            let _ = vm::live::forget_mirrors(monitor);
            Ok(None)
        }
        Activity::Waits => Err(AdoptError::HalfResumed),
        Activity::Stopped if away => Ok(Some(AWAY)),
        Activity::Stopped => {
            if let Some(image) = image {
                image::remove(image)?;
            }
            vm::live::undo(monitor)?;
            Ok(Some("was stopped to be suspended or moved, and runs on"))
        }
    }
}

/// The result of a resume.
#[derive(Default)]
pub(super) struct Resumed {
    /// Lines for the log.
    pub lines: Vec<String>,
    /// The pager that restores the rest of the memory.
    pub paging: Option<Paging>,
    /// The numbers of the memory chunks that came first in the image.
    pub hot: Vec<u64>,
}

/// The inputs of a resume.
pub(super) struct Resuming<'a> {
    pub host: &'a Host,
    pub zone: &'a ZoneName,
    pub plan: &'a BootPlan,
    pub from: &'a Resume,
}

/// Resumes a waiting guest from its image, and then removes the image. `remember` stores the
/// pager's process number before the pager is needed. It stores that the guest runs before the
/// image is removed, so that no later step can fail. `goes_on` is called just before the guest
/// runs.
// This function is long because the order of its steps matters: the image stays valid until all
// steps that can fail have succeeded.
pub(super) fn resume(
    job: &Resuming<'_>,
    platform: &mut Platform,
    mut ahead: Ahead,
    mut remember: impl FnMut(Option<Process>) -> Result<(), StateError>,
    goes_on: impl FnOnce(),
) -> Result<Resumed, ResumeError> {
    let began = Instant::now();
    let Resuming {
        host,
        zone,
        plan,
        from,
    } = *job;
    // The early restore ends before QEMU or the pager uses the memory.
    let begun = ahead.end();
    // The pager may continue after this function, and must not keep the zone's namespaces or mounts
    // busy.
    platform.go_home().map_err(ResumeError::Home)?;
    let qemu = &platform.init;
    // This function, and the pager after it, run on the processors of the zone.
    let _bound = bound(host, qemu.pid, &platform.cgroups);
    let machine = platform.machine.as_mut();
    let machine = machine.ok_or(MachineError::NotAMachine)?;
    let monitor = connection(&mut machine.monitor)?;
    let words = plan.init.arguments.iter().map(String::as_str);
    let record = Record::load(&from.zonepath)?;
    let (disks, zonepath) = (&from.disks, &from.zonepath);
    let now = image::identity(monitor.version(), words, disks, zonepath, record.boots)?;
    image::fits(&ahead.image, &now)?;
    let devices = ahead.devices()?;
    let image = &ahead.image;
    let mut lines = Vec::new();
    let mut paging = None;
    if from.lazy {
        match Paging::start(machine, qemu, image, begun, (host.fault.clone(), zone)) {
            Ok(started) => {
                remember(Some(started.process()))?;
                paging = Some(started);
            }
            Err(why) => lines.push(format!(
                "WARNING: all memory is restored before the zone runs: {}",
                flatten(&why)
            )),
        }
    }
    if paging.is_none() {
        let teller = Teller::new(&host.root, zone);
        lines.push(restored_line(&restore_all(machine, image, &teller)?));
    }
    let monitor = connection(&mut machine.monitor)?;
    if let Err(error) = migrate::load(monitor, devices.as_fd()) {
        // Loading the devices also reads memory, so a failed pager may be the cause of the error.
        if let Some(pager) = paging.take_if(|pager| pager.ends_within(Duration::ZERO)) {
            match pager.end(qemu.pid) {
                // QEMU has ended, and its own message has the reason.
                Ok(_) | Err(PagerError::MachineEnded) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let text = machine.complaint();
        return Err(match text.is_empty() {
            true => MachineError::from(error).into(),
            false => ResumeError::Complaint { text },
        });
    }
    remember(None)?;
    // From here on the image is out of date, because the guest writes to its disks.
    image.consume()?;
    if image::are_unseen(disks) {
        // The count of boots is raised, so that a copy of the image no longer fits these disks. An
        // error does not end the guest: its memory would be lost, and no other valid copy of the
        // memory exists.
        if let Err(error) = Record::count_boot(zonepath) {
            lines.push(format!(
                "WARNING: that it goes on was not written down, so that a copy of its image would be taken for one that fits its disks: {}",
                flatten(&error)
            ));
        }
    }
    goes_on();
    migrate::go_on(monitor).map_err(ResumeError::NotRun)?;
    lines.push(format!(
        "resumed from {}, and runs after {:.3} s",
        from.image.display(),
        began.elapsed().as_secs_f64()
    ));
    let hot = std::mem::take(&mut ahead.hot);
    // The image file is already deleted, but its space is freed only when it is closed, which takes
    // some time. Another thread closes it, so that zoneadmd can serve the guest. If no thread can
    // be started, the file is closed here.
    let _ = std::thread::Builder::new().spawn(move || drop(ahead));
    Ok(Resumed { lines, paging, hot })
}

/// Restores all memory of a guest that does not run yet.
fn restore_all(machine: &Machine, image: &Image, teller: &Teller) -> Result<Restored, ResumeError> {
    let memory = machine.memory.as_ref().ok_or(MachineError::NoMemory)?;
    let size = usize::try_from(machine.size);
    let size = size.map_err(|_| MachineError::TooLarge { size: machine.size })?;
    let target = Mapping::new(memory.as_fd(), size).map_err(MachineError::Map)?;
    let watch = |now: suspend::Progress| {
        teller.tell(now.done, now.total);
        ControlFlow::Continue(())
    };
    let loading = Loading {
        watch: &watch,
        ..Loading::default()
    };
    Ok(suspend::restore(image, MEMORY, &target, &loading)?)
}

/// Returns four messages: the rate of memory without zeros and the rate of the compressed image,
/// each with and without the time for fsync.
pub(super) fn told(saved: &Saved) -> [String; 4] {
    [
        format!("suspend: raw {}", rate(saved.raw, saved.total)),
        format!("suspend: compressed {}", rate(saved.stored, saved.total)),
        format!(
            "suspend without fsync: raw {}",
            rate(saved.raw, saved.written)
        ),
        format!(
            "suspend without fsync: compressed {}",
            rate(saved.stored, saved.written)
        ),
    ]
}

fn restored_line(restored: &Restored) -> String {
    format!(
        "resume: raw {}, of {:.1} MB compressed",
        rate(restored.raw, restored.took),
        {
            #[allow(clippy::cast_precision_loss, reason = "a size for people")]
            let megabytes = restored.stored as f64 / 1e6;
            megabytes
        }
    )
}

/// Timeout for the agent in the guest to set the clock.
const CLOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes the agent in the guest set the guest's clock, which did not advance during the suspend. A
/// separate thread does this, as a guest may answer slowly. The result is logged.
pub(super) fn correct_clock(root: &Root, zone: &ZoneName, agent: &Path) {
    let (root, zone, agent) = (root.clone(), zone.clone(), agent.to_owned());
    let set = move || {
        let text = match set_clock(&agent) {
            Ok(()) => "the clock of the zone was set".to_owned(),
            Err(why) => format!(
                "WARNING: the clock of the zone was not set, and is late by as long as it was suspended: {}",
                flatten(&why)
            ),
        };
        log::message(&root, &zone, &text);
    };
    // An error is ignored: without another thread the clock is not set.
    let _ = std::thread::Builder::new().spawn(set);
}

fn set_clock(agent: &Path) -> Result<(), ClockError> {
    let socket = unix_socket::connect_to(agent, Kind::Stream).map_err(ClockError::Connect)?;
    let mut agent = Agent::begin(socket, CLOCK_TIMEOUT)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    // `date` on small systems accepts whole seconds only. In this case the script does not set a
    // clock that has already reached the current second.
    let whole = now.as_secs();
    let script = format!(
        "date -s @{:.3} || [ \"$(date +%s)\" -ge {whole} ] || date -s @{whole}",
        now.as_secs_f64(),
    );
    let number = agent.start("/bin/sh", &["-c", &script], None, CLOCK_TIMEOUT)?;
    let end = Instant::now() + CLOCK_TIMEOUT;
    while Instant::now() < end {
        match agent.ended(number, Printed::Little, CLOCK_TIMEOUT)? {
            Some(ended) if ended.status == 0 => return Ok(()),
            Some(ended) => {
                return Err(ClockError::Status {
                    status: ended.status,
                });
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    Err(ClockError::Late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qemu_that_does_not_leave_things_in_order_is_not_saved() {
        let sized = |length| {
            let file = scratch().unwrap();
            file.set_len(length).unwrap();
            file
        };
        let memory = sized(1 << 20);
        let devices = sized(4096);
        settled(&memory, 1 << 20, &devices).unwrap();
        // From here on the sealed file cannot change.
        assert!(devices.set_len(0).is_err() && devices.set_len(1 << 40).is_err());
        assert!((&devices).write_all(b"x").is_err());
        for length in [0, (1 << 20) - 1, 1 << 50] {
            assert!(settled(&sized(length), 1 << 20, &sized(0)).is_err());
        }
        assert!(settled(&memory, 1 << 20, &sized(MAX_DEVICE_STATE_BYTES + 1)).is_err());
        let devices = sized(4096);
        let held = Mapping::new(devices.as_fd(), 4096).unwrap();
        assert!(settled(&memory, 1 << 20, &devices).is_err());
        drop(held);
    }
}
