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
//! | `repository` | a repository, opened or made |
//! | `moments` | the list of moments, and the choice of one |
//! | `stage` | the folder that restic sees |
//! | `take` | a zone as a new moment |
//! | `upkeep` | the check of a repository, and the removal of old moments |

#![allow(dead_code, reason = "the verbs that use it follow")]

mod engine;
mod moments;
mod repository;
mod settings;
mod stage;
mod take;
mod upkeep;

pub use moments::Moment;
pub use repository::Backups;
pub use settings::{Named, Repository};
pub use take::{backup, plan};
pub use upkeep::Keep;
