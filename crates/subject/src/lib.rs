//! The zone that a verb acts on: its place in the index, its state, its lock.

pub mod arrived;
pub mod assembled;
pub mod away;
pub mod deletion;
pub mod freeze;
pub mod identity;
pub mod names;
pub mod network;
pub mod pending;
mod presence;
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

/// The folder of the zonepath in which the verb `mount` mounts the zone's root.
pub const SHOWN: &str = "lu";

/// The file that the zonepath of a detached zone holds.
pub use store::xml::manifest::DETACHED;

pub use presence::lacks_root;

/// The file that the zonepath of a zone holds after an attach without a check.
pub const FORCED: &str = "SUNWattached.xml";

/// The mark in the zonepath of a clone from its first step until the clone is complete.
pub const UNFINISHED: &str = ".unfinished-clone";

/// The mark in the zonepath while an archive or stream is unpacked into the root, until the zone is
/// installed.
pub const UNPACKING: &str = ".unfinished-root";

/// A zone, locked against other commands.
#[derive(Debug)]
pub struct Subject {
    /// The entry in the index.
    pub entry: Entry,
    /// The state of the zone when the lock was taken.
    pub state: State,
    /// The runtime state; `None` unless the zone is ready, running or shutting down.
    pub runtime: Option<Runtime>,
    /// The real path of the zonepath.
    pub zonepath: PathBuf,
    /// True if the zonepath holds the remains of an interrupted clone, which a new clone removes.
    pub unfinished: bool,
    /// All zones, as they were when the lock was taken.
    pub index: Arc<Index>,
    lock: ZoneLock,
}

/// The two ways to begin a verb.
#[derive(Debug)]
pub enum Start {
    /// The verb acts on this zone.
    Go(Box<Subject>),
    /// The verb has nothing to do; the text is the notice for the user.
    Already(&'static str),
}

impl Subject {
    /// Takes the zone's lock and checks whether the zone's state permits `verb`.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] and the text of the transition table if the state does not
    /// permit the verb. Fails if there is no such zone, or if another command holds the lock.
    pub fn admit(host: &Host, zone: &ZoneName, verb: Verb) -> Result<Start, Error> {
        Self::admit_cutting(host, zone, verb).map(|(start, _)| start)
    }

    /// As [`Subject::admit`], and cancels an automatic reboot or a shutdown that holds the lock: a
    /// verb that changes the state of the zone does not wait for the boot that follows a reboot,
    /// and `halt` does not wait for a shutdown. Also returns whether one was cancelled.
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
        // The zone has ended by itself, and its zoneadmd waits for this lock to boot the zone
        // again.
        was_cut |= verb == Verb::Halt && is_ending(found.1.as_ref());
        // The zone was down already, and was to boot next.
        let verb = match verb {
            Verb::Shutdown if was_cut => Verb::Halt,
            Verb::Reboot if was_cut => Verb::Boot,
            other => other,
        };
        Ok((Self::start(host, verb, lock, entry, index, found)?, was_cut))
    }

    /// As [`Subject::admit`], with the zone's lock, which the caller holds.
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

    /// As [`Subject::admit`], but for a zone that is not in the index, `configure` stores a
    /// configuration and returns the entry, which the caller stores. An installed zone has the
    /// wanted state already, so that an interrupted command can be repeated.
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

