//! Names of the folders in which zoneadmd puts the root of a zone together.

/// Folder of the scratch file system that the root is assembled in.
pub(crate) const LAYERS: &str = "layers";

/// Folder of the assembled root on the scratch file system.
pub(crate) const ROOT: &str = "root";

/// Folder of the mounts that the first process puts in their places.
pub(crate) const HELD: &str = "held";

/// Folder of the zone's device nodes.
pub(crate) const NODES: &str = "nodes";
