//! The command line of zones-service.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;
use zone::service::Patience;

/// The synopsis of zones-service.
pub const USAGE: &str = "\
usage: zones-service [-jn] [-R root] start
       zones-service [-jn] [-R root] [-t seconds] stop

Boots zones when the host boots, and stops all zones before the host shuts down.
  start               boots zones with autoboot=true, those with boot-priority=high first
                      and those with low last; suspended zones resume. Before that it
                      repairs zones after a crash of the host.
  stop                stops each zone in the way of its property autoshutdown, all at the
                      same time
  -t, --timeout secs  the time for stop, by default 100 s. After three quarters of it,
                      zones that are still up are halted.
  -n, --dry-run       shows the planned actions
  -j, --json          as JSON
  -R root             alternate root
";

/// The action: start or stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The host boots: start zones.
    Start,
    /// The host shuts down: stop zones.
    Stop,
}

impl Action {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }
}

/// The options and the action of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub action: Action,
    pub root: Option<PathBuf>,
    pub dry_run: bool,
    pub json: bool,
    pub patience: Patience,
}

/// The request on the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    Help,
    Call(Call),
}

/// Maximum timeout, in seconds: a day.
const MAX_TIMEOUT_SECONDS: u64 = 86_400;

/// Parses the command line; `words` are the arguments after the program's name.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Parsed, lexopt::Error> {
    let (mut action, mut root, mut seconds) = (None, None, None);
    let (mut dry_run, mut json) = (false, false);
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next()? {
        match word {
            Short('j') | Long("json") => json = true,
            Short('n') | Long("dry-run") => dry_run = true,
            Short('R') => root = Some(PathBuf::from(words.value()?)),
            Short('t') | Long("timeout") => seconds = Some(timeout(&words.value()?)?),
            Short('?' | 'h') | Long("help") => return Ok(Parsed::Help),
            Value(word) if action.is_none() => {
                action = Some(match word.to_str() {
                    Some("start") => Action::Start,
                    Some("stop") => Action::Stop,
                    _ => {
                        return Err(format!("{}: not start or stop", word.to_string_lossy()).into());
                    }
                });
            }
            other => return Err(other.unexpected()),
        }
    }
    let action = action.ok_or("start or stop is missing")?;
    if seconds.is_some() && action == Action::Start {
        return Err("a timeout is for stop".into());
    }
    Ok(Parsed::Call(Call {
        action,
        root,
        dry_run,
        json,
        patience: seconds.map_or_else(Patience::default, Patience::new),
    }))
}

fn timeout(word: &std::ffi::OsStr) -> Result<Duration, lexopt::Error> {
    let seconds = word.to_str().and_then(|text| text.parse().ok());
    let seconds = seconds.filter(|seconds| (1..=MAX_TIMEOUT_SECONDS).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| {
        format!(
            "{}: expected 1 to {MAX_TIMEOUT_SECONDS} seconds",
            word.to_string_lossy()
        )
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Parsed, String> {
        let words = line.split_whitespace().map(OsString::from);
        parse(words.collect::<Vec<_>>().into_iter()).map_err(|error| error.to_string())
    }

    #[test]
    fn options_stand_on_either_side() {
        let Ok(Parsed::Call(call)) = parsed("-j stop --timeout 20 -n") else {
            panic!("not understood");
        };
        assert!(call.json && call.dry_run);
        assert_eq!(call.action, Action::Stop);
        assert_eq!(call.patience.clean(), Duration::from_secs(15));
        assert_eq!(parsed("start -?"), Ok(Parsed::Help));
        let Ok(Parsed::Call(call)) = parsed("stop") else {
            panic!("not understood");
        };
        assert_eq!(call.patience.all(), Duration::from_secs(100));
    }

    #[test]
    fn errors_name_the_wrong_argument() {
        for (line, said) in [
            ("", "start or stop is missing"),
            ("restart", "restart: not start or stop"),
            ("start stop", "unexpected argument \"stop\""),
            ("stop -t 0", "0: expected 1 to 86400 seconds"),
            ("stop -t soon", "soon: expected 1 to 86400 seconds"),
            ("start -t 5", "a timeout is for stop"),
            ("-x", "invalid option '-x'"),
        ] {
            assert_eq!(parsed(line), Err(said.to_owned()), "{line}");
        }
    }
}
