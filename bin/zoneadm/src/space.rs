//! `zoneadm storage` and `zoneadm quota`.

use std::fmt::Write as _;

use cli::units;
use lexopt::prelude::*;
use store::index::Index;
use zone::flatten;
use zone::space::Row;

use crate::call::Call;
use crate::{act, report, usage};

/// How `storage` prints.
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
        Ok(None) => return usage::print(Some("storage")),
        Err(text) => return usage::complain(&text, Some("storage")),
    };
    if call.zones.is_empty() && call.uuid.is_none() {
        return usage::complain("storage needs a zone: -z zonename", Some("storage"));
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
    let (mut rows, mut status) = (Vec::new(), cli::status::OK);
    for zone in &act::chosen(call, &index)? {
        match zone::space::of(&host, zone) {
            Ok(row) => rows.push(row),
            Err(error) => status = status.max(report::error(zone.as_str(), &error)),
        }
    }
    print!("{}", render(&rows, form));
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

fn render(rows: &[Row], form: Form) -> String {
    if form == Form::Json {
        // A row is plain data: it always has a JSON form.
        return serde_json::to_string_pretty(rows).unwrap_or_default() + "\n";
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    if form == Form::Columns {
        let _ = writeln!(
            text,
            "{:<16} {:<8} {:<6} {:>6} {:>9} {:>8} {:>8} {:>8}",
            "ZONE", "DRIVER", "FS", "LAYERS", "SNAPSHOTS", "OWN", "SHARED", "QUOTA"
        );
    }
    for row in rows {
        let Row {
            zone,
            driver,
            fstype,
            layers,
            snapshots,
            ..
        } = row;
        let (own, shared) = (row.own_bytes, row.shared_bytes);
        let _ = if form == Form::Parseable {
            let quota = row.quota.map(|bytes| bytes.to_string()).unwrap_or_default();
            writeln!(
                text,
                "{zone}:{driver}:{fstype}:{layers}:{snapshots}:{own}:{shared}:{quota}"
            )
        } else {
            let quota = row.quota.map_or_else(|| "-".to_owned(), units::bytes);
            let (own, shared) = (units::bytes(own), units::bytes(shared));
            writeln!(
                text,
                "{zone:<16} {driver:<8} {fstype:<6} {layers:>6} {snapshots:>9} {own:>8} {shared:>8} {quota:>8}"
            )
        };
    }
    text
}

/// The operand of `quota`: bytes with or without a unit, or `none`.
pub fn quota(text: &str) -> Result<Option<u64>, String> {
    if text == "none" {
        return Ok(None);
    }
    units::parse(text)
        .filter(|bytes| *bytes > 0)
        .map(Some)
        .ok_or_else(|| format!("{text}: expected a size like 512M or 10G, or none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_fields() {
        let row = Row {
            zone: "web".into(),
            driver: "btrfs".into(),
            fstype: "btrfs".into(),
            layers: 2,
            snapshots: 1,
            own_bytes: 4096,
            own_files: 1,
            shared_bytes: 13_000_000,
            quota: Some(1 << 30),
        };
        assert_eq!(
            render(std::slice::from_ref(&row), Form::Columns),
            "ZONE             DRIVER   FS     LAYERS SNAPSHOTS      OWN   SHARED    QUOTA\n\
             web              btrfs    btrfs       2         1     4.0K    12.3M     1.0G\n"
        );
        assert_eq!(
            render(std::slice::from_ref(&row), Form::Parseable),
            "web:btrfs:btrfs:2:1:4096:13000000:1073741824\n"
        );
        assert!(render(&[row], Form::Json).contains("\"quota\": 1073741824"));
        assert_eq!(quota("none"), Ok(None));
        assert_eq!(quota("1G"), Ok(Some(1 << 30)));
        for wrong in ["", "0", "-1", "1X", "G"] {
            assert!(quota(wrong).is_err(), "{wrong}");
        }
    }
}
