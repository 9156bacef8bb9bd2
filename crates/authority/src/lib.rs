//! Delegation: the rights of users who are not root on a zone.
//!
//! The `admin` resources of a zone's configuration name users and their rights
//! ([`Auth`]). `zoneauthd` acts on them; this crate has its rules. It is pure, so all of
//! it can be tested without root:
//!
//! | file | holds |
//! |---|---|
//! | `auth` | the authorisations, and which of them a configuration gives |
//! | `table` | every command that can be delegated, and the rights that it needs |
//! | `task` | from the words of a user to a command of the table |
//! | `change` | which changes of a configuration can be delegated |
//! | `request`, `reply` | the packets on the socket of zoneauthd |
//!
//! Whatever is not in the table is refused. The words of a user never reach a program
//! that runs as root: they are parsed into a [`Task`], and the program is started with
//! words that are made from that. A path of the host is nowhere among them.

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

/// The user id on whose behalf zoneauthd runs a program, in that program's
/// environment. A program that finds it does less than root may, never more.
pub const UID_VARIABLE: &str = "ZONES_DELEGATED_UID";

/// The name of that user.
pub const USER_VARIABLE: &str = "ZONES_DELEGATED_USER";

/// Name of the service's socket, in `/run/zones`.
pub const SOCKET: &str = "auth.sock";
