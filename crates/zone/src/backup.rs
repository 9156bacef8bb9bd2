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
//! | `restore` | a moment as a zone, or as a boot environment |
//! | `files` | single files of a moment |
//! | `upkeep` | the check of a repository, and the removal of old moments |

mod engine;
mod files;
mod moments;
mod repository;
mod restore;
mod settings;
mod stage;
mod take;
mod upkeep;

pub use files::{Wanted, restore_files};
pub use moments::Moment;
pub use repository::Backups;
pub use restore::{Options, restore};
pub use settings::{Named, Repository};
pub use take::{backup, plan};
pub use upkeep::Keep;
