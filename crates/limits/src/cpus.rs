//! Sets of CPUs.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use crate::Error;

/// Maximum number of a CPU: the limit of the kernel's NR_CPUS.
const MAX_CPU: u32 = 8192;

/// A set of CPUs by number, in the kernel's notation: `0-2,5`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// Returns the number of CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the kernel's notation. Ignores parts that are not numbers.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut set = BTreeSet::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
                set.extend(first..=last.min(MAX_CPU));
            }
        }
        Self(set)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).copied().collect())
    }

    /// Returns the CPUs that are not in the other set.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Returns true if all CPUs of this set are in the other set.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Returns the first CPUs of the set, at most this number of them.
    #[must_use]
    pub fn first(&self, most: usize) -> Self {
        Self(self.0.iter().take(most).copied().collect())
    }

    /// Returns the numbers of the CPUs, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Returns true if the set has the CPU with this number.
    #[must_use]
    pub fn has(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Returns the last CPUs of the set, at most `most` of them. Most other programs run on the
    /// first ones.
    #[must_use]
    pub fn last(&self, most: usize) -> Self {
        Self(self.0.iter().rev().take(most).copied().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        let mut cpus = self.0.iter().copied().peekable();
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|next| *next == last + 1) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

/// Returns the CPUs whose number in a file of their topology is in the list.
pub(crate) fn with_number(list: &str, file: &str, all: &CpuSet) -> CpuSet {
    let list = CpuSet::parse(list).0;
    let number = |cpu: &u32| -> Option<u32> {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let of = |cpu: &u32| number(cpu).is_some_and(|number| list.contains(&number));
    CpuSet(all.0.iter().copied().filter(of).collect())
}

/// In v1 a process can enter a group only after both files have values. A new group has none, so it
/// gets the values of its parent.
pub(crate) fn fill(group: &Path) -> Result<(), Error> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let file = group.join(name);
        if !read(&file)?.trim().is_empty() {
            continue;
        }
        let parent = group.parent().unwrap_or(group);
        fill(parent)?;
        let text = read(&parent.join(name))?;
        fs::write(&file, text.trim()).map_err(Error::file("write", &file))?;
    }
    Ok(())
}

pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::file("read", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        CpuSet::parse(text)
    }

    #[test]
    fn reads_and_writes_the_kernels_notation() {
        for text in ["0", "0-3", "0,2", "0-1,4,6-8", ""] {
            assert_eq!(set(text).to_string(), text);
        }
        assert_eq!(set("0-2,5\n").len(), 4);
        assert_eq!(set("3-1, x"), CpuSet::default());
        assert!(set("0-4294967295").len() <= 8193);
    }

    #[test]
    fn a_new_v1_group_has_what_its_parent_has() {
        let dir = tempfile::tempdir().unwrap();
        let zone = dir.path().join("zones/web");
        fs::create_dir_all(&zone).unwrap();
        for (path, cpus) in [(".", "0-3\n"), ("zones", "\n"), ("zones/web", "\n")] {
            fs::write(dir.path().join(path).join("cpuset.cpus"), cpus).unwrap();
            let mems = if path == "." { "0\n" } else { "\n" };
            fs::write(dir.path().join(path).join("cpuset.mems"), mems).unwrap();
        }
        fill(&zone).unwrap();
        assert_eq!(read(&zone.join("cpuset.cpus")).unwrap(), "0-3");
        assert_eq!(read(&zone.join("cpuset.mems")).unwrap(), "0");
    }
}
