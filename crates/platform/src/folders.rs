//! The names of the folders in which zoneadmd assembles the root of a zone.

/// The folder of the scratch file system in which the root is assembled.
pub(crate) const LAYERS: &str = "layers";

/// The folder of the assembled root, on the scratch file system.
pub(crate) const ROOT: &str = "root";

/// The folder of the mounts that the first process attaches at their mount points.
pub(crate) const HELD: &str = "held";

/// Folder of the zone's device nodes.
pub(crate) const NODES: &str = "nodes";

/// The mount point of the writable mount of an immutable zone's root. The first process uses it
/// until it enters the root.
pub(crate) const WRITABLE: &str = "writable";

/// The folder of the scratch file system in which the folder for zones of higher labels is
/// assembled.
pub(crate) const EXPORT: &str = "export";
