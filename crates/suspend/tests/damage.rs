//! A changed image is refused: none of its content is restored, and no function panics or
//! hangs.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Page, Random};
use suspend::codec::Codec;
use suspend::{Choice, Damage, Error, Image, Io, Key};

struct Fixture {
    _folder: tempfile::TempDir,
    path: PathBuf,
    key: Key,
    bytes: Vec<u8>,
}

/// Saves a small image with all kinds of pages. An image with all codecs would need three images,
/// so the caller chooses one codec.
fn fixture(codec: Codec) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    let mut kinds = vec![Page::Zero; 64];
    kinds.extend([Page::Text; 40]);
    kinds.extend([Page::Noise; 12]);
    kinds.extend([Page::Zero; 12]);
    kinds.extend([Page::Byte; 3]);
    kinds.extend([Page::Noise; 9]);
    let memory = common::memory(&kinds, 100, 11);
    let devices = common::memory(&[Page::Text; 2], 7, 12);
    let streams = [("devices", &devices[..]), ("memory", &memory)];
    let options = common::options(Choice::Always(codec), Io::Plain, 1);
    common::save(&path, &key, &streams, options).unwrap();
    Fixture {
        bytes: fs::read(&path).unwrap(),
        _folder: folder,
        path,
        key,
    }
}

/// Opens an image and reads all of its content.
fn read(path: &Path, key: &Key) -> Result<(), Error> {
    let image = Image::open(path, key)?;
    suspend::verify(&image, &common::loading(Io::Plain, 1)).map(|_| ())
}

impl Fixture {
    /// Returns the error of reading an image with these bytes.
    fn with(&self, bytes: &[u8]) -> Result<(), Error> {
        fs::write(&self.path, bytes).unwrap();
        let said = read(&self.path, &self.key);
        fs::write(&self.path, &self.bytes).unwrap();
        said
    }
}

#[test]
fn a_thousand_flipped_bits_are_refused_each() {
    let mut random = Random(0x5eed);
    for codec in Codec::ALL {
        let fixture = fixture(codec);
        read(&fixture.path, &fixture.key).unwrap();
        let file = File::options().write(true).open(&fixture.path).unwrap();
        for _ in 0..334 {
            let (at, bit) = (random.below(fixture.bytes.len()), random.below(8));
            let byte = fixture.bytes[at];
            file.write_all_at(&[byte ^ 1 << bit], at as u64).unwrap();
            let error = read(&fixture.path, &fixture.key).expect_err("a flipped bit");
            assert!(error.is_refusal(), "byte {at}: {error}");
            file.write_all_at(&[byte], at as u64).unwrap();
        }
        read(&fixture.path, &fixture.key).unwrap();
    }
}

#[test]
fn every_byte_outside_of_chunks_counts() {
    let fixture = fixture(Codec::Lz4);
    let image = Image::open(&fixture.path, &fixture.key).unwrap();
    let last = image
        .index()
        .entries
        .iter()
        .map(|entry| entry.end())
        .max()
        .unwrap();
    let last = usize::try_from(last).unwrap();
    // The bytes after the last chunk: the gap, the index and the trailer. Another test changes the
    // header.
    for at in (0..200).chain(last..fixture.bytes.len()).step_by(7) {
        let mut bytes = fixture.bytes.clone();
        bytes[at] ^= 0x10;
        let error = fixture.with(&bytes).expect_err("a changed byte");
        assert!(error.is_refusal(), "byte {at}: {error}");
    }
}

