//! `zoneadm migrate`: a zone goes to another host, over ssh.
//!
//! First go the layers that the other host lacks, then the top, while the zone still
//! runs; then it is halted, and what has changed in the top since goes, too. Both sides
//! compare the digest of the top before anything counts. The zone is the source's until
//! the target has said that it runs there:
//!
//! | what | a cut after it leaves |
//! |---|---|
//! | layers and top are sent | the zone as it was; the target throws away what it has |
//! | the zone is halted, the rest is sent, digests are compared | the same, halted |
//! | **the source marks the zone as on its way** | it is not booted here before the target is asked |
//! | the target is told that the zone is its own: it stores and boots it | the target has it: asked again, it says so |
//! | the source removes it, and is configured | - |
//!
//! To give the command again is the way on from everywhere.

mod machine;
mod target;
mod top;
mod wire;

use std::fs;
use std::io::{BufReader, BufWriter, ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use brand::{Content, Pack};
use model::{State, Verb, ZoneName};
use storage::{Dataset, driver_at};
use store::index::Entry;

use crate::apply::{self, Outcome, new_uuid};
use crate::boot::{BootOptions, start_locked};
use crate::export::start as start_program;
use crate::halt::halt_locked;
use crate::subject::{self, Start, Subject};
use crate::{Error, Host, environments, flatten, images, inventory};

use machine::Load;
pub(crate) use target::{ARRIVED, INCOMING};
pub use target::{receive, status};
use top::Listing;
use wire::{Commit, Fate, Hello, VERSION, Welcome, Wire};

/// Stands in the zonepath of a zone that may be another host's already.
const AWAY: &str = ".migrating";

/// How a zone is migrated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `[user@]host`, as ssh takes it.
    pub host: String,
    /// Options for ssh, as behind its `-o`.
    pub ssh: Vec<String>,
    /// The ciphers of ssh.
    pub cipher: Option<String>,
    /// Let a zone that shares the host's programs follow the other host.
    pub update: bool,
}

/// Migrates a zone; its state stays what it is, over there.
///
/// # Errors
/// When it cannot be there, or the connection ended; the message says where the zone is.
pub fn migrate(
    host: &Host,
    zone: &ZoneName,
    options: &Options,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let mut subject = match Subject::admit(host, zone, Verb::Migrate)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let path = subject.zonepath.clone();
    if subject.state == State::Running && crate::machine::is_machine(&subject.config(host)?) {
        return Err(Error::Refused(
            "is a kernel zone that runs: suspend it first, and it goes on over there.".to_owned(),
        ));
    }
    if !driver_at(&path)?.has_layers() {
        return Err(Error::Refused(
            "its root has no layers: use zoneadm export and import.".to_owned(),
        ));
    }
    if let Some(id) = away(&path)? {
        if dry_run {
            return Ok(Outcome::Planned(format!(
                "migrate zone {zone}:\n  ask {} whether it has the zone\n",
                options.host
            )));
        }
        progress("Asking for what was cut off.");
        match ask(zone, options, &id)? {
            Fate::Arrived => return give_up(host, &subject, progress),
            Fate::Unknown => come_back(&path)?,
        }
    }
    let mut trip = Trip::begin(host, &subject, options, dry_run)?;
    if dry_run {
        return Ok(Outcome::Planned(trip.plan(zone, options)));
    }
    let snapshots = driver_at(&path)?.snapshots(&path)?.len();
    if snapshots > 0 {
        progress(&format!("Its {snapshots} snapshots do not go along."));
    }
    trip.send_layers(progress)?;
    let runs = subject.state == State::Running || subject.state == State::Ready;
    if runs {
        progress("Sending the top while the zone runs.");
        trip.send_top()?;
        progress("Halting the zone.");
        halt_locked(host, &subject)?;
        subject.state = State::Installed;
        subject.runtime = None;
    }
    let sent = subject::settle(host, zone).and_then(|()| {
        progress("Sending what is left.");
        trip.send_top()?;
        trip.compare()?;
        trip.send_machine(progress)
    });
    let done = sent.and_then(|()| trip.commit(&path, runs));
    match done {
        Ok(()) => give_up(host, &subject, progress),
        Err(error) => {
            drop(trip);
            stay(host, &subject, options, runs, error, progress)
        }
    }
}

