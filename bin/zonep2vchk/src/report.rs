//! Formats findings as text.

use std::fmt::Write;

use serde::Serialize;

use crate::args::Target;
use crate::system::System;

/// A part of the system that will not work in a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The subject of the finding: a service, a path, a name.
    pub subject: String,
    /// The reason or the remedy of the finding.
    pub advice: String,
}

impl Finding {
    /// Creates a finding.
    pub fn new(subject: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            advice: advice.into(),
        }
    }
}

/// Findings of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The name of the section in parseable output, one word.
    pub name: &'static str,
    /// The heading above the findings of the section.
    pub title: &'static str,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Section {
    /// Creates a section with its findings sorted and without duplicates.
    pub fn new(name: &'static str, title: &'static str, mut findings: Vec<Finding>) -> Self {
        findings.sort();
        findings.dedup();
        Self {
            name,
            title,
            findings,
        }
    }
}

/// The result of one kind of checks.
#[derive(Debug, Serialize)]
pub struct Check {
    /// `basic` or `static`.
    pub name: &'static str,
    /// The sections with findings.
    pub sections: Vec<Section>,
}

impl Check {
    fn issues(&self) -> usize {
        let counts = self.sections.iter().map(|section| section.findings.len());
        counts.sum()
    }
}

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    version: &'static str,
    host: String,
    release: String,
    kernel: String,
    platform: &'static str,
    brand: &'static str,
    ip_type: &'static str,
    checks: Vec<Check>,
}

impl Report {
    /// Creates the report of a system.
    pub fn new(system: &System, target: Target, checks: Vec<Check>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            host: system.host_name(),
            release: system.release(),
            kernel: Some(system.kernel())
                .filter(|kernel| !kernel.is_empty())
                .unwrap_or_else(|| "not running".to_owned()),
            platform: std::env::consts::ARCH,
            brand: crate::report::BRAND,
            ip_type: target.ip_type(),
            checks,
        }
    }

    /// Returns the number of issues.
    pub fn issues(&self) -> usize {
        self.checks.iter().map(Check::issues).sum()
    }

    /// Returns the report as text for a person to read.
    pub fn text(&self) -> String {
        let mut text = format!("--Executing Version: {}\n", self.version);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n  - Source System: {}\n      Operating System: {}\n      Kernel:           {}\n      Platform:         {}\n\
             \n  - Target System:\n      Zone Brand:       {}\n      IP type:          {}\n",
            harmless(&self.host),
            harmless(&self.release),
            harmless(&self.kernel),
            self.platform,
            self.brand,
            self.ip_type
        );
        for check in &self.checks {
            let _ = write!(text, "\n--Executing {} checks\n", check.name);
            for section in &check.sections {
                let _ = write!(text, "\n  - {}\n\n", section.title);
                for finding in &section.findings {
                    let _ = writeln!(text, "      {}", harmless(&finding.subject));
                    let _ = writeln!(text, "          {}", harmless(&finding.advice));
                }
            }
            let name = capital(check.name);
            let _ = write!(
                text,
                "\n  {name} checks complete. Issue(s) detected: {}\n",
                check.issues()
            );
        }
        let _ = write!(text, "\n--Total issue(s) detected: {}\n", self.issues());
        text
    }

    /// Returns the report for programs: one line for each issue.
    pub fn parseable(&self) -> String {
        let mut text = String::new();
        for check in &self.checks {
            for section in &check.sections {
                for finding in &section.findings {
                    let field =
                        |text: &str| harmless(text).replace('\\', "\\\\").replace(':', "\\:");
                    let _ = writeln!(
                        text,
                        "{}:{}:{}:{}",
                        check.name,
                        section.name,
                        field(&finding.subject),
                        field(&finding.advice)
                    );
                }
            }
        }
        text
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map_err(|error| error.to_string())
    }
}

/// Replaces control characters. The checked system may be hostile: text of its files must not move
/// the cursor or end a line.
pub fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// A system of its own, from an archive or a directory, is of this brand.
pub const BRAND: &str = "lx";

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let findings = vec![
            Finding::new("b:c", "not\there"),
            Finding::new("a", "gone"),
            Finding::new("a", "gone"),
        ];
        let section = Section::new("services", "The following do not work in a zone:", findings);
        Report {
            version: "1",
            host: "old\u{1b}".to_owned(),
            release: "Debian".to_owned(),
            kernel: "6".to_owned(),
            platform: "x86_64",
            brand: "lx",
            ip_type: "shared",
            checks: vec![Check {
                name: "basic",
                sections: vec![section],
            }],
        }
    }

    #[test]
    fn the_text_report_has_sections_and_lists() {
        assert_eq!(
            report().text(),
            "--Executing Version: 1\n\n  - Source System: old?\n      Operating System: Debian\n      \
             Kernel:           6\n      Platform:         x86_64\n\n  - Target System:\n      \
             Zone Brand:       lx\n      IP type:          shared\n\n--Executing basic checks\n\n  \
             - The following do not work in a zone:\n\n      a\n          gone\n      b:c\n          not?here\n\
             \n  Basic checks complete. Issue(s) detected: 2\n\n--Total issue(s) detected: 2\n"
        );
    }

    #[test]
    fn the_parseable_report_escapes_colons() {
        assert_eq!(
            report().parseable(),
            "basic:services:a:gone\nbasic:services:b\\:c:not?here\n"
        );
        assert!(report().json().unwrap().contains("\"ip_type\": \"shared\""));
    }
}
