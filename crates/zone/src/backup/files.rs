//! Restores single files of a moment, into the zone or into a folder of the host.

use std::fs::{self, DirBuilder, File};
use std::io::{BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use brand::{Content, Pack};
use model::{State, Verb, ZoneName};
use platform::enter::RunningZone;
use platform::kind;
use rustix::pipe::PipeFlags;
use storage::driver_at;

use super::moments::Moment;
use super::repository::Backups;
use super::restore::with_copy;
use super::stage;
use crate::executor::Outcome;
use crate::{inventory, label, root_view};
use host::{Error, Host, flatten};
use subject::{Start, Subject};

/// Maximum number of bytes of a report from the process in the zone.
const MAX_REPORT_BYTES: u64 = 4096;

/// The files of a restoration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The moment, as the user names it; `None` for the newest.
    pub moment: Option<String>,
    /// The absolute paths of files and folders, as processes of the zone see them.
    pub paths: Vec<PathBuf>,
    /// A folder of the host that receives the files; `None` for the zone itself.
    pub folder: Option<PathBuf>,
}

/// Restores files and folders. They replace files of the same name; other files stay.
///
/// # Errors
/// Fails with [`Error::Refused`] if the moment has none of a path's files. The zone has not changed
/// then.
pub fn restore_files(
    host: &Host,
    backups: &Backups,
    zone: &ZoneName,
    wanted: &Wanted,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let names = wanted
        .paths
        .iter()
        .map(|path| inside(path))
        .collect::<Result<Vec<_>, _>>()?;
    let moment = backups.find(host, zone, wanted.moment.as_deref())?;
    let target = match &wanted.folder {
        Some(folder) => format!("{}/root", folder.display()),
        None => format!("zone {zone}"),
    };
    if dry_run {
        let mut text = format!("restore zone {zone}:\n");
        for name in &names {
            text.push_str(&format!(
                "  write /{} of backup {} of {} into {target}\n",
                name.display(),
                moment.short_id(),
                moment.time
            ));
        }
        return Ok(Outcome::Planned(text));
    }
    match &wanted.folder {
        Some(folder) => into_folder(host, backups, &moment, &names, folder, progress)?,
        None => into_zone(host, backups, zone, &moment, &names, progress)?,
    }
    progress(&format!("Restored from {} into {target}.", moment.time));
    Ok(Outcome::Done)
}

/// Returns a path relative to the root.
fn inside(path: &Path) -> Result<PathBuf, Error> {
    let mut name = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => name.push(part),
            Component::RootDir => {}
            _ => name = PathBuf::new(),
        }
    }
    let plain = path.is_absolute()
        && !path.components().any(|part| part == Component::ParentDir)
        && name.to_str().is_some_and(|text| !text.contains('\0'));
    match plain && !name.as_os_str().is_empty() {
        true => Ok(name),
        false => Err(Error::Usage(format!(
            "{}: expected an absolute path of a file in the zone, without ..",
            path.display()
        ))),
    }
}

/// Returns the pattern of the engine that selects a path and all files below it.
fn pattern(name: &Path) -> String {
    let mut pattern = format!("/{}/", stage::ROOT);
    for c in name.to_string_lossy().chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Fetches the files into the folder `to`, and checks that each path exists.
fn fetch(
    host: &Host,
    backups: &Backups,
    moment: &Moment,
    names: &[PathBuf],
    to: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let patterns: Vec<String> = names.iter().map(|name| pattern(name)).collect();
    backups.fetch(host, moment, to, &patterns, progress)?;
    for name in names {
        // The folder has only screened files, and this call follows no link in the last component.
        if fs::symlink_metadata(to.join(name)).is_err() {
            return Err(Error::Refused(format!(
                "backup {} has no /{}; symbolic links in a path are not followed.",
                moment.short_id(),
                name.display()
            )));
        }
    }
    Ok(())
}

/// Writes files into a new folder of the host that only root can enter: a set-user-id program of a
/// zone must not become one of the host.
fn into_folder(
    host: &Host,
    backups: &Backups,
    moment: &Moment,
    names: &[PathBuf],
    folder: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let failed = |what: &str| Error::io(format!("{what} {}", folder.display()));
    let is_empty = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => {
            let made = DirBuilder::new().mode(0o700).create(folder);
            made.map_err(failed("make"))?;
            true
        }
    };
    if !is_empty {
        return Err(Error::Refused(format!(
            "{} has files: name a new or empty folder.",
            folder.display()
        )));
    }
    let root = folder.join(stage::ROOT);
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
        .and_then(|()| std::os::unix::fs::chown(folder, Some(0), Some(0)))
        .and_then(|()| fs::create_dir(&root))
        .map_err(failed("prepare"))?;
    fetch(host, backups, moment, names, &root, progress).inspect_err(|_| {
        // An error of this removal is ignored, because the first error is reported.
        let _ = storage::remove_tree(&root);
    })
}