/// Finds out whose a zone is when its migration failed.
fn stay(
    host: &Host,
    subject: &Subject,
    options: &Options,
    runs: bool,
    error: Error,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let zone = &subject.entry.name;
    if let Some(id) = away(&subject.zonepath)? {
        match ask(zone, options, &id) {
            Ok(Fate::Arrived) => return give_up(host, subject, progress),
            Ok(Fate::Unknown) => come_back(&subject.zonepath)?,
            Err(_) => {
                return Err(Error::Refused(format!(
                    "{}: it may be on {} by now: give the same command again when that can be reached.",
                    flatten(&error),
                    options.host
                )));
            }
        }
    }
    if runs {
        progress("Booting the zone here again.");
        start_locked(host, subject, Verb::Boot, &BootOptions::default(), false)?;
    }
    Err(error)
}

/// Removes the zone of the source: it is the target's.
fn give_up(
    host: &Host,
    subject: &Subject,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    progress("Cleaning up.");
    let path = &subject.zonepath;
    let entry = Entry {
        state: State::Incomplete,
        ..subject.entry.clone()
    };
    apply::record_now(host, entry)?;
    environments::forget(path)?;
    driver_at(path)?.destroy(path)?;
    let config = subject.config(host)?;
    if crate::machine::is_machine(&config) {
        // Also an image that lies elsewhere: the other host has gone on from it, or will.
        if let Some(image) = crate::machine::image::path(host, &config) {
            crate::machine::image::remove(&image).map_err(Error::Refused)?;
        }
        crate::machine::install::remove(host, &config, path)
            .map_err(|error| Error::Refused(error.to_string()))?;
    }
    come_back(path)?;
    let _ = fs::remove_file(path.join(ARRIVED));
    let _ = fs::remove_dir(path);
    let entry = Entry {
        state: State::Configured,
        uuid: None,
        slot: None,
        ..subject.entry.clone()
    };
    apply::record_now(host, entry)?;
    Ok(Outcome::Done)
}

/// The migration that a zone may have left with.
fn away(zonepath: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(zonepath.join(AWAY)) {
        Ok(text) => Ok(Some(text.trim().chars().take(64).collect())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::Io(
            format!("read {}/{AWAY}", zonepath.display()),
            error,
        )),
    }
}

/// Whether a zone may be another host's by now.
pub(crate) fn is_away(zonepath: &Path) -> bool {
    zonepath.join(AWAY).exists()
}

fn come_back(zonepath: &Path) -> Result<(), Error> {
    match fs::remove_file(zonepath.join(AWAY)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::Io(
            format!("remove {}/{AWAY}", zonepath.display()),
            error,
        )),
        _ => Ok(()),
    }
}

/// Stores that a zone may be another host's from now on.
fn leave(zonepath: &Path, id: &str) -> Result<(), Error> {
    let path = zonepath.join(AWAY);
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create(&path)?;
        file.write_all(id.as_bytes())?;
        file.sync_all()?;
        fs::File::open(zonepath)?.sync_all()
    };
    write().map_err(Error::io(format!("write {}", path.display())))
}

/// Asks the target what became of a migration.
fn ask(zone: &ZoneName, options: &Options, id: &str) -> Result<Fate, Error> {
    let mut child = ssh(zone, options, &["receive", "--status", id])?;
    let mut text = Vec::new();
    let read = child.stdout.take().map_or(Ok(0), |out| {
        std::io::Read::read_to_end(&mut std::io::Read::take(out, 4096), &mut text)
    });
    let status = child.wait();
    read.map_err(Error::io(format!("hear from {}", options.host)))?;
    match (status, serde_json::from_slice(&text)) {
        (Ok(status), Ok(fate)) if status.success() => Ok(fate),
        _ => Err(Error::Refused(format!(
            "{} does not say whether it has the zone.",
            options.host
        ))),
    }
}

