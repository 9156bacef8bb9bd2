//! zoneadmd: one small process per active zone.
//!
//! It builds the virtual platform, is the parent of the zone's init, holds the
//! console, answers on a socket, and takes the platform down. The zone does not
//! need it to go on: a new one adopts the zone (see [`adopt`]).

mod adopt;
mod again;
mod ahead;
mod beadm;
mod connection;
mod console;
pub mod error;
mod guest;
mod incoming_guest;
pub(crate) mod job;
mod memory_file;
mod outgoing_guest;
mod pager;
mod processors;
mod rate;
mod rctl;
mod server;
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
    /// The plan, for a boot.
    pub plan: OwnedFd,
    /// The pipe to which zoneadmd writes the result.
    pub report: OwnedFd,
    /// The zone's lock, for a boot.
    pub lock: OwnedFd,
    /// For a machine that comes from another host.
    pub doors: Option<Doors>,
}

/// Descriptor on which zoneadmd finds its plan.
pub const PLAN_FD: i32 = 3;
/// Descriptor on which zoneadmd says how building went: "ok" and a line for each
/// remark, or an error.
pub const REPORT_FD: i32 = 4;
/// Descriptor that holds the zone's lock until zoneadmd has reported.
pub const LOCK_FD: i32 = 5;
/// Descriptor of a job's output.
pub const LOG_FD: i32 = 6;
/// Descriptors for a machine that comes from another host: the socket to who receives it,
/// the stream of its memory, and the socket on which its disks are written to.
pub const DOOR_FDS: [i32; 3] = [6, 7, 8];
/// Largest plan that is read, in bytes.
const MAX_PLAN: u64 = 4 << 20;

/// Builds the zone's platform by the plan in `plan`, reports, and serves it to its end.
///
/// # Errors
/// See [`Error`]; the reader of `report` gets the same text.
pub fn boot(host: &Host, zone: &ZoneName, passed: Passed) -> Result<(), Error> {
    let mut report = File::from(passed.report);
    let built = build(host, zone, passed.plan, passed.doors);
    // Not before the state is stored, and before anybody hears of it.
    drop(passed.lock);
    match built {
        Ok(mut server) => {
            // The client may have ended meanwhile: the zone runs all the same.
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
/// See [`boot`].
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
    // Most are read at once into this.
    let mut text = Vec::with_capacity(32 << 10);
    let read = File::from(plan).take(MAX_PLAN).read_to_end(&mut text);
    read.map_err(PlanError::Read)?;
    serde_json::from_slice(&text).map_err(PlanError::Parse)
}

/// A boot that zoneadmd carries out.
#[derive(Clone, Copy)]
struct Boot<'a> {
    host: &'a Host,
    zone: &'a ZoneName,
    plan: &'a BootPlan,
}

/// Builds the platform and starts init. A platform in which that fails is taken down.
fn start(
    boot: Boot<'_>,
    zinit: &Path,
    fault: &mut Fault,
    console: &mut console::Console,
    doors: Option<Doors>,
) -> Result<(Platform, Runtime, Resumed), Error> {
    // An image that is of no use is refused before anything is made.
    let ahead = boot.plan.resume.as_ref().map(Ahead::open).transpose()?;
    let mut platform = Platform::build(boot.plan, zinit, fault)?;
    match boot.start_built(&mut platform, ahead, fault, console, doors) {
        Ok((runtime, resumed)) => Ok((platform, runtime, resumed)),
        Err(error) => Err(error.with(boot.take_down(platform))),
    }
}

impl Boot<'_> {
    /// Records a zone whose platform stands, and starts its init unless the plan ends in state
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
        // Before anything runs that outlives us: without this record nobody would
        // know of the zone.
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
            // That is written down already, and the guest has nothing to go back to.
            return Ok((runtime, resumed));
        }
        strike(fault, "boot")?;
        self.save(&runtime)?;
        Ok((runtime, resumed))
    }

    /// Starts init. The parts of an image that are read meanwhile are returned.
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

    /// Makes a machine that waits go on from its image.
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

    /// Takes the machine of a zone that comes from another host while it runs.
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

    /// Takes a platform down. Returns what went wrong.
    fn take_down(self, mut platform: Platform) -> Vec<Error> {
        let down = platform.take_down().err().map(Error::from);
        // The platform was built in other namespaces than the host's.
        let home = platform.go_home().map_err(Error::Home);
        let release = || Records::of(&self.host.root).release(self.zone);
        let released = home.and_then(|()| Ok(release()?));
        down.into_iter().chain(released.err()).collect()
    }
}

/// Fails if a test asks for a fault at this moment of a verb.
fn strike(fault: &mut Fault, verb: &str) -> Result<(), InjectedFault> {
    match fault.strikes(verb) {
        true => Err(InjectedFault),
        false => Ok(()),
    }
}

/// Returns the state of the zone for other programs, in state ready.
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