/// Writes files into the zone. They are complete in a copy beside the zone before the first of them
/// is written.
fn into_zone(
    host: &Host,
    backups: &Backups,
    zone: &ZoneName,
    moment: &Moment,
    names: &[PathBuf],
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let subject = match Subject::admit(host, zone, Verb::Backup)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Err(Error::Refused(notice.to_owned())),
    };
    kind::admit(host, &subject, Verb::Backup)?;
    let manifest = backups.manifest(moment)?;
    label::admit_copy(&manifest.config, &subject.config(host)?)?;
    with_copy(&subject, |_, copy| {
        fetch(host, backups, moment, names, copy, progress)?;
        if subject.state == State::Running {
            return into_running(host, zone, copy, names);
        }
        if subject.state != State::Installed {
            return Err(Error::Refused(
                "is ready and not running: boot it, or halt it.".to_owned(),
            ));
        }
        crate::settle::settle(host, zone)?;
        let path = &subject.zonepath;
        let stack = driver_at(path)?.stack(path)?;
        root_view::with_root(&stack, &inventory::scratch(host)?, |root| {
            let (from, to) = pipe()?;
            std::thread::scope(|scope| {
                let packed = scope.spawn(|| pack(copy, names, to));
                let unpacked = unpack(root, from);
                let packed = packed
                    .join()
                    .unwrap_or_else(|_| Err(Error::Refused("could not pack".to_owned())));
                // If the files cannot be written, the pipe breaks, and that error says less.
                unpacked.and(packed)
            })
        })
    })
}

/// Writes files into a running zone. A process in the zone writes them, as the zone's root, so that
/// no link in the zone leads out of it.
fn into_running(host: &Host, zone: &ZoneName, copy: &Path, names: &[PathBuf]) -> Result<(), Error> {
    let failed = |error: &dyn std::error::Error| Error::Daemon(flatten(error));
    let running = RunningZone::open(host, zone).map_err(|error| failed(&error))?;
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(Error::io("open /dev/null"))?;
    let (from, to) = pipe()?;
    let (report, told) = pipe()?;
    let streams = [null.as_fd(), null.as_fd(), told.as_fd()];
    let kept = [from.as_fd()];
    let child = running.enter(Some(streams), &kept, || {
        let done = from
            .try_clone()
            .map_err(Error::io("read the files"))
            .and_then(|from| unpack(Path::new("/"), from));
        match done {
            Ok(()) => 0,
            Err(error) => {
                let text = flatten(&error);
                let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
                1
            }
        }
    });
    let child = child.map_err(|error| failed(&error))?;
    drop((from, told));
    let packed = pack(copy, names, to);
    let mut text = Vec::new();
    let read = File::from(report)
        .take(MAX_REPORT_BYTES)
        .read_to_end(&mut text);
    read.map_err(Error::io("read the report from the zone"))?;
    let status = wait(&child)?;
    if status {
        return packed;
    }
    let text: String = String::from_utf8_lossy(&text)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    Err(Error::Refused(format!("the zone took no files: {text}")))
}

/// Waits for the process in the zone. Returns true if it succeeded.
fn wait(child: &sys::process::Child) -> Result<bool, Error> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let ended = rustix::io::retry_on_intr(|| {
        waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)
    });
    let ended = ended
        .map_err(|errno| Error::Io("wait for the process in the zone".to_owned(), errno.into()))?;
    Ok(ended.is_some_and(|status| status.exit_status() == Some(0)))
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|errno| Error::Io("make a pipe".to_owned(), errno.into()))
}

/// Writes the wanted files of a folder as a tar stream.
fn pack(copy: &Path, names: &[PathBuf], to: OwnedFd) -> Result<(), Error> {
    let failed = |error| Error::Io("pass the files on".to_owned(), error);
    let out = BufWriter::with_capacity(256 << 10, File::from(to));
    let mut pack = Pack::new(out, Content::Root);
    // The folders above a wanted file keep the attributes that they have in the zone.
    pack.tree(copy, &mut |name, _| {
        names.iter().any(|wanted| name.starts_with(wanted))
    })?;
    let (mut out, _) = pack.finish().map_err(failed)?;
    out.flush().map_err(failed)
}

fn unpack(root: &Path, from: OwnedFd) -> Result<(), Error> {
    let origin = Path::new("the backup");
    brand::unpack_stream(root, File::from(from), Content::Root, origin)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_names_in_the_root() {
        let read = |text: &str| inside(Path::new(text)).ok();
        assert_eq!(read("/etc/passwd"), Some("etc/passwd".into()));
        assert_eq!(read("/etc//./x/"), Some("etc/x".into()));
        for wrong in ["", "/", "etc", "/etc/../x", "..", "/.."] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_name_is_no_pattern() {
        assert_eq!(pattern(Path::new("etc/a")), "/root/etc/a");
        assert_eq!(pattern(Path::new("a*[b]?\\")), "/root/a\\*\\[b\\]\\?\\\\");
    }

    #[test]
    fn only_wanted_files_are_packed_and_their_folders_are_made() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("etc/inner")).unwrap();
        fs::create_dir(&to).unwrap();
        for name in ["etc/inner/a", "etc/ab", "etc/a"] {
            fs::write(from.join(name), name).unwrap();
        }
        let names = ["etc/inner".into(), "etc/a".into()];
        let (reader, writer) = pipe().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| pack(&from, &names, writer).unwrap());
            unpack(&to, reader).unwrap();
        });
        assert!(to.join("etc/inner/a").is_file() && to.join("etc/a").is_file());
        assert!(!to.join("etc/ab").exists());
    }
}
