//! Merges the files below the disks of a running kernel zone: for `zoneadm merge`, and before the
//! snapshots of a schedule.

use std::path::Path;
use std::time::{Duration, Instant};

use control::client;
use host::{Error, Host};
use kernelzone::live_snapshot::LEAST_MERGED;
use kernelzone::record::Record;
use kernelzone::{depth, kept};
use model::{Config, State, ZoneName};
use subject::Subject;

use crate::executor::Outcome;

/// Interval between questions about the progress of a merge.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time after which a merge for a schedule is stopped. The other zones on the disk wait meanwhile,
/// and the next run of the schedules comes after a quarter of an hour.
const SCHEDULED_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The name under which a test asks for a fault: a merge for a schedule then takes too long.
const SCHEDULED: &str = "scheduled-merge";

/// Merges the files below the disks of a running kernel zone, and tells the bytes that are done and
/// the bytes in all. The caller holds the zone's lock.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone does not run, and with [`Error::Daemon`] if QEMU cannot
/// merge. The disks then keep their files.
pub(crate) fn merge(
    host: &Host,
    subject: &Subject,
    dry_run: bool,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Outcome, Error> {
    let record = Record::load(&subject.zonepath)?;
    let mut disks = record.disks.iter();
    if !disks.any(|disk| disk.bases.len() >= LEAST_MERGED) {
        return Ok(Outcome::Already(
            "zone has few files below its disks already",
        ));
    }
    if subject.state != State::Running {
        return Err(Error::Refused(
            "does not run: its QEMU merges the files of its disks, so boot the zone first."
                .to_owned(),
        ));
    }
    let zone = &subject.entry.name;
    if dry_run {
        let text = format!("merge zone {zone}:\n  merge the files below its disks\n");
        return Ok(Outcome::Planned(text));
    }
    let ask = || client::merge_disks(&client::connect_or_adopt(host, zone)?);
    until_done(ask, |done, total| {
        tell(done, total);
        true
    })?;
    Ok(Outcome::Done)
}

/// Returns the maximum number of bytes that a merge copies before the next snapshot of a kernel zone
/// by a schedule; `None` if no merge is needed.
///
/// # Errors
/// Fails if the record or a file of the disks cannot be read.
pub(crate) fn bytes_before_scheduled(
    zonepath: &Path,
    config: &Config,
    state: State,
) -> Result<Option<u64>, Error> {
    if state != State::Running {
        return Ok(None);
    }
    let bytes = depth::bytes_to_merge(zonepath, config)?;
    // Copies that share blocks put no file on the disks.
    Ok(bytes.filter(|_| !kept::shares_blocks(zonepath)))
}

/// Merges the files below the disks of a running kernel zone before a snapshot of a schedule. The
/// caller holds the zone's lock. Returns the reason if that took too long.
///
/// # Errors
/// Fails with [`Error::Daemon`] if QEMU cannot merge. The disks then keep their files.
pub(crate) fn before_scheduled(host: &Host, zone: &ZoneName) -> Result<Option<String>, Error> {
    let end = Instant::now() + SCHEDULED_TIMEOUT;
    let ask = || client::merge_disks(&client::connect_or_adopt(host, zone)?);
    let mut fault = host.fault.clone();
    let goes_on = |_, _| Instant::now() < end && !fault.strikes(SCHEDULED);
    if until_done(ask, goes_on)? {
        return Ok(None);
    }
    client::stop_merge(&client::connect_or_adopt(host, zone)?)?;
    let minutes = SCHEDULED_TIMEOUT.as_secs() / 60;
    Ok(Some(format!(
        "the merge of the files below its disks took more than {minutes} minutes and was stopped; the next run goes on with it, or zoneadm merge does at once."
    )))
}

/// Asks for the state of a merge until it is done, or `goes_on` returns false. Returns true if it is
/// done.
fn until_done(
    mut ask: impl FnMut() -> Result<Option<(u64, u64)>, Error>,
    mut goes_on: impl FnMut(u64, u64) -> bool,
) -> Result<bool, Error> {
    loop {
        match ask()? {
            None => return Ok(true),
            Some((done, total)) if !goes_on(done, total) => return Ok(false),
            Some(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_is_asked_for_until_it_is_done_or_has_taken_too_long() {
        let asked = |ends_at: u64, limit: u64| {
            let mut count = 0;
            let ask = || {
                count += 1;
                Ok((count < ends_at).then_some((count, 9)))
            };
            let is_done = until_done(ask, |done, total| total == 9 && done < limit).unwrap();
            (is_done, count)
        };
        assert_eq!(asked(3, 5), (true, 3));
        assert_eq!(asked(1, 0), (true, 1));
        assert_eq!(asked(9, 2), (false, 2));
        let fails = || Err(Error::Daemon("no room".to_owned()));
        assert!(until_done(fails, |_, _| true).is_err());
    }
}
