//! The zonecfg language.
//!
//! [`lex`] and [`parse`] turn a line into [`command::Command`]s; a [`session::Session`]
//! carries them out on a configuration; [`info`] and [`export`] print it; [`help`] and
//! [`complete`] list the words. All of it is driven by [`model::table`] and pure: files,
//! terminal and state of the zone are behind the traits of [`session`].

pub mod command;
pub mod complete;
pub mod export;
pub mod help;
pub mod info;
pub mod json;
pub mod lex;
pub mod parse;
pub mod session;

pub use command::{Argument, Command, How, Verb};
pub use parse::{SyntaxError, parse_line};
pub use session::{Backing, Change, Console, Finish, Flow, Mode, Session};
