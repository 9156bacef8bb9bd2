//! The words that require or exclude each other.

use std::collections::HashMap;

use super::fields::{MAX_ENTRIES, MAX_ITEMS, MAX_NAME};
use super::items::plain_lines;
use super::sections::{Block, Section};
use crate::encodings::{Constraint, Encodings};
use crate::error::{BadEncodings, Problem, at, shown};
use crate::set::Words;
use crate::text::normal;

/// Maximum length of a prefix, a blank and the name of a word in bytes.
const MAX_WORD: usize = 2 * MAX_NAME + 1;

/// Reads lines with two words, of which the first one requires the second one.
pub(super) fn required(encodings: &mut Encodings, block: &Block<'_>) -> Result<(), BadEncodings> {
    let index = Index::of(encodings);
    for (line, text) in bounded(block, Section::Required)? {
        let text = normal(&text);
        let (first, rest) = index.word(line, &text)?;
        let (second, rest) = index.word(line, rest)?;
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
    let index = Index::of(encodings);
    let section = Section::Constraints.name();
    let mut items = 0;
    for (line, text) in bounded(block, Section::Constraints)? {
        items += text.split(['|', '!', '&']).count();
        if items > MAX_ITEMS {
            let limit = MAX_ITEMS;
            return Err(at(line, Problem::TooMany { section, limit }));
        }
        let Some(at_sign) = text.find(['!', '&']) else {
            return Err(at(
                line,
                Problem::Value {
                    keyword: section,
                    value: shown(&text),
                    expected: "words with ! or & between them",
                },
            ));
        };
        let (first, rest) = text.split_at(at_sign);
        let second = rest.get(1..).unwrap_or_default();
        let first = index.list(line, first)?;
        let constraint = if rest.starts_with('!') {
            Constraint::Never(first, index.list(line, second)?)
        } else if second.trim().is_empty() {
            encodings.only(first, &Words::NONE)
        } else {
            encodings.only(first, &index.list(line, second)?)
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

/// The words of the file by their names in capital letters. Of several words with one name, the
/// first one counts.
struct Index {
    names: HashMap<String, usize>,
    /// For each name of a prefix, the words with this prefix.
    prefixed: HashMap<String, HashMap<String, usize>>,
}

impl Index {
    fn of(encodings: &Encodings) -> Self {
        let (mut names, mut prefixed) = (HashMap::new(), HashMap::new());
        for (number, word) in encodings.words.iter().enumerate() {
            let own: Vec<String> = word.names.iter().map(|one| normal(one)).collect();
            let prefix = word.prefix.and_then(|one| encodings.prefixes.get(one));
            for prefix in prefix.iter().flat_map(|prefix| &prefix.names) {
                let words: &mut HashMap<String, usize> =
                    prefixed.entry(normal(prefix)).or_default();
                for name in &own {
                    words.entry(name.clone()).or_insert(number);
                }
            }
            for name in own {
                names.entry(name).or_insert(number);
            }
        }
        Self { names, prefixed }
    }

    /// Returns the first word with this name. A prefix before the name belongs to the word.
    fn find(&self, text: &str) -> Option<usize> {
        let ends = text.char_indices().map(|(end, _)| end);
        let of_prefix = ends.take_while(|end| *end <= MAX_NAME).filter_map(|end| {
            let (prefix, rest) = text.split_at(end);
            self.prefixed.get(prefix)?.get(rest.trim_start()).copied()
        });
        of_prefix.chain(self.names.get(text).copied()).min()
    }

    /// Returns the words of a list with `|` between them.
    fn list(&self, line: usize, text: &str) -> Result<Words, BadEncodings> {
        let mut words = Words::NONE;
        for part in text.split('|') {
            let part = normal(part);
            match self.word(line, &part)? {
                (word, "") => words.insert(word),
                (_, rest) => return Err(unknown(line, rest)),
            }
        }
        Ok(words)
    }

    /// Returns the longest word with which a text begins, and the rest of the text.
    fn word<'a>(&self, line: usize, text: &'a str) -> Result<(usize, &'a str), BadEncodings> {
        let text = text.trim_start();
        let ends = text.match_indices(' ').map(|(end, _)| end);
        let ends = ends.chain([text.len()]);
        let mut ends: Vec<usize> = ends.take_while(|end| *end <= MAX_WORD).collect();
        ends.reverse();
        for end in ends {
            let (begin, rest) = text.split_at(end);
            if let Some(number) = self.find(begin) {
                return Ok((number, rest.trim_start()));
            }
        }
        Err(unknown(line, text))
    }
}

fn unknown(line: usize, text: &str) -> BadEncodings {
    let (kind, name) = ("word", shown(text));
    at(line, Problem::Unknown { kind, name })
}
