//! The zonecfg language.
//!
//! [`lex`] and [`parse`] turn a line into [`command::Command`]s. A [`session::Session`] applies the
//! commands to a configuration. [`info`] and [`export`] print the configuration; [`help`] and
//! [`complete`] list the words. All modules of this crate read [`model::table`] and have no side
//! effects: the files, the terminal and the state of the zone are behind the traits of [`session`].

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
