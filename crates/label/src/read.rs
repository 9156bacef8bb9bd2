//! The reader of the encodings file.
//!
//! The file has sections in a fixed order. A keyword ends at a semicolon or at the end of its line;
//! a comment begins with `*` where a keyword can begin. The sections that only windows, printers
//! and users need are checked for their order and otherwise ignored.

mod accreditation;
mod combinations;
mod fields;
mod items;
mod sections;
mod words;

use crate::encodings::{Classification, Encodings};
use crate::error::{BadEncodings, Problem, at, shown};
use crate::label::Compartments;
use fields::{add_name, compartments, first_is_name, has, name};
use items::items;
use sections::{Block, Section};

/// Maximum size of an encodings file in bytes.
pub const MAX_FILE_BYTES: usize = 256 << 10;

const CLASSIFICATION: &[&str] = &[
    "name=",
    "sname=",
    "aname=",
    "value=",
    "initial compartments=",
    "initial markings=",
];

impl Encodings {
    /// Reads an encodings file: its labels for zones. Fails with the number of the line of the first
    /// error.
    pub fn read(text: &str) -> Result<Self, BadEncodings> {
        read(text, Section::SensitivityLabels)
    }

    /// Reads an encodings file: its clearances of users. Clearances have words of their own, and no
    /// accreditation range. Fails with the number of the line of the first error.
    pub fn read_clearances(text: &str) -> Result<Self, BadEncodings> {
        read(text, Section::Clearances)
    }
}

/// Reads the classifications, and the words of the section `of`.
fn read(text: &str, of: Section) -> Result<Encodings, BadEncodings> {
    if text.len() > MAX_FILE_BYTES {
        return Err(at(1, Problem::TooLarge));
    }
    let blocks = sections::split(text)?;
    let mut encodings = Encodings::default();
    // True from the heading of the section `of` to the heading of another one with words.
    let mut inside = false;
    for block in &blocks {
        match block.section {
            Section::Version => encodings.version = version(block),
            Section::Classifications => classifications(&mut encodings, block)?,
            Section::SensitivityLabels | Section::Clearances | Section::Channels => {
                inside = block.section == of;
            }
            Section::Words if inside => words::read(&mut encodings, block)?,
            Section::Required if inside => combinations::required(&mut encodings, block)?,
            Section::Constraints if inside => combinations::constraints(&mut encodings, block)?,
            Section::Accreditation if of == Section::Clearances => {
                accreditation::check_clearance(&encodings, block)?;
            }
            Section::Accreditation => accreditation::read(&mut encodings, block)?,
            _ => {}
        }
    }
    Ok(encodings)
}

fn version(block: &Block<'_>) -> String {
    let first = block.lines.first().map_or("", |(_, text)| *text);
    shown(first.trim().trim_end_matches(';').trim_end())
}

fn classifications(encodings: &mut Encodings, block: &Block<'_>) -> Result<(), BadEncodings> {
    let section = Section::Classifications.name();
    let mut entries: Vec<(usize, Draft)> = Vec::new();
    for item in items(&block.lines) {
        let (keyword, value) = item.keyword(section, CLASSIFICATION)?;
        if keyword == "name=" {
            let names = vec![name(&item, keyword, value)?];
            entries.push((
                item.line,
                Draft {
                    names,
                    ..Draft::default()
                },
            ));
            continue;
        }
        let Some((_, draft)) = entries.last_mut() else {
            return Err(first_is_name(&item));
        };
        match keyword {
            "sname=" | "aname=" => {
                add_name(&mut draft.names, name(&item, keyword, value)?, item.line)?;
            }
            "value=" => {
                let number = value.parse().ok().filter(|one| (1..=255).contains(one));
                let bad = || item.bad(keyword, value, "a number from 1 to 255");
                draft.value = Some(number.ok_or_else(bad)?);
            }
            "initial compartments=" => {
                let (on, off) = compartments(&item, keyword, value)?;
                if !off.is_empty() {
                    return Err(item.bad(keyword, value, "compartments without ~"));
                }
                draft.initial = on;
            }
            _ => {}
        }
    }
    for (line, draft) in entries {
        let first = draft.names.first().cloned().unwrap_or_default();
        let Some(value) = draft.value else {
            let (name, keyword) = (first, "value=");
            return Err(at(line, Problem::Missing { name, keyword }));
        };
        for other in &encodings.classifications {
            if let Some(twice) = draft.names.iter().find(|one| has(&other.names, one)) {
                return Err(at(line, Problem::Twice(twice.clone())));
            }
            if other.value == value {
                return Err(at(line, Problem::Twice(format!("value= {value}"))));
            }
        }
        encodings.classifications.push(Classification {
            names: draft.names,
            value,
            initial: draft.initial,
        });
    }
    if encodings.classifications.is_empty() {
        return Err(at(block.line, Problem::Empty(section)));
    }
    encodings.classifications.sort_by_key(|one| one.value);
    Ok(())
}

/// A classification whose keywords are not all read.
#[derive(Default)]
struct Draft {
    names: Vec<String>,
    value: Option<u16>,
    initial: Compartments,
}

#[cfg(test)]
mod tests;
