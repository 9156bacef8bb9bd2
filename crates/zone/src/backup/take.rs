//! `zoneadm backup`: stores a zone as a new moment.

use std::ffi::OsStr;

use model::{Config, State, Uuid, Verb, ZoneName};
use serde::Deserialize;
use storage::{Dataset, Stack, driver_at};

use super::repository::Backups;
use super::settings::{Named, Settings};
use super::{moments, stage};
use crate::executor::Outcome;
use crate::{export, exported, inventory};
use host::fault::Fault;
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject};

/// Backs up a zone. A running zone is backed up from a snapshot. `whole` reads every file again,
/// also those that have not changed since the previous backup.
///
/// # Errors
/// Fails if a file cannot be read or stored. The repository then has no new moment.
pub fn backup(
    host: &Host,
    zone: &ZoneName,
    backups: &Backups,
    whole: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match admit(host, zone)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let config = subject.config(host)?;
    let path = subject.zonepath.clone();
    export::clear(host, &path)?;
    let system = inventory::of_zone(host, &path, &config)?;
    let mut remarks: Vec<String> = system.warning().into_iter().collect();
    remarks.extend(left_out(&config));
    remarks.extend(exported::left_out(host, &path, "backup"));
    let uuid = subject.entry.uuid;
    let work = Work {
        host,
        backups,
        zone,
        uuid,
        manifest: inventory::manifest(&config, uuid, system).text(),
        whole,
    };
    let done = if subject.state == State::Installed {
        crate::settle::settle(host, zone)?;
        let stack = driver_at(&path)?.stack(&path)?;
        work.send(&stack, false)?
    } else {
        // A copy of the top has other inodes and times of change than the top itself. A snapshot of
        // a subvolume has the same.
        let copied = driver_at(&path)?.has_layers() && Dataset::open(&path)?.fstype() != "btrfs";
        drop(subject);
        export::of_running(host, zone, &path, progress, |stack| {
            work.send(stack, copied)
        })?
    };
    control::log::note(host, zone, &format!("backed up as {}", done.snapshot_id));
    progress(&done.text());
    Ok(Outcome::with_remarks(remarks))
}

/// Returns the plan of a backup. Reads no repository.
///
/// # Errors
/// Fails if the zone cannot be backed up.
pub fn plan(host: &Host, zone: &ZoneName, named: &Named) -> Result<Outcome, Error> {
    let settings = Settings::of(host, named)?;
    let subject = match admit(host, zone)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let from = match subject.state {
        State::Installed => "",
        _ => "  make a snapshot\n",
    };
    Ok(Outcome::Planned(format!(
        "backup zone {zone}:\n{from}  store its configuration, packages and root in {}\n",
        settings.repository
    )))
}

fn admit(host: &Host, zone: &ZoneName) -> Result<Start, Error> {
    let start = Subject::admit(host, zone, Verb::Backup)?;
    if let Start::Go(subject) = &start {
        kind::admit(host, subject, Verb::Backup)?;
    }
    Ok(start)
}

/// Returns a remark on the data of the host that the zone sees and the backup does not have.
fn left_out(config: &Config) -> Option<String> {
    let folders: Vec<String> = config
        .filesystems()
        .filter(|fs| fs.fstype != "tmpfs")
        .map(|fs| format!("{} of {}", fs.dir.display(), fs.special))
        .collect();
    (!folders.is_empty()).then(|| {
        format!(
            "the backup leaves out the file systems of the host: {}; back them up on the host.",
            folders.join(", ")
        )
    })
}

/// The data with which one zone is backed up.
struct Work<'a> {
    host: &'a Host,
    backups: &'a Backups,
    zone: &'a ZoneName,
    uuid: Option<Uuid>,
    manifest: String,
    whole: bool,
}

impl Work<'_> {
    /// Stores a stack of layers as a new moment. `copied` is true if its files are fresh copies.
    fn send(&self, stack: &Stack, copied: bool) -> Result<Summary, Error> {
        let engine = &self.backups.engine;
        let mut fault = self.host.fault.clone();
        let mut strike = || match fault.strikes(Verb::Backup.as_str()) {
            true => Err(Error::Refused(Fault::error().to_string())),
            false => Ok(()),
        };
        strike()?;
        let mut summary = None;
        let words = self.words(copied);
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let stored = stage::show(self.host, stack, self.uuid, &self.manifest, |folder| {
            let each = &mut |line: &[u8]| {
                if let Some(done) = Summary::parse(line) {
                    summary = Some(done);
                }
            };
            let ran = engine.run(&words, folder, each);
            ran.map_err(|failure| engine.error(failure))
        });
        stored?;
        strike()?;
        let summary = summary.filter(Summary::is_valid).ok_or_else(|| {
            Error::Refused("restic gave no summary of the backup: check its version".to_owned())
        })?;
        self.record_size(&summary)?;
        Ok(summary)
    }

    fn words(&self, copied: bool) -> Vec<String> {
        let mut words: Vec<String> = ["backup", "--json", "--tag"].map(str::to_owned).into();
        words.push(format!("zone={}", self.zone));
        if let Some(uuid) = self.uuid {
            words.extend(["--tag".to_owned(), format!("uuid={uuid}")]);
        }
        if self.whole {
            words.push("--force".to_owned());
        } else if copied {
            words.extend(["--ignore-inode", "--ignore-ctime"].map(str::to_owned));
        }
        words.push(".".to_owned());
        words
    }

    /// Stores the size of a backup as a tag, for versions of the engine that do not record it.
    fn record_size(&self, summary: &Summary) -> Result<(), Error> {
        if self.backups.engine.records_sizes() {
            return Ok(());
        }
        let tag = format!("{}{}", moments::ADDED, summary.data_added);
        let words = ["tag", "--add", &tag, &summary.snapshot_id];
        self.backups.answer(&words).map(drop)
    }
}

/// The result of a backup as the engine reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Summary {
    message_type: String,
    files_new: u64,
    files_changed: u64,
    files_unmodified: u64,
    data_added: u64,
    total_bytes_processed: u64,
    snapshot_id: String,
}

impl Summary {
    /// Parses a line of the engine. Returns `None` for other reports.
    fn parse(line: &[u8]) -> Option<Self> {
        let done: Self = serde_json::from_slice(line).ok()?;
        (done.message_type == "summary").then_some(done)
    }

    fn is_valid(&self) -> bool {
        let id = &self.snapshot_id;
        (8..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    fn text(&self) -> String {
        format!(
            "Backed up {} bytes in {} new, {} changed and {} unchanged files; {} bytes were added.",
            self.total_bytes_processed,
            self.files_new,
            self.files_changed,
            self.files_unmodified,
            self.data_added
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_engine_are_read() {
        let line = br#"{"message_type":"summary","files_new":3,"files_changed":1,"files_unmodified":2,"data_added":2000,"total_bytes_processed":6,"total_duration":0.2,"snapshot_id":"298e665f"}"#;
        let done = Summary::parse(line).unwrap();
        assert!(done.is_valid());
        assert_eq!(
            done.text(),
            "Backed up 6 bytes in 3 new, 1 changed and 2 unchanged files; 2000 bytes were added."
        );
        for other in [
            &br#"{"message_type":"status","percent_done":0.5}"#[..],
            b"Fatal: x",
            b"{",
        ] {
            assert_eq!(Summary::parse(other), None);
        }
        let lie = Summary {
            snapshot_id: "--help-me".to_owned(),
            ..Summary::default()
        };
        assert!(!lie.is_valid());
    }
}
