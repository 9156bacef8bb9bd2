//! `zoneadm export`: a zone as one file.
//!
//! A tar archive, compressed with zstd: first the manifest that detach leaves in a zonepath, then
//! the root as the zone sees it, without inherited directories. Any tar can read it. On request it
//! is encrypted by age or GnuPG, for a recipient of theirs.

mod target;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use brand::{Content, Pack, Packed};
use model::{State, Verb, ZoneName};
use storage::{Dataset, Name, Stack, driver_at};
use store::lock;
use store::xml::manifest::{DETACHED, Manifest};

use crate::executor::{Outcome, new_uuid};
use crate::{inventory, root_view, snapshot};
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject};

use target::Target;

/// Folders in which tar's and cipher's programs are looked for.
const PROGRAMS: &[&str] = &["/usr/bin", "/bin", "/usr/local/bin"];

/// The recipient of an encrypted archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cipher {
    /// A person with the file.
    #[default]
    None,
    /// The owner of an age key: `age1...`, or the public key of ssh.
    Age(String),
    /// The owner of a GnuPG key, which is in the keyring of root.
    Gpg(String),
}

/// Writes a zone into a file, or onto standard output, which `-` names. Of a running zone
/// a snapshot is exported.
///
/// # Errors
/// When something cannot be read or written; there is then no such file.
pub fn export(
    host: &Host,
    zone: &ZoneName,
    to: &Path,
    cipher: &Cipher,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Export)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    kind::admit(host, &subject, Verb::Export)?;
    let config = subject.config(host)?;
    let path = subject.zonepath.clone();
    if dry_run {
        let text = format!(
            "export zone {zone}:\n  write its configuration, packages and root to {}\n",
            to.display()
        );
        return Ok(Outcome::Planned(text));
    }
    // A mistake in the command line is to cost nothing: no snapshot, no copy.
    look_for_programs(cipher)?;
    let target = Target::open(to)?;
    clear(host, &path)?;
    let system = inventory::of_zone(host, &path, &config)?;
    let warning = system.warning();
    let manifest = inventory::manifest(&config, subject.entry.uuid, system);
    let packed = if subject.state == State::Installed {
        subject::settle(host, zone)?;
        let stack = driver_at(&path)?.stack(&path)?;
        write(host, &stack, &manifest, target.writer()?, cipher)?
    } else {
        drop(subject);
        of_running(host, zone, &path, progress, |stack| {
            write(host, stack, &manifest, target.writer()?, cipher)
        })?
    };
    target.publish()?;
    if to != Path::new("-") {
        progress(&format!(
            "Exported {} files, folders and links with {} bytes.",
            packed.members, packed.bytes
        ));
    }
    Ok(Outcome::with_remarks(warning))
}

/// Calls `with` with a snapshot of a running zone, which is gone afterwards; [`clear`] removes
/// that of a call that was killed.
fn of_running(
    host: &Host,
    zone: &ZoneName,
    path: &Path,
    progress: &mut dyn FnMut(&str),
    with: impl FnOnce(&Stack) -> Result<Packed, Error>,
) -> Result<Packed, Error> {
    if !driver_at(path)?.has_layers() {
        return Err(Error::Refused(
            "runs, and its root has no layers: halt it first.".to_owned(),
        ));
    }
    let name: Name = format!("{BEGINS}{}", new_uuid()?.simple())
        .parse()
        .map_err(|error: storage::BadName| Error::Refused(error.to_string()))?;
    let at_work = at_work(host, &name);
    let held = lock::exclusive(&at_work)?;
    let done = snapshot::snapshot(host, zone, &name, false, progress).and_then(|_| {
        let done = Dataset::open(path)?
            .snapshot_stack(&name)
            .map_err(Error::from)
            .and_then(|stack| with(&stack));
        let removed = snapshot::destroy(host, zone, &name, false);
        let done = done?;
        removed?;
        Ok(done)
    });
    let _ = fs::remove_file(&at_work);
    drop(held);
    done
}

/// The prefix of the name of a snapshot that is exported.
const BEGINS: &str = "export-";

/// The file that the export of a snapshot holds a lock on.
fn at_work(host: &Host, name: &Name) -> PathBuf {
    host.root.run().join(format!("{name}.lock"))
}

/// Removes the snapshots that exports have left which were killed. The zone's lock is held.
///
/// # Errors
/// When one cannot be removed; the next call tries again.
pub(crate) fn clear(host: &Host, zonepath: &Path) -> Result<(), Error> {
    let driver = driver_at(zonepath)?;
    if !driver.has_layers() {
        return Ok(());
    }
    for one in driver.snapshots(zonepath)? {
        let id = one.name.as_str().strip_prefix(BEGINS);
        // As this is written, and by hand hardly.
        let is_hex = |id: &str| id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_ours = id.is_some_and(|id| id.len() == 32 && is_hex(id));
        let at_work = at_work(host, &one.name);
        if is_ours && !lock::is_held(&at_work)? {
            driver.destroy_snapshot(zonepath, &one.name)?;
            let _ = fs::remove_file(&at_work);
        }
    }
    Ok(())
}

