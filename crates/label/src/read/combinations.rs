//! The words that require or exclude each other.

use super::fields::{MAX_ENTRIES, has};
use super::items::plain_lines;
use super::sections::{Block, Section};
use crate::encodings::{Constraint, Encodings};
use crate::error::{BadEncodings, Problem, at, shown};
use crate::text::normal;

/// Reads lines with two words, of which the first one requires the second one.
pub(super) fn required(encodings: &mut Encodings, block: &Block<'_>) -> Result<(), BadEncodings> {
    for (line, text) in bounded(block, Section::Required)? {
        let text = normal(&text);
        let (first, rest) = word(encodings, line, &text)?;
        let (second, rest) = word(encodings, line, rest)?;
        if !rest.is_empty() {
            return Err(unknown(line, rest));
        }
        encodings.required.push((first, second));
    }
    Ok(())
}

/// Reads lines `A ! B | C` (A never with B or C), `A & B | C` (A only with B or C) and `A &` (A with
/// no other word).
pub(super) fn constraints(
    encodings: &mut Encodings,
    block: &Block<'_>,
) -> Result<(), BadEncodings> {
    for (line, text) in bounded(block, Section::Constraints)? {
        let Some(at_sign) = text.find(['!', '&']) else {
            return Err(at(
                line,
                Problem::Value {
                    keyword: Section::Constraints.name(),
                    value: shown(&text),
                    expected: "words with ! or & between them",
                },
            ));
        };
        let (first, rest) = text.split_at(at_sign);
        let second = rest.get(1..).unwrap_or_default();
        let first = list(encodings, line, first)?;
        let constraint = if rest.starts_with('!') {
            Constraint::Never(first, list(encodings, line, second)?)
        } else if second.trim().is_empty() {
            Constraint::Only(first, Vec::new())
        } else {
            Constraint::Only(first, list(encodings, line, second)?)
        };
        encodings.constraints.push(constraint);
    }
    Ok(())
}

fn bounded(block: &Block<'_>, section: Section) -> Result<Vec<(usize, String)>, BadEncodings> {
    let lines = plain_lines(&block.lines);
    if lines.len() > MAX_ENTRIES {
        let (section, limit) = (section.name(), MAX_ENTRIES);
        return Err(at(block.line, Problem::TooMany { section, limit }));
    }
    Ok(lines)
}

/// Returns the words of a list with `|` between them.
fn list(encodings: &Encodings, line: usize, text: &str) -> Result<Vec<usize>, BadEncodings> {
    let mut words = Vec::new();
    for part in text.split('|') {
        let part = normal(part);
        match word(encodings, line, &part)? {
            (word, "") => words.push(word),
            (_, rest) => return Err(unknown(line, rest)),
        }
    }
    Ok(words)
}

/// Returns the longest word with which a text begins, and the rest of the text. A prefix before the
/// word belongs to the word.
fn word<'a>(
    encodings: &Encodings,
    line: usize,
    text: &'a str,
) -> Result<(usize, &'a str), BadEncodings> {
    let text = text.trim_start();
    let ends = text.match_indices(' ').map(|(end, _)| end);
    let mut ends: Vec<usize> = ends.chain([text.len()]).collect();
    ends.reverse();
    for end in ends {
        let (begin, rest) = text.split_at(end);
        let found = encodings.words.iter().position(|word| {
            let prefix = word
                .prefix
                .and_then(|number| encodings.prefixes.get(number));
            let of_prefix = |name: &String| {
                let rest = begin.get(name.len()..).unwrap_or_default();
                has(
                    std::slice::from_ref(name),
                    begin.get(..name.len()).unwrap_or_default(),
                ) && has(&word.names, rest.trim_start())
            };
            has(&word.names, begin) || prefix.is_some_and(|one| one.names.iter().any(of_prefix))
        });
        if let Some(number) = found {
            return Ok((number, rest.trim_start()));
        }
    }
    Err(unknown(line, text))
}

fn unknown(line: usize, text: &str) -> BadEncodings {
    let (kind, name) = ("word", shown(text));
    at(line, Problem::Unknown { kind, name })
}
