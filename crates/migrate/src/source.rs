//! The way of a zone from here to the target, as the source goes it.

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
use subject::Subject;
use subject::away::leave;
use zone::executor::new_uuid;
use zone::{images, inventory, suspend};

/// Maximum number of times that the disks of a machine that runs are sent.
const MAX_DISK_PASSES: usize = 4;

/// When no more than this was new on the disks, in bytes, the machine is suspended.
const LITTLE: u64 = 64 << 20;

/// Approximate maximum number of bytes of names in a frame.
const MAX_NAME_BYTES: usize = 1 << 20;

/// The answer of a target that was asked to take a machine that runs.
pub(super) enum Arranged {
    /// A machine waits there for these disks.
    Ready(Vec<LeaveDisk>),
    /// The zone has no machine.
    NoMachine,
    /// It cannot, as it says.
    Refused(String),
}

/// A zone on its way.
pub(super) struct Trip {
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
    /// The parts of a kernel zone beside its root.
    load: Option<Load>,
    /// It is a machine that runs: it is suspended, and goes on over there.
    pub(super) goes_on: bool,
    /// The warning about the zone's packages, if there is one.
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
            // Before anything is sent.
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

    /// Returns a function that makes an error of the connection, with the name of the other host.
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

    /// Sends the top, or its changes since it was sent.
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
        // Changes that a process made through a mapping get their time when the kernel writes them
        // to the disk.
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

    /// Sends names that are gone.
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

    /// Sends the files of a machine's disks while it writes to them, until little is new.
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

    /// Asks the target to start a machine that waits for a live migration. Returns the disks to
    /// mirror, or that the target cannot.
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

    /// Has the target forget the machine that waits.
    pub(super) fn forget_arrival(&mut self) -> Result<(), Error> {
        self.wire.say(Frame::Undo, b"").map_err(self.lost())?;
        loop {
            // Those that wait for its disks have come to their ends.
            match self.wire.hear().map_err(self.lost())? {
                Some((Frame::Over, _)) => return Ok(()),
                Some((Frame::Channel, _)) => {}
                _ => return Err(self.lost()(std::io::Error::other("no answer"))),
            }
        }
    }

    /// The connection, to be used by several threads; and who keeps it.
    pub(super) const fn parts(
        &mut self,
    ) -> (
        &mut Child,
        &mut Wire<BufReader<ChildStdout>, BufWriter<ChildStdin>>,
    ) {
        (&mut self.child, &mut self.wire)
    }

    /// Ends the connection.
    pub(super) fn hang_up(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks whether a machine that runs could go on over there.
    pub(super) fn probe(&mut self, host: &Host, subject: &Subject) -> Result<(), Error> {
        let machine = suspend::machine_of(host, subject)?;
        self.wire
            .say_json(Frame::Probe, &machine)
            .map_err(self.lost())?;
        self.answer()
    }

    /// Sends the files of a kernel zone beside its root, or those that the target lacks. The zone
    /// does not run.
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

    /// Compares the top here with that over there. The zone is halted.
    pub(super) fn compare(&mut self) -> Result<(), Error> {
        let digest = storage::Digest::of_layer(&self.top, &keeps)?;
        self.wire
            .say(Frame::TopDigest, digest.to_string().as_bytes())
            .map_err(self.lost())?;
        self.answer()
    }

    /// Lets the zone be the target's.
    pub(super) fn commit(&mut self, zonepath: &Path, boot: bool) -> Result<(), Error> {
        self.mark(zonepath)?;
        self.hand_over(boot).map(drop)
    }

    /// Marks the zone as one that may be the target's.
    pub(super) fn mark(&self, zonepath: &Path) -> Result<(), Error> {
        leave(zonepath, &self.id, &self.to)
    }

    /// Tells the target that the zone is its own. Returns the reason if its machine cannot continue
    /// there.
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
        // The other side sees the end of the connection, and removes the received files unless it
        // was told to keep them.
        self.hang_up();
    }
}

/// The image that the lowest layer is.
fn image_of(host: &Host, lowest: Option<&storage::Known>) -> Result<Option<String>, Error> {
    let Some(lowest) = lowest else {
        return Ok(None);
    };
    let all = images::list(host)?;
    // One of a single layer: of several, the lowest is not the image.
    let is_it =
        |image: &&storage::Image| matches!(image.trees.as_slice(), [tree] if *tree == lowest.tree);
    let image = all.iter().find(is_it);
    Ok(image.map(|image| image.digest.to_string()))
}

/// Returns a description of a machine's files for people.
fn described((files, bytes): (usize, u64)) -> String {
    format!("{files} files of its machine, {} MB", bytes / 1_000_000)
}
