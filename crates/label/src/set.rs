//! Sets of words.

/// Maximum number of words in a set, and of words in an encodings file.
pub(crate) const MAX_WORDS: usize = 1024;

/// A set of words by their numbers. Its operations take the same time for all sets, so an encodings
/// file cannot make them slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words([u64; MAX_WORDS / 64]);

impl Words {
    pub(crate) const NONE: Self = Self([0; MAX_WORDS / 64]);

    /// Adds a word. Numbers from [`MAX_WORDS`] on are ignored.
    pub(crate) fn insert(&mut self, number: usize) {
        if let Some(part) = self.0.get_mut(number / 64) {
            *part |= 1 << (number % 64);
        }
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        let part = self.0.get(number / 64).copied();
        part.unwrap_or_default() >> (number % 64) & 1 == 1
    }

    fn zip(mut self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        for (one, two) in self.0.iter_mut().zip(other.0) {
            *one = join(*one, two);
        }
        self
    }

    pub(crate) fn union(self, other: &Self) -> Self {
        self.zip(other, |one, two| one | two)
    }

    pub(crate) fn intersection(self, other: &Self) -> Self {
        self.zip(other, |one, two| one & two)
    }

    pub(crate) fn without(self, other: &Self) -> Self {
        self.zip(other, |one, two| one & !two)
    }

    /// Returns the lowest number, or `None` if the set is empty.
    pub(crate) fn first(&self) -> Option<usize> {
        let place = self.0.iter().position(|part| *part != 0)?;
        let bit = self.0.get(place)?.trailing_zeros();
        Some(place * 64 + usize::try_from(bit).ok()?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::NONE
    }
}

impl FromIterator<usize> for Words {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut set = Self::NONE;
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}
