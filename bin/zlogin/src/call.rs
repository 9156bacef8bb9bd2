//! The command line of zlogin.

use std::ffi::OsString;

use lexopt::prelude::*;
use platform::trusted::Sight;

/// The command line of zlogin.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    pub zone: String,
    pub user: String,
    pub mode: Mode,
    /// `-S`: start a shell without login or su.
    pub failsafe: bool,
    /// `-n`: no standard input.
    pub no_input: bool,
    /// `-Q`: quiet.
    pub quiet: bool,
    /// The escape character; `None` with `-E`.
    pub escape: Option<u8>,
    /// A trusted login in an immutable zone: `-T`, or `-U` for a sight of the zone's own data.
    pub trusted: Option<Sight>,
}

/// The kind of login.
#[derive(Debug, PartialEq, Eq)]
pub enum Mode {
    /// A session, or a shell that reads commands from standard input if standard input is not a
    /// terminal.
    Session,
    /// A command; `-i` gives the command a terminal of its own.
    Command { words: Vec<String>, terminal: bool },
    /// The console of the zone.
    Console { leave_on_halt: bool },
}

/// The reason why the command line starts nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum Problem {
    Help,
    Usage(String),
}

impl From<lexopt::Error> for Problem {
    fn from(error: lexopt::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

#[derive(Default)]
struct Flags {
    console: bool,
    leave_on_halt: bool,
    terminal: bool,
    failsafe: bool,
    no_input: bool,
    quiet: bool,
    no_escape: bool,
    escape: Option<u8>,
    user: Option<String>,
    /// The variables of `--env`, as `NAME=VALUE`.
    env: Vec<String>,
    /// The folder of `--cwd`.
    cwd: Option<String>,
    trusted: bool,
    unsafe_too: bool,
}

/// Parses the command-line words that follow the program's name.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Call, Problem> {
    let mut flags = Flags::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next()? {
        match word {
            Long("cwd") => flags.cwd = Some(folder(words.value()?.string()?)?),
            Long("env") => flags.env.push(variable(words.value()?.string()?)?),
            Short('C') => flags.console = true,
            Short('d') => flags.leave_on_halt = true,
            Short('E') => flags.no_escape = true,
            Short('e') => flags.escape = Some(character(&words.value()?.string()?)?),
            Short('i') => flags.terminal = true,
            Short('l') => flags.user = Some(words.value()?.string()?),
            Short('n') => flags.no_input = true,
            Short('Q') => flags.quiet = true,
            Short('S') => flags.failsafe = true,
            Short('T') => flags.trusted = true,
            Short('U') => flags.unsafe_too = true,
            Short('?' | 'h') | Long("help") => return Err(Problem::Help),
            Value(zone) => {
                let zone = zone.string()?;
                // Options after the zone's name belong to the command.
                let rest = words
                    .raw_args()?
                    .map(|word| word.string())
                    .collect::<Result<_, _>>()?;
                return flags.with(zone, rest);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Err(Problem::Usage("no zone is named".to_owned()))
}

impl Flags {
    fn with(self, zone: String, rest: Vec<String>) -> Result<Call, Problem> {
        let usage = |text: &str| Err(Problem::Usage(text.to_owned()));
        if self.console {
            if !rest.is_empty() || self.user.is_some() || self.failsafe || self.terminal {
                return usage("-C goes without -i, -l, -S and commands");
            }
        } else if self.leave_on_halt {
            return usage("-d goes with -C");
        }
        let trusted = match (self.trusted, self.unsafe_too) {
            (true, true) => return usage("-T and -U do not go together"),
            (true, false) => Some(Sight::Hidden),
            (false, true) => Some(Sight::Shown),
            (false, false) => None,
        };
        if self.console && trusted.is_some() {
            return usage("-C goes without -T and -U");
        }
        if self.failsafe && self.user.is_some() {
            return usage("-S and -l do not go together");
        }
        if self.terminal && rest.is_empty() {
            return usage("-i needs a command");
        }
        if (!self.env.is_empty() || self.cwd.is_some()) && rest.is_empty() {
            return usage("--env and --cwd need a command");
        }
        let rest = within(self.cwd.as_deref(), &self.env, rest);
        let user = self.user.unwrap_or_else(|| "root".to_owned());
        if user.is_empty() || user.starts_with('-') || user.contains(['\0', ':', '\n']) {
            return usage("-l: not a user name");
        }
        let mode = match (self.console, rest.is_empty()) {
            (true, _) => Mode::Console {
                leave_on_halt: self.leave_on_halt,
            },
            (false, true) => Mode::Session,
            (false, false) => Mode::Command {
                words: rest,
                terminal: self.terminal,
            },
        };
        Ok(Call {
            zone,
            user,
            mode,
            failsafe: self.failsafe,
            no_input: self.no_input,
            quiet: self.quiet,
            escape: (!self.no_escape).then_some(self.escape.unwrap_or(b'~')),
            trusted,
        })
    }
}

/// Returns the words of a command that runs `words` in the folder `cwd` with the variables `env`.
/// The user's login shell executes it, which may be any shell, and starts sh(1) for the words.
fn within(cwd: Option<&str>, env: &[String], words: Vec<String>) -> Vec<String> {
    if cwd.is_none() && env.is_empty() {
        return words;
    }
    let mut command = Vec::new();
    if let Some(folder) = cwd {
        command.extend(["cd".to_owned(), quoted(folder), "&&".to_owned()]);
    }
    command.extend(["exec", "env"].map(str::to_owned));
    command.extend(env.iter().map(|one| quoted(one)));
    command.extend(["sh", "-c"].map(str::to_owned));
    command.push(quoted(&words.join(" ")));
    command
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Checks the folder of `--cwd`. A relative path would depend on the home folder of the user.
fn folder(text: String) -> Result<String, Problem> {
    if text.starts_with('/') && !text.contains('\0') {
        return Ok(text);
    }
    Err(Problem::Usage(format!(
        "--cwd {text}: expected an absolute path in the zone"
    )))
}

/// Checks a variable of `--env`: letters, digits and `_` before the first `=`.
fn variable(text: String) -> Result<String, Problem> {
    let name = text.split_once('=').map(|(name, _)| name);
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if name.is_some_and(is_name) && !text.contains('\0') {
        return Ok(text);
    }
    Err(Problem::Usage(format!("--env {text}: expected NAME=VALUE")))
}

/// Parses an escape character: a character, or a backslash and an octal number.
fn character(text: &str) -> Result<u8, Problem> {
    let bad = || {
        Problem::Usage(format!(
            "-e {text}: expected one character or \\ooo in octal"
        ))
    };
    if let [byte] = text.as_bytes() {
        return Ok(*byte);
    }
    let digits = text.strip_prefix('\\').ok_or_else(bad)?;
    u8::from_str_radix(digits, 8).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Result<Call, Problem> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn session_command_and_console_lines_are_parsed() {
        let session = call("-l joe web1").unwrap();
        assert_eq!(
            (session.mode, session.user.as_str()),
            (Mode::Session, "joe")
        );
        assert_eq!(session.escape, Some(b'~'));
        let command = call("-e @ web1 ls -l /tmp").unwrap();
        let words = ["ls", "-l", "/tmp"].map(str::to_owned).to_vec();
        assert_eq!(
            command.mode,
            Mode::Command {
                words,
                terminal: false
            }
        );
        assert_eq!(command.escape, Some(b'@'));
        assert_eq!(
            call("-C -E web1").unwrap().mode,
            Mode::Console {
                leave_on_halt: false
            }
        );
        assert_eq!(call("-e \\001 web1").unwrap().escape, Some(1));
    }

    #[test]
    fn a_command_gets_its_folder_and_its_variables() {
        let of = |words: &[&str]| match parse(words.iter().map(OsString::from)).unwrap().mode {
            Mode::Command { words, .. } => words.join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            of(&[
                "--cwd",
                "/srv/a b",
                "--env",
                "A=it's",
                "--env=B=2",
                "web1",
                "make",
                "-j"
            ]),
            r"cd '/srv/a b' && exec env 'A=it'\''s' 'B=2' sh -c 'make -j'"
        );
        assert_eq!(
            of(&["--env", "A=", "web1", "echo 'x'; exit 3"]),
            r"exec env 'A=' sh -c 'echo '\''x'\''; exit 3'"
        );
    }

    #[test]
    fn conflicting_options_are_refused() {
        for line in [
            "",
            "-C web1 ls",
            "-C -l joe web1",
            "-C -S web1",
            "-S -l joe web1",
            "-d web1",
            "-i web1",
            "-e ab web1",
            "-l -f web1",
            "-x web1",
            "--cwd srv web1 ls",
            "--cwd /srv web1",
            "--env A=1 web1",
            "--env A web1 ls",
            "--env 1=2 web1 ls",
            "--env A-B=2 web1 ls",
            "-C --cwd /srv web1",
        ] {
            assert!(matches!(call(line), Err(Problem::Usage(_))), "{line}");
        }
        assert_eq!(call("-?"), Err(Problem::Help));
    }
}
