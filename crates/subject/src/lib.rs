//! The zone that a verb acts on: its place in the index, its state, its lock.

pub mod arrived;
pub mod away;
pub mod freeze;
pub mod identity;
pub mod names;
pub mod network;
pub mod zfs_stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use limits::ZoneCgroups;
use model::verb::Admission;
use model::{Config, State, Verb, ZoneName};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use store::index::{Entry, Index};
use store::lock::{self, Wait, ZoneLock};
use store::runtime::{self, RESUMING, Runtime};
use store::xml;

use crate::network::Records;
use host::{Error, Host};

/// Folder of the zonepath where `mount` shows the root.
pub const SHOWN: &str = "lu";

/// Left in the zonepath of a detached zone.
pub use store::xml::manifest::DETACHED;

/// Left in the zonepath of a zone that was attached without a check.
pub const FORCED: &str = "SUNWattached.xml";

/// Stands in the zonepath of a clone from its first step until it is stored.
pub const UNFINISHED: &str = ".unfinished-clone";

/// The mark in the zonepath while an archive or stream is unpacked into the root, until the zone is
/// installed.
pub const UNPACKING: &str = ".unfinished-root";

/// A zone, locked against other commands.
#[derive(Debug)]
pub struct Subject {
    /// The entry in the index.
    pub entry: Entry,
    /// Its state now.
    pub state: State,
    /// The runtime state, when the zone is active.
    pub runtime: Option<Runtime>,
    /// The real path of the zonepath.
    pub zonepath: PathBuf,
    /// Half a clone that died lies there, which a new one clears away.
    pub unfinished: bool,
    /// All zones, as they were when the lock was taken.
    pub index: Arc<Index>,
    lock: ZoneLock,
}

/// The ways to begin a verb.
#[derive(Debug)]
pub enum Start {
    /// With this zone.
    Go(Box<Subject>),
    /// Not at all: this notice is all there is to say.
    Already(&'static str),
}

impl Subject {
    /// Takes the zone's lock and asks its state whether `verb` may act.
    ///
    /// # Errors
    /// [`Error::Refused`] with the text of the transition table; no such zone;
    /// the lock is held.
    pub fn admit(host: &Host, zone: &ZoneName, verb: Verb) -> Result<Start, Error> {
        Self::admit_cutting(host, zone, verb).map(|(start, _)| start)
    }

    /// [`Subject::admit`]; also whether something was cut short for it. An order about the life
    /// of a zone does not wait for the boot that follows a reboot of its own, nor `halt` for a
    /// shutdown.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub fn admit_cutting(host: &Host, zone: &ZoneName, verb: Verb) -> Result<(Start, bool), Error> {
        let cuts = match verb {
            Verb::Halt => Cuts::Shutdowns,
            _ => Cuts::Reboots,
        };
        let (lock, mut was_cut) = lock_cutting(host, zone, cuts)?;
        let (lock, entry, index) = with_entry(host, zone, lock)?;
        let found = crate::state(host, &entry)?;
        // It has ended by itself, and its zoneadmd waits for our lock to boot it again.
        was_cut |= verb == Verb::Halt && is_ending(found.1.as_ref());
        // It was down already, on its way to the next boot.
        let verb = match verb {
            Verb::Shutdown if was_cut => Verb::Halt,
            Verb::Reboot if was_cut => Verb::Boot,
            other => other,
        };
        Ok((Self::start(host, verb, lock, entry, index, found)?, was_cut))
    }

