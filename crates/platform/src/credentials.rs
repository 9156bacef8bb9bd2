//! The ids and capabilities that a process in a zone takes on.

use std::io;

use model::privilege::Capabilities;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Becomes user and group 0 of the zone, in no further group.
pub(crate) fn become_root() -> io::Result<()> {
    let (user, group) = (rustix::fs::Uid::ROOT, rustix::fs::Gid::ROOT);
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}

/// Becomes a user of the zone who is not root, and whose programs can never get more rights: QEMU
/// runs as this user.
pub(crate) fn become_user(user: u32) -> io::Result<()> {
    let (uid, gid) = (
        rustix::fs::Uid::from_raw(user),
        rustix::fs::Gid::from_raw(user),
    );
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    // With the last id of root its capabilities go, too.
    set_thread_res_uid(uid, uid, uid)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// Leaves `keep` as the most that any process of the zone can have.
pub(crate) fn limit_privileges(keep: Capabilities) -> Result<(), AnyError> {
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
    for number in (0..64).filter(|number| !keep.has(*number)) {
        let Some(one) = CapabilitySet::from_bits(1 << number) else {
            break;
        };
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // This kernel knows no capability of that number, nor a higher one.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
