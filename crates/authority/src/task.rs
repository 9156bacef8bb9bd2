//! Parses the words of a user into a command of the table.

use model::ZoneName;

use crate::table::{self, Opt, Program, Rest, Value, Verb};
use crate::{Auth, Auths};

/// The reason why a command cannot be delegated to any user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The subcommand is not in the table.
    #[error("{0} is for root alone")]
    Verb(String),
    /// The option is not in the table.
    #[error("{0} is for root alone")]
    Option(String),
    /// An option has no value but needs one.
    #[error("{0} needs a value")]
    NoValue(String),
    /// A word is not allowed at its position, or is not a known option.
    #[error("{0}: not expected here")]
    Word(String),
    /// The command needs exactly one zone, but names none or several.
    #[error("exactly one zone must be named")]
    OneZone,
    /// The command names no zone.
    #[error("no zone is named")]
    NoZone,
    /// The command names no snapshot.
    #[error("no snapshot is named")]
    NoName,
    /// The command names no path in a snapshot.
    #[error("no path is named")]
    NoPath,
    /// The command has a zone name that is not valid.
    #[error("{0}: No such zone configured")]
    Name(String),
    /// The command names a path of the host, or a path in the zone that is not absolute.
    #[error(
        "{0}: expected - and absolute paths in the zone; zoneadm itself copies files of the host"
    )]
    Host(&'static str),
    /// The command has no subcommand.
    #[error("no subcommand was given")]
    NoVerb,
}

/// The operand that stands for standard input or output.
const STREAM: &str = "-";

/// A command that a row of the table allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    program: Program,
    verb: &'static str,
    zones: Vec<ZoneName>,
    source: Option<ZoneName>,
    needs: &'static [Auth],
    options: Vec<String>,
    /// The words after the options and names; the program does not parse them as options of its
    /// own.
    rest: Vec<String>,
}

impl Task {
    /// Parses the words after the program's name into a task.
    ///
    /// # Errors
    /// [`Refusal`] for every word that the table does not allow.
    pub fn parse(program: Program, words: &[String]) -> Result<Self, Refusal> {
        match program {
            Program::Zoneadm => zoneadm(words),
            Program::Zlogin => zlogin(words),
            Program::Zonecfg => zonecfg(words),
        }
    }

    /// Returns the program that runs the task.
    #[must_use]
    pub const fn program(&self) -> Program {
        self.program
    }

    /// Returns the name of the task for messages and the log.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        self.verb
    }

    /// Returns the zones of the task, at least one. Each is a name, because the client resolves
    /// globs and ranges.
    #[must_use]
    pub fn zones(&self) -> &[ZoneName] {
        &self.zones
    }

    /// Returns the zone that is the source of the clone, if the task is a clone.
    #[must_use]
    pub const fn source(&self) -> Option<&ZoneName> {
        self.source.as_ref()
    }

    /// Returns true if a user with the authorizations `auths` on a zone may run this task on the
    /// zone.
    #[must_use]
    pub fn is_allowed_by(&self, auths: Auths) -> bool {
        auths.has_any(self.needs)
    }

    /// Returns true if a user with the authorizations `auths` on a zone may clone the zone.
    #[must_use]
    pub fn may_clone_from(auths: Auths) -> bool {
        auths.has_any(table::SOURCE_NEEDS)
    }

    /// Returns the arguments for the program. Each option is a word of its own, so that every
    /// parser reads the options alike.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let named = self.zones.iter().flat_map(|zone| {
            let option = (self.program != Program::Zlogin).then(|| "-z".to_owned());
            option.into_iter().chain([zone.to_string()])
        });
        let (options, rest) = (self.options.iter().cloned(), self.rest.iter().cloned());
        match self.program {
            Program::Zoneadm => {
                let source = self.source.iter().map(ToString::to_string);
                let verb = self.verb.split(' ').map(str::to_owned);
                named
                    .chain(verb)
                    .chain(options)
                    .chain(source)
                    .chain(rest)
                    .collect()
            }
            Program::Zlogin => options.chain(named).chain(rest).collect(),
            Program::Zonecfg => named.chain(options).chain(rest).collect(),
        }
    }
}

