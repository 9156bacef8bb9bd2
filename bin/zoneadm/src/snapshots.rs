//! `zoneadm snapshots`.

use std::fmt::Write as _;

use lexopt::prelude::*;
use store::index::Index;
use zone::flatten;
use zone::snapshots::{Row, snapshots};

use crate::call::Call;
use crate::{act, report, usage};

/// How the list is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Columns,
    Parseable,
    Json,
}

pub fn run(call: &Call) -> u8 {
    let form = match parse(&call.rest) {
        Ok(Some(form)) => form,
        Ok(None) => return usage::print(Some("snapshots")),
        Err(text) => return usage::complain(&text, Some("snapshots")),
    };
    if call.zones.is_empty() && call.uuid.is_none() {
        return usage::complain("snapshots needs a zone: -z zonename", Some("snapshots"));
    }
    match list(call, form) {
        Ok(status) => status,
        Err(text) => {
            eprintln!("zoneadm: {text}");
            cli::status::ERROR
        }
    }
}

fn list(call: &Call, form: Form) -> Result<u8, String> {
    let host = cli::host(call.root.as_deref())?;
    let index = Index::load(&host.root).map_err(|error| flatten(&error))?;
    let zones = act::chosen(call, &index)?;
    let (mut rows, mut status) = (Vec::new(), cli::status::OK);
    for zone in &zones {
        match snapshots(&host, zone) {
            Ok(more) => rows.extend(more),
            Err(error) => status = status.max(report::error(zone.as_str(), &error)),
        }
    }
    print!("{}", render(&rows, form, zones.len() > 1));
    Ok(status)
}

fn parse(words: &[String]) -> Result<Option<Form>, String> {
    let mut form = Form::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('p') => form = Form::Parseable,
            Short('j') | Long("json") => form = Form::Json,
            Short('?' | 'h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(form))
}

fn render(rows: &[Row], form: Form, many: bool) -> String {
    if form == Form::Json {
        // A row is plain data: it always has a JSON form.
        return serde_json::to_string_pretty(rows).unwrap_or_default() + "\n";
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    if form == Form::Columns {
        if many {
            let _ = write!(text, "{:<16} ", "ZONE");
        }
        let _ = writeln!(
            text,
            "{:<24} {:<20} {:>6} {:>8} {:>8}",
            "NAME", "CREATED", "LAYERS", "USED", "REFER"
        );
    }
    for row in rows {
        if form == Form::Parseable {
            let name = row.name.replace(':', "\\:");
            let _ = writeln!(
                text,
                "{}:{name}:{}:{}:{}:{}",
                row.zone, row.created, row.layers, row.used_bytes, row.referenced_bytes
            );
            continue;
        }
        if many {
            let _ = write!(text, "{:<16} ", row.zone);
        }
        let _ = writeln!(
            text,
            "{:<24} {:<20} {:>6} {:>8} {:>8}",
            row.name,
            cli::units::utc(row.created),
            row.layers,
            cli::units::bytes(row.used_bytes),
            cli::units::bytes(row.referenced_bytes)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fields_and_json() {
        let row = Row {
            zone: "web".into(),
            name: "a:b".into(),
            created: 1_763_674_377,
            layers: 2,
            used_bytes: 0,
            referenced_bytes: 13_000_000,
        };
        let with = |form, many| render(std::slice::from_ref(&row), form, many);
        assert_eq!(
            with(Form::Columns, false),
            "NAME                     CREATED              LAYERS     USED    REFER\n\
             a:b                      2025-11-20T21:32:57Z      2        0    12.3M\n"
        );
        assert!(with(Form::Columns, true).starts_with("ZONE             NAME"));
        assert_eq!(
            with(Form::Parseable, false),
            "web:a\\:b:1763674377:2:0:13000000\n"
        );
        assert!(with(Form::Json, false).contains("\"used_bytes\": 0"));
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(parse(&words("-p")), Ok(Some(Form::Parseable)));
        assert_eq!(parse(&words("--help")), Ok(None));
        assert!(parse(&words("-x")).is_err());
    }
}
