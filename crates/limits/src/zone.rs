//! Makes, kills and removes the control groups of one zone.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::ZoneName;
use model::controls::Controls;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use crate::groups::{FOLDER, ZoneCgroups, is_gone, make_and, make_v1, move_into, processes};
use crate::{Base, Error, arrange, balance, controllers, groups, shares};

/// Timeout of halt for killed processes to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Group names inside `<base>/<zone>` of the v2 tree.
const PAYLOAD: &str = "zone";
const LOGIN: &str = "login";

/// Maximum depth of the groups that a zone makes: enough for an init that gives every service a
/// group, and for zones or containers inside the zone.
const MAX_DEPTH: &str = "16";
const MAX_GROUPS: &str = "10000";

/// Files of a v2 group that a user needs to delegate it (cgroups(7), delegation).
const DELEGATED: [&str; 3] = ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"];

impl ZoneCgroups {
    /// Returns the paths of all groups that a zone may have below a base. Makes no group.
    #[must_use]
    pub fn of(base: &Base, zone: &ZoneName) -> Self {
        let on_demand = base.v1_on_demand.iter().map(|(_, path)| path);
        Self::below(base, zone, on_demand)
    }

    /// Returns the paths of the groups that a zone with these controls needs.
    #[must_use]
    pub fn for_controls(base: &Base, zone: &ZoneName, controls: &Controls) -> Self {
        Self::below(base, zone, base.needed(controls))
    }