/// Writes the archive of a root into `out`.
fn write(
    host: &Host,
    stack: &Stack,
    manifest: &Manifest,
    out: File,
    cipher: &Cipher,
) -> Result<Packed, Error> {
    let mut line = Line::start(out, cipher)?;
    let scratch = inventory::scratch(host)?;
    let packed = match line.input.take() {
        None => Err(Error::Refused("no pipe to zstd".to_owned())),
        Some(input) => root_view::with_view(stack, &[], &scratch, move |root| {
            let mut pack = Pack::new(BufWriter::with_capacity(256 << 10, input), Content::Root);
            let failed = |error| Error::Io("write the archive".to_owned(), error);
            pack.file(DETACHED, manifest.text().as_bytes())
                .map_err(failed)?;
            let path = PathBuf::from(format!("/proc/thread-self/fd/{}", root.as_raw_fd()));
            pack.tree(&path, &mut |name, _| name != Path::new(DETACHED))?;
            let (out, packed) = pack.finish().map_err(failed)?;
            drop(out);
            Ok(packed)
        }),
    };
    match (packed, line.finish()) {
        (Ok(packed), Ok(())) => Ok(packed),
        // The message of a program in the pipeline is the reason of the failed write.
        (_, Err(error)) | (Err(error), Ok(())) => Err(error),
    }
}

/// Programs through which an archive goes into a file.
struct Line {
    input: Option<Box<dyn Write + Send>>,
    programs: Vec<(&'static str, Child)>,
}

impl Line {
    fn start(out: File, cipher: &Cipher) -> Result<Self, Error> {
        let (last, words) = match cipher {
            Cipher::None => (None, Vec::new()),
            Cipher::Age(to) => (Some("age"), vec!["-r", to]),
            Cipher::Gpg(to) => (
                Some("gpg"),
                vec![
                    "--batch",
                    "--quiet",
                    "--trust-model",
                    "always",
                    "--encrypt",
                    "--recipient",
                    to,
                ],
            ),
        };
        let Some(last) = last else {
            let mut zstd = start("zstd", &["-q", "-3", "-T0"], Stdio::piped(), out.into())?;
            let input = zstd.stdin.take();
            return Ok(Self {
                input: input.map(|input| Box::new(input) as Box<dyn Write + Send>),
                programs: vec![("zstd", zstd)],
            });
        };
        let mut zstd = start("zstd", &["-q", "-3", "-T0"], Stdio::piped(), Stdio::piped())?;
        let between = zstd.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let cipher = start(last, &words, between, out.into())?;
        let input = zstd.stdin.take();
        Ok(Self {
            input: input.map(|input| Box::new(input) as Box<dyn Write + Send>),
            programs: vec![("zstd", zstd), (last, cipher)],
        })
    }

    fn finish(mut self) -> Result<(), Error> {
        drop(self.input.take());
        let mut failed = None;
        for (name, mut child) in self.programs {
            let status = child
                .wait()
                .map_err(Error::io(format!("wait for {name}")))?;
            if !status.success() {
                // The last one is why those before it could not write.
                failed = Some(format!("{name}: {status}"));
            }
        }
        failed.map_or(Ok(()), |text| Err(Error::Refused(text)))
    }
}

/// Starts one of the programs.
///
/// # Errors
/// When it is not installed.
pub fn start(name: &str, words: &[&str], input: Stdio, output: Stdio) -> Result<Child, Error> {
    let mut command = Command::new(program(name)?);
    command
        .args(words)
        .current_dir("/")
        .stdin(input)
        .stdout(output);
    command.spawn().map_err(Error::io(format!("start {name}")))
}

/// Returns the path of one of the programs.
///
/// # Errors
/// [`Error::Refused`] if the program is not installed.
fn program(name: &str) -> Result<PathBuf, Error> {
    let found = PROGRAMS
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::Refused(format!(
            "{name} is not installed (looked in {})",
            PROGRAMS.join(", ")
        ))
    })
}

/// Fails if a program that an export needs is not installed.
fn look_for_programs(cipher: &Cipher) -> Result<(), Error> {
    let cipher = match cipher {
        Cipher::None => None,
        Cipher::Age(_) => Some("age"),
        Cipher::Gpg(_) => Some("gpg"),
    };
    let mut names = std::iter::once("zstd").chain(cipher);
    names.try_for_each(|name| program(name).map(drop))
}