    /// [`Subject::admit`] with the lock of the zone, which is held already.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub fn admit_with(
        host: &Host,
        zone: &ZoneName,
        verb: Verb,
        held: ZoneLock,
    ) -> Result<Start, Error> {
        let (lock, entry, index) = with_entry(host, zone, held)?;
        let found = crate::state(host, &entry)?;
        Self::start(host, verb, lock, entry, index, found)
    }

    /// [`Subject::admit`], but a zone that is not in the index is made by `configure`, which stores
    /// its configuration and returns the entry; the caller stores that. An installed zone already
    /// has the wanted state, so that a command that was interrupted can be given again.
    ///
    /// # Errors
    /// See [`Subject::admit`], and errors of `configure`.
    pub fn admit_new(
        host: &Host,
        zone: &ZoneName,
        verb: Verb,
        configure: impl FnOnce() -> Result<Entry, Error>,
    ) -> Result<Start, Error> {
        let lock = lock_now(host, zone)?;
        let index = host.index.load(&host.root)?;
        let entry = match index.find(zone) {
            Some(entry) => match crate::state(host, entry)?.0 {
                State::Configured | State::Incomplete => entry.clone(),
                _ => return Ok(Start::Already("is already installed.")),
            },
            None => configure()?,
        };
        let found = crate::state(host, &entry)?;
        Self::start(host, verb, lock, entry, index, found)
    }

    /// The zone of `verb` whose root lies in the zonepath though the index knows of none,
    /// as after it was put there by hand, or whose root belongs to another host; nothing when
    /// that is not so.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub fn admit_forced(host: &Host, zone: &ZoneName, verb: Verb) -> Result<Option<Self>, Error> {
        let (lock, entry, index) = lock_known(host, zone, Wait::No)?;
        let zonepath = host.root.path(&entry.zonepath);
        // A root that was unpacked half is only good for being unpacked again.
        let state = crate::state(host, &entry)?.0;
        let is_others = matches!(state, State::Installed | State::Incomplete)
            && identity::other_owner(&host.root, &zonepath).is_some();
        let found = is_others
            || entry.state == State::Configured
                && (has_unknown_root(&entry, &zonepath)
                    || state == State::Incomplete && !zonepath.join(UNFINISHED).exists());
        debug_assert!(verb == Verb::Attach, "no other verb takes such a zone");
        Ok(found.then(|| Self::still(State::Configured, zonepath, entry, index, lock)))
    }

    /// A configured zone that a migration is received into; also when an earlier one that
    /// was cut off has left a root in its zonepath, which `is_half` knows.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub fn admit_incoming(
        host: &Host,
        zone: &ZoneName,
        is_half: impl Fn(&Path) -> bool,
    ) -> Result<Self, Error> {
        let (lock, entry, index) = lock_known(host, zone, Wait::No)?;
        let zonepath = host.root.path(&entry.zonepath);
        end_of_migration(&entry, &zonepath)?;
        if entry.state == State::Incomplete && is_half(&zonepath) {
            // A machine may wait there whose source has ended.
            settle(host, zone)?;
        }
        match crate::state(host, &entry)?.0 {
            State::Configured if is_half(&zonepath) => {}
            State::Configured => {
                refuse_unknown_root(Verb::Install, State::Configured, &entry, &zonepath)?;
            }
            State::Incomplete if is_half(&zonepath) => {}
            state => match Verb::Attach.admission(state) {
                Admission::Refuse(text) => return Err(Error::State(text)),
                _ => return Err(Error::State(format!("is {state}."))),
            },
        }
        Ok(Self::still(State::Configured, zonepath, entry, index, lock))
    }

    /// A zone that was being removed here because it is another host's, which was cut off.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub fn admit_leaving(
        host: &Host,
        zone: &ZoneName,
        is_away: impl FnOnce(&Path) -> bool,
    ) -> Result<Option<Self>, Error> {
        let (lock, entry, index) = lock_known(host, zone, Wait::No)?;
        let zonepath = host.root.path(&entry.zonepath);
        let found = entry.state == State::Incomplete && is_away(&zonepath);
        Ok(found.then(|| Self::still(State::Incomplete, zonepath, entry, index, lock)))
    }

    /// A zone of which the kernel holds nothing.
    const fn still(
        state: State,
        zonepath: PathBuf,
        entry: Entry,
        index: Arc<Index>,
        lock: ZoneLock,
    ) -> Self {
        Self {
            state,
            runtime: None,
            zonepath,
            unfinished: false,
            entry,
            index,
            lock,
        }
    }

    /// Asks the state of a zone, which is `found` under its lock, whether `verb` may act.
    fn start(
        host: &Host,
        verb: Verb,
        lock: ZoneLock,
        entry: Entry,
        index: Arc<Index>,
        found: (State, Option<Runtime>),
    ) -> Result<Start, Error> {
        let (mut state, mut runtime) = found;
        // Also the platform of a zone that died together with its zoneadmd: it may hold links of
        // the host's.
        if is_ending(runtime.as_ref()) || runtime.is_none() && has_remains(host, &entry.name) {
            settle(host, &entry.name)?;
            (state, runtime) = crate::state(host, &entry)?;
        }
        let zonepath = host.root.path(&entry.zonepath);
        let known = identity::Known::of(&host.root, &zonepath);
        let owner = known.other_owner();
        if owner.is_none() && !host.plan_only {
            end_of_migration(&entry, &zonepath)?;
            // Files that cannot be removed now stay for the next command: they only take space.
            let _ = storage::tidy(&zonepath);
        }
        // Never stored, so never booted: it holds no data of a user.
        let unfinished = verb == Verb::Clone
            && entry.state == State::Configured
            && matches!(state, State::Configured | State::Incomplete)
            && zonepath.join(UNFINISHED).exists();
        if unfinished {
            state = State::Configured;
        }
        refuse_unknown_root(verb, state, &entry, &zonepath)?;
        if let Some(owner) = &owner {
            refuse_root_of_other(verb, state, &entry, owner)?;
        }
        if state == State::Installed && entry.state == State::Installed {
            refuse_without_root(verb, &entry, &zonepath)?;
            let is_ours = owner.is_none() && !lacks_root(&zonepath) && !host.plan_only;
            // Never into the mount point of storage that is not mounted.
            if is_ours {
                end_of_making(&zonepath);
            }
            if let Some(uuid) = entry.uuid.filter(|uuid| is_ours && !known.is_of(*uuid)) {
                // Without it an attach -F elsewhere gives the zone another uuid.
                let _ = identity::write(&host.root, &zonepath, uuid);
            }
        }
        match verb.admission(state) {
            Admission::Already(notice) => Ok(Start::Already(notice)),
            Admission::Refuse(text) => Err(Error::State(text)),
            Admission::Go => Ok(Start::Go(Box::new(Self {
                entry,
                state,
                runtime,
                zonepath,
                unfinished,
                index,
                lock,
            }))),
        }
    }

    /// The zone's lock, to hand it on.
    pub const fn lock(&self) -> &ZoneLock {
        &self.lock
    }

    /// Keeps the lock and nothing else.
    pub fn into_lock(self) -> ZoneLock {
        self.lock
    }

    /// The zone's configuration.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn config(&self, host: &Host) -> Result<Config, Error> {
        Ok(xml::load(&host.root, &self.entry.name)?)
    }
}

