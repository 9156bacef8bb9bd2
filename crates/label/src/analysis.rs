//! A description of an encodings file, and remarks on parts of it that are valid and have no effect.

use crate::encodings::{Accredited, Classification, Encodings, Word};
use crate::label::{Compartments, Label};

/// A part of an encodings file that is valid, but that the administrator probably did not intend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Remark {
    /// No label of a classification is in the accreditation range.
    #[error(
        "classification {0}: no zone can have it, because no label of it is in the ACCREDITATION RANGE"
    )]
    NoLabel(String),
    /// The accreditation range of a classification names a label of another one.
    #[error(
        "ACCREDITATION RANGE of {class}: label {label} is of another classification, and has no effect"
    )]
    OtherClass {
        /// The classification of the range.
        class: String,
        /// The label.
        label: String,
    },
    /// Two words of the same classifications stand for the same compartments.
    #[error(
        "words {0} and {1}: they have the same compartments, so a label is never printed with the second one"
    )]
    Same(String, String),
}

impl Encodings {
    /// Returns the contents of the file as lines: its version, classifications with their labels for
    /// zones, and words.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let mut lines = vec![format!("version {}", self.version)];
        lines.extend(self.classifications.iter().map(|one| self.class_line(one)));
        lines.extend(self.words.iter().map(|one| self.word_line(one)));
        lines
    }

    fn class_line(&self, class: &Classification) -> String {
        let initial = if class.initial.is_empty() {
            String::new()
        } else {
            format!(", initial compartments {}", numbers(class.initial))
        };
        let names = |labels: &[Label]| -> String {
            let names: Vec<String> = labels.iter().map(|label| self.short_text(*label)).collect();
            names.join(", ")
        };
        let zones = match self.range(class.value) {
            Some(Accredited::AllBut(others)) if others.is_empty() => "all labels".to_owned(),
            Some(Accredited::AllBut(others)) => format!("all labels except {}", names(others)),
            Some(Accredited::Only(these)) if !these.is_empty() => format!("only {}", names(these)),
            _ => "no label".to_owned(),
        };
        let (name, value) = (both(&class.names), class.value);
        format!("classification {name}, value {value}{initial}; for zones: {zones}")
    }

    fn word_line(&self, word: &Word) -> String {
        let mut compartments = Vec::new();
        if !word.on.is_empty() {
            compartments.push(numbers(word.on));
        }
        if !word.off.is_empty() {
            compartments.push(format!("without {}", numbers(word.off)));
        }
        let (minimum, maximum) = word.classes;
        let name = both(&word.names);
        format!(
            "word {name}, compartments {}; from {} to {}",
            compartments.join(" "),
            self.class_name(minimum),
            self.class_name(maximum)
        )
    }

    /// Returns remarks on parts of the file that are valid and have no effect.
    #[must_use]
    pub fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        for class in &self.classifications {
            let name = || self.class_name(class.value);
            let (none, listed) = match self.range(class.value) {
                Some(Accredited::Only(these)) => {
                    let of_class = |label: &Label| label.classification() == class.value;
                    (!these.iter().any(of_class), these.as_slice())
                }
                Some(Accredited::AllBut(others)) => (false, others.as_slice()),
                None => (true, [].as_slice()),
            };
            for label in listed {
                if label.classification() != class.value {
                    let (class, label) = (name(), self.text(*label));
                    remarks.push(Remark::OtherClass { class, label });
                }
            }
            if none {
                remarks.push(Remark::NoLabel(name()));
            }
        }
        for (number, word) in self.words.iter().enumerate() {
            let same = |other: &&Word| {
                (other.on, other.off, other.shown) == (word.on, word.off, word.shown)
            };
            if let Some(other) = self.words.iter().take(number).find(same) {
                let (other, word) = (other.name().to_owned(), word.name().to_owned());
                remarks.push(Remark::Same(other, word));
            }
        }
        remarks
    }

    fn range(&self, class: u16) -> Option<&Accredited> {
        let found = self.accredited.iter().find(|(value, _)| *value == class);
        found.map(|(_, range)| range)
    }
}

/// Returns the long name with the second name after it, which is the short one if there is any.
fn both(names: &[String]) -> String {
    match names {
        [long, short, ..] => format!("{long} ({short})"),
        [long] => long.clone(),
        [] => String::new(),
    }
}

/// Returns the numbers of compartments with ranges, such as `1-3 7`.
fn numbers(set: Compartments) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for number in Label::new(0, set).compartments() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts: Vec<String> = ranges
        .iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../tests/label_encodings");

    fn remarks(from: &str, to: &str) -> Vec<String> {
        assert!(EXAMPLE.contains(from), "{from}");
        let encodings = Encodings::read(&EXAMPLE.replacen(from, to, 1)).unwrap();
        let remarks = encodings.remarks();
        remarks.iter().map(Remark::to_string).collect()
    }

    #[test]
    fn describes_classifications_and_words() {
        let lines = Encodings::read(EXAMPLE).unwrap().describe();
        for line in [
            "version Example of Zones for Linux 1.0",
            "classification PUBLIC (PUB), value 2, initial compartments 4; for zones: only PUB",
            "classification CONFIDENTIAL (CNF), value 4, initial compartments 4; for zones: all labels except CNF",
            "classification SANDBOX (SBX), value 5; for zones: all labels",
            "classification MAX LABEL (MAX), value 10, initial compartments 0 4-5 190-239; for zones: no label",
            "word RESTRICTED (RST), compartments 1-3; from CONFIDENTIAL to CONFIDENTIAL",
            "word NORTH, compartments 120 without 100; from TOP SECRET to the highest",
        ] {
            assert!(lines.iter().any(|one| one == line), "{line}: {lines:#?}");
        }
        assert_eq!(lines.len(), 17);
    }

    #[test]
    fn remarks_on_what_has_no_effect() {
        let always = "classification MAX LABEL: no zone can have it, because no label of it is in the ACCREDITATION RANGE";
        assert_eq!(remarks("VERSION=", "VERSION="), [always]);
        for (from, to, remark) in [
            (
                "valid except:\nCNF",
                "valid except:\nPUB",
                "ACCREDITATION RANGE of CONFIDENTIAL: label PUBLIC is of another classification, and has no effect",
            ),
            (
                "combinations:\n\nPUB\n",
                "combinations:\n\nCNF\n",
                "classification PUBLIC: no zone can have it, because no label of it is in the ACCREDITATION RANGE",
            ),
            (
                "name= BRAVO; sname= B; compartments= 11;",
                "name= BRAVO; sname= B; compartments= 10;",
                "words ALPHA and BRAVO: they have the same compartments, so a label is never printed with the second one",
            ),
        ] {
            let found = remarks(from, to);
            assert!(
                found.iter().any(|one| one == remark),
                "{remark}: {found:#?}"
            );
            assert!(found.iter().any(|one| one == always), "{found:#?}");
        }
    }
}
