//! `zoneadm receive`: the target's part of a migration, which `migrate` starts over ssh. Any user
//! who can start it has root's rights on this host.
//!
//! If the connection ends before the source has handed the zone over, this process removes the
//! received files. If this process is killed, the next `receive` removes the files.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brand::Content;
use model::{Config, State, Uuid, Verb, ZoneName};
use serde::de::DeserializeOwned;
use storage::{Dataset, Digest, driver_at};
use store::index::{self, Entry, Index};
use store::lock::Wait;
use store::xml::{self, manifest::Manifest};

use crate::guest::Head;
use crate::live_target::{self, Came};
use crate::receive_guest::{Unloading, check_disks};
use crate::waiting_guest;
use crate::waiting_guest::Arrival;
use crate::wire::{
    self, Arrange, Commit, Fate, Frame, Hello, VERSION, Welcome, Wire, digest, keeps,
};
use control::client;
use control::protocol::Coming;
use host::{Error, Host, flatten};
use platform::kind;
use subject::arrived::{self, ARRIVED, INCOMING};
use subject::{DETACHED, Subject, assembled};
use zone::attach::{self, update};
use zone::boot::{BootOptions, start_locked};
use zone::executor::{self, new_uuid};
use zone::halt::halt_locked;
use zone::label::admit_copy;
use zone::{exported, images, import, suspend, verify};

/// Timeout for the source to hand over a guest that has arrived completely.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(60);

/// Receives a zone: reads the source's messages from `from` and writes answers to `to`.
///
/// # Errors
/// Fails with the error that was also sent to the source. This host has nothing of the zone then.
pub fn receive(
    host: &Host,
    zone: &ZoneName,
    from: impl Read + AsFd,
    to: impl Write + Send,
) -> Result<(), Error> {
    let mut wire = Wire::new(from, to);
    let done = converse(host, zone, &mut wire);
    if let Err(error) = &done {
        // An error is ignored, because the source may have ended.
        let _ = wire.say(Frame::Failed, flatten(error).as_bytes());
    }
    done
}

/// Returns the result of a migration as JSON. Waits until no process works on the zone.
///
/// # Errors
/// Fails if the state of the zone cannot be read.
pub fn status(host: &Host, zone: &ZoneName, id: &str) -> Result<String, Error> {
    let known = Index::load(&host.root)?.find(zone).is_some();
    let fate = match known {
        false => Fate::Unknown,
        true => {
            // The receiving process holds the lock until the migration is decided.
            let (_lock, entry, _) = subject::lock_known(host, zone, Wait::Yes)?;
            let came_by = arrived::of(&host.root.path(&entry.zonepath))?;
            match came_by.as_deref() == Some(id) && entry.state == State::Installed {
                true => Fate::Arrived,
                false => Fate::Unknown,
            }
        }
    };
    let fate = match arrived::has_gone_on(&host.root, id)? {
        true => Fate::Arrived,
        false => fate,
    };
    serde_json::to_string(&fate).map_err(|error| Error::Refused(error.to_string()))
}

fn lost(error: std::io::Error) -> Error {
    Error::Io("hear from the source".to_owned(), error)
}

