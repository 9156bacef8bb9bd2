//! Removes a host of a test, and finds objects that should not exist any more.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::run::start;
use crate::{Host, WAIT_TIMEOUT, cgroup};

/// Ends all zones of the host except `spared`, which must be installed and unchanged. Returns the
/// objects that the programs should have removed themselves.
pub(crate) fn clean_up(host: &Host, spared: Option<&str>) -> Vec<String> {
    let mut problems = Vec::new();
    end_zones(host, spared, &mut problems);
    end_processes(host, &mut problems);
    remove_groups(host, &mut problems);
    unmount(host.root(), &mut problems);
    leftover_files(host.root(), spared, &mut problems);
    if spared.is_some() {
        // Restores the state after a boot of the machine, without the files of the test.
        let entries = fs::read_dir(host.root()).into_iter().flatten().flatten();
        for entry in entries {
            if !["etc", "zones"]
                .iter()
                .any(|name| entry.file_name() == *name)
            {
                crate::place::remove(&entry.path());
            }
        }
    }
    problems
}

fn end_zones(host: &Host, spared: Option<&str>, problems: &mut Vec<String>) {
    let listed = host.zoneadm(&["list", "-cpn"]);
    if listed.code() != Some(0) {
        problems.push(format!("{listed:?}"));
        return;
    }
    for row in host.rows_of(&listed.out) {
        let mut act = |words: &[&str]| {
            let ran = host.zoneadm(&[&["-z", &row.name], words].concat());
            if ran.code() != Some(0) {
                problems.push(format!("{ran:?}"));
            }
        };
        if spared == Some(&row.name) {
            if row.state != "installed" {
                problems.push(format!("zone {} is {}", row.name, row.state));
            }
            continue;
        }
        match row.state.as_str() {
            "configured" => {}
            "ready" | "running" | "shutting_down" | "down" => act(&["halt"]),
            "mounted" => act(&["unmount"]),
            _ => {}
        }
        if row.state != "configured" {
            act(&["uninstall", "-F"]);
        }
        let deleted = host.zonecfg(&["-z", &row.name, "delete -F"]);
        if deleted.code() != Some(0) {
            problems.push(format!("{deleted:?}"));
        }
    }
}

/// Waits until no process belongs to the host, and then kills the remaining ones by pid.
fn end_processes(host: &Host, problems: &mut Vec<String>) {
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        let left = processes(host);
        if left.is_empty() {
            return;
        }
        if Instant::now() > end {
            problems.extend(left.iter().map(|&pid| cgroup::describe(pid)));
            for pid in left {
                if let Some(pid) = Pid::from_raw(pid) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            for group in cgroup::below(host.cgroup()) {
                let _ = fs::write(group.join("cgroup.kill"), "1");
            }
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the processes in the host's groups, and programs that were started for its root.
pub(crate) fn processes(host: &Host) -> Vec<i32> {
    let mut found = cgroup::processes(&cgroup::below(host.cgroup()));
    let mark = [b"ZONES_ROOT=", host.root().as_os_str().as_bytes()].concat();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(environment) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        if environment.split(|byte| *byte == 0).any(|one| one == mark) && !found.contains(&pid) {
            found.push(pid);
        }
    }
    found
}

fn remove_groups(host: &Host, problems: &mut Vec<String>) {
    let groups = cgroup::below(host.cgroup());
    for group in &groups {
        let name = group.file_name().unwrap_or_default();
        // The groups that all zones share stay for the next zone.
        if name != host.cgroup() && name != ".zoneadmd" {
            problems.push(format!("control group {}", group.display()));
        }
        let end = Instant::now() + WAIT_TIMEOUT;
        while fs::remove_dir(group).is_err() && group.exists() {
            if Instant::now() > end {
                problems.push(format!("{} cannot be removed", group.display()));
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the mount points at and below a folder, as this process sees them.
pub(crate) fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from)
        .filter(|point| point.starts_with(folder))
        .collect()
}

fn unmount(root: &Path, problems: &mut Vec<String>) {
    for point in mounts_below(root).iter().rev() {
        problems.push(format!("mount {}", point.display()));
        let _ = start(Command::new("umount").arg("-l").arg(point)).wait();
    }
}

/// Checks that nothing of an uninstalled zone is left in the folders of zones and layers.
fn leftover_files(root: &Path, spared: Option<&str>, problems: &mut Vec<String>) {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let zones = root.join("zones");
    let layers = zones.join(".layers");
    let mut left = inside(&zones);
    left.retain(|path| *path != layers && spared.is_none_or(|zone| !path.ends_with(zone)));
    let dead = layers.join(".dead");
    left.extend(inside(&dead));
    let mut sealed = inside(&layers);
    sealed.retain(|path| *path != dead);
    // The spared zone has one layer since its first clone.
    if sealed.len() > usize::from(spared.is_some()) {
        left.extend(sealed);
    }
    problems.extend(left.iter().map(|path| format!("file {}", path.display())));
}
