//! Sets the attributes that a process inherits besides its memory and descriptors: limits,
//! priority, processors, file mode mask. Those of an administrator's shell are not those of a login
//! in a zone.

use std::io;
use std::os::fd::AsFd;
use std::ptr;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::Pid;

/// The file in which Linux keeps how ready it is to kill a process that lacks memory.
const OOM_SCORE: &str = "oom_score_adj";

/// The file mode mask of a fresh login.
const UMASK: Mode = Mode::from_raw_mode(0o022);

/// Memory of a process that goes into its core, as the kernel has it by default: private and
/// shared memory, headers of programs, and large pages.
const CORE_OF_DEFAULT: &[u8] = b"0x33";

/// Resets the inherited settings of the calling process, which must have one thread, except limits:
/// scheduling class and I/O priority, personality, the parts of memory in core dumps, memory
/// policy, and timer slack. Each is tried; settings that this host does not have are skipped.
pub fn forget_caller() {
    let priority: libc::c_int = 0;
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    const MPOL_DEFAULT: libc::c_int = 0;
    // SAFETY: these calls take numbers and, the first, the address of the one number that the
    // kernel's structure has; 0 is the caller. Not by the C library: that of musl has no such
    // call.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_OTHER,
            &raw const priority,
        );
        libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0);
        libc::syscall(libc::SYS_personality, 0);
        libc::syscall(libc::SYS_set_mempolicy, MPOL_DEFAULT, 0, 0);
        libc::prctl(libc::PR_SET_TIMERSLACK, 0, 0, 0, 0);
        libc::prctl(libc::PR_SET_THP_DISABLE, 0, 0, 0, 0);
    }
    let path = "/proc/self/coredump_filter";
    if let Ok(file) = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::io::write(file, CORE_OF_DEFAULT);
    }
}

/// Gives the calling process, which must have one thread, the resource limits,
/// nice value, processors and OOM adjustment that `model` has, the common
/// scheduling class, and the file mode mask of a fresh login. `model` is a number
/// of the caller's pid namespace, and of /proc's for `model_in_proc`; `owner` is the user who
/// owns its user namespace.
///
/// # Errors
/// When a limit cannot be read or set. The others are set as far as possible: `model` may forbid
/// itself CPUs that the caller's cgroups would allow.
pub fn take_from(model: Pid, model_in_proc: Pid, owner: u32) -> io::Result<()> {
    copy_limits(model, owner)?;
    rustix::process::umask(UMASK);
    forget_caller();
    if let Ok(nice) = rustix::process::getpriority_process(Some(model)) {
        let _ = rustix::process::setpriority_process(None, nice);
    }
    if let Ok(processors) = rustix::thread::sched_getaffinity(Some(model)) {
        let _ = rustix::thread::sched_setaffinity(None, &processors);
    }
    copy_oom_score(model_in_proc);
    Ok(())
}

fn copy_limits(model: Pid, owner: u32) -> io::Result<()> {
    let model = model.as_raw_nonzero().get();
    for resource in 0..=LAST_LIMIT {
        let wanted = match limit(resource, model, None) {
            // Without CAP_SYS_RESOURCE, in a container, only the owner may look.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                crate::idmap::with_effective_user(owner, || limit(resource, model, None))
                    .map_err(io::Error::other)??
            }
            other => other?,
        };
        match limit(resource, 0, Some(&wanted)) {
            // Without CAP_SYS_RESOURCE, in a container, no higher than the caller's.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                let most = limit(resource, 0, None)?.rlim_max;
                let lower = libc::rlimit64 {
                    rlim_cur: wanted.rlim_cur.min(most),
                    rlim_max: wanted.rlim_max.min(most),
                };
                limit(resource, 0, Some(&lower))?;
            }
            other => drop(other?),
        }
    }
    Ok(())
}

/// Returns the limit that the process `whose` (0: the caller) has, and sets a new one.
fn limit(
    resource: LimitNumber,
    whose: libc::pid_t,
    new: Option<&libc::rlimit64>,
) -> io::Result<libc::rlimit64> {
    let mut old = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: reads `new`, when it is not null, and fills `old`.
    match unsafe { libc::prlimit64(whose, resource, new, &raw mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The type of the C library's numbers of limits.
#[cfg(target_env = "gnu")]
type LimitNumber = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type LimitNumber = libc::c_int;

const LAST_LIMIT: LimitNumber = libc::RLIMIT_RTTIME;

fn copy_oom_score(model: Pid) {
    let of = |whose: &str, flags: OFlags| {
        let path = format!("/proc/{whose}/{OOM_SCORE}");
        openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())
    };
    let mut text = [0; 16];
    let copied = of(&model.to_string(), OFlags::RDONLY)
        .and_then(|file| rustix::io::read(file.as_fd(), &mut text))
        .and_then(|length| {
            let file = of("self", OFlags::WRONLY)?;
            rustix::io::write(file.as_fd(), &text[..length])
        });
    // /proc may be of another pid namespace, in a container: then it stays.
    let _ = copied;
}
