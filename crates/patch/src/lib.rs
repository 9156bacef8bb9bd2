//! Patching zones: all of them in one go, each as a transaction of its own.
//!
//! | file | holds |
//! |---|---|
//! | [`conf`] | `/etc/patch/pdo.conf`: how many zones at a time |
//! | [`order`] | what is to be done: an upgrade, some packages, files |
//! | [`manager`] | how a package manager is told, behind one trait |
//! | [`inventory`] | what is installed in a root, and whether it is as packaged |
//! | [`record`] | the journal of a transaction, and a zone's history |
//! | [`transaction`] | one zone: snapshot, work in a copy, verify, switch |
//! | `memory` | which copies are worked on in memory |
//! | [`environment`] | zones that run: the copy becomes a boot environment |
//! | `live` | zones that run: in place, with a way back |
//! | `inside`, [`health`], [`stale`] | commands in a zone that runs, and what they are for |
//! | [`follow`] | sparse zones: the host's packages |
//! | [`share`] | the result of two zones for all that are like them |
//! | [`run`], `queue` | many zones at a time, and which is next |
//! | [`report`] | what became of each |
//! | [`recover`], `ending` | what a crash left of a transaction, and how it ends |
//! | [`remains`] | what crashes left of the transactions of all zones |
//! | [`rollback`], [`status`] | the way back, and where zones stand |
//!
//! A zone is the old one or the new one at every moment: what is patched is a clone of
//! a snapshot of it, which the zone takes over by the rename that a rollback ends with.

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
