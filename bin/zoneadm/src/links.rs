//! `zoneadm links`.

use std::fmt::Write as _;

use cli::table::Column;
use zone::links::{Row, of};

use crate::call::Call;
use crate::listing::{self, Form};

pub fn run(call: &Call) -> u8 {
    listing::run(call, of, |rows, form, zones| render(rows, form, zones > 1))
}

fn render(rows: &[Row], form: Form, many: bool) -> String {
    if form == Form::Json {
        return listing::json(rows);
    }
    let mut text = String::new();
    let columns = [
        Column::left("LINK", 10),
        Column::left("STATE", 6),
        Column::left("HOST", 12),
        Column::left("MAC", 17),
        Column::right("MTU", 6),
        Column::right("RECEIVED", 8),
        Column::right("SENT", 8),
        Column::right("DROPPED", 8),
        Column::left("OVER", 24),
        Column::left("ADDRESSES", 0),
    ];
    let mut table = listing::table(many, &columns);
    for row in rows {
        let state = match row.up {
            Some(true) => "up",
            Some(false) => "down",
            None => "-",
        };
        let dropped: u64 = row.dropped.values().sum();
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        if form == Form::Parseable {
            let fields = [
                row.link.clone(),
                row.over.clone(),
                state.trim_start_matches('-').to_owned(),
                row.host.clone().unwrap_or_default(),
                row.mac.clone().unwrap_or_default(),
                row.mtu.map(|mtu| mtu.to_string()).unwrap_or_default(),
                number(row.received).unwrap_or_default(),
                number(row.sent).unwrap_or_default(),
                dropped.to_string(),
                row.addresses.join(","),
            ];
            let fields = fields.map(|field| listing::field(&field)).join(":");
            let _ = writeln!(text, "{}:{fields}", row.zone);
            continue;
        }
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), cli::units::bytes);
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let cells = vec![
            row.link.clone(),
            state.to_owned(),
            or_dash(&row.host),
            or_dash(&row.mac),
            row.mtu
                .map_or_else(|| "-".to_owned(), |mtu| mtu.to_string()),
            bytes(row.received),
            bytes(row.sent),
            dropped.to_string(),
            row.over.clone(),
            row.addresses.join(" "),
        ];
        table.row(listing::row(many, &row.zone, cells));
    }
    match form {
        Form::Parseable => text,
        _ => table.render(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_fields() {
        let row = Row {
            zone: "web".into(),
            link: "net0".into(),
            over: "port of br0".into(),
            up: Some(true),
            host: Some("zone1-0".into()),
            mac: Some("02:00:00:00:00:01".into()),
            mtu: Some(1500),
            addresses: vec!["10.0.0.2/24".into(), "fd00::2/64".into()],
            received: Some(2048),
            sent: Some(0),
            dropped: [("mac", 2), ("arp", 1)].into(),
        };
        let with = |form| render(std::slice::from_ref(&row), form, false);
        let columns = with(Form::Columns);
        let line = columns.lines().nth(1).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "net0",
                "up",
                "zone1-0",
                "02:00:00:00:00:01",
                "1500",
                "2.0K",
                "0",
                "3",
                "port",
                "of",
                "br0",
                "10.0.0.2/24",
                "fd00::2/64"
            ]
        );
        assert_eq!(
            with(Form::Parseable),
            "web:net0:port of br0:up:zone1-0:02\\:00\\:00\\:00\\:00\\:01:1500:2048:0:3:10.0.0.2/24,fd00\\:\\:2/64\n"
        );
    }
}
