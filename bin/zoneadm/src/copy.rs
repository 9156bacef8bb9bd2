//! `zoneadm push` and `zoneadm pull`.

mod by_user;

use std::io::IsTerminal;
use std::path::PathBuf;

use ::copy::{Owner, Rules};
use lexopt::prelude::*;
use model::ZoneName;
use zone::copy::{Copied, Direction, HostSide, Place, Request, prepare};

use crate::call::Call;
use crate::{act, choose, report, usage};

/// The option for standard input or output.
const STREAM: &str = "-";

/// A command line.
#[derive(Clone, Debug)]
struct Parsed {
    dry_run: bool,
    request: Request,
    /// The owner that `-o` names.
    owner: Option<String>,
    /// `-a`.
    keeps_owners: bool,
}

pub fn run(call: &Call) -> u8 {
    let verb = call.verb.as_str();
    let parsed = match parse(verb, &call.rest) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return usage::print(Some(verb)),
        Err(text) => return usage::complain(&text, Some(verb)),
    };
    if let Some(status) = act::cannot_begin(call) {
        return status;
    }
    let zones = match choose::prepare(call) {
        Ok((_, zones)) => zones,
        Err(text) => {
            eprintln!("zoneadm: {text}");
            return cli::status::ERROR;
        }
    };
    let request = &parsed.request;
    let is_stream = request.host_side == HostSide::Stream;
    if zones.len() > 1 && (is_stream || request.direction == Direction::Pull) {
        let text = format!(
            "{verb} {}needs exactly one zone",
            if is_stream { "- " } else { "" }
        );
        return usage::complain(&text, Some(verb));
    }
    let has_terminal = match request.direction {
        Direction::Push => std::io::stdin().is_terminal(),
        Direction::Pull => std::io::stdout().is_terminal(),
    };
    if is_stream && has_terminal && !parsed.dry_run {
        eprintln!("zoneadm: a tar stream is no text for a terminal: use a pipe or a file");
        return cli::status::ERROR;
    }
    let one = |zone: &ZoneName| match cli::is_root() {
        true => copy(call, zone, &parsed),
        false => by_user::copy(call, zone, &parsed),
    };
    if let [zone] = zones.as_slice() {
        return one(zone);
    }
    let mut status = cli::status::OK;
    for zone in &zones {
        let ended = match zone::copy::in_own_process(zone, || one(zone)) {
            Ok(ended) => ended.unwrap_or(cli::status::ERROR),
            Err(error) => report::error(zone.as_str(), &error),
        };
        status = status.max(ended);
    }
    status
}

/// Copies for root.
fn copy(call: &Call, zone: &ZoneName, parsed: &Parsed) -> u8 {
    let host = match cli::host(call.root.as_deref()) {
        Ok(host) => host::Host {
            plan_only: parsed.dry_run,
            ..host
        },
        Err(error) => {
            eprintln!("zoneadm: {error}");
            return cli::status::ERROR;
        }
    };
    let prepared = match prepare(&host, zone, parsed.request.clone()) {
        Ok(prepared) => prepared,
        Err(error) => return report::error(zone.as_str(), &error),
    };
    if parsed.dry_run {
        print!("{prepared}");
        return cli::status::OK;
    }
    let tell = |place: Place, text: &str| complain(zone, place, text);
    let mut progress = |bytes: u64| {
        if cli::progress::amount(Some(zone.as_str()), "copied", bytes, None, "bytes") {
            return;
        }
        let bytes = cli::units::bytes(bytes);
        eprintln!("zoneadm: zone '{zone}': {bytes} copied");
    };
    match zone::copy::copy(&host, &prepared, &tell, &mut progress) {
        Ok(Copied::All) => cli::status::OK,
        Ok(Copied::Part) => cli::status::ERROR,
        Err(error) => report::error(zone.as_str(), &error),
    }
}

fn complain(zone: &ZoneName, place: Place, text: &str) {
    match place {
        Place::Host => eprintln!("zoneadm: {text}"),
        Place::Zone => eprintln!("zoneadm: zone '{zone}': {text}"),
    }
}

/// The options and operands of a command line.
#[derive(Debug, Default)]
struct Words {
    dry_run: bool,
    keeps_owners: bool,
    set_id: bool,
    renames: bool,
    owner: Option<String>,
    operands: Vec<String>,
}

