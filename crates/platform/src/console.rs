//! The zone's console: a terminal of the host, which the zone sees as /dev/console.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Gid, Mode, Uid, fchmod, fchown};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use sys::mount::Extent;

/// Both sides of a console.
#[derive(Debug)]
pub struct Console {
    /// zoneadmd's side.
    pub controller: OwnedFd,
    /// The zone's side.
    pub terminal: OwnedFd,
    /// The zone's side as a detached mount. It belongs to the mount namespace in which the console
    /// was made.
    pub mount: OwnedFd,
}

/// The number of the descriptor on which zinit keeps zoneadmd's side of the console.
const KEPT_BY_ZINIT: i32 = 3;

/// Rows and columns of a terminal without a window. Some programs cannot handle a size of 0 by 0.
pub(crate) const COMMON_SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// Device number of /dev/ptmx, the controlling side of every terminal.
const PTMX: (u32, u32) = (5, 2);

/// Returns both sides of a running zone's console, the controlling side first, if its init is
/// zinit. The zone may have replaced the descriptor: then the result is a terminal of the zone
/// itself, or `None`.
pub fn kept(init: BorrowedFd<'_>) -> Option<(OwnedFd, OwnedFd)> {
    use rustix::fs::{FileType, fstat, major, minor};
    use rustix::process::{PidfdGetfdFlags, pidfd_getfd};
    let controller = pidfd_getfd(init, KEPT_BY_ZINIT, PidfdGetfdFlags::empty()).ok()?;
    let stat = fstat(&controller).ok()?;
    let is_device = FileType::from_raw_mode(stat.st_mode).is_char_device();
    if !is_device || (major(stat.st_rdev), minor(stat.st_rdev)) != PTMX {
        return None;
    }
    // The zone's side is zinit's standard input. The mount through which both sides were opened no
    // longer exists.
    let terminal = pidfd_getfd(init, 0, PidfdGetfdFlags::empty()).ok()?;
    Some((controller, terminal))
}

/// Returns the error of a host whose terminals are all in use.
fn all_in_use() -> Box<dyn std::error::Error + Send + Sync> {
    let limit = std::fs::read_to_string("/proc/sys/kernel/pty/max").unwrap_or_default();
    format!(
        "all terminals of the host are in use (kernel.pty.max is {}), and each running zone needs \
         one for its console: raise the limit with sysctl -w kernel.pty.max=NUMBER",
        limit.trim()
    )
    .into()
}

impl Console {
    /// Makes a console that belongs to the zone's root, who has the id `first_id` on the host. Fails if
    /// all terminals of the host are in use, with the setting that limits their number.
    pub fn new(first_id: u32) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).map_err(|errno| match errno {
            // openpt(3) calls it so; the kernel's own error is ENOSPC.
            Errno::AGAIN | Errno::NOSPC => all_in_use(),
            other => other.into(),
        })?;
        unlockpt(&controller)?;
        let terminal = ioctl_tiocgptpeer(&controller, flags)?;
        fchown(
            &terminal,
            Some(Uid::from_raw(first_id)),
            Some(Gid::from_raw(first_id)),
        )?;
        fchmod(&terminal, Mode::RUSR | Mode::WUSR)?;
        tcsetwinsize(&controller, COMMON_SIZE)?;
        let mount = sys::mount::open_tree(&terminal, Path::new(""), Extent::One)?;
        Ok(Self {
            controller,
            terminal,
            mount,
        })
    }
}
