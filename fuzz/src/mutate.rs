//! Mutations that keep most of an input valid.
//!
//! libFuzzer changes bytes, and with bytes alone it needs hours to find a third element of a list
//! or a resource inside another. So every second mutation moves whole pieces: lines and commands,
//! XML elements, or words.

use crate::words;

/// Returns whether a byte is part of a word.
const fn is_inner(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b'%' | b'&')
}

/// Mutates the first `size` bytes of `data`, which may grow to its whole length. Returns the new
/// size. `bytes` is libFuzzer's own mutation.
pub fn mutate(
    target: &str,
    data: &mut [u8],
    size: usize,
    seed: u32,
    bytes: impl FnOnce(&mut [u8], usize) -> usize,
) -> usize {
    let mut random = Random(u64::from(seed) << 1 | 1);
    if random.below(2) == 0 {
        return bytes(data, size);
    }
    let pieces = match random.below(3) {
        0 => split(&data[..size], ends_statement),
        1 => split(&data[..size], ends_group()),
        _ => split(&data[..size], ends_word),
    };
    let changed = change(target, &pieces, &mut random);
    let size = changed.len().min(data.len());
    data[..size].copy_from_slice(&changed[..size]);
    size
}

/// Returns the pieces with one mutation.
fn change(target: &str, pieces: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let (from, to) = (
        random.below(pieces.len() + 1),
        random.below(pieces.len() + 1),
    );
    let count = (1 + random.below(4)).min(pieces.len() - from);
    let span = &pieces[from..from + count];
    words::with(target, |words| {
        // Keywords are tried as often as all names together.
        let word = match random.below(2) {
            0 => words::MORE[random.below(words::MORE.len())].as_bytes(),
            _ => &words[random.below(words.len())],
        };
        let (before, after) = pieces.split_at(to);
        match random.below(6) {
            // Insert a copy of the span at a position, or directly after the span.
            0 => [before, span, after].concat().concat(),
            1 => [&pieces[..from], span, &pieces[from..]].concat().concat(),
            // Remove the span.
            2 => [&pieces[..from], &pieces[from + count..]].concat().concat(),
            // Replace the pieces at a position with the span.
            3 => [before, span, after.get(count..).unwrap_or_default()]
                .concat()
                .concat(),
            // Insert a word.
            4 => [before, &[word], after].concat().concat(),
            // Replace a piece with a word.
            _ => [before, &[word], after.get(1..).unwrap_or_default()]
                .concat()
                .concat(),
        }
    })
}

/// Splits between a byte and the next where `ends` returns true for both.
fn split(data: &[u8], mut ends: impl FnMut(u8, u8) -> bool) -> Vec<&[u8]> {
    data.chunk_by(|byte, next| !ends(*byte, *next)).collect()
}

const fn ends_statement(byte: u8, next: u8) -> bool {
    matches!(byte, b'\n' | b';' | b'>') || next == b'<'
}

/// Returns a function that ends a piece between the elements of a list; a complex or quoted value
/// is one piece.
fn ends_group() -> impl FnMut(u8, u8) -> bool {
    let (mut quoted, mut depth) = (false, 0usize);
    move |byte, next| {
        match byte {
            b'"' => quoted = !quoted,
            b'(' if !quoted => depth += 1,
            b')' if !quoted => depth = depth.saturating_sub(1),
            b'\n' => (quoted, depth) = (false, 0),
            _ => {}
        }
        let inside = quoted || depth > 0;
        !inside && (b" ,:[{\n".contains(&byte) || b"]},/>".contains(&next))
    }
}

const fn ends_word(byte: u8, next: u8) -> bool {
    !(is_inner(byte) && is_inner(next))
}

/// A pseudo-random generator (xorshift), whose seed comes from libFuzzer.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole() {
        let line = b"add fs; set options=[ro,\"a b\"]\n<a b='c'/>";
        for pieces in [
            split(line, ends_statement),
            split(line, ends_group()),
            split(line, ends_word),
        ] {
            assert!(pieces.len() > 2);
            assert_eq!(pieces.concat(), line);
        }
        let list = split(b"[(a=b,c=\"\"),\"d, e\",f]", ends_group());
        let list: Vec<_> = list
            .iter()
            .map(|piece| piece.escape_ascii().to_string())
            .collect();
        assert_eq!(
            list,
            ["[", "(a=b,c=\\\"\\\")", ",", "\\\"d, e\\\"", ",", "f", "]"]
        );
    }

    #[test]
    fn lists_grow_and_nothing_outgrows_its_room() {
        let text = b"set a=[b,(c=\"\")]";
        let mut found = false;
        for seed in 0..10_000 {
            let mut data = [0; 24];
            data[..text.len()].copy_from_slice(text);
            let size = mutate("line", &mut data, text.len(), seed, |_, size| size);
            found |= &data[..size] == b"set a=[b,(c=\"\"),(c=\"\")]"
                || &data[..size] == b"set a=[b,b,(c=\"\")]";
        }
        assert!(found);
        assert_eq!(mutate("xml", &mut [], 0, 3, |_, size| size), 0);
    }
}
