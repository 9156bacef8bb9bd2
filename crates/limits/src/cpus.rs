//! Sets of CPUs, and which of them a zone gets for itself.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use model::controls::Dedicated;
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
fn choose(free: &CpuSet, least: u32, most: u32) -> Result<CpuSet, Error> {
    let spare = free.0.len().saturating_sub(1);
    if spare < least as usize {
        return Err(Error::NoCpus {
            wanted: least,
            free: spare,
        });
    }
    let number = spare.min(most.max(least) as usize);
    Ok(CpuSet(free.0.iter().rev().take(number).copied().collect()))
}

/// Those that are named, if they are all there and free.
fn named(named: CpuSet, free: &CpuSet) -> Result<CpuSet, Error> {
    let short: Vec<u32> = named.0.difference(&free.0).copied().collect();
    let all = free.0.len() == named.0.len();
    if named.is_empty() || all || !short.is_empty() {
        return Err(Error::CpusTaken {
            wanted: named.to_string(),
            free: free.to_string(),
        });
    }
    Ok(named)
}

/// The CPUs whose number in a file of their topology is on the list.
fn with_number(list: &str, file: &str, all: &CpuSet) -> CpuSet {
    let list = CpuSet::parse(list).0;
    let number = |cpu: &u32| -> Option<u32> {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let of = |cpu: &u32| number(cpu).is_some_and(|number| list.contains(&number));
    CpuSet(all.0.iter().copied().filter(of).collect())
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
pub(crate) fn dedicate(group: &Path, wanted: Option<&Dedicated>) -> Result<String, Error> {
    let base = group.parent().unwrap_or(group);
    let file = group.join("cpuset.cpus");
    let before = read(&file)?;
    // Two zones that boot at once must not take the same.
    let folder = rustix::fs::open(base, crate::zone::FOLDER, Mode::empty())
        .map_err(|errno| Error::file("open", base)(errno.into()))?;
    flock(&folder, FlockOperation::LockExclusive)
        .map_err(|errno| Error::file("lock", base)(errno.into()))?;
    let all = available(base)?;
    let set = match wanted {
        Some(wanted) => {
            let taken = taken(base, group, &all);
            let free = CpuSet(all.0.difference(&taken.0).copied().collect());
            match wanted {
                Dedicated::Count(least, most) => choose(&free, *least, *most),
                Dedicated::Cpus(list) => named(CpuSet::parse(list), &free),
                Dedicated::Cores(list) => named(with_number(list, "core_id", &all), &free),
                Dedicated::Sockets(list) => {
                    named(with_number(list, "physical_package_id", &all), &free)
                }
            }?
        }
        None => all,
    };
    fs::write(&file, set.to_string()).map_err(Error::file("write", &file))?;
    Ok(before.trim().to_owned())
}

/// Puts back what [`dedicate`] returned.
pub(crate) fn restore(group: &Path, set: &str) -> Result<(), Error> {
    let file = group.join("cpuset.cpus");
    // A group with processes does not take an empty set, not even back.
    let all = match set {
        "" => available(group.parent().unwrap_or(group))?.to_string(),
        set => set.to_owned(),
    };
    fs::write(&file, all).map_err(Error::file("write", &file))
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
    fn chooses_from_the_end_and_leaves_one() {
        let chosen =
            |free: &str, least, most| choose(&set(free), least, most).map(|set| set.to_string());
        assert_eq!(chosen("0-7", 2, 2).unwrap(), "6-7");
        assert_eq!(chosen("0-5", 1, 2).unwrap(), "4-5");
        assert_eq!(chosen("0-3", 1, 9).unwrap(), "1-3");
        assert_eq!(
            chosen("0", 1, 1).unwrap_err().to_string(),
            "dedicated-cpu: 1 CPU is wanted, and 0 are free: take fewer, or give up those of other zones"
        );
    }

    #[test]
    fn named_ones_must_be_free_and_leave_one() {
        let taken = |list: &str| named(set(list), &set("0-3")).map(|set| set.to_string());
        assert_eq!(taken("1,3").unwrap(), "1,3");
        assert_eq!(
            taken("3-4").unwrap_err().to_string(),
            "dedicated-cpu: CPUs 3-4 are wanted, and 0-3 are free, of which one must stay so: name others, or give up those of other zones"
        );
        assert!(taken("0-3").is_err());
        assert!(taken("").is_err());
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
