//! `zoneadm storage` and `zoneadm quota`.

use std::fmt::Write as _;

use cli::table::{Column, Table};
use cli::units;
use zone::space::Row;

use crate::call::Call;
use crate::listing::{self, Form};

pub fn run(call: &Call) -> u8 {
    let rows = |host: &_, zone: &_| zone::space::of(host, zone).map(|row| vec![row]);
    listing::run(call, rows, |rows, form, _| render(rows, form))
}

fn render(rows: &[Row], form: Form) -> String {
    if form == Form::Json {
        return listing::json(rows);
    }
    let mut text = String::new();
    let mut table = Table::new([
        Column::left("ZONE", 16),
        Column::left("DRIVER", 8),
        Column::left("FS", 6),
        Column::right("LAYERS", 6),
        Column::right("SNAPSHOTS", 9),
        Column::right("OWN", 8),
        Column::right("SHARED", 8),
        Column::right("QUOTA", 8),
    ]);
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
        if form == Form::Parseable {
            let quota = row.quota.map(|bytes| bytes.to_string()).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{zone}:{driver}:{fstype}:{layers}:{snapshots}:{own}:{shared}:{quota}"
            );
            continue;
        }
        table.row(vec![
            zone.to_string(),
            driver.to_string(),
            fstype.to_string(),
            layers.to_string(),
            snapshots.to_string(),
            units::bytes(own),
            units::bytes(shared),
            row.quota.map_or_else(|| "-".to_owned(), units::bytes),
        ]);
    }
    match form {
        Form::Parseable => text,
        _ => table.render(),
    }
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
            mounted_layers: None,
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
