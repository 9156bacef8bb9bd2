//! Standard output, standard error, and questions to the user.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::rc::Rc;

use rustix::io::Errno;
use syntax::{Console, Mode, SyntaxError, help};

use crate::keyboard::Keyboard;

/// The terminal of a session, or the streams that replace it.
#[derive(Debug)]
pub struct Terminal {
    /// The name of the command file of `-f`.
    file: Option<String>,
    line: usize,
    may_ask: bool,
    /// The keyboard from which the user types both commands and answers.
    keyboard: Option<Rc<RefCell<Keyboard>>>,
    pager: Option<String>,
}

impl Terminal {
    /// Creates the streams of a session. Questions are asked only if a user sits at standard input
    /// and no command file is read.
    pub fn new(mode: Mode, file: Option<&str>) -> Self {
        let at_terminal = cli::prompt::can_ask();
        let pages = mode == Mode::Interactive && at_terminal && io::stdout().is_terminal();
        Self {
            file: file.map(str::to_owned),
            line: 0,
            may_ask: at_terminal && mode != Mode::File,
            keyboard: None,
            pager: pages
                .then(|| std::env::var("PAGER").ok())
                .flatten()
                .filter(|pager| !pager.trim().is_empty()),
        }
    }

    /// Reads answers from the same keyboard as the commands.
    pub fn answer_from(&mut self, keyboard: Rc<RefCell<Keyboard>>) {
        self.keyboard = Some(keyboard);
    }

    /// Counts the line of the command file that is read next.
    pub const fn next_line(&mut self) {
        self.line += 1;
    }

    /// Returns a place such as `line 3 of web.cfg`; `None` if commands do not come from a file.
    fn place(&self) -> Option<String> {
        match self.file.as_deref()? {
            "-" => Some(format!("line {}", self.line)),
            file => Some(format!("line {} of {file}", self.line)),
        }
    }
}

impl Console for Terminal {
    fn print(&mut self, text: &str) {
        write(text);
    }

    fn page(&mut self, text: &str) {
        let paged = self.pager.as_ref().is_some_and(|pager| page(pager, text));
        if !paged {
            write(text);
        }
    }

    fn notice(&mut self, text: &str) {
        eprintln!("{text}");
    }

    fn error(&mut self, text: &str) {
        if let Some(place) = self.place() {
            eprintln!("On {place}:");
        }
        eprintln!("{text}");
    }

    fn syntax_error(&mut self, error: &SyntaxError) {
        let place = self.place().map(|place| format!(" on {place}"));
        let place = place.unwrap_or_default();
        eprintln!("syntax error{place} at {}", error.at());
        match error.verb() {
            Some(verb) => eprint!("{}", help::usage(verb)),
            None => eprintln!("Type \"zonecfg help commands\" for the commands."),
        }
    }

    fn ask(&mut self, question: &str) -> Option<bool> {
        if !self.may_ask {
            return None;
        }
        match &self.keyboard {
            Some(keyboard) => keyboard.borrow_mut().ask(question),
            None => cli::prompt::ask(question),
        }
    }
}

/// Writes to standard output. If the reader of `info` or `export` closes the pipe early, the
/// session continues without an error.
fn write(text: &str) {
    match cli::output::write(text.as_bytes()) {
        Ok(()) | Err(Errno::PIPE) => {}
        Err(errno) => cli::output::lost(errno),
    }
}

/// Shows text in the user's pager. Returns false if no pager works.
fn page(pager: &str, text: &str) -> bool {
    let child = Command::new("/bin/sh")
        .args(["-c", pager])
        .stdin(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        return false;
    };
    if let Some(mut input) = child.stdin.take() {
        // A pager that the user leaves early closes its input.
        let _ = input.write_all(text.as_bytes());
    }
    // Status 127 means that the shell did not find the pager.
    child.wait().is_ok_and(|status| status.code() != Some(127))
}
