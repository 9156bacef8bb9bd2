//! Splits the file into its sections, and checks their order.

use crate::error::{BadEncodings, Problem, at, shown};

/// A section or subsection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Version,
    Classifications,
    InformationLabels,
    SensitivityLabels,
    Clearances,
    Channels,
    PrinterBanners,
    Accreditation,
    NameInformationLabels,
    LocalDefinitions,
    Words,
    Required,
    Constraints,
}

/// All sections with their headings. A longer heading stands before its beginning.
const HEADINGS: [(Section, &str); 13] = [
    (Section::Version, "VERSION="),
    (Section::Classifications, "CLASSIFICATIONS:"),
    (Section::InformationLabels, "INFORMATION LABELS:"),
    (Section::SensitivityLabels, "SENSITIVITY LABELS:"),
    (Section::Clearances, "CLEARANCES:"),
    (Section::Channels, "CHANNELS:"),
    (Section::PrinterBanners, "PRINTER BANNERS:"),
    (Section::Accreditation, "ACCREDITATION RANGE:"),
    (Section::NameInformationLabels, "NAME INFORMATION LABELS:"),
    (Section::LocalDefinitions, "LOCAL DEFINITIONS:"),
    (Section::Words, "WORDS:"),
    (Section::Required, "REQUIRED COMBINATIONS:"),
    (Section::Constraints, "COMBINATION CONSTRAINTS:"),
];

/// The order of a valid file. The last two sections can be missing.
const ORDER: [Section; 21] = [
    Section::Version,
    Section::Classifications,
    Section::InformationLabels,
    Section::Words,
    Section::Required,
    Section::Constraints,
    Section::SensitivityLabels,
    Section::Words,
    Section::Required,
    Section::Constraints,
    Section::Clearances,
    Section::Words,
    Section::Required,
    Section::Constraints,
    Section::Channels,
    Section::Words,
    Section::PrinterBanners,
    Section::Words,
    Section::Accreditation,
    Section::NameInformationLabels,
    Section::LocalDefinitions,
];

/// Number of sections at the end of [`ORDER`] that can be missing.
const OPTIONAL: usize = 2;

impl Section {
    pub(super) fn name(self) -> &'static str {
        let found = HEADINGS.iter().find(|(section, _)| *section == self);
        found.map_or("", |(_, heading)| heading)
    }
}

/// The lines of a section.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub section: Section,
    /// The number of the line of the heading.
    pub line: usize,
    /// The lines after the heading, with their numbers. The first one is the rest of the heading's
    /// line.
    pub lines: Vec<(usize, &'a str)>,
}

/// Returns the sections of a file. Fails if one is missing or not in its place.
pub(super) fn split(text: &str) -> Result<Vec<Block<'_>>, BadEncodings> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    // The number of the next section in the order.
    let mut next = 0;
    let mut number = 0;
    for line in text.lines() {
        number += 1;
        if line.chars().any(|c| c.is_control() && c != '\t') {
            return Err(at(number, Problem::NotText));
        }
        let ended = blocks
            .last()
            .is_some_and(|block| block.section == Section::LocalDefinitions);
        if ended {
            continue;
        }
        let mut rest = line.trim();
        while let Some((section, after)) = heading(rest) {
            let last = ORDER.len() - OPTIONAL;
            let skipped = if next >= last {
                ORDER.get(next..)
            } else {
                None
            };
            let ahead = skipped.and_then(|rest| rest.iter().position(|one| *one == section));
            next += ahead.unwrap_or_default();
            match ORDER.get(next) {
                Some(expected) if *expected == section => next += 1,
                other => return Err(misplaced(number, other.copied(), section.name())),
            }
            blocks.push(Block {
                section,
                line: number,
                lines: Vec::new(),
            });
            rest = after.trim_start();
            if section == Section::Version {
                break;
            }
        }
        match blocks.last_mut() {
            Some(block) => block.lines.push((number, rest)),
            None if rest.is_empty() || rest.starts_with('*') => {}
            None => return Err(misplaced(number, ORDER.first().copied(), rest)),
        }
    }
    match ORDER.get(next) {
        Some(_) if next < ORDER.len() - OPTIONAL => Err(misplaced(
            number + 1,
            ORDER.get(next).copied(),
            "the end of the file",
        )),
        _ => Ok(blocks),
    }
}

/// Returns the section whose heading begins a line, and the rest of the line.
fn heading(line: &str) -> Option<(Section, &str)> {
    HEADINGS.iter().find_map(|(section, heading)| {
        let begin = line.get(..heading.len())?;
        let rest = line.get(heading.len()..)?;
        begin
            .eq_ignore_ascii_case(heading)
            .then_some((*section, rest))
    })
}

fn misplaced(line: usize, expected: Option<Section>, found: &str) -> BadEncodings {
    at(
        line,
        Problem::Section {
            expected: expected.map_or("the end of the file", Section::name),
            found: shown(found),
        },
    )
}
