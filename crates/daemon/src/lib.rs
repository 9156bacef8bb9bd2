//! zoneadmd: one small process per active zone.
//!
//! zoneadmd builds the virtual platform, is the parent of the zone's init, holds the console,
//! answers on a socket, and takes the platform down. If zoneadmd dies, the zone runs on, and a new
//! zoneadmd adopts it (see [`adopt()`]).

mod adopt;
mod again;
mod ahead;
mod beadm;
mod connection;
mod console;
pub mod error;
mod frozen;
mod guest;
mod incoming_guest;
pub(crate) mod job;
mod memory_file;
mod merge;
mod outgoing_guest;
mod pager;
mod parts;
mod processors;
mod rate;
mod rctl;
mod server;
mod snapshot;
mod stall;
mod suspend;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use model::controls::Controls;
use model::plan::{BootPlan, InsideStep, PlatformStep, Resume};
use model::{State, ZoneName};
use store::lock;
use store::runtime::{Process, RESUMING, Runtime};

use ahead::Ahead;
use error::{InjectedFault, PlanError, ResumeError, StateError};
use host::Host;
use host::fault::Fault;
use host::flatten;
use platform::Platform;
use subject::network::Records;
use suspend::Resumed;

pub use crate::incoming_guest::Doors;
pub use error::{Error, JobError};
pub use job::job;

/// The descriptors that zoneadm passes to a new zoneadmd.
#[derive(Debug)]
pub struct Passed {
    /// The pipe or file with the boot plan, for a boot.
    pub plan: OwnedFd,
    /// The pipe to which zoneadmd writes the result.
    pub report: OwnedFd,
    /// The zone's lock, for a boot.
    pub lock: OwnedFd,
    /// The sockets of a guest that migrates from another host.
    pub doors: Option<Doors>,
}

/// Number of the descriptor from which zoneadmd reads its plan.
pub const PLAN_FD: i32 = 3;
/// Number of the descriptor to which zoneadmd reports the result of the boot: "ok" and one line for
/// each remark, or an error.
pub const REPORT_FD: i32 = 4;
/// Number of the descriptor that holds the zone's lock until zoneadmd has reported.
pub const LOCK_FD: i32 = 5;
/// Number of the descriptor to which a job's output is written.
pub const LOG_FD: i32 = 6;
/// Numbers of the descriptors for a guest that migrates from another host: the socket to `zoneadm
/// receive`, the stream of the guest's memory, and the socket that receives the writes to its
/// disks.
pub const DOOR_FDS: [i32; 3] = [6, 7, 8];
/// Maximum size in bytes of a plan.
const MAX_PLAN: u64 = 4 << 20;

/// Builds the zone's platform from the plan in `passed`, reports the result, and serves the zone to
/// its end.
///
/// # Errors
/// Fails with [`Error`]; the reader of `report` gets the same text.
pub fn boot(host: &Host, zone: &ZoneName, passed: Passed) -> Result<(), Error> {
    let mut report = File::from(passed.report);
    let built = build(host, zone, passed.plan, passed.doors);
    // The lock is released only after the state is stored, and before zoneadmd reports.
    drop(passed.lock);
    match built {
        Ok(mut server) => {
            // The command that boots the zone may have ended; the zone runs anyway.
            let _ = report.write_all(server.report().as_bytes());
            drop(report);
            server.settle();
            server.serve()
        }
        Err(error) => {
            let _ = report.write_all(flatten(&error).as_bytes());
            Err(error)
        }
    }
}

/// Takes over a running zone whose zoneadmd died, and serves it to its end.
///
/// # Errors
/// Fails as [`boot`] does.
pub fn adopt(host: &Host, zone: &ZoneName, passed: Passed) -> Result<(), Error> {
    let mut report = File::from(passed.report);
    match adopt::take_over(host, zone) {
        Ok(server) => {
            let _ = report.write_all(b"ok");
            drop(report);
            server.serve()
        }
        Err(error) => {
            let _ = report.write_all(flatten(&error).as_bytes());
            Err(error)
        }
    }
}

