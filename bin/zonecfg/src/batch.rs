//! Runs commands from the command line, a file, or a pipe.

use std::fs::File;
use std::io::{BufRead, Read};

use anyhow::{Context, bail};
use syntax::{Finish, Flow};

use crate::console::Terminal;
use crate::session::CfgSession;

/// Maximum size of a command file and of a line from a pipe, in bytes.
const MAX_INPUT: u64 = 16 << 20;

/// Runs the commands in a text.
pub fn run(session: &mut CfgSession, text: &str) -> Finish {
    for line in text.lines() {
        session.console().next_line();
        match session.line(line) {
            Flow::Go => {}
            Flow::Exit => break,
            Flow::Abort => return Finish::Failed,
        }
    }
    session.finish()
}

/// Runs a command file up to its first error.
pub fn file(session: &mut CfgSession, name: &str) -> anyhow::Result<Finish> {
    let file = File::open(name).with_context(|| format!("could not open file {name}"))?;
    let meta = file
        .metadata()
        .with_context(|| format!("could not stat file {name}"))?;
    if !meta.is_file() {
        bail!("{name} is not a regular file.");
    }
    let mut text = String::new();
    file.take(MAX_INPUT + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("could not read file {name}"))?;
    if text.len() as u64 > MAX_INPUT {
        bail!("{name} is larger than {MAX_INPUT} bytes.");
    }
    Ok(run(session, &text))
}

/// Runs the commands of standard input as they arrive.
pub fn stdin(session: &mut CfgSession) -> anyhow::Result<Finish> {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = String::new();
        let read = input.by_ref().take(MAX_INPUT).read_line(&mut line);
        if read.context("could not read standard input")? == 0 {
            break;
        }
        Terminal::next_line(session.console());
        session.backing().refresh();
        // The end of the line also ends an open quote.
        match session.line(line.trim_end_matches('\n')) {
            Flow::Go => {}
            Flow::Exit => break,
            Flow::Abort => return Ok(Finish::Failed),
        }
    }
    Ok(session.finish())
}
