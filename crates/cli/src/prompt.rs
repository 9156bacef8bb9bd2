//! Questions to whoever types.

use std::io::{self, BufRead, IsTerminal, Write};

/// Whether a question can be asked at all.
#[must_use]
pub fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Asks `question (y/[n])? ` on standard output until the answer is one. An empty
/// line and the end of input are no.
#[must_use]
pub fn confirm(question: &str) -> bool {
    ask(question, &mut io::stdin().lock(), &mut io::stdout().lock())
}

fn ask(question: &str, input: &mut impl BufRead, output: &mut impl Write) -> bool {
    loop {
        // Without a reader there is still whoever answers.
        let _ = write!(output, "{question} (y/[n])? ").and_then(|()| output.flush());
        let mut answer = String::new();
        if !matches!(input.read_line(&mut answer), Ok(1..)) {
            return false;
        }
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return true,
            "" | "n" | "no" => return false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        for (answers, yes, asked) in [
            ("y\n", true, 1),
            ("YES\n", true, 1),
            (" Yes \n", true, 1),
            ("n\n", false, 1),
            ("no\n", false, 1),
            ("\n", false, 1),
            ("", false, 1),
            ("maybe\ny\n", true, 2),
            ("yesterday\n", false, 2),
            ("\u{7}\n?\nN\ny\n", false, 3),
        ] {
            let mut output = Vec::new();
            assert_eq!(
                ask("Sure", &mut answers.as_bytes(), &mut output),
                yes,
                "{answers:?}"
            );
            assert_eq!(
                String::from_utf8(output).unwrap(),
                "Sure (y/[n])? ".repeat(asked),
                "{answers:?}"
            );
        }
    }
}
