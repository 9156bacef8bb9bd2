//! An operation that is cut off.

use std::process::Command;

use crate::bench::Bench;
use crate::strike::Who;

/// An operation on zone `web`.
pub struct Operation {
    /// As the table says it.
    pub name: &'static str,
    /// The processes that are killed in it, one enumeration each.
    pub who: &'static [Who],
    /// The most sites of one shape that are tried, see [`crate::calls::thinned`].
    pub most: usize,
    /// Makes what all runs of it share; nothing, said, where that cannot be.
    pub bench: fn() -> Option<Bench>,
    /// Makes what it begins with.
    pub begin: fn(&Bench),
    /// The command.
    pub command: fn(&Bench) -> Command,
    /// Looks at what a kill left, and goes on; panics at what must not be.
    pub after: fn(&Bench),
    /// Undoes what `begin`, the command and `after` made.
    pub end: fn(&Bench),
}
