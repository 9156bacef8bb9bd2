//! From the words of a user to a command of the table.

use model::ZoneName;

use crate::table::{self, Opt, Program, Rest, Value};
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
    /// An option without its value.
    #[error("{0} needs a value")]
    NoValue(String),
    /// A word too many, or one that is no option.
    #[error("{0}: not expected here")]
    Word(String),
    /// No zone is named, or more than one where there must be one.
    #[error("exactly one zone must be named")]
    OneZone,
    /// No zone is named.
    #[error("no zone is named")]
    NoZone,
    /// No snapshot is named.
    #[error("no snapshot is named")]
    NoName,
    /// A name that no zone can have.
    #[error("{0}: No such zone configured")]
    Name(String),
    /// No subcommand.
    #[error("no subcommand was given")]
    NoVerb,
}

/// A command that the table knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    program: Program,
    verb: &'static str,
    zones: Vec<ZoneName>,
    source: Option<ZoneName>,
    needs: &'static [Auth],
    options: Vec<String>,
    /// Words behind all that; the program does not take them for options of its own.
    rest: Vec<String>,
}

impl Task {
    /// Finds the task in the words behind the program's name.
    ///
    /// # Errors
    /// [`Refusal`] for whatever is not in the table.
    pub fn parse(program: Program, words: &[String]) -> Result<Self, Refusal> {
        match program {
            Program::Zoneadm => zoneadm(words),
            Program::Zlogin => zlogin(words),
            Program::Zonecfg => zonecfg(words),
        }
    }

    /// The program.
    #[must_use]
    pub const fn program(&self) -> Program {
        self.program
    }

    /// Returns the name of the task for messages and the log.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        self.verb
    }

    /// The zones to act on, at least one. They are named one by one: the client resolves globs and
    /// ranges.
    #[must_use]
    pub fn zones(&self) -> &[ZoneName] {
        &self.zones
    }

    /// The zone that is cloned.
    #[must_use]
    pub const fn source(&self) -> Option<&ZoneName> {
        self.source.as_ref()
    }

    /// True when these authorisations on a zone suffice to act on it.
    #[must_use]
    pub fn is_allowed_by(&self, auths: Auths) -> bool {
        auths.has_any(self.needs)
    }

    /// True when these authorisations on a zone suffice to clone it.
    #[must_use]
    pub fn may_clone_from(auths: Auths) -> bool {
        auths.has_any(table::SOURCE_NEEDS)
    }

    /// The words to start the program with. Each option is a word of its own, so that
    /// every parser reads them alike.
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
                let verb = [self.verb.to_owned()];
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
        letter: 'z',
        long: None,
        value: Value::Text,
    }];
    let (before, rest) = options(ZONE, words)?;
    let zones = before.iter().filter_map(|(_, value)| value.as_deref());
    let zones = zones.map(zone_name).collect::<Result<Vec<_>, _>>()?;
    let (name, rest) = rest.split_first().ok_or(Refusal::NoVerb)?;
    let verb = table::ZONEADM
        .iter()
        .find(|verb| verb.name == *name)
        .ok_or_else(|| Refusal::Verb(name.clone()))?;
    if zones.is_empty() {
        return Err(Refusal::NoZone);
    }
    let dashes = rest.iter().position(|word| word == "--");
    let (ours, theirs) = match dashes {
        Some(at) if verb.rest == Rest::Boot => (&rest[..at], &rest[at..]),
        _ => (rest, [].as_slice()),
    };
    let (set, operands) = options(verb.options, ours)?;
    let (source, rest) = match (verb.rest, operands) {
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
    let console = set.iter().any(|(option, _)| option.letter == 'C');
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
        letter: 'z',
        long: None,
        value: Value::Text,
    };
    let known: Vec<Opt> = table::ZONECFG.iter().copied().chain([ZONE]).collect();
    let (set, rest) = options(&known, words)?;
    let (zones, set): (Vec<_>, Vec<_>) = set.into_iter().partition(|(one, _)| one.letter == 'z');
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

/// True for a word that can be a name, and is no option and no path.
fn is_plain(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"_-.:".contains(&b);
    let first = text.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphanumeric()) && text.bytes().all(legal)
}

type Set = Vec<(Opt, Option<String>)>;

/// Takes the options at the begin of `words`, as getopt(3) would; returns them and the
/// words behind, the first of which is no option. `--` is none of either.
fn options<'a>(known: &[Opt], words: &'a [String]) -> Result<(Set, &'a [String]), Refusal> {
    let mut set = Set::new();
    let mut words = words;
    while let Some((word, behind)) = words.split_first() {
        if let Some(long) = word.strip_prefix("--") {
            let option = known.iter().find(|one| one.long == Some(long));
            set.push((*option.ok_or_else(|| Refusal::Option(word.clone()))?, None));
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
            let option = known.iter().find(|one| one.letter == letter);
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

/// The options again, each a word.
fn written(set: Set) -> Vec<String> {
    set.into_iter()
        .flat_map(|(option, value)| [format!("-{}", option.letter)].into_iter().chain(value))
        .collect()
}

#[cfg(test)]
mod tests;
