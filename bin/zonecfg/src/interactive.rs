//! A session at a terminal: prompt, history, completion.

use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::rc::Rc;

use rustyline::error::ReadlineError;
use syntax::{Console as _, Finish, Flow};

use crate::batch;
use crate::keyboard::Keyboard;
use crate::session::CfgSession;

/// Runs a session until the user leaves it.
pub fn run(session: &mut CfgSession) -> anyhow::Result<Finish> {
    session.greet();
    if !io::stdin().is_terminal() {
        return batch::stdin(session);
    }
    let keyboard = Rc::new(RefCell::new(Keyboard::new()?));
    session.console().answer_from(Rc::clone(&keyboard));
    let templates = session.backing().templates();
    loop {
        if read(session, &keyboard, &templates)? == Flow::Abort {
            return Ok(Finish::Failed);
        }
        match session.finish() {
            Finish::Again => {}
            finish => return Ok(finish),
        }
    }
}

/// Reads lines and runs their commands until the session ends.
fn read(
    session: &mut CfgSession,
    keyboard: &RefCell<Keyboard>,
    templates: &[String],
) -> anyhow::Result<Flow> {
    loop {
        keyboard.borrow_mut().knows(session.context(templates));
        let read = keyboard.borrow_mut().command(&session.prompt());
        match read {
            Ok(line) => {
                session.backing().refresh();
                match session.line(&line) {
                    Flow::Go => {}
                    flow => return Ok(flow),
                }
            }
            // ^C discards the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => {
                session.console().print("\n");
                return Ok(Flow::Exit);
            }
            Err(error) => return Err(error.into()),
        }
    }
}