/// Makes sure that nothing is left of a zone that is not active: removes the platform of a zone
/// that died together with its zoneadmd, and waits for a zoneadmd that still closes the zone's
/// root. The zone's lock is held. A command that only shows its plan leaves all there.
///
/// # Errors
/// When something cannot be removed, or the root stays open for [`WRITE_OUT_TIMEOUT`].
pub fn settle(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    if host.plan_only {
        return Ok(());
    }
    if let Some(known) = runtime::load_any(&host.root, zone)? {
        // Its zoneadmd may be alive and waiting for our lock.
        if let Some(socket) = control::client::connect_to(&host.root, zone)? {
            control::client::ask(&socket, &control::protocol::Request::Halt)?;
        }
        if let Some(cgroups) = ZoneCgroups::from_paths(&known.cgroups) {
            clear(&cgroups)?;
        }
        runtime::forget(&host.root, zone)?;
    }
    Records::of(&host.root).release(zone)?;
    let path = host.root.root_lock(zone);
    // A zone that never ran has none.
    if path.exists() && lock::exclusive_within(&path, WRITE_OUT_TIMEOUT)?.is_none() {
        return Err(Error::Refused(format!(
            "its zoneadmd is still writing its file system out after {} s; try again.",
            WRITE_OUT_TIMEOUT.as_secs()
        )));
    }
    Ok(())
}

