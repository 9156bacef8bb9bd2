//! Delegation: the rights of users who are not root on a zone.
//!
//! The `admin` resources of a zone's configuration name users and their rights ([`Auth`]).
//! `zoneauthd` runs commands for these users; this crate has the rules. The crate has no side
//! effects, so all rules can be tested without root:
//!
//! | file | holds |
//! |---|---|
//! | `auth` | the authorisations, and which of them a configuration gives |
//! | `table` | every command that can be delegated, and the rights that it needs |
//! | `task` | from the words of a user to a command of the table |
//! | `change` | which changes of a configuration can be delegated |
//! | `request`, `reply` | the packets on the socket of zoneauthd |
//!
//! A command that is not in the table is refused. The words of a user never reach a program that
//! runs as root: zoneauthd parses them into a [`Task`] and starts the program with words that it
//! makes from the task. These words never contain a path of the host.

pub mod auth;
pub mod change;
pub mod reply;
pub mod request;
mod table;
pub mod task;

pub use auth::{Auth, Auths};
pub use reply::{End, Reply};
pub use request::Request;
pub use table::Program;
pub use task::{Refusal, Task};

/// Name of the environment variable in which zoneauthd gives the program the id of the user for
/// whom the program runs. A program that finds this variable may do less than root, never more.
pub const UID_VARIABLE: &str = "ZONES_DELEGATED_UID";

/// Name of the environment variable with the name of the user for whom zoneauthd runs a program.
pub const USER_VARIABLE: &str = "ZONES_DELEGATED_USER";

/// Name of the socket of zoneauthd, in `/run/zones`.
pub const SOCKET: &str = "auth.sock";
