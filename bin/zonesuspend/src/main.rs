//! zonesuspend(8): shows and checks suspend images, and measures the speed of suspend and resume.

#[macro_use(eprint, eprintln, print)]
extern crate cli;

mod bench;
mod show;
mod subcommands;

use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use cli::command::Unrun;
use lexopt::prelude::*;
use subcommands::PROGRAM;
use suspend::{Image, Key, Loading};

/// The options and operands of a subcommand.
#[derive(Debug, Default)]
struct Options {
    json: bool,
    key: Option<PathBuf>,
    threads: Option<NonZero<usize>>,
    mebibytes: Option<NonZero<usize>>,
    rounds: Option<NonZero<usize>>,
    folder: Option<PathBuf>,
    qemu: bool,
    brief: bool,
    operands: Vec<PathBuf>,
}

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zonesuspend") {
        return status;
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let status = match parse(words) {
        Ok((verb, options)) => match act(verb, &options) {
            Ok(()) => cli::status::OK,
            Err(error) => {
                eprintln!("zonesuspend: {error:#}");
                cli::status::ERROR
            }
        },
        Err(why) => {
            let (out, complaint, status) = PROGRAM.answer(why);
            cli::output::only_prints();
            print!("{out}");
            eprint!("{complaint}");
            status
        }
    };
    cli::output::end(PROGRAM.name, status)
}

fn parse(words: Vec<OsString>) -> Result<(&'static str, Options), Unrun> {
    let usage = |text: String| Unrun::Usage(text, None);
    let (mut verb, mut options) = (None, Options::default());
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| usage(error.to_string()))? {
        let here = |text: String| Unrun::Usage(text, verb);
        let bad = |error: lexopt::Error| Unrun::Usage(error.to_string(), verb);
        let benching = verb == Some("bench");
        match word {
            Short('?' | 'h') | Long("help") => return Err(Unrun::Help(verb)),
            Value(word) if verb.is_none() => {
                let mut topic = || Some(words.value().ok()?.to_string_lossy().into_owned());
                verb = Some(PROGRAM.subcommand(&word.to_string_lossy(), &mut topic)?);
            }
            Short('j') | Long("json") if verb.is_some() => options.json = true,
            Short('k') if matches!(verb, Some("inspect" | "verify")) => {
                options.key = Some(words.value().map_err(bad)?.into());
            }
            Short('t') if matches!(verb, Some("bench" | "verify")) => {
                options.threads = Some(count(&mut words).map_err(here)?);
            }
            Short('m') if benching => options.mebibytes = Some(count(&mut words).map_err(here)?),
            Short('n') if benching => options.rounds = Some(count(&mut words).map_err(here)?),
            Short('b') if benching => options.brief = true,
            Short('q') if benching => options.qemu = true,
            Short('r') if benching => options.folder = Some(words.value().map_err(bad)?.into()),
            Value(word) => options.operands.push(word.into()),
            other => return Err(bad(other.unexpected())),
        }
    }
    let verb = verb.ok_or(Unrun::Nothing)?;
    let problem = if options.operands.len() != 1 {
        "wrong number of operands"
    } else if verb == "verify" && options.key.is_none() {
        "the key is missing"
    } else {
        return Ok((verb, options));
    };
    Err(Unrun::Usage(problem.to_owned(), Some(verb)))
}

/// Returns the number that follows an option.
fn count(words: &mut lexopt::Parser) -> Result<NonZero<usize>, String> {
    let value = words.value().map_err(|error| error.to_string())?;
    let number = value.to_str().and_then(|text| text.parse().ok());
    // A larger number is refused before it is multiplied.
    let number = number.filter(|number: &NonZero<usize>| number.get() <= 1 << 24);
    number.ok_or_else(|| format!("{}: not a number in range", value.to_string_lossy()))
}

fn act(verb: &str, options: &Options) -> Result<()> {
    // A benchmark removes its files at its end.
    if verb != "bench" {
        cli::output::only_prints();
    }
    let path = &options.operands[0];
    let threads = options.threads.unwrap_or_else(suspend::all_processors);
    match verb {
        "inspect" => match &options.key {
            None => {
                let (header, size) = Image::look(path)?;
                print!("{}", show::outside(&header, size, options.json));
            }
            Some(key) => {
                let image = Image::open(path, &Key::read(key)?)?;
                print!("{}", show::image(&image, options.json));
            }
        },
        "verify" => {
            let key = options.key.as_deref().context("the key is missing")?;
            let image = Image::open(path, &Key::read(key)?)?;
            let loading = Loading {
                threads,
                ..Loading::default()
            };
            let verified = suspend::verify(&image, &loading)?;
            print!("{}", show::verified(path, verified, options.json));
        }
        _ => {
            let plan = bench::Plan {
                file: path,
                memory: options.mebibytes.map_or(1024, NonZero::get) << 20,
                rounds: options.rounds.map_or(5, NonZero::get),
                threads,
                folder: options.folder.as_deref(),
                qemu: options.qemu,
                brief: options.brief,
            };
            let report = bench::run(&plan)?;
            print!("{}", report.render(options.json));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(words: &[&str]) -> String {
        match parse(words.iter().map(OsString::from).collect()) {
            Ok((verb, options)) => format!("{verb} {options:?}"),
            Err(Unrun::Help(verb)) => PROGRAM.help(verb),
            Err(Unrun::Nothing) => cli::command::NOTHING.to_owned(),
            Err(Unrun::Usage(text, _)) => text,
        }
    }

    #[test]
    fn errors_name_the_wrong_argument() {
        for (words, said) in [
            (&[][..], "no subcommand was given"),
            (&["look"], "look: unknown subcommand"),
            (&["inspect"], "wrong number of operands"),
            (&["inspect", "a", "b"], "wrong number of operands"),
            (&["inspect", "-t", "1", "a"], "invalid option '-t'"),
            (&["verify", "a"], "the key is missing"),
            (&["bench", "-m", "0", "a"], "0: not a number in range"),
            (
                &["bench", "-m", "9999999999", "a"],
                "9999999999: not a number in range",
            ),
            (&["bench", "-n"], "missing argument for option '-n'"),
        ] {
            assert_eq!(problem(words), said, "{words:?}");
        }
    }

    #[test]
    fn help_has_examples() {
        assert!(problem(&["--help"]).contains("examples:"));
        for one in PROGRAM.subcommands {
            for words in [["help", one.name], [one.name, "--help"]] {
                assert!(problem(&words).contains(one.examples[0]), "{words:?}");
            }
        }
    }
}
