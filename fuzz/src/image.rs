//! The readers of suspend images: the header, the end and the index, after decryption.

use serde_json::json;
use suspend::codec::Codec;
use suspend::format::{HEADER, Header, TRAILER, Trailer};
use suspend::index::{Entry, Index};

/// The length of the file to which the indexes refer, in bytes.
const FILE: u64 = 1 << 22;

/// Returns a header, an end, and some indexes; the first byte selects the kind.
///
/// # Panics
/// Fails if the system has no random numbers.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let key = suspend::Key::from([7; 32]);
    let (header, _) = Header::new(1_790_000_000, &key).expect("random numbers");
    let end = Trailer {
        id: header.id,
        index: 8192,
        length: FILE - 8192 - TRAILER as u64,
        file: FILE,
        tag: [1; 16],
    };
    let mut seeds = vec![tagged(0, &header.bytes()[..128]), tagged(1, &end.bytes())];
    for streams in [
        &[][..],
        &[("memory", 700_000u64), ("cpu", 0), ("devices", 9)],
    ] {
        let streams = Index::streams(streams.iter().copied()).expect("names and sizes");
        let count = Index::chunks(&streams);
        let mut index = Index {
            identity: json!({"machine": "pc-q35-7.2", "cpus": 2}),
            streams,
            entries: Vec::new(),
        };
        let mut entry = |number: u64| match number {
            1 => Entry::new(Codec::Lz4, u64::MAX, 4096, 116, 0),
            3 => Entry::new(Codec::Raw, 1, 4212, 25, 0),
            _ => Entry::default(),
        };
        index.entries = (0..count).map(&mut entry).collect();
        let bytes = index.bytes().expect("a short identity");
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        seeds.push(tagged(2, &bytes[..=used]));
    }
    seeds
}

fn tagged(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind][..], bytes].concat()
}

/// Checks one input.
///
/// # Panics
/// Panics if the input is a finding.
pub fn check(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    match kind {
        0 => {
            let mut block = bytes.to_vec();
            block.resize(HEADER, 0);
            if let Ok(header) = Header::parse(&block) {
                assert_eq!(header.bytes()[..], block[..]);
                // The key is wrong for every header.
                assert!(header.unwrap_key(&suspend::Key::from([0; 32])).is_err());
            }
        }
        1 => {
            if let Ok(end) = Trailer::parse(bytes, FILE) {
                assert_eq!(end.bytes()[..], *bytes);
                assert!(end.index + end.length + TRAILER as u64 == FILE);
            }
        }
        _ => {
            let Ok(index) = Index::parse(bytes, FILE) else {
                return;
            };
            // An accepted index, written and read again, is equal.
            let written = index.bytes().expect("it was short enough to be read");
            assert_eq!(Index::parse(&written, FILE).as_ref(), Ok(&index));
            let chunks = Index::chunks(&index.streams);
            assert_eq!(chunks, index.entries.len() as u64);
            for number in 0..chunks.min(100) {
                assert!(index.stream_of(number).is_some());
            }
            if let Ok((order, gaps)) = index.layout(FILE) {
                assert!(gaps.iter().all(|gap| gap.end <= FILE));
                assert!(order.iter().all(|number| *number < chunks));
            }
        }
    }
}