    fn below<'a>(
        base: &'a Base,
        zone: &ZoneName,
        on_demand: impl Iterator<Item = &'a PathBuf>,
    ) -> Self {
        let v1 = base.v1.iter().chain(on_demand);
        Self {
            v2: base.v2.join(zone.as_str()),
            v1: v1.map(|path| path.join(zone.as_str())).collect(),
        }
    }

    /// Returns the groups with these paths, in the order of [`ZoneCgroups::paths`]: the v2 group
    /// first.
    #[must_use]
    pub fn from_paths(paths: &[PathBuf]) -> Option<Self> {
        let (v2, v1) = paths.split_first()?;
        Some(Self {
            v2: v2.clone(),
            v1: v1.to_vec(),
        })
    }

    /// Returns the paths of all groups, the v2 group first.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        [&self.v2].into_iter().chain(&self.v1).cloned().collect()
    }

    /// Returns the processes of the zone.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        processes(&self.v2)
    }

    /// Returns the v2 group whose subtree has all processes of the zone.
    #[must_use]
    pub fn v2(&self) -> &Path {
        &self.v2
    }

    /// Returns true if any of the groups exists.
    #[must_use]
    pub fn exist(&self) -> bool {
        self.v2.exists() || self.v1.iter().any(|path| path.exists())
    }

    /// Makes the groups, and gives the zone's part of the v2 tree to `owner`, the zone's root.
    /// Recreates groups that a crash left. The zone has one CPU share until [`ZoneCgroups::set`]
    /// gives it more.
    ///
    /// # Errors
    /// Fails with [`Error::File`], which names the group.
    pub fn create(&self, owner: u32) -> Result<(), Error> {
        // Linux 6.18 kills each process that is cloned into a group to which cgroup.kill was
        // written before. Therefore old groups are removed first. Groups that cannot be removed are
        // used again.
        if self.exist() && self.pids().is_empty() {
            let _ = self.remove();
        }
        let payload = self.v2.join(PAYLOAD);
        make_and(&payload, |_| Ok(()))?;
        if let Some(base) = self.v2.parent() {
            // A missing controller is reported only to a user who sets one of its controls.
            let _ = controllers::hand_down(base, &controllers::USUAL);
        }
        // The zone may make groups below its own, but not so many that they fill the kernel's
        // memory.
        for (file, limit) in [
            ("cgroup.max.depth", MAX_DEPTH),
            ("cgroup.max.descendants", MAX_GROUPS),
        ] {
            let path = self.v2.join(file);
            fs::write(&path, limit).map_err(Error::file("write", &path))?;
        }
        let bound = self.cpuset();
        for path in self.v1.iter().filter(|path| Some(*path) != bound) {
            make_v1(path)?;
        }
        arrange::admit(self)?;
        shares::begin(self)?;
        balance::rebalance(self)?;
        chown(&payload, Some(owner), Some(owner)).map_err(Error::file("give away", &payload))?;
        for file in DELEGATED {
            let path = payload.join(file);
            chown(&path, Some(owner), Some(owner)).map_err(Error::file("give away", &path))?;
        }
        Ok(())
    }

    /// Lets the zone open these devices and no others.
    ///
    /// # Errors
    /// Fails with [`Error::File`] if the kernel refuses the program.
    pub fn allow_devices(&self, program: &[u64]) -> Result<(), Error> {
        let folder = open_folder(&self.v2)?;
        sys::bpf::attach_device_filter(folder.as_fd(), program)
            .map_err(Error::file("set device rules of", &self.v2))
    }

    /// Changes the devices that a zone may open. At no moment does the zone have other devices than
    /// the old or the new ones. Open files stay open.
    ///
    /// # Errors
    /// See [`ZoneCgroups::allow_devices`].
    pub fn change_devices(&self, program: &[u64]) -> Result<(), Error> {
        let folder = open_folder(&self.v2)?;
        sys::bpf::replace_device_filter(folder.as_fd(), program)
            .map_err(Error::file("change device rules of", &self.v2))
    }

    pub(crate) fn open_v2(&self) -> Result<OwnedFd, Error> {
        open_folder(&self.v2)
    }

    /// Returns the group in which to start the zone's init (CLONE_INTO_CGROUP).
    ///
    /// # Errors
    /// Fails with [`Error::File`].
    pub fn open_payload(&self) -> Result<OwnedFd, Error> {
        open_folder(&self.v2.join(PAYLOAD))
    }

    /// Returns the group in which to start processes that enter a running zone. This group is not
    /// the group of init: once init delegates its group, no process may be at the top of that
    /// group.
    ///
    /// # Errors
    /// Fails with [`Error::File`].
    pub fn open_login(&self) -> Result<OwnedFd, Error> {
        let login = self.v2.join(LOGIN);
        // The groups above are not made: the zone may be ending, and its groups must not be
        // recreated.
        match fs::create_dir(&login) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(Error::file("make", &login)(error))
            }
            _ => open_folder(&login),
        }
    }

    /// Returns the group in which to start a process that enters a running zone. The zone sees this
    /// group, because programs look for their own group. The group belongs to `owner`, the zone's
    /// root. If the zone has made the group unusable, the function returns the group of
    /// [`ZoneCgroups::open_login`], so that the zone cannot lock anybody out.
    ///
    /// # Errors
    /// Fails with [`Error::File`].
    pub fn open_entry(&self, owner: u32) -> Result<OwnedFd, Error> {
        let entry = self.v2.join(PAYLOAD).join(LOGIN);
        match fs::create_dir(&entry) {
            // The cgroup file system has no symbolic links and only names of the kernel, so the
            // zone cannot redirect this path.
            Ok(()) => {
                let _ = chown(&entry, Some(owner), Some(owner));
                for file in DELEGATED {
                    let _ = chown(entry.join(file), Some(owner), Some(owner));
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(_) => return self.open_login(),
        }
        let says = |file: &str, word: &str| {
            fs::read_to_string(entry.join(file)).is_ok_and(|text| text.trim_end() == word)
        };
        match says("cgroup.type", "domain") && says("cgroup.freeze", "0") {
            true => open_folder(&entry).or_else(|_| self.open_login()),
            false => self.open_login(),
        }
    }

    /// Moves the calling process to the v2 group for processes that enter a running zone.
    /// [`take_into`] moves it back.
    ///
    /// # Errors
    /// Fails with [`Error::File`].
    pub fn take_in(&self) -> Result<(), Error> {
        drop(self.open_login()?);
        take_into(&self.v2.join(LOGIN))
    }

    /// Opens the files to which a process of the zone writes "0" to enter the v1 groups.
    ///
    /// A write of 0 to `tasks` moves a process of one thread without the lock that every other move
    /// takes. This lock costs 4 to 11 ms on an idle host.
    ///
    /// Call [`ZoneCgroups::follow`] when the process is in the v2 group.
    ///
    /// # Errors
    /// Fails with [`Error::File`].
    pub fn open_v1_tasks(&self) -> Result<Vec<OwnedFd>, Error> {
        let there = self.v1.iter().filter(|path| is_made(path));
        there.map(|path| open_tasks(path)).collect()
    }

    /// Returns the v1 group that only binds the zone to CPUs. The group may not exist.
    pub(crate) fn cpuset(&self) -> Option<&PathBuf> {
        // The groups that not every zone has are the last ones.
        self.v1.iter().rev().find(|path| groups::is_cpuset(path))
    }

    /// Makes sure that the zone is in all of its v1 groups. While a process entered the zone,
    /// another zone may have claimed CPUs, and this zone then got a group without those CPUs.
    /// `opened` is the number of files that [`ZoneCgroups::open_v1_tasks`] returned.
    ///
    /// # Errors
    /// Fails with [`Error::File`].
    pub fn follow(&self, opened: usize) -> Result<(), Error> {
        if self.v1.iter().filter(|path| path.exists()).count() <= opened {
            return Ok(());
        }
        match self.cpuset() {
            Some(path) => move_into(path, &self.v2),
            None => Ok(()),
        }
    }

    /// Kills every process of the zone. [`ZoneCgroups::remove`] waits until the processes are gone.
    ///
    /// # Errors
    /// Fails with [`Error::File`]. Missing groups are not an error.
    pub fn kill(&self) -> Result<(), Error> {
        write_if_there(&self.v2.join("cgroup.kill"), "1")
    }

    /// Freezes or thaws every process of the zone.
    ///
    /// # Errors
    /// Fails with [`Error::File`].
    pub fn freeze(&self, frozen: bool) -> Result<(), Error> {
        write_if_there(
            &self.v2.join("cgroup.freeze"),
            if frozen { "1" } else { "0" },
        )
    }

    /// Returns true if [`ZoneCgroups::freeze`] has frozen the groups and nobody has thawed them since,
    /// or if the groups are gone.
    ///
    /// # Errors
    /// Fails with [`Error::File`].
    pub fn is_frozen(&self) -> Result<bool, Error> {
        let path = self.v2.join("cgroup.freeze");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim() == "1"),
            Err(error) if is_gone(&error) => Ok(true),
            Err(error) => Err(Error::file("read", &path)(error)),
        }
    }

    /// Waits until no process is left, and removes the groups, with all groups that the zone made
    /// below them. Continues after errors and returns the first error.
    ///
    /// # Errors
    /// Fails with [`Error::StillPopulated`] or [`Error::File`].
    pub fn remove(&self) -> Result<(), Error> {
        let has_cpus = arrange::claimed(&self.v2).is_some();
        let mut result = wait_empty(&self.v2);
        for path in [&self.v2].into_iter().chain(&self.v1) {
            let removed = remove_tree(path);
            result = result.and(removed);
        }
        if has_cpus {
            result = result.and(arrange::release(self));
        }
        result.and(balance::rebalance(self))
    }
}

