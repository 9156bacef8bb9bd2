//! A new zoneadmd for a zone whose old one died.
//!
//! The zone's processes, mounts and groups never depended on zoneadmd. Its console is kept by
//! zinit; another init does not keep it, and the zone gets a new one in its place.

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
use crate::{myself, suspend};
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
    // The number may have been given away between reading and opening.
    if !known.init.is_alive() {
        return Err(AdoptError::JustEnded.into());
    }
    let cgroups = ZoneCgroups::from_paths(&known.cgroups).ok_or(AdoptError::NoGroups)?;
    // Where nobody can tell, nothing is ended.
    let arrived = has_arrived(&host.root, zone)?;
    let listener = listen(&host.root, zone)?;
    let console = History::open(&host.root, zone)?;
    // The old one may have died while it held the zone still.
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
    // A first process that still waited would have died with its zoneadmd.
    known.state = State::Running;
    // It lets a machine run on that was on its way, unless that may run elsewhere.
    let is_on_its_way = ["migrating-out", "migrating-in"].contains(&known.auxiliary.as_str());
    if is_on_its_way && !is_away(host, zone) {
        known.auxiliary.clear();
    }
    runtime::save(&host.root, zone, &known)?;
    log::message(&host.root, zone, "adopted by a new zoneadmd");
    let delegated = delegated(host, zone, known.init.pid);
    // Memory that nobody brings in any more is waited for without end: QEMU would not
    // even answer.
    let paging = Paging::adopt(known.pager, known.init.pid).inspect_err(|why| {
        log::message(&host.root, zone, &format!("ended: {}", flatten(why)));
        let _ = cgroups.kill();
    })?;
    let (machine, controller) = machine(host, zone, known.init.pid, controller, arrived)
        .inspect_err(|why| {
            // Nobody can do anything with it any more.
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

/// Makes a console for a zone whose old one died with its zoneadmd, and gives both sides of it.
fn new_console(
    host: &Host,
    zone: &ZoneName,
    init: &Child,
    first_id: u32,
) -> Result<(OwnedFd, OwnedFd), AdoptError> {
    let made = Console::new(first_id).map_err(AdoptError::NewConsole)?;
    if let Err(error) = replace_console(init, &made.mount) {
        // The zone is whole without it; say so and go on.
        let text = format!("has no console until it boots again: {}", flatten(&error));
        log::message(&host.root, zone, &text);
    }
    Ok((made.controller, made.terminal))
}

/// Returns whether a zone may run on another host by now; also when nobody can tell.
fn is_away(host: &Host, zone: &ZoneName) -> bool {
    let config = store::xml::load_running(&host.root, zone);
    config.map_or(true, |config| {
        away::is_away(&host.root.path(&config.zonepath()))
    })
}

/// The machine of a kernel zone, and the end of its console.
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
    // QEMU holds its memory under the number that it was given.
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let path = format!("/proc/{init}/fd/{}", vm::machine::FIRST);
    let memory = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok();
    if !arrived {
        return Err(AdoptError::Incomplete);
    }
    let mut machine = Machine::adopted(
        config.machine_memory(),
        memory,
        &sockets.monitor,
        controller,
    )?;
    let image = kernelzone::image::path(host, &config);
    let away = is_away(host, zone);
    if let Some(text) = suspend::after_death(&mut machine, image.as_deref(), away)? {
        log::message(&host.root, zone, text);
    }
    let line = unix_socket::connect_to(&sockets.console, Kind::Stream).map_err(|source| {
        AdoptError::Connect {
            path: sockets.console.clone(),
            source,
        }
    })?;
    Ok((Some(machine), line))
}

/// The datasets that the zone has, to be taken back when it ends.
fn delegated(host: &Host, zone: &ZoneName, init: i32) -> Option<Delegated> {
    let config = store::xml::load_running(&host.root, zone).ok()?;
    let datasets: Vec<String> = config.datasets().collect();
    if datasets.is_empty() {
        return None;
    }
    let users = File::open(format!("/proc/{init}/ns/user")).ok()?;
    Some(Delegated::new(users.into(), datasets))
}

/// Longest time that a child may take in the zone, whose file systems answer when they like:
/// /dev of the zone can be one that a process of the zone serves.
const IN_ZONE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between looks at the holder of the lock of a zone's root.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits for the lock of the zone's root while it is a dead zoneadmd that holds it. A
/// live one means that the zone has ended, or ended and booted, since we were called.
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

/// Puts the new terminal where the zone's /dev/console is. A child does it: it
/// enters the zone's mounts, and nobody comes back from there.
fn replace_console(init: &Child, mount: &OwnedFd) -> Result<(), AdoptError> {
    let enter = || -> io::Result<()> {
        sys::namespace::join(init.pidfd.as_fd(), ns::MOUNT)?;
        // The old terminal first: nothing can be put on a file that is gone. These are the zone's
        // own mounts, so changes to them affect only the zone.
        let _ = sys::mount::detach(Path::new("/dev/console"));
        // The zone is hostile: no link of its making leads this anywhere else.
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

/// Makes the socket for the zone's own beadm anew; that of the zoneadmd that died is
/// removed.
fn environments(init: &Child, first_id: u32) -> Result<OwnedFd, AdoptError> {
    let socket = beadm_socket::socket().map_err(AdoptError::Socket)?;
    let enter = || -> io::Result<()> {
        sys::namespace::join(init.pidfd.as_fd(), ns::MOUNT)?;
        // The zone may have changed its paths; they never lead out of its root.
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

/// Does something in the zone by a child, which has these descriptors; whether it could.
fn in_child(
    keep: &[BorrowedFd<'_>],
    act: impl FnOnce() -> io::Result<()>,
) -> Result<bool, AdoptError> {
    let child = sys::process::fork(0, None, keep, || u8::from(act().is_err()));
    let child = child.map_err(AdoptError::Fork)?;
    Ok(succeeds(child.pidfd.as_fd(), IN_ZONE_TIMEOUT))
}

/// Waits for a child and returns true when it succeeds in this time. One that takes longer is
/// killed, and ends when the call that it is in returns: at the latest with the zone.
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
            // It is collected already, or was killed.
            let _ = child.wait();
        }
    }
}
