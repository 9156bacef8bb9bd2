//! The properties that the fuzzers check, one module for each target.
//!
//! Each module has `check`, which panics on a finding, and `seeds`, which generates inputs from the
//! table of properties and resources, so that new rows are fuzzed automatically. `fuzz/run` runs
//! the targets; see `fuzz/README.md`.

pub mod archive;
mod backing;
pub mod catalogue;
pub mod cluster;
pub mod complete;
mod configs;
pub mod identity;
pub mod image;
pub mod index;
pub mod json;
pub mod label;
pub mod line;
pub mod mutate;
pub mod oci;
pub mod packet;
pub mod peer;
pub mod session;
pub mod tncfg;
pub mod words;
pub mod xml;

use std::fs;
use std::path::Path;

/// The names of the targets.
pub const TARGETS: &[&str] = &[
    "line",
    "complete",
    "session",
    "xml",
    "index",
    "json",
    "packet",
    "image",
    "oci",
    "archive",
    "peer",
    "catalogue",
    "label",
    "cluster",
    "tncfg",
    "identity",
];

/// Checks an input of a target.
///
/// # Panics
/// Panics if the input is a finding.
pub fn check(target: &str, data: &[u8]) {
    match target {
        "line" => line::check(data),
        "complete" => complete::check(data),
        "session" => session::check(data),
        "xml" => xml::check(data),
        "index" => index::check(data),
        "json" => json::check(data),
        "image" => image::check(data),
        "oci" => oci::check(data),
        "catalogue" => catalogue::check(data),
        "label" => label::check(data),
        "tncfg" => tncfg::check(data),
        "identity" => identity::check(data),
        "cluster" => cluster::check(data),
        "archive" => archive::check(data),
        "packet" => packet::check(data),
        "peer" => peer::check(data),
        other => panic!("there is no target {other}"),
    }
}

/// Returns generated inputs of a target.
///
/// # Panics
/// Panics if there is no such target.
#[must_use]
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "line" => line::seeds(),
        "complete" => complete::seeds(),
        "session" => session::seeds(),
        "xml" => xml::seeds(),
        "index" => index::seeds(),
        "json" => json::seeds(),
        "image" => image::seeds(),
        "oci" => oci::seeds(),
        "catalogue" => catalogue::seeds(),
        "label" => label::seeds(),
        "tncfg" => tncfg::seeds(),
        "identity" => identity::seeds(),
        "cluster" => cluster::seeds(),
        "archive" => archive::seeds(),
        "packet" => packet::seeds(),
        "peer" => peer::seeds(),
        other => panic!("there is no target {other}"),
    }
}

/// Writes the dictionary to `words` and the seeds to `seeds/`, in the folder that `FUZZ_MADE`
/// names. libFuzzer's entry point calls this before libFuzzer reads them.
///
/// # Panics
/// Panics if they cannot be written.
pub fn prepare(target: &str) {
    let Some(folder) = std::env::var_os("FUZZ_MADE") else {
        return;
    };
    let folder = Path::new(&folder);
    let seeds = seeds(target);
    fs::create_dir_all(folder.join("seeds")).expect("the folder can be made");
    let write = |name: &str, data: &[u8]| {
        fs::write(folder.join(name), data).expect("the folder is writable");
    };
    write("words", words::dictionary(&seeds).as_bytes());
    for (number, seed) in seeds.iter().enumerate() {
        write(&format!("seeds/{number}"), seed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_corpus_files_pass() {
        for target in TARGETS {
            for data in corpus(target) {
                println!("{target}: {}", data.escape_ascii());
                check(target, &data);
            }
        }
    }

    /// libFuzzer tries more, and knows what is new. This test needs no build of its own.
    #[test]
    fn mutations_of_the_corpus_pass() {
        for target in TARGETS {
            // An input of these makes files, a thread, or a whole session.
            let inputs = match *target {
                "archive" | "peer" | "session" => 600,
                _ => 6000,
            };
            let corpus = corpus(target);
            for seed in 0..inputs {
                let mut data = corpus[seed as usize % corpus.len()].clone();
                for round in 0..3 {
                    data = mutated(target, data, seed * 3 + round);
                }
                let data = data.as_slice();
                let passed = std::panic::catch_unwind(|| check(target, data));
                assert!(passed.is_ok(), "{target}: {}", data.escape_ascii());
            }
        }
    }

    /// Returns the input with one mutation, which the seed determines.
    fn mutated(target: &str, mut data: Vec<u8>, seed: u32) -> Vec<u8> {
        let size = data.len();
        data.resize(size + 256, 0);
        let changed = mutate::mutate(target, &mut data, size, seed, |data, size| {
            let at = seed as usize * 7919 % (size + 1);
            // An odd seed changes a bit, an even one inserts a byte.
            if seed % 2 == 1 && at < size {
                data[at] ^= 1 << (seed / 2 % 8);
                size
            } else {
                data.copy_within(at..size, at + 1);
                data[at] = seed.to_le_bytes()[1];
                size + 1
            }
        });
        data.truncate(changed);
        data
    }

    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(target);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{target}");
        files
            .iter()
            .map(|file| fs::read(file).expect("the file is readable"))
            .collect()
    }

    #[test]
    fn all_seeds_pass() {
        for target in TARGETS {
            let seeds = seeds(target);
            assert!(!seeds.is_empty(), "{target}");
            for seed in seeds {
                println!("{target}: {}", seed.escape_ascii());
                check(target, &seed);
            }
        }
    }
}
