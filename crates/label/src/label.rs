//! A label: a classification and a set of compartments.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::error::BadLabel;

/// Number of compartments that a label can have, as on Solaris.
pub(crate) const COMPARTMENTS: u16 = 256;

/// The highest classification, which only `ADMIN_HIGH` has.
const HIGHEST: u16 = 0x7fff;

/// The text of [`Label::ADMIN_LOW`].
pub(crate) const ADMIN_LOW: &str = "ADMIN_LOW";

/// The text of [`Label::ADMIN_HIGH`].
pub(crate) const ADMIN_HIGH: &str = "ADMIN_HIGH";

/// Number of words of 32 bits in a set of compartments. The hexadecimal form of a label states it.
const LENGTH: &str = "08";

/// A set of compartments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Compartments([u64; 4]);

impl Compartments {
    pub(crate) const NONE: Self = Self([0; 4]);
    const ALL: Self = Self([u64::MAX; 4]);

    /// Adds a compartment. Numbers from [`COMPARTMENTS`] on are ignored.
    pub(crate) fn insert(&mut self, number: u16) {
        if let Some(part) = self.0.get_mut(usize::from(number / 64)) {
            *part |= 1 << (number % 64);
        }
    }

    fn has(self, number: u16) -> bool {
        let part = self.0.get(usize::from(number / 64)).copied();
        part.unwrap_or_default() >> (number % 64) & 1 == 1
    }

    fn zip(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let mut result = self.0;
        for (one, two) in result.iter_mut().zip(other.0) {
            *one = join(*one, two);
        }
        Self(result)
    }

    pub(crate) fn union(self, other: Self) -> Self {
        self.zip(other, |one, two| one | two)
    }

    pub(crate) fn intersection(self, other: Self) -> Self {
        self.zip(other, |one, two| one & two)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        self.zip(other, |one, two| one & !two)
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.intersection(other) == other
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Returns the bytes of the set. Compartment 0 is the highest bit of the first byte, as in
    /// Solaris' hexadecimal form.
    fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for number in (0..COMPARTMENTS).filter(|number| self.has(*number)) {
            bytes[usize::from(number / 8)] |= 0x80 >> (number % 8);
        }
        bytes
    }
}

/// The relation of one label to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Both labels are the same.
    Equal,
    /// The first label dominates the second one, and is another.
    Above,
    /// The second label dominates the first one, and is another.
    Below,
    /// Neither label dominates the other one.
    Incomparable,
}

/// A sensitivity label.
///
/// `Display` and `FromStr` use the hexadecimal form of Solaris, such as `0x0004-08-68`: the
/// classification, the length of the set of compartments, and the compartments. [`crate::Encodings`]
/// turns a label into text.
///
/// Labels have no total order: [`PartialOrd`] is dominance, and incomparable labels have no
/// [`Ordering`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    classification: u16,
    compartments: Compartments,
}

impl Label {
    /// The label that every label dominates: the label of the host's files.
    pub const ADMIN_LOW: Self = Self {
        classification: 0,
        compartments: Compartments::NONE,
    };

    /// The label that dominates every label. It only bounds ranges.
    pub const ADMIN_HIGH: Self = Self {
        classification: HIGHEST,
        compartments: Compartments::ALL,
    };

    pub(crate) const fn new(classification: u16, compartments: Compartments) -> Self {
        Self {
            classification,
            compartments,
        }
    }

    /// Returns the classification.
    #[must_use]
    pub const fn classification(self) -> u16 {
        self.classification
    }

    /// Returns the numbers of the compartments, from 0 to 255.
    pub fn compartments(self) -> impl Iterator<Item = u16> {
        (0..COMPARTMENTS).filter(move |number| self.compartments.has(*number))
    }

    pub(crate) const fn set(self) -> Compartments {
        self.compartments
    }

    /// Returns true if this label dominates `other`: a reader at this label may read what has the
    /// label `other`. Each label dominates itself.
    #[must_use]
    pub fn dominates(self, other: Self) -> bool {
        self.classification >= other.classification
            && self.compartments.contains(other.compartments)
    }

    /// Returns true if this label dominates `low`, and `high` dominates this label.
    #[must_use]
    pub fn is_within(self, low: Self, high: Self) -> bool {
        self.dominates(low) && high.dominates(self)
    }

    /// Returns the relation of this label to `other`.
    #[must_use]
    pub fn relation(self, other: Self) -> Relation {
        match (self.dominates(other), other.dominates(self)) {
            (true, true) => Relation::Equal,
            (true, false) => Relation::Above,
            (false, true) => Relation::Below,
            (false, false) => Relation::Incomparable,
        }
    }

