//! Sets the ids and capabilities of a process in a zone.

use std::io;

use model::privilege::Capabilities;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Sets the ids to user and group 0 of the zone, without supplementary groups.
pub(crate) fn become_root() -> io::Result<()> {
    let (user, group) = (rustix::fs::Uid::ROOT, rustix::fs::Gid::ROOT);
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}

/// Sets the ids to a user of the zone other than root, and prevents its programs from ever getting
/// more privileges. QEMU runs as this user.
pub(crate) fn become_user(user: u32) -> io::Result<()> {
    let (uid, gid) = (
        rustix::fs::Uid::from_raw(user),
        rustix::fs::Gid::from_raw(user),
    );
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    // When no id of the process is root's any more, the kernel drops its capabilities, too.
    set_thread_res_uid(uid, uid, uid)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// Limits the capabilities of all processes of the zone to `keep`.
pub(crate) fn limit_privileges(keep: Capabilities) -> Result<(), AnyError> {
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
    for number in (0..64).filter(|number| !keep.has(*number)) {
        let Some(one) = CapabilitySet::from_bits(1 << number) else {
            break;
        };
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // This kernel has no capability with this number or a higher one.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
