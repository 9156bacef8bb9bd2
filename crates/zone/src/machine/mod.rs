//! Kernel zones: what is special about a zone that is a machine.
//!
//! Such a zone is a zone like any other (control groups, namespaces, ids, links, a
//! zoneadmd), and QEMU is its only process. This folder holds what makes a machine of
//! it:
//!
//! | file | holds |
//! |---|---|
//! | `record` | what is kept of the machine from its install on, in the zonepath |
//! | `disks` | the files of its disks, and what they stand on |
//! | `facts` | what a boot has to know of the host: QEMU, KVM, disks |
//! | `image` | where the image of a suspended machine is, and what must hold to use it |
//! | `install` | from an image, a root, or the host's own distribution |
//! | `loader` | whether a disk is made for a BIOS or for UEFI firmware |
//! | `uefi` | UEFI firmware, and the keys of secure boot |
//! | `clone` | disks of a clone, in no time |
//! | `login` | commands in the guest, through its agent |

pub(crate) mod clone;
pub(crate) mod disks;
pub(crate) mod facts;
pub(crate) mod image;
pub(crate) mod install;
mod loader;
pub mod login;
pub mod record;
pub(crate) mod sockets;
pub(crate) mod uefi;

use model::{Config, Verb};

use crate::subject::Subject;
use crate::{Error, Host};

/// Whether a zone is a machine.
#[must_use]
pub fn is_machine(config: &Config) -> bool {
    config.family() == model::brands::Family::Kz
}

/// Refuses what acts on the root or the processes of a zone: those of a machine are on
/// its disks and in its memory.
///
/// # Errors
/// [`Error::Refused`] for a machine.
pub(crate) fn refuse(host: &Host, subject: &Subject, verb: Verb) -> Result<(), Error> {
    if is_machine(&subject.config(host)?) {
        return Err(Error::Refused(match verb {
            Verb::Apply => {
                "a kernel zone that runs cannot be changed yet: what is configured holds from its next boot on."
                    .to_owned()
            }
            _ => format!(
                "{verb} does not see the disks of a kernel zone: clone it, or use what its guest has."
            ),
        }));
    }
    Ok(())
}

/// The user of the zone that QEMU runs as.
pub(crate) const USER: u32 = 1;
