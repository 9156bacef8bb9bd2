//! Counts the processes in a control group of v2 and in the groups below it.

use std::fs;
use std::path::{Path, PathBuf};

use super::file::{Budget, File, MAX_FILE_BYTES, Nothing};
use super::parse;

/// Depth of control groups, below a zone's group, in which processes are searched.
const MAX_DEPTH: u32 = 16;

/// Maximum number of groups of a zone whose lists stay open. A zone can make any number of groups, and
/// must not take the descriptors of the others.
const MAX_OPEN_GROUPS: usize = 64;

/// The groups of a zone, with their open lists of processes.
///
/// The kernel counts the groups below a group. The known groups are all groups of the zone if their
/// number is still the same and if each of them still exists. So a sample reads one file for each
/// group, and no folder.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The file with the number of groups.
    stat: File,
    /// Each group and its list of processes. Empty if the groups must be searched.
    known: Vec<(PathBuf, File)>,
}

impl Groups {
    /// Returns the number of processes in `top` and in the groups below it.
    pub(super) fn processes(
        &mut self,
        top: &Path,
        budget: &mut Budget,
        buffer: &mut Vec<u8>,
    ) -> u64 {
        let stat = self.stat.read(top, "cgroup.stat", budget, buffer).ok();
        let below = stat.and_then(|text| parse::keyed(text, "nr_descendants"));
        let is_number = |known: usize| below == Some(known.saturating_sub(1) as u64);
        if !self.known.is_empty() && is_number(self.known.len()) {
            let count = self.count(budget, buffer);
            if count.is_whole {
                return count.processes;
            }
        }
        self.forget(budget);
        let mut folders = Vec::new();
        search(top, MAX_DEPTH, &mut folders);
        if !is_number(folders.len()) {
            // Groups came or went meanwhile, or some are deeper: the next sample searches again.
            return folders.iter().map(|group| whole(group)).sum();
        }
        self.first(folders, budget, buffer)
    }

    /// Returns the number of processes in groups that were just found.
    fn first(&mut self, folders: Vec<PathBuf>, budget: &mut Budget, buffer: &mut Vec<u8>) -> u64 {
        let known = folders.into_iter().map(|group| (group, File::default()));
        self.known = known.collect();
        let count = self.count(budget, buffer);
        if !count.is_whole {
            // A group went since it was found: its processes are gone, those of the others are not.
            self.forget(budget);
        }
        count.processes
    }

    /// Counts the processes in the known groups.
    fn count(&mut self, budget: &mut Budget, buffer: &mut Vec<u8>) -> Count {
        let mut count = Count {
            processes: 0,
            is_whole: true,
        };
        for (at, (group, file)) in self.known.iter_mut().enumerate() {
            let mut none = Budget(0);
            let budget = match at < MAX_OPEN_GROUPS {
                true => &mut *budget,
                false => &mut none,
            };
            count.processes += match file.read(group, "cgroup.procs", budget, buffer) {
                Ok(text) if text.len() >= MAX_FILE_BYTES => whole(group),
                Ok(text) => lines(text),
                Err(Nothing::Gone) => {
                    count.is_whole = false;
                    0
                }
                // A group of threads has no list of processes.
                Err(Nothing::Missing) => 0,
            };
        }
        count
    }

    /// Closes the lists of processes.
    fn forget(&mut self, budget: &mut Budget) {
        for (_, file) in &mut self.known {
            file.close(budget);
        }
        self.known.clear();
    }

    /// Closes all files.
    pub(super) fn close(&mut self, budget: &mut Budget) {
        self.forget(budget);
        self.stat.close(budget);
    }
}

/// The number of processes in the known groups.
#[derive(Clone, Copy, Debug)]
struct Count {
    processes: u64,
    /// False if a known group is gone.
    is_whole: bool,
}

fn lines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Returns the number of processes of one group, however long its list is.
fn whole(group: &Path) -> u64 {
    lines(&fs::read(group.join("cgroup.procs")).unwrap_or_default())
}

