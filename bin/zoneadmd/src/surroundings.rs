//! What a process hands down besides its environment: a zone must not depend on who
//! typed `zoneadm boot`, and how.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files, as on a freshly started system: the soft limit is the traditional
/// one, programs that need more raise it themselves.
const FILES: (u64, u64) = (1024, 524_288);

/// Puts umask, priority and limits to what the first process of a system has. Each
/// is tried; a host that forbids one leaves it as it is. Signals are the business
/// of exec.
pub fn make_ordinary() {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let _ = rustix::process::setpriority_process(None, 0);
    let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    for resource in [
        Resource::As,
        Resource::Cpu,
        Resource::Data,
        Resource::Fsize,
        Resource::Nproc,
        Resource::Rss,
    ] {
        raise(resource, unlimited);
    }
    raise(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: None,
        },
    );
    raise(
        Resource::Nofile,
        Rlimit {
            current: Some(FILES.0),
            maximum: Some(FILES.1),
        },
    );
}

/// Sets a limit; where the hard limit may not rise, only what is below it.
fn raise(resource: Resource, wanted: Rlimit) {
    if setrlimit(resource, wanted).is_err() {
        let maximum = getrlimit(resource).maximum;
        let lowest = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
        let current = lowest(wanted.current, maximum);
        let _ = setrlimit(resource, Rlimit { current, maximum });
    }
}
