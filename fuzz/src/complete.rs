//! Completion and help of a partly typed line: the completed range is within the line, and each
//! candidate begins with the typed word.

use model::{Config, generate};
use syntax::complete::{self, Context};
use syntax::help;

use crate::line;

/// Returns lines, and the beginning of every word of the table.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = line::seeds();
    for spec in model::table::RESOURCES {
        seeds.push(format!("select {} ", spec.name).into_bytes());
    }
    for spec in model::table::GLOBAL {
        seeds.push(format!("set {}=", spec.name).into_bytes());
    }
    seeds
}

thread_local! {
    /// The configuration that completion uses.
    static CONFIG: Config = generate::config(&crate::configs::web1(), &[7; 400]);
}

/// Checks one line.
///
/// # Panics
/// Panics if the line is a finding.
pub fn check(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else {
        return;
    };
    CONFIG.with(|config| {
        for resource in [None, config.resources().first()] {
            let context = Context {
                config: Some(config),
                resource,
                templates: &["SUNWblank".to_owned()],
            };
            let (start, candidates) = complete::complete(line, context);
            let (_, word) = line.split_at(start);
            for candidate in candidates {
                assert!(candidate.starts_with(word), "{candidate:?} after {word:?}");
            }
        }
    });
    let _ = help::subject(line);
    if let Some(word) = line.split_whitespace().last() {
        let _ = help::subject(word);
    }
}
