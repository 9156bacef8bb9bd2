//! The zone's console: a terminal of the host's, shown in the zone as /dev/console.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Gid, Mode, Uid, fchmod, fchown};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use sys::mount::Extent;

/// Both sides of a console.
#[derive(Debug)]
pub(crate) struct Console {
    /// zoneadmd's side.
    pub controller: OwnedFd,
    /// The zone's side.
    pub terminal: OwnedFd,
    /// The zone's side as a mount that is not attached yet. It belongs to the mount
    /// namespace in which the console was made.
    pub mount: OwnedFd,
}

impl Console {
    /// Makes a console that belongs to the zone's root, the host's id `first_id`.
    pub(crate) fn new(first_id: u32) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags)?;
        unlockpt(&controller)?;
        let terminal = ioctl_tiocgptpeer(&controller, flags)?;
        fchown(
            &terminal,
            Some(Uid::from_raw(first_id)),
            Some(Gid::from_raw(first_id)),
        )?;
        fchmod(&terminal, Mode::RUSR | Mode::WUSR)?;
        let mount = sys::mount::open_tree(&terminal, Path::new(""), Extent::One)?;
        Ok(Self {
            controller,
            terminal,
            mount,
        })
    }
}
