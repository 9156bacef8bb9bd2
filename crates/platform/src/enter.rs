//! Starts a process in a running zone (zlogin).
//!
//! The process gets the same namespaces, control groups, privileges, filter and limits as the
//! zone's own processes. It inherits nothing from its caller: it has a new session, a new session
//! keyring, default settings, and only the descriptors that it is given. A descriptor of the host,
//! such as a folder or a terminal, would be a way out of the zone. No program of the zone runs
//! before all of this is done.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use control::protocol::Request;
use limits::ZoneCgroups;
use model::immutable::Layout;
use model::privilege::Capabilities;
use model::{State, ZoneName};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use store::index::Index;
use store::runtime::Runtime;
use sys::process::{Child, ns};

use crate::credentials::limit_privileges;
use crate::plan::syscalls;
use crate::trusted::Sight;
use crate::{answerer, trusted};
use host::flatten;
use host::{Error, Host};
use subject::state;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// A running zone that a process can enter.
#[derive(Debug)]
pub struct RunningZone {
    root: store::Root,
    zone: ZoneName,
    runtime: Runtime,
    init: OwnedFd,
    /// The way into the writable root of an immutable zone; `None` for a plain login.
    trusted: Option<Trusted>,
}

/// The way of a trusted login.
#[derive(Debug)]
struct Trusted {
    /// The mount namespace that zoneadmd keeps.
    space: OwnedFd,
    layout: Layout,
    sight: Sight,
}

/// The reason why a zone cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The zone does not exist.
    #[error("zone '{0}' unknown")]
    Unknown(ZoneName),
    /// The zone does not run.
    #[error("login allowed only to running zones ({0} is '{1}').")]
    NotRunning(ZoneName, State),
    /// The zone has no system to log in to, because it is not installed.
    #[error("cannot login to a zone which is '{0}'")]
    NotInstalled(State),
    /// Any other error.
    #[error(transparent)]
    Other(#[from] Error),
}

