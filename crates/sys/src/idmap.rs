//! Makes user namespaces for id maps, and runs code as the first user of a zone.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::thread::CapabilitiesSecureBits;

use crate::mount::Error;
use crate::process::clone3;

/// A child process that only holds namespaces. The child ends when this value is dropped.
struct Holder {
    pid: i32,
    pidfd: OwnedFd,
}

impl Holder {
    /// Starts a child that holds a new user namespace, and further namespaces that belong to it.
    fn new(further: u64) -> Result<Self, Error> {
        let parent = rustix::process::getpid().as_raw_nonzero().get();
        // SAFETY: the process may have other threads, so the child makes only plain system calls.
        // The child allocates no memory, takes no lock, and does not return. The exit signal is 0,
        // so the caller's SIGCHLD handling never sees this child.
        let made = unsafe { clone3(crate::process::ns::USER | further, 0, None) };
        match made.map_err(|error| Error::new("clone3", "user namespace", error))? {
            Some(child) => Ok(Self {
                pid: child.pid,
                pidfd: child.pidfd,
            }),
            // SAFETY: the child makes only plain system calls, and ends in _exit.
            None => unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // The parent may have ended before the call of prctl(2).
                while libc::getppid() == parent {
                    libc::pause();
                }
                libc::_exit(0)
            },
        }
    }
}

impl Holder {
    /// Writes the id maps of users and groups.
    fn map(&self, map: &str) -> Result<(), Error> {
        for file in ["uid_map", "gid_map"] {
            let path = format!("/proc/{}/{file}", self.pid);
            std::fs::write(&path, map)
                .map_err(|e| Error::new("write", format!("{path} ({map})"), e))?;
        }
        Ok(())
    }

