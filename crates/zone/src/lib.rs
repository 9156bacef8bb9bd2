//! The verbs that change the state of a zone, and the executor of their steps. Most verbs have a
//! file of their own.
//!
//! | folder | holds |
//! |---|---|
//! | this one | the verbs: install, clone, boot, halt, ... and their common code |
//! | `backup` | backups in a repository of restic, and their restoration |
//! | `service` | all zones when the host boots and shuts down |
//! | `slide` | automatic snapshots by the schedule of each zone |
//! | `live` | changes of the configuration of a zone that runs |
//! | `environments` | boot environments |
//! | `moments` | what changed between two moments; files of a snapshot |
//! | `images` | container images, and images by name |

pub mod assemble;
pub mod attach;
pub mod backup;
pub mod boot;
pub mod check;
pub mod clone;
pub mod copy;
pub mod delete;
pub mod detach;
mod disk_merge;
pub mod environments;
pub mod executor;
pub mod export;
pub mod exported;
mod first_boot;
pub mod halt;
pub mod images;
pub mod import;
pub mod install;
pub mod inventory;
pub mod job;
mod kept_disks;
pub mod label;
mod layer_folders;
pub mod links;
pub mod list;
pub mod live;
pub mod mark;
pub mod merge;
pub mod moments;
pub mod mount;
pub mod patch_files;
pub mod quota;
pub mod rctl;
pub mod reboot;
pub mod relocate;
pub mod rollback;
mod room;
mod root_view;
pub mod savecore;
pub mod service;
pub mod settle;
pub mod shutdown;
pub mod slide;
pub mod snapshot;
pub mod snapshots;
pub mod space;
pub mod suspend;
pub mod uninstall;
pub mod utc;
pub mod verify;
