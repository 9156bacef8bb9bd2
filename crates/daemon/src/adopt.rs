//! Takes over a running zone with a new zoneadmd after the former zoneadmd of the zone died.
//!
//! The zone's processes, mounts and groups never depended on zoneadmd. zinit keeps the zone's
//! console open. Another init does not keep the console, so the new zoneadmd makes a new console
//! for such a zone.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use limits::ZoneCgroups;
use model::{State, ZoneName};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use rustix::time::Timespec;
use store::{lock, runtime};
use sys::process::{Child, ns};

use crate::console::Console as History;
use crate::error::{AdoptError, Error};
use crate::incoming_guest::has_arrived;
use crate::pager::Paging;
use crate::server::{Server, listen};
use crate::{myself, snapshot, suspend};
use control::beadm_socket;
use control::log;
use host::Host;
use host::flatten;
use host::unix_socket::{self, Kind};
use platform::Platform;
use platform::console::{self, Console};
use platform::datasets::Delegated;
use platform::guest::Machine;
use platform::kind;
use subject::away;

pub(super) fn take_over<'a>(host: &'a Host, zone: &'a ZoneName) -> Result<Server<'a>, Error> {
    let root_lock = lock_root(host, zone)?;
    let known = runtime::load(&host.root, zone)?;
    let mut known = known.ok_or(AdoptError::NotActive)?;
    let pid = Pid::from_raw(known.init.pid).ok_or(AdoptError::NoFirstProcess)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty());
    let pidfd = pidfd.map_err(|errno| AdoptError::Open(errno.into()))?;
    // The process number may have been reused after the state was read and before the process was
    // opened.
    if !known.init.is_alive() {
        return Err(AdoptError::JustEnded.into());
    }
    let cgroups = ZoneCgroups::from_paths(&known.cgroups).ok_or(AdoptError::NoGroups)?;
    // This error comes before any change: if the index of zones cannot be read, adoption fails and
    // the guest runs on.
    let arrived = has_arrived(&host.root, zone)?;
    let listener = listen(&host.root, zone)?;
    let console = History::open(&host.root, zone)?;
    // The former zoneadmd may have died while it kept the zone frozen.
    let _ = cgroups.freeze(false);
    let init = Child {
        pid: known.init.pid,
        pidfd,
    };
    let kept = console::kept(init.pidfd.as_fd());
    let has_zinit = kept.is_some();
    let (controller, terminal) = match kept {
        Some(kept) => kept,
        None => new_console(host, zone, &init, known.first_id)?,
    };
    known.daemon = myself()?;
    // A zone that is adopted is always running: a first process that still waits for its init dies
    // with its zoneadmd.
    known.state = State::Running;
    // zoneadmd lets a guest run on whose migration was interrupted, unless the guest may run on
    // another host.
    let is_on_its_way = ["migrating-out", "migrating-in"].contains(&known.auxiliary.as_str());
    if is_on_its_way && !is_away(host, zone) {
        known.auxiliary.clear();
    }
    runtime::save(&host.root, zone, &known)?;
    log::message(&host.root, zone, "adopted by a new zoneadmd");
    let delegated = delegated(host, zone, known.init.pid);
    // If the pager died, QEMU would wait without end for the missing memory, and would not even
    // answer zoneadmd.
    let paging = Paging::adopt(known.pager, known.init.pid).inspect_err(|why| {
        log::message(&host.root, zone, &format!("ended: {}", flatten(why)));
        let _ = cgroups.kill();
    })?;
    let (machine, controller) = machine(host, zone, known.init.pid, controller, arrived)
        .inspect_err(|why| {
            // A QEMU that cannot be adopted is of no use, so zoneadmd kills it.
            log::message(&host.root, zone, &format!("ended: {}", flatten(why)));
            let _ = cgroups.kill();
        })?;
    let environments = match &machine {
        Some(_) => None,
        None => environments(&init, known.first_id)
            .inspect_err(|why| {
                let text = format!("has no beadm: {}", flatten(why));
                log::message(&host.root, zone, &text);
            })
            .ok(),
    };
    let mut platform = Platform::adopted(init, cgroups, controller, terminal, delegated, machine);
    platform.environments = environments;
    let mut server = Server::new(host, zone, root_lock, listener, console, platform, known);
    server.has_zinit = has_zinit;
    server.paging = paging;
    server.follow();
    Ok(server)
}