    /// Opens a namespace that the child holds.
    fn namespace(&self, name: &str) -> Result<OwnedFd, Error> {
        let path = format!("/proc/{}/ns/{name}", self.pid);
        rustix::fs::openat(CWD, &path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| Error::new("open", path, e))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        loop {
            // SAFETY: only this value waits for this child, and a null siginfo is allowed. __WALL
            // is needed because the child has no exit signal.
            let result = unsafe {
                libc::waitid(
                    libc::P_PIDFD,
                    self.pidfd.as_raw_fd().unsigned_abs(),
                    std::ptr::null_mut(),
                    libc::WEXITED | libc::__WALL,
                )
            };
            if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
    }
}

/// Returns a descriptor of a new user namespace. The namespace maps the ids 0 to `count` - 1, of
/// users and groups, to the host's ids from `base` on.
///
/// The namespace has no process, and serves as the id map of mounts (`Attr::idmap`). The call needs
/// /proc, and takes about as long as a fork and an exit.
pub fn user_namespace(base: u32, count: u32) -> Result<OwnedFd, Error> {
    let holder = Holder::new(0)?;
    holder.map(&format!("0 {base} {count}"))?;
    holder.namespace("user")
}

/// Returns a descriptor of a new network namespace that belongs to a user namespace without
/// processes.
///
/// Root of the host can administer this network namespace like any other. But the kernel sends its
/// messages about devices (NETLINK_KOBJECT_UEVENT) only to network namespaces of the first user
/// namespace. The call takes about as long as a fork and an exit.
pub fn network_of_nobody() -> Result<OwnedFd, Error> {
    let holder = Holder::new(crate::process::ns::NET)?;
    // In this namespace, users have the same ids as on the host.
    holder.map("0 0 4294967295")?;
    holder.namespace("net")
}

/// Runs `work` with the file system user and group `id`, and with all capabilities.
///
/// An overlay stores the credentials of its mount call, and creates files in its work folder with
/// them. Through id-mapped layers, the host's root has no id, so an overlay that plain root mounts
/// silently becomes read-only. The first id of the zone has an id in the layers.
///
/// The ids change only for the calling thread. The thread gets its former ids back afterwards, even
/// if `work` panics.
pub fn with_fs_ids<T>(id: u32, work: impl FnOnce() -> T) -> Result<T, Error> {
    let guard = FsIds::enter(id)?;
    let value = work();
    guard.leave()?;
    Ok(value)
}

/// Runs `work` with the effective user `id` and all capabilities. The kernel charges the objects
/// that `work` creates (a user namespace and its later contents) to that user.
///
/// The effective user changes only for the calling thread. The thread gets its former user back
/// afterwards, even if `work` panics. A process that `work` forks keeps the user, so it must not
/// return from `work`. The kernel clears the process's signal for the death of its parent
/// (PR_SET_PDEATHSIG).
pub fn with_effective_user<T>(id: u32, work: impl FnOnce() -> T) -> Result<T, Error> {
    let bits = rustix::thread::capabilities_secure_bits()
        .map_err(|e| Error::new("prctl", "PR_GET_SECUREBITS", e))?;
    let guard = EffectiveUser {
        bits,
        former: rustix::process::geteuid().as_raw(),
    };
    // Without this, a change away from user id 0 drops the capabilities.
    rustix::thread::set_capabilities_secure_bits(bits | CapabilitiesSecureBits::NO_SETUID_FIXUP)
        .map_err(|e| Error::new("prctl", "PR_SET_SECUREBITS", e))?;
    set_effective_user(id)?;
    let value = work();
    guard.restore()?;
    std::mem::forget(guard);
    Ok(value)
}

/// Restores the thread's effective user when it is dropped.
struct EffectiveUser {
    bits: CapabilitiesSecureBits,
    former: u32,
}

impl EffectiveUser {
    fn restore(&self) -> Result<(), Error> {
        set_effective_user(self.former)?;
        rustix::thread::set_capabilities_secure_bits(self.bits)
            .map_err(|e| Error::new("prctl", "PR_SET_SECUREBITS", e))
    }
}

impl Drop for EffectiveUser {
    fn drop(&mut self) {
        // This runs after a panic or a failed change, so there is already an error to report.
        let _ = self.restore();
    }
}

fn set_effective_user(id: u32) -> Result<(), Error> {
    // SAFETY: setresuid takes three numbers and touches no memory. The raw system call changes only
    // the calling thread. The number -1 leaves the real and the saved user unchanged.
    let result = unsafe { libc::syscall(libc::SYS_setresuid, NO_ID, id, NO_ID) };
    match result {
        0 => Ok(()),
        _ => Err(Error::new(
            "setresuid",
            Path::new(&id.to_string()),
            io::Error::last_os_error(),
        )),
    }
}

/// Restores the thread's credentials when it is dropped.
struct FsIds {
    bits: CapabilitiesSecureBits,
    uid: u32,
    gid: u32,
}

impl FsIds {
    fn enter(id: u32) -> Result<Self, Error> {
        let bits = rustix::thread::capabilities_secure_bits()
            .map_err(|e| Error::new("prctl", "PR_GET_SECUREBITS", e))?;
        let guard = Self {
            bits,
            uid: fs_uid(),
            gid: fs_gid(),
        };
        // Without this, a change away from user id 0 drops the file capabilities.
        rustix::thread::set_capabilities_secure_bits(
            bits | CapabilitiesSecureBits::NO_SETUID_FIXUP,
        )
        .map_err(|e| Error::new("prctl", "PR_SET_SECUREBITS", e))?;
        set_fs_gid(id)?;
        set_fs_uid(id)?;
        Ok(guard)
    }

    fn restore(&self) -> Result<(), Error> {
        set_fs_uid(self.uid)?;
        set_fs_gid(self.gid)?;
        rustix::thread::set_capabilities_secure_bits(self.bits)
            .map_err(|e| Error::new("prctl", "PR_SET_SECUREBITS", e))
    }

