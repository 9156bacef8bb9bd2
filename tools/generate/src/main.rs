//! Generates files from the tables of the other crates: sections of the manual pages, the JSON
//! schema of a configuration, and completions for shells.
//!
//! The generated files are checked in, so that they can be read without a build; a test of this
//! program fails if a file differs from the generated one.

mod completion;
mod made;
mod man;
mod programs;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use made::Made;

const USAGE: &str = "\
usage: cargo run -p generate [man | schema | completions]...

Writes the generated parts of docs/man, docs/zone.schema.json and
packaging/completions; without an argument all of them.
";

/// A kind of generated file, and the function that generates all files of this kind.
type Maker = (&'static str, fn(&Path) -> anyhow::Result<Vec<Made>>);

const MAKERS: [Maker; 3] = [
    ("man", man::files),
    ("schema", |_| Ok(vec![schema::file()])),
    ("completions", |_| Ok(completion::files())),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let known = |word: &String| MAKERS.iter().any(|(name, _)| name == word);
    if !words.iter().all(known) {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    }
    match write(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the project's folder.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn write(words: &[String]) -> anyhow::Result<()> {
    for (name, make) in MAKERS {
        if !words.is_empty() && !words.iter().any(|word| word == name) {
            continue;
        }
        for (path, text) in make(&top())? {
            let real = top().join(&path);
            if fs::read_to_string(&real).is_ok_and(|old| old == text) {
                continue;
            }
            if let Some(folder) = real.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&real, text).with_context(|| format!("write {}", path.display()))?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_up_to_date() {
        let mut stale = Vec::new();
        for (_, make) in MAKERS {
            for (path, text) in make(&top()).unwrap() {
                if fs::read_to_string(top().join(&path)).ok() != Some(text) {
                    stale.push(path);
                }
            }
        }
        assert!(
            stale.is_empty(),
            "a table changed and these files did not: run `cargo run -p generate`: {stale:?}"
        );
    }

    #[test]
    fn every_completion_file_is_generated() {
        let made: Vec<PathBuf> = completion::files()
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        for shell in ["bash", "zsh", "fish"] {
            let folder = Path::new("packaging/completions").join(shell);
            for entry in fs::read_dir(top().join(&folder)).unwrap() {
                let path = folder.join(entry.unwrap().file_name());
                assert!(made.contains(&path), "{}: nothing makes it", path.display());
            }
        }
    }
}