/// Moves the calling process, with all its threads, into a v2 group.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn take_into(group: &Path) -> Result<(), Error> {
    let path = group.join("cgroup.procs");
    fs::write(&path, "0").map_err(Error::file("write", &path))
}

/// Opens the file to which a process of one thread writes "0" to enter a v1 group. Makes the group
/// if it is missing.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn open_shared_tasks(path: &Path) -> Result<OwnedFd, Error> {
    make_and(path, open_tasks)
}

/// Opens the v2 group of all zoneadmd processes. Makes the group if it is missing.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn open_daemons(base: &Base) -> Result<OwnedFd, Error> {
    open_group(&base.daemons())
}

/// Opens a v2 group. Makes the group if it is missing.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn open_group(path: &Path) -> Result<OwnedFd, Error> {
    make_and(path, open_folder)
}

/// Kills all processes in a v2 group that belongs to no zone, waits until they are gone, and removes
/// the group. A missing group is not an error.
///
/// # Errors
/// Fails with [`Error::StillPopulated`] or [`Error::File`].
pub fn end_group(path: &Path) -> Result<(), Error> {
    write_if_there(&path.join("cgroup.kill"), "1")?;
    wait_empty(path)?;
    remove_tree(path)
}

fn open_tasks(group: &Path) -> Result<OwnedFd, Error> {
    let path = group.join("tasks");
    openat(CWD, &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::file("open", &path)(errno.into()))
}

