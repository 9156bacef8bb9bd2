//! Sets the attributes that a process inherits besides its memory and descriptors: limits,
//! priority, CPUs, umask. A login in a zone must not inherit those of the administrator's shell.

use std::io;
use std::os::fd::AsFd;
use std::ptr;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::Pid;

/// The file with the OOM score adjustment of a process.
const OOM_SCORE: &str = "oom_score_adj";

/// The umask of a fresh login.
const UMASK: Mode = Mode::from_raw_mode(0o022);

/// The parts of memory that Linux writes to a core dump by default: private and shared memory,
/// headers of programs, and huge pages.
const CORE_OF_DEFAULT: &[u8] = b"0x33";

/// Resets the inherited settings of the calling process, except limits: scheduling class and I/O
/// priority, personality, the memory parts of core dumps, memory policy, and timer slack. The
/// process must have one thread. Settings that this host does not have are skipped.
pub fn forget_caller() {
    let priority: libc::c_int = 0;
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    const MPOL_DEFAULT: libc::c_int = 0;
    // SAFETY: the calls take numbers. The first call also takes the address of one number, which is
    // the whole `struct sched_param`; the pid 0 means the caller. The raw system call is used
    // because the C library musl does not implement sched_setscheduler.
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

/// Copies the resource limits, nice value, CPUs and OOM score adjustment of the process `model` to
/// the calling process, and sets the default scheduling class and the umask of a fresh login. The
/// caller must have one thread. `model` is a pid in the caller's pid namespace, `model_in_proc` is
/// the pid of the same process in /proc, and `owner` is the user who owns its user namespace.
///
/// # Errors
/// Fails if a limit cannot be read or set. Nice value, CPUs and OOM score are set as far as
/// possible, without an error: `model` may have given up CPUs that the caller's cgroups would
/// allow.
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
            // Without CAP_SYS_RESOURCE, as in a container, only the owner can read the limits.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                crate::idmap::with_effective_user(owner, || limit(resource, model, None))
                    .map_err(io::Error::other)??
            }
            other => other?,
        };
        match limit(resource, 0, Some(&wanted)) {
            // Without CAP_SYS_RESOURCE, as in a container, a limit cannot be higher than the
            // caller's.
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

/// Sets a limit of the process `whose` (0: the caller) and returns the former one.
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
    // SAFETY: prlimit reads `new` if it is not null, and fills `old`.
    match unsafe { libc::prlimit64(whose, resource, new, &raw mut old) } {
        0 => Ok(old),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The C library's type for the numbers of limits.
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
    // In a container, /proc may belong to another pid namespace: then the setting stays.
    let _ = copied;
}
