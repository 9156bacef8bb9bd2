//! Reads from /proc the memory that processes and the kernel use.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The programs that run as long as their zone: the path of the program, and a text in its command
/// line.
#[derive(Debug, Clone)]
pub struct Keeper {
    pub program: PathBuf,
    pub word: String,
}

/// The processes of a fleet: those programs and all their descendants.
#[derive(Debug)]
pub struct Family(Vec<u32>);

impl Family {
    pub fn of(keeper: &Keeper) -> Result<Self> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let path = entry?.path();
            let Some(pid) = path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok())
            else {
                continue;
            };
            // A process that has just ended has neither.
            let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t"));
            if let Some(Ok(parent)) = parent.map(str::parse) {
                children.entry(parent).or_default().push(pid);
            }
            let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
            if std::fs::read_link(path.join("exe")).is_ok_and(|file| file == keeper.program)
                && String::from_utf8_lossy(&line).contains(&keeper.word)
            {
                found.push(pid);
            }
        }
        let mut seen: HashSet<u32> = found.iter().copied().collect();
        let mut at = 0;
        while at < found.len() {
            for &child in children.get(&found[at]).into_iter().flatten() {
                if seen.insert(child) {
                    found.push(child);
                }
            }
            at += 1;
        }
        Ok(Self(found))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the sum of their proportional shares of memory (PSS), in KiB.
    pub fn pss(&self) -> f64 {
        // Pages of a program's file count as dirty until they are written to disk.
        rustix::fs::sync();
        self.0.iter().map(|pid| rollup(*pid, "Pss:")).sum()
    }

    /// Returns the processor time that they have used, in nanoseconds.
    pub fn ran(&self) -> u64 {
        let of = |pid: &u32| -> Option<u64> {
            let mut sum = 0;
            for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
                let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
                sum += text.split(' ').next()?.parse::<u64>().ok()?;
            }
            Some(sum)
        };
        self.0.iter().filter_map(of).sum()
    }
}

/// Returns a field of a process's smaps_rollup, in KiB; 0 if the process has ended.
pub fn rollup(pid: u32, name: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    field(&text, name).unwrap_or(0.0)
}

/// Returns the number after `name` in a file of lines like `Slab:   1234 kB`.
fn field(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The memory of the kernel, in KiB.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    pub slab: f64,
    pub stacks: f64,
    pub page_tables: f64,
    pub percpu: f64,
    /// Files in memory, for example below /run.
    pub files: f64,
}

impl Kernel {
    pub fn now() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/meminfo")?;
        let of = |name| field(&text, name).context(name);
        Ok(Self {
            slab: of("Slab:")?,
            stacks: of("KernelStack:")?,
            page_tables: of("PageTables:")?,
            percpu: of("Percpu:")?,
            files: of("Shmem:")?,
        })
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_medians() {
        let text = "Rss:  1200 kB\nPss:  340 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(field(text, "Pss:"), Some(340.0));
        assert_eq!(field(text, "Slab:"), None);
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![9.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
    }

    #[test]
    fn a_family_has_children() {
        let own = std::env::current_exe().unwrap();
        let keeper = Keeper {
            program: own,
            word: String::new(),
        };
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let family = Family::of(&keeper).unwrap();
        assert!(family.0.contains(&child.id()));
        assert!(family.pss() > 0.0);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
