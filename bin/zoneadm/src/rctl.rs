//! `zoneadm rctl`.

use std::fmt::Write as _;

use zone::rctl::{Row, of};

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
            "{:<24} {:<10} {:>8} {:<6} {:>10} {:>8} {:>6}",
            "CONTROL", "PRIVILEGE", "LIMIT", "ACTION", "EFFECTIVE", "USED", "HITS"
        );
    }
    for row in rows {
        let plain = |text: &Option<String>| text.clone().unwrap_or_default();
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        if form == Form::Parseable {
            let Row { zone, control, .. } = row;
            let fields = [
                &row.privilege,
                &row.limit,
                &row.action,
                &row.effective,
                &number(row.used),
                &number(row.hits),
            ];
            let fields = fields.map(|field| listing::field(&plain(field))).join(":");
            let _ = writeln!(text, "{zone}:{control}:{fields}");
            continue;
        }
        if many {
            let _ = write!(text, "{:<16} ", row.zone);
        }
        let shown = |text: Option<String>| match text {
            None => "-".to_owned(),
            Some(text) if row.is_size => text.parse().map_or(text, cli::units::bytes),
            Some(text) => text,
        };
        let _ = writeln!(
            text,
            "{:<24} {:<10} {:>8} {:<6} {:>10} {:>8} {:>6}",
            row.control,
            row.privilege.as_deref().unwrap_or("-"),
            shown(row.limit.clone()),
            row.action.as_deref().unwrap_or("-"),
            shown(row.effective.clone()),
            shown(number(row.used)),
            number(row.hits).unwrap_or_else(|| "-".to_owned()),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_fields() {
        let some = |text: &str| Some(text.to_owned());
        let rows = [
            Row {
                zone: "web".into(),
                control: "zone.max-swap".into(),
                is_size: true,
                privilege: some("privileged"),
                limit: some("100663296"),
                action: some("deny"),
                effective: some("100663296"),
                used: Some(4 << 20),
                hits: Some(3),
            },
            Row {
                zone: "web".into(),
                control: "dedicated-cpu".into(),
                ..Row::default()
            },
        ];
        assert_eq!(
            render(&rows, Form::Columns, false),
            "CONTROL                  PRIVILEGE     LIMIT ACTION  EFFECTIVE     USED   HITS\n\
             zone.max-swap            privileged    96.0M deny        96.0M     4.0M      3\n\
             dedicated-cpu            -                 - -               -        -      -\n"
        );
        assert_eq!(
            render(&rows, Form::Parseable, false),
            "web:zone.max-swap:privileged:100663296:deny:100663296:4194304:3\n\
             web:dedicated-cpu::::::\n"
        );
    }
}
