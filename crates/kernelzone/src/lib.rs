//! Kernel zones: the parts that only a zone with a guest under QEMU needs.
//!
//! A kernel zone has the same parts as any other zone (control groups, namespaces, ids, links, a
//! zoneadmd), and QEMU is its only process. This crate holds the additional parts:
//!
//! | file | holds |
//! |---|---|
//! | `record` | the record of the machine in the zonepath, from its install on |
//! | `disks` | the files of its disks, and their base files |
//! | `disk_size` | grows disks to their configured sizes |
//! | `ports` | places for disks that come and go while the machine runs |
//! | `facts` | facts of the host for a boot: QEMU, KVM, disks |
//! | `image` | the image of a suspended machine, and the conditions for its use |
//! | `install` | installs from an image, a root, or the host's own distribution |
//! | `loader` | whether a disk is made for a BIOS or for UEFI firmware |
//! | `seed` | the disk with the seed of cloud-init |
//! | `uefi` | UEFI firmware, and the keys of secure boot |
//! | `new_file` | makes the files of a machine in the zonepath |
//! | `clone` | makes the disks of a clone without a copy |
//! | `kept` | snapshots of the disks |
//! | `live_snapshot` | snapshots of the disks while the machine runs |
//! | `depth` | merges before the snapshots of a schedule: when, and how much they copy |
//! | `login` | commands in the guest, through its agent |

pub mod adopt;
pub mod clone;
pub mod depth;
pub mod disk_size;
pub mod disks;
pub mod facts;
pub mod image;
pub mod install;
pub mod kept;
pub mod live_snapshot;
mod loader;
pub mod login;
mod new_file;
pub mod ports;
pub mod record;
pub mod seed;
pub mod shared_disk;
pub mod uefi;

/// The user id in the zone under which QEMU runs.
pub const USER: u32 = 1;