    fn leave(self) -> Result<(), Error> {
        let done = self.restore();
        std::mem::forget(self);
        done
    }
}

impl Drop for FsIds {
    fn drop(&mut self) {
        // This runs after a panic or a failed `enter`, so there is already an error to report.
        let _ = self.restore();
    }
}

/// This value is not an id. A call with it changes nothing and returns the current id.
const NO_ID: u32 = u32::MAX;

fn raw_set(call: libc::c_long, id: u32) -> u32 {
    // SAFETY: setfsuid and setfsgid take one number and touch no memory. The raw system calls
    // change only the calling thread. Both calls return the former id.
    let former = unsafe { libc::syscall(call, id) };
    // The kernel returns an unsigned id, which the binding widens as a signed number.
    u32::try_from(former & i64::from(u32::MAX)).unwrap_or(NO_ID)
}

fn fs_uid() -> u32 {
    raw_set(libc::SYS_setfsuid, NO_ID)
}

fn fs_gid() -> u32 {
    raw_set(libc::SYS_setfsgid, NO_ID)
}

fn set_fs_uid(id: u32) -> Result<(), Error> {
    raw_set(libc::SYS_setfsuid, id);
    // The call reports no error. Only a second call tells if the id has changed.
    if fs_uid() == id {
        return Ok(());
    }
    Err(refused("setfsuid", id))
}

fn set_fs_gid(id: u32) -> Result<(), Error> {
    raw_set(libc::SYS_setfsgid, id);
    if fs_gid() == id {
        return Ok(());
    }
    Err(refused("setfsgid", id))
}

fn refused(call: &'static str, id: u32) -> Error {
    Error::new(
        call,
        Path::new(&id.to_string()),
        io::Error::from_raw_os_error(libc::EPERM),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> bool {
        let root = rustix::process::geteuid().is_root();
        if !root {
            eprintln!("skipped: needs root");
        }
        root
    }

    #[test]
    fn fs_ids_return_after_success_and_panic() {
        if !root() {
            return;
        }
        let before = rustix::thread::capabilities_secure_bits().unwrap();
        assert_eq!(
            with_fs_ids(100_000, || (fs_uid(), fs_gid())).unwrap(),
            (100_000, 100_000)
        );
        assert_eq!((fs_uid(), fs_gid()), (0, 0));
        let panicked = std::panic::catch_unwind(|| with_fs_ids(100_000, || panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!((fs_uid(), fs_gid()), (0, 0));
        assert_eq!(rustix::thread::capabilities_secure_bits().unwrap(), before);
    }

    #[test]
    fn the_effective_user_returns_with_all_capabilities() {
        if !root() {
            return;
        }
        let status = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let of = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(name));
                line.unwrap().to_owned()
            };
            (of("Uid:"), of("CapEff:"))
        };
        let before = status();
        let inside = with_effective_user(100_000, status).unwrap();
        assert_eq!(inside.0, "Uid:\t0\t100000\t0\t100000");
        assert_eq!(inside.1, before.1);
        assert_eq!(status(), before);
        let panicked =
            std::panic::catch_unwind(|| with_effective_user(100_000, || panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(status(), before);
    }

    #[test]
    fn keeps_capabilities_while_another_id() {
        if !root() {
            return;
        }
        // Only root, or a process with CAP_SYS_PTRACE and CAP_DAC_OVERRIDE, can read
        // /proc/1/environ. The effective capability set shows this directly.
        let effective = || {
            std::fs::read_to_string("/proc/thread-self/status")
                .unwrap()
                .lines()
                .find(|l| l.starts_with("CapEff"))
                .map(str::to_owned)
        };
        let before = effective();
        assert_eq!(with_fs_ids(100_000, effective).unwrap(), before);
    }

    #[test]
    fn makes_a_namespace_of_its_own() {
        use std::os::unix::fs::MetadataExt;
        if !root() {
            return;
        }
        let namespace = user_namespace(100_000, 65_536).unwrap();
        let own = std::fs::metadata("/proc/self/ns/user").unwrap();
        assert_ne!(rustix::fs::fstat(&namespace).unwrap().st_ino, own.ino());
    }

    #[test]
    fn the_holder_is_gone_when_dropped() {
        if !root() {
            return;
        }
        let holder = Holder::new(0).unwrap();
        let path = format!("/proc/{}/uid_map", holder.pid);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        drop(holder);
        assert!(!Path::new(&path).exists());
    }
}