/// Makes a new console for a zone whose former console died with its zoneadmd. Returns the
/// controlling side and the terminal.
fn new_console(
    host: &Host,
    zone: &ZoneName,
    init: &Child,
    first_id: u32,
) -> Result<(OwnedFd, OwnedFd), AdoptError> {
    let made = Console::new(first_id).map_err(AdoptError::NewConsole)?;
    if let Err(error) = replace_console(init, &made.mount) {
        // The zone works without a console, so the error is only logged.
        let text = format!("has no console until it boots again: {}", flatten(&error));
        log::message(&host.root, zone, &text);
    }
    Ok((made.controller, made.terminal))
}

/// Returns true if the zone may already run on another host. Also returns true if the zone's
/// configuration cannot be read.
fn is_away(host: &Host, zone: &ZoneName) -> bool {
    let config = store::xml::load_running(&host.root, zone);
    config.map_or(true, |config| {
        away::is_away(&host.root.path(&config.zonepath()))
    })
}

/// Returns the guest of a kernel zone, and the connection to its console.
fn machine(
    host: &Host,
    zone: &ZoneName,
    init: i32,
    controller: OwnedFd,
    arrived: bool,
) -> Result<(Option<Machine>, OwnedFd), AdoptError> {
    let Ok(config) = store::xml::load_running(&host.root, zone) else {
        return Ok((None, controller));
    };
    let Some(sockets) = kind::of(&config).sockets(host, zone) else {
        return Ok((None, controller));
    };
    // QEMU holds the descriptor of the guest's memory under the number that zoneadmd gave it.
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let path = format!("/proc/{init}/fd/{}", vm::machine::FIRST);
    let memory = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok();
    if !arrived {
        return Err(AdoptError::Incomplete);
    }
    // The configuration also counts memory that came while the guest ran, which is not in this
    // file.
    let size = memory
        .as_ref()
        .and_then(|file| rustix::fs::fstat(file).ok());
    let size = size.and_then(|stat| u64::try_from(stat.st_size).ok());
    let mut machine = Machine::adopted(
        size.unwrap_or_else(|| config.machine_memory()),
        memory,
        &sockets.monitor,
        controller,
    )?;
    let image = kernelzone::image::path(host, &config);
    let away = is_away(host, zone);
    if let Some(text) = suspend::after_death(&mut machine, image.as_deref(), away)? {
        log::message(&host.root, zone, text);
    }
    if !away {
        let zonepath = host.root.path(&config.zonepath());
        snapshot::after_death(host, zone, &mut machine, &zonepath);
    }
    let line = unix_socket::connect_to(&sockets.console, Kind::Stream).map_err(|source| {
        AdoptError::Connect {
            path: sockets.console.clone(),
            source,
        }
    })?;
    Ok((Some(machine), line))
}

/// Returns the datasets that are delegated to the zone; zoneadmd takes them back when the zone
/// ends.
fn delegated(host: &Host, zone: &ZoneName, init: i32) -> Option<Delegated> {
    let config = store::xml::load_running(&host.root, zone).ok()?;
    let datasets: Vec<String> = config.datasets().collect();
    if datasets.is_empty() {
        return None;
    }
    let users = File::open(format!("/proc/{init}/ns/user")).ok()?;
    Some(Delegated::new(users.into(), datasets))
}

/// Timeout for a child process that works in the zone. The zone's file systems may delay an answer
/// without end: a process of the zone can serve the zone's /dev.
const IN_ZONE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks of the holder of the lock of a zone's root.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits for the lock of the zone's root while a dead zoneadmd holds it. Fails if a live zoneadmd
/// holds the lock: then the zone has ended, or has ended and booted again, since this zoneadmd was
/// started.
fn lock_root(host: &Host, zone: &ZoneName) -> Result<File, Error> {
    let path = host.root.root_lock(zone);
    loop {
        if let Some(file) = lock::exclusive_within(&path, LOCK_POLL_INTERVAL)? {
            return Ok(file);
        }
        match runtime::load_any(&host.root, zone)? {
            Some(known) if !known.daemon.is_alive() => {}
            _ => return Err(AdoptError::Served.into()),
        }
    }
}

