//! Labels from text and as text.

use crate::encodings::{Affix, Encodings};
use crate::error::{BadLabel, Reason, shown};
use crate::label::{ADMIN_HIGH, ADMIN_LOW, Label};

/// Maximum length of the text of a label in bytes.
pub const MAX_LABEL_BYTES: usize = 1024;

/// Maximum number of characters that a suggested word differs by from the word that was typed.
const MAX_TYPOS: usize = 2;

/// Maximum number of characters of an unknown word that are compared with known words.
const MAX_COMPARED: usize = 128;

/// Characters that only separate words.
const SEPARATORS: [char; 4] = [' ', '/', ',', ':'];

impl Encodings {
    /// Reads a label: text, the hexadecimal form, `ADMIN_LOW` or `ADMIN_HIGH`. Capital and small
    /// letters are the same. Fails if the label is not valid; it may be outside the accreditation
    /// range.
    pub fn parse(&self, text: &str) -> Result<Label, BadLabel> {
        let text = text.trim();
        let bad = |reason| BadLabel::new(text, reason);
        if text.is_empty() || text.len() > MAX_LABEL_BYTES || text.chars().any(char::is_control) {
            return Err(bad(Reason::Text));
        }
        let upper = normal(text);
        let label = match upper.as_str() {
            ADMIN_LOW => Label::ADMIN_LOW,
            ADMIN_HIGH => Label::ADMIN_HIGH,
            hex if hex.starts_with("0X") => text.parse()?,
            words => self.parse_words(words).map_err(bad)?,
        };
        self.check(label)
            .map_err(|error| bad(error.reason))
            .map(|()| label)
    }

    /// Reads a label that a zone or a user can have: [`Self::parse`], and within the accreditation
    /// range.
    pub fn parse_accredited(&self, text: &str) -> Result<Label, BadLabel> {
        let label = self.parse(text)?;
        self.check_accredited(label)
            .map_err(|error| BadLabel::new(text.trim(), error.reason))?;
        Ok(label)
    }

    fn parse_words(&self, text: &str) -> Result<Label, Reason> {
        let classes = self.classifications.iter();
        let class = classes
            .filter_map(|class| Some((longest(&class.names, text)?, class)))
            .max_by_key(|(length, _)| *length);
        let Some((length, class)) = class else {
            let known: Vec<&str> = self.classifications().map(|(name, _)| name).collect();
            return Err(Reason::Classification {
                known: shown(&known.join(", ")),
            });
        };
        let mut rest = &text[length..];
        let mut prefix = None;
        let mut words = Vec::new();
        loop {
            rest = rest.trim_start_matches(' ');
            if rest.is_empty() {
                break;
            }
            let word = self.word_at(rest, prefix);
            let affix = affix_at(&self.prefixes, rest).filter(|(length, _)| match word {
                Some((of_word, _)) => *length > of_word,
                None => true,
            });
            if let Some((length, number)) = affix {
                prefix = Some(number);
                rest = &rest[length..];
            } else if let Some((length, number)) = word {
                let found = &self.words[number];
                if let Some(reason) = self.outside(found, class.value) {
                    return Err(reason);
                }
                words.push(number);
                rest = &rest[length..];
            } else if let Some((length, _)) = affix_at(&self.suffixes, rest) {
                prefix = None;
                rest = &rest[length..];
            } else if let Some(after) = rest.strip_prefix(SEPARATORS) {
                rest = after;
            } else {
                return Err(Reason::Word {
                    word: shown(rest),
                    near: self.near(rest),
                });
            }
        }
        Ok(self.compose(class, &words))
    }

    /// Returns the length and the number of the word at the beginning of a text. Words with the
    /// current prefix come first, then words without one, then those of a prefix that is left out.
    fn word_at(&self, text: &str, prefix: Option<usize>) -> Option<(usize, usize)> {
        let rank = |of_word: Option<usize>| match of_word {
            same if same == prefix => 2,
            None => 1,
            Some(_) => 0,
        };
        let found = self.words.iter().enumerate().filter_map(|(number, word)| {
            let length = longest(&word.names, text)?;
            Some(((length, rank(word.prefix), usize::MAX - number), number))
        });
        found.max().map(|((length, _, _), number)| (length, number))
    }

