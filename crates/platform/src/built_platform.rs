//! A platform that stands: starts init in it, and takes it down.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use limits::ZoneCgroups;
use model::plan::Init;
use store::runtime::Mounted;

use crate::datasets::Delegated;
use crate::{Channel, Error, guest, place};
use host::error::flatten;
use host::undo;

/// A zone whose platform stands.
#[derive(Debug)]
pub struct Platform {
    /// The first process.
    pub init: sys::process::Child,
    /// The zone's control groups.
    pub cgroups: ZoneCgroups,
    /// Our side of the zone's console.
    pub console: OwnedFd,
    /// The zone's side, kept open: without any user of it reading would fail.
    pub(crate) _terminal: OwnedFd,
    /// The machine of a kernel zone; its console is the serial line then.
    pub machine: Option<guest::Machine>,
    /// The socket on which the zone's own beadm asks; taken by the thread that answers.
    pub environments: Option<OwnedFd>,
    pub(crate) channel: Option<Channel>,
    pub(crate) layers: Option<storage::Scratch>,
    pub(crate) delegated: Option<Rc<Delegated>>,
    /// The host's namespaces, to go back to; none where we never left.
    pub(crate) home: Vec<(OwnedFd, u64)>,
    /// The remarks about resource controls to report.
    pub remarks: Vec<String>,
    /// The sockets that announced the zone's addresses: to close them takes milliseconds, which
    /// must not delay the boot.
    pub announced: Vec<OwnedFd>,
}

impl Platform {
    /// Starts init. Its program replaces the first process.
    ///
    /// # Errors
    /// [`Error::Inside`] when the program cannot be executed; the zone is then ended.
    pub fn start(&mut self, init: &Init) -> Result<(), Error> {
        self.start_and(init, || ())
    }

    /// The same; meanwhile, while a machine gets ready to answer, something else is done.
    ///
    /// # Errors
    /// See [`start`](Self::start).
    pub fn start_and(&mut self, init: &Init, meanwhile: impl FnOnce()) -> Result<(), Error> {
        let channel = self
            .channel
            .take()
            .ok_or(Error::Plan("a first process that waits"))?;
        let passed = self.machine.as_ref().map(guest::Machine::passed);
        channel
            .send_boot(init, &passed.unwrap_or_default())
            .map_err(Error::Channel)?;
        channel.wait_for_exec()?;
        meanwhile();
        if let Some(machine) = &mut self.machine {
            machine.greet().map_err(|why| Error::Step {
                step: "start the machine".to_owned(),
                source: why.into(),
            })?;
        }
        Ok(())
    }

    /// Goes back from the namespaces that were only needed to build the platform: none of the
    /// host's file systems stays busy because of a running zone, and programs that zoneadmd starts
    /// are processes of the host.
    ///
    /// # Errors
    /// Fails with the error of setns(2).
    pub fn go_home(&mut self) -> io::Result<()> {
        // While its folder is still in view.
        self.layers = None;
        self.home
            .drain(..)
            .try_for_each(|(namespace, kind)| sys::namespace::join(namespace.as_fd(), kind))
    }

    /// The platform of a zone that another zoneadmd built.
    #[must_use]
    pub fn adopted(
        init: sys::process::Child,
        cgroups: ZoneCgroups,
        console: OwnedFd,
        terminal: OwnedFd,
        delegated: Option<Delegated>,
        machine: Option<guest::Machine>,
    ) -> Self {
        Self {
            init,
            cgroups,
            console,
            _terminal: terminal,
            machine,
            environments: None,
            channel: None,
            layers: None,
            delegated: delegated.map(Rc::new),
            home: Vec::new(),
            remarks: Vec::new(),
            announced: Vec::new(),
        }
    }

    /// The mounts at these places, while nothing of the zone has run yet.
    ///
    /// # Errors
    /// When there is no such place.
    pub fn mounts(&self, places: &[PathBuf]) -> Result<Vec<Mounted>, Error> {
        use rustix::fs::{CWD, Mode, OFlags, openat};
        let path = format!("/proc/{}/root", self.init.pid);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty())
            .map_err(|errno| Error::Channel(errno.into()))?;
        let find = |at: &PathBuf| {
            place::find(&root, at).map_err(|error| Error::Step {
                step: format!("find the mount at {}", at.display()),
                source: Box::new(error),
            })
        };
        places.iter().map(find).collect()
    }

    /// Keeps the zone's root from being closed as long as the descriptor is open. Closing an
    /// overlay writes its whole file system out; a halt does not need to wait for that.
    #[must_use]
    pub fn hold_root(&self) -> Option<OwnedFd> {
        use rustix::fs::{CWD, Mode, OFlags, openat};
        let path = format!("/proc/{}/root", self.init.pid);
        openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// Ends every process of the zone and takes the platform down, going on past errors.
    ///
    /// # Errors
    /// [`Error::Teardown`] with all that went wrong.
    pub fn take_down(&self) -> Result<(), Error> {
        // When no process of the zone uses them any more.
        let down = take_down(&self.cgroups, Some(&self.init));
        let mut failed = self
            .delegated
            .as_ref()
            .map_or_else(Vec::new, |delegated| delegated.take_back());
        match down {
            Ok(()) if failed.is_empty() => Ok(()),
            Ok(()) => Err(Error::Teardown(failed)),
            Err(error) => {
                failed.insert(0, flatten(&error));
                Err(Error::Teardown(failed))
            }
        }
    }
}

/// Ends every process in a zone's control groups and removes the groups.
///
/// # Errors
/// [`Error::Teardown`] with all that went wrong.
pub fn take_down(cgroups: &ZoneCgroups, init: Option<&sys::process::Child>) -> Result<(), Error> {
    let mut failed = Vec::new();
    if let Err(error) = cgroups.kill() {
        failed.push(flatten(&error));
    }
    if let Some(init) = init {
        // It ends when all others have, and one may wait for a parent outside the
        // zone: then removing the groups says so.
        undo::reap(init, KILL_TIMEOUT);
    }
    if let Err(error) = cgroups.remove() {
        failed.push(flatten(&error));
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Error::Teardown(failed))
    }
}

/// Timeout for a killed process to end.
pub const KILL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
