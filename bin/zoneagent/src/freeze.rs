//! Freezes the guest's file systems for a snapshot of its disks, and thaws them.
//!
//! A frozen file system is complete on its disk. The host asks for the freeze, takes the snapshot,
//! and asks for the thaw. If the host never asks, the agent thaws the file systems after
//! [`MAX_FROZEN`].

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sys::mountinfo::Mount;

/// Maximum time for which the file systems stay frozen if the host does not ask for a thaw.
pub const MAX_FROZEN: Duration = Duration::from_secs(10);

/// The operations on file systems. Tests use a list in memory.
pub trait FileSystems: Send + 'static {
    /// A file system that can be frozen.
    type One: Send + 'static;

    /// Returns the mounted file systems of block devices, each one once, in the order of their
    /// mounts.
    fn mounted(&self) -> io::Result<Vec<Self::One>>;

    /// Freezes a file system. Returns false if it cannot be frozen, or is frozen already.
    fn freeze(&self, one: &Self::One) -> io::Result<bool>;

    /// Thaws a file system.
    fn thaw(&self, one: &Self::One) -> io::Result<()>;

    /// Returns the name of a file system for messages.
    fn name(&self, one: &Self::One) -> String;
}

/// The frozen file systems.
struct Frozen<F: FileSystems> {
    system: F,
    /// In the order in which they were frozen.
    all: Vec<F::One>,
    /// The number of freezes, so that a timer ends only its own freeze.
    turn: u64,
}

impl<F: FileSystems> Frozen<F> {
    /// Thaws all file systems, the last frozen one first. Returns the number of thawed ones.
    fn thaw(&mut self) -> usize {
        let mut count = 0;
        while let Some(one) = self.all.pop() {
            // An administrator of the guest may have thawed this file system.
            count += usize::from(self.system.thaw(&one).is_ok());
        }
        count
    }
}

/// Freezes and thaws the file systems of the guest.
pub struct Freezer<F: FileSystems> {
    shared: Arc<(Mutex<Frozen<F>>, Condvar)>,
    limit: Duration,
}

impl<F: FileSystems> Freezer<F> {
    /// Returns a freezer with nothing frozen. It thaws what is frozen longer than `limit`.
    pub fn new(system: F, limit: Duration) -> Self {
        let frozen = Frozen {
            system,
            all: Vec::new(),
            turn: 0,
        };
        Self {
            shared: Arc::new((Mutex::new(frozen), Condvar::new())),
            limit,
        }
    }

    fn frozen(&self) -> MutexGuard<'_, Frozen<F>> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true while file systems are frozen.
    pub fn is_frozen(&self) -> bool {
        !self.frozen().all.is_empty()
    }

    /// Freezes all file systems, the last mounted one first: an image in a file is frozen before
    /// the file system that holds the file. Returns the number of frozen ones.
    ///
    /// # Errors
    /// Fails if file systems are frozen already, or if one cannot be frozen; then none is.
    pub fn freeze(&self) -> Result<usize, String> {
        let mut frozen = self.frozen();
        if !frozen.all.is_empty() {
            return Err("the file systems are frozen already".to_owned());
        }
        let end = Instant::now() + self.limit;
        let mounted = frozen.system.mounted();
        let mut mounted = mounted.map_err(|error| format!("the list of mounts: {error}"))?;
        frozen.turn += 1;
        // The timer starts before the first freeze: a freeze can wait for a slow disk.
        self.start_timer(frozen.turn)
            .map_err(|error| format!("a thread: {error}"))?;
        while let Some(one) = mounted.pop() {
            let why = match frozen.system.freeze(&one) {
                Ok(is_frozen) => {
                    // The timer waits for this function, so the time limit is checked here, too.
                    let late = Instant::now() >= end;
                    let name = late.then(|| frozen.system.name(&one));
                    frozen.all.extend(is_frozen.then_some(one));
                    let Some(name) = name else { continue };
                    let limit = self.limit.as_secs();
                    format!("{name}: the freeze took longer than {limit} s")
                }
                Err(error) => format!("{}: {error}", frozen.system.name(&one)),
            };
            frozen.thaw();
            self.shared.1.notify_all();
            return Err(why);
        }
        Ok(frozen.all.len())
    }

    /// Thaws all file systems. Returns the number of thawed ones, which is 0 if the time limit has
    /// passed before.
    pub fn thaw(&self) -> usize {
        let count = self.frozen().thaw();
        self.shared.1.notify_all();
        count
    }

    fn start_timer(&self, turn: u64) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let end = Instant::now() + self.limit;
        let wait = move || {
            let (frozen, changed) = &*shared;
            let mut frozen = frozen.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                if frozen.turn != turn || frozen.all.is_empty() {
                    return;
                }
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    frozen.thaw();
                    return;
                }
                let waited = changed.wait_timeout(frozen, left);
                frozen = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        };
        std::thread::Builder::new().spawn(wait).map(drop)
    }
}

/// The file systems of this machine.
pub struct Kernel;

/// A mounted file system, held open.
pub struct Mounted {
    folder: File,
    point: PathBuf,
}

impl FileSystems for Kernel {
    type One = Mounted;

