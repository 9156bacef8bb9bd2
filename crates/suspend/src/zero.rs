//! Finds pages of zeros.

use crate::format::PAGE;

/// Returns the pages of a chunk that have content other than zeros, one bit each; the lowest bit is
/// the first page. The last page may be shorter than a page.
#[must_use]
pub fn nonzero_pages(chunk: &[u8]) -> u64 {
    let mut pages = 0;
    for (number, page) in chunk.chunks(PAGE).enumerate().take(64) {
        if !is_zero(page) {
            pages |= 1 << number;
        }
    }
    pages
}

/// Each block of 128 bytes is checked as a whole, so that the compiler uses wide registers. Most
/// pages that are not zeros have content in the first block.
fn is_zero(page: &[u8]) -> bool {
    let mut blocks = page.chunks_exact(128);
    blocks.all(|block| block.iter().fold(0, |sum, byte| sum | byte) == 0)
        && blocks.remainder().iter().all(|byte| *byte == 0)
}

/// Moves the pages with these bits to the beginning of the chunk, in order. Returns their total
/// length in bytes.
pub(crate) fn compact(chunk: &mut [u8], pages: u64) -> usize {
    let mut end = 0;
    for (start, length) in runs(pages, chunk.len()) {
        if start != end {
            chunk.copy_within(start..start + length, end);
        }
        end += length;
    }
    end
}

/// Returns the offset and length of each run of pages with these bits, in a chunk of this length.
/// Adjacent pages are one run.
pub(crate) fn runs(pages: u64, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = pages.checked_shr(at)?;
        if rest == 0 {
            return None;
        }
        let first = at + rest.trailing_zeros();
        let count = (pages >> first).trailing_ones();
        at = first + count;
        let start = first as usize * PAGE;
        let end = (start + count as usize * PAGE).min(length);
        Some((start, end.checked_sub(start)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::CHUNK;

    #[test]
    fn a_page_with_one_nonzero_byte_counts() {
        let mut chunk = vec![0; CHUNK];
        assert_eq!(nonzero_pages(&chunk), 0);
        for (at, page) in [(0, 0), (4095, 0), (4096, 1), (CHUNK - 1, 63)] {
            chunk[at] = 1;
            assert_eq!(nonzero_pages(&chunk), 1 << page, "{at}");
            chunk[at] = 0;
        }
        let mut short = vec![0; 5000];
        short[4999] = 1;
        assert_eq!(nonzero_pages(&short), 2);
    }

    #[test]
    fn runs_are_all_pages() {
        let all = |pages, length| runs(pages, length).collect::<Vec<_>>();
        assert_eq!(all(0, CHUNK), []);
        assert_eq!(all(u64::MAX, CHUNK), [(0, CHUNK)]);
        assert_eq!(all(u64::MAX >> 1, CHUNK), [(0, CHUNK - PAGE)]);
        assert_eq!(all(1 << 63, CHUNK), [(CHUNK - PAGE, PAGE)]);
        assert_eq!(all(0b1011, 13_000), [(0, 8192), (12288, 712)]);
    }

    #[test]
    fn compact_keeps_order() {
        let mut chunk: Vec<u8> = (0..4u8).flat_map(|page| [page; PAGE]).collect();
        assert_eq!(compact(&mut chunk, 0b1010), 2 * PAGE);
        assert!(chunk[..PAGE].iter().all(|byte| *byte == 1));
        assert!(chunk[PAGE..2 * PAGE].iter().all(|byte| *byte == 3));
    }
}
