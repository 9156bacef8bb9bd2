//! `zoneadm snapshots`.

use std::cell::Cell;

use cli::table::Column;
use zone::snapshots::{Figures, Row, snapshots};

use crate::call::Call;
use crate::listing::{self, Form};

pub fn run(call: &Call) -> u8 {
    let figures = Cell::new(Figures::Sizes);
    let mut takes = |option: &str| {
        let is_known = option == "no-size";
        if is_known {
            figures.set(Figures::NoSizes);
        }
        is_known
    };
    let rows = |host: &_, zone: &_| snapshots(host, zone, figures.get());
    listing::run_with(call, &mut takes, rows, |rows, form, zones| {
        render(rows, form, zones > 1)
    })
}

fn render(rows: &[Row], form: Form, many: bool) -> String {
    if form == Form::Json {
        return listing::json(rows);
    }
    if form == Form::Parseable {
        let line = |row: &Row| {
            let name = listing::field(&row.name);
            let number = |bytes: Option<u64>| bytes.map(|n| n.to_string()).unwrap_or_default();
            let (used, all) = (number(row.used_bytes), number(row.referenced_bytes));
            let (created, layers) = (row.created, row.layers);
            format!("{}:{name}:{created}:{layers}:{used}:{all}\n", row.zone)
        };
        return rows.iter().map(line).collect();
    }
    let columns = [
        Column::left("NAME", 24),
        Column::left("CREATED", 20),
        Column::right("LAYERS", 6),
        Column::right("USED", 8),
        Column::right("REFER", 8),
    ];
    let mut table = listing::table(many, &columns);
    for row in rows {
        let cells = vec![
            row.name.clone(),
            cli::units::utc(row.created),
            row.layers.to_string(),
            size(row.used_bytes),
            size(row.referenced_bytes),
        ];
        table.row(listing::row(many, &row.zone, cells));
    }
    table.render()
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), cli::units::bytes)
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
            period: None,
            layers: 2,
            used_bytes: Some(0),
            referenced_bytes: Some(13_000_000),
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
        let row = Row {
            used_bytes: None,
            referenced_bytes: None,
            ..row
        };
        let with = |form| render(std::slice::from_ref(&row), form, false);
        assert_eq!(with(Form::Parseable), "web:a\\:b:1763674377:2::\n");
        assert!(with(Form::Columns).ends_with("2        -        -\n"));
        assert!(with(Form::Json).contains("\"used_bytes\": null"));
    }
}
