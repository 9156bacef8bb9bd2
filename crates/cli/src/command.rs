//! Programs with subcommands: their table, and the help that is made from it.

/// A subcommand as help shows it.
#[derive(Debug)]
pub struct Subcommand {
    /// The word for it.
    pub name: &'static str,
    /// How it is called, behind the program's name.
    pub form: &'static str,
    /// What it does, and its options: lines, those that are set in begin with a tab.
    pub help: &'static str,
    /// Whole command lines.
    pub examples: &'static [&'static str],
}

impl Subcommand {
    /// Whether it has an option: a letter, or a word, with its dashes.
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
    /// Its name, and what may stand before a subcommand.
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
            None => Err(Unrun::Usage(format!("{word}: unknown subcommand"), None)),
        }
    }

    /// What `help`, or `--help` behind a subcommand, prints.
    pub fn help(&self, subcommand: Option<&str>) -> String {
        let Some(one) = subcommand.and_then(|name| self.find(name)) else {
            return self.usage(None);
        };
        let mut text = format!("usage:\t{} {}\n{}\n", self.name, one.form, one.help);
        add_examples(&mut text, one.examples);
        text
    }

    /// How the program, or one subcommand, is called.
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

    /// What to print on standard output and on standard error when there is nothing to
    /// run, and the exit status.
    pub fn answer(&self, why: Unrun) -> (String, String, u8) {
        match why {
            Unrun::Help(one) => (self.help(one), String::new(), crate::status::OK),
            Unrun::Usage(text, one) => {
                let said = format!("{}: {text}\n{}", self.name, self.usage(one));
                (String::new(), said, crate::status::USAGE)
            }
        }
    }
}

fn add_examples(text: &mut String, examples: &[&str]) {
    text.push_str("\nexamples:\n");
    for example in examples {
        text.push_str(&format!("\t{example}\n"));
    }
}
