//! The accreditation range: the labels that users and zones may have.

use super::fields::{MAX_ENTRIES, class};
use super::items::{Item, items, plain_lines};
use super::sections::{Block, Section};
use crate::encodings::{Accredited, Encodings};
use crate::error::{BadEncodings, Problem, at};

const KEYWORDS: &[&str] = &[
    "classification=",
    "all compartment combinations valid except:",
    "all compartment combinations valid",
    "only valid compartment combinations:",
    MINIMUM_CLEARANCE,
    MINIMUM_LABEL,
    "minimum protect as classification=",
];

const MINIMUM_CLEARANCE: &str = "minimum clearance=";
const MINIMUM_LABEL: &str = "minimum sensitivity label=";

pub(super) fn read(encodings: &mut Encodings, block: &Block<'_>) -> Result<(), BadEncodings> {
    let section = Section::Accreditation.name();
    // The range of the classification that the lines before have begun.
    let mut current: Option<(u16, Option<Accredited>)> = None;
    let mut labels = 0;
    for (number, line) in &block.lines {
        let begins = items(&[(*number, line)]);
        let is_keyword = begins
            .first()
            .is_some_and(|item| item.keyword(section, KEYWORDS).is_ok());
        if is_keyword {
            for item in begins {
                keyword(encodings, &item, &mut current)?;
            }
            continue;
        }
        for (line, text) in plain_lines(&[(*number, line)]) {
            let item = Item { line, text: &text };
            let Some((_, Some(Accredited::AllBut(list) | Accredited::Only(list)))) = &mut current
            else {
                // The text is neither a keyword nor a label of a list.
                return item.keyword(section, KEYWORDS).map(drop);
            };
            labels += 1;
            if labels > MAX_ENTRIES {
                let limit = MAX_ENTRIES;
                return Err(at(line, Problem::TooMany { section, limit }));
            }
            let label = encodings.parse(&text);
            list.push(label.map_err(|error| at(line, Problem::Label(error)))?);
        }
    }
    finish(encodings, &mut current);
    if encodings.accredited.is_empty() {
        return Err(at(block.line, Problem::Empty(section)));
    }
    Ok(())
}

/// Fails if the minimum clearance is none of the clearances in `encodings`.
pub(super) fn check_clearance(
    encodings: &Encodings,
    block: &Block<'_>,
) -> Result<(), BadEncodings> {
    for item in items(&block.lines) {
        let found = item.keyword(Section::Accreditation.name(), &[MINIMUM_CLEARANCE]);
        if let Ok((_, value)) = found {
            let clearance = encodings.parse(value);
            clearance.map_err(|error| at(item.line, Problem::Label(error)))?;
        }
    }
    Ok(())
}

fn keyword(
    encodings: &mut Encodings,
    item: &Item<'_>,
    current: &mut Option<(u16, Option<Accredited>)>,
) -> Result<(), BadEncodings> {
    let section = Section::Accreditation.name();
    let (keyword, value) = item.keyword(section, KEYWORDS)?;
    let list = match keyword {
        "classification=" => {
            finish(encodings, current);
            let value = class(encodings, item, value)?;
            if encodings.accredited.iter().any(|(one, _)| *one == value) {
                return Err(at(item.line, Problem::Twice(encodings.class_name(value))));
            }
            *current = Some((value, None));
            return Ok(());
        }
        // Only users have clearances; check_clearance checks it.
        MINIMUM_CLEARANCE => return Ok(()),
        MINIMUM_LABEL => {
            let label = encodings.parse(value).map(drop);
            return label.map_err(|error| at(item.line, Problem::Label(error)));
        }
        "minimum protect as classification=" => return class(encodings, item, value).map(drop),
        "only valid compartment combinations:" => Accredited::Only(Vec::new()),
        _ => Accredited::AllBut(Vec::new()),
    };
    match current {
        Some((_, range @ None)) => *range = Some(list),
        Some((_, Some(_))) => return Err(at(item.line, Problem::Twice(keyword.to_owned()))),
        None => {
            let (name, keyword) = (keyword.to_owned(), "classification= before it");
            return Err(at(item.line, Problem::Missing { name, keyword }));
        }
    }
    Ok(())
}

/// Adds the range of a classification. A classification without a range has no label.
fn finish(encodings: &mut Encodings, current: &mut Option<(u16, Option<Accredited>)>) {
    if let Some((class, range)) = current.take() {
        let range = range.unwrap_or(Accredited::Only(Vec::new()));
        encodings.accredited.push((class, range));
    }
}