/// Starts zoneadm on the other host.
fn ssh(zone: &ZoneName, options: &Options, words: &[&str]) -> Result<Child, Error> {
    let command = format!(
        "PATH=\"$PATH:/usr/sbin:/sbin\" exec zoneadm -z {zone} {}",
        words.join(" ")
    );
    let mut all = vec!["-T", "-o", "BatchMode=yes"];
    for option in &options.ssh {
        all.extend(["-o", option]);
    }
    if let Some(cipher) = &options.cipher {
        all.extend(["-c", cipher]);
    }
    all.extend(["--", &options.host, &command]);
    start_program("ssh", &all, Stdio::piped(), Stdio::piped())
}

/// A zone on its way.
struct Trip {
    id: String,
    to: String,
    child: Child,
    wire: Wire<BufReader<ChildStdout>, BufWriter<ChildStdin>>,
    /// The trees of the layers with their digests, the lowest first.
    layers: Vec<storage::Known>,
    have: usize,
    top: PathBuf,
    /// The top as it was when it was sent last.
    sent: Option<Listing>,
    /// What a kernel zone has beside its root.
    load: Option<Load>,
}

impl Trip {
    fn begin(
        host: &Host,
        subject: &Subject,
        options: &Options,
        dry_run: bool,
    ) -> Result<Self, Error> {
        let path = subject.zonepath.clone();
        let config = subject.config(host)?;
        let load = Load::of(host, subject, &config)?;
        let system = inventory::of_zone(host, &path, &config)?;
        let manifest = inventory::manifest(&config, subject.entry.uuid, system);
        let dataset = Dataset::open(&path)?;
        let layers = dataset.known_layers(&keeps)?;
        let top = dataset.stack()?.top;
        let id = new_uuid()?.simple();
        let hello = Hello {
            version: VERSION,
            id: id.clone(),
            manifest: manifest.text(),
            image: image_of(host, layers.first())?,
            layers: layers.iter().map(|one| one.digest.to_string()).collect(),
            dry_run,
            update: options.update,
            machine: load.as_ref().map(|load| load.cargo.clone()),
        };
        let mut child = ssh(&subject.entry.name, options, &["receive"])?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Refused("no pipe to ssh".to_owned()));
        };
        let mut trip = Self {
            id,
            to: options.host.clone(),
            child,
            wire: Wire::new(
                BufReader::with_capacity(64 << 10, from),
                BufWriter::with_capacity(256 << 10, to),
            ),
            layers,
            have: 0,
            top,
            sent: None,
            load,
        };
        let welcome = trip
            .wire
            .say_json(b'h', &hello)
            .and_then(|()| trip.wire.expect(b'w'));
        let welcome = welcome.map_err(trip.lost())?;
        let welcome: Welcome = serde_json::from_slice(&welcome)
            .map_err(|error| trip.lost()(std::io::Error::other(error)))?;
        if welcome.have > trip.layers.len() {
            return Err(trip.lost()(std::io::Error::other("it has too many layers")));
        }
        trip.have = welcome.have;
        if let Some(load) = &mut trip.load {
            load.without(&welcome.files);
        }
        Ok(trip)
    }

    /// What went wrong on the way, with the name of the other host.
    fn lost(&self) -> impl Fn(std::io::Error) -> Error + use<> {
        let to = self.to.clone();
        move |error| Error::Refused(format!("{to}: {error}"))
    }

    fn plan(&self, zone: &ZoneName, options: &Options) -> String {
        let lacks = self.layers.len() - self.have;
        let top = Listing::of(&self.top).map_or(0, |top| top.len());
        let files = match self.load.as_ref().map(Load::size) {
            Some((files, bytes)) => format!(
                "  send {files} files of its machine, {} MB\n",
                bytes / 1_000_000
            ),
            None => String::new(),
        };
        format!(
            "migrate zone {zone}:\n  send {lacks} of {} layers to {}\n  send the top with {top} entries\n  \
             halt the zone, and send what has changed since\n{files}  compare digests\n  \
             have it stored and booted there\n  remove it here\n",
            self.layers.len(),
            options.host
        )
    }

    fn send_layers(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let lacks = self.layers.len() - self.have;
        progress(&format!("Sending {lacks} of {} layers.", self.layers.len()));
        for layer in self.layers.split_off(self.have) {
            self.wire.say(b'l', b"").map_err(self.lost())?;
            self.send_tree(&layer.tree, None)?;
            self.answer()?;
        }
        Ok(())
    }

    /// Sends the top, or what has changed in it since it was sent.
    fn send_top(&mut self) -> Result<(), Error> {
        let now = Listing::of(&self.top)?;
        let before = self.sent.take();
        if let Some(before) = &before {
            let mut names = Vec::new();
            for path in before.gone(&now) {
                names.extend_from_slice(path.as_os_str().as_bytes());
                names.push(0);
            }
            self.wire.say(b'r', &names).map_err(self.lost())?;
            self.answer()?;
        }
        self.wire.say(b't', b"").map_err(self.lost())?;
        let top = self.top.clone();
        self.send_tree(&top, before.as_ref())?;
        self.sent = Some(now);
        self.answer()
    }

    fn send_tree(&mut self, tree: &Path, known: Option<&Listing>) -> Result<(), Error> {
        let lost = self.lost();
        let mut pack = Pack::new(self.wire.stream(), Content::Layer);
        pack.tree(tree, &mut |path, stat| {
            known.is_none_or(|known| !known.has(path, stat))
        })?;
        let (stream, _) = pack.finish().map_err(&lost)?;
        stream.end().map_err(lost)
    }

    /// Sends what a kernel zone has beside its root.
    fn send_machine(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let Some(load) = &self.load else {
            return Ok(());
        };
        let (files, bytes) = load.size();
        progress(&format!(
            "Sending {files} files of its machine, {} MB.",
            bytes / 1_000_000
        ));
        load.send(&mut self.wire).map_err(self.lost())
    }

    /// Compares the top here with that over there. The zone is halted.
    fn compare(&mut self) -> Result<(), Error> {
        let digest = storage::Digest::of_layer(&self.top, &keeps)?;
        self.wire
            .say(b'v', digest.to_string().as_bytes())
            .map_err(self.lost())?;
        self.answer()
    }

    /// Lets the zone be the target's.
    fn commit(&mut self, zonepath: &Path, boot: bool) -> Result<(), Error> {
        leave(zonepath, &self.id)?;
        self.wire
            .say_json(b'c', &Commit { boot })
            .map_err(self.lost())?;
        self.answer()
    }

    fn answer(&mut self) -> Result<(), Error> {
        self.wire.expect(b'k').map(|_| ()).map_err(self.lost())
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        // The other side sees the end of the connection, and throws away what it has
        // unless it was told to keep it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What of a layer goes with it.
fn keeps(name: &[u8], value: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| Content::Layer.keeps(name, value))
}

/// The image that the lowest layer is.
fn image_of(host: &Host, lowest: Option<&storage::Known>) -> Result<Option<String>, Error> {
    let Some(lowest) = lowest else {
        return Ok(None);
    };
    let all = images::open(host)?.list()?;
    // One of a single layer: of several, the lowest is not the image.
    let is_it =
        |image: &&storage::Image| matches!(image.trees.as_slice(), [tree] if *tree == lowest.tree);
    let image = all.iter().find(is_it);
    Ok(image.map(|image| image.digest.to_string()))
}
