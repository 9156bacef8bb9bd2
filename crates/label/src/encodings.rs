//! The names of classifications and words, and the rules of valid labels.

use crate::error::{BadLabel, Reason};
use crate::label::{Compartments, Label};
use crate::set::Words;

/// A classification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Classification {
    /// The long name, the short name and the alternate name. The long name comes first.
    pub names: Vec<String>,
    pub value: u16,
    /// The compartments of a label of this classification that has no word.
    pub initial: Compartments,
}

/// A prefix or suffix of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Affix {
    pub names: Vec<String>,
}

/// A word of sensitivity labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The long name, the short name and names that are only read. The long name comes first.
    pub names: Vec<String>,
    /// The compartments that the word adds.
    pub on: Compartments,
    /// The compartments that the word removes.
    pub off: Compartments,
    /// The classifications at which the word is legal: the minimum and the maximum.
    pub classes: (u16, u16),
    /// The classifications at which a label is printed with this word.
    pub shown: (u16, u16),
    /// The number of the prefix in [`Encodings::prefixes`].
    pub prefix: Option<usize>,
    /// The number of the suffix in [`Encodings::suffixes`].
    pub suffix: Option<usize>,
}

impl Word {
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    fn is_in(&self, label: Label) -> bool {
        label.set().contains(self.on) && label.set().intersection(self.off).is_empty()
    }

    /// Returns true if `other` says all that this word says, and more.
    fn is_implied_by(&self, other: &Self) -> bool {
        other.on.contains(self.on)
            && other.off.contains(self.off)
            && (other.on, other.off) != (self.on, self.off)
    }
}

/// A rule of words that cannot be together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Constraint {
    /// No word of the first list is together with a word of the second one.
    Never(Words, Words),
    /// Beside a word of the first list are only words of the second one. The second list includes
    /// the first one, and the words that a word of it implies.
    Only(Words, Words),
}

/// The labels of one classification that users may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Accredited {
    AllBut(Vec<Label>),
    Only(Vec<Label>),
}

/// An encodings file: the names of labels, and the rules of valid labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encodings {
    pub(crate) version: String,
    /// The classifications by value.
    pub(crate) classifications: Vec<Classification>,
    pub(crate) prefixes: Vec<Affix>,
    pub(crate) suffixes: Vec<Affix>,
    pub(crate) words: Vec<Word>,
    /// For each word, the words that say more, and the words before it that say the same.
    implied: Vec<Words>,
    /// Pairs of words: the first one requires the second one.
    pub(crate) required: Vec<(usize, usize)>,
    pub(crate) constraints: Vec<Constraint>,
    /// For each classification of the accreditation range, its labels.
    pub(crate) accredited: Vec<(u16, Accredited)>,
}

impl Encodings {
    /// Returns the text after `VERSION=`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the long names and the values of the classifications, the lowest value first.
    pub fn classifications(&self) -> impl Iterator<Item = (&str, u16)> {
        self.classifications
            .iter()
            .map(|one| (one.names.first().map_or("", String::as_str), one.value))
    }

