//! Starts init on a complete virtual platform, and tears the platform down.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use limits::ZoneCgroups;
use model::immutable::Layout;
use model::plan::Init;
use store::runtime::Mounted;

use crate::datasets::Delegated;
use crate::{Channel, Error, guest, place, trusted};
use host::error::flatten;
use host::undo;

/// The virtual platform of a zone, completely built.
#[derive(Debug)]
pub struct Platform {
    /// The first process of the zone.
    pub init: sys::process::Child,
    /// The zone's control groups.
    pub cgroups: ZoneCgroups,
    /// The host's side of the zone's console.
    pub console: OwnedFd,
    /// The zone's side of the console. It stays open, because a read from the host's side fails
    /// while no process has the zone's side open.
    pub(crate) _terminal: OwnedFd,
    /// The guest of a kernel zone. The zone's console is then its serial line.
    pub machine: Option<guest::Machine>,
    /// The socket for requests of the zone's own beadm. The thread that answers takes it.
    pub environments: Option<OwnedFd>,
    pub(crate) channel: Option<Channel>,
    pub(crate) layers: Option<storage::Scratch>,
    pub(crate) delegated: Option<Rc<Delegated>>,
    /// The host's namespaces to which zoneadmd returns; empty if it never left them.
    pub(crate) home: Vec<(OwnedFd, u64)>,
    /// The scratch folder and the layout of a read-only root, until zoneadmd returns to the host's
    /// namespaces.
    pub(crate) sealed: Option<(PathBuf, Layout)>,
    /// The mount namespace for trusted logins; `None` if the root is not read-only.
    pub trusted: Option<OwnedFd>,
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
    /// Fails with [`Error::Inside`] if the program cannot be executed. The zone has then ended.
    pub fn start(&mut self, init: &Init) -> Result<(), Error> {
        self.start_and(init, || ())
    }

    /// Does the same as [`start`](Self::start), and runs `meanwhile` while QEMU starts.
    ///
    /// # Errors
    /// Fails like [`start`](Self::start).
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

    /// Returns from the namespaces that were needed only to build the platform. Then a running zone
    /// keeps no file system of the host busy, and programs that zoneadmd starts are processes of
    /// the host.
    ///
    /// # Errors
    /// Fails with the error of setns(2).
    pub fn go_home(&mut self) -> io::Result<()> {
        // This runs while the scratch folder is still visible.
        self.layers = None;
        if let Some((scratch, layout)) = self.sealed.take() {
            match trusted::keep(&scratch, &layout) {
                Ok(space) => self.trusted = Some(space),
                Err(error) => self.remarks.push(format!(
                    "zlogin -T and -U cannot enter the zone: {}",
                    flatten(error.as_ref())
                )),
            }
        }
        self.home
            .drain(..)
            .try_for_each(|(namespace, kind)| sys::namespace::join(namespace.as_fd(), kind))
    }

    /// Returns the platform of a zone that another zoneadmd built.
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
            sealed: None,
            trusted: None,
            remarks: Vec::new(),
            announced: Vec::new(),
        }
    }

    /// Opens the mounts at these paths in the zone, before any process of the zone runs.
    ///
    /// # Errors
    /// Fails if a path does not exist.
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

    /// Returns a descriptor that keeps the zone's root mounted while it is open. The last close of
    /// an overlay writes its whole file system to disk, and a halt does not need to wait for that.
    #[must_use]
    pub fn hold_root(&self) -> Option<OwnedFd> {
        use rustix::fs::{CWD, Mode, OFlags, openat};
        let path = format!("/proc/{}/root", self.init.pid);
        openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// Kills every process of the zone and tears the platform down. Continues after errors.
    ///
    /// # Errors
    /// Fails with [`Error::Teardown`], which lists all errors.
    pub fn take_down(&self) -> Result<(), Error> {
        // These steps run when no process of the zone uses the objects any more.
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

/// Kills every process in a zone's control groups and removes the groups.
///
/// # Errors
/// Fails with [`Error::Teardown`], which lists all errors.
pub fn take_down(cgroups: &ZoneCgroups, init: Option<&sys::process::Child>) -> Result<(), Error> {
    let mut failed = Vec::new();
    if let Err(error) = cgroups.kill() {
        failed.push(flatten(&error));
    }
    if let Some(init) = init {
        // The first process ends after all others, and one of those may be a child of a process
        // outside the zone. Then the removal of the groups reports this.
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