/// Ends a migration of a zone to another host that was killed when the index already said
/// that the zone is not here any more; tells whether that was so.
///
/// # Errors
/// No such zone, the lock is held, or the mark cannot be removed.
pub fn forget_gone(host: &Host, zone: &ZoneName) -> Result<bool, Error> {
    let (_lock, entry, _) = lock_known(host, zone, Wait::No)?;
    if host.plan_only {
        return Ok(false);
    }
    end_of_migration(&entry, &host.root.path(&entry.zonepath))
}

fn end_of_migration(entry: &Entry, zonepath: &Path) -> Result<bool, Error> {
    let is_gone = entry.state == State::Configured
        && lacks_root(zonepath)
        && !zonepath.join(DETACHED).exists()
        && away::is_away(zonepath);
    if is_gone {
        away::remove_zonepath(zonepath)?;
    }
    let was_removed = entry.state == State::Configured && away::clear_gone(zonepath)?;
    Ok(is_gone || was_removed)
}

/// Removes the marks of a clone and of an unpacking that were killed after they had stored the
/// zone: a mark that stays would make the root look like half a zone after a detach.
fn end_of_making(zonepath: &Path) {
    for mark in [UNFINISHED, UNPACKING] {
        let _ = std::fs::remove_file(zonepath.join(mark));
    }
}

/// Returns whether something is there that a zone has only while it is active. For a zone that is
/// not active, these are leftovers of a killed zoneadmd.
pub fn has_remains(host: &Host, zone: &ZoneName) -> bool {
    host.root.runtime(zone).exists() || Records::of(&host.root).has(zone)
}

/// Removes the leftovers of a zone that died together with its zoneadmd, for a command that only
/// reads. Not while another command has the zone, which clears it away itself.
///
/// # Errors
/// When something cannot be removed: it stays for the next command.
pub fn tidy(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    let _lock = match lock::zone(&host.root, zone, Wait::No) {
        Err(store::Error::Locked(_)) => return Ok(()),
        other => other?,
    };
    // Again, under the lock: it may have booted meanwhile, or gone.
    let index = Index::load(&host.root)?;
    let Some(entry) = index.find(zone) else {
        return Ok(());
    };
    match state(host, entry)? {
        (_, None) if has_remains(host, zone) => settle(host, zone),
        _ => Ok(()),
    }
}

/// Removes control groups of a zone that is not active, and kills the processes in them.
///
/// # Errors
/// When something cannot be removed.
pub fn clear(cgroups: &ZoneCgroups) -> Result<(), Error> {
    if !cgroups.exist() {
        return Ok(());
    }
    let failed = [cgroups.kill(), cgroups.remove()];
    let failed: Vec<String> = failed
        .into_iter()
        .filter_map(Result::err)
        .map(|error| host::flatten(&error))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::Daemon(failed.join("; ")))
}

/// Timeout for writing out the root of a halted zone.
const WRITE_OUT_TIMEOUT: Duration = Duration::from_secs(60);

/// Takes the lock of a zone and reads its entry under it.
///
/// # Errors
/// No such zone (which leaves no lock file), or the lock is held.
pub fn lock_known(
    host: &Host,
    zone: &ZoneName,
    wait: Wait,
) -> Result<(ZoneLock, Entry, Arc<Index>), Error> {
    let held = match wait {
        Wait::Yes if !host.plan_only => lock::zone(&host.root, zone, wait)?,
        _ => lock_now(host, zone)?,
    };
    with_entry(host, zone, held)
}

