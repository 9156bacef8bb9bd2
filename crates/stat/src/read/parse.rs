//! Reads numbers from texts of the kernel, and ignores unknown lines.

use std::sync::Arc;

use crate::sample::{Ipc, LinkTraffic, Stall, Traffic};

/// Maximum number of links that are listed one by one. A zone can make any number of links.
const MAX_LINKS: usize = 128;

/// Reads a file that holds one number.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.trim().parse().ok()
}

/// Returns the number behind a word, in a file of lines `word number`.
pub(super) fn keyed(text: &[u8], key: &str) -> Option<u64> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let value = line.strip_prefix(key.as_bytes())?.strip_prefix(b" ")?;
        number(value)
    })
}

/// Reads a pressure file: `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and `full`.
pub(super) fn stall(text: &[u8]) -> Option<Stall> {
    let text = std::str::from_utf8(text).ok()?;
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        line.rsplit_once("total=")?.1.trim().parse().ok()
    };
    Some(Stall {
        some_usec: total("some ")?,
        full_usec: total("full ").unwrap_or_default(),
    })
}

/// Reads io.stat of v2: `8:0 rbytes=1 wbytes=2 rios=...`, one line per disk.
pub(super) fn io_stat(text: &[u8]) -> Option<Traffic> {
    let text = std::str::from_utf8(text).ok()?;
    let mut sum = Traffic::default();
    for word in text.split_ascii_whitespace() {
        if let Some(bytes) = word.strip_prefix("rbytes=") {
            sum.bytes_in = sum.bytes_in.saturating_add(bytes.parse().ok()?);
        } else if let Some(bytes) = word.strip_prefix("wbytes=") {
            sum.bytes_out = sum.bytes_out.saturating_add(bytes.parse().ok()?);
        }
    }
    Some(sum)
}

/// Reads blkio.throttle.io_service_bytes of v1: `8:0 Read 4096`, one line per disk and kind.
pub(super) fn blkio(text: &[u8]) -> Option<Traffic> {
    let text = std::str::from_utf8(text).ok()?;
    let mut sum = Traffic::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (Some(kind), Some(bytes)) = (words.next(), words.next()) else {
            continue;
        };
        match kind {
            "Read" => sum.bytes_in = sum.bytes_in.saturating_add(bytes.parse().ok()?),
            "Write" => sum.bytes_out = sum.bytes_out.saturating_add(bytes.parse().ok()?),
            _ => {}
        }
    }
    Some(sum)
}

/// The bytes of all links except loopback, and of each link, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links {
    pub sum: Traffic,
    pub each: Arc<[LinkTraffic]>,
}

/// Reads /proc/PID/net/dev. A zone chooses the names of its links: any bytes except white space,
/// colon and slash.
pub(super) fn links(text: &[u8]) -> Option<Links> {
    let mut sum = Traffic::default();
    let mut each = Vec::new();
    let lines = text.split(|byte| *byte == b'\n').skip(2);
    for line in lines.filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (link, figures) = (line[..colon].trim_ascii(), &line[colon + 1..]);
        if link == b"lo" {
            continue;
        }
        let mut figures = std::str::from_utf8(figures).ok()?.split_ascii_whitespace();
        let traffic = Traffic {
            bytes_in: figures.next()?.parse().ok()?,
            bytes_out: figures.nth(7)?.parse().ok()?,
        };
        sum = sum.plus(traffic);
        if each.len() < MAX_LINKS {
            let name = String::from_utf8_lossy(link).replace(char::is_control, "?");
            each.push(LinkTraffic { name, traffic });
        }
    }
    each.sort_by(|one, other| one.name.cmp(&other.name));
    Some(Links {
        sum,
        each: each.into(),
    })
}

/// Returns the busy time and the interrupt time of all CPUs from the first line of /proc/stat, in
/// hundredths of a second.
pub(super) fn busy(text: &[u8]) -> Option<(u64, u64)> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .take(7)
        .map_while(|word| word.parse().ok())
        .collect();
    // The fields in between are idle time and time of waiting for disks.
    let &[user, nice, system, _, _, interrupts, soft] = ticks.as_slice() else {
        return None;
    };
    let interrupts = interrupts.saturating_add(soft);
    let programs = user.saturating_add(nice).saturating_add(system);
    Some((programs.saturating_add(interrupts), interrupts))
}

/// Returns the number of CPUs in a list like `0-3,5`.
pub(super) fn cpus(text: &[u8]) -> Option<u64> {
    let list = limits::CpuSet::parse(std::str::from_utf8(text).ok()?);
    u64::try_from(list.len()).ok().filter(|cpus| *cpus > 0)
}

/// Returns the value of a line of /proc/meminfo, in bytes.
pub(super) fn meminfo(text: &str, key: &str) -> Option<u64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// A list of /proc/sysvipc: a header, and then a line for each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List<'a> {
    header: &'a str,
    rest: &'a str,
    /// The number of objects.
    pub count: u64,
}

