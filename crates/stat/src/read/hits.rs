//! Reads how often a zone reached its limits.

use std::path::PathBuf;

use super::file::{Budget, File};
use super::parse;
use super::zone::with;
use crate::sample::Hits;

/// The files that count reached limits, with the groups that have them.
#[derive(Debug)]
pub(super) struct Counters {
    memory: Memory,
    /// The group that limits threads.
    threads: Option<PathBuf>,
    /// Refusals by the limit of the group itself, and, of older kernels, all refusals.
    refused: [File; 2],
}

#[derive(Debug)]
enum Memory {
    /// The file memory.events in this v2 group.
    V2(PathBuf, File),
    /// The files memory.failcnt and memory.oom_control in these v1 groups.
    V1([(Option<PathBuf>, File); 2]),
}

impl Counters {
    /// Finds the counters in the groups of a zone.
    pub(super) fn find(groups: &[PathBuf]) -> Self {
        let memory = match with(groups, "memory.events") {
            Some(group) => Memory::V2(group, File::default()),
            None => Memory::V1(
                ["memory.failcnt", "memory.oom_control"]
                    .map(|file| (with(groups, file), File::default())),
            ),
        };
        Self {
            memory,
            threads: with(groups, "pids.max"),
            refused: Default::default(),
        }
    }

    /// Reads the counters. A counter that the kernel does not have is 0.
    pub(super) fn read(&mut self, budget: &mut Budget, buffer: &mut Vec<u8>) -> Hits {
        let mut hits = Hits::default();
        match &mut self.memory {
            Memory::V2(group, file) => {
                if let Ok(text) = file.read(group, "memory.events", budget, buffer) {
                    hits.memory_full = parse::keyed(text, "max").unwrap_or_default();
                    hits.oom_kills = parse::keyed(text, "oom_kill").unwrap_or_default();
                }
            }
            Memory::V1([(full, full_file), (kills, kills_file)]) => {
                if let Some(group) = full {
                    let text = full_file.read(group, "memory.failcnt", budget, buffer);
                    hits.memory_full = text.ok().and_then(parse::number).unwrap_or_default();
                }
                if let Some(group) = kills {
                    let text = kills_file.read(group, "memory.oom_control", budget, buffer);
                    let kills = text.ok().and_then(|text| parse::keyed(text, "oom_kill"));
                    hits.oom_kills = kills.unwrap_or_default();
                }
            }
        }
        if let Some(group) = &self.threads {
            // Since Linux 6.11 the plain file also counts refusals by limits inside the zone.
            let names = ["pids.events.local", "pids.events"];
            let refused = self.refused.iter_mut().zip(names).find_map(|(file, name)| {
                let text = file.read(group, name, budget, buffer).ok()?;
                parse::keyed(text, "max")
            });
            hits.lwps_refused = refused.unwrap_or_default();
        }
        hits
    }

    /// Closes the files.
    pub(super) fn close(self, budget: &mut Budget) {
        let memory = match self.memory {
            Memory::V2(_, file) => vec![file],
            Memory::V1([(_, full), (_, kills)]) => vec![full, kills],
        };
        for mut file in self.refused.into_iter().chain(memory) {
            file.close(budget);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(groups: &[PathBuf]) -> Hits {
        let (mut budget, mut buffer) = (Budget(9), Vec::new());
        let mut counters = Counters::find(groups);
        let first = counters.read(&mut budget, &mut buffer);
        assert_eq!(counters.read(&mut budget, &mut buffer), first);
        counters.close(&mut budget);
        assert_eq!(budget.0, 9);
        first
    }

    fn hits(oom_kills: u64, memory_full: u64, lwps_refused: u64) -> Hits {
        Hits {
            oom_kills,
            memory_full,
            lwps_refused,
        }
    }

    #[test]
    fn counters_of_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["v2", "memory", "pids", "none"] {
            fs::create_dir(at(folder)).unwrap();
        }
        let write = |file: &str, text: &str| fs::write(at(file), text).unwrap();
        write("memory/memory.failcnt", "4\n");
        write("memory/memory.oom_control", "under_oom 0\noom_kill 3\n");
        write("pids/pids.max", "9\n");
        write("pids/pids.events", "max 5\n");
        let groups = [at("none"), at("memory"), at("pids")];
        assert_eq!(read(&groups), hits(3, 4, 5));
        write("pids/pids.events.local", "max 2\n");
        assert_eq!(read(&groups), hits(3, 4, 2));
        write(
            "v2/memory.events",
            "low 0\nhigh 0\nmax 7\noom 1\noom_kill 6\n",
        );
        write("v2/pids.max", "max\n");
        assert_eq!(read(&[at("v2")]), hits(6, 7, 0));
        assert_eq!(read(&[at("none")]), Hits::default());
    }
}
