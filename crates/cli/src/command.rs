//! Programs with subcommands: the table of the subcommands, and the help that is generated from the
//! table.

/// A subcommand as the help text shows it.
#[derive(Debug)]
pub struct Subcommand {
    /// The name of the subcommand.
    pub name: &'static str,
    /// The synopsis, without the program's name.
    pub form: &'static str,
    /// The description and the options. Option lines begin with a tab.
    pub help: &'static str,
    /// Examples of use; each one is a whole command line.
    pub examples: &'static [&'static str],
}

impl Subcommand {
    /// Returns true if the subcommand has the option. `option` is a letter, or a word with its
    /// dashes.
    pub fn has(&self, option: &str) -> bool {
        match option.strip_prefix('-') {
            Some(letter) if letter.len() == 1 => self.form.split_whitespace().any(|word| {
                let word = word.trim_matches(['[', ']', '.']);
                !word.starts_with("--")
                    && word
                        .strip_prefix('-')
                        .is_some_and(|letters| letters.contains(letter))
            }),
            _ => self.form.contains(option),
        }
    }
}

/// A program and its subcommands.
#[derive(Debug)]
pub struct Program {
    /// The name of the program.
    pub name: &'static str,
    /// The options that may precede a subcommand, followed by a space. For most programs this
    /// string is empty.
    pub options: &'static str,
    /// All subcommands, in the order in which help lists them.
    pub subcommands: &'static [Subcommand],
    /// Examples in the help of the whole program.
    pub examples: &'static [&'static str],
}

/// The reason why a command line names no subcommand that can run.
#[derive(Debug)]
pub enum Unrun {
    /// The user asked for help on the whole program, or on the subcommand.
    Help(Option<&'static str>),
    /// The command line is empty.
    Nothing,
    /// The command line is wrong: the complaint, and the subcommand whose usage follows the
    /// complaint.
    Usage(String, Option<&'static str>),
}

impl Program {
    /// Finds a subcommand by its full name. An abbreviation matches no subcommand.
    pub fn find(&self, name: &str) -> Option<&'static Subcommand> {
        self.subcommands.iter().find(|one| one.name == name)
    }

    /// Returns the subcommand that the first word of a command line names. If the word is `help`,
    /// `topic` returns the subcommand to explain.
    ///
    /// # Errors
    ///
    /// Fails with [`Unrun::Help`] for `help`, or with [`Unrun::Usage`] for a word that is no
    /// subcommand.
    pub fn subcommand(
        &self,
        word: &str,
        topic: impl FnOnce() -> Option<String>,
    ) -> Result<&'static str, Unrun> {
        if word == "help" {
            let topic = topic().and_then(|topic| self.find(&topic));
            return Err(Unrun::Help(topic.map(|one| one.name)));
        }
        match self.find(word) {
            Some(known) => Ok(known.name),
            None => Err(Unrun::Usage(
                unknown(word, self.subcommands.iter().map(|one| one.name)),
                None,
            )),
        }
    }

    /// Returns the text of `help`, or of `--help` after a subcommand.
    pub fn help(&self, subcommand: Option<&str>) -> String {
        let Some(one) = subcommand.and_then(|name| self.find(name)) else {
            return self.usage(None);
        };
        let mut text = format!("usage:\t{} {}\n{}\n", self.name, one.form, one.help);
        add_examples(&mut text, one.examples);
        text
    }

    /// Returns the synopsis of the program or of one subcommand.
    pub fn usage(&self, subcommand: Option<&str>) -> String {
        if let Some(one) = subcommand.and_then(|name| self.find(name)) {
            return format!("usage:\t{} {}\n", self.name, one.form);
        }
        let mut text = format!("usage:\t{} {}<subcommand>\n", self.name, self.options);
        text.push_str("\nsubcommands:\n\thelp [subcommand]\n");
        for one in self.subcommands {
            text.push_str(&format!("\t{}\n", one.form));
        }
        add_examples(&mut text, self.examples);
        text
    }

    /// Returns the text for standard output, the text for standard error, and the exit status of a
    /// command line that runs no subcommand.
    pub fn answer(&self, why: Unrun) -> (String, String, u8) {
        match why {
            Unrun::Help(one) => (self.help(one), String::new(), crate::status::OK),
            Unrun::Nothing => {
                let said = format!("{}: {NOTHING}\n{}", self.name, self.usage(None));
                (String::new(), said, crate::status::USAGE)
            }
            Unrun::Usage(text, one) => {
                let usage = match one {
                    Some(_) => self.usage(one),
                    None => hint(self.name),
                };
                let said = format!("{}: {text}\n{usage}", self.name);
                (String::new(), said, crate::status::USAGE)
            }
        }
    }
}

/// The complaint about a command line without a subcommand.
pub const NOTHING: &str = "no subcommand was given";

/// Returns the hint that follows an error of no single subcommand. The synopses of all subcommands
/// would scroll the error off the screen.
#[must_use]
pub fn hint(program: &str) -> String {
    format!("usage:\t{program} --help lists the subcommands\n")
}

/// Returns the complaint about an unknown subcommand. The complaint also names the subcommand that
/// the user may mean.
pub fn unknown<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, names) {
        Some(name) => format!("{word}: unknown subcommand; did you mean {name}?"),
        None => format!("{word}: unknown subcommand"),
    }
}

/// Returns the name that is most similar to a word: one letter may differ, or two letters of a long
/// word. If no name is similar enough, returns the only name that begins with the word.
#[must_use]
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&str> = names.into_iter().collect();
    let most = if word.chars().count() < 5 { 1 } else { 2 };
    let near = names.iter().map(|name| (distance(word, name), *name));
    if let Some((_, name)) = near.filter(|(far, _)| *far <= most).min() {
        return Some(name);
    }
    let mut longer = names.iter().filter(|name| name.starts_with(word));
    match (longer.next(), longer.next()) {
        (Some(name), None) if !word.is_empty() => Some(name),
        _ => None,
    }
}

/// Returns the number of edits that turn one word into the other (optimal string alignment). An
/// edit adds, removes or replaces a letter, or swaps two neighbours.
fn distance(one: &str, other: &str) -> usize {
    // A word of the command line may be long, but no subcommand is longer than 32 letters.
    let letters = |word: &str| word.chars().take(32).collect::<Vec<char>>();
    let (one, other) = (letters(one), letters(other));
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

fn add_examples(text: &mut String, examples: &[&str]) {
    text.push_str("\nexamples:\n");
    for example in examples {
        text.push_str(&format!("\t{example}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_nearly_a_subcommand_names_the_subcommand() {
        let names = ["list", "boot", "install", "uninstall", "attach", "detach"];
        for (word, meant) in [
            ("lst", Some("list")),
            ("lsit", Some("list")),
            ("instal", Some("install")),
            ("unistall", Some("uninstall")),
            ("attahc", Some("attach")),
            ("uninst", Some("uninstall")),
            ("bo", Some("boot")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), meant, "{word}");
        }
        assert_eq!(
            unknown("bot", names),
            "bot: unknown subcommand; did you mean boot?"
        );
    }
}
