//! The zone that a verb acts on: its place in the index, its state, its lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use limits::ZoneCgroups;
use model::verb::Admission;
use model::{Config, State, Verb, ZoneName};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use store::index::{Entry, Index};
use store::lock::{self, Wait, ZoneLock};
use store::runtime::{self, Runtime};
use store::xml;

use crate::network::Records;
use crate::{Error, Host, daemon, platform};

/// Folder of the zonepath where `mount` shows the root.
pub const SHOWN: &str = "lu";

/// Left in the zonepath of a detached zone.
pub(crate) use store::xml::manifest::DETACHED;

/// Left in the zonepath of a zone that was attached without a check.
pub(crate) const FORCED: &str = "SUNWattached.xml";

/// Stands in the zonepath of a clone from its first step until it is stored.
pub(crate) const UNFINISHED: &str = ".unfinished-clone";

/// Stands in the zonepath while what comes from outside is unpacked into the root.
pub(crate) const UNPACKING: &str = ".unfinished-root";

/// A zone, locked against other commands.
#[derive(Debug)]
pub struct Subject {
    /// What the index has of it.
    pub entry: Entry,
    /// Its state now.
    pub state: State,
    /// What the kernel holds of it, when it is active.
    pub runtime: Option<Runtime>,
    /// Where the zonepath really lies.
    pub zonepath: PathBuf,
    /// Half a clone that died lies there, which a new one clears away.
    pub(crate) unfinished: bool,
    /// All zones, as they were when the lock was taken.
    pub(crate) index: Arc<Index>,
    lock: ZoneLock,
}

