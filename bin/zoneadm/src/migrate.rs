//! `zoneadm migrate`, and `receive`, which it starts on the other host.

use std::fs::File;
use std::os::fd::AsFd;

use lexopt::prelude::*;
use migrate::{Kind, Options};

use crate::call::Call;
use crate::{act, outcome, report, usage};

pub fn run(call: &Call) -> u8 {
    let verb = call.verb.as_str();
    let (options, dry_run, quiet) = match parse(&call.rest) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return usage::print(Some(verb)),
        Err(text) => return usage::complain(&text, Some(verb)),
    };
    let (mut host, zones) = match act::admitted(call, false) {
        Ok(admitted) => admitted,
        Err(status) => return status,
    };
    host.plan_only = dry_run;
    // One after the other: they share the line.
    let mut status = cli::status::OK;
    for zone in &zones {
        let done = migrate::migrate(&host, zone, &options, dry_run, &mut |line| {
            if !quiet {
                println!("zoneadm: zone '{zone}': {line}");
            }
        });
        status = status.max(outcome::show(zone, &done));
    }
    status
}

/// Private: `zoneadm receive`, which migrate starts on the target. Its messages go over
/// standard output.
pub fn receive(call: &Call) -> u8 {
    let (host, zones) = match act::admitted(call, false) {
        Ok(admitted) => admitted,
        Err(status) => return status,
    };
    let ([zone], rest) = (zones.as_slice(), call.rest.as_slice()) else {
        return usage::complain("receive takes one zone", None);
    };
    let done = match rest {
        [] => {
            let source = std::io::stdin().as_fd().try_clone_to_owned();
            let source = source.map_err(host::Error::io("read standard input"));
            source
                .and_then(|from| migrate::receive(&host, zone, File::from(from), std::io::stdout()))
        }
        [flag, id] if flag == "--status" => migrate::status(&host, zone, id).map(|text| {
            println!("{text}");
        }),
        _ => return usage::complain("receive is private: use migrate", None),
    };
    match done {
        Ok(()) => cli::status::OK,
        Err(error) => report::error(zone.as_str(), &error),
    }
}

fn parse(words: &[String]) -> Result<Option<(Options, bool, bool)>, String> {
    let (mut options, mut dry_run, mut quiet) = (Options::default(), false, false);
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('?' | 'h') | Long("help") => return Ok(None),
            Short('n') | Long("dry-run") => dry_run = true,
            Short('q') => quiet = true,
            Short('u') => options.update = true,
            Short('t') => {
                options.kind = match value(&mut words)?.as_str() {
                    "auto" => Kind::Auto,
                    "live" => Kind::Live,
                    "warm" => Kind::Warm,
                    other => return Err(format!("{other}: not auto, live or warm")),
                }
            }
            Short('c') => options.cipher = Some(value(&mut words)?),
            Short('o') => options.ssh.push(value(&mut words)?),
            Value(word) if options.host.is_empty() => {
                let word = word.string().map_err(|error| error.to_string())?;
                options.host = word.strip_prefix("ssh://").unwrap_or(&word).to_owned();
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    // ssh would take others for options of its own.
    let legal = |c: char| c.is_ascii_alphanumeric() || "@._-:[]%".contains(c);
    match options.host.as_str() {
        "" => Err("migrate needs a host: [user@]host".to_owned()),
        host if host.starts_with('-') || !host.chars().all(legal) => {
            Err(format!("{host}: not a host"))
        }
        _ => Ok(Some((options, dry_run, quiet))),
    }
}

fn value(words: &mut lexopt::Parser) -> Result<String, String> {
    let value = words.value().and_then(|value| value.string());
    value.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_described() {
        let read = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            parse(&words)
        };
        let (options, dry_run, quiet) = read("-n -q -o Port=2222 ssh://root@two").unwrap().unwrap();
        assert!(dry_run && quiet);
        assert_eq!(
            (options.host.as_str(), options.ssh),
            ("root@two", vec!["Port=2222".into()])
        );
        assert!(read("-?").unwrap().is_none());
        assert_eq!(options.kind, Kind::Auto);
        assert_eq!(read("-t live two").unwrap().unwrap().0.kind, Kind::Live);
        for wrong in [
            "",
            "-t cold two",
            "-x host",
            "a b",
            "-o",
            "--",
            "-oX",
            "ho;st",
            "a$(b)",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