    /// Returns the names of the words, in the order of the file.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(Word::name)
    }

    pub(crate) fn classification(&self, value: u16) -> Option<&Classification> {
        self.classifications.iter().find(|one| one.value == value)
    }

    /// Returns the name of a classification. Bounds of words that are not set have no name.
    pub(crate) fn class_name(&self, value: u16) -> String {
        let name = self.classification(value).and_then(|one| one.names.first());
        match value {
            0 => "the lowest".to_owned(),
            u16::MAX => "the highest".to_owned(),
            _ => name.cloned().unwrap_or_else(|| value.to_string()),
        }
    }

    /// Returns the numbers of the words that together stand for the compartments of a label. A word
    /// that says less than another one of the label is left out.
    pub(crate) fn words_of(&self, label: Label) -> Vec<usize> {
        let class = label.classification();
        let is_in =
            |word: &Word| word.is_in(label) && class >= word.shown.0 && class <= word.shown.1;
        let all = self.those(is_in);
        let implied = |number: &usize| {
            let by = self.implied.get(*number);
            by.is_some_and(|by| !by.intersection(&all).is_empty())
        };
        let numbers = (0..self.words.len()).filter(|number| all.has(*number));
        numbers.filter(|one| !implied(one)).collect()
    }

    fn those(&self, wanted: impl Fn(&Word) -> bool) -> Words {
        let words = self.words.iter().enumerate();
        words
            .filter(|(_, word)| wanted(word))
            .map(|(number, _)| number)
            .collect()
    }

    /// Compares all words once. The reader calls this after the last word.
    pub(crate) fn find_implied(&mut self) {
        let by = |(number, word): (usize, &Word)| -> Words {
            let others = self.words.iter().enumerate();
            let implying = others.filter(|(place, other)| {
                let same = (other.on, other.off) == (word.on, word.off);
                word.is_implied_by(other) || (same && *place < number)
            });
            implying.map(|(place, _)| place).collect()
        };
        self.implied = self.words.iter().enumerate().map(by).collect();
    }

    /// Returns the constraint that beside words of `first` are only words of `second`.
    pub(crate) fn only(&self, first: Words, second: &Words) -> Constraint {
        let numbers = (0..self.words.len()).filter(|number| first.has(*number));
        let said = numbers.filter_map(|number| self.words.get(number));
        let implied = said.fold(Words::NONE, |set, one| {
            set.union(&self.those(|word| word.is_implied_by(one)))
        });
        Constraint::Only(first, first.union(second).union(&implied))
    }

    /// Returns the label of a classification with some words.
    pub(crate) fn compose(&self, class: &Classification, words: &[usize]) -> Label {
        let mut set = class.initial;
        for word in words.iter().filter_map(|number| self.words.get(*number)) {
            set = set.union(word.on).without(word.off);
        }
        Label::new(class.value, set)
    }

    /// Fails if the label has no text in these encodings, or breaks a rule of words.
    pub fn check(&self, label: Label) -> Result<(), BadLabel> {
        self.problem(label)
            .map_or(Ok(()), |reason| Err(self.refused(label, reason)))
    }

    /// Fails if the label is not valid, or is outside the accreditation range. A zone needs a label
    /// that passes this check.
    pub fn check_accredited(&self, label: Label) -> Result<(), BadLabel> {
        self.check(label)?;
        if self.is_accredited(label) {
            return Ok(());
        }
        Err(self.refused(label, Reason::NotAccredited))
    }

    fn refused(&self, label: Label, reason: Reason) -> BadLabel {
        let text = self.try_text(label);
        BadLabel::new(&text.unwrap_or_else(|| label.to_string()), reason)
    }

    fn is_accredited(&self, label: Label) -> bool {
        let class = label.classification();
        let range = self.accredited.iter().find(|(value, _)| *value == class);
        range.is_some_and(|(_, labels)| match labels {
            Accredited::AllBut(others) => !others.contains(&label),
            Accredited::Only(these) => these.contains(&label),
        })
    }

    fn problem(&self, label: Label) -> Option<Reason> {
        if label.is_administrative() {
            return None;
        }
        let Some(class) = self.classification(label.classification()) else {
            return Some(Reason::Value(label.classification()));
        };
        // The words that are in the label, without those that a stronger word implies.
        let words = self.words_of(label);
        for word in words.iter().map(|number| &self.words[*number]) {
            if let Some(reason) = self.outside(word, class.value) {
                return Some(reason);
            }
        }
        if self.compose(class, &words) != label {
            return Some(self.unnamed(class, label, &words));
        }
        self.broken_rule(label, &words)
    }

    /// Returns the reason if a word is not legal at a classification.
    pub(crate) fn outside(&self, word: &Word, class: u16) -> Option<Reason> {
        let (minimum, maximum) = word.classes;
        (class < minimum || class > maximum).then(|| Reason::Class {
            word: word.name().to_owned(),
            minimum: self.class_name(minimum),
            maximum: self.class_name(maximum),
        })
    }

    /// Returns the reason for which no words stand for a label.
    fn unnamed(&self, class: &Classification, label: Label, words: &[usize]) -> Reason {
        let set = self.compose(class, words).set();
        let different = set
            .union(label.set())
            .without(set.intersection(label.set()));
        let of_other_class = self.words.iter().find_map(|word| {
            let touches = !word.on.union(word.off).intersection(different).is_empty();
            (touches && word.is_in(label)).then(|| self.outside(word, class.value))?
        });
        of_other_class.unwrap_or_else(|| {
            let numbers: Vec<String> = Label::new(0, different)
                .compartments()
                .map(|number| number.to_string())
                .collect();
            Reason::Compartments(numbers.join(" "))
        })
    }

    fn broken_rule(&self, label: Label, words: &[usize]) -> Option<Reason> {
        let class = label.classification();
        let has = self
            .those(|word| word.is_in(label) && class >= word.classes.0 && class <= word.classes.1);
        let written: Words = words.iter().copied().collect();
        let name = |number: usize| self.words.get(number).map_or("", Word::name).to_owned();
        for (first, second) in &self.required {
            if has.has(*first) && !has.has(*second) {
                return Some(Reason::Required(name(*first), name(*second)));
            }
        }
        for constraint in &self.constraints {
            let broken = match constraint {
                Constraint::Never(first, second) => {
                    let first = has.intersection(first).first();
                    first.zip(has.intersection(second).first())
                }
                Constraint::Only(first, second) => {
                    let one = has.intersection(first).first();
                    one.zip(written.without(second).first())
                }
            };
            if let Some((first, second)) = broken {
                return Some(Reason::Constraint(name(first), name(second)));
            }
        }
        None
    }
}
