//! A session at a terminal: prompt, history, completion.

use std::io::{self, IsTerminal};

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
use syntax::{Finish, Flow, Session};

use crate::batch;
use crate::console::Terminal;
use crate::live::Kept;

/// The session this program runs.
pub type CfgSession = Session<Kept, Terminal>;

/// Runs a session until the user leaves it.
pub fn run(session: &mut CfgSession) -> anyhow::Result<Finish> {
    session.greet();
    if !io::stdin().is_terminal() {
        return batch::stdin(session);
    }
    let config = rustyline::Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(true)
        .build();
    let mut editor = Editor::with_history(config, MemHistory::new())?;
    editor.set_helper(Some(Words::default()));
    let templates = session.backing().templates();
    loop {
        if read(session, &mut editor, &templates)? == Flow::Abort {
            return Ok(Finish::Failed);
        }
        match session.finish() {
            Finish::Again => {}
            finish => return Ok(finish),
        }
    }
}

/// Reads and carries out lines until the session ends.
fn read(
    session: &mut CfgSession,
    editor: &mut Editor<Words, MemHistory>,
    templates: &[String],
) -> anyhow::Result<Flow> {
    loop {
        if let Some(words) = editor.helper_mut() {
            *words = Words::of(session, templates);
        }
        match editor.readline(&session.prompt()) {
            Ok(line) => {
                session.backing().refresh();
                match session.line(&line) {
                    Flow::Go => {}
                    flow => return Ok(flow),
                }
            }
            // ^C abandons the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => {
                session.console().write("\n");
                return Ok(Flow::Exit);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What completion knows of the session while a line is edited.
#[derive(Default)]
struct Words {
    config: Option<Config>,
    resource: Option<Resource>,
    templates: Vec<String>,
}

impl Words {
    fn of(session: &CfgSession, templates: &[String]) -> Self {
        let context = session.context(templates);
        Self {
            config: context.config.cloned(),
            resource: context.resource.cloned(),
            templates: templates.to_vec(),
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
