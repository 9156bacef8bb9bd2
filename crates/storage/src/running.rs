//! Snapshots of running zones: the stamps that tell which files have changed.

mod stamp;
mod table;
