//! Selects the zones that a command acts on: names, globs and ranges.
//!
//! `web1` is a zone; `web*` and `web?` are all zones of the index that match; `web[1-3,7]` is web1,
//! web2, web3 and web7, even if these zones do not exist. The characters `*`, `?`, `[` and `]` are
//! not legal in a zone name.

use model::ZoneName;

/// Maximum number of zones that one range may name.
const MAX_RANGE: usize = 100_000;

/// The reason why a word selects no zones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The word is not a well-formed zone name.
    #[error(transparent)]
    Name(#[from] model::name::BadName),
    /// The range in the word is malformed.
    #[error("{0}: expected numbers and ranges like [1-50] or [1-3,7]")]
    Range(String),
    /// The glob matches no zone.
    #[error("{0}: No such zone configured")]
    NoMatch(String),
}

/// Returns true if the text is a pattern, which may select any number of zones.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Resolves words to zones, in the order of the words, each zone once. A glob selects among the
/// zones in `known`.
///
/// # Errors
/// Fails with [`Error`] for the first word that does not resolve.
pub fn resolve<'a>(
    words: impl IntoIterator<Item = &'a str>,
    known: &[ZoneName],
) -> Result<Vec<ZoneName>, Error> {
    let mut chosen = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for word in words {
        for text in ranges(word)? {
            let matching: Vec<ZoneName> = if text.contains(['*', '?']) {
                let hits: Vec<_> = known
                    .iter()
                    .filter(|zone| matches(&text, zone.as_str()))
                    .cloned()
                    .collect();
                if hits.is_empty() {
                    return Err(Error::NoMatch(word.to_owned()));
                }
                hits
            } else {
                vec![text.parse()?]
            };
            chosen.extend(
                matching
                    .into_iter()
                    .filter(|zone| seen.insert(zone.clone())),
            );
        }
    }
    Ok(chosen)
}

/// Expands the first range of `word`, and then all later ranges.
fn ranges(word: &str) -> Result<Vec<String>, Error> {
    let bad = || Error::Range(word.to_owned());
    let Some((before, rest)) = word.split_once('[') else {
        return if word.contains(']') {
            Err(bad())
        } else {
            Ok(vec![word.to_owned()])
        };
    };
    let (list, after) = rest.split_once(']').ok_or_else(bad)?;
    let tails = ranges(after)?;
    let mut words = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits
                .then(|| text.parse::<usize>().ok())
                .flatten()
                .ok_or_else(bad)
        };
        let (low, high) = (number(first)?, number(last)?);
        if low > high || (high - low).saturating_mul(tails.len()) > MAX_RANGE {
            return Err(bad());
        }
        // The numbers of `[01-10]` keep their leading zeros.
        let width = if first.starts_with('0') {
            first.len()
        } else {
            0
        };
        for number in low..=high {
            words.extend(
                tails
                    .iter()
                    .map(|tail| format!("{before}{number:0width$}{tail}")),
            );
        }
    }
    Ok(words)
}

/// Returns true if `text` matches `glob`. `*` stands for any text, `?` for one character.
fn matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut g, mut t) = (0, 0);
    // The position to which a mismatch returns: after the last star, which then matches one more
    // character.
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        if g < glob.len() && glob[g] == b'*' {
            back = Some((g + 1, t));
            g += 1;
        } else if g < glob.len() && (glob[g] == b'?' || glob[g] == text[t]) {
            g += 1;
            t += 1;
        } else if let Some((after_star, eaten)) = back {
            back = Some((after_star, eaten + 1));
            g = after_star;
            t = eaten + 1;
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|&b| b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(words: &[&str]) -> Result<Vec<String>, Error> {
        let known: Vec<ZoneName> = ["web1", "web2", "web10", "db"]
            .iter()
            .map(|n| n.parse().unwrap())
            .collect();
        let zones = resolve(words.iter().copied(), &known)?;
        Ok(zones.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn names_globs_and_ranges() {
        assert_eq!(chosen(&["new"]).unwrap(), ["new"]);
        assert_eq!(chosen(&["web*"]).unwrap(), ["web1", "web2", "web10"]);
        assert_eq!(chosen(&["web?", "*b"]).unwrap(), ["web1", "web2", "db"]);
        assert_eq!(chosen(&["web[1-2,10]"]).unwrap(), ["web1", "web2", "web10"]);
        assert_eq!(chosen(&["n[09-11]x"]).unwrap(), ["n09x", "n10x", "n11x"]);
        assert_eq!(
            chosen(&["a[1-2]b[1-2]"]).unwrap(),
            ["a1b1", "a1b2", "a2b1", "a2b2"]
        );
        assert_eq!(
            chosen(&["db", "*"]).unwrap(),
            ["db", "web1", "web2", "web10"]
        );
    }

    #[test]
    fn errors_name_the_pattern_that_matches_no_zone() {
        assert_eq!(chosen(&["mail*"]), Err(Error::NoMatch("mail*".to_owned())));
        for bad in [
            "web[",
            "web]",
            "web[]",
            "web[a-b]",
            "web[3-1]",
            "web[1-999999]",
            "web[-1]",
        ] {
            assert_eq!(chosen(&[bad]), Err(Error::Range(bad.to_owned())), "{bad}");
        }
        assert!(matches!(chosen(&["a/b"]), Err(Error::Name(_))));
    }

    #[test]
    fn globs_with_several_stars_backtrack() {
        for (glob, text, expected) in [
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*ab", "aab", true),
            ("?", "", false),
            ("a**", "a", true),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} {text}");
        }
    }
}