/// Mounts the new terminal on the zone's /dev/console. A child process does this, because a process
/// that has entered the zone's mounts cannot return.
fn replace_console(init: &Child, mount: &OwnedFd) -> Result<(), AdoptError> {
    let enter = || -> io::Result<()> {
        sys::namespace::join(init.pidfd.as_fd(), ns::MOUNT)?;
        // The old terminal is detached first, because nothing can be mounted on a deleted file.
        // These are the zone's own mounts, so changes to them affect only the zone.
        let _ = sys::mount::detach(Path::new("/dev/console"));
        // The zone is hostile: NO_SYMLINKS prevents that a link in the zone leads the mount to
        // another path.
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let place = openat2(CWD, "/dev/console", flags, Mode::empty(), resolve)?;
        sys::mount::attach(mount, &place, Path::new("")).map_err(|error| error.source)
    };
    match in_child(&[init.pidfd.as_fd(), mount.as_fd()], enter)? {
        true => Ok(()),
        false => Err(AdoptError::ReplaceConsole),
    }
}

/// Makes a new socket for the zone's own beadm, and removes the socket of the zoneadmd that died.
fn environments(init: &Child, first_id: u32) -> Result<OwnedFd, AdoptError> {
    let socket = beadm_socket::socket().map_err(AdoptError::Socket)?;
    let enter = || -> io::Result<()> {
        sys::namespace::join(init.pidfd.as_fd(), ns::MOUNT)?;
        // The zone may have changed its paths, but no path leads out of the zone's root.
        sys::idmap::with_fs_ids(first_id, || {
            let _ = std::fs::remove_file(beadm_socket::SOCKET);
            beadm_socket::listen(socket.as_fd(), Path::new(beadm_socket::SOCKET))
        })
        .map_err(|error| error.source)?
    };
    match in_child(&[init.pidfd.as_fd(), socket.as_fd()], enter)? {
        true => Ok(socket),
        false => Err(AdoptError::Beadm {
            path: beadm_socket::SOCKET.into(),
        }),
    }
}

/// Runs `act` in a child process that keeps the descriptors `keep`. Returns true if `act`
/// succeeded.
fn in_child(
    keep: &[BorrowedFd<'_>],
    act: impl FnOnce() -> io::Result<()>,
) -> Result<bool, AdoptError> {
    let child = sys::process::fork(0, None, keep, || u8::from(act().is_err()));
    let child = child.map_err(AdoptError::Fork)?;
    Ok(succeeds(child.pidfd.as_fd(), IN_ZONE_TIMEOUT))
}

/// Waits for a child process and returns true if it succeeds within the timeout. A child that takes
/// longer is killed. It ends when its current system call returns, at the latest when the zone
/// ends.
fn succeeds(child: BorrowedFd<'_>, timeout: Duration) -> bool {
    let limit = Timespec::try_from(timeout).ok();
    if poll(&mut [PollFd::new(&child, PollFlags::IN)], limit.as_ref()) == Ok(0) {
        let _ = pidfd_send_signal(child, Signal::KILL);
        return false;
    }
    let status = waitid(WaitId::PidFd(child), WaitIdOptions::EXITED);
    let status = status.ok().flatten();
    status.and_then(|status| status.exit_status()) == Some(0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_blocked_child_in_the_zone_does_not_block_zoneadmd() {
        let long = Duration::from_secs(600);
        let short = Duration::from_millis(50);
        for (words, timeout, expected) in [
            (&["true"][..], long, true),
            (&["false"], long, false),
            (&["sleep", "3600"], short, false),
        ] {
            let mut child = Command::new(words[0]).args(&words[1..]).spawn().unwrap();
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
            assert_eq!(succeeds(pidfd.as_fd(), timeout), expected, "{words:?}");
            // An error is ignored, because `succeeds` has already waited for the child or killed
            // it.
            let _ = child.wait();
        }
    }
}
