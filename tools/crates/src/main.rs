//! Prints which crate uses which, the files of each crate that import each other in a circle,
//! and the longest functions and files.
//!
//! Fails if the diagram in docs/architecture.md differs from the one that it prints, or if more
//! than [`MAX_CIRCLE_FILES`] files of a crate import each other in a circle.
//!
//! | file | holds |
//! |---|---|
//! | `picture` | the crates of the workspace, and the picture of them |
//! | `source` | the modules of a program or library, read from their files |
//! | `imports` | which file names something of which other file |
//! | `circles` | files that import each other |
//! | `longest` | the longest functions and files |

mod circles;
mod imports;
mod longest;
mod picture;
mod source;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

/// Maximum number of files of one crate that may import each other in a circle; a larger circle can
/// only be read as a whole.
const MAX_CIRCLE_FILES: usize = 3;

/// Number of the longest functions and files that are printed.
const LONGEST_SHOWN: usize = 10;

/// The document with the diagram of the crates, below the project's folder.
const DOCUMENT: &str = "docs/architecture.md";

fn main() -> ExitCode {
    match report() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("crates: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the project's folder.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Prints the report. Returns whether the diagram of the document and all circles are as required.
fn report() -> anyhow::Result<bool> {
    let crates = picture::crates(&top())?;
    let picture = picture::draw(&crates);
    print!("{picture}");
    let mut good = true;
    if !document()?.contains(&picture) {
        good = false;
        println!("\n{DOCUMENT} has another picture of the crates: put this one there");
    }
    let mut longest = longest::Longest::default();
    for one in &crates {
        let source = source::read(&one.root).with_context(|| one.name.clone())?;
        longest.add(&one.name, &source);
    }
    for (name, root) in picture::roots(&top())? {
        let source = source::read(&root).with_context(|| name.clone())?;
        let imports = imports::of(&source);
        for circle in circles::of(&imports) {
            println!("\n{name}: {} files import each other", circle.len());
            good &= circle.len() <= MAX_CIRCLE_FILES;
            print!("{}", circles::show(&circle, &imports));
        }
    }
    print!("{}", longest.show(LONGEST_SHOWN));
    Ok(good)
}

/// Returns the text of the document with the diagram.
fn document() -> anyhow::Result<String> {
    std::fs::read_to_string(top().join(DOCUMENT)).context(DOCUMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_picture_of_the_crates() {
        let picture = picture::draw(&picture::crates(&top()).unwrap());
        assert!(
            document().unwrap().contains(&picture),
            "put the picture that `cargo run -p crates` prints into {DOCUMENT}:\n{picture}"
        );
    }

    #[test]
    fn circles_of_imports_are_small() {
        let mut large = String::new();
        for (name, root) in picture::roots(&top()).unwrap() {
            let imports = imports::of(&source::read(&root).unwrap());
            for circle in circles::of(&imports) {
                if circle.len() > MAX_CIRCLE_FILES {
                    large += &format!("{name}:\n{}", circles::show(&circle, &imports));
                }
            }
        }
        assert!(
            large.is_empty(),
            "too many files import each other: move the shared names to a file below them\n{large}"
        );
    }
}