fn build<'a>(
    host: &'a Host,
    zone: &'a ZoneName,
    plan: OwnedFd,
    doors: Option<Doors>,
) -> Result<server::Server<'a>, Error> {
    let plan = read_plan(plan)?;
    let zinit = host.program("zinit").ok_or(Error::NoZinit)?;
    // The root may still be mounted by the zoneadmd of the last boot.
    let root_lock = lock::exclusive(&host.root.root_lock(zone))?;
    let listener = server::listen(&host.root, zone)?;
    let mut console = console::Console::open(&host.root, zone)?;
    if !plan.ready_only && plan.resume.is_none() && plan.arriving.is_none() {
        console.booting(&plan.words);
    }
    let mut fault: Fault = host.fault.clone();
    let boot = Boot {
        host,
        zone,
        plan: &plan,
    };
    let built = start(boot, &zinit, &mut fault, &mut console, doors);
    let (platform, runtime, resumed) = match built {
        Ok(built) => built,
        Err(error) => {
            let _ = store::runtime::forget(&host.root, zone);
            return Err(error);
        }
    };
    let mut server =
        server::Server::new(host, zone, root_lock, listener, console, platform, runtime);
    server.reboots = plan.reboots;
    server.has_zinit = plan.init.path.is_none();
    server.paging = resumed.paging;
    server.hot = resumed.hot;
    if plan.ready_only && server.platform.machine.is_some() {
        server.made = Some(plan.init.clone());
    }
    if plan.resume.is_some() || plan.arriving.is_some() {
        let [.., agent] = kernelzone::facts::sockets(host, zone);
        server.resumed = Some(agent);
    }
    Ok(server)
}

fn read_plan(plan: OwnedFd) -> Result<BootPlan, PlanError> {
    // Most plans fit into this buffer, and need a single read.
    let mut text = Vec::with_capacity(32 << 10);
    let read = File::from(plan).take(MAX_PLAN).read_to_end(&mut text);
    read.map_err(PlanError::Read)?;
    serde_json::from_slice(&text).map_err(PlanError::Parse)
}

/// The inputs of a boot that zoneadmd carries out.
#[derive(Clone, Copy)]
struct Boot<'a> {
    host: &'a Host,
    zone: &'a ZoneName,
    plan: &'a BootPlan,
}

/// Builds the platform and starts init. If init cannot be started, the platform is taken down.
fn start(
    boot: Boot<'_>,
    zinit: &Path,
    fault: &mut Fault,
    console: &mut console::Console,
    doors: Option<Doors>,
) -> Result<(Platform, Runtime, Resumed), Error> {
    // An unusable image is refused before any part of the platform is made.
    let ahead = boot.plan.resume.as_ref().map(Ahead::open).transpose()?;
    let mut platform = Platform::build(boot.plan, zinit, fault)?;
    match boot.start_built(&mut platform, ahead, fault, console, doors) {
        Ok((runtime, resumed)) => Ok((platform, runtime, resumed)),
        Err(error) => Err(error.with(boot.take_down(platform))),
    }
}