/// Adds a group and the groups below it.
fn search(group: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    found.push(group.to_owned());
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&entry.path(), depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(path: &Path, processes: &str) {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("cgroup.procs"), processes).unwrap();
    }

    #[test]
    fn groups_that_come_and_go_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        let below = |count: u32| {
            let text = format!("nr_descendants {count}\nnr_dying_descendants 7\n");
            fs::write(top.join("cgroup.stat"), text).unwrap();
        };
        let (mut groups, mut budget, mut buffer) = (Groups::default(), Budget(9), Vec::new());
        let mut count = |groups: &mut Groups| groups.processes(top, &mut budget, &mut buffer);
        group(top, "");
        group(&top.join("zone/deep"), "3\n");
        group(&top.join("zone"), "1\n2\n");
        below(2);
        assert_eq!(count(&mut groups), 3);
        assert_eq!(groups.known.len(), 3);

        // The known lists are read again, and no folder.
        group(&top.join("zone"), "1\n2\n4\n");
        group(&top.join("unseen"), "5\n");
        assert_eq!(count(&mut groups), 4);
        // Another number of groups makes it search.
        below(3);
        assert_eq!(count(&mut groups), 5);
        assert_eq!(groups.known.len(), 4);
        // A number that is not that of the folders is not trusted.
        below(9);
        assert_eq!(count(&mut groups), 5);
        assert!(groups.known.is_empty());
        groups.close(&mut budget);
        assert_eq!(budget.0, 9);
    }

    #[test]
    fn a_group_replaced_by_another_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        fs::write(top.join("cgroup.stat"), "nr_descendants 1\n").unwrap();
        group(top, "1\n");
        group(&top.join("old"), "2\n3\n");
        // Without room for open files, each list is opened by its path.
        let (mut groups, mut budget, mut buffer) = (Groups::default(), Budget(0), Vec::new());
        assert_eq!(groups.processes(top, &mut budget, &mut buffer), 3);
        fs::remove_dir_all(top.join("old")).unwrap();
        group(&top.join("new"), "4\n");
        assert_eq!(groups.processes(top, &mut budget, &mut buffer), 2);
    }

    #[test]
    fn a_group_that_vanishes_while_it_is_counted_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        group(dir.path(), "1\n2\n");
        let (mut groups, mut budget, mut buffer) = (Groups::default(), Budget(9), Vec::new());
        let found = vec![dir.path().join("gone"), dir.path().to_owned()];
        assert_eq!(groups.first(found, &mut budget, &mut buffer), 2);
        // The next sample searches again.
        assert!(groups.known.is_empty());
        assert_eq!(budget.0, 9);
    }

    #[test]
    fn a_zone_with_many_groups_keeps_few_lists_open() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.stat"), "nr_descendants 200\n").unwrap();
        group(dir.path(), "");
        for number in 0..200 {
            group(&dir.path().join(number.to_string()), "7\n");
        }
        let (mut groups, mut budget, mut buffer) = (Groups::default(), Budget(1000), Vec::new());
        for _ in 0..3 {
            let count = groups.processes(dir.path(), &mut budget, &mut buffer);
            assert_eq!(count, 200);
            // One more file has the number of groups.
            assert_eq!(budget.0, 1000 - MAX_OPEN_GROUPS - 1);
        }
        groups.close(&mut budget);
        assert_eq!(budget.0, 1000);
    }

    #[test]
    fn a_long_list_is_counted_whole() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.stat"), "nr_descendants 0\n").unwrap();
        group(dir.path(), &"123456\n".repeat(20_000));
        let (mut groups, mut budget, mut buffer) = (Groups::default(), Budget(9), Vec::new());
        for _ in 0..2 {
            let count = groups.processes(dir.path(), &mut budget, &mut buffer);
            assert_eq!(count, 20_000);
        }
    }
}
