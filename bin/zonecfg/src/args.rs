//! The command line of zonecfg.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;
use model::name::BadName;
use model::{Uuid, ZoneName};
use syntax::help;

/// The lines that `--help` adds to the usage.
const MORE: &str = "
Options:
    -z <zone>     the zone to configure; create makes a new one
    -u <uuid>     the zone with this uuid
    -r            change the running zone until its next boot
    -f <file>     read the commands from a file, up to the first that fails;
                  - is standard input
    --atomic      save all changes or none: the first error ends the session
    --digest      print the digest of the stored configuration
    --expect <digest>
                  save nothing if the stored configuration has another digest
    -R <root>     use the files of zones below this directory (also ZONES_ROOT)

Examples:
    zonecfg -z web1 create
        a sparse zone in /zones/web1 that shares the host's software
    zonecfg -z web1 'create -b; set autoboot=true'
        a zone with a whole root that boots with the host
    zonecfg -z web1 create -t SYSsystemd
        a zone with a root of its own that boots systemd, as a machine does
    zonecfg -z web1 create -t SYSsmall
        a sparse zone whose init, zinit, starts the enabled services
    zonecfg -z web1 'add fs; set dir=/data; set special=/srv/data; set type=lofs; end'
        the host's /srv/data as /data in the zone
    zonecfg -z web1 export > web1.cfg; zonecfg -z web2 -f web1.cfg
        web2 configured like web1
    zonecfg -z web1 info
    zonecfg -z SYSdefault info
        print a template; templates cannot be changed
    zonecfg -z web1 delete -F
    zonecfg -z 'web*' delete -F
        delete all zones whose names begin with web
    d=$(zonecfg -z web1 --digest); zonecfg -z web1 --atomic --expect $d -f web1.cfg
        change web1 as a whole, unless another session has changed it since
    zonecfg -z web1 -r 'set max-lwps=500'
        change the running zone at once, until its next boot
    zonecfg -z global 'set cpu-shares=10'
        store the host's own share of the CPUs; zoneadm -z global apply sets it

";

/// The request on the command line.
#[derive(Debug)]
pub enum Input {
    /// Print this text and exit.
    Help(String),
    /// `help` about a subject that does not exist.
    NoSuchSubject(String),
    /// Run a session.
    Session(Args),
    /// Print the digest of a stored configuration.
    Digest {
        /// `-R`.
        root: Option<PathBuf>,
        /// The zone.
        zone: Zone,
    },
    /// Delete all zones that a pattern selects.
    Deletion {
        /// `-R`.
        root: Option<PathBuf>,
        /// The pattern.
        pattern: String,
    },
}

/// A session to run.
#[derive(Debug)]
pub struct Args {
    /// `-R`.
    pub root: Option<PathBuf>,
    /// `-r`: the running configuration of the zone instead of the stored one.
    pub live: bool,
    /// The zone.
    pub zone: Zone,
    /// The source of commands.
    pub commands: Commands,
    /// `--atomic`: all changes are stored, or none.
    pub atomic: bool,
    /// `--expect`: the digest of the configuration that the caller has seen.
    pub expected: Option<String>,
}

/// The option that selects the zone.
#[derive(Debug)]
pub enum Zone {
    /// `-z`
    Name(ZoneName),
    /// `-u`
    Uuid(Uuid),
}

/// The source of commands.
#[derive(Debug)]
pub enum Commands {
    /// Commands that the user types at standard input.
    Interactive,
    /// Commands on the command line.
    Words(String),
    /// Commands from a file; `-` is standard input.
    File(String),
}

/// Parses the command line. The error is the text to print before exit status 2.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Input, String> {
    let mut parser = lexopt::Parser::from_iter(args);
    let (mut zone, mut file, mut root, mut pattern) = (None, None, None, None);
    let mut words = Vec::new();
    let (mut live, mut any, mut atomic, mut digest) = (false, false, false, false);
    let mut expected = None;
    while let Some(arg) = parser.next().map_err(usage_after)? {
        any = true;
        match arg {
            Short('z') => {
                let word = text(&mut parser)?;
                match cli::select::is_pattern(&word) {
                    true => pattern = Some(word),
                    false => zone = Some(name(&word)?),
                }
            }
            Short('u') => {
                let uuid = text(&mut parser)?.parse().map_err(usage_after)?;
                zone = Some(Zone::Uuid(uuid));
            }
            Short('r') => live = true,
            Long("atomic") => atomic = true,
            Long("digest") => digest = true,
            Long("expect") => expected = Some(text(&mut parser)?),
            Short('f') => file = Some(text(&mut parser)?),
            Short('R') => root = Some(PathBuf::from(parser.value().map_err(usage_after)?)),
            Short('?' | 'h') | Long("help") => {
                return Ok(Input::Help(format!("{}{MORE}", help::USAGE)));
            }
            Value(first) => {
                // All further words are in zonecfg's language, even if they look like options.
                words.push(first);
                words.extend(parser.raw_args().map_err(usage_after)?);
            }
            other => return Err(usage_after(other.unexpected())),
        }
    }
    let words: Vec<String> = words
        .into_iter()
        .map(|word| {
            word.into_string()
                .map_err(|_| usage_after("arguments must be UTF-8"))
        })
        .collect::<Result<_, _>>()?;
    if let Some(pattern) = pattern {
        let deletes = words.join(" ").split_whitespace().eq(["delete", "-F"]);
        if zone.is_some() || file.is_some() || live || !deletes {
            return Err(usage_after(format!(
                "{pattern}: a pattern selects zones only for: delete -F"
            )));
        }
        return Ok(Input::Deletion { root, pattern });
    }
    if zone.is_none() && words.first().is_some_and(|word| word == "help") {
        return Ok(help(&words[1..]));
    }
    let Some(zone) = zone else {
        let commands = if any {
            String::new()
        } else {
            help::commands(None)
        };
        return Err(format!("{}{commands}", help::USAGE));
    };
    let commands = match (words.is_empty(), file) {
        (false, None) => Commands::Words(words.join(" ")),
        (true, Some(file)) => Commands::File(file),
        (true, None) => Commands::Interactive,
        (false, Some(_)) => return Err(usage_after("commands and -f exclude each other")),
    };
    let is_interactive = matches!(commands, Commands::Interactive);
    if digest {
        if !is_interactive || live || atomic || expected.is_some() {
            return Err(usage_after(
                "--digest goes with no commands and no other option",
            ));
        }
        return Ok(Input::Digest { root, zone });
    }
    if is_interactive && (atomic || expected.is_some()) {
        return Err(usage_after("--atomic and --expect need commands or -f"));
    }
    if live && expected.is_some() {
        return Err(usage_after(
            "--expect compares the stored configuration, not that of -r",
        ));
    }
    Ok(Input::Session(Args {
        root,
        live,
        zone,
        commands,
        atomic,
        expected,
    }))
}

