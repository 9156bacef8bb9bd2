//! Functions that make memory, save it and load it.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use suspend::codec::Codec;
use suspend::{
    Choice, Durability, Error, Image, Io, Key, Loading, Older, Options, Request, Saved, Stream,
};

/// A generator of pseudorandom numbers with a fixed seed (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() >> 8).unwrap() % count
    }
}

/// The kind of content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Zero,
    Text,
    Noise,
    /// A page of zeros, except its last byte.
    Byte,
}

pub const PAGES: [Page; 4] = [Page::Zero, Page::Text, Page::Noise, Page::Byte];

/// Fills a page with content of this kind.
pub fn fill(page: &mut [u8], kind: Page, random: &mut Random) {
    match kind {
        Page::Zero => page.fill(0),
        Page::Text => {
            let line = format!(
                "{:016x} is a line of text, and this is its end\n",
                random.next()
            );
            for (byte, from) in page.iter_mut().zip(line.bytes().cycle()) {
                *byte = from;
            }
        }
        Page::Noise => page
            .chunks_mut(8)
            .for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()[..word.len()])),
        Page::Byte => {
            page.fill(0);
            page[page.len() - 1] = 1;
        }
    }
}

/// Returns memory with pages of these kinds, and `more` further bytes.
pub fn memory(kinds: &[Page], more: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed | 1);
    let mut bytes = vec![0; kinds.len() * 4096 + more];
    for (place, page) in bytes.chunks_mut(4096).enumerate() {
        let kind = kinds.get(place).copied().unwrap_or(Page::Text);
        fill(page, kind, &mut random);
    }
    bytes
}

/// Returns memory with pages of every kind.
pub fn mixed(chunks: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed | 1);
    let mut kinds = Vec::new();
    while kinds.len() < chunks * 64 {
        let kind = PAGES[random.below(4)];
        let run = 1 + random.below(100);
        kinds.extend(std::iter::repeat_n(kind, run));
    }
    kinds.truncate(chunks * 64);
    memory(&kinds, 0, seed)
}

pub fn identity() -> Value {
    json!({"machine": "pc-q35-7.2", "memory": 1 << 30})
}

pub fn options(choice: Choice, io: Io, threads: usize) -> Options<'static> {
    Options {
        threads: NonZero::new(threads).unwrap(),
        choice,
        io,
        // The tests need no sync to the disk of the test machine.
        durability: Durability::Volatile,
        older: Older::Replace,
        ..Options::default()
    }
}

pub fn save(
    path: &Path,
    key: &Key,
    streams: &[(&str, &[u8])],
    options: Options<'_>,
) -> Result<Saved, Error> {
    let sources: Vec<Box<Slice<'_>>> = streams
        .iter()
        .map(|(_, bytes)| Box::new(Slice(bytes)))
        .collect();
    let streams: Vec<Stream<'_>> = streams
        .iter()
        .zip(&sources)
        .map(|((name, _), source)| Stream {
            name,
            source: source.as_ref(),
        })
        .collect();
    suspend::save(&Request {
        path,
        key,
        identity: &identity(),
        streams: &streams,
        options,
    })
}

/// A slice as a [`Source`](suspend::Source).
struct Slice<'a>(&'a [u8]);

impl suspend::Source for Slice<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, bytes)
    }
}

pub fn loading(io: Io, threads: usize) -> Loading<'static> {
    Loading {
        threads: NonZero::new(threads).unwrap(),
        io,
        ..Loading::default()
    }
}

pub fn load(image: &Image, name: &str, loading: &Loading<'_>) -> Result<Vec<u8>, Error> {
    let size = usize::try_from(image.stream(name)?.size).unwrap();
    let target = Mutex::new(vec![0; size]);
    suspend::restore(image, name, &target, loading)?;
    Ok(target.into_inner().unwrap())
}

pub const CHOICES: [Choice; 4] = [
    Choice::Adaptive,
    Choice::Always(Codec::Raw),
    Choice::Always(Codec::Lz4),
    Choice::Always(Codec::Zstd),
];
