//! Prints counters and figures for Prometheus.
//!
//! The two formats of Prometheus name the type of a counter differently, so a text with the types
//! of counters is valid in one of them only. A client of the service chooses the format; the output
//! of `--openmetrics` omits those types and is valid in both formats.

use std::fmt::Write as _;

use stat::sample::{Pset, Stall, Traffic};
use stat::{Sample, ZoneSample};

/// The format in which a metric is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Valid in both formats.
    Both,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, 0.0.4.
    Prometheus,
}

impl Format {
    /// Returns the value of the HTTP header Content-Type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus | Self::Both => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// A number and the unit in which it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Whole(u64),
    /// Microseconds, printed as seconds.
    Micros(u64),
    /// Hundredths, printed as a decimal number.
    Hundredths(u64),
}

type Read = fn(&ZoneSample) -> Option<Number>;

/// The metrics of each zone: name, kind, help, and the function that returns the number.
const ZONE: &[(&str, Kind, &str, Read)] = &[
    (
        "zone_cpu_seconds",
        Kind::Counter,
        "CPU time of the zone since its boot, ended processes included.",
        |zone| Some(Number::Micros(zone.cpu_usec)),
    ),
    (
        "zone_memory_bytes",
        Kind::Gauge,
        "Memory that the kernel charges the zone with; shared pages are charged once.",
        |zone| zone.memory.map(Number::Whole),
    ),
    (
        "zone_swap_bytes",
        Kind::Gauge,
        "Swap space of the zone.",
        |zone| zone.swap.map(Number::Whole),
    ),
    (
        "zone_locked_bytes",
        Kind::Gauge,
        "Memory of the zone that cannot be swapped out.",
        |zone| zone.locked.map(Number::Whole),
    ),
    (
        "zone_processes",
        Kind::Gauge,
        "Processes in the zone.",
        |zone| zone.processes.map(Number::Whole),
    ),
    ("zone_lwps", Kind::Gauge, "Threads in the zone.", |zone| {
        zone.lwps.map(Number::Whole)
    }),
    (
        "zone_shm_bytes",
        Kind::Gauge,
        "System V shared memory of the zone.",
        |zone| zone.ipc.map(|ipc| Number::Whole(ipc.shm_memory)),
    ),
    (
        "zone_disk_read_bytes",
        Kind::Counter,
        "Bytes that the zone read from disks since its boot.",
        |zone| zone.disk.map(received),
    ),
    (
        "zone_disk_written_bytes",
        Kind::Counter,
        "Bytes that the zone wrote to disks since its boot.",
        |zone| zone.disk.map(sent),
    ),
    (
        "zone_network_received_bytes",
        Kind::Counter,
        "Bytes that the zone received since its boot.",
        |zone| zone.network.map(received),
    ),
    (
        "zone_network_sent_bytes",
        Kind::Counter,
        "Bytes that the zone sent since its boot.",
        |zone| zone.network.map(sent),
    ),
    (
        "zone_oom_kills",
        Kind::Counter,
        "Processes of the zone killed for want of memory since its boot.",
        |zone| zone.hits.map(|hits| Number::Whole(hits.oom_kills)),
    ),
    (
        "zone_memory_limit_hits",
        Kind::Counter,
        "How often memory of the zone was at its limit since its boot.",
        |zone| zone.hits.map(|hits| Number::Whole(hits.memory_full)),
    ),
    (
        "zone_lwps_refused",
        Kind::Counter,
        "Threads refused to the zone by its limit since its boot.",
        |zone| zone.hits.map(|hits| Number::Whole(hits.lwps_refused)),
    ),
    (
        "zone_cpu_cap_cpus",
        Kind::Gauge,
        "CPUs that the zone may use at most.",
        |zone| zone.setting.controls.cpu_cap.map(Number::Hundredths),
    ),
    (
        "zone_cpu_shares",
        Kind::Gauge,
        "CPU shares of the zone.",
        |zone| zone.setting.controls.cpu_shares.map(Number::Whole),
    ),
    (
        "zone_memory_limit_bytes",
        Kind::Gauge,
        "Memory that the zone may have at most.",
        |zone| zone.setting.controls.physical.map(Number::Whole),
    ),
    (
        "zone_virtual_memory_limit_bytes",
        Kind::Gauge,
        "Memory and swap space that the zone may have at most.",
        |zone| zone.setting.controls.swap.map(Number::Whole),
    ),
    (
        "zone_lwps_limit",
        Kind::Gauge,
        "Threads that the zone may have at most.",
        |zone| zone.setting.controls.max_lwps.map(Number::Whole),
    ),
    (
        "zone_processes_limit",
        Kind::Gauge,
        "Processes that the zone may have at most.",
        |zone| zone.setting.controls.max_processes.map(Number::Whole),
    ),
];

const fn received(traffic: Traffic) -> Number {
    Number::Whole(traffic.bytes_in)
}

const fn sent(traffic: Traffic) -> Number {
    Number::Whole(traffic.bytes_out)
}

