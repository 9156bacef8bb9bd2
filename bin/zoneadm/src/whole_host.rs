//! The command line of the subcommands that check the whole host. They take no zone, only `-r` to
//! repair what they found and `-j` for JSON.

use lexopt::prelude::*;

use crate::call::Call;
use crate::usage;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub repair: bool,
    pub json: bool,
}

/// Runs `act` with the options of subcommand `name`, and returns its exit status. Users without
/// root are refused; `deed` completes the message: "only a privileged user may ...".
pub fn run(
    call: &Call,
    name: &str,
    deed: &str,
    act: impl FnOnce(Options) -> Result<u8, String>,
) -> u8 {
    let options = match parse(&call.rest) {
        Ok(Some(options)) => options,
        Ok(None) => return usage::print(Some(name)),
        Err(text) => return usage::complain(&text, Some(name)),
    };
    if !options.repair {
        cli::output::only_prints();
    }
    if !call.zones.is_empty() || call.uuid.is_some() {
        let text = format!("{name} takes no zone: it looks at the whole host");
        return usage::complain(&text, Some(name));
    }
    let done = match cli::current_zone() {
        Some(zone) => Err(format!("zone {zone} has no zones of its own")),
        None if !cli::is_root() => Err(format!("only a privileged user may {deed}.")),
        None => act(options),
    };
    done.unwrap_or_else(|text| {
        eprintln!("zoneadm: {text}");
        cli::status::ERROR
    })
}

fn parse(words: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('r') => options.repair = true,
            Short('j') | Long("json") => options.json = true,
            Short('?' | 'h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_few() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let both = Options {
            repair: true,
            json: true,
        };
        assert_eq!(parse(&words("-r -j")), Ok(Some(both)));
        assert_eq!(parse(&words("--help")), Ok(None));
        for wrong in ["-n", "web"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
