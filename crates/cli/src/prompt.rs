//! Asks the user yes-or-no questions.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::progress;

/// Returns true if standard input is a terminal, so that the user can answer, and if the output is
/// text: a question in lines of JSON would reach a program and not the user.
#[must_use]
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && !progress::is_json()
}

/// Asks `question (y/[n])? ` on standard output until the user answers yes or no. An empty line
/// means no. Returns `None` at the end of input. After the end of input the caller must ask or read
/// nothing more, because a terminal that was hung up reports the end again and again.
#[must_use]
pub fn ask(question: &str) -> Option<bool> {
    ask_on(question, &mut io::stdin().lock(), &mut io::stdout().lock())
}

/// Asks like [`ask`], and takes the end of input as no.
#[must_use]
pub fn confirm(question: &str) -> bool {
    ask(question) == Some(true)
}

fn ask_on(question: &str, input: &mut impl BufRead, output: &mut impl Write) -> Option<bool> {
    loop {
        // If standard output has no reader, the user can still answer.
        let _ = write!(output, "{question} (y/[n])? ").and_then(|()| output.flush());
        let mut answer = String::new();
        if !matches!(input.read_line(&mut answer), Ok(1..)) {
            return None;
        }
        if let Some(answer) = self::answer(&answer) {
            return Some(answer);
        }
    }
}

/// Returns the answer in a line, or `None` if the line says neither yes nor no.
#[must_use]
pub fn answer(line: &str) -> Option<bool> {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "" | "n" | "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        for (answers, said, asked) in [
            ("y\n", Some(true), 1),
            ("YES\n", Some(true), 1),
            (" Yes \n", Some(true), 1),
            ("n\n", Some(false), 1),
            ("no\n", Some(false), 1),
            ("\n", Some(false), 1),
            ("", None, 1),
            ("maybe\ny\n", Some(true), 2),
            ("yesterday\n", None, 2),
            ("\u{7}\n?\nN\ny\n", Some(false), 3),
        ] {
            let mut output = Vec::new();
            assert_eq!(
                ask_on("Sure", &mut answers.as_bytes(), &mut output),
                said,
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