/// Returns a sample as text, with the zones for which `wanted` is true.
pub fn text(sample: &Sample, format: Format, wanted: impl Fn(&ZoneSample) -> bool) -> String {
    let mut page = Page {
        format,
        text: String::new(),
    };
    let zones: Vec<&ZoneSample> = sample.zones.iter().filter(|zone| wanted(zone)).collect();
    host(&mut page, sample, &zones);
    for (name, kind, help, read) in ZONE {
        if zones.iter().any(|zone| read(zone).is_some()) {
            page.family(name, *kind, help);
            for zone in &zones {
                if let Some(number) = read(zone) {
                    page.sample(name, *kind, &[("zone", &zone.name)], number);
                }
            }
        }
    }
    links(&mut page, &zones);
    pressure(&mut page, &zones);
    page.family(
        "zone_info",
        Kind::Gauge,
        "An active zone, with its id, pset and kind as labels.",
    );
    for zone in &zones {
        let id = zone.id.to_string();
        let pset: &Pset = &zone.setting.pset;
        let kind = if zone.setting.kernel {
            "kernel"
        } else {
            "native"
        };
        let labels = [
            ("zone", &*zone.name),
            ("id", &id),
            ("pset", pset.name()),
            ("pset_type", pset.kind()),
            ("kind", kind),
        ];
        page.sample("zone_info", Kind::Gauge, &labels, Number::Whole(1));
    }
    page.text.push_str("# EOF\n");
    page.text
}

fn host(page: &mut Page, sample: &Sample, zones: &[&ZoneSample]) {
    let host = &sample.host;
    let used = |size: u64, free: u64| Number::Whole(size.saturating_sub(free));
    let count = zones.len() as u64;
    for (name, kind, help, number) in [
        (
            "zones_active",
            Kind::Gauge,
            "Active zones, without the global one.",
            Number::Whole(count),
        ),
        (
            "zones_host_cpus",
            Kind::Gauge,
            "CPUs of the host that run programs.",
            Number::Whole(host.online),
        ),
        (
            "zones_host_cpu_seconds",
            Kind::Counter,
            "Busy time of all CPUs since the host booted.",
            Number::Micros(host.busy_usec),
        ),
        (
            "zones_host_memory_bytes",
            Kind::Gauge,
            "Memory of the host.",
            Number::Whole(host.memory),
        ),
        (
            "zones_host_memory_used_bytes",
            Kind::Gauge,
            "Used memory of the host, cached files included.",
            used(host.memory, host.free),
        ),
        (
            "zones_host_swap_bytes",
            Kind::Gauge,
            "Swap space of the host.",
            Number::Whole(host.swap),
        ),
        (
            "zones_host_swap_used_bytes",
            Kind::Gauge,
            "Used swap space of the host.",
            used(host.swap, host.swap_free),
        ),
    ] {
        page.family(name, kind, help);
        page.sample(name, kind, &[], number);
    }
}

/// A metric of each link: name, help, and the function that returns the number.
type LinkFamily = (&'static str, &'static str, fn(Traffic) -> Number);

fn links(page: &mut Page, zones: &[&ZoneSample]) {
    if zones.iter().all(|zone| zone.links.is_empty()) {
        return;
    }
    let families: [LinkFamily; 2] = [
        (
            "zone_link_received_bytes",
            "Bytes that the zone received on a link since that was made.",
            received,
        ),
        (
            "zone_link_sent_bytes",
            "Bytes that the zone sent on a link since that was made.",
            sent,
        ),
    ];
    for (name, help, read) in families {
        page.family(name, Kind::Counter, help);
        for zone in zones {
            let mut last = None;
            for link in zone.links.iter() {
                // Two links have the same name in the output: a series has one value.
                if last.replace(&link.name) == Some(&link.name) {
                    continue;
                }
                let labels = [("zone", &*zone.name), ("link", link.name.as_str())];
                page.sample(name, Kind::Counter, &labels, read(link.traffic));
            }
        }
    }
}

fn pressure(page: &mut Page, zones: &[&ZoneSample]) {
    const NAME: &str = "zone_pressure_seconds";
    if zones.iter().all(|zone| zone.pressure.is_none()) {
        return;
    }
    page.family(
        NAME,
        Kind::Counter,
        "Time since its boot in which work of the zone waited.",
    );
    for zone in zones {
        let Some(pressure) = &zone.pressure else {
            continue;
        };
        let stalls: [(&str, &Stall); 3] = [
            ("cpu", &pressure.cpu),
            ("memory", &pressure.memory),
            ("io", &pressure.io),
        ];
        for (resource, stall) in stalls {
            for (who, usec) in [("some", stall.some_usec), ("full", stall.full_usec)] {
                let labels = [
                    ("zone", &*zone.name),
                    ("resource", resource),
                    ("waiting", who),
                ];
                page.sample(NAME, Kind::Counter, &labels, Number::Micros(usec));
            }
        }
    }
}

struct Page {
    format: Format,
    text: String,
}

impl Page {
    /// Writes the lines that precede the samples of one metric.
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let (suffix, word) = match (kind, self.format) {
            (Kind::Gauge, _) => ("", Some("gauge")),
            (Kind::Counter, Format::Both) => ("_total", None),
            (Kind::Counter, Format::OpenMetrics) => ("", Some("counter")),
            (Kind::Counter, Format::Prometheus) => ("_total", Some("counter")),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}");
        if let Some(word) = word {
            let _ = writeln!(self.text, "# TYPE {name}{suffix} {word}");
        }
    }

    fn sample(&mut self, name: &str, kind: Kind, labels: &[(&str, &str)], number: Number) {
        let suffix = match kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
        };
        let text = &mut self.text;
        let _ = write!(text, "{name}{suffix}");
        for (place, (key, value)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(text, "{before}{key}=\"{}\"", escaped(value));
        }
        if !labels.is_empty() {
            text.push('}');
        }
        let _ = match number {
            Number::Whole(value) => writeln!(text, " {value}"),
            Number::Micros(usec) => {
                writeln!(text, " {}.{:06}", usec / 1_000_000, usec % 1_000_000)
            }
            Number::Hundredths(value) => writeln!(text, " {}.{:02}", value / 100, value % 100),
        };
    }
}

/// Returns a value with escapes. Names of zones and pools need none today; a later kind of name
/// may.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests;
