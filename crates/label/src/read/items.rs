//! The keywords of a section.

use crate::error::{BadEncodings, Problem, at, shown};
use crate::text::distance;

/// Maximum number of characters that a suggested keyword differs by from the text that was found.
const MAX_TYPOS: usize = 2;

/// A keyword, with its value if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub line: usize,
    pub text: &'a str,
}

/// Returns the keywords of some lines, without comments.
pub(super) fn items<'a>(lines: &[(usize, &'a str)]) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    for (line, text) in lines {
        for part in text.split(';') {
            let text = part.trim();
            if text.starts_with('*') {
                break;
            }
            if !text.is_empty() {
                items.push(Item { line: *line, text });
            }
        }
    }
    items
}

impl<'a> Item<'a> {
    /// Splits the text into one of some keywords and its value. A keyword without `=` or `:` at its
    /// end has no value.
    pub(super) fn keyword(
        &self,
        section: &'static str,
        keywords: &[&'static str],
    ) -> Result<(&'static str, &'a str), BadEncodings> {
        let found = keywords.iter().find_map(|keyword| {
            let begin = self.text.get(..keyword.len())?;
            let rest = self.text.get(keyword.len()..)?.trim();
            let takes_value = keyword.ends_with(['=', ':']);
            let same = begin.eq_ignore_ascii_case(keyword) && (takes_value || rest.is_empty());
            same.then_some((*keyword, rest))
        });
        found.ok_or_else(|| {
            let end = self.text.find('=').map_or(self.text.len(), |end| end + 1);
            let typed = self.text.get(..end).unwrap_or(self.text);
            let lower = typed.to_ascii_lowercase();
            let near = keywords
                .iter()
                .map(|one| (distance(one, &lower), *one))
                .min();
            let near = near.filter(|(typos, _)| *typos <= MAX_TYPOS);
            at(
                self.line,
                Problem::Keyword {
                    section,
                    found: shown(typed),
                    near: near.map(|(_, keyword)| keyword.to_owned()),
                },
            )
        })
    }

    pub(super) fn bad(
        &self,
        keyword: &'static str,
        value: &str,
        expected: &'static str,
    ) -> BadEncodings {
        let value = shown(value);
        at(
            self.line,
            Problem::Value {
                keyword,
                value,
                expected,
            },
        )
    }
}

/// Returns the lines of a part without keywords, without comments and empty lines. A line that
/// ends with a backslash continues on the next one.
pub(super) fn plain_lines(lines: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut result: Vec<(usize, String)> = Vec::new();
    let mut continued = false;
    for (number, line) in lines {
        let text = without_comment(line)
            .trim()
            .trim_end_matches(';')
            .trim_end();
        let (text, more) = match text.strip_suffix('\\') {
            Some(text) => (text.trim_end(), true),
            None => (text, false),
        };
        match result.last_mut().filter(|_| continued) {
            Some((_, before)) => {
                before.push(' ');
                before.push_str(text);
            }
            None if text.is_empty() => {}
            None => result.push((*number, text.to_owned())),
        }
        continued = more;
    }
    result
}

fn without_comment(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| {
        let before = line.get(..*at).unwrap_or_default();
        before.is_empty() || before.ends_with([' ', '\t'])
    };
    let comment = line.match_indices('*').find(begins);
    comment.map_or(line, |(at, _)| line.get(..at).unwrap_or(line))
}
