//! `zoneadm savecore`: writes the memory of a kernel zone to a file, to debug the kernel of the
//! guest.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use model::{Verb, ZoneName};

use crate::executor::Outcome;
use control::client;
use control::protocol::Request;
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject};

/// Prefix of the names of the memory files.
const NAME: &str = "vmcore.";

/// Writes the memory of a kernel zone's guest to a new file below /var/crash.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone is not a kernel zone, and with [`Error::Daemon`] if
/// the memory cannot be written. No file is left then.
pub fn savecore(
    host: &Host,
    zone: &ZoneName,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Savecore)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let config = subject.config(host)?;
    kind::of(&config).admit(Verb::Savecore, &config)?;
    let folder = host.root.path(Path::new("/var/crash")).join(zone.as_str());
    let path = folder.join(format!("{NAME}{}", next(&folder)));
    if dry_run {
        return Ok(Outcome::Planned(format!(
            "savecore of zone {zone}:\n  write the memory of its machine to {}\n",
            path.display()
        )));
    }
    // Only root can enter this folder, because the memory contains all data of the zone.
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(Error::io(format!("make {}", folder.display())))?;
    let socket = client::connect_or_adopt(host, zone)?;
    client::ask_within(
        &socket,
        &Request::Savecore(path.clone()),
        vm::dump::DUMP_TIMEOUT,
    )?
    .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))?;
    progress(&format!("Saved to {}.", path.display()));
    Ok(Outcome::Done)
}

/// Returns a number that is one higher than the highest number of an existing file.
fn next(folder: &Path) -> u64 {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let numbers = names.filter_map(|entry| {
        let name = PathBuf::from(entry.file_name());
        name.to_str()?.strip_prefix(NAME)?.parse::<u64>().ok()
    });
    numbers.max().map_or(0, |highest| highest.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(next(&dir.path().join("none")), 0);
        assert_eq!(next(dir.path()), 0);
        for name in ["vmcore.0", "vmcore.9", "vmcore.x", "other.20"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(next(dir.path()), 10);
    }
}