    fn near(&self, text: &str) -> Option<String> {
        let typed = text.split(SEPARATORS).next().unwrap_or_default();
        let names = self.words.iter().flat_map(|word| &word.names);
        let near = names
            .map(|name| {
                let name_typed = if name.contains(' ') { text } else { typed };
                (distance(&normal(name), name_typed), name)
            })
            .min()?;
        (near.0 <= MAX_TYPOS && near.0 < near.1.chars().count()).then(|| near.1.clone())
    }

    /// Returns a label as text, with long names: `CONFIDENTIAL : NEED TO KNOW`. Returns the
    /// hexadecimal form of a label that has no text in these encodings.
    #[must_use]
    pub fn text(&self, label: Label) -> String {
        self.try_text(label).unwrap_or_else(|| label.to_string())
    }

    /// Returns a label as text, with short names: `CNF : NTK`.
    #[must_use]
    pub fn short_text(&self, label: Label) -> String {
        self.write(label, true).unwrap_or_else(|| self.text(label))
    }

    pub(crate) fn try_text(&self, label: Label) -> Option<String> {
        self.write(label, false)
    }

    /// Returns the text of a label, if reading it gives the same label again.
    fn write(&self, label: Label, short: bool) -> Option<String> {
        if label == Label::ADMIN_LOW {
            return Some(ADMIN_LOW.to_owned());
        }
        if label == Label::ADMIN_HIGH {
            return Some(ADMIN_HIGH.to_owned());
        }
        let class = self.classification(label.classification())?;
        let name = |names: &[String]| -> String {
            let short_name = names.get(1).filter(|_| short);
            short_name.or(names.first()).cloned().unwrap_or_default()
        };
        let mut text = name(&class.names);
        let mut current = (None, None);
        for number in self.words_of(label) {
            let word = &self.words[number];
            let same = current == (word.prefix, word.suffix) && current != (None, None);
            if !same {
                let suffix = current
                    .1
                    .and_then(|number: usize| self.suffixes.get(number));
                let prefix = word.prefix.and_then(|number| self.prefixes.get(number));
                for affix in suffix.into_iter().chain(prefix) {
                    text.push(' ');
                    text.push_str(&name(&affix.names));
                }
            }
            text.push(if same { '/' } else { ' ' });
            text.push_str(&name(&word.names));
            current = (word.prefix, word.suffix);
        }
        if let Some(suffix) = current.1.and_then(|number| self.suffixes.get(number)) {
            text.push(' ');
            text.push_str(&name(&suffix.names));
        }
        (self.parse_words(&normal(&text)) == Ok(label)).then_some(text)
    }
}

/// Returns a text in capital letters with single blanks. Only ASCII letters change, so that lengths
/// stay the same.
pub(crate) fn normal(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").to_ascii_uppercase()
}

/// Returns the length of the longest of some names with which a text begins. After the name the
/// text has a separator, or ends.
fn longest(names: &[String], text: &str) -> Option<usize> {
    let begins = |name: &String| {
        let begin = text.get(..name.len())?;
        let rest = text.get(name.len()..)?;
        let ends = rest.is_empty() || rest.starts_with(SEPARATORS) || name.ends_with(':');
        (!name.is_empty() && ends && begin.eq_ignore_ascii_case(name)).then_some(name.len())
    };
    names.iter().filter_map(begins).max()
}

fn affix_at(affixes: &[Affix], text: &str) -> Option<(usize, usize)> {
    let found = affixes.iter().enumerate();
    found
        .filter_map(|(number, affix)| Some((longest(&affix.names, text)?, number)))
        .max_by_key(|(length, _)| *length)
}

/// Returns the number of characters that must be added, removed or replaced to turn one text into
/// the other one.
pub(crate) fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().take(MAX_COMPARED).collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, b) in two.iter().enumerate() {
            let replaced = before + usize::from(a != *b);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[two.len()]
}
