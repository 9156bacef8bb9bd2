//! Prints which crate uses which.
//!
//! Fails if the picture in docs/architecture.md is not the one that it prints.

mod picture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

/// The document with the picture of the crates, below the project's folder.
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

/// Prints the picture; returns whether the document has it.
fn report() -> anyhow::Result<bool> {
    let picture = picture::draw(&picture::crates(&top())?);
    print!("{picture}");
    let good = document()?.contains(&picture);
    if !good {
        println!("\n{DOCUMENT} has another picture of the crates: put this one there");
    }
    Ok(good)
}

/// Returns the text of the document with the picture.
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
}
