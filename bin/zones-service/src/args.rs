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
       zones-service [-jn] [-R root] [--now time] slide

Boots zones when the host boots, and stops all zones before the host shuts down. Takes and
removes the automatic snapshots of zones.
  start               boots zones with autoboot=true, those with boot-priority=high first
                      and those with low last; suspended zones resume. Before that it
                      repairs zones after a crash of the host.
  stop                stops each zone in the way of its property autoshutdown, all at the
                      same time
  slide               takes the automatic snapshots that are due by the resource snapshots
                      of each zone, and removes those that the zone does not keep; a timer
                      or cron calls it every quarter of an hour
  -t, --timeout secs  the time for stop, by default 100 s. After three quarters of it,
                      zones that are still up are halted.
  --now time          the time for slide instead of the clock's, such as
                      2026-11-25T09:15:00Z, for tests
  -n, --dry-run       shows the planned actions
  -j, --json          as JSON
  -R root             alternate root
";

/// The action: start, stop or slide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The host boots: start zones.
    Start,
    /// The host shuts down: stop zones.
    Stop,
    /// A quarter of an hour has passed: take and remove automatic snapshots.
    Slide,
}

impl Action {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Slide => "slide",
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
    /// The time for slide in seconds since 1970; `None` for the time of the clock.
    pub now: Option<u64>,
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
    let (mut action, mut root, mut seconds, mut now) = (None, None, None, None);
    let (mut dry_run, mut json) = (false, false);
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next()? {
        match word {
            Short('j') | Long("json") => json = true,
            Short('n') | Long("dry-run") => dry_run = true,
            Short('R') => root = Some(PathBuf::from(words.value()?)),
            Short('t') | Long("timeout") => seconds = Some(timeout(&words.value()?)?),
            Long("now") => now = Some(time(&words.value()?)?),
            Short('?' | 'h') | Long("help") => return Ok(Parsed::Help),
            Value(word) if action.is_none() => {
                action = Some(match word.to_str() {
                    Some("start") => Action::Start,
                    Some("stop") => Action::Stop,
                    Some("slide") => Action::Slide,
                    _ => {
                        let word = word.to_string_lossy();
                        return Err(format!("{word}: not start, stop or slide").into());
                    }
                });
            }
            other => return Err(other.unexpected()),
        }
    }
    let action = action.ok_or("start, stop or slide is missing")?;
    if seconds.is_some() && action != Action::Stop {
        return Err("a timeout is for stop".into());
    }
    if now.is_some() && action != Action::Slide {
        return Err("a time is for slide".into());
    }
    Ok(Parsed::Call(Call {
        action,
        root,
        dry_run,
        json,
        patience: seconds.map_or_else(Patience::default, Patience::new),
        now,
    }))
}

fn time(word: &std::ffi::OsStr) -> Result<u64, lexopt::Error> {
    word.to_str().and_then(zone::utc::seconds).ok_or_else(|| {
        let word = word.to_string_lossy();
        format!("{word}: expected a time such as 2026-11-25T09:15:00Z").into()
    })
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
        let Ok(Parsed::Call(call)) = parsed("slide --now 1970-01-02T00:00:00Z") else {
            panic!("not understood");
        };
        assert_eq!((call.action, call.now), (Action::Slide, Some(86_400)));
        let Ok(Parsed::Call(call)) = parsed("stop") else {
            panic!("not understood");
        };
        assert_eq!(call.patience.all(), Duration::from_secs(100));
    }

    #[test]
    fn errors_name_the_wrong_argument() {
        for (line, said) in [
            ("", "start, stop or slide is missing"),
            ("restart", "restart: not start, stop or slide"),
            ("slide -t 5", "a timeout is for stop"),
            ("start --now 2026-11-25T09:15:00Z", "a time is for slide"),
            (
                "slide --now tomorrow",
                "tomorrow: expected a time such as 2026-11-25T09:15:00Z",
            ),
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