fn parse(verb: &str, words: &[String]) -> Result<Option<Parsed>, String> {
    let direction = match verb {
        "push" => Direction::Push,
        _ => Direction::Pull,
    };
    let mut given = Words::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('n') | Long("dry-run") => given.dry_run = true,
            Short('a') => given.keeps_owners = true,
            Short('S') => given.set_id = true,
            Short('r') if direction == Direction::Push => given.renames = true,
            Short('o') if direction == Direction::Push => {
                let value = words.value().and_then(|value| value.string());
                given.owner = Some(value.map_err(|error| error.to_string())?);
            }
            Short('?' | 'h') | Long("help") => return Ok(None),
            Value(value) => {
                let operand = value.string().map_err(|error| error.to_string())?;
                given.operands.push(operand);
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    checked(verb, direction, given).map(Some)
}

/// Checks which options and operands go together.
fn checked(verb: &str, direction: Direction, given: Words) -> Result<Parsed, String> {
    let Some((to, sources)) = given
        .operands
        .split_last()
        .filter(|(_, rest)| !rest.is_empty())
    else {
        return Err(format!("{verb} needs a source and a destination"));
    };
    let (is_stream, in_zone) = match direction {
        Direction::Push => (sources == [STREAM], std::slice::from_ref(to)),
        Direction::Pull => (to == STREAM, sources),
    };
    if let Some(path) = in_zone.iter().find(|path| !path.starts_with('/')) {
        return Err(format!("{path}: expected an absolute path in the zone"));
    }
    if direction == Direction::Push && !is_stream && sources.iter().any(|path| path == STREAM) {
        return Err("standard input (-) cannot be one of several sources".to_owned());
    }
    let owner = match (&given.owner, given.keeps_owners, direction) {
        (Some(_), true, _) => return Err("-a and -o do not go together".to_owned()),
        (Some(name), false, _) => Owner::Named(name.clone()),
        (None, true, _) => Owner::Kept,
        (None, false, Direction::Push) => Owner::Named("0:0".to_owned()),
        (None, false, Direction::Pull) => Owner::Caller,
    };
    let paths: Vec<PathBuf> = match (is_stream, direction) {
        (true, Direction::Push) => Vec::new(),
        _ => sources.iter().map(PathBuf::from).collect(),
    };
    Ok(Parsed {
        dry_run: given.dry_run,
        request: Request {
            direction,
            host_side: match is_stream {
                true => HostSide::Stream,
                false => HostSide::Files,
            },
            may_rename: given.renames || (paths.len() == 1 && !is_stream),
            sources: paths,
            to: to.into(),
            rules: Rules {
                owner,
                set_id: given.set_id,
                restore: None,
            },
        },
        owner: given.owner,
        keeps_owners: given.keeps_owners,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Parsed>, String> {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let verb = words.remove(0);
        parse(&verb, &words)
    }

    fn request(line: &str) -> Request {
        read(line).unwrap().unwrap().request
    }

    #[test]
    fn the_last_operand_is_the_destination() {
        let push = request("push -S /srv/a /srv/b /var/www");
        assert_eq!(push.sources.len(), 2);
        assert!(!push.may_rename && push.rules.set_id);
        assert_eq!(push.rules.owner, Owner::Named("0:0".to_owned()));
        let pull = request("pull -a /etc /tmp/etc");
        assert!(pull.may_rename);
        assert_eq!(pull.rules.owner, Owner::Kept);
        let owner = request("push -o www:staff /a /b").rules.owner;
        assert_eq!(owner, Owner::Named("www:staff".to_owned()));
    }

    #[test]
    fn a_dash_is_a_stream() {
        let push = request("push - /srv");
        assert_eq!(push.host_side, HostSide::Stream);
        assert!(push.sources.is_empty() && !push.may_rename);
        assert!(request("push -r - /srv/new").may_rename);
        let pull = request("pull /etc /var/www -");
        assert_eq!(pull.host_side, HostSide::Stream);
        assert_eq!(pull.sources.len(), 2);
    }

    #[test]
    fn wrong_lines_are_refused() {
        for line in [
            "push",
            "push /a",
            "push a relative",
            "pull relative /b",
            "push - /a /b",
            "push -a -o www /a /b",
            "pull -o www /a /b",
            "push -x /a /b",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
        assert!(read("push --help").unwrap().is_none());
    }
}
