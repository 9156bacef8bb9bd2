//! `zoneadm links`.

use std::fmt::Write as _;

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
    // Writing to a string cannot fail.
    if form == Form::Columns {
        if many {
            let _ = write!(text, "{:<16} ", "ZONE");
        }
        let _ = writeln!(
            text,
            "{:<10} {:<6} {:<12} {:<17} {:>6} {:>8} {:>8} {:>8} {:<24} ADDRESSES",
            "LINK", "STATE", "HOST", "MAC", "MTU", "RECEIVED", "SENT", "DROPPED", "OVER"
        );
    }
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
        if many {
            let _ = write!(text, "{:<16} ", row.zone);
        }
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), cli::units::bytes);
        let _ = writeln!(
            text,
            "{:<10} {state:<6} {:<12} {:<17} {:>6} {:>8} {:>8} {dropped:>8} {:<24} {}",
            row.link,
            row.host.as_deref().unwrap_or("-"),
            row.mac.as_deref().unwrap_or("-"),
            row.mtu
                .map_or_else(|| "-".to_owned(), |mtu| mtu.to_string()),
            bytes(row.received),
            bytes(row.sent),
            row.over,
            row.addresses.join(" "),
        );
    }
    text
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
