//! `zoneadm rctl`.

use std::fmt::Write as _;

use cli::table::Column;
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
    let columns = [
        Column::left("CONTROL", 24),
        Column::left("PRIVILEGE", 10),
        Column::right("LIMIT", 8),
        Column::left("ACTION", 6),
        Column::right("EFFECTIVE", 10),
        Column::right("USED", 8),
        Column::right("HITS", 6),
    ];
    let mut table = listing::table(many, &columns);
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
        let shown = |text: Option<String>| match text {
            None => "-".to_owned(),
            Some(text) if row.is_size => text.parse().map_or(text, cli::units::bytes),
            Some(text) => text,
        };
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let cells = vec![
            row.control.to_string(),
            or_dash(&row.privilege),
            shown(row.limit.clone()),
            or_dash(&row.action),
            shown(row.effective.clone()),
            shown(number(row.used)),
            number(row.hits).unwrap_or_else(|| "-".to_owned()),
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