impl RunningZone {
    /// Opens a running zone, so that a process can enter it.
    ///
    /// # Errors
    /// Fails with [`EntryError`].
    pub fn open(host: &Host, zone: &ZoneName) -> Result<Self, EntryError> {
        let index = Index::load(&host.root).map_err(Error::from)?;
        let entry = index
            .find(zone)
            .ok_or_else(|| EntryError::Unknown(zone.clone()))?;
        let (state, runtime) = state(host, entry)?;
        let runtime = match (state, runtime) {
            (State::Running, Some(runtime)) => runtime,
            _ if state < State::Installed => return Err(EntryError::NotInstalled(state)),
            _ => return Err(EntryError::NotRunning(zone.clone(), state)),
        };
        let pid = Pid::from_raw(runtime.init.pid)
            .ok_or_else(|| EntryError::NotRunning(zone.clone(), State::Installed))?;
        let gone = || EntryError::NotRunning(zone.clone(), State::Installed);
        let init = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone())?;
        // The pid may have been reused between the read and the open.
        if !runtime.init.is_alive() {
            return Err(gone());
        }
        if !runtime.daemon.is_alive() {
            control::client::attend(host, zone)?;
        }
        Ok(Self {
            root: host.root.clone(),
            zone: zone.clone(),
            runtime,
            init,
            trusted: None,
        })
    }

    /// Opens a running immutable zone for a trusted login.
    ///
    /// # Errors
    /// Fails as [`open`](Self::open) does, and if the root of the zone is not read-only.
    pub fn open_trusted(host: &Host, zone: &ZoneName, sight: Sight) -> Result<Self, EntryError> {
        let opened = Self::open(host, zone)?;
        let sealed = opened.runtime.immutable.filter(|one| one.is_sealed());
        let Some(immutable) = sealed else {
            return Err(EntryError::Other(Error::Refused(format!(
                "-T and -U are for zones whose root is read-only by a file-mac-profile, and zone '{zone}' is writable: log in without them"
            ))));
        };
        let space = trusted_space(host, zone)?;
        Ok(Self {
            trusted: Some(Trusted {
                space,
                layout: immutable.profile.layout(),
                sight,
            }),
            ..opened
        })
    }

    /// Returns the initial environment of the zone's processes, as `NAME=value`.
    #[must_use]
    pub fn environment(&self) -> &[String] {
        &self.runtime.environment
    }

    /// Returns the pids of the zone's processes on the host.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let cgroups = ZoneCgroups::from_paths(&self.runtime.cgroups);
        cgroups.map_or_else(Vec::new, |cgroups| cgroups.pids())
    }

    /// Returns a pipe that processes of the zone can also open by name, as in `echo >/dev/stderr`:
    /// first the descriptor to read from, then the one to write to.
    ///
    /// # Errors
    /// Fails if no more descriptors are available.
    pub fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Error> {
        let root = rustix::fs::Uid::from_raw(self.runtime.first_id);
        let group = rustix::fs::Gid::from_raw(self.runtime.first_id);
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .and_then(|(reading, writing)| {
                rustix::fs::fchown(&reading, Some(root), Some(group))?;
                Ok((reading, writing))
            })
            .map_err(|errno| Error::io("make a pipe into the zone")(errno.into()))
    }

    /// Runs `body` in a new process inside the zone, as the zone's root and the leader of a new
    /// session. The calling process must have one thread. Its later children would be in the zone's
    /// pid namespace, too.
    ///
    /// `streams` become standard input, output and error. Without `streams`, `body` must replace
    /// those of the caller before it runs a program of the zone. Of the caller's other descriptors,
    /// the process has only `keep`.
    ///
    /// # Errors
    /// Fails with [`EntryError::NotRunning`] if the zone has ended since it was opened, and with
    /// another error if the process cannot be created. If the new process cannot enter the zone, it
    /// writes the reason to its standard error and exits with status 1.
    pub fn enter(
        &self,
        streams: Option<[BorrowedFd<'_>; 3]>,
        keep: &[BorrowedFd<'_>],
        body: impl FnOnce() -> u8,
    ) -> Result<Child, EntryError> {
        self.start(streams, keep, body).map_err(|error| {
            // The zone's groups and namespaces end after its first process, so a missing one means
            // that the zone has ended.
            if self.runtime.init.is_alive() {
                error.into()
            } else {
                EntryError::NotRunning(self.zone.clone(), State::Installed)
            }
        })
    }

    fn start(
        &self,
        streams: Option<[BorrowedFd<'_>; 3]>,
        keep: &[BorrowedFd<'_>],
        body: impl FnOnce() -> u8,
    ) -> Result<Child, Error> {
        let cgroups = ZoneCgroups::from_paths(&self.runtime.cgroups)
            .ok_or_else(|| Error::Daemon("the zone has no control groups".to_owned()))?;
        let entry = cgroups.open_entry(self.runtime.first_id)?;
        let tasks = cgroups.open_v1_tasks()?;
        // The pid and time namespaces take effect only for child processes.
        let (joined, new) = match &self.trusted {
            None => (ns::PID | ns::TIME, 0),
            Some(_) => (ns::TIME, ns::PID),
        };
        sys::namespace::join(self.init.as_fd(), joined)
            .map_err(Error::io("join the zone's processes"))?;
        if self.trusted.is_some() {
            // In its new pid namespace the child cannot see the zone's init.
            let init = Pid::from_raw(self.runtime.init.pid).unwrap_or(Pid::INIT);
            sys::surroundings::take_from(init, init, self.runtime.first_id)
                .map_err(Error::io("take over the limits of the zone"))?;
        }
        // A zone whose answerer has ended can still be entered.
        let answerer = match self.runtime.kernel {
            true => answerer::reach(&self.root, &self.zone).ok(),
            false => None,
        };
        let kept: Vec<BorrowedFd<'_>> = [self.init.as_fd()]
            .into_iter()
            .chain(tasks.iter().map(AsFd::as_fd))
            .chain(streams.into_iter().flatten())
            .chain(keep.iter().copied())
            .chain(answerer.as_ref().map(AsFd::as_fd))
            .chain(self.trusted.as_ref().map(|trusted| trusted.space.as_fd()))
            .collect();
        let mut body = Some(body);
        let mut enter = || {
            let entered =
                place(streams).and_then(|()| self.become_inmate(&tasks, answerer.as_ref()));
            match (entered, body.take()) {
                (Ok(()), Some(body)) => body(),
                (entered, _) => {
                    let error = entered.err().map(|error| flatten(error.as_ref()));
                    let error = error.unwrap_or_default();
                    let text = format!("zlogin: could not enter the zone: {error}\n");
                    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
                    1
                }
            }
        };
        let child = sys::process::fork(new, Some(entry.as_fd()), &kept, &mut enter).or_else(|_| {
            // The zone may set limits in its own control groups.
            let login = cgroups.open_login().map_err(std::io::Error::other)?;
            sys::process::fork(new, Some(login.as_fd()), &kept, &mut enter)
        });
        let child = child.map_err(Error::io("start a process in the zone"))?;
        cgroups.follow(tasks.len())?;
        Ok(child)
    }

    fn become_inmate(&self, tasks: &[OwnedFd], answerer: Option<&OwnedFd>) -> Result<(), AnyError> {
        // While this process still has privileges of the host, no process of the zone may trace it.
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let hide = || set_dumpable_behavior(DumpableBehavior::NotDumpable);
        hide()?;
        rustix::process::setsid()?;
        sys::keyring::leave_session()?;
        self.leave_surroundings(self.trusted.is_none())
            .map_err(Error::io("take over the limits of the zone"))?;
        // To read limits, the process may have changed its user for a moment.
        hide()?;
        for tasks_file in tasks {
            rustix::io::write(tasks_file, b"0")?;
        }
        let rest = ns::USER | ns::UTS | ns::NET | ns::CGROUP;
        match &self.trusted {
            None => sys::namespace::join(self.init.as_fd(), rest | ns::MOUNT | ns::IPC)?,
            Some(trusted) => {
                trusted.arrange(self.runtime.first_id, &self.zone)?;
                sys::namespace::join(self.init.as_fd(), rest)?;
                // The copy of the mounts belongs to the zone's user namespace, so they are locked.
                sys::namespace::unshare(ns::MOUNT | ns::IPC)?;
            }
        }
        let (user, group) = (rustix::fs::Uid::ROOT, rustix::fs::Gid::ROOT);
        set_thread_groups(&[])
            .and_then(|()| set_thread_res_gid(group, group, group))
            .and_then(|()| set_thread_res_uid(user, user, user))
            // The change of ids has set this flag to the value of fs.suid_dumpable.
            .and_then(|()| hide())?;
        // The keyring is created once more, so that it belongs to the zone. If the zone has used up
        // its quota of keys, the process keeps the empty keyring of the host.
        let _ = sys::keyring::leave_session();
        rustix::process::chdir("/")?;
        limit_privileges(Capabilities(self.runtime.capabilities))?;
        if let Some(answerer) = answerer {
            answerer::ask(answerer.as_fd())?;
        }
        if self.trusted.is_some() {
            sys::seccomp::install(&syscalls::without_local_sockets())?;
        }
        match self.runtime.seccomp.is_empty() {
            true => Ok(()),
            false => Ok(sys::seccomp::install(&self.runtime.seccomp)?),
        }
    }

    /// Copies the limits of the zone's init. This needs privileges of the host, because those of
    /// the zone are not enough to raise a limit.
    fn leave_surroundings(&self, takes_limits: bool) -> std::io::Result<()> {
        sys::signals::reset_all();
        if !takes_limits {
            return Ok(());
        }
        // This process is already in the zone, where the pid of init is always 1.
        let in_proc = Pid::from_raw(self.runtime.init.pid).unwrap_or(Pid::INIT);
        sys::surroundings::take_from(Pid::INIT, in_proc, self.runtime.first_id)
    }
}

/// Asks the zone's zoneadmd for the mount namespace of trusted logins.
fn trusted_space(host: &Host, zone: &ZoneName) -> Result<OwnedFd, Error> {
    let socket = control::client::connect_or_adopt(host, zone)?;
    let gone = || Error::Daemon("zoneadmd went away".to_owned());
    control::client::ask(&socket, &Request::Trusted)?.ok_or_else(gone)?;
    let (space, _) = sys::passing::receive(socket.as_fd()).ok_or_else(gone)?;
    Ok(space)
}

impl Trusted {
    fn arrange(&self, first_id: u32, zone: &ZoneName) -> Result<(), AnyError> {
        let space = self.space.as_fd();
        trusted::arrange(space, &self.layout, self.sight, first_id, zone.as_str())
    }
}

/// Moves the streams to descriptors 0, 1 and 2.
fn place(streams: Option<[BorrowedFd<'_>; 3]>) -> Result<(), AnyError> {
    let Some([input, output, errors]) = streams else {
        return Ok(());
    };
    rustix::stdio::dup2_stdin(input)?;
    rustix::stdio::dup2_stdout(output)?;
    Ok(rustix::stdio::dup2_stderr(errors)?)
}