    /// Returns the least upper bound: the lowest label that dominates both.
    #[must_use]
    pub fn lub(self, other: Self) -> Self {
        Self {
            classification: self.classification.max(other.classification),
            compartments: self.compartments.union(other.compartments),
        }
    }

    /// Returns the greatest lower bound: the highest label that both dominate.
    #[must_use]
    pub fn glb(self, other: Self) -> Self {
        Self {
            classification: self.classification.min(other.classification),
            compartments: self.compartments.intersection(other.compartments),
        }
    }

    /// Returns true for `ADMIN_LOW` and `ADMIN_HIGH`, which no zone can have.
    #[must_use]
    pub fn is_administrative(self) -> bool {
        self == Self::ADMIN_LOW || self == Self::ADMIN_HIGH
    }
}

impl PartialOrd for Label {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.relation(*other) {
            Relation::Equal => Some(Ordering::Equal),
            Relation::Above => Some(Ordering::Greater),
            Relation::Below => Some(Ordering::Less),
            Relation::Incomparable => None,
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}-{LENGTH}-", self.classification)?;
        let bytes = self.compartments.to_bytes();
        let used = bytes.iter().rposition(|byte| *byte != 0);
        for byte in &bytes[..=used.unwrap_or_default()] {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Label {
    type Err = BadLabel;

    /// Reads the hexadecimal form. A label without compartments may end after its length.
    fn from_str(text: &str) -> Result<Self, BadLabel> {
        from_hex(text).ok_or_else(|| BadLabel::new(text, crate::Reason::Hex))
    }
}

fn from_hex(text: &str) -> Option<Label> {
    let rest = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))?;
    let mut parts = rest.splitn(3, '-');
    let classification = parts
        .next()
        .filter(|part| part.len() == 4 && is_hex(part))?;
    let classification = u16::from_str_radix(classification, 16).ok()?;
    let set = match (parts.next(), parts.next()) {
        (Some(LENGTH), set) => set.unwrap_or_default(),
        _ => return None,
    };
    if classification > HIGHEST || set.len() > 64 || set.len() % 2 != 0 || !is_hex(set) {
        return None;
    }
    let mut compartments = Compartments::NONE;
    for (number, digit) in (0u16..).zip(set.chars()) {
        let digit = digit.to_digit(16)?;
        for bit in (0..4u16).filter(|bit| digit & (8 >> bit) != 0) {
            compartments.insert(number * 4 + bit);
        }
    }
    Some(Label::new(classification, compartments))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_forms_are_those_of_solaris() {
        let label: Label = "0x0004-08-68".parse().unwrap();
        assert_eq!(label.classification(), 4);
        assert_eq!(label.compartments().collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(label.to_string(), "0x0004-08-68");
        assert_eq!(Label::ADMIN_LOW.to_string(), "0x0000-08-00");
        let high = Label::ADMIN_HIGH.to_string();
        assert_eq!(high, format!("0x7fff-08-{}", "ff".repeat(32)));
        assert_eq!("0x0004-08".parse(), "0X0004-08-0000".parse::<Label>());
    }

    #[test]
    fn refuses_what_is_not_hexadecimal() {
        for bad in [
            "",
            "0x",
            "0004-08-68",
            "0x4-08-68",
            "0x0004",
            "0x0004-07-68",
            "0x0004-08-6",
            "0x0004-08-6g",
            "0x8000-08-00",
            "0x+004-08-00",
            "0x0004-08-68-68",
            &format!("0x0004-08-{}", "ff".repeat(33)),
        ] {
            let error = bad.parse::<Label>().unwrap_err();
            assert!(error.to_string().contains("0x0004-08-68"), "{error}");
        }
    }

    #[test]
    fn labels_with_different_compartments_are_incomparable() {
        let [low, one, two] = ["0x0001-08-00", "0x0004-08-40", "0x0005-08-20"]
            .map(|hex| hex.parse::<Label>().unwrap());
        assert_eq!(one.relation(two), Relation::Incomparable);
        assert_eq!(one.partial_cmp(&two), None);
        assert_eq!(one.relation(low), Relation::Above);
        assert_eq!(low.relation(one), Relation::Below);
        assert!(one.is_within(Label::ADMIN_LOW, Label::ADMIN_HIGH));
        assert!(!one.is_within(low, two));
        assert!(Label::ADMIN_HIGH.is_administrative() && !one.is_administrative());
    }
}
