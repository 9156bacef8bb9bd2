//! Parses the output of a package manager. The output is untrusted, because it comes from the zone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::inventory;
use crate::manager::{NOT_BEGUN, NOT_SOUND, TOLD};
use crate::record::Change;

/// Maximum length of a log that is searched for a reason, in bytes.
const MAX_LOG: u64 = 4 << 20;

/// Maximum number of lines that are kept of each kind.
const MAX_LINES: usize = 10_000;

/// The output of a package manager.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) services: Vec<String>,
    pub(super) identity_changed: bool,
    pub(super) planned: Vec<Change>,
    /// The packages before and after the work, if the package manager lists them.
    told: [BTreeMap<(String, String), String>; 2],
    errors: Vec<String>,
    last: String,
}

impl Said {
    pub(crate) fn read(path: &Path) -> Self {
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(path) {
            let _ = file.take(MAX_LOG).read_to_end(&mut bytes);
        }
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(text: &str) -> Self {
        let mut said = Self::default();
        for line in text.lines() {
            let line: String = line.chars().filter(|char| !char.is_control()).collect();
            let line = line.trim();
            if let Some(told) = line.strip_prefix(TOLD) {
                if told == "identity changed" {
                    said.identity_changed = true;
                } else if let Some(package) = told.strip_prefix("was ") {
                    said.installed(0, package);
                } else if let Some(package) = told.strip_prefix("is ") {
                    said.installed(1, package);
                } else if let Some(service) = told.strip_prefix("service ") {
                    let service = service.to_owned();
                    if said.services.len() < MAX_LINES && !said.services.contains(&service) {
                        said.services.push(service);
                    }
                }
                continue;
            }
            if said.planned.len() < MAX_LINES {
                said.planned.extend(planned(line));
            }
            // The marks of error lines of apt, dpkg, dnf, rpm and apk.
            let begins = ["E: ", "dpkg: error", "Error: ", "error: ", "ERROR: "];
            let is_error = begins.iter().any(|begin| line.starts_with(begin))
                || line.contains("No space left on device");
            if is_error && said.errors.len() < MAX_LINES {
                said.errors.push(line.to_owned());
            }
            if !line.is_empty() {
                line.clone_into(&mut said.last);
            }
        }
        said
    }

    fn installed(&mut self, at: usize, text: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        if let ([name, architecture, version], true) =
            (words.as_slice(), self.told[at].len() < MAX_LINES)
        {
            let key = ((*name).to_owned(), (*architecture).to_owned());
            self.told[at].insert(key, (*version).to_owned());
        }
    }

    /// Returns the changed packages, if the package manager lists the installed ones.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let [was, is] = &self.told;
        inventory::differences(was, is)
    }

    /// Returns true if the package manager failed because a disk was full.
    pub(super) fn lacks_room(&self) -> bool {
        let room = |line: &String| {
            line.contains("No space left on device") || line.contains("enough free space")
        };
        self.errors.iter().any(room) || room(&self.last)
    }

    /// Returns the reason of the failure in one line.
    pub(crate) fn reason(&self, manager: &str, status: i32) -> String {
        let full = |line: &&String| line.contains("No space left on device");
        let said = self.errors.iter().find(full).or(self.errors.first());
        let said = said.unwrap_or(&self.last);
        let said: String = said.chars().take(300).collect();
        match status {
            10 => format!("dpkg could not complete an earlier, interrupted run: {said}"),
            11 => format!("{manager} update failed: {said}"),
            12 | NOT_BEGUN => format!("{manager} failed: {said}"),
            NOT_SOUND => format!("the patched system did not pass verification: {said}"),
            128.. => format!("was ended by signal {}: {said}", status - 128),
            _ => format!("the package manager ended with status {status}: {said}"),
        }
    }
}

/// Reads the lines `Inst NAME [OLD] (NEW ...)` and `Remv NAME [OLD]`.
fn planned(line: &str) -> Option<Change> {
    let mut words = line.split_whitespace();
    let verb = words.next()?;
    let package = words.next()?.to_owned();
    let mut change = Change {
        package,
        architecture: String::new(),
        from: None,
        to: None,
    };
    for word in words {
        if let Some(version) = word
            .strip_prefix('[')
            .and_then(|word| word.strip_suffix(']'))
        {
            if change.to.is_none() && change.from.is_none() {
                change.from = Some(version.to_owned());
            }
        } else if let Some(version) = word.strip_prefix('(') {
            change.to = Some(version.trim_end_matches(')').to_owned());
        }
    }
    match verb {
        "Inst" => Some(change),
        "Remv" => Some(Change { to: None, ..change }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_apt_is_parsed() {
        let text = "Inst a [1.0] (2.0 Local:stable [all])\n\
                    Inst b (1 Local [amd64])\nConf a (2.0)\nRemv c [3]\n\
                    zonepatch: service apache2 restart\nzonepatch: service apache2 restart\n\
                    zonepatch: identity changed\nE: Sub-process failed\n";
        let said = Said::parse(text);
        let planned: Vec<String> = said.planned.iter().map(ToString::to_string).collect();
        assert_eq!(planned, ["a 1.0 -> 2.0", "b 1 new", "c 3 removed"]);
        assert_eq!(said.services, ["apache2 restart"]);
        assert!(said.identity_changed);
        assert_eq!(
            said.reason("apt-get", 12),
            "apt-get failed: E: Sub-process failed"
        );
        assert_eq!(
            Said::parse("tar: x: No space left on device\nE: y\n").reason("apt-get", 12),
            "apt-get failed: tar: x: No space left on device"
        );
        assert_eq!(
            Said::parse("odd\u{7}\n").reason("apt-get", 3),
            "the package manager ended with status 3: odd"
        );
    }

    #[test]
    fn package_lists_before_and_after_are_compared() {
        let text = "zonepatch: was a - 1-r0\nzonepatch: was b x 2\nzonepatch: was odd\n\
                    zonepatch: is a - 1-r1\nzonepatch: is c x 3\n";
        let changes = Said::parse(text).changes();
        let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(changes, ["a 1-r0 -> 1-r1", "b 2 removed", "c 3 new"]);
    }
}
