//! Sends a zone from this host to the target: the source's part of a migration.

use std::io::{BufReader, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout};

use brand::{Content, Pack};
use model::{State, ZoneName};
use storage::Dataset;

use crate::guest::Load;
use crate::options::{Kind, Options};
use crate::other_host::ssh;
use crate::top_listing::Listing;
use crate::wire::{Commit, Frame, Hello, VERSION, Welcome, Wire, keeps, plain};
use control::protocol::LeaveDisk;
use host::{Error, Host};
use subject::away::leave;
use subject::{Subject, assembled};
use zone::executor::new_uuid;
use zone::{images, inventory, suspend};

/// Maximum number of times that the changed blocks of a running guest's disks are sent.
const MAX_DISK_PASSES: usize = 4;

/// Limit in bytes: if a pass over the disks sends less than this, the guest is suspended.
const LITTLE: u64 = 64 << 20;

/// Approximate maximum number of bytes of file names in a frame.
const MAX_NAME_BYTES: usize = 1 << 20;

/// The target's answer to the request for a live migration.
pub(super) enum Arranged {
    /// A guest waits on the target for the data of these disks.
    Ready(Vec<LeaveDisk>),
    /// The zone is not a kernel zone.
    NoMachine,
    /// The target cannot receive the guest live, with the reason.
    Refused(String),
}

/// A migration in progress, as the source sees it.
pub(super) struct Trip {
    id: String,
    to: String,
    child: Child,
    wire: Wire<BufReader<ChildStdout>, BufWriter<ChildStdin>>,
    /// The folders of the layers with their digests, the lowest layer first.
    layers: Vec<storage::Known>,
    have: usize,
    top: PathBuf,
    /// The listing of the top from the last time that the top was sent.
    sent: Option<Listing>,
    /// The parts of a kernel zone outside its root.
    load: Option<Load>,
    /// True if the zone is a running kernel zone, which continues to run on the target.
    pub(super) goes_on: bool,
    /// The warning about the zone's packages; `None` if they match.
    pub(super) warning: Option<String>,
}

impl Trip {
    pub(super) fn begin(
        host: &Host,
        subject: &Subject,
        options: &Options,
        dry_run: bool,
    ) -> Result<Self, Error> {
        let path = subject.zonepath.clone();
        let config = subject.config(host)?;
        let load = Load::of(host, subject, &config)?;
        let goes_on = load.is_some() && subject.state == State::Running;
        let mut load = load;
        if goes_on {
            // The place for the suspend image is checked before any data is sent.
            let place = suspend::place(host, subject);
            let has_place = place.is_ok();
            if options.kind == Kind::Warm {
                place?;
            }
            if let Some(load) = &mut load {
                load.cargo.suspended = has_place && options.kind != Kind::Live;
            }
        }
        let system = inventory::of_zone(host, &path, &config)?;
        let warning = system.warning();
        let manifest = inventory::manifest(&config, subject.entry.uuid, system);
        let dataset = Dataset::open(&path)?;
        let layers = match dry_run {
            true => dataset.look_at_layers(&keeps)?,
            false => dataset.known_layers(&keeps)?,
        };
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
            assembled: assembled::is_assembled(&path, subject.entry.uuid)?,
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
            goes_on,
            warning,
        };
        let welcome = trip
            .wire
            .say_json(Frame::Hello, &hello)
            .and_then(|()| trip.wire.expect(Frame::Welcome));
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

    /// Returns a function that turns an I/O error of the connection into an [`Error`] that names
    /// the other host.
    fn lost(&self) -> impl Fn(std::io::Error) -> Error + use<> {
        let to = self.to.clone();
        move |error| Error::Refused(format!("{to}: {error}"))
    }

