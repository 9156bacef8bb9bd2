//! Measures the memory of the programs that stay with running zones.

use std::path::Path;

use anyhow::{Context, Result};

/// KiB on average over the processes of one program.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weight {
    pub processes: usize,
    /// Memory, shared pages counted by their share.
    pub pss: f64,
    /// Memory that is this process' alone and was written.
    pub private_dirty: f64,
}

/// Weighs the processes that run `program` and have `word` in their command line.
pub fn weigh(program: &Path, word: &str) -> Result<Weight> {
    // Pages of the program's file count as dirty until they are on the disk.
    rustix::fs::sync();
    let mut sum = Weight::default();
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path();
        // Not a process, or one that has just ended.
        let Ok(file) = std::fs::read_link(path.join("exe")) else {
            continue;
        };
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        if file != program || !String::from_utf8_lossy(&line).contains(word) {
            continue;
        }
        let Ok(rollup) = std::fs::read_to_string(path.join("smaps_rollup")) else {
            continue;
        };
        sum.processes += 1;
        sum.pss += field(&rollup, "Pss:")?;
        sum.private_dirty += field(&rollup, "Private_Dirty:")?;
    }
    if sum.processes > 0 {
        let count = sum.processes as f64;
        sum.pss /= count;
        sum.private_dirty /= count;
    }
    Ok(sum)
}

/// The number after `name` in a smaps_rollup file, in KiB.
fn field(rollup: &str, name: &str) -> Result<f64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    Ok(number.context("smaps_rollup")?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_field_asked_for() {
        let text =
            "55d0-7ffd ---p 0 00:00 0 [rollup]\nRss:  1200 kB\nPss:  340 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(field(text, "Pss:").unwrap(), 340.0);
        assert!(field(text, "Private_Dirty:").is_err());
    }
}