fn help(words: &[String]) -> Input {
    match words {
        [] => Input::Help(format!("{}{}", help::USAGE, help::commands(None))),
        [subject, ..] => help::subject(subject)
            .map_or_else(|| Input::NoSuchSubject(subject.clone()), Input::Help),
    }
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    let value = parser.value().map_err(usage_after)?;
    value
        .into_string()
        .map_err(|_| usage_after("arguments must be UTF-8"))
}

fn name(text: &str) -> Result<Zone, String> {
    if text == model::name::GLOBAL {
        return Ok(Zone::Name(ZoneName::global()));
    }
    // A template can be read but not changed.
    if let Some(template) = ZoneName::template(text) {
        return Ok(Zone::Name(template));
    }
    // As the original's messages this one names the zone and not the program.
    text.parse()
        .map(Zone::Name)
        .map_err(|error: BadName| format!("{error}\n{}", help::USAGE))
}

fn usage_after(error: impl std::fmt::Display) -> String {
    format!("zonecfg: {error}\n{}", help::USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Input, String> {
        let args = std::iter::once("zonecfg").chain(line.split_whitespace());
        parse(args.map(OsString::from))
    }

    fn session(line: &str) -> Args {
        match words(line) {
            Ok(Input::Session(args)) => args,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_pattern_selects_zones_only_to_delete_them() {
        for line in ["-z web* delete -F", "-R /alt -z web[1-3] delete -F"] {
            assert!(matches!(words(line), Ok(Input::Deletion { .. })), "{line}");
        }
        for line in [
            "-z web* delete",
            "-z web* info",
            "-z web*",
            "-z web* -f file",
            "-z web -z web* delete -F",
            "-r -z web* delete -F",
        ] {
            let error = words(line).expect_err(line);
            assert!(error.contains("only for: delete -F"), "{line}: {error}");
        }
    }

    #[test]
    fn commands_keep_their_own_options() {
        let args = session("-z web1 delete -F");
        assert!(matches!(args.commands, Commands::Words(text) if text == "delete -F"));
        let args = session("-zweb1 create -t SUNWblank -z x");
        assert!(
            matches!(args.commands, Commands::Words(text) if text == "create -t SUNWblank -z x")
        );
        assert!(matches!(args.zone, Zone::Name(name) if name.as_str() == "web1"));
        assert!(matches!(session("-z web1").commands, Commands::Interactive));
        assert!(matches!(session("-z a -f -").commands, Commands::File(file) if file == "-"));
    }

    #[test]
    fn digests_and_atomic_sessions() {
        let args = session("-z web --atomic --expect abc -f -");
        assert!(args.atomic && args.expected.as_deref() == Some("abc"));
        let args = session("-z web info --atomic");
        assert!(!args.atomic, "an option after a command is the command's");
        assert!(matches!(words("-z web --digest"), Ok(Input::Digest { .. })));
        for wrong in [
            "-z web --atomic",
            "-z web --expect abc",
            "-z web --digest info",
            "-z web --digest --atomic",
            "-z web -r --expect abc info",
            "-z web --expect",
        ] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bad_usage_is_told() {
        for bad in [
            "",
            "-z",
            "info",
            "-q -z a",
            "-z SUNW/default info",
            "-z a -f x info",
            "-u 1 info",
            "-R",
        ] {
            assert!(words(bad).is_err(), "{bad}");
        }
        assert!(matches!(words("help"), Ok(Input::Help(_))));
        assert!(matches!(words("-?"), Ok(Input::Help(_))));
        assert!(matches!(
            words("help nonsense"),
            Ok(Input::NoSuchSubject(_))
        ));
    }
}