fn converse<R: Read + AsFd, W: Write + Send>(
    host: &Host,
    zone: &ZoneName,
    wire: &mut Wire<R, W>,
) -> Result<(), Error> {
    let (hello, manifest, layers) = hear_hello(wire)?;
    if hello.dry_run {
        let have = look(host, zone, &manifest, &hello, &layers)?;
        let files = Vec::new();
        return wire
            .say_json(Frame::Welcome, &Welcome { have, files })
            .map_err(lost);
    }
    let mut guest = Guest::admit(host, zone, &manifest, &hello)?;
    let have = guest.stand(&hello, &layers)?;
    let files = match &mut guest.machine {
        Some(machine) => machine.begin(host)?,
        None => Vec::new(),
    };
    wire.say_json(Frame::Welcome, &Welcome { have, files })
        .map_err(lost)?;
    for n in have..layers.len() {
        wire.expect(Frame::Layer).map_err(lost)?;
        guest.layer(wire, &layers[..=n])?;
        wire.say(Frame::Done, b"").map_err(lost)?;
    }
    let mut compared = false;
    loop {
        if guest.arrival.is_some() {
            // The guest is paused on both hosts, and its zone is locked on this host. The timeout
            // stops a dead connection from keeping the zone in this state.
            wire.wait(HANDOVER_TIMEOUT).map_err(lost)?;
        }
        let Some((kind, body)) = wire.hear().map_err(lost)? else {
            return Err(Error::Refused(
                "the connection ended before the zone was whole.".to_owned(),
            ));
        };
        match kind {
            Frame::Commit if compared => {
                let told = guest.commit(&body)?;
                // An error is ignored: the zone belongs to this host even if the source does not
                // get the answer.
                let _ = wire.say(Frame::Done, told.as_bytes());
                return Ok(());
            }
            Frame::TopDigest => {
                guest.compare(&String::from_utf8_lossy(&body))?;
                compared = true;
            }
            Frame::Arrange => {
                guest.let_machine_come(wire, &body)?;
                continue;
            }
            // This is late data of a cancelled live migration.
            Frame::Channel => continue,
            Frame::Top => guest.top(wire)?,
            Frame::Removed => guest.remove(&body)?,
            Frame::File => guest.file(wire, &body)?,
            Frame::Probe => guest.probe(&body)?,
            Frame::Undo => guest.came(Came::Undone)?,
            _ => return Err(Error::Refused(
                "the source sent an unexpected message; its programs may be of another version."
                    .to_owned(),
            )),
        }
        wire.say(Frame::Done, b"").map_err(lost)?;
    }
}

/// Reads the first message of the source. Returns the message with its manifest and the digests of
/// its layers.
fn hear_hello<R: Read, W: Write>(
    wire: &mut Wire<R, W>,
) -> Result<(Hello, Manifest, Vec<Digest>), Error> {
    let hello: Hello = understand(&wire.expect(Frame::Hello).map_err(lost)?)?;
    if hello.version != VERSION {
        return Err(Error::Refused(format!(
            "speaks version {VERSION} of migrations, not {}.",
            hello.version
        )));
    }
    let manifest = Manifest::parse(&hello.manifest, Path::new("the manifest"))?;
    let layers: Result<Vec<Digest>, _> = hello.layers.iter().map(|text| digest(text)).collect();
    let layers = layers.map_err(lost)?;
    if layers.len() > storage::MAX_LAYERS {
        return Err(Error::Refused("has too many layers.".to_owned()));
    }
    Ok((hello, manifest, layers))
}

/// Parses the body of a message.
fn understand<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Refused(format!("not understood: {error}")))
}

/// Returns the number of layers that exist on this host. Changes nothing.
fn look(
    host: &Host,
    zone: &ZoneName,
    manifest: &Manifest,
    hello: &Hello,
    layers: &[Digest],
) -> Result<usize, Error> {
    let config = configuration(host, zone, manifest)?.0;
    admit_copy(&manifest.config, &config)?;
    refuse_root(host, zone, &config)?;
    check(manifest, hello)?;
    let zonepath = host.root.path(&config.zonepath());
    if let Some(cargo) = &hello.machine {
        check_disks(host, &config, &zonepath, cargo)?;
    }
    let found = (1..=layers.len())
        .rev()
        .find(|n| {
            let chain = Digest::of_chain(&layers[..*n]);
            Dataset::has_chain(&chain, &zonepath).unwrap_or(false)
        })
        .unwrap_or(0);
    Ok(found.max(usize::from(image(host, hello)?.is_some())))
}

fn image(host: &Host, hello: &Hello) -> Result<Option<Digest>, Error> {
    let Some(text) = &hello.image else {
        return Ok(None);
    };
    let wanted = digest(text).map_err(lost)?;
    let all = images::list(host)?;
    let found = all.iter().any(|image| image.digest == wanted);
    Ok(found.then_some(wanted))
}

/// Returns the zone's configuration on this host and false, or the configuration from the source
/// and true if this host has none.
fn configuration(
    host: &Host,
    zone: &ZoneName,
    manifest: &Manifest,
) -> Result<(Config, bool), Error> {
    match Index::load(&host.root)?.find(zone) {
        Some(_) => Ok((xml::load(&host.root, zone)?, false)),
        None => Ok((import::configuration(manifest, zone)?, true)),
    }
}

/// Checks that the zone's packages match this host, or that an update can make them match if the
/// source requests it.
fn check(manifest: &Manifest, hello: &Hello) -> Result<(), Error> {
    match attach::check(manifest) {
        Err(Error::Mismatch(_)) if hello.update => attach::check_update(manifest),
        other => other,
    }
}

