//! Questions to whoever types.

use std::io::{self, BufRead, IsTerminal, Write};

/// Whether a question can be asked at all.
#[must_use]
pub fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Asks `question (y/[n])? ` on standard output; anything but yes is no.
#[must_use]
pub fn confirm(question: &str) -> bool {
    print!("{question} (y/[n])? ");
    let _ = io::stdout().flush();
    let mut answer = String::new();
    // End of input is no answer, so no.
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes" | "YES" | "Yes")
}