/// Returns true if a v1 group exists or must exist. Only a cpuset group, which binds the zone to
/// CPUs, may be missing.
fn is_made(path: &Path) -> bool {
    path.exists() || !groups::is_cpuset(path)
}

fn open_folder(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(|errno| Error::file("open", path)(errno.into()))
}

fn write_if_there(path: &Path, text: &str) -> Result<(), Error> {
    match fs::write(path, text) {
        Err(error) if !is_gone(&error) => Err(Error::file("write", path)(error)),
        _ => Ok(()),
    }
}

/// Waits until the kernel reports that the group's subtree has no live process.
fn wait_empty(group: &Path) -> Result<(), Error> {
    let path = group.join("cgroup.events");
    let events = match fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::file("open", &path)(error)),
    };
    let deadline = Instant::now() + KILL_TIMEOUT;
    loop {
        let mut text = [0; 256];
        let length = match rustix::io::pread(&events, &mut text, 0) {
            // Another command removed the group, so it was empty.
            Err(Errno::NODEV) => return Ok(()),
            other => other.map_err(|errno| Error::file("read", &path)(errno.into()))?,
        };
        if !String::from_utf8_lossy(&text[..length]).contains("populated 1") {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::StillPopulated {
                path: group.to_owned(),
                seconds: KILL_TIMEOUT.as_secs(),
            });
        }
        let left = rustix::time::Timespec::try_from(left).ok();
        let mut watched = [PollFd::new(&events, PollFlags::PRI)];
        match poll(&mut watched, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::file("watch", &path)(errno.into())),
        }
    }
}

/// Removes a group and all groups below it. Waits only for killed processes, which may take a
/// moment to leave a v1 group.
fn remove_tree(path: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    loop {
        match remove_tree_once(path) {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                if Instant::now() > deadline {
                    return Err(Error::StillPopulated {
                        path: path.to_owned(),
                        seconds: KILL_TIMEOUT.as_secs(),
                    });
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::file("remove", path)(error)),
            Ok(()) => return Ok(()),
        }
    }
}

fn remove_tree_once(path: &Path) -> io::Result<()> {
    // Most groups have no groups below them, so a single rmdir(2) is tried first.
    match fs::remove_dir(path) {
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
        other => return other,
    }
    let folder = rustix::fs::open(path, FOLDER, Mode::empty())?;
    remove_below(&folder)?;
    fs::remove_dir(path)
}

/// Removes the groups below an open one. The zone chose the names, and a path may be longer than
/// the kernel allows, so every group is opened relative to its parent. [`MAX_DEPTH`] limits the
/// depth.
fn remove_below(folder: &OwnedFd) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type() != FileType::Directory || matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::BUSY) => {
                remove_below(&openat(folder, name, FOLDER, Mode::empty())?)?;
                unlinkat(folder, name, AtFlags::REMOVEDIR)?;
            }
            other => other?,
        }
    }
    Ok(())
}
