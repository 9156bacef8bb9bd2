//! `zoneadm backup`, `backups` and `restore`: moments of zones in a repository that is encrypted and
//! stores equal data once.
//!
//! The repository belongs to restic, which this module runs. A moment has the manifest that an
//! export has, and the root without inherited folders. The engine finds changed files itself, by
//! comparison with the previous moment of the same zone.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | the place of the repository, and its key |
//! | `engine` | restic: its command lines, answers and errors |
//! | `stage` | the folder that restic sees |

#![allow(dead_code, reason = "the verbs that use it follow")]

mod engine;
mod settings;
mod stage;

pub use settings::{Named, Repository};
