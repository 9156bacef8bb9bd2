//! The session that this program runs.

use syntax::Session;

use crate::console::Terminal;
use crate::live::Kept;

/// Commands of the terminal, a file or a pipe, carried out on the stored or the running
/// configuration.
pub type CfgSession = Session<Kept, Terminal>;