/// Reads the entry of a zone whose lock is held.
fn with_entry(
    host: &Host,
    zone: &ZoneName,
    held: ZoneLock,
) -> Result<(ZoneLock, Entry, Arc<Index>), Error> {
    let index = host.index.load(&host.root)?;
    match index.get(zone).cloned() {
        Ok(entry) => {
            // Before anything is changed, the state in the index too.
            storage::must_be_known(&host.root.path(&entry.zonepath))?;
            Ok((held, entry, index))
        }
        Err(error) => {
            lock::forget(&host.root, zone, &held)?;
            Err(error.into())
        }
    }
}

/// Time for which a held lock is tried again when its holder does not end soon.
const LOCK_RETRY_TIME: Duration = Duration::from_secs(1);

/// Interval between looks at the holder of a lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Takes the lock of a zone. A zoneadmd that holds it is waited for; another command
/// only for a [`LOCK_RETRY_TIME`].
fn lock_now(host: &Host, zone: &ZoneName) -> Result<ZoneLock, Error> {
    lock_cutting(host, zone, Cuts::Nothing).map(|(lock, _)| lock)
}

/// Work under the lock that a command cuts short instead of waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cuts {
    /// It waits for everything.
    Nothing,
    /// The pause before a zone that rebooted itself boots again.
    Reboots,
    /// That, and a shutdown.
    Shutdowns,
}

/// Timeout for a command that was killed to release its lock.
const LOCK_RELEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// [`lock_now`], which also returns whether the work of the former lock holder was interrupted.
fn lock_cutting(host: &Host, zone: &ZoneName, cuts: Cuts) -> Result<(ZoneLock, bool), Error> {
    let end = Instant::now() + WRITE_OUT_TIMEOUT;
    let mut patience = Instant::now() + LOCK_RETRY_TIME;
    let mut was_cut = false;
    // Such work can begin while we wait; each look is a connection that a busy
    // zoneadmd has to keep, so there are few.
    let (mut look, mut pause) = (Instant::now(), LOCK_RETRY_TIME);
    loop {
        let taken = match host.plan_only {
            true => lock::zone_for_plan(&host.root, zone, LOCK_POLL_INTERVAL),
            false => lock::zone_within(&host.root, zone, LOCK_POLL_INTERVAL),
        };
        let busy = match taken {
            Err(busy @ store::Error::Locked(_)) => busy,
            other => return Ok((other?, was_cut)),
        };
        let now = Instant::now();
        if cuts != Cuts::Nothing && now >= look {
            if control::client::cancel(&host.root, zone, cuts == Cuts::Shutdowns) {
                was_cut = true;
                patience = Instant::now() + LOCK_RELEASE_TIMEOUT;
            }
            (look, pause) = (Instant::now() + pause, pause * 2);
            continue;
        }
        if zoneadmd_is_busy(host, zone)? {
            patience = patience.max(now + LOCK_RETRY_TIME);
        }
        if now >= patience.min(end) {
            return Err(busy.into());
        }
    }
}

/// Returns whether a zoneadmd is building the zone's platform or is at its end: it then holds the
/// zone's lock, or will let go of it before it lets go of the root's.
fn zoneadmd_is_busy(host: &Host, zone: &ZoneName) -> Result<bool, Error> {
    Ok(match runtime::load_any(&host.root, zone)? {
        Some(known) => is_ending(Some(&known)),
        None => lock::is_held(&host.root.root_lock(zone))?,
    })
}

/// Returns whether a zone has ended and its zoneadmd is taking the platform down.
fn is_ending(runtime: Option<&Runtime>) -> bool {
    runtime.is_some_and(|runtime| !runtime.init.is_alive())
}

/// Timeout for the first process of a zone to end after a zoneadmd that died before init was
/// started.
const INIT_END_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns whether the zoneadmd of a machine died while it resumed the machine.
fn was_resuming(runtime: &Runtime) -> bool {
    runtime.auxiliary == RESUMING && !runtime.daemon.is_alive()
}

