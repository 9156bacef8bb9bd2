//! Tells whether a file of a running zone has changed since it was looked at.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use rustix::fs::{FileType, Stat};
use rustix::time::{ClockId, clock_gettime};

/// The age that the change time of a file must have before equal times mean equal files. The clock
/// of change times moves in steps of up to 10 ms, so two changes within one step have the same time.
/// The time of a direct write is that of its begin, and the disk may take long for it.
const SETTLED_AFTER: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 1000 });

/// The marks of a file that change with the file. The kernel sets the change time (ctime) at each
/// change of content, name, owner, mode or attributes, and no program can set it. There is one
/// exception: a store through a shared mapping sets it only if the page was clean before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) kind: FileType,
    pub(super) inode: u64,
    /// Nanoseconds since 1970.
    pub(super) changed: i128,
    pub(super) size: u64,
}

impl Stamp {
    /// The stamp of an object that could not be read. It differs from the stamp of every object.
    pub(super) const UNKNOWN: Self = Self {
        kind: FileType::Unknown,
        inode: 0,
        changed: 0,
        size: 0,
    };

    pub(super) fn of(stat: &Stat) -> Self {
        let kind = FileType::from_raw_mode(stat.st_mode);
        // All whiteouts of overlay are names of one file, which changes with each new whiteout.
        if kind == FileType::CharacterDevice && stat.st_rdev == 0 {
            return Self {
                kind,
                ..Self::UNKNOWN
            };
        }
        Self {
            kind,
            inode: stat.st_ino,
            changed: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
            size: u64::try_from(stat.st_size).unwrap_or(0),
        }
    }

    pub(super) fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Returns true if each change after `now`, at which the stamp was taken or later, gives
    /// another stamp.
    pub(super) fn is_settled(&self, now: Moment) -> bool {
        let age = i128::try_from(SETTLED_AFTER.as_nanos()).unwrap_or(i128::MAX);
        self.kind != FileType::Unknown && self.changed.saturating_add(age) < now.0
    }
}

/// A time by the clock from which the kernel takes change times, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(pub(super) i128);

impl Moment {
    /// Returns the time that a file gets if it is changed now. The precise clock is ahead of it: by
    /// a step, or by much more if the processor that moves the clock of change times stands still,
    /// as in a virtual machine on a busy host.
    pub(super) fn now() -> Self {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        Self(i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec))
    }
}

/// The entries of a folder.
pub(super) type Entries = BTreeMap<OsString, Node>;

/// An object of a top, as it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) stamp: Stamp,
    /// True if each later change gives another stamp.
    pub(super) settled: bool,
    /// The content, if the object is a folder.
    pub(super) inner: Option<Entries>,
}

impl Node {
    /// Returns a file whose stamp was taken at `now` or later.
    pub(super) fn file(stamp: Stamp, now: Moment) -> Self {
        Self {
            stamp,
            settled: stamp.is_settled(now),
            inner: None,
        }
    }

    /// Returns a folder that has still to be looked at.
    pub(super) fn nothing_yet() -> Self {
        Self {
            stamp: Stamp::UNKNOWN,
            settled: false,
            inner: Some(Entries::new()),
        }
    }

    /// Judges again which objects are settled, at the moment of the freeze.
    pub(super) fn judge(&mut self, now: Moment) {
        self.settled = self.stamp.is_settled(now);
        for inner in self.inner.iter_mut().flat_map(BTreeMap::values_mut) {
            inner.judge(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recent_or_future_change_is_not_settled() {
        let stamp = Stamp {
            kind: FileType::RegularFile,
            inode: 7,
            changed: 10_000_000_000,
            size: 1,
        };
        let after = i128::try_from(SETTLED_AFTER.as_nanos()).unwrap();
        assert!(stamp.is_settled(Moment(10_000_000_001 + after)));
        assert!(!stamp.is_settled(Moment(10_000_000_000 + after)));
        assert!(!stamp.is_settled(Moment(9_000_000_000)));
        assert!(!Stamp::UNKNOWN.is_settled(Moment::now()));
    }

    #[test]
    fn a_change_after_a_moment_has_no_earlier_time() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..100 {
            let (now, path) = (Moment::now(), folder.path().join(n.to_string()));
            std::fs::write(&path, "").unwrap();
            let stamp = Stamp::of(&rustix::fs::stat(&path).unwrap());
            assert!(now.0 <= stamp.changed, "{now:?} {stamp:?}");
        }
    }
}