/// Returns true if the zonepath of a configured zone holds files of an interrupted migration. A
/// zone that was received and later detached is complete.
fn is_half(zonepath: &Path) -> bool {
    zonepath.join(INCOMING).exists()
        || zonepath.join(ARRIVED).exists() && !zonepath.join(DETACHED).exists()
}

fn refuse_root(host: &Host, zone: &ZoneName, config: &Config) -> Result<(), Error> {
    let zonepath = host.root.path(&config.zonepath());
    let half = is_half(&zonepath);
    let installed = Index::load(&host.root)?.find(zone).is_some_and(|entry| {
        !(entry.state == State::Configured || entry.state == State::Incomplete && half)
    });
    if installed || (zonepath.join(storage::ROOT).exists() && !half) {
        return Err(Error::Refused(format!(
            "zone {zone} is there already, at {}.",
            config.zonepath().display()
        )));
    }
    match exported::problem_of_new(host, &zonepath).filter(|_| !half) {
        Some(problem) => Err(Error::Refused(problem)),
        None => Ok(()),
    }
}

/// A zone that is being received. Dropping it removes the received files, unless the zone was kept.
struct Guest<'a> {
    host: &'a Host,
    subject: Subject,
    config: Config,
    path: PathBuf,
    uuid: Uuid,
    /// The files of a kernel zone outside its root that are still expected.
    machine: Option<Unloading>,
    suspended: bool,
    /// The guest that arrived by live migration and does not belong to this host yet.
    arrival: Option<Arrival>,
    /// True if the index contains the zone in the state incomplete, for a live migration.
    stored: bool,
    /// True if the configuration came from the source.
    new: bool,
    update: bool,
    /// True if the zone has assembled itself on the source.
    assembled: bool,
    id: String,
    kept: bool,
}

