//! Reads the figures of the whole host from /proc.

use std::path::Path;

use super::file::{Budget, File};
use super::parse;
use super::wants::Wants;
use crate::sample::{HostSample, Pressure};

/// Microseconds in a tick of /proc/stat, which counts hundredths of a second.
const TICK_MICROSECONDS: u64 = 10_000;

/// The files in /proc about the host.
#[derive(Debug, Default)]
pub(super) struct Host {
    stat: File,
    meminfo: File,
    present: File,
    online: File,
    loadavg: File,
    net: File,
    pressure: [File; 3],
}

impl Host {
    /// Reads the requested figures.
    pub(super) fn read(
        &mut self,
        wants: Wants,
        budget: &mut Budget,
        buffer: &mut Vec<u8>,
    ) -> HostSample {
        let mut host = HostSample::default();
        let proc = Path::new("/proc");
        if let Ok(text) = self.stat.read(proc, "stat", budget, buffer) {
            if let Some((busy, interrupts)) = parse::busy(text) {
                host.busy_usec = busy.saturating_mul(TICK_MICROSECONDS);
                host.interrupt_usec = interrupts.saturating_mul(TICK_MICROSECONDS);
            }
        }
        let cpu = Path::new("/sys/devices/system/cpu");
        let mut cpus = |file: &mut File, name| {
            let text = file.read(cpu, name, budget, buffer).ok()?;
            parse::cpus(text)
        };
        host.online = cpus(&mut self.online, "online").unwrap_or(1);
        host.cpus = cpus(&mut self.present, "present").unwrap_or(host.online);
        if let Ok(text) = self.meminfo.read(proc, "meminfo", budget, buffer) {
            memory(&mut host, &String::from_utf8_lossy(text));
        }
        if wants.counts {
            if let Ok(text) = self.loadavg.read(proc, "loadavg", budget, buffer) {
                host.lwps = threads(text);
            }
            host.processes = Some(processes());
            let setting = |name: &str| {
                let text = std::fs::read(Path::new("/proc/sys/kernel").join(name)).ok()?;
                parse::number(&text)
            };
            host.max_processes = setting("pid_max");
            // The limit on process ids also counts threads.
            let threads = setting("threads-max");
            host.max_lwps = threads.into_iter().chain(host.max_processes).min();
            host.lofi = Some(loop_devices());
        }
        if wants.ipc {
            host.ipc = super::ipc::read(buffer);
            host.max_ipc = super::ipc::limits();
        }
        if wants.pressure {
            host.pressure = self.pressure(budget, buffer);
        }
        if wants.network {
            let text = self.net.read(proc, "net/dev", budget, buffer);
            host.network = text.ok().and_then(parse::links).map(|links| links.sum);
        }
        host
    }

    fn pressure(&mut self, budget: &mut Budget, buffer: &mut Vec<u8>) -> Option<Pressure> {
        let folder = Path::new("/proc/pressure");
        let [cpu, memory, io] = &mut self.pressure;
        let mut stall = |file: &mut File, name| {
            let text = file.read(folder, name, budget, buffer).ok()?;
            parse::stall(text)
        };
        Some(Pressure {
            cpu: stall(cpu, "cpu")?,
            memory: stall(memory, "memory")?,
            io: stall(io, "io")?,
        })
    }
}

/// Reads the figures from /proc/meminfo.
fn memory(host: &mut HostSample, text: &str) {
    let get = |key: &str| parse::meminfo(text, key);
    host.memory = get("MemTotal").unwrap_or_default();
    host.free = get("MemFree").unwrap_or_default();
    host.swap = get("SwapTotal").unwrap_or_default();
    host.swap_free = get("SwapFree").unwrap_or_default();
    // A zone's control group counts unevictable memory, too.
    host.locked = get("Unevictable");
    let of_users = [
        "AnonPages",
        "Cached",
        "Buffers",
        "SwapCached",
        "SReclaimable",
    ];
    let bytes = of_users.iter().filter_map(|key| get(key));
    host.chargeable = bytes.fold(0, u64::saturating_add);
}

/// Returns the number of threads from /proc/loadavg: `0.00 0.00 0.00 1/234 5678`.
fn threads(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let of_all = text.split_ascii_whitespace().nth(3)?.split_once('/')?.1;
    of_all.parse().ok()
}

/// Returns the number of processes, with kernel threads.
fn processes() -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
    };
    entries.filter(is_process).count() as u64
}

/// Returns the number of loop devices that are attached to a file.
fn loop_devices() -> u64 {
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten();
    let in_use = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(b"loop")
            && entry.path().join("loop/backing_file").exists()
    };
    entries.flatten().filter(in_use).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_something() {
        let mut host = Host::default();
        let (mut budget, mut buffer) = (Budget(100), Vec::new());
        let seen = host.read(Wants::ALL, &mut budget, &mut buffer);
        assert!(seen.online >= 1 && seen.cpus >= seen.online, "{seen:?}");
        assert!(seen.memory > seen.free, "{seen:?}");
        assert!(seen.busy_usec >= seen.interrupt_usec && seen.busy_usec > 0);
        assert!(seen.processes > Some(0) && seen.lwps > Some(0), "{seen:?}");
        let again = host.read(Wants::ALL, &mut budget, &mut buffer);
        assert!(again.busy_usec >= seen.busy_usec);
    }

    #[test]
    fn the_load() {
        assert_eq!(threads(b"0.00 0.01 0.05 1/234 5678\n"), Some(234));
        assert_eq!(threads(b""), None);
    }
}
