//! Lines that a user types or pastes at a terminal.
//!
//! The same reader reads commands and answers to questions. A paste of several lines may hold both,
//! so the reader keeps lines that were read too early.

use std::collections::VecDeque;
use std::fmt;

use model::Config;
use model::config::Resource;
use rustyline::completion::Completer;
use rustyline::config::CompletionType;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Editor, Helper};
use syntax::complete::{self, Context};

/// The line reader of one terminal.
pub struct Keyboard {
    editor: Editor<Words, MemHistory>,
    /// Lines of a paste that are not used yet.
    pasted: VecDeque<String>,
}

impl fmt::Debug for Keyboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyboard")
            .field("pasted", &self.pasted)
            .finish_non_exhaustive()
    }
}

impl Keyboard {
    /// Creates the line reader of standard input.
    pub fn new() -> rustyline::Result<Self> {
        let config = rustyline::Config::builder()
            .completion_type(CompletionType::List)
            .build();
        let mut editor = Editor::with_history(config, MemHistory::new())?;
        editor.set_helper(Some(Words::default()));
        Ok(Self {
            editor,
            pasted: VecDeque::new(),
        })
    }

    /// Updates the words that completion offers from the session's context.
    pub fn knows(&mut self, context: Context<'_>) {
        if let Some(words) = self.editor.helper_mut() {
            *words = Words::of(context);
        }
    }

    /// Reads a command.
    pub fn command(&mut self, prompt: &str) -> rustyline::Result<String> {
        let line = self.line(prompt)?;
        self.editor.add_history_entry(&line)?;
        Ok(line)
    }

    /// Asks until the user answers yes or no. Returns `None` at the end of input. ^C counts as no.
    pub fn ask(&mut self, question: &str) -> Option<bool> {
        loop {
            match self.line(&format!("{question} (y/[n])? ")) {
                Ok(line) => {
                    if let Some(answer) = cli::prompt::answer(&line) {
                        return Some(answer);
                    }
                }
                Err(ReadlineError::Interrupted) => return Some(false),
                Err(_) => return None,
            }
        }
    }

    /// Reads a line. A terminal with bracketed paste returns a paste of several lines at once.
    fn line(&mut self, prompt: &str) -> rustyline::Result<String> {
        if let Some(line) = self.pasted.pop_front() {
            return Ok(line);
        }
        let text = self.editor.readline(prompt)?;
        let mut lines = text.split('\n').map(str::to_owned);
        let first = lines.next().unwrap_or_default();
        self.pasted.extend(lines);
        // A paste that ends with a line break yields an empty last line, which is dropped.
        if self.pasted.back().is_some_and(String::is_empty) {
            self.pasted.pop_back();
        }
        Ok(first)
    }
}

/// The part of the session that completion uses while a line is edited.
#[derive(Default)]
struct Words {
    config: Option<Config>,
    resource: Option<Resource>,
    templates: Vec<String>,
}

impl Words {
    fn of(context: Context<'_>) -> Self {
        Self {
            config: context.config.cloned(),
            resource: context.resource.cloned(),
            templates: context.templates.to_vec(),
        }
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let context = Context {
            config: self.config.as_ref(),
            resource: self.resource.as_ref(),
            templates: &self.templates,
        };
        Ok(complete::complete(&line[..pos], context))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Validator for Words {}

impl Helper for Words {}