    fn mounted(&self) -> io::Result<Vec<Mounted>> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for mount in sys::mountinfo::own()? {
            if !is_on_block_device(&mount) || !seen.insert(mount.device) {
                continue;
            }
            // A mount point that another mount covers opens as the other file system, which is
            // frozen by its own line.
            if let Ok(folder) = File::open(&mount.point) {
                let point = mount.point;
                found.push(Mounted { folder, point });
            }
        }
        Ok(found)
    }

    fn freeze(&self, one: &Mounted) -> io::Result<bool> {
        match sys::freezing::freeze(&one.folder) {
            Ok(()) => Ok(true),
            Err(error) if can_be_left_out(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn thaw(&self, one: &Mounted) -> io::Result<()> {
        sys::freezing::thaw(&one.folder)
    }

    fn name(&self, one: &Mounted) -> String {
        one.point.display().to_string()
    }
}

/// Returns true for the file system of a block device. Its number has the major number of the
/// device, or 0 for a btrfs, whose source is then a device. The source of a root that the kernel
/// itself has mounted, /dev/root, may not exist.
fn is_on_block_device(mount: &Mount) -> bool {
    let meta = || std::fs::metadata(&mount.source);
    let is_block = || meta().is_ok_and(|meta| meta.file_type().is_block_device());
    !mount.device.starts_with("0:") || mount.source.is_absolute() && is_block()
}

/// Returns true for a file system that has no freezing (vfat of a boot partition is rarely written
/// to), or that an administrator has frozen.
fn can_be_left_out(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::ResourceBusy
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Fake {
        /// Each freeze and thaw, in order.
        told: Arc<Mutex<Vec<String>>>,
        fails: Option<&'static str>,
        left_out: Option<&'static str>,
    }

    impl Fake {
        fn tell(&self, text: String) {
            self.told.lock().unwrap().push(text);
        }

        fn told(&self) -> Vec<String> {
            std::mem::take(&mut self.told.lock().unwrap())
        }
    }

    impl FileSystems for Fake {
        type One = &'static str;

        fn mounted(&self) -> io::Result<Vec<&'static str>> {
            Ok(vec!["/", "/srv", "/srv/image"])
        }

        fn freeze(&self, one: &&'static str) -> io::Result<bool> {
            if self.fails == Some(one) {
                return Err(io::Error::other("no"));
            }
            if self.left_out == Some(one) {
                return Ok(false);
            }
            self.tell(format!("freeze {one}"));
            Ok(true)
        }

        fn thaw(&self, one: &&'static str) -> io::Result<()> {
            self.tell(format!("thaw {one}"));
            Ok(())
        }

        fn name(&self, one: &&'static str) -> String {
            (*one).to_owned()
        }
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn later_mounts_freeze_first_and_thaw_last() {
        let fake = Fake {
            left_out: Some("/srv"),
            ..Fake::default()
        };
        let freezer = Freezer::new(fake.clone(), LONG);
        assert_eq!(freezer.freeze(), Ok(2));
        assert!(freezer.is_frozen());
        assert!(freezer.freeze().unwrap_err().contains("frozen already"));
        assert_eq!(freezer.thaw(), 2);
        assert_eq!(freezer.thaw(), 0);
        assert!(!freezer.is_frozen());
        let expected = ["freeze /srv/image", "freeze /", "thaw /", "thaw /srv/image"];
        assert_eq!(fake.told(), expected);
        assert_eq!(freezer.freeze(), Ok(2));
    }

    #[test]
    fn a_failed_freeze_thaws_what_was_frozen() {
        let fake = Fake {
            fails: Some("/srv"),
            ..Fake::default()
        };
        let freezer = Freezer::new(fake.clone(), LONG);
        assert_eq!(freezer.freeze(), Err("/srv: no".to_owned()));
        assert!(!freezer.is_frozen());
        assert_eq!(fake.told(), ["freeze /srv/image", "thaw /srv/image"]);
    }

    #[test]
    fn file_systems_thaw_by_themselves_after_the_limit() {
        let fake = Fake::default();
        let freezer = Freezer::new(fake.clone(), Duration::from_millis(20));
        assert_eq!(freezer.freeze(), Ok(3));
        let end = Instant::now() + Duration::from_secs(30);
        while freezer.is_frozen() {
            assert!(Instant::now() < end, "still frozen");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(freezer.thaw(), 0);
        assert_eq!(fake.told().len(), 6);
    }

    #[test]
    fn the_timer_of_an_earlier_freeze_thaws_no_later_one() {
        let fake = Fake::default();
        let freezer = Freezer::new(fake.clone(), LONG);
        assert_eq!(freezer.freeze(), Ok(3));
        assert_eq!(freezer.thaw(), 3);
        assert_eq!(freezer.freeze(), Ok(3));
        // The first timer was woken by the thaw, and sees another turn.
        std::thread::sleep(Duration::from_millis(20));
        assert!(freezer.is_frozen());
    }

    #[test]
    fn only_file_systems_of_block_devices_are_frozen() {
        let is_frozen = |device: &str, source: &str| {
            is_on_block_device(&Mount {
                id: 1,
                device: device.to_owned(),
                root: "/".into(),
                point: "/".into(),
                fstype: "ext4".to_owned(),
                source: source.into(),
                options: String::new(),
            })
        };
        for source in ["/dev/null", "proc", "/proc", "/no/such"] {
            assert!(!is_frozen("0:21", source), "{source}");
        }
        assert!(is_frozen("254:0", "/dev/root"));
    }

    #[test]
    fn a_freeze_that_takes_too_long_is_given_up() {
        let fake = Fake::default();
        let freezer = Freezer::new(fake.clone(), Duration::ZERO);
        let why = freezer.freeze().unwrap_err();
        assert!(why.contains("longer than"), "{why}");
        assert!(!freezer.is_frozen());
        assert_eq!(fake.told(), ["freeze /srv/image", "thaw /srv/image"]);
    }
}
