//! Helpers shared by the subcommands that print lists.

use cli::table::{Column, Table};
use host::{Error, Host, flatten};
use lexopt::prelude::*;
use model::ZoneName;
use serde::Serialize;
use store::index::Index;

use crate::call::Call;
use crate::{choose, delegated, report, usage};

/// The form of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Aligned columns for a person to read.
    #[default]
    Columns,
    /// Fields with colons between them.
    Parseable,
    /// A JSON array.
    Json,
}

/// Lists the rows that `rows` returns for each zone of a call. `render` also gets the number of
/// zones.
pub fn run<R>(
    call: &Call,
    rows: impl Fn(&Host, &ZoneName) -> Result<Vec<R>, Error>,
    render: impl FnOnce(&[R], Form, usize) -> String,
) -> u8 {
    run_with(call, &mut |_| false, rows, render)
}

/// Runs [`run`] for a list with long options of its own: `takes` returns true for these.
pub fn run_with<R>(
    call: &Call,
    takes: &mut dyn FnMut(&str) -> bool,
    rows: impl Fn(&Host, &ZoneName) -> Result<Vec<R>, Error>,
    render: impl FnOnce(&[R], Form, usize) -> String,
) -> u8 {
    let verb = call.verb.as_str();
    let form = match parse(&call.rest, takes) {
        Ok(Some(form)) => form,
        Ok(None) => return usage::print(Some(verb)),
        Err(text) => return usage::complain(&text, Some(verb)),
    };
    if call.zones.is_empty() && call.uuid.is_none() {
        let text = format!("{verb} needs a zone: -z zonename");
        return usage::complain(&text, Some(verb));
    }
    match list(call, form, rows, render) {
        Ok(status) => status,
        Err(text) => {
            eprintln!("zoneadm: {text}");
            cli::status::ERROR
        }
    }
}

fn list<R>(
    call: &Call,
    form: Form,
    find: impl Fn(&Host, &ZoneName) -> Result<Vec<R>, Error>,
    render: impl FnOnce(&[R], Form, usize) -> String,
) -> Result<u8, String> {
    let host = cli::host(call.root.as_deref()).map_err(|error| error.to_string())?;
    let index = Index::load(&host.root).map_err(|error| flatten(&error))?;
    let zones = choose::chosen(call, &index)?;
    let found: Vec<_> = zones.iter().map(|zone| (zone, find(&host, zone))).collect();
    let has_failed = found.iter().any(|(_, found)| found.is_err());
    let are_known = zones.iter().all(|zone| index.find(zone).is_some());
    // A list that needs root's rights is printed by a zoneadm that zoneauthd runs.
    if has_failed && are_known && !cli::is_root() && cli::current_zone().is_none() {
        return Ok(delegated::run(call, false));
    }
    let (mut rows, mut status) = (Vec::new(), cli::status::OK);
    for (zone, found) in found {
        match found {
            Ok(more) => rows.extend(more),
            Err(error) => status = status.max(report::error(zone.as_str(), &error)),
        }
    }
    // An empty list would say that the zone has no rows.
    if !rows.is_empty() || !has_failed {
        print!("{}", render(&rows, form, zones.len()));
    }
    Ok(status)
}

fn parse(words: &[String], takes: &mut dyn FnMut(&str) -> bool) -> Result<Option<Form>, String> {
    let mut form = Form::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('p') => form = Form::Parseable,
            Short('j') | Long("json") => form = Form::Json,
            Short('?' | 'h') | Long("help") => return Ok(None),
            Long(name) if takes(name) => {}
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(form))
}

/// Returns a table of the rows, with a column for the zone if there are `many`.
pub fn table(many: bool, columns: &[Column]) -> Table {
    let zone = many.then(|| Column::left("ZONE", 16));
    Table::new(zone.into_iter().chain(columns.iter().copied()))
}

/// Returns a table row, with a cell for the zone if there are `many`.
pub fn row(many: bool, zone: &str, mut cells: Vec<String>) -> Vec<String> {
    if many {
        cells.insert(0, zone.to_owned());
    }
    cells
}

/// Returns rows as JSON. Rows are plain data, so they always have a JSON form.
pub fn json<R: Serialize>(rows: &[R]) -> String {
    serde_json::to_string_pretty(rows).unwrap_or_default() + "\n"
}

/// Returns one object as JSON.
pub fn json_object<T: Serialize>(object: &T) -> String {
    serde_json::to_string_pretty(object).unwrap_or_default() + "\n"
}

/// Escapes a field of a parseable list, so that colons in the field are no separators.
pub fn field(text: &str) -> String {
    text.replace(':', "\\:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_chosen_by_options() {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let plain = |text: &str| parse(&words(text), &mut |_| false);
        assert_eq!(plain(""), Ok(Some(Form::Columns)));
        assert_eq!(plain("-p"), Ok(Some(Form::Parseable)));
        assert_eq!(plain("--json"), Ok(Some(Form::Json)));
        assert_eq!(plain("--help"), Ok(None));
        assert!(plain("-x").is_err());
        assert!(plain("--no-size").is_err());
        let own = parse(&words("-p --no-size"), &mut |name| name == "no-size");
        assert_eq!(own, Ok(Some(Form::Parseable)));
    }
}
