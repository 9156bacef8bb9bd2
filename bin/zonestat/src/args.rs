//! Parses the command line, which has two forms: that of Solaris 11 and that of the zonestat of
//! 2009.
//!
//! `-P` is the only option that has a meaning in both forms: with `-p` it selects lines, and
//! without `-p` it selects the colon-separated dashboard. `-l`, `-N`, `-P` without `-p`,
//! `--dashboard`, or no interval and no option of Solaris 11 selects the dashboard.

use std::ffi::OsString;
use std::fmt;

mod call;
mod given;
mod usage;
mod words;

use lexopt::prelude::*;

pub use call::{Call, Common, Dashboard, Form, Lines, Reports, Section, Sort, Timing, Tui};
pub use usage::{HELP, USAGE};

use given::Given;

/// The interval `default` in seconds; also the interval of `--tui`, -j and the dashboard if the
/// command line names none.
pub const DEFAULT_INTERVAL: u64 = 5;
/// The default address of `--serve`.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9781";

/// The reason why a command line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<lexopt::Error> for Wrong {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

/// The meaning of an argument of -P.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfP {
    Lines,
    Nothing,
}

/// Parses the command line; `words` are the arguments after the program's name.
///
/// # Errors
/// Fails with [`Wrong`], which names the wrong argument.
pub fn parse(words: &[OsString]) -> Result<Call, Wrong> {
    let mut given = match read(words, OfP::Lines) {
        Ok(given) if given.parseable || !given.big_p => given,
        // Without -p, -P has no argument, and the next word is an operand.
        Ok(_) | Err(_) => match read(words, OfP::Nothing) {
            Ok(given) if !given.parseable => given,
            Ok(_) => {
                return Err(Wrong(
                    "-P with -p needs the kinds of lines to print: see zonestat --help".to_owned(),
                ));
            }
            Err(error) => return Err(error),
        },
    };
    if given.help {
        return Ok(Call::Help);
    }
    let ours = [given.json, given.tui, given.metrics, given.serve];
    if ours.into_iter().filter(|one| *one).count() > 1 {
        let text = "only one of -j, --tui, --openmetrics and --serve can be given";
        return Err(Wrong(text.to_owned()));
    }
    let of_2009 =
        given.limits || given.full_names || given.dashboard || { given.big_p && !given.parseable };
    if of_2009 || (given.operands.is_empty() && !given.is_of_solaris() && !ours.contains(&true)) {
        return given.dashboard();
    }
    if given.tui || given.metrics || given.serve {
        given.refuse_reports()?;
        if given.metrics {
            given.at_most(0)?;
            return Ok(Call::OpenMetrics(given.common));
        }
        given.at_most(1)?;
        if given.serve {
            let address = given.operands.pop();
            return Ok(Call::Serve(
                given.common,
                address.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned()),
            ));
        }
        return Ok(Call::Tui(Tui {
            interval: given.interval()?.unwrap_or(2),
            common: given.common,
        }));
    }
    given.reports()
}

fn read(words: &[OsString], of_p: OfP) -> Result<Given, Wrong> {
    let mut given = Given::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next()? {
        match word {
            Short('z') => given.common.zones.extend(list(&text(&mut words)?)?),
            Short('r') => given.resources.extend(list(&text(&mut words)?)?),
            Short('n') => given.names.extend(list(&text(&mut words)?)?),
            Short('T') => given.stamp = Some(text(&mut words)?),
            Short('R') => given.reports.extend(list(&text(&mut words)?)?),
            Short('q') => given.quiet = true,
            Short('p') => given.parseable = true,
            Short('P') => {
                given.big_p = true;
                if of_p == OfP::Lines {
                    given.lines.extend(list(&text(&mut words)?)?);
                }
            }
            Short('S') => given.sort.extend(list(&text(&mut words)?)?),
            Short('l') => given.limits = true,
            Short('N') => given.full_names = true,
            Long("dashboard") => given.dashboard = true,
            Short('j') | Long("json") => given.json = true,
            Long("tui") => given.tui = true,
            Long("openmetrics") => given.metrics = true,
            Long("serve") => given.serve = true,
            Long("root") => given.common.root = Some(words.value()?.into()),
            Short('?' | 'h') | Long("help") => given.help = true,
            Value(word) => given.operands.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(given)
}

fn text(words: &mut lexopt::Parser) -> Result<String, Wrong> {
    Ok(words.value()?.string()?)
}

/// Splits `web1,db` at its commas; a comma inside brackets belongs to a range.
fn list(text: &str) -> Result<Vec<String>, Wrong> {
    let mut words = vec![String::new()];
    let mut in_range = false;
    for character in text.chars() {
        in_range = (in_range || character == '[') && character != ']';
        match words.last_mut() {
            Some(last) if in_range || character != ',' => last.push(character),
            _ => words.push(String::new()),
        }
    }
    if words.iter().any(String::is_empty) {
        return Err(Wrong(format!("Invalid list: \"{text}\"")));
    }
    Ok(words)
}
#[cfg(test)]
mod tests;