impl Boot<'_> {
    /// Records a zone whose platform is built, and starts its init unless the plan ends in state
    /// ready.
    fn start_built(
        self,
        platform: &mut Platform,
        ahead: Option<Ahead>,
        fault: &mut Fault,
        console: &mut console::Console,
        doors: Option<Doors>,
    ) -> Result<(Runtime, Resumed), Error> {
        let mut runtime = runtime(self.plan, platform)?;
        let mut resumed = Resumed::default();
        let mounts = platform.mounts(&self.plan.remembered)?;
        store::runtime::save_mounts(&self.host.root, self.zone, &mounts)?;
        // The state is stored before any process starts that outlives zoneadmd: without this record
        // no command would know the zone.
        self.save(&runtime)?;
        strike(fault, "boot")?;
        if !self.plan.ready_only {
            let ahead = self.start_init(platform, ahead)?;
            if let (Some(ahead), Some(from)) = (ahead, &self.plan.resume) {
                resumed = self.resume(platform, ahead, from, &mut runtime, fault, console)?;
            }
            if let Some(doors) = doors {
                self.receive_machine(platform, doors, &mut runtime, console)?;
            }
            runtime.state = State::Running;
        }
        if self.plan.resume.is_some() {
            // `resume` has already stored the state, and the guest no longer has an image, so no
            // step may fail here.
            return Ok((runtime, resumed));
        }
        strike(fault, "boot")?;
        self.save(&runtime)?;
        Ok((runtime, resumed))
    }

    /// Starts init, and reads the state of the devices from the image during the start. Returns the
    /// image, if there is one.
    fn start_init(
        self,
        platform: &mut Platform,
        mut ahead: Option<Ahead>,
    ) -> Result<Option<Ahead>, Error> {
        if let (Some(ahead), Some(from)) = (&mut ahead, &self.plan.resume)
            && from.lazy
        {
            ahead.begin(self.host, platform);
        }
        let meanwhile = || ahead.iter_mut().for_each(Ahead::read_devices);
        platform.start_and(&self.plan.init, meanwhile)?;
        Ok(ahead)
    }

    /// Resumes a waiting guest from its image.
    fn resume(
        self,
        platform: &mut Platform,
        ahead: Ahead,
        from: &Resume,
        runtime: &mut Runtime,
        fault: &mut Fault,
        console: &mut console::Console,
    ) -> Result<Resumed, ResumeError> {
        let remember = |pager: Option<Process>| -> Result<(), StateError> {
            match pager {
                Some(pager) => runtime.pager = Some(pager),
                None => {
                    strike(fault, "resume")?;
                    runtime.state = State::Running;
                    runtime.auxiliary.clear();
                }
            }
            Ok(self.save(runtime)?)
        };
        let goes_on = || console.notice("Zone resuming");
        let job = suspend::Resuming {
            host: self.host,
            zone: self.zone,
            plan: self.plan,
            from,
        };
        let mut resumed = suspend::resume(&job, platform, ahead, remember, goes_on)?;
        for line in resumed.lines.drain(..) {
            control::log::message(&self.host.root, self.zone, &line);
        }
        Ok(resumed)
    }

    /// Receives a running guest from another host.
    fn receive_machine(
        self,
        platform: &mut Platform,
        doors: Doors,
        runtime: &mut Runtime,
        console: &mut console::Console,
    ) -> Result<(), Error> {
        runtime.auxiliary = "migrating-in".to_owned();
        self.save(runtime)?;
        incoming_guest::arrive(&self.host.root, self.zone, platform, self.plan, doors)
            .map_err(Error::Arrive)?;
        console.notice("Zone came from another host");
        runtime.auxiliary.clear();
        Ok(())
    }

    fn save(self, runtime: &Runtime) -> Result<(), store::Error> {
        store::runtime::save(&self.host.root, self.zone, runtime)
    }

    /// Takes a platform down. Returns all errors.
    fn take_down(self, mut platform: Platform) -> Vec<Error> {
        let down = platform.take_down().err().map(Error::from);
        // zoneadmd is still in the namespaces of the platform, and must return to those of the
        // host.
        let home = platform.go_home().map_err(Error::Home);
        let release = || Records::of(&self.host.root).release(self.zone);
        let released = home.and_then(|()| Ok(release()?));
        down.into_iter().chain(released.err()).collect()
    }
}

/// Fails if a test requests a failure at this step of an operation.
fn strike(fault: &mut Fault, verb: &str) -> Result<(), InjectedFault> {
    match fault.strikes(verb) {
        true => Err(InjectedFault),
        false => Ok(()),
    }
}

/// Returns the state of a ready zone, for other programs to read.
fn runtime(plan: &BootPlan, platform: &Platform) -> Result<Runtime, Error> {
    let mut runtime = Runtime {
        id: plan.id,
        state: State::Ready,
        init: Process::find(platform.init.pid).ok_or(Error::FirstProcessEnded)?,
        daemon: myself()?,
        cgroups: platform.cgroups.paths(),
        first_id: plan.first_id,
        shutdown_signal: plan.shutdown_signal,
        capabilities: 0,
        seccomp: Vec::new(),
        kernel: false,
        environment: plan.init.environment.clone(),
        controls: Controls::default(),
        auxiliary: match plan.resume {
            Some(_) => RESUMING.to_owned(),
            None => String::new(),
        },
        pager: None,
        immutable: plan.immutable,
    };
    for step in &plan.platform {
        match step {
            PlatformStep::Controls { controls } => runtime.controls.clone_from(controls),
            PlatformStep::ProcessControls { controls } => {
                runtime.controls.locked = controls.locked;
                runtime.controls.ipc = controls.ipc;
            }
            _ => {}
        }
    }
    for step in &plan.inside {
        match step {
            InsideStep::Privileges { keep } => runtime.capabilities = keep.0,
            InsideStep::Syscalls { program } => runtime.seccomp.clone_from(program),
            InsideStep::Kernel { .. } => runtime.kernel = true,
            _ => {}
        }
    }
    Ok(runtime)
}

fn myself() -> Result<Process, Error> {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    Process::find(pid).ok_or(Error::NotInProc)
}
