//! All resource types, in the order of `info`.

use super::{devices, files, limits, machine, network, others, snapshots};
use crate::table::spec::ResourceSpec;

/// Elements of the zones DTD that do not belong to a configuration: the packages of a detached
/// zone, and elements of old releases.
pub static IGNORED_ELEMENTS: &[&str] =
    &["deleted-device", "detached", "package", "patch", "dev-perm"];

/// All resource types.
pub static RESOURCES: &[ResourceSpec] = &[
    files::INHERIT_PKG_DIR,
    files::FS,
    network::NET,
    network::ANET,
    network::PUBLISH,
    devices::DEVICE,
    limits::DEDICATED_CPU,
    limits::CAPPED_CPU,
    limits::CAPPED_MEMORY,
    machine::VIRTUAL_CPU,
    machine::SUSPEND,
    machine::KEYSOURCE,
    machine::VERIFIED_BOOT,
    files::ROOTZPOOL,
    files::ZPOOL,
    devices::NPIV,
    others::SMF_DEPENDENCY,
    others::SECURITY_FLAGS,
    others::ATTR,
    files::DATASET,
    snapshots::SNAPSHOTS,
    others::ADMIN,
    limits::RCTL,
];