fn zoneadm(words: &[String]) -> Result<Task, Refusal> {
    const ZONE: &[Opt] = &[Opt {
        letter: Some('z'),
        long: None,
        value: Value::Text,
    }];
    let (before, rest) = options(ZONE, words)?;
    let zones = before.iter().filter_map(|(_, value)| value.as_deref());
    let zones = zones.map(zone_name).collect::<Result<Vec<_>, _>>()?;
    let (verb, rest) = verb(rest)?;
    if zones.is_empty() {
        return Err(Refusal::NoZone);
    }
    let dashes = rest.iter().position(|word| word == "--");
    let (ours, theirs) = match dashes {
        Some(at) if verb.rest == Rest::Boot => (&rest[..at], &rest[at..]),
        _ => (rest, [].as_slice()),
    };
    let (set, operands) = options(verb.options, ours)?;
    let is_path = |word: &String| word.starts_with('/');
    let (source, rest) = match (verb.rest, operands) {
        (Rest::Words(least, most), words) => {
            if words.len() < least {
                return Err(Refusal::NoName);
            }
            let wrong = words.iter().enumerate();
            let mut wrong = wrong.filter(|(at, word)| *at >= most || !is_plain(word));
            match wrong.next() {
                Some((_, word)) => return Err(Refusal::Word(word.clone())),
                None => (None, words.to_vec()),
            }
        }
        (Rest::Moment(most), [name, paths @ ..]) => {
            // The program checks paths, which can also be base64.
            let is_option = |word: &&String| word.starts_with('-');
            let surplus = paths.get(most).or_else(|| paths.iter().find(is_option));
            let wrong = (!is_plain(name)).then_some(name).or(surplus);
            match (wrong, paths) {
                (Some(word), _) => return Err(Refusal::Word(word.clone())),
                (None, []) => return Err(Refusal::NoPath),
                (None, _) => (None, operands.to_vec()),
            }
        }
        (Rest::Moment(_), []) => return Err(Refusal::NoName),
        (Rest::Push, [stream, path]) if stream == STREAM && is_path(path) => {
            (None, operands.to_vec())
        }
        (Rest::Pull, [paths @ .., stream])
            if stream == STREAM && !paths.is_empty() && paths.iter().all(is_path) =>
        {
            (None, operands.to_vec())
        }
        (Rest::Push | Rest::Pull, _) => return Err(Refusal::Host(verb.name)),
        (Rest::Source, [source]) => (Some(zone_name(source)?), Vec::new()),
        (Rest::Name, [name]) if is_plain(name) => (None, vec![name.clone()]),
        (Rest::Source, []) => return Err(Refusal::OneZone),
        (Rest::Name, []) => return Err(Refusal::NoName),
        (Rest::Source | Rest::Name, [_, word, ..]) | (_, [word, ..]) => {
            return Err(Refusal::Word(word.clone()));
        }
        (Rest::Nothing | Rest::Boot, []) => (None, theirs.to_vec()),
    };
    Ok(Task {
        program: Program::Zoneadm,
        verb: verb.name,
        zones,
        source,
        needs: verb.needs,
        options: written(set),
        rest,
    })
}

fn zlogin(words: &[String]) -> Result<Task, Refusal> {
    let (set, rest) = options(table::ZLOGIN, words)?;
    let (zone, command) = rest.split_first().ok_or(Refusal::OneZone)?;
    let console = set.iter().any(|(option, _)| option.letter == Some('C'));
    let verb = match (console, command) {
        (true, _) => "console",
        (_, []) => "login",
        _ => "command",
    };
    Ok(Task {
        program: Program::Zlogin,
        verb,
        zones: vec![zone_name(zone)?],
        source: None,
        needs: table::ZLOGIN_NEEDS,
        options: written(set),
        rest: command.to_vec(),
    })
}

fn zonecfg(words: &[String]) -> Result<Task, Refusal> {
    const ZONE: Opt = Opt {
        letter: Some('z'),
        long: None,
        value: Value::Text,
    };
    let known: Vec<Opt> = table::ZONECFG.iter().copied().chain([ZONE]).collect();
    let (set, rest) = options(&known, words)?;
    let (zones, set): (Vec<_>, Vec<_>) = set
        .into_iter()
        .partition(|(one, _)| one.letter == Some('z'));
    let [(_, Some(zone))] = zones.as_slice() else {
        return Err(Refusal::OneZone);
    };
    Ok(Task {
        program: Program::Zonecfg,
        verb: "config",
        zones: vec![zone_name(zone)?],
        source: None,
        needs: table::ZONECFG_NEEDS,
        options: written(set),
        rest: rest.to_vec(),
    })
}