/// The state of a zone in the index, and its state in the kernel.
///
/// # Errors
/// When its state file is damaged.
pub fn state(host: &Host, entry: &Entry) -> Result<(State, Option<Runtime>), Error> {
    let mut found = runtime::load_any(&host.root, &entry.name)?;
    if found.as_ref().is_some_and(was_resuming) {
        // The last state that zoneadmd has written: zoneadmd may have ended meanwhile.
        found = runtime::load_any(&host.root, &entry.name)?;
    }
    // A machine that was being resumed when its zoneadmd died never ran. It is cleaned up like a
    // machine that died, and the next boot resumes it from its image, which is complete.
    if let Some(mut runtime) = found.filter(|runtime| !was_resuming(runtime)) {
        if runtime.state == State::Ready && !runtime.daemon.is_alive() {
            // If zoneadmd has died, a first process that does not run init yet is killed by the
            // kernel or exits by itself. One that executes init at this moment stays.
            let deadline = Instant::now() + INIT_END_TIMEOUT;
            while runtime.init.is_copy() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            runtime.state = State::Running;
        }
        if runtime.init.is_alive() {
            return Ok((runtime.state, Some(runtime)));
        }
        if runtime.daemon.is_alive() {
            return Ok((State::ShuttingDown, Some(runtime)));
        }
    }
    let zonepath = host.root.path(&entry.zonepath);
    let state = match entry.state {
        State::Installed if is_mount(&zonepath.join(SHOWN)) => State::Mounted,
        // Clone stores a zone only when it is whole: a root with this mark is half a zone. A root
        // without a mark is whole; another host may have installed it, and it may be the only one:
        // no message must advise to remove it.
        State::Configured
            if zonepath.join(storage::ROOT).exists()
                && (zonepath.join(UNFINISHED).exists() || zonepath.join(UNPACKING).exists()) =>
        {
            State::Incomplete
        }
        stored => stored,
    };
    Ok((state, None))
}

/// Returns true for the root of a configured zone that this host neither detached nor began to
/// make: one that another host installed on storage which is mounted here now, or that an
/// administrator put there by hand.
fn has_unknown_root(entry: &Entry, zonepath: &Path) -> bool {
    entry.state == State::Configured
        && zonepath.join(storage::ROOT).exists()
        && [UNFINISHED, UNPACKING, DETACHED]
            .iter()
            .all(|mark| !zonepath.join(mark).exists())
}

/// Refuses a verb that needs an installed zone, or would write over its root, where the root
/// is one that this host does not know.
fn refuse_unknown_root(
    verb: Verb,
    state: State,
    entry: &Entry,
    zonepath: &Path,
) -> Result<(), Error> {
    let concerned = matches!(verb, Verb::Install | Verb::Clone)
        || matches!(verb.admission(state), Admission::Refuse(_));
    if state != State::Configured || !concerned || !has_unknown_root(entry, zonepath) {
        return Ok(());
    }
    let by = identity::read(zonepath)
        .host
        .map(|name| format!(" (host {name} used it last)"));
    Err(Error::Root(format!(
        "{}/root is there, but was not detached on this host{}: 'zoneadm -z {} attach -F' takes it as it is; do that only when no other host runs the zone.",
        entry.zonepath.display(),
        by.unwrap_or_default(),
        entry.name
    )))
}

