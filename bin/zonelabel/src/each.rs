//! One line of output for each operand, or for each line of standard input if there is none.

use std::ffi::OsString;
use std::io::{BufRead, Read};

use label::Encodings;

use crate::command::{Args, Command};
use crate::names;

/// Maximum length of a line of input, in bytes: a label and blanks around it.
const MAX_LINE: u64 = 4096;

/// Reads label_encodings, and prints a line for each label of the command line or of standard input.
/// Returns the exit status.
pub fn turn(
    command: &Command,
    args: &Args,
    turn: impl Fn(&Encodings, &str) -> Result<String, String>,
) -> u8 {
    match names::of(command, args) {
        Ok(names) => print(command, &args.operands, |text| turn(&names, text)),
        Err(status) => status,
    }
}

/// Prints a line for each operand; for each line of standard input if there are no operands. Prints
/// an error for each that `turn` refuses, with the number of the line. Returns the exit status.
pub fn print(
    command: &Command,
    operands: &[OsString],
    turn: impl Fn(&str) -> Result<String, String>,
) -> u8 {
    if operands.is_empty() {
        return lines(command, &mut std::io::stdin().lock(), turn);
    }
    let mut status = cli::status::OK;
    for operand in operands {
        let turned = match operand.to_str() {
            Some(text) => turn(text),
            None => Err(format!("'{}' is not UTF-8", operand.to_string_lossy())),
        };
        match turned {
            Ok(line) => println!("{line}"),
            Err(why) => status = command.complain(&why),
        }
    }
    status
}

/// Prints a line for each line of `input` that is not empty.
fn lines(
    command: &Command,
    input: &mut dyn BufRead,
    turn: impl Fn(&str) -> Result<String, String>,
) -> u8 {
    let mut status = cli::status::OK;
    let mut number = 0;
    loop {
        let mut line = Vec::new();
        number += 1;
        match input.take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => return status,
            Ok(_) => {}
            Err(error) => return command.complain(&format!("standard input: {error}")),
        }
        let ended = line.ends_with(b"\n");
        let turned = match std::str::from_utf8(&line) {
            _ if !ended && u64::try_from(line.len()).is_ok_and(|size| size >= MAX_LINE) => {
                // The rest of the line would be read as a line of its own.
                let why = format!("standard input line {number}: longer than {MAX_LINE} bytes");
                return command.complain(&why);
            }
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => turn(text.trim()),
            Err(_) => Err("not UTF-8".to_owned()),
        };
        match turned {
            Ok(text) => println!("{text}"),
            Err(why) => status = command.complain(&format!("standard input line {number}: {why}")),
        }
    }
}