    pub(super) fn plan(&self, zone: &ZoneName, options: &Options) -> String {
        let lacks = self.layers.len() - self.have;
        let top = Listing::of(&self.top).map_or(0, |top| top.len());
        let files = match self.load.as_ref().map(Load::size) {
            Some(size) => format!("  send {}\n", described(size)),
            None => String::new(),
        };
        let steps = match (self.goes_on, options.kind) {
            (true, Kind::Auto | Kind::Live) => format!(
                "{files}  send its memory, and the changes to it, while it runs (live{})\n  stop it, and send the rest\n",
                match options.kind {
                    Kind::Live => "",
                    _ => "; suspended if that cannot be",
                }
            ),
            (true, Kind::Warm) => {
                format!("{files}  suspend the zone, and send the later changes, and its memory\n")
            }
            (false, _) => format!("  halt the zone, and send the later changes\n{files}"),
        };
        format!(
            "migrate zone {zone}:\n  send {lacks} of {} layers to {}\n  send the top with {top} entries\n\
             {steps}  compare digests\n  have it stored and booted there\n  remove it here\n",
            self.layers.len(),
            options.host
        )
    }

    pub(super) fn send_layers(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let lacks = self.layers.len() - self.have;
        progress(&format!("Sending {lacks} of {} layers.", self.layers.len()));
        for layer in self.layers.split_off(self.have) {
            self.wire.say(Frame::Layer, b"").map_err(self.lost())?;
            self.send_tree(&layer.tree, None)?;
            self.answer()?;
        }
        Ok(())
    }

    /// Sends the top, or its changes since it was last sent.
    pub(super) fn send_top(&mut self) -> Result<(), Error> {
        let now = Listing::of(&self.top)?;
        let before = self.sent.take();
        if let Some(before) = &before {
            let mut names = Vec::new();
            for path in before.gone(&now) {
                names.extend_from_slice(path.as_os_str().as_bytes());
                names.push(0);
                if names.len() >= MAX_NAME_BYTES {
                    self.gone(&mut names)?;
                }
            }
            self.gone(&mut names)?;
        }
        // The kernel updates the change time of a memory-mapped file only when it writes the
        // changes to the disk.
        rustix::fs::open(
            &self.top,
            rustix::fs::OFlags::RDONLY,
            rustix::fs::Mode::empty(),
        )
        .and_then(rustix::fs::syncfs)
        .map_err(|errno| Error::Io(format!("sync {}", self.top.display()), errno.into()))?;
        self.wire.say(Frame::Top, b"").map_err(self.lost())?;
        let top = self.top.clone();
        self.send_tree(&top, before.as_ref())?;
        self.sent = Some(now);
        self.answer()
    }

