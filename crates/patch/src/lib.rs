//! Patches zones: all of them with one command, each in its own transaction.
//!
//! | file | holds |
//! |---|---|
//! | [`conf`] | `/etc/patch/pdo.conf`: how many zones at a time |
//! | [`order`] | the order: an upgrade, some packages, files |
//! | [`manager`] | how a package manager is told, behind one trait |
//! | [`inventory`] | the packages in a root, and a check of their files |
//! | [`record`] | the journal of a transaction, and a zone's history |
//! | [`transaction`] | one zone: snapshot, work in a copy, verify, switch |
//! | `memory` | which copies are worked on in memory |
//! | [`environment`] | zones that run: the copy becomes a boot environment |
//! | `live` | zones that run: in place, with a way back |
//! | `inside`, [`health`], [`stale`] | commands in a running zone, and their uses |
//! | [`follow`] | sparse zones: the host's packages |
//! | [`share`] | the result of two zones for all that are like them |
//! | [`run`], `queue` | many zones at a time, and which is next |
//! | [`report`] | the result of each |
//! | [`recover`], `ending` | the remains of a transaction after a crash, and its end |
//! | [`remains`] | the remains of transactions of all zones after crashes |
//! | [`rollback`], [`status`] | the way back, and where zones stand |
//!
//! At every moment a zone is either unpatched or patched. The package manager works in a clone of a
//! snapshot of the zone. Then the zone gets the root of that clone by the same rename that ends a
//! rollback.

pub mod conf;
mod ending;
pub mod environment;
pub mod follow;
pub mod health;
mod inside;
pub mod inventory;
mod live;
pub mod manager;
mod memory;
pub mod order;
mod queue;
pub mod record;
pub mod recover;
pub mod remains;
pub mod report;
pub mod rollback;
pub mod run;
pub mod share;
pub mod stale;
pub mod status;
pub mod transaction;

pub use order::Order;
pub use queue::Options;
pub use record::{Change, Entry};
pub use report::{Outcome, Report};
