//! Formats rows as text.

use crate::args::Column;
use crate::field::Row;

/// Returns the lines: a header, unless the header of every column is empty, and a line for each
/// row, cut at `width` characters.
pub fn render(columns: &[Column], rows: &[Row<'_>], width: Option<usize>) -> String {
    let mut lines: Vec<Vec<String>> = Vec::with_capacity(rows.len() + 1);
    if columns.iter().any(|column| !column.header.is_empty()) {
        lines.push(columns.iter().map(|column| column.header.clone()).collect());
    }
    for row in rows {
        let cells = columns
            .iter()
            .map(|column| harmless(&(column.field.show)(row)));
        lines.push(cells.collect());
    }
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| {
            lines
                .iter()
                .map(|line| length(&line[at]))
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for line in &lines {
        let mut out = String::new();
        for (at, cell) in line.iter().enumerate() {
            let blanks = " ".repeat(widths[at] - length(cell));
            if at > 0 {
                out.push(' ');
            }
            if columns[at].field.is_number {
                out.push_str(&blanks);
                out.push_str(cell);
            } else if at + 1 == columns.len() {
                out.push_str(cell);
            } else {
                out.push_str(cell);
                out.push_str(&blanks);
            }
        }
        match width {
            Some(width) => text.extend(out.chars().take(width)),
            None => text.push_str(&out),
        }
        text.push('\n');
    }
    text
}

fn length(cell: &str) -> usize {
    cell.chars().count()
}

/// Replaces control characters. A process can choose any text, and the text goes to an
/// administrator's terminal: no character may move the cursor, end the line or change the direction
/// of writing.
fn harmless(text: &str) -> String {
    let odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|character| if odd(character) { '?' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Input};
    use crate::process::{Host, Process};
    use crate::zones::Zone;
    use std::collections::BTreeMap;

    fn shown(format: &str, width: Option<usize>) -> String {
        shown_at(None, format, width)
    }

    fn shown_at(label: Option<&str>, format: &str, width: Option<usize>) -> String {
        let Ok(Input::List(args)) = args::parse(["-o".into(), format.into()]) else {
            panic!("{format}");
        };
        let zone = Zone {
            name: "web".to_owned(),
            id: 1,
            first_id: 0,
            label: label.map(str::to_owned),
        };
        let one = |pid: i32, args: &str| Process {
            pid,
            args: args.to_owned(),
            ..Process::default()
        };
        let processes = [one(7, "init"), one(4711, "a\u{1b}[2J\nb\u{202e}c")];
        let (host, users) = (Host::default(), BTreeMap::new());
        let rows: Vec<Row<'_>> = processes
            .iter()
            .map(|process| Row {
                process,
                zone: &zone,
                host: &host,
                users: &users,
            })
            .collect();
        render(&args.columns(label.is_some()), &rows, width)
    }

    #[test]
    fn the_column_of_labels() {
        let secret = Some("CNF : NEED TO KNOW");
        let format = "zone,label,pid,comm";
        assert_eq!(
            shown_at(secret, format, None),
            "ZONE LABEL               PID CMD\n\
             web  CNF : NEED TO KNOW    7 \n\
             web  CNF : NEED TO KNOW 4711 \n"
        );
        assert_eq!(
            shown(format, None),
            "ZONE LABEL  PID CMD\nweb  -        7 \nweb  -     4711 \n"
        );
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        assert_eq!(
            shown("zone,pid,args", None),
            "ZONE  PID COMMAND\nweb     7 init\nweb  4711 a?[2J?b?c\n"
        );
        assert_eq!(shown("pid=", None), "   7\n4711\n");
        assert_eq!(
            shown("args=,pid=", None),
            "init         7\na?[2J?b?c 4711\n"
        );
        assert_eq!(shown("pid,args", Some(8)), " PID COM\n   7 ini\n4711 a?[\n");
    }
}