/// Reads a list of /proc/sysvipc.
pub(super) fn list(text: &[u8]) -> Option<List<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    let (header, rest) = text.split_once('\n')?;
    let count = u64::try_from(rest.lines().count()).ok()?;
    Some(List {
        header,
        rest,
        count,
    })
}

impl List<'_> {
    /// Returns the segments of a list of shared memory, and the sum of their sizes.
    pub(super) fn shared_memory(&self) -> Option<Ipc> {
        let mut header = self.header.split_ascii_whitespace();
        let place = header.position(|word| word == "size")?;
        let mut bytes: u64 = 0;
        for line in self.rest.lines() {
            let size = line.split_ascii_whitespace().nth(place)?;
            bytes = bytes.saturating_add(size.parse().ok()?);
        }
        Some(Ipc {
            shm_memory: bytes,
            shm_ids: self.count,
            ..Ipc::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words() {
        assert_eq!(number(b"4096\n"), Some(4096));
        assert_eq!(number(b"max\n"), None);
        let text = b"usage_usec 12\nuser_usec 5\nsystem_usec 7\n";
        assert_eq!(keyed(text, "usage_usec"), Some(12));
        assert_eq!(keyed(text, "system_usec"), Some(7));
        assert_eq!(keyed(text, "usec"), None);
        assert_eq!(keyed(b"", "x"), None);
    }

    #[test]
    fn pressure() {
        let text = b"some avg10=1.00 avg60=2.00 avg300=3.00 total=44\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        let stall = stall(text).unwrap();
        assert_eq!((stall.some_usec, stall.full_usec), (44, 5));
        assert_eq!(super::stall(b"none"), None);
    }

    #[test]
    fn disks() {
        let v2 = b"8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0\n";
        let sum = Traffic {
            bytes_in: 11,
            bytes_out: 22,
        };
        assert_eq!(io_stat(v2), Some(sum));
        let v1 = b"8:0 Read 10\n8:0 Write 20\n8:0 Sync 9\n8:0 Total 30\n8:16 Read 1\n8:16 Write 2\nTotal 33\n";
        assert_eq!(blkio(v1), Some(sum));
        assert_eq!(io_stat(b""), Some(Traffic::default()));
    }

    #[test]
    fn links_without_loopback() {
        let text = b"Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  net0:       7       1    0    0    0     0          0         0        9       1    0    0    0     0       0          0
";
        let links = links(text).unwrap();
        assert_eq!((links.sum.bytes_in, links.sum.bytes_out), (7, 9));
        assert_eq!(links.each.len(), 1);
        assert_eq!(
            (&*links.each[0].name, links.each[0].traffic),
            ("net0", links.sum)
        );
    }

    #[test]
    fn links_with_names_that_a_zone_chose() {
        let mut text = b"Inter-|\n face |\n".to_vec();
        for (name, bytes) in [(&b"z\x1b[2J"[..], 1), (b"a\xff", 2)] {
            text.extend(name);
            text.extend(format!(": {bytes} 0 0 0 0 0 0 0 {bytes} 0 0 0 0 0 0 0\n").bytes());
        }
        let seen = links(&text).unwrap();
        assert_eq!((seen.sum.bytes_in, seen.sum.bytes_out), (3, 3));
        let names: Vec<&str> = seen.each.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["a\u{fffd}", "z?[2J"]);
        // A zone can make as many links as it likes.
        for number in 0..1000 {
            text.extend(format!("v{number}: 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n").bytes());
        }
        let many = links(&text).unwrap();
        assert_eq!((many.sum.bytes_in, many.each.len()), (1003, MAX_LINKS));
    }

    #[test]
    fn the_host() {
        let text = b"cpu  10 1 20 1000 50 2 3 9 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n";
        assert_eq!(busy(text), Some((36, 5)));
        assert_eq!(busy(b"cpu  1 2"), None);
        assert_eq!(cpus(b"0-3,5\n"), Some(5));
        assert_eq!(cpus(b"\n"), None);
        let text = "MemTotal:       2 kB\nMemFree:        1 kB\n";
        assert_eq!(meminfo(text, "MemFree"), Some(1024));
        assert_eq!(meminfo(text, "Mem"), None);
    }

    #[test]
    fn system_v() {
        let shm = "       key      shmid perms                  size  cpid\n  0 1 600 4096 7\n  0 2 600 8192 7\n";
        let shared = list(shm.as_bytes()).unwrap().shared_memory().unwrap();
        assert_eq!((shared.shm_memory, shared.shm_ids), (12_288, 2));
        assert_eq!(list(b"header\n  0 1\n").unwrap().count, 1);
        assert_eq!(list(b"header\n").unwrap().count, 0);
        assert_eq!(list(b"").map(|list| list.count), None);
        assert_eq!(list(b"header\n").unwrap().shared_memory(), None);
    }
}
