//! Boots a QEMU that waits for a guest from another host, and lets the guest run after its live
//! migration.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use model::{Config, Verb};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use store::{runtime, xml};

use control::client;
use control::protocol::{Coming, MAX_PACKET, Reply};
use host::unix_socket::{self, Kind};
use host::{Error, Host, spawn};
use kernelzone::disks::Added;
use platform::{controls, kind};
use subject::Subject;
use zone::boot::{BootOptions, as_file, give_root, make_plan};
use zone::verify;

/// A guest that waits for its disks and its memory. Dropping it takes the guest down, unless the
/// index says that the zone belongs to this host.
#[derive(Debug)]
pub(crate) struct Arrival {
    control: OwnedFd,
    report: OwnedFd,
    /// A connection for each disk of the guest that is sent, in the order of the disks.
    pub disks: Vec<UnixStream>,
    /// The connection for the guest's memory.
    pub memory: UnixStream,
}

/// Boots a zone's QEMU, which then waits for the guest's data. The zone's index entry must have a
/// range of ids, and the caller must hold the zone's lock.
///
/// # Errors
/// Fails with the reason why the zone cannot boot. No process of the zone runs then.
pub(crate) fn start(host: &Host, subject: &Subject, config: &Config) -> Result<Arrival, Error> {
    let zone = &subject.entry.name;
    zone::settle::settle(host, zone)?;
    verify::before(host, subject, config, Verb::Boot)?;
    let facts = kind::of(config).boot_facts(host, subject, config, Added::Refused)?;
    let options = BootOptions::default();
    let mut plan = make_plan(host, subject, config, &facts, Verb::Boot, &options)?;
    // Without -S QEMU would run the guest as soon as its memory is complete, while it may still run
    // on the source.
    let wait = ["-incoming", "defer", "-S"].map(str::to_owned);
    plan.init.arguments.extend(wait);
    let machine = facts.machine.as_ref();
    let machine = machine.ok_or_else(|| Error::Refused("has no machine.".to_owned()))?;
    let record = &machine.record;
    // The QEMU of the source releases a disk on shared storage before this QEMU opens it, and no
    // blocks of it are sent.
    let disks = record.own_disks().map(|(disk, _)| name(disk.id));
    let nvram = record.nvram.iter().map(|_| NVRAM.to_owned());
    let names: Vec<String> = disks.chain(nvram).collect();
    plan.arriving = Some(names.clone());
    give_root(subject, plan.first_id)?;
    plan.id = runtime::next_id(&host.root)?;
    xml::save_running(&host.root, config)?;
    let fail = |error: rustix::io::Errno| Error::Io("make a socket".to_owned(), error.into());
    let (control, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(fail)?;
    let pair = UnixStream::pair().map_err(Error::io("make a socket"))?;
    let (memory, its_memory) = pair;
    let place = host.root.machine(zone, "disks");
    let connect = || -> std::io::Result<(OwnedFd, Vec<UnixStream>)> {
        let listener = unix_socket::listen_at(&place, Kind::Stream)?;
        let connected = names
            .iter()
            .map(|_| unix_socket::connect_to(&place, Kind::Stream));
        let connected: std::io::Result<Vec<OwnedFd>> = connected.collect();
        Ok((listener, connected?.into_iter().map(Into::into).collect()))
    };
    let connected = connect();
    // The socket is removed, because no other process may connect.
    let _ = fs::remove_file(&place);
    let (listener, disks) =
        connected.map_err(Error::io(format!("listen on {}", place.display())))?;
    let (report, theirs_too) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::Io("make a pipe".to_owned(), errno.into()))?;
    let plan = as_file(&plan).map_err(Error::io("hand the plan to zoneadmd"))?;
    let pass = [
        plan.as_fd(),
        theirs_too.as_fd(),
        subject.lock().as_fd(),
        theirs.as_fd(),
        its_memory.as_fd(),
        listener.as_fd(),
    ];
    spawn::zoneadmd(host, zone, &["--arriving"], &pass)?;
    drop((theirs_too, theirs, its_memory, listener));
    let arrival = Arrival {
        control,
        report,
        disks,
        memory,
    };
    match arrival.answer()? {
        Some(()) => Ok(arrival),
        None => Err(arrival.why_not()),
    }
}

/// QEMU's name for the drive with the firmware variables.
pub(crate) const NVRAM: &str = "nvram";

/// Returns QEMU's name for the disk with this number.
pub(crate) fn name(id: u32) -> String {
    format!("disk{id}")
}

impl Arrival {
    /// Sends an order to the guest's zoneadmd and waits for the answer.
    ///
    /// # Errors
    /// Fails with the reason why zoneadmd could not do this. The guest is taken down then.
    pub(crate) fn ask(&self, word: Coming) -> Result<(), Error> {
        let packet = serde_json::to_vec(&word).map_err(|error| Error::Daemon(error.to_string()))?;
        // An error is ignored: a zoneadmd that has ended left the reason in its report.
        let _ = send(&self.control, &packet, SendFlags::NOSIGNAL);
        match self.answer()? {
            Some(()) => Ok(()),
            None => Err(Error::Daemon("its zoneadmd went away".to_owned())),
        }
    }

    fn answer(&self) -> Result<Option<()>, Error> {
        let mut packet = [0; MAX_PACKET];
        let received =
            rustix::io::retry_on_intr(|| recv(&self.control, &mut packet, RecvFlags::empty()));
        let length = match received {
            Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(errno) => return Err(Error::Io("hear zoneadmd".to_owned(), errno.into())),
            Ok((length, _)) => length,
        };
        match serde_json::from_slice(&packet[..length]) {
            Ok(Reply::Done) => Ok(Some(())),
            Ok(Reply::Error(why)) => Err(Error::Daemon(why)),
            Ok(other) => Err(Error::Daemon(format!(
                "zoneadmd sent an unexpected reply: {other:?}; it may be of another version"
            ))),
            Err(error) => Err(Error::Daemon(format!(
                "zoneadmd sent an unexpected reply: {error}; it may be of another version"
            ))),
        }
    }

    /// Lets the guest run. The zone must already belong to this host.
    ///
    /// # Errors
    /// Fails if zoneadmd died. A new zoneadmd then lets the guest run.
    pub(crate) fn run(self, host: &Host) -> Result<(), Error> {
        self.ask(Coming::Run)?;
        let Self {
            control, report, ..
        } = self;
        client::listen_to(report)?;
        drop(control);
        let _ = controls::balance(host);
        Ok(())
    }

    /// Returns the last message of the guest's zoneadmd as an error.
    fn why_not(self) -> Error {
        let Self {
            control, report, ..
        } = self;
        drop(control);
        match client::listen_to(report) {
            Err(error) => error,
            Ok(_) => Error::Daemon("its zoneadmd went away".to_owned()),
        }
    }

    /// Takes the guest down, and waits for the end of its zoneadmd.
    pub(crate) fn give_up(self) {
        let _ = self.why_not();
    }
}