impl<'a> Guest<'a> {
    fn admit(
        host: &'a Host,
        zone: &ZoneName,
        manifest: &Manifest,
        hello: &Hello,
    ) -> Result<Self, Error> {
        check(manifest, hello)?;
        let (config, new) = configuration(host, zone, manifest)?;
        admit_copy(&manifest.config, &config)?;
        if new {
            import::configure(host, &config)?;
        }
        let begin = || -> Result<(Subject, PathBuf, Option<Unloading>), Error> {
            refuse_root(host, zone, &config)?;
            let subject = Subject::admit_incoming(host, zone, is_half)?;
            let path = subject.zonepath.clone();
            verify::before(host, &subject, &config, Verb::Attach)?;
            let parent = path.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(parent).map_err(Error::io(format!("make {}", parent.display())))?;
            // If the zonepath contains the files of a killed `receive`, they are removed.
            let again = is_half(&path);
            if again {
                driver_at(&path)?.destroy(&path)?;
                kind::of(&config).remove_beside_root(host, &config, &path)?;
            }
            kind::of(&config).check_incoming(host, &config, &path, hello.machine.is_some())?;
            let machine = hello
                .machine
                .as_ref()
                .map(|cargo| Unloading::new(host, &config, &path, cargo, again));
            Ok((subject, path, machine.transpose()?))
        };
        let (subject, path, machine) = begin().inspect_err(|_| {
            if new {
                let _ = import::forget(host, zone);
            }
        })?;
        let taken = |uuid: Uuid| {
            let holder = subject.index.by_uuid(uuid);
            holder.is_some_and(|entry| entry.name != *zone)
        };
        let uuid = match manifest.uuid.filter(|uuid| !taken(*uuid)) {
            Some(uuid) => uuid,
            None => new_uuid()?,
        };
        let guest = Self {
            host,
            subject,
            config,
            path,
            uuid,
            machine,
            suspended: hello.machine.as_ref().is_some_and(|one| one.suspended),
            arrival: None,
            stored: false,
            new,
            update: hello.update,
            assembled: hello.assembled,
            id: arrived::name(&hello.id),
            kept: false,
        };
        use std::os::unix::fs::DirBuilderExt;
        match fs::DirBuilder::new().mode(0o700).create(&guest.path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::Io(format!("make {}", guest.path.display()), error));
            }
            _ => {}
        }
        let mark = guest.path.join(INCOMING);
        fs::write(&mark, &guest.id).map_err(Error::io(format!("write {}", mark.display())))?;
        if !driver_at(&guest.path)?.has_layers() {
            return Err(Error::Refused(
                "keeps zones on ZFS, which takes no layers: use export and import.".to_owned(),
            ));
        }
        Ok(guest)
    }

    /// Makes the dataset on the layers that this host has already. Returns the number of these
    /// layers.
    fn stand(&self, hello: &Hello, layers: &[Digest]) -> Result<usize, Error> {
        for n in (1..=layers.len()).rev() {
            let chain = Digest::of_chain(&layers[..n]);
            if Dataset::stand_on_chain(&chain, &self.path)?.is_some() {
                return Ok(n);
            }
        }
        if let Some(image) = image(self.host, hello)? {
            images::open(self.host)?.install(&image, &self.path)?;
            return Ok(1);
        }
        Dataset::create(&self.path)?;
        Ok(0)
    }

    fn dataset(&self) -> Result<Dataset, Error> {
        Ok(Dataset::open(&self.path)?)
    }

    /// Receives a layer: the files are written to the top, and then the top is sealed as a layer.
    fn layer<R: Read, W: Write>(
        &self,
        wire: &mut Wire<R, W>,
        layers: &[Digest],
    ) -> Result<(), Error> {
        self.top(wire)?;
        let Some(wanted) = layers.last() else {
            return Ok(());
        };
        self.compare(&wanted.to_string())?;
        self.dataset()?
            .seal_known(*wanted, Digest::of_chain(layers))?;
        Ok(())
    }

    /// Unpacks the received stream into the top.
    fn top<R: Read, W: Write>(&self, wire: &mut Wire<R, W>) -> Result<(), Error> {
        let top = self.dataset()?.stack()?.top;
        let mut incoming = wire.incoming();
        brand::unpack_stream(&top, &mut incoming, Content::Layer, Path::new("the zone"))?;
        incoming.finish().map_err(lost)
    }

    /// Receives a file of a guest.
    fn file<R: Read, W: Write>(&mut self, wire: &mut Wire<R, W>, head: &[u8]) -> Result<(), Error> {
        let head: Head = understand(head)?;
        match &mut self.machine {
            Some(machine) => machine.take(wire, &head),
            None => Err(Error::Refused("was sent a file of no machine.".to_owned())),
        }
    }

    /// Receives a guest by live migration, or tells the source why this is impossible. The source
    /// may suspend the guest then.
    fn let_machine_come<R: Read + AsFd, W: Write + Send>(
        &mut self,
        wire: &mut Wire<R, W>,
        body: &[u8],
    ) -> Result<(), Error> {
        let arrange: Arrange = understand(body)?;
        let arranged = self.arrange(&arrange);
        if arranged.is_ok() {
            // A difference between the guests ends the whole migration, because the guest could not
            // resume here from a suspend image either.
            self.compare_machine(&arrange.machine)?;
        }
        match arranged.and_then(|()| self.wait_for_machine()) {
            Ok(arrival) => {
                wire.say(Frame::Done, b"").map_err(lost)?;
                let came = live_target::take(wire, arrival).map_err(lost)?;
                self.came(came)?;
                wire.say(Frame::Over, b"").map_err(lost)
            }
            Err(error) => {
                self.forget_arrival()?;
                let why = flatten(&error);
                wire.say(Frame::Refused, why.as_bytes()).map_err(lost)
            }
        }
    }

    /// Stores that the zone belongs to this host. Returns the reason if the guest does not run, or
    /// an empty text.
    fn commit(&mut self, body: &[u8]) -> Result<String, Error> {
        let commit: Commit =
            serde_json::from_slice(body).map_err(|error| Error::Refused(error.to_string()))?;
        match self.arrival.take() {
            Some(arrival) => self.keep_running(arrival),
            None => self.keep(commit.boot),
        }
    }

    /// Finds out whether a guest that still runs on the source could continue here.
    fn probe(&mut self, machine: &[u8]) -> Result<(), Error> {
        let machine: serde_json::Value = understand(machine)?;
        self.compare_machine(&machine)
    }

    fn compare_machine(&mut self, machine: &serde_json::Value) -> Result<(), Error> {
        // The guest is described with the entry that will be stored later. Any free range of ids is
        // suitable.
        let free = || Index::load(&self.host.root)?.free_slots(1);
        let slot = match self.subject.entry.slot {
            None => free()?.into_iter().next(),
            slot => slot,
        };
        let entry = Entry {
            uuid: Some(self.uuid),
            slot,
            ..self.subject.entry.clone()
        };
        let before = std::mem::replace(&mut self.subject.entry, entry);
        let here = suspend::machine_here(self.host, &self.subject, &self.config);
        self.subject.entry = before;
        let differences = ::suspend::differences(&kernelzone::image::comparable(machine), &here?);
        if differences.is_empty() {
            return Ok(());
        }
        let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
        Err(Error::Refused(format!(
            "its machine could not go on here: {}.",
            differences.join("; ")
        )))
    }

    /// Boots a QEMU that waits for the guest of a live migration.
    fn wait_for_machine(&self) -> Result<Arrival, Error> {
        waiting_guest::start(self.host, &self.subject, &self.config)
    }

    /// Prepares this host for a live migration: updates the zone's programs, makes the disks, and
    /// stores the zone in the index.
    fn arrange(&mut self, arrange: &Arrange) -> Result<(), Error> {
        if self.update && attach::differs(self.host, &self.path, &self.config)? {
            update::follow(self.host, &self.path, &self.config, &mut |_| {})?;
        }
        self.dataset()?.sync()?;
        let machine = self.machine.as_mut();
        let machine = machine.ok_or_else(|| Error::Refused("waits for no machine.".to_owned()))?;
        machine.make_disks(arrange)?;
        // The waiting guest needs a range of ids in the index. The state is incomplete, because an
        // incomplete zone is never booted.
        let mut entry = Entry {
            state: State::Incomplete,
            uuid: Some(self.uuid),
            ..self.subject.entry.clone()
        };
        executor::record_with_ids(self.host, &mut entry)?;
        self.stored = true;
        self.subject.entry = entry;
        self.subject.state = State::Installed;
        self.subject.index = self.host.index.load(&self.host.root)?;
        Ok(())
    }

    fn came(&mut self, came: Came) -> Result<(), Error> {
        match came {
            Came::Whole(arrival) => {
                self.arrival = Some(arrival);
                Ok(())
            }
            Came::Undone => self.forget_arrival(),
        }
    }

    /// Removes everything that was prepared for a live migration. The source may send the guest
    /// suspended afterwards.
    fn forget_arrival(&mut self) -> Result<(), Error> {
        if let Some(arrival) = self.arrival.take() {
            arrival.give_up();
        }
        if std::mem::take(&mut self.stored) {
            zone::settle::settle(self.host, &self.subject.entry.name)?;
            self.subject.entry = Entry {
                state: State::Configured,
                uuid: None,
                slot: None,
                ..self.subject.entry.clone()
            };
            self.subject.state = State::Configured;
            executor::record_now(self.host, self.subject.entry.clone())?;
        }
        match &mut self.machine {
            Some(machine) => machine.forget_disks(),
            None => Ok(()),
        }
    }

    /// Stores that a guest that arrived live belongs to this host, and lets it run. Returns the
    /// reason if the guest cannot continue here, or an empty text. If storing fails, the guest
    /// still belongs to the source.
    fn keep_running(&mut self, arrival: Arrival) -> Result<String, Error> {
        // If the guest ended before this point, the zone still belongs to the source.
        if let Err(error) = arrival.ask(Coming::IsWhole) {
            arrival.give_up();
            return Err(error);
        }
        let (from, to) = (self.path.join(INCOMING), self.path.join(ARRIVED));
        let stored = store::atomic::rename(&from, &to).and_then(|()| {
            let entry = Entry {
                state: State::Installed,
                ..self.subject.entry.clone()
            };
            executor::record_now(self.host, entry)
        });
        if let Err(error) = stored {
            // The result could not be stored, so the zone still belongs to the source.
            self.arrival = Some(arrival);
            return Err(error.into());
        }
        self.kept = true;
        let Err(error) = arrival.run(self.host) else {
            return Ok(String::new());
        };
        // If the guest's zoneadmd died just now, a new zoneadmd lets the guest run.
        let zone = &self.subject.entry.name;
        let attended = client::attend(self.host, zone);
        let runtime = store::runtime::load(&self.host.root, zone);
        let runs = runtime.is_ok_and(|known| known.is_some_and(|one| one.state == State::Running));
        Ok(match attended {
            Ok(()) if runs => String::new(),
            _ => flatten(&error),
        })
    }

    fn remove(&self, names: &[u8]) -> Result<(), Error> {
        let top = self.dataset()?.stack()?.top;
        let names = names.split(|&byte| byte == 0).filter(|one| !one.is_empty());
        let names = names.map(|one| PathBuf::from(std::ffi::OsStr::from_bytes(one)));
        Ok(brand::remove_from(&top, names, Path::new("the zone"))?)
    }

    fn compare(&self, wanted: &str) -> Result<(), Error> {
        let top = self.dataset()?.stack()?.top;
        let found = Digest::of_layer(&top, &keeps)?;
        match wanted.parse() == Ok(found) {
            true => Ok(()),
            false => Err(Error::Refused(format!(
                "the received files differ from the sent ones: their digest is {found}, not {}.",
                wire::plain(wanted.as_bytes())
            ))),
        }
    }

    /// Stores that the zone belongs to this host, and boots the zone if requested. Returns the
    /// reason if the zone belongs to this host but its boot failed, or an empty text. If an error
    /// occurs, the zone still belongs to the source.
    fn keep(&mut self, boot: bool) -> Result<String, Error> {
        if self.update && attach::differs(self.host, &self.path, &self.config)? {
            update::follow(self.host, &self.path, &self.config, &mut |_| {})?;
        }
        self.dataset()?.sync()?;
        if let Some(machine) = &self.machine {
            machine.finish()?;
        }
        if self.assembled {
            // An intruder in an immutable zone must not get a writable boot by the migration.
            assembled::mark(&self.path, Some(self.uuid))?;
        }
        let (from, to) = (self.path.join(INCOMING), self.path.join(ARRIVED));
        // This file must be on stable storage before the index says that the zone is installed. The
        // source asks for the result by the id in this file.
        store::atomic::rename(&from, &to)?;
        let entry = Entry {
            state: State::Installed,
            uuid: Some(self.uuid),
            ..self.subject.entry.clone()
        };
        executor::record_now(self.host, entry.clone())?;
        // A suspended guest must be able to resume here. If the guest must not boot, only a dry run
        // of the boot checks this.
        if boot || self.suspended {
            self.subject.entry = Index::load(&self.host.root)?.get(&entry.name)?.clone();
            self.subject.state = State::Installed;
            let booted = start_locked(
                self.host,
                &self.subject,
                Verb::Boot,
                &BootOptions::default(),
                !boot,
            );
            if let Err(error) = booted {
                // The zone may run in spite of the error if its zoneadmd died at the end of the
                // boot. It is halted, because it must not run on both hosts.
                if boot && halt_locked(self.host, &self.subject).is_err() {
                    self.kept = true;
                    return Err(error);
                }
                let machine = self.machine.as_ref();
                if boot && machine.is_some_and(Unloading::has_run_on_shared_disks) {
                    self.kept = true;
                    return Ok(flatten(&error));
                }
                // The zone still belongs to the source.
                executor::record_now(
                    self.host,
                    Entry {
                        state: State::Configured,
                        uuid: None,
                        slot: None,
                        ..entry
                    },
                )?;
                return Err(error);
            }
        }
        self.kept = true;
        Ok(String::new())
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        if self.kept || self.forget_arrival().is_err() {
            return;
        }
        // If a file cannot be removed now, the next `receive` or an uninstall removes it.
        let cleared = driver_at(&self.path).and_then(|driver| driver.destroy(&self.path));
        let removed =
            kind::of(&self.config).remove_beside_root(self.host, &self.config, &self.path);
        if cleared.is_err() || removed.is_err() {
            return;
        }
        for mark in [
            INCOMING,
            ARRIVED,
            assembled::ASSEMBLED,
            subject::identity::FILE,
            subject::identity::LOCK,
        ] {
            let _ = fs::remove_file(self.path.join(mark));
        }
        let _ = fs::remove_dir(&self.path);
        if self.new {
            let _ = forget(self.host, &self.subject.entry.name);
        }
    }
}

/// Removes the configuration of a zone whose lock the caller holds.
fn forget(host: &Host, zone: &ZoneName) -> Result<(), store::Error> {
    index::update(&host.root, |index| {
        index.remove(zone);
        Ok::<_, store::Error>(())
    })?;
    xml::remove(&host.root, zone).map(drop)
}