fn zone_name(text: &str) -> Result<ZoneName, Refusal> {
    text.parse().map_err(|_| Refusal::Name(text.to_owned()))
}

/// Returns the row of a subcommand, and the words after its name.
fn verb(words: &[String]) -> Result<(&'static Verb, &[String]), Refusal> {
    let (name, rest) = words.split_first().ok_or(Refusal::NoVerb)?;
    let find = |name: &str| table::ZONEADM.iter().find(|verb| verb.name == name);
    if let Some(verb) = find(name) {
        return Ok((verb, rest));
    }
    let refused = || Refusal::Verb(name.clone());
    let (second, rest) = rest.split_first().ok_or_else(refused)?;
    let name = format!("{name} {second}");
    let verb = find(&name).ok_or(Refusal::Verb(name))?;
    Ok((verb, rest))
}

/// Returns true if a word can be a name and cannot be an option or a path.
fn is_plain(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"_-.:".contains(&b);
    let first = text.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphanumeric()) && text.bytes().all(legal)
}

type Set = Vec<Given>;

/// An option with its value.
type Given = (Opt, Option<String>);

/// Parses the options at the begin of `words`, as getopt(3) does. Returns the options and the rest
/// of the words, the first of which is no option. `--` is no option here.
fn options<'a>(known: &[Opt], words: &'a [String]) -> Result<(Set, &'a [String]), Refusal> {
    let mut set = Set::new();
    let mut words = words;
    while let Some((word, behind)) = words.split_first() {
        if let Some(long) = word.strip_prefix("--") {
            let (set_one, behind) = long_option(known, long, behind)?;
            set.push(set_one);
            words = behind;
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            break;
        };
        words = behind;
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            let named = || format!("-{letter}");
            let option = known.iter().find(|one| one.letter == Some(letter));
            let option = *option.ok_or_else(|| Refusal::Option(named()))?;
            if option.value == Value::None {
                set.push((option, None));
                continue;
            }
            let value = match letters.as_str() {
                "" => {
                    let (value, behind) = words
                        .split_first()
                        .ok_or_else(|| Refusal::NoValue(named()))?;
                    words = behind;
                    value.clone()
                }
                attached => attached.to_owned(),
            };
            let fits = match option.value {
                Value::Only(only) => value == only,
                Value::Name => is_plain(&value),
                Value::Text | Value::None => true,
            };
            if !fits {
                return Err(Refusal::Option(format!("-{letter} {value}")));
            }
            set.push((option, Some(value)));
            break;
        }
    }
    Ok((set, words))
}

/// Parses a long option, whose value is in the same word or in the next one. Returns the option and
/// the words behind it.
fn long_option<'a>(
    known: &[Opt],
    long: &str,
    behind: &'a [String],
) -> Result<(Given, &'a [String]), Refusal> {
    let (name, attached) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (long, None),
    };
    let named = || format!("--{name}");
    let option = known.iter().find(|one| one.long == Some(name));
    let option = *option.ok_or_else(|| Refusal::Option(named()))?;
    match (option.value, attached) {
        (Value::None, None) => Ok(((option, None), behind)),
        (Value::Text | Value::Name, attached) => {
            let (value, behind) = match (attached, behind.split_first()) {
                (Some(value), _) => (value, behind),
                (None, Some((value, behind))) => (value.clone(), behind),
                (None, None) => return Err(Refusal::NoValue(named())),
            };
            match option.value == Value::Text || is_plain(&value) {
                true => Ok(((option, Some(value)), behind)),
                false => Err(Refusal::Option(format!("--{name} {value}"))),
            }
        }
        _ => Err(Refusal::Option(format!("--{long}"))),
    }
}

/// Returns the options as words: a letter and its value are two words, a long option and its value
/// are one.
fn written(set: Set) -> Vec<String> {
    let words = |(option, value): Given| match (option.letter, option.long, value) {
        (Some(letter), _, value) => [format!("-{letter}")].into_iter().chain(value).collect(),
        (None, Some(long), Some(value)) => vec![format!("--{long}={value}")],
        (None, long, _) => long.map(|long| format!("--{long}")).into_iter().collect(),
    };
    let words: Vec<Vec<String>> = set.into_iter().map(words).collect();
    words.concat()
}

#[cfg(test)]
mod tests;
