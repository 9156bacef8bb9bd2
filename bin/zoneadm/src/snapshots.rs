//! `zoneadm snapshots`.

use std::fmt::Write as _;

use zone::snapshots::{Row, snapshots};

use crate::call::Call;
use crate::listing::{self, Form};

pub fn run(call: &Call) -> u8 {
    listing::run(call, snapshots, |rows, form, zones| {
        render(rows, form, zones > 1)
    })
}

fn render(rows: &[Row], form: Form, many: bool) -> String {
    if form == Form::Json {
        return listing::json(rows);
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
            let name = listing::field(&row.name);
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
    }
}
