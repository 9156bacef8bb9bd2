//! The words of sensitivity labels, with their prefixes and suffixes.

use std::collections::HashSet;

use super::fields::{
    MAX_ENTRIES, MAX_ITEMS, add_name, class, compartments, first_is_name, has, name,
};
use super::items::{Item, items};
use super::sections::{Block, Section};
use crate::encodings::{Affix, Encodings, Word};
use crate::error::{BadEncodings, Problem, at, shown};
use crate::label::Compartments;

const WORD: &[&str] = &[
    "name=",
    "sname=",
    "iname=",
    "ilname=",
    "minclass=",
    "maxclass=",
    "ominclass=",
    "omaxclass=",
    "compartments=",
    "markings=",
    "prefix=",
    "suffix=",
    "flags=",
    "exact alias=",
    "prefix",
    "suffix",
    "access related",
];

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Prefix,
    Suffix,
}

pub(super) fn read(encodings: &mut Encodings, block: &Block<'_>) -> Result<(), BadEncodings> {
    let section = Section::SensitivityLabels.name();
    let mut entry: Vec<(Item<'_>, &'static str, &str)> = Vec::new();
    let mut entries = Vec::new();
    for item in items(&block.lines) {
        let (keyword, value) = item.keyword(section, WORD)?;
        if keyword == "name=" {
            entries.push(std::mem::take(&mut entry));
        } else if entry.is_empty() {
            return Err(first_is_name(&item));
        }
        entry.push((item, keyword, value));
    }
    entries.push(entry);
    let (mut taken, mut names) = (Taken::new(), 0);
    for entry in entries.iter().filter(|entry| !entry.is_empty()) {
        names += add(encodings, entry, &mut taken)?;
        let affixes = encodings.prefixes.len() + encodings.suffixes.len();
        let entries = encodings.words.len().max(affixes);
        for (count, limit) in [(entries, MAX_ENTRIES), (names, MAX_ITEMS)] {
            if count > limit {
                return Err(at(block.line, Problem::TooMany { section, limit }));
            }
        }
    }
    encodings.find_implied();
    Ok(())
}

/// The names of the words so far, in capital letters, with the prefix and the suffix of the word.
type Taken = HashSet<(Option<usize>, Option<usize>, String)>;

/// Adds a word, a prefix or a suffix. Returns the number of its names.
fn add(
    encodings: &mut Encodings,
    entry: &[(Item<'_>, &'static str, &str)],
    taken: &mut Taken,
) -> Result<usize, BadEncodings> {
    let mut names: Vec<String> = Vec::new();
    let mut inputs = Vec::new();
    let mut kind = Kind::Word;
    let (mut on, mut off) = (Compartments::NONE, Compartments::NONE);
    let (mut classes, mut shown_at) = ((0, u16::MAX), (None, None));
    let (mut prefix, mut suffix) = (None, None);
    for (item, keyword, value) in entry {
        match *keyword {
            "name=" | "sname=" => {
                add_name(&mut names, name(item, keyword, value)?, item.line)?;
            }
            "iname=" => inputs.push((item.line, name(item, keyword, value)?)),
            "minclass=" => classes.0 = class(encodings, item, value)?,
            "maxclass=" => classes.1 = class(encodings, item, value)?,
            "ominclass=" => shown_at.0 = Some(class(encodings, item, value)?),
            "omaxclass=" => shown_at.1 = Some(class(encodings, item, value)?),
            "compartments=" => (on, off) = compartments(item, keyword, value)?,
            "prefix" => kind = Kind::Prefix,
            "suffix" => kind = Kind::Suffix,
            "prefix=" => prefix = Some(affix(&encodings.prefixes, item, "prefix", value)?),
            "suffix=" => suffix = Some(affix(&encodings.suffixes, item, "suffix", value)?),
            _ => {}
        }
    }
    let Some((first, ..)) = entry.first() else {
        return Ok(0);
    };
    for (line, one) in inputs {
        add_name(&mut names, one, line)?;
    }
    let count = names.len();
    match kind {
        Kind::Prefix => encodings.prefixes.push(Affix { names }),
        Kind::Suffix => encodings.suffixes.push(Affix { names }),
        Kind::Word => {
            let problem = |problem| Err(at(first.line, problem));
            if on.is_empty() && off.is_empty() {
                let (name, keyword) = (names.swap_remove(0), "compartments=");
                return problem(Problem::Missing { name, keyword });
            }
            for one in &names {
                if !taken.insert((prefix, suffix, one.to_ascii_uppercase())) {
                    return problem(Problem::Twice(one.clone()));
                }
            }
            // Bounds that leave the word no classification are an error of the file.
            if classes.0 > classes.1 {
                return Err(first.bad("minclass=", first.text, "below maxclass="));
            }
            encodings.words.push(Word {
                names,
                on,
                off,
                classes,
                shown: (
                    shown_at.0.unwrap_or(classes.0),
                    shown_at.1.unwrap_or(classes.1),
                ),
                prefix,
                suffix,
            });
        }
    }
    Ok(count)
}

fn affix(
    affixes: &[Affix],
    item: &Item<'_>,
    kind: &'static str,
    value: &str,
) -> Result<usize, BadEncodings> {
    let found = affixes.iter().position(|one| has(&one.names, value));
    found.ok_or_else(|| {
        let name = shown(value);
        at(item.line, Problem::Unknown { kind, name })
    })
}
