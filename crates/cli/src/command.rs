//! Programs with subcommands: their table, and the help that is made from it.

/// A subcommand as help shows it.
#[derive(Debug)]
pub struct Subcommand {
    /// The word for it.
    pub name: &'static str,
    /// The synopsis, without the program's name.
    pub form: &'static str,
    /// The description and the options: option lines begin with a tab.
    pub help: &'static str,
    /// Whole command lines.
    pub examples: &'static [&'static str],
}

impl Subcommand {
    /// Returns whether the command has an option: a letter, or a word, with its dashes.
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
    /// Its name, and the options that may stand before a subcommand.
    pub name: &'static str,
    /// The options before a subcommand, with a space behind them; mostly none.
    pub options: &'static str,
    /// Every subcommand, in the order of help.
    pub subcommands: &'static [Subcommand],
    /// Of help on the whole.
    pub examples: &'static [&'static str],
}

/// Why there is nothing to run.
#[derive(Debug)]
pub enum Unrun {
    /// Help was asked for, on all or on one subcommand.
    Help(Option<&'static str>),
    /// Nothing was asked for.
    Nothing,
    /// That is not how it, or the subcommand, is called.
    Usage(String, Option<&'static str>),
}

impl Program {
    /// Finds a subcommand; abbreviations are none.
    pub fn find(&self, name: &str) -> Option<&'static Subcommand> {
        self.subcommands.iter().find(|one| one.name == name)
    }

    /// The first word of a command line: a subcommand, or `help` with its `topic`.
    ///
    /// # Errors
    ///
    /// Help, or a word that is no subcommand.
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

    /// Returns the texts for standard output and standard error and the exit status when there is
    /// nothing to run.
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

/// Returns the line behind an error that concerns no single subcommand: all of them would
/// scroll the error away.
#[must_use]
pub fn hint(program: &str) -> String {
    format!("usage:\t{program} --help lists the subcommands\n")
}

/// Returns the complaint about a word that is no subcommand, with the one that may be meant.
pub fn unknown<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, names) {
        Some(name) => format!("{word}: unknown subcommand; did you mean {name}?"),
        None => format!("{word}: unknown subcommand"),
    }
}

/// Returns the name that differs least from a word: in one letter, or in two of a long word;
/// else the only one that begins with the word.
fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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

/// Returns how many letters must be added, left out, replaced or exchanged with the next one to
/// make one word of the other (optimal string alignment).
fn distance(one: &str, other: &str) -> usize {
    // A command line may be long, and no subcommand is.
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
