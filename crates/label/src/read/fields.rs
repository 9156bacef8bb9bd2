//! The values that entries of several sections have: names, compartments, classifications.

use super::items::Item;
use crate::encodings::Encodings;
use crate::error::{BadEncodings, Problem, at, shown};
use crate::label::{COMPARTMENTS, Compartments};
use crate::set::MAX_WORDS;
use crate::text::normal;

/// Maximum length of a name in bytes.
pub(super) const MAX_NAME: usize = 128;

/// Maximum number of names of a classification, a word or an affix.
const MAX_NAMES: usize = 16;

/// Maximum number of words, of combinations, and of labels in the accreditation range.
pub(super) const MAX_ENTRIES: usize = MAX_WORDS;

/// Maximum number of names of all words and affixes, and of words in all combinations.
pub(super) const MAX_ITEMS: usize = 4096;

pub(super) fn first_is_name(item: &Item<'_>) -> BadEncodings {
    let (name, keyword) = (shown(item.text), "name= before it");
    at(item.line, Problem::Missing { name, keyword })
}

/// Returns a name with single blanks. Fails if the name is empty or too long.
pub(super) fn name(
    item: &Item<'_>,
    keyword: &'static str,
    value: &str,
) -> Result<String, BadEncodings> {
    let name: Vec<&str> = value.split_whitespace().collect();
    let name = name.join(" ");
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(item.bad(keyword, value, "a name of 1 to 128 bytes"));
    }
    Ok(name)
}

/// Adds a name to an entry that begins at a line, if it is new. Fails if the entry has too many.
pub(super) fn add_name(
    names: &mut Vec<String>,
    name: String,
    line: usize,
) -> Result<(), BadEncodings> {
    if has(names, &name) {
        return Ok(());
    }
    if names.len() >= MAX_NAMES {
        let (name, limit) = (names.swap_remove(0), MAX_NAMES);
        return Err(at(line, Problem::Names { name, limit }));
    }
    names.push(name);
    Ok(())
}

pub(super) fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// Reads compartments such as `1-3 7 ~8`. Returns those to add and, with `~`, those to remove.
pub(super) fn compartments(
    item: &Item<'_>,
    keyword: &'static str,
    value: &str,
) -> Result<(Compartments, Compartments), BadEncodings> {
    let bad = || {
        item.bad(
            keyword,
            value,
            "numbers from 0 to 255, ranges, and ~ before them",
        )
    };
    let number = |text: &str| -> Option<u16> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|one| *one < COMPARTMENTS);
        number.filter(|_| digits)
    };
    let (mut on, mut off) = (Compartments::NONE, Compartments::NONE);
    let parts = value.split([' ', ',']).filter(|part| !part.is_empty());
    for part in parts {
        let (set, part) = match part.strip_prefix('~') {
            Some(rest) => (&mut off, rest),
            None => (&mut on, part),
        };
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = number(first).zip(number(last)).ok_or_else(bad)?;
        if first > last {
            return Err(bad());
        }
        (first..=last).for_each(|one| set.insert(one));
    }
    if !on.intersection(off).is_empty() {
        return Err(item.bad(
            keyword,
            value,
            "compartments that are either set or cleared",
        ));
    }
    Ok((on, off))
}

/// Returns the value of a classification by one of its names.
pub(super) fn class(
    encodings: &Encodings,
    item: &Item<'_>,
    value: &str,
) -> Result<u16, BadEncodings> {
    let wanted = normal(value);
    let found = encodings
        .classifications
        .iter()
        .find(|one| has(&one.names, &wanted));
    found.map(|one| one.value).ok_or_else(|| {
        let (kind, name) = ("classification", shown(value));
        at(item.line, Problem::Unknown { kind, name })
    })
}