/// How a verb may begin.
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
        let (lock, entry, index) = lock_known(host, zone, Wait::No)?;
        Self::start(host, verb, lock, entry, index)
    }

    /// [`Subject::admit`], but a zone that is not in the index is made by `configure`,
    /// which stores its configuration and returns the entry; the caller stores that. A
    /// zone that is installed has what was asked for, so that a command that was cut off
    /// can be given again.
    ///
    /// # Errors
    /// See [`Subject::admit`], and what `configure` returns.
    pub fn admit_new(
        host: &Host,
        zone: &ZoneName,
        verb: Verb,
        configure: impl FnOnce() -> Result<Entry, Error>,
    ) -> Result<Start, Error> {
        let lock = lock_now(host, zone)?;
        let index = host.index.load(&host.root)?;
        let entry = match index.find(zone) {
            Some(entry) => match self::state(host, entry)?.0 {
                State::Configured | State::Incomplete => entry.clone(),
                _ => return Ok(Start::Already("is already installed.")),
            },
            None => configure()?,
        };
        Self::start(host, verb, lock, entry, index)
    }

    /// The zone of `verb` whose root lies in the zonepath though the index knows of none,
    /// as after it was put there by hand; nothing when that is not so.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub(crate) fn admit_forced(
        host: &Host,
        zone: &ZoneName,
        verb: Verb,
    ) -> Result<Option<Self>, Error> {
        let (lock, entry, index) = lock_known(host, zone, Wait::No)?;
        let zonepath = host.root.path(&entry.zonepath);
        let found = self::state(host, &entry)?.0 == State::Incomplete
            && entry.state == State::Configured
            && !zonepath.join(UNFINISHED).exists();
        debug_assert!(verb == Verb::Attach, "no other verb takes such a zone");
        Ok(found.then(|| Self::still(State::Configured, zonepath, entry, index, lock)))
    }

    /// A configured zone that a migration is received into; also when an earlier one that
    /// was cut off has left a root in its zonepath, which `is_half` knows.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub(crate) fn admit_incoming(
        host: &Host,
        zone: &ZoneName,
        is_half: impl Fn(&Path) -> bool,
    ) -> Result<Self, Error> {
        let (lock, entry, index) = lock_known(host, zone, Wait::No)?;
        let zonepath = host.root.path(&entry.zonepath);
        if entry.state == State::Incomplete && is_half(&zonepath) {
            // A machine may wait there that nobody brings.
            settle(host, zone)?;
        }
        match self::state(host, &entry)?.0 {
            State::Configured => {}
            State::Incomplete if is_half(&zonepath) => {}
            state => match Verb::Attach.admission(state) {
                Admission::Refuse(text) => return Err(Error::Refused(text)),
                _ => return Err(Error::Refused(format!("is {state}."))),
            },
        }
        Ok(Self::still(State::Configured, zonepath, entry, index, lock))
    }

    /// A zone that was being removed here because it is another host's, which was cut off.
    ///
    /// # Errors
    /// See [`Subject::admit`].
    pub(crate) fn admit_leaving(
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

    fn start(
        host: &Host,
        verb: Verb,
        lock: ZoneLock,
        entry: Entry,
        index: Arc<Index>,
    ) -> Result<Start, Error> {
        let (mut state, mut runtime) = self::state(host, &entry)?;
        // Also what died together with its zoneadmd: it may hold links of the host's.
        if is_ending(runtime.as_ref()) || runtime.is_none() && has_remains(host, &entry.name) {
            settle(host, &entry.name)?;
            (state, runtime) = self::state(host, &entry)?;
        }
        let zonepath = host.root.path(&entry.zonepath);
        // Never stored, so never booted: nothing of anybody's can be in it.
        let unfinished = verb == Verb::Clone
            && entry.state == State::Configured
            && matches!(state, State::Configured | State::Incomplete)
            && zonepath.join(UNFINISHED).exists();
        if unfinished {
            state = State::Configured;
        }
        match verb.admission(state) {
            Admission::Already(notice) => Ok(Start::Already(notice)),
            Admission::Refuse(text) => Err(Error::Refused(text)),
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
    pub(crate) const fn lock(&self) -> &ZoneLock {
        &self.lock
    }

    /// Keeps the lock and nothing else.
    pub(crate) fn into_lock(self) -> ZoneLock {
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

/// Makes sure that nothing is left of a zone that is not active: what died without
/// its zoneadmd is cleared away, and a zoneadmd that still closes the zone's root is
/// waited for. The zone's lock is held.
///
/// # Errors
/// When something cannot be removed, or the root stays open for [`CLOSING`].
pub(crate) fn settle(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    if let Some(known) = runtime::load_any(&host.root, zone)? {
        // Its zoneadmd may be alive and waiting for our lock.
        if let Some(socket) = daemon::client::connect_to(&host.root, zone)? {
            daemon::client::ask(&socket, &daemon::protocol::Request::Halt)?;
        }
        if let Some(cgroups) = ZoneCgroups::from_paths(&known.cgroups) {
            clear(&cgroups)?;
        }
        runtime::forget(&host.root, zone)?;
    }
    Records::of(&host.root)
        .release(zone)
        .map_err(Error::Daemon)?;
    let path = host.root.root_lock(zone);
    // A zone that never ran has none.
    if path.exists() && lock::exclusive_within(&path, CLOSING)?.is_none() {
        return Err(Error::Refused(format!(
            "its zoneadmd is still writing its file system out after {} s; try again.",
            CLOSING.as_secs()
        )));
    }
    Ok(())
}

/// Whether something is there that a zone has only while it is active. Of a zone that
/// is not, this is what a zoneadmd left that was killed.
pub(crate) fn has_remains(host: &Host, zone: &ZoneName) -> bool {
    host.root.runtime(zone).exists() || Records::of(&host.root).has(zone)
}

/// Clears away what is left of a zone that died together with its zoneadmd, for a
/// command that only looks. Not while another command has the zone, which clears it
/// away itself.
///
/// # Errors
/// When something cannot be removed: it stays for the next command.
pub(crate) fn tidy(host: &Host, zone: &ZoneName) -> Result<(), Error> {
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

/// Removes control groups of a zone that is not active, and what is left in them.
///
/// # Errors
/// When something cannot be removed.
pub(crate) fn clear(cgroups: &ZoneCgroups) -> Result<(), Error> {
    if !cgroups.exist() {
        return Ok(());
    }
    platform::take_down(cgroups, None).map_err(|error| Error::Daemon(crate::flatten(&error)))
}

/// How long the root of a halted zone may take to be written out.
const CLOSING: Duration = Duration::from_secs(60);

/// Takes the lock of a zone and reads its entry under it.
///
/// # Errors
/// No such zone (which leaves no lock file), or the lock is held.
pub(crate) fn lock_known(
    host: &Host,
    zone: &ZoneName,
    wait: Wait,
) -> Result<(ZoneLock, Entry, Arc<Index>), Error> {
    let held = match wait {
        Wait::No => lock_now(host, zone)?,
        Wait::Yes => lock::zone(&host.root, zone, wait)?,
    };
    let index = host.index.load(&host.root)?;
    match index.get(zone).cloned() {
        Ok(entry) => Ok((held, entry, index)),
        Err(error) => {
            lock::forget(&host.root, zone, &held)?;
            Err(error.into())
        }
    }
}

/// How long a lock that is held is tried again when nothing says that it will be free.
const MOMENT: Duration = Duration::from_secs(1);

/// How often to look who holds a lock.
const LOOK: Duration = Duration::from_millis(20);

/// Takes the lock of a zone. A zoneadmd that holds it is waited for; another command
/// only for a [`MOMENT`].
fn lock_now(host: &Host, zone: &ZoneName) -> Result<ZoneLock, Error> {
    let end = Instant::now() + CLOSING;
    let mut patience = Instant::now() + MOMENT;
    loop {
        match lock::zone_within(&host.root, zone, LOOK) {
            Err(store::Error::Locked(_)) => {}
            other => return Ok(other?),
        }
        let now = Instant::now();
        if zoneadmd_is_busy(host, zone)? {
            patience = now + MOMENT;
        }
        if now >= patience.min(end) {
            return Err(store::Error::Locked(zone.clone()).into());
        }
    }
}

/// Whether a zoneadmd is building the zone's platform or is at its end: it then holds
/// the zone's lock, or will let go of it before it lets go of the root's.
fn zoneadmd_is_busy(host: &Host, zone: &ZoneName) -> Result<bool, Error> {
    Ok(match runtime::load_any(&host.root, zone)? {
        Some(known) => is_ending(Some(&known)),
        None => lock::is_held(&host.root.root_lock(zone))?,
    })
}

/// Whether a zone has ended and its zoneadmd is taking the platform down.
fn is_ending(runtime: Option<&Runtime>) -> bool {
    runtime.is_some_and(|runtime| !runtime.init.is_alive())
}

/// How long the first process of a zone may take to end after a zoneadmd that died
/// before init was started.
const DYING: Duration = Duration::from_secs(30);

/// The state of a zone of the index, and what the kernel holds of it.
///
/// # Errors
/// When its state file is damaged.
pub fn state(host: &Host, entry: &Entry) -> Result<(State, Option<Runtime>), Error> {
    if let Some(mut runtime) = runtime::load_any(&host.root, &entry.name)? {
        if runtime.state == State::Ready && !runtime.daemon.is_alive() {
            // Without its zoneadmd a first process that is not init yet is killed by the
            // kernel or gives up; or it is just becoming init, and stays.
            let deadline = Instant::now() + DYING;
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
        // Clone stores a zone only when it is whole: what lies here without being
        // stored is half a zone.
        State::Configured
            if zonepath.join(storage::ROOT).exists()
                && (!zonepath.join(DETACHED).exists() || zonepath.join(UNPACKING).exists()) =>
        {
            State::Incomplete
        }
        stored => stored,
    };
    Ok((state, None))
}

pub(crate) fn is_mount(path: &std::path::Path) -> bool {
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
