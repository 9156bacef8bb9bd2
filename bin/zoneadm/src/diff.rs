//! `zoneadm diff`.

use std::ops::ControlFlow;

use ::diff::{Action, Change, Event};
use copy::name::shown;
use lexopt::prelude::*;
use model::ZoneName;
use serde::Serialize;
use zone::moments::{When, changes::changes};

use crate::call::Call;
use crate::lines::{Lines, Text, path_of};
use crate::{act, report, usage};

/// A command line.
#[derive(Debug, PartialEq, Eq)]
struct Parsed {
    json: bool,
    before: When,
    after: When,
}

pub fn run(call: &Call) -> u8 {
    let parsed = match parse(&call.rest) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return usage::print(Some("diff")),
        Err(text) => return usage::complain(&text, Some("diff")),
    };
    let (host, zones) = match act::admitted(call, false) {
        Ok(admitted) => admitted,
        Err(status) => return status,
    };
    let [zone] = zones.as_slice() else {
        return usage::complain("diff needs exactly one zone", Some("diff"));
    };
    let mut lines = Lines::default();
    let done = changes(&host, zone, &parsed.before, &parsed.after, &mut |event| {
        tell(zone, event, parsed.json, &mut lines)
    });
    lines.flush();
    match done {
        Ok(done) if done.problems > 0 => cli::status::ERROR,
        Ok(_) => cli::status::OK,
        Err(error) => report::error(zone.as_str(), &error),
    }
}

fn tell(zone: &ZoneName, event: &Event<'_>, json: bool, lines: &mut Lines) -> ControlFlow<()> {
    match event {
        Event::Change(change) if json => lines.json(&Row::of(change)),
        Event::Change(change) => lines.text(&text(change)),
        Event::Problem { path, why } => {
            eprintln!("zoneadm: zone '{zone}': {}: {why}", shown(path_of(path)));
            ControlFlow::Continue(())
        }
    }
}

/// Returns the line of a change, as zfs diff prints it.
fn text(change: &Change<'_>) -> String {
    let path = shown(path_of(change.path));
    let sign = match change.action {
        Action::Removed => '-',
        Action::Added => '+',
        Action::Modified => 'M',
        Action::Renamed => {
            let from = shown(path_of(change.from.unwrap_or_default()));
            return format!("R\t{from} -> {path}\n");
        }
    };
    format!("{sign}\t{path}\n")
}

/// A line of `diff -j`.
#[derive(Debug, Serialize)]
struct Row<'a> {
    /// `modified`, `added`, `removed` or `renamed`.
    change: &'static str,
    #[serde(flatten)]
    path: Text<'a>,
    /// The type of the file, such as `file`, `directory` or `symlink`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The aspects that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    what: Vec<&'static str>,
    #[serde(flatten)]
    from: Option<From<'a>>,
}

/// The path before, if it is another one.
#[derive(Debug, Serialize)]
struct From<'a> {
    from: std::borrow::Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_bytes: Option<String>,
}

impl<'a> Row<'a> {
    fn of(change: &Change<'a>) -> Self {
        Self {
            change: match change.action {
                Action::Removed => "removed",
                Action::Added => "added",
                Action::Modified => "modified",
                Action::Renamed => "renamed",
            },
            path: Text::of(change.path),
            kind: change.kind.as_str(),
            what: change.what.words().collect(),
            from: change.from.map(|from| {
                let Text { path, path_bytes } = Text::of(from);
                From {
                    from: path,
                    from_bytes: path_bytes,
                }
            }),
        }
    }
}

fn parse(words: &[String]) -> Result<Option<Parsed>, String> {
    let (mut json, mut names) = (false, Vec::new());
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('j') | Long("json") => json = true,
            Short('?' | 'h') | Long("help") => return Ok(None),
            Value(word) => names.push(word.string().map_err(|error| error.to_string())?),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let named = |name: &String| match name.parse() {
        Ok(name) => Ok(When::Named(name)),
        Err(error) => Err(format!("{error}")),
    };
    let (before, after) = match names.as_slice() {
        [before] => (named(before)?, When::Present),
        [before, after] => (named(before)?, named(after)?),
        _ => return Err("diff needs the names of one or two snapshots".to_owned()),
    };
    Ok(Some(Parsed {
        json,
        before,
        after,
    }))
}

#[cfg(test)]
mod tests {
    use ::diff::{Kind, What};

    use super::*;

    fn change(action: Action, path: &'static [u8], from: Option<&'static [u8]>) -> Change<'static> {
        Change {
            action,
            path,
            from,
            kind: Kind::File,
            what: What {
                content: action == Action::Modified,
                ..What::default()
            },
        }
    }

    #[test]
    fn lines_are_those_of_zfs_diff_and_stay_on_one_line() {
        let plain = |action| text(&change(action, b"/a b", None));
        assert_eq!(plain(Action::Added), "+\t/a b\n");
        assert_eq!(plain(Action::Removed), "-\t/a b\n");
        assert_eq!(plain(Action::Modified), "M\t/a b\n");
        let renamed = change(Action::Renamed, b"/new\n", Some(b"/old\x1b[2J\xff"));
        assert_eq!(text(&renamed), "R\t/old\\u{1b}[2J\\xff -> /new\\n\n");
    }

    #[test]
    fn json_has_the_bytes_of_a_path_that_is_no_text() {
        let line = |change| serde_json::to_string(&Row::of(&change)).unwrap();
        assert_eq!(
            line(change(Action::Modified, b"/etc/x\n", None)),
            r#"{"change":"modified","path":"/etc/x\n","type":"file","what":["content"]}"#
        );
        assert_eq!(
            line(change(Action::Renamed, b"/\xff", Some(b"/\xfe"))),
            r#"{"change":"renamed","path":"/\\xff","path_bytes":"L/8=","type":"file","from":"/\\xfe","from_bytes":"L/4="}"#
        );
    }

    #[test]
    fn a_line_names_one_or_two_moments() {
        let read = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            parse(&words)
        };
        let named = |name: &str| When::Named(name.parse().unwrap());
        let parsed = read("-j monday").unwrap().unwrap();
        assert!(parsed.json && parsed.before == named("monday") && parsed.after == When::Present);
        let parsed = read("monday tuesday").unwrap().unwrap();
        assert_eq!((parsed.json, parsed.after), (false, named("tuesday")));
        assert_eq!(read("-h"), Ok(None));
        for wrong in ["", "a b c", "-x a", "../a", ".half"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