    /// Returns the zone for `verb` if its zonepath holds a root of which the index knows nothing
    /// (copied there by hand), or a root that another host owns; otherwise `None`.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub fn admit_forced(host: &Host, zone: &ZoneName, verb: Verb) -> Result<Option<Self>, Error> {
        let (lock, entry, index) = lock_known(host, zone, Wait::No)?;
        let zonepath = host.root.path(&entry.zonepath);
        // A root that was unpacked only in part can only be unpacked again.
        let state = crate::state(host, &entry)?.0;
        let is_others = matches!(
            state,
            State::Configured | State::Installed | State::Incomplete
        ) && zonepath.join(storage::ROOT).exists()
            && identity::owner_against_attach(&host.root, &zonepath)?.is_some();
        let found = is_others
            || entry.state == State::Configured
                && (has_unknown_root(&entry, &zonepath)
                    || state == State::Incomplete && !zonepath.join(UNFINISHED).exists());
        debug_assert!(verb == Verb::Attach, "no other verb takes such a zone");
        Ok(found.then(|| Self::still(State::Configured, zonepath, entry, index, lock)))
    }

    /// Returns a configured zone that can receive a migration. An earlier migration that was
    /// interrupted may have left a root in the zonepath: `is_half` says whether this is such a
    /// root.
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
            // A virtual machine may still wait for a source that has ended.
            settle(host, zone)?;
        }
        match crate::state(host, &entry)?.0 {
            State::Configured if is_half(&zonepath) => {}
            State::Configured => {
                let known = identity::Known::of(&host.root, &zonepath)?;
                refuse_unknown_root(Verb::Install, State::Configured, &entry, &zonepath, &known)?;
            }
            State::Incomplete if is_half(&zonepath) => {}
            state => match Verb::Attach.admission(state) {
                Admission::Refuse(text) => return Err(Error::State(text)),
                _ => return Err(Error::State(format!("is {state}."))),
            },
        }
        Ok(Self::still(State::Configured, zonepath, entry, index, lock))
    }

    /// Removes the rest of a zone whose removal was interrupted; another host owns the zone.
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

    /// Returns the state of a zone of which the kernel holds nothing.
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

    /// Checks whether the state of a zone, `found` under its lock, permits `verb`.
    fn start(
        host: &Host,
        verb: Verb,
        lock: ZoneLock,
        entry: Entry,
        index: Arc<Index>,
        found: (State, Option<Runtime>),
    ) -> Result<Start, Error> {
        let (mut state, mut runtime) = found;
        // Also the platform of a zone that died together with its zoneadmd: the zone may hold links
        // of the host.
        if is_ending(runtime.as_ref()) || runtime.is_none() && has_remains(host, &entry.name) {
            settle(host, &entry.name)?;
            (state, runtime) = crate::state(host, &entry)?;
        }
        let zonepath = host.root.path(&entry.zonepath);
        let known = identity::Known::of(&host.root, &zonepath)?;
        let owner = known.other_owner();
        if owner.is_none() && !host.plan_only {
            end_of_migration(&entry, &zonepath)?;
            // Files that cannot be removed now are left for the next command: they only take space.
            let _ = storage::tidy(&zonepath);
        }
        // A clone that was never stored never booted, so it holds no data of a user.
        let unfinished = verb == Verb::Clone
            && entry.state == State::Configured
            && matches!(state, State::Configured | State::Incomplete)
            && zonepath.join(UNFINISHED).exists();
        if unfinished {
            state = State::Configured;
        }
        refuse_unknown_root(verb, state, &entry, &zonepath, &known)?;
        let is_attach = verb == Verb::Attach && state == State::Configured;
        let against = match is_attach && zonepath.join(storage::ROOT).exists() {
            true => known.owner_against_attach(&zonepath),
            false => owner.clone().filter(|_| !is_attach),
        };
        if let Some(owner) = against {
            refuse_root_of_other(verb, state, &entry, &owner)?;
        }
        if state == State::Installed && entry.state == State::Installed {
            refuse_without_root(verb, &entry, &zonepath)?;
            let is_ours = owner.is_none() && !lacks_root(&zonepath) && !host.plan_only;
            // Nothing is written to the mount point of storage that is not mounted.
            if is_ours {
                end_of_making(&zonepath);
            }
            if let Some(uuid) = entry.uuid.filter(|uuid| is_ours && !known.is_of(*uuid)) {
                // Without the identity file, an attach on another host gives the zone another uuid.
                let _ = identity::write(&host.root, &entry, &zonepath, uuid);
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

    /// Returns the zone's lock, to pass it on.
    pub const fn lock(&self) -> &ZoneLock {
        &self.lock
    }

    /// Returns the lock and drops the rest.
    pub fn into_lock(self) -> ZoneLock {
        self.lock
    }

    /// Returns the zone's configuration.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn config(&self, host: &Host) -> Result<Config, Error> {
        Ok(xml::load(&host.root, &self.entry.name)?)
    }
}

/// Clears the remains of a zone that is not active: removes the platform of a zone that died
/// together with its zoneadmd, and waits for a zoneadmd that still closes the zone's root. The
/// caller holds the zone's lock. A command that only shows its plan does not call this.
///
/// # Errors
/// Fails if a remaining object cannot be removed, or if the root stays open longer than
/// `WRITE_OUT_TIMEOUT`.
pub fn settle(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    if host.plan_only {
        return Ok(());
    }
    if let Some(known) = runtime::load_any(&host.root, zone)? {
        // Its zoneadmd may be alive and waiting for the lock that the caller holds.
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
    // A zone that never ran has no such file.
    if path.exists() && lock::exclusive_within(&path, WRITE_OUT_TIMEOUT)?.is_none() {
        return Err(Error::Refused(format!(
            "its zoneadmd is still writing its file system out after {} s; try again.",
            WRITE_OUT_TIMEOUT.as_secs()
        )));
    }
    Ok(())
}

/// Completes a migration to another host that was killed after the index had recorded that the zone
/// left this host. Returns whether there was such a migration.
///
/// # Errors
/// Fails if there is no such zone, if another command holds the lock, or if the mark cannot be
/// removed.
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
/// zone. With such a mark, the root would look incomplete after a detach.
fn end_of_making(zonepath: &Path) {
    for mark in [UNFINISHED, UNPACKING] {
        let _ = std::fs::remove_file(zonepath.join(mark));
    }
}

/// Returns whether an object exists that a zone has only while it is active. If the zone is not
/// active, a killed zoneadmd left the object.
pub fn has_remains(host: &Host, zone: &ZoneName) -> bool {
    host.root.runtime(zone).exists() || Records::of(&host.root).has(zone)
}

/// Removes the remains of a zone that died together with its zoneadmd, for a command that only
/// reads. Does nothing while another command holds the zone's lock: that command removes them
/// itself.
///
/// # Errors
/// Fails if an object cannot be removed; the next command tries again.
pub fn tidy(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    let _lock = match lock::zone(&host.root, zone, Wait::No) {
        Err(store::Error::Locked(_)) => return Ok(()),
        other => other?,
    };
    // Read again under the lock: the zone may have booted or disappeared meanwhile.
    let index = Index::load(&host.root)?;
    let Some(entry) = index.find(zone) else {
        return Ok(());
    };
    match state(host, entry)? {
        (_, None) if has_remains(host, zone) => settle(host, zone),
        _ => Ok(()),
    }
}

/// Removes the cgroups of a zone that is not active, and kills the processes in them.
///
/// # Errors
/// Fails if a cgroup cannot be removed.
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

/// Timeout for the kernel to write the root of a halted zone to disk.
const WRITE_OUT_TIMEOUT: Duration = Duration::from_secs(60);

/// Takes the lock of a zone and reads its index entry under the lock.
///
/// # Errors
/// Fails if there is no such zone (no lock file stays then), or if another command holds the lock.
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

/// Reads the index entry of a zone whose lock the caller holds.
fn with_entry(
    host: &Host,
    zone: &ZoneName,
    held: ZoneLock,
) -> Result<(ZoneLock, Entry, Arc<Index>), Error> {
    let mut index = host.index.load(&host.root)?;
    if !host.plan_only && pending::recover(&host.root, zone, &index)? {
        index = host.index.load(&host.root)?;
    }
    match index.get(zone).cloned() {
        Ok(entry) => {
            // Before any change, also before a change of the state in the index.
            storage::must_be_known(&host.root.path(&entry.zonepath))?;
            Ok((held, entry, index))
        }
        Err(error) => {
            lock::forget(&host.root, zone, &held)?;
            Err(error.into())
        }
    }
}

/// Time for which a held lock is tried again, unless its holder is about to end.
const LOCK_RETRY_TIME: Duration = Duration::from_secs(1);

/// Interval between two checks of a lock's holder.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Takes the lock of a zone. Waits for a zoneadmd that holds the lock until it ends, and for
/// another command at most [`LOCK_RETRY_TIME`].
fn lock_now(host: &Host, zone: &ZoneName) -> Result<ZoneLock, Error> {
    lock_cutting(host, zone, Cuts::Nothing).map(|(lock, _)| lock)
}

/// The work of a lock's holder that a command cancels instead of waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cuts {
    /// The command cancels nothing and waits.
    Nothing,
    /// The command cancels the pause before an automatic reboot.
    Reboots,
    /// The command cancels the pause before an automatic reboot, and a shutdown.
    Shutdowns,
}

/// Timeout for a command that was killed to release its lock.
const LOCK_RELEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// As [`lock_now`], and returns whether the work of the former lock holder was cancelled.
fn lock_cutting(host: &Host, zone: &ZoneName, cuts: Cuts) -> Result<(ZoneLock, bool), Error> {
    let end = Instant::now() + WRITE_OUT_TIMEOUT;
    let mut patience = Instant::now() + LOCK_RETRY_TIME;
    let mut was_cut = false;
    // Such work can begin while this command waits. Each check opens a connection to a busy
    // zoneadmd, so the checks are rare.
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

/// Returns whether a zoneadmd is setting up the zone's platform or is about to end. In both cases
/// it holds the zone's lock, or releases this lock before that of the root.
fn zoneadmd_is_busy(host: &Host, zone: &ZoneName) -> Result<bool, Error> {
    Ok(match runtime::load_any(&host.root, zone)? {
        Some(known) => is_ending(Some(&known)),
        None => lock::is_held(&host.root.root_lock(zone))?,
    })
}

/// Waits while a zone that ended by itself is halted or booted again by its zoneadmd, which needs the
/// zone's lock for this. A command that takes the lock first would cancel the boot. Waits at most
/// `within`.
///
/// # Errors
/// Fails if the zone's state file is damaged.
pub fn wait_for_own_reboot(host: &Host, zone: &ZoneName, within: Duration) -> Result<(), Error> {
    let end = Instant::now() + within;
    while Instant::now() < end {
        let has_daemon =
            runtime::load_any(&host.root, zone)?.is_none_or(|known| known.daemon.is_alive());
        if !has_daemon || !zoneadmd_is_busy(host, zone)? {
            break;
        }
        std::thread::sleep(LOCK_POLL_INTERVAL);
    }
    Ok(())
}

/// Returns whether a zone has ended and its zoneadmd is tearing down the platform.
fn is_ending(runtime: Option<&Runtime>) -> bool {
    runtime.is_some_and(|runtime| !runtime.init.is_alive())
}

/// Timeout for the first process of a zone to end if zoneadmd died before it started init.
const INIT_END_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns whether the zoneadmd of a kernel zone died while it resumed the virtual machine.
fn was_resuming(runtime: &Runtime) -> bool {
    runtime.auxiliary == RESUMING && !runtime.daemon.is_alive()
}

/// Returns the state of a zone in the index, and its state in the kernel.
///
/// # Errors
/// Fails if the zone's state file is damaged.
pub fn state(host: &Host, entry: &Entry) -> Result<(State, Option<Runtime>), Error> {
    let mut found = runtime::load_any(&host.root, &entry.name)?;
    if found.as_ref().is_some_and(was_resuming) {
        // The last state that zoneadmd wrote: zoneadmd may have ended meanwhile.
        found = runtime::load_any(&host.root, &entry.name)?;
    }
    // If zoneadmd died while it resumed a virtual machine, the machine never ran. Its remains are
    // removed like those of a machine that died, and the next boot resumes the machine from its
    // image, which is complete.
    if let Some(mut runtime) = found.filter(|runtime| !was_resuming(runtime)) {
        if runtime.state == State::Ready && !runtime.daemon.is_alive() {
            // If zoneadmd has died, the kernel kills a first process that has not executed init
            // yet, or the process exits by itself. A process that executes init at this moment
            // stays.
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
        // Clone stores a zone only when it is complete: a root with this mark is incomplete. A root
        // without the mark is complete; another host may have installed it, and it may be the
        // zone's only root, so no message may advise to remove it.
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
/// install: either another host installed it on storage that is mounted on this host now, or an
/// administrator copied it there by hand.
fn has_unknown_root(entry: &Entry, zonepath: &Path) -> bool {
    entry.state == State::Configured
        && zonepath.join(storage::ROOT).exists()
        && [UNFINISHED, UNPACKING, DETACHED]
            .iter()
            .all(|mark| !zonepath.join(mark).exists())
}

/// Refuses a verb that needs an installed zone, or would overwrite its root, if this host does not
/// know the root.
fn refuse_unknown_root(
    verb: Verb,
    state: State,
    entry: &Entry,
    zonepath: &Path,
    known: &identity::Known,
) -> Result<(), Error> {
    let concerned = matches!(verb, Verb::Install | Verb::Clone)
        || matches!(verb.admission(state), Admission::Refuse(_));
    if state != State::Configured || !concerned || !has_unknown_root(entry, zonepath) {
        return Ok(());
    }
    if let Some(owner) = known.other_owner() {
        return Err(Error::Owner(identity::root_of_other(entry, &owner)));
    }
    let by = known.last_host();
    let by = by.map(|name| format!(" (host {name} used it last)"));
    Err(Error::Root(format!(
        "{}/root is there, but was not detached on this host{}: 'zoneadm -z {} attach -F' takes it as it is; do that only when no other host runs the zone.",
        entry.zonepath.display(),
        by.unwrap_or_default(),
        entry.name
    )))
}

/// Refuses a verb that needs the root of an installed zone if there is no root. If the zone's
/// storage is not mounted, the index must keep the zone, and the mount point must not be removed.
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

/// Refuses a verb that uses, changes or removes the root of a zone that another host has attached
/// since: both hosts may have mounted its file system.
fn refuse_root_of_other(
    verb: Verb,
    state: State,
    entry: &Entry,
    owner: &identity::Owner,
) -> Result<(), Error> {
    let uses = match state {
        // A running zone can be halted, but not started again.
        _ if state.is_active() => verb == Verb::Reboot,
        State::Installed | State::Incomplete => !matches!(
            verb,
            Verb::Detach | Verb::Halt | Verb::Rctl | Verb::Links | Verb::Verify
        ),
        State::Configured => verb == Verb::Attach,
        _ => false,
    };
    match uses {
        true => Err(Error::Owner(identity::root_of_other(entry, owner))),
        false => Ok(()),
    }
}

/// Returns the refusal for a zone whose root folder is missing, with the possible remedies.
pub fn no_root(entry: &Entry) -> String {
    let (zone, path) = (&entry.name, entry.zonepath.display());
    format!(
        "{path}/root: no such directory: mount the file system of the zonepath; if the zone is another host's now: 'zoneadm -z {zone} detach --lost'; if its root is lost: 'zoneadm -z {zone} mark incomplete', then uninstall it."
    )
}

/// Returns the folders that may hold the layers of a zone: the folder of its zonepath, or the
/// zonepath itself if that is a file system.
pub fn layer_folders(zonepath: &Path) -> [PathBuf; 2] {
    [zonepath.with_file_name(".layers"), zonepath.join(".layers")]
}

/// Returns whether the path is a mount point.
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
        // Every later command starts with this call, too.
        std::fs::create_dir(&zonepath).unwrap();
        away::leave(&zonepath, "1f2e", "two").unwrap();
        let _ = Subject::admit(&host, &zone, Verb::Install).unwrap();
        assert!(!away::is_away(&zonepath));
    }
}
