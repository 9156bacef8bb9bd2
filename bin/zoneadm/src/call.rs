//! The command line of zoneadm up to the subcommand.

use std::ffi::OsString;
use std::path::PathBuf;

use cli::progress;
use lexopt::prelude::*;

/// The command line of zoneadm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `-R`: the alternate root.
    pub root: Option<PathBuf>,
    /// `-z`, each a name, a glob or a range.
    pub zones: Vec<String>,
    /// `-u`: the uuid of the zone.
    pub uuid: Option<String>,
    /// `--progress=json`: progress and errors are lines of JSON.
    pub json_progress: bool,
    /// The subcommand.
    pub verb: String,
    /// The words after the subcommand.
    pub rest: Vec<String>,
}

/// The reason why no subcommand can be started.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    /// The user asked for help, perhaps about a subcommand.
    Help(Option<String>),
    /// There is no subcommand.
    Nothing,
    /// The command line is wrong.
    Usage(String),
}

impl From<lexopt::Error> for Problem {
    fn from(error: lexopt::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

/// Parses the command line; `words` are the arguments after the program's name.
pub fn parse(words: Vec<OsString>) -> Result<Call, Problem> {
    let (mut root, mut zones, mut uuid) = (None, Vec::new(), None);
    let mut json_progress = false;
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next()? {
        match word {
            Short('R') => {
                let path = PathBuf::from(words.value()?);
                if !path.is_absolute() {
                    return Err(Problem::Usage("root path must be absolute.".to_owned()));
                }
                root = Some(path);
            }
            Short('z') => zones.push(words.value()?.string()?),
            Short('u') => uuid = Some(words.value()?.string()?),
            Long(progress::OPTION) => {
                let form = words.value()?.string()?;
                if form != progress::FORM {
                    let text = format!("--progress: {form}: the only form is {}", progress::FORM);
                    return Err(Problem::Usage(text));
                }
                json_progress = true;
            }
            Short('?' | 'h') | Long("help") => return Err(Problem::Help(None)),
            Value(verb) => {
                let verb = verb.string()?;
                // The other words belong to the subcommand, and are not parsed here.
                let rest = words
                    .raw_args()?
                    .map(|word| word.string())
                    .collect::<Result<_, _>>()?;
                return Ok(Call {
                    root,
                    zones,
                    uuid,
                    json_progress,
                    verb,
                    rest,
                });
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Err(Problem::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Result<Call, Problem> {
        parse(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn options_before_the_subcommand_are_ours() {
        let call = call("-R /alt -z web1 -z db boot -- -s").unwrap();
        assert_eq!(call.root.as_deref(), Some(std::path::Path::new("/alt")));
        assert_eq!(call.zones, ["web1", "db"]);
        assert_eq!(
            (call.verb.as_str(), call.rest),
            ("boot", vec!["--".into(), "-s".into()])
        );
    }

    #[test]
    fn progress_may_be_json() {
        assert!(call("--progress=json -z web1 boot").unwrap().json_progress);
        let later = call("-z web1 install --progress=json").unwrap();
        assert!(!later.json_progress && later.rest == ["--progress=json"]);
    }

    #[test]
    fn wrong_lines_are_refused() {
        assert_eq!(call("-z web"), Err(Problem::Nothing));
        for line in [
            "-z",
            "-R relative list",
            "-x list",
            "--progress boot",
            "--progress=xml boot",
        ] {
            assert!(matches!(call(line), Err(Problem::Usage(_))), "{line}");
        }
        assert_eq!(call("-?"), Err(Problem::Help(None)));
        assert_eq!(call("--help"), Err(Problem::Help(None)));
    }
}