    /// Sends the names of removed files.
    fn gone(&mut self, names: &mut Vec<u8>) -> Result<(), Error> {
        self.wire.say(Frame::Removed, names).map_err(self.lost())?;
        names.clear();
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

    /// Sends the disk files of a running guest several times, until a pass sends few changes.
    pub(super) fn send_drafts(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let lost = self.lost();
        let Some(load) = &mut self.load else {
            return Ok(());
        };
        progress(&format!(
            "Sending {} while the zone runs.",
            described(load.size())
        ));
        load.send_bases(&mut self.wire).map_err(&lost)?;
        for _ in 0..MAX_DISK_PASSES {
            if load.draft(&mut self.wire).map_err(&lost)? < LITTLE {
                break;
            }
        }
        Ok(())
    }

    /// Asks the target to start a QEMU that waits for a live migration. Returns the disks to
    /// mirror, or the reason why the target cannot do this.
    pub(super) fn arrange(
        &mut self,
        host: &Host,
        subject: &Subject,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Arranged, Error> {
        let lost = self.lost();
        let machine = suspend::machine_of(host, subject)?;
        let Some(load) = &mut self.load else {
            return Ok(Arranged::NoMachine);
        };
        progress(&format!(
            "Sending {} while the zone runs.",
            described(load.size())
        ));
        load.send_bases(&mut self.wire).map_err(&lost)?;
        let arrange = load.arrange(machine).map_err(&lost)?;
        self.wire
            .say_json(Frame::Arrange, &arrange)
            .map_err(&lost)?;
        match self.wire.hear().map_err(&lost)? {
            Some((Frame::Done, _)) => Ok(Arranged::Ready(load.leaving())),
            Some((Frame::Refused, why)) => Ok(Arranged::Refused(plain(&why))),
            Some((Frame::Failed, why)) => Err(lost(std::io::Error::other(plain(&why)))),
            _ => Err(lost(std::io::Error::other("the connection ended"))),
        }
    }

    /// Tells the target to forget the waiting guest.
    pub(super) fn forget_arrival(&mut self) -> Result<(), Error> {
        self.wire.say(Frame::Undo, b"").map_err(self.lost())?;
        loop {
            // The target still sends the ends of the disks' channels, which are ignored.
            match self.wire.hear().map_err(self.lost())? {
                Some((Frame::Over, _)) => return Ok(()),
                Some((Frame::Channel, _)) => {}
                _ => return Err(self.lost()(std::io::Error::other("no answer"))),
            }
        }
    }

    /// Returns the connection, for use by several threads, and the ssh process that holds the
    /// connection.
    pub(super) const fn parts(
        &mut self,
    ) -> (
        &mut Child,
        &mut Wire<BufReader<ChildStdout>, BufWriter<ChildStdin>>,
    ) {
        (&mut self.child, &mut self.wire)
    }

    /// Ends the connection by killing the ssh process.
    pub(super) fn hang_up(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks the target whether a running guest could continue there.
    pub(super) fn probe(&mut self, host: &Host, subject: &Subject) -> Result<(), Error> {
        let machine = suspend::machine_of(host, subject)?;
        self.wire
            .say_json(Frame::Probe, &machine)
            .map_err(self.lost())?;
        self.answer()
    }

    /// Sends the files of a kernel zone outside its root, or those that the target lacks. The zone
    /// must not run.
    pub(super) fn send_machine(
        &mut self,
        host: &Host,
        subject: &Subject,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let lost = self.lost();
        let Some(load) = &mut self.load else {
            return Ok(());
        };
        if self.goes_on {
            load.add_image(host, &subject.config(host)?, &subject.zonepath);
            progress("Sending its memory, and the changes on its disks.");
        } else {
            progress(&format!("Sending {}.", described(load.size())));
        }
        load.send(&mut self.wire).map_err(lost)
    }

    /// Sends the digest of the top to the target, which compares it with the received top. The zone
    /// must be halted, suspended, or about to migrate live.
    pub(super) fn compare(&mut self) -> Result<(), Error> {
        let digest = storage::Digest::of_layer(&self.top, &keeps)?;
        self.wire
            .say(Frame::TopDigest, digest.to_string().as_bytes())
            .map_err(self.lost())?;
        self.answer()
    }

    /// Marks the zone, and hands it over to the target. Returns the reason if the zone belongs to
    /// the target but did not boot there.
    pub(super) fn commit(&mut self, zonepath: &Path, boot: bool) -> Result<Option<String>, Error> {
        self.mark(zonepath)?;
        self.hand_over(boot)
    }

    /// Marks the zone as one that may belong to the target.
    pub(super) fn mark(&self, zonepath: &Path) -> Result<(), Error> {
        leave(zonepath, &self.id, &self.to)
    }

    /// Tells the target that the zone belongs to the target. Returns the reason if the guest cannot
    /// continue there.
    pub(super) fn hand_over(&mut self, boot: bool) -> Result<Option<String>, Error> {
        self.wire
            .say_json(Frame::Commit, &Commit { boot })
            .map_err(self.lost())?;
        let told = self.wire.expect(Frame::Done).map_err(self.lost())?;
        Ok((!told.is_empty()).then(|| plain(&told)))
    }

    fn answer(&mut self) -> Result<(), Error> {
        self.wire
            .expect(Frame::Done)
            .map(|_| ())
            .map_err(self.lost())
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        // The target sees the end of the connection. It removes the received files unless it was
        // told to keep the zone.
        self.hang_up();
    }
}

/// Returns the digest of the image that is the zone's lowest layer; `None` if the lowest layer is
/// not an image.
fn image_of(host: &Host, lowest: Option<&storage::Known>) -> Result<Option<String>, Error> {
    let Some(lowest) = lowest else {
        return Ok(None);
    };
    let all = images::list(host)?;
    // Only an image with a single layer is searched: if an image has several layers, the zone's
    // lowest layer alone is not the image.
    let is_it =
        |image: &&storage::Image| matches!(image.trees.as_slice(), [tree] if *tree == lowest.tree);
    let image = all.iter().find(is_it);
    Ok(image.map(|image| image.digest.to_string()))
}

/// Returns a description of a guest's files for messages.
fn described((files, bytes): (usize, u64)) -> String {
    format!("{files} files of its machine, {} MB", bytes / 1_000_000)
}
