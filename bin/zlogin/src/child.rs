//! The process in the zone, as zlogin sees it.

use std::fs;
use std::os::fd::AsFd;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};
use sys::process::Child;

/// Returns the exit status if the process has ended; a signal is counted as a shell counts it. Does
/// not wait. Reaps an ended process, so that the process cannot delay a halt of the zone.
pub fn status(child: &Child) -> Option<u8> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match waitid(WaitId::PidFd(child.pidfd.as_fd()), options) {
        Ok(Some(status)) => Some(as_a_shell(&status)),
        Ok(None) | Err(rustix::io::Errno::INTR) => None,
        Err(_) => Some(cli::status::ERROR),
    }
}

fn as_a_shell(status: &WaitIdStatus) -> u8 {
    status
        .exit_status()
        .or_else(|| status.terminating_signal().map(|signal| 128 + signal))
        .and_then(|number| u8::try_from(number).ok())
        .unwrap_or(cli::status::ERROR)
}

/// Passes a signal on to the process in the zone. The process must not be reaped.
pub fn forward(child: &Child, number: i32) {
    let Some(signal) = Signal::from_named_raw(number) else {
        return;
    };
    if let Some(group) = group_behind_su(child) {
        // The zone chooses the process that has this number. The helper sends the signal inside the
        // zone's pid namespace, which zlogin's children are in, because there the number cannot be
        // that of a host process.
        let sent = sys::process::fork(0, None, &[], || {
            u8::from(kill_process_group(group, signal).is_err())
        });
        let reaped =
            sent.map(|helper| waitid(WaitId::PidFd(helper.pidfd.as_fd()), WaitIdOptions::EXITED));
        if let Ok(Ok(Some(status))) = reaped {
            if status.exit_status() == Some(0) {
                return;
            }
        }
    }
    // The child is not reaped, so its number is still valid.
    let group = Pid::from_raw(child.pid);
    if group.is_none_or(|group| kill_process_group(group, signal).is_err()) {
        // The child is not yet the leader of a process group.
        let _ = sys::process::send_signal(child.pidfd.as_fd(), number);
    }
}

/// Returns the process group of the command that su waits for, numbered in the zone's pid
/// namespace. su starts the command in a session of its own. A signal to su itself would end only
/// the shell, after two seconds and a message.
fn group_behind_su(child: &Child) -> Option<Pid> {
    let pid = child.pid;
    if fs::read_to_string(format!("/proc/{pid}/comm")).ok()? != "su\n" {
        return None;
    }
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let mut children = children.split_ascii_whitespace();
    let (only, None) = (children.next()?, children.next()) else {
        return None;
    };
    let status = fs::read_to_string(format!("/proc/{only}/status")).ok()?;
    let innermost = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().last()?.parse::<i32>().ok()
    };
    let number = innermost("NSpid:")?;
    (innermost("NSsid:")? == number).then_some(Pid::from_raw(number)?)
}