#[test]
fn a_damaged_chunk_is_named() {
    let fixture = fixture(Codec::Zstd);
    let image = Image::open(&fixture.path, &fixture.key).unwrap();
    for (number, entry) in image.index().entries.iter().enumerate() {
        if entry.is_empty() {
            continue;
        }
        let mut bytes = fixture.bytes.clone();
        bytes[usize::try_from(entry.offset).unwrap() + 5] ^= 1;
        match fixture.with(&bytes) {
            Err(Error::Damaged { damage, .. }) => {
                assert_eq!(damage, Damage::Chunk(number as u64));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn truncated_and_longer_images_are_refused() {
    let fixture = fixture(Codec::Lz4);
    let mut random = Random(77);
    let whole = fixture.bytes.len();
    let some = (0..60).map(|_| random.below(whole));
    let blocks = (0..whole).step_by(4096);
    for length in some.chain(blocks).chain([1, whole - 1]) {
        let error = fixture
            .with(&fixture.bytes[..length])
            .expect_err("a short image");
        assert!(error.is_refusal(), "{length}: {error}");
    }
    for more in [1, 64, 4096] {
        let mut bytes = fixture.bytes.clone();
        bytes.resize(whole + more, 0);
        assert!(fixture.with(&bytes).unwrap_err().is_refusal());
    }
    // Without one whole block: the trailer still ends at the end of a block.
    let mut bytes = fixture.bytes.clone();
    bytes.drain(8192..12288);
    assert!(fixture.with(&bytes).unwrap_err().is_refusal());
    // The file has all blocks, but one block was never written.
    for block in (0..whole).step_by(4096) {
        let mut bytes = fixture.bytes.clone();
        bytes[block..block + 4096].fill(0);
        assert!(fixture.with(&bytes).unwrap_err().is_refusal(), "{block}");
    }
}

#[test]
fn chunks_of_other_places_and_images_are_refused() {
    // All chunks have the same length, so each chunk fits at the offset of another chunk.
    let memory = common::memory(&[Page::Noise; 256], 0, 5);
    let folder = tempfile::tempdir().unwrap();
    let key = Key::random().unwrap();
    let image = |name: &str| {
        let path = folder.path().join(name);
        let options = common::options(Choice::Always(Codec::Raw), Io::Plain, 1);
        common::save(&path, &key, &[("memory", &memory)], options).unwrap();
        let image = Image::open(&path, &key).unwrap();
        let places: Vec<std::ops::Range<usize>> = image
            .index()
            .entries
            .iter()
            .map(|entry| {
                let start = usize::try_from(entry.offset).unwrap();
                start..start + entry.length as usize
            })
            .collect();
        (fs::read(&path).unwrap(), places)
    };
    let (one, places) = image("one");
    let (two, same) = image("two");
    assert_eq!(places, same);
    let path = folder.path().join("changed");
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        assert!(read(&path, &key).unwrap_err().is_refusal());
    };
    for (a, b) in [(0, 1), (1, 3), (2, 0)] {
        let mut swapped = one.clone();
        swapped[places[a].clone()].copy_from_slice(&one[places[b].clone()]);
        swapped[places[b].clone()].copy_from_slice(&one[places[a].clone()]);
        refused(&swapped);
        // A chunk from another image, with the same memory, number and caller's key.
        let mut foreign = one.clone();
        foreign[places[a].clone()].copy_from_slice(&two[places[a].clone()]);
        refused(&foreign);
    }
    // The header of one image with the rest of another image; below, the trailer of another image.
    refused(&[&one[..4096], &two[4096..]].concat());
    let end = two.len() - 4096;
    refused(&[&one[..end], &two[end..]].concat());
}

#[test]
fn other_files_are_refused_as_images() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let key = Key::random().unwrap();
    for bytes in [&b""[..], b"ZONESUSP", &[0; 8192], &[0xff; 12288]] {
        fs::write(&path, bytes).unwrap();
        assert!(matches!(
            Image::open(&path, &key),
            Err(Error::NotAnImage { .. })
        ));
        assert!(Image::look(&path).is_err());
    }
    let mut later = fs::read(&fixture(Codec::Raw).path).unwrap();
    later[8] = 2;
    fs::write(&path, later).unwrap();
    let error = Image::open(&path, &key).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("version 2 of the format is unknown here")
    );
    // Opening a folder or a pipe must not block, and a link must not be followed.
    assert!(matches!(
        Image::open(folder.path(), &key),
        Err(Error::NotAnImage { .. })
    ));
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(Image::open(&link, &key), Err(Error::File { .. })));
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(Image::open(&pipe, &key).is_err());
}
