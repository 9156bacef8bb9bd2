//! `zoneadm export`: writes a zone to one file.
//!
//! The file is a tar archive compressed with zstd. It contains the manifest that detach writes to a
//! zonepath, and then the root as the zone sees it, without inherited directories. Any tar program
//! can read it. On request age or GnuPG encrypts the file for a recipient.

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
use crate::{exported, inventory, root_view, snapshot};
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject};

use target::Target;

/// Folders in which zstd, age and gpg are searched.
const PROGRAMS: &[&str] = &["/usr/bin", "/bin", "/usr/local/bin"];

/// The recipient for whom an archive is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cipher {
    /// The archive is not encrypted: everyone who has the file can read it.
    #[default]
    None,
    /// The owner of an age key, given as `age1...` or as a public key of ssh.
    Age(String),
    /// The owner of a GnuPG key in the keyring of root.
    Gpg(String),
}

/// Writes a zone to a file, or to standard output if the path is `-`. A running zone is exported
/// from a snapshot.
///
/// # Errors
/// Fails if a file cannot be read or written. The file of the archive does not exist then.
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
    // Errors of the command line are found first, before a snapshot or copy is made.
    look_for_programs(cipher)?;
    let target = Target::open(to)?;
    clear(host, &path)?;
    let system = inventory::of_zone(host, &path, &config)?;
    let mut remarks: Vec<String> = system.warning().into_iter().collect();
    remarks.extend(exported::left_out(host, &path, "archive"));
    let manifest = inventory::manifest(&config, subject.entry.uuid, system);
    let packed = if subject.state == State::Installed {
        crate::settle::settle(host, zone)?;
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
    Ok(Outcome::with_remarks(remarks))
}

/// Calls `with` with a snapshot of a running zone, and removes the snapshot afterwards. If the
/// process is killed meanwhile, [`clear`] removes the snapshot.
pub(crate) fn of_running<T>(
    host: &Host,
    zone: &ZoneName,
    path: &Path,
    progress: &mut dyn FnMut(&str),
    with: impl FnOnce(&Stack) -> Result<T, Error>,
) -> Result<T, Error> {
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

/// Prefix of the name of a snapshot that export or backup makes.
const BEGINS: &str = "export-";

/// Returns the path of the file that an export locks while it uses this snapshot.
fn at_work(host: &Host, name: &Name) -> PathBuf {
    host.root.run().join(format!("{name}.lock"))
}

/// Removes the snapshots of exports and backups that were killed. The caller must hold the zone's lock.
///
/// # Errors
/// Fails if a snapshot cannot be removed. The next call tries again.
pub(crate) fn clear(host: &Host, zonepath: &Path) -> Result<(), Error> {
    let driver = driver_at(zonepath)?;
    if !driver.has_layers() {
        return Ok(());
    }
    for one in driver.snapshots(zonepath)? {
        let id = one.name.as_str().strip_prefix(BEGINS);
        // Only names in the exact form that export writes are removed. A user hardly chooses such a
        // name.
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

/// Writes the archive of a root to `out`.
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
        // If a program of the pipeline failed, its message is the reason why the write failed.
        (_, Err(error)) | (Err(error), Ok(())) => Err(error),
    }
}

/// The pipeline of programs that compresses and encrypts an archive on its way to a file.
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
                // The error of the last program is reported, because it is the reason why the
                // programs before it could not write.
                failed = Some(format!("{name}: {status}"));
            }
        }
        failed.map_or(Ok(()), |text| Err(Error::Refused(text)))
    }
}

/// Starts a program of the pipeline.
///
/// # Errors
/// Fails if the program is not installed.
pub fn start(name: &str, words: &[&str], input: Stdio, output: Stdio) -> Result<Child, Error> {
    let mut command = Command::new(program(name)?);
    command
        .args(words)
        .current_dir("/")
        .stdin(input)
        .stdout(output);
    command.spawn().map_err(Error::io(format!("start {name}")))
}

/// Returns the path of a program of the pipeline.
///
/// # Errors
/// Fails with [`Error::Refused`] if the program is not installed.
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
