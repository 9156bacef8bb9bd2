//! Sets of CPUs, and which of them a zone gets for itself.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use model::controls::CpuCount;
use rustix::fs::{FlockOperation, Mode, flock};

use crate::{Error, ZoneCgroups};

/// No machine has a CPU of a larger number.
const MOST: u32 = 8192;

/// CPUs by number, in the kernel's notation: `0-2,5`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the notation; what is no number is left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut set = BTreeSet::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
                set.extend(first..=last.min(MOST));
            }
        }
        Self(set)
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

/// Chooses from the CPUs that nobody has for himself. The last one is left to the
/// host and to the zones that share; the first ones are what most else runs on.
pub(crate) fn choose(all: &CpuSet, taken: &CpuSet, count: CpuCount) -> Result<CpuSet, Error> {
    let free: Vec<u32> = all.0.difference(&taken.0).copied().collect();
    let most = free.len().saturating_sub(1);
    if most < count.least as usize {
        return Err(Error::NoCpus {
            wanted: count.least,
            free: most,
        });
    }
    let number = most.min(count.most.max(count.least) as usize);
    Ok(CpuSet(free.into_iter().rev().take(number).collect()))
}

/// The group of a zone that holds its CPUs, in v2 or v1.
pub(crate) fn group(cgroups: &ZoneCgroups) -> Option<&Path> {
    [&cgroups.v2]
        .into_iter()
        .chain(&cgroups.v1)
        .find(|path| path.join("cpuset.cpus").exists())
        .map(PathBuf::as_path)
}

/// Binds the zone to CPUs that no other zone has for itself, or with `None` to no
/// special ones. Returns the set it had before, in the file's words.
pub(crate) fn dedicate(group: &Path, count: Option<CpuCount>) -> Result<String, Error> {
    let base = group.parent().unwrap_or(group);
    let file = group.join("cpuset.cpus");
    let before = read(&file)?;
    // Two zones that boot at once must not take the same.
    let folder = rustix::fs::open(base, crate::zone::FOLDER, Mode::empty())
        .map_err(|errno| Error::file("open", base)(errno.into()))?;
    flock(&folder, FlockOperation::LockExclusive)
        .map_err(|errno| Error::file("lock", base)(errno.into()))?;
    let all = available(base)?;
    let set = match count {
        Some(count) => choose(&all, &taken(base, group, &all), count)?.to_string(),
        // v1 has no empty set.
        None if is_v2(base) => "\n".to_owned(),
        None => all.to_string(),
    };
    fs::write(&file, set).map_err(Error::file("write", &file))?;
    Ok(before.trim().to_owned())
}

/// Puts back what [`dedicate`] returned.
pub(crate) fn restore(group: &Path, set: &str) -> Result<(), Error> {
    let file = group.join("cpuset.cpus");
    fs::write(&file, format!("{set}\n")).map_err(Error::file("write", &file))
}

/// The CPUs that the zone has for itself, if any.
pub(crate) fn dedicated(group: &Path) -> Option<CpuSet> {
    let base = group.parent()?;
    let set = CpuSet::parse(&read(&group.join("cpuset.cpus")).ok()?);
    let all = available(base).ok()?;
    (!set.is_empty() && set != all).then_some(set)
}

/// v1 wants both files filled before a process may enter, and a new group has
/// neither: it gets what its parent has.
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

/// Only v1 has this file; v2 says nothing at its top.
fn is_v2(group: &Path) -> bool {
    !group.join("cgroup.clone_children").exists()
}

fn available(base: &Path) -> Result<CpuSet, Error> {
    let effective = base.join("cpuset.cpus.effective");
    let path = if is_v2(base) {
        effective
    } else {
        base.join("cpuset.cpus")
    };
    Ok(CpuSet::parse(&read(&path)?))
}

fn taken(base: &Path, except: &Path, all: &CpuSet) -> CpuSet {
    let groups = fs::read_dir(base).into_iter().flatten().flatten();
    let sets = groups
        .map(|entry| entry.path())
        .filter(|path| path != except)
        .filter_map(|path| read(&path.join("cpuset.cpus")).ok())
        .map(|text| CpuSet::parse(&text))
        .filter(|set| set != all);
    CpuSet(sets.flat_map(|set| set.0).collect())
}

fn read(path: &Path) -> Result<String, Error> {
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
    fn chooses_free_ones_from_the_end_and_leaves_one() {
        let count = |least, most| CpuCount { least, most };
        let chosen = |taken: &str, least, most| {
            choose(&set("0-7"), &set(taken), count(least, most)).map(|set| set.to_string())
        };
        assert_eq!(chosen("", 2, 2).unwrap(), "6-7");
        assert_eq!(chosen("6-7", 1, 2).unwrap(), "4-5");
        assert_eq!(chosen("4-7", 1, 9).unwrap(), "1-3");
        assert_eq!(
            chosen("1-7", 1, 1).unwrap_err().to_string(),
            "dedicated-cpu: 1 CPU is wanted, and 0 are free: take fewer, or give up those of other zones"
        );
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