/// Returns true when nothing of an installed zone is in its zonepath: the file system with it is
/// not mounted, or an administrator removed it by hand.
pub fn lacks_root(zonepath: &Path) -> bool {
    let is_missing = |name: &str| {
        let found = zonepath.join(name).symlink_metadata();
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    // Also in the midst of a seal or a rollback one of these is there.
    [
        storage::ROOT,
        storage::LINK,
        "root.new",
        "zfs",
        "vol",
        "back",
    ]
    .iter()
    .all(|name| is_missing(name))
}

/// Refuses a verb that needs the root of an installed zone where there is none: a zone whose
/// storage is not mounted must not be forgotten, nor its mount point be removed.
fn refuse_without_root(verb: Verb, entry: &Entry, zonepath: &Path) -> Result<(), Error> {
    let needs_none = matches!(
        verb,
        Verb::Detach | Verb::Mark | Verb::Rctl | Verb::Links | Verb::Verify
    );
    let goes_on = matches!(verb.admission(State::Installed), Admission::Go);
    if needs_none || !goes_on || !lacks_root(zonepath) {
        return Ok(());
    }
    Err(Error::Root(no_root(entry)))
}

/// Refuses a verb that uses, changes or removes the root of a zone that another host has
/// attached since: both may have its file system mounted.
fn refuse_root_of_other(verb: Verb, state: State, entry: &Entry, owner: &str) -> Result<(), Error> {
    let uses = match state {
        // A zone that runs can be ended, and is not started again.
        _ if state.is_active() => verb == Verb::Reboot,
        State::Installed | State::Incomplete => !matches!(
            verb,
            Verb::Detach | Verb::Halt | Verb::Rctl | Verb::Links | Verb::Verify
        ),
        _ => false,
    };
    match uses {
        true => Err(Error::Root(root_of_other(entry, owner))),
        false => Ok(()),
    }
}

/// Returns the text about a zonepath that belongs to another host.
pub fn root_of_other(entry: &Entry, owner: &str) -> String {
    let (zone, path) = (&entry.name, entry.zonepath.display());
    format!(
        "{path} belongs to host {owner}, which attached the zone after this host did: 'zoneadm -z {zone} detach -F' forgets the zone here, 'zoneadm -z {zone} attach -F' takes it back; do that only when no other host runs the zone."
    )
}

/// Returns the refusal for a zone whose root folder is missing, with the ways on.
pub fn no_root(entry: &Entry) -> String {
    let (zone, path) = (&entry.name, entry.zonepath.display());
    format!(
        "{path}/root: no such directory: mount the file system of the zonepath; if the zone is another host's now: 'zoneadm -z {zone} detach -F'; if its root is lost: 'zoneadm -z {zone} mark incomplete', then uninstall it."
    )
}

/// Returns the folders in which the layers of a zone may lie: beside its zonepath, or in it where
/// the zonepath is a file system.
pub fn layer_folders(zonepath: &Path) -> [PathBuf; 2] {
    [zonepath.with_file_name(".layers"), zonepath.join(".layers")]
}

/// Returns whether a mount begins at the path.
pub fn is_mount(path: &std::path::Path) -> bool {
    // STATX_ATTR_MOUNT_ROOT of statx(2).
    const MOUNT_ROOT: u64 = 0x2000;
    statx(
        CWD,
        path,
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
        StatxFlags::empty(),
    )
    .is_ok_and(|stat| stat.stx_attributes.bits() & MOUNT_ROOT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_removes_a_zonepath_whose_zone_moved_away() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(store::Root::new(dir.path()), "/none".into(), None);
        let zone: ZoneName = "web".parse().unwrap();
        let entry = Entry::configured(zone.clone(), "/zones/web".into());
        zone::executor::record_now(&host, entry.clone()).unwrap();
        let zonepath = dir.path().join("zones/web");
        std::fs::create_dir_all(zonepath.join("root")).unwrap();
        away::leave(&zonepath, "1f2e", "two").unwrap();
        assert!(!forget_gone(&host, &zone).unwrap());
        assert!(away::is_away(&zonepath));
        std::fs::remove_dir(zonepath.join("root")).unwrap();
        let half = Entry {
            state: State::Incomplete,
            ..entry.clone()
        };
        zone::executor::record_now(&host, half).unwrap();
        assert!(!forget_gone(&host, &zone).unwrap());
        zone::executor::record_now(&host, entry).unwrap();
        assert!(forget_gone(&host, &zone).unwrap());
        assert!(!zonepath.exists());
        assert!(!forget_gone(&host, &zone).unwrap());
        // Whatever comes next begins with it, too.
        std::fs::create_dir(&zonepath).unwrap();
        away::leave(&zonepath, "1f2e", "two").unwrap();
        let _ = Subject::admit(&host, &zone, Verb::Install).unwrap();
        assert!(!away::is_away(&zonepath));
    }
}
