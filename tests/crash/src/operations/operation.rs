//! The description of an operation that is killed.

use std::process::Command;

use crate::bench::Bench;
use crate::strike::Who;

/// An operation on zone `web`.
pub struct Operation {
    /// The name in the table of results.
    pub name: &'static str,
    /// The processes that are killed, with one enumeration for each.
    pub who: &'static [Who],
    /// The maximum number of sites of one shape that are tried, see [`crate::calls::thinned`].
    pub most: usize,
    /// Creates the hosts that all runs share; `None`, with a message, if this machine cannot have
    /// them.
    pub bench: fn() -> Option<Bench>,
    /// Prepares one run.
    pub begin: fn(&Bench),
    /// Returns the command.
    pub command: fn(&Bench) -> Command,
    /// Checks the remains after a kill, and runs the next command; panics if the result is wrong.
    pub after: fn(&Bench),
    /// Removes the objects that `begin`, the command and `after` created.
    pub end: fn(&Bench),
}
