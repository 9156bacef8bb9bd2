//! Computes the resources that each zone used between two samples.
//!
//! This module only computes. Three rules make it more than a subtraction:
//!
//! - A zone is known by its id, which is new at every boot. The name of a zone is only for display:
//!   all boots under one name in an interval are one row.
//! - Zones are read one after the other. Each figure is scaled to the length of the interval by the
//!   time of its own reading.
//! - The CPU time of a zone between its last reading and its end is not in its own counter, but in
//!   the counter of all zones together. After the CPU time of the living zones is subtracted from
//!   that counter, the remainder belongs to the zones that have ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::controls::Controls;
use model::name::GLOBAL;

use crate::resource::{Figures, Resource};
use crate::sample::{
    Hits, Ipc, LinkTraffic, Pressure, Pset, Sample, Setting, Stall, Traffic, ZoneSample,
};

/// The number of millionths in one CPU, the unit of CPU figures.
pub const MILLION: u64 = 1_000_000;

/// The resources that each zone used between two samples, or over many intervals
/// ([`crate::Report`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// The end of the interval, in seconds since 1970.
    pub unix: u64,
    /// The length of the interval.
    pub elapsed: Duration,
    /// The number of CPUs of the host.
    pub cpus: u64,
    /// The number of CPUs that are online.
    pub online: u64,
    /// The host's amount of each resource; CPUs are in millionths.
    pub size: Figures,
    /// The use by the system and all zones together.
    pub total: Use,
    /// The use by the kernel, or by no particular zone.
    pub system: Use,
    /// The rows of zones: first the global zone, then the others by id.
    pub rows: Vec<Row>,
}

/// The used amounts of all resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// The amount of each resource; CPUs are in millionths.
    pub figures: Figures,
    /// CPU time in microseconds.
    pub cpu_usec: u64,
}

/// The row of a zone in an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the zone.
    pub name: Arc<str>,
    /// The last numeric id of the zone in this interval.
    pub id: u32,
    /// The amounts that the zone used. For a zone that has ended, only CPU time is left, and no
    /// memory.
    pub used: Use,
    /// The settings of the zone.
    pub setting: Arc<Setting>,
    /// The time for which the zone ran in the interval.
    pub ran: Duration,
    /// The time for which threads of the zone waited for resources.
    pub pressure: Option<Pressure>,
    /// Bytes that the zone read from disks and wrote to disks.
    pub disk: Option<Traffic>,
    /// Bytes that the zone received and sent.
    pub network: Option<Traffic>,
    /// Bytes through each link of the zone, in the order of the link names.
    pub links: Vec<LinkTraffic>,
    /// The number of times that the zone reached its limits.
    pub hits: Option<Hits>,
}

impl Row {
    /// Returns the limit of the zone for a resource, in the unit of its figures.
    #[must_use]
    pub fn cap(&self, resource: Resource) -> Option<u64> {
        let controls = &self.setting.controls;
        match resource {
            Resource::Cpu => controls
                .cpu_cap
                .map(|hundredths| hundredths.saturating_mul(MILLION / 100)),
            Resource::Physical => controls.physical,
            Resource::Virtual => controls.swap,
            Resource::Locked => controls.locked,
            Resource::Processes => controls.max_processes,
            Resource::Lwps => controls.max_lwps,
            Resource::Lofi => None,
            Resource::ShmMemory => controls.ipc.shm_memory,
            Resource::ShmIds => controls.ipc.shm_ids,
            Resource::SemIds => controls.ipc.sem_ids,
            Resource::MsgIds => controls.ipc.msg_ids,
        }
    }

    /// Returns how much of the limit the zone used, in hundredths of a percent.
    #[must_use]
    pub fn percent_of_cap(&self, resource: Resource) -> Option<u64> {
        percent(self.used.figures[resource]?, self.cap(resource)?)
    }

    /// Adds the bytes of another interval.
    pub(crate) fn add_traffic(&mut self, other: &Self) {
        let sum = |one: Option<Traffic>, two: Option<Traffic>| match (one, two) {
            (Some(one), Some(two)) => Some(one.plus(two)),
            (one, two) => one.or(two),
        };
        self.disk = sum(self.disk, other.disk);
        self.network = sum(self.network, other.network);
        for link in &other.links {
            match self.links.iter_mut().find(|known| known.name == link.name) {
                Some(known) => known.traffic = known.traffic.plus(link.traffic),
                None => self.links.push(link.clone()),
            }
        }
        self.links.sort_by(|one, other| one.name.cmp(&other.name));
    }

    /// Returns true if this is the row of the global zone.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.id == 0
    }
}

/// Returns a part of a whole, in hundredths of a percent; `None` if the whole is 0.
#[must_use]
pub fn percent(part: u64, whole: u64) -> Option<u64> {
    let percent = (u128::from(part) * 10_000).checked_div(u128::from(whole))?;
    Some(u64::try_from(percent).unwrap_or(u64::MAX))
}

/// Returns `value * numerator / denominator` without an overflow in between.
fn scale(value: u64, numerator: u128, denominator: u128) -> u64 {
    let scaled = (u128::from(value) * numerator).checked_div(denominator);
    u64::try_from(scaled.unwrap_or_default()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A quantity of the host, divided among its users.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    total: u64,
    system: u64,
    global: u64,
}

/// Divides a quantity: the parts of the zones are known, `system` belongs to no zone, and the rest
/// belongs to the global zone. No part is negative, the sum of the parts is the total, and the
/// total is not more than `size`. The readings may contradict these rules, because they are not of
/// the same moment.
fn divide(size: u64, total: u64, system: u64, zones: &mut [u64]) -> Parts {
    let sum: u128 = zones.iter().map(|used| u128::from(*used)).sum();
    if sum > u128::from(size) {
        for used in &mut *zones {
            *used = scale(*used, size.into(), sum);
        }
    }
    let sum: u64 = zones.iter().sum();
    let total = total.min(size).max(sum);
    let system = system.min(total - sum);
    Parts {
        total,
        system,
        global: total - sum - system,
    }
}

/// A zone with one id in an interval.
struct Part<'a> {
    last: &'a ZoneSample,
    before: Option<&'a ZoneSample>,
    is_over: bool,
    ran: Duration,
    /// The maximum CPU time that the zone can have used.
    most: u64,
    cpu_usec: u64,
}

impl Interval {
    /// Returns the use between the sample `before` and the later sample. An interval of length 0
    /// has no CPU time.
    #[must_use]
    pub fn between(first: &Sample, second: &Sample) -> Self {
        let elapsed = second.at.saturating_sub(first.at);
        let online = first.host.online.max(second.host.online);
        let mut interval = Self {
            unix: second.unix,
            elapsed,
            cpus: second.host.cpus.max(online),
            online,
            ..Self::default()
        };
        let mut parts = parts(first, second, elapsed, online);
        let mut cpu: Vec<u64> = parts.iter().map(|part| part.cpu_usec).collect();
        let capacity = online.saturating_mul(micros(elapsed));
        let host = |read: fn(&Sample) -> u64| read(second).saturating_sub(read(first));
        let of_cpu = divide(
            capacity,
            host(|sample| sample.host.busy_usec),
            host(|sample| sample.host.interrupt_usec),
            &mut cpu,
        );
        for (part, usec) in parts.iter_mut().zip(cpu) {
            part.cpu_usec = usec;
        }
        let global = Row {
            name: GLOBAL.into(),
            id: 0,
            used: Use {
                cpu_usec: of_cpu.global,
                ..Use::default()
            },
            setting: Arc::new(Setting {
                controls: Controls {
                    cpu_shares: second.global_shares,
                    ..Controls::default()
                },
                ..Setting::default()
            }),
            ran: elapsed,
            pressure: difference(first.host.pressure, second.host.pressure, Pressure::since),
            disk: None,
            network: difference(first.host.network, second.host.network, Traffic::since),
            links: Vec::new(),
            hits: None,
        };
        interval.rows.push(global);
        interval.rows.extend(rows(&parts));
        for row in &mut interval.rows {
            row.ran = row.ran.min(elapsed);
        }
        interval.system.cpu_usec = of_cpu.system;
        interval.total.cpu_usec = of_cpu.total;
        interval.amounts(second);
        interval.rates();
        if second.is_inside {
            interval.keep_to_own_zone();
        }
        interval
    }

    /// Inside a zone, the global zone counts as part of the system.
    fn keep_to_own_zone(&mut self) {
        if let Some(place) = self.rows.iter().position(Row::is_global) {
            let global = self.rows.remove(place).used;
            self.system.cpu_usec = self.system.cpu_usec.saturating_add(global.cpu_usec);
            self.system.figures = self.system.figures.plus(&global.figures);
        }
    }

    /// Converts CPU times to millionths of CPUs. The total is the sum of its rounded parts, and is
    /// not rounded itself.
    pub(crate) fn rates(&mut self) {
        let elapsed = u128::from(micros(self.elapsed));
        let rate = |usec: u64| Some(scale(usec, MILLION.into(), elapsed));
        self.size[Resource::Cpu] = Some(self.online.saturating_mul(MILLION));
        self.system.figures[Resource::Cpu] = rate(self.system.cpu_usec);
        let mut total = self.system.figures[Resource::Cpu].unwrap_or_default();
        for row in &mut self.rows {
            row.used.figures[Resource::Cpu] = rate(row.used.cpu_usec);
            total += row.used.figures[Resource::Cpu].unwrap_or_default();
        }
        self.total.figures[Resource::Cpu] = Some(total);
    }

    /// Computes all figures except CPU time: their values at the end of the interval.
    fn amounts(&mut self, sample: &Sample) {
        let host = &sample.host;
        let in_use = host.memory.saturating_sub(host.free);
        let kernel = in_use.saturating_sub(host.chargeable);
        let memory = Some((host.memory, in_use, kernel));
        self.amount(Resource::Physical, memory);
        let swap = Some((host.swap, host.swap.saturating_sub(host.swap_free), 0));
        // At this point the rows have only swap; the memory is added next.
        self.amount(Resource::Virtual, swap);
        let memory_too = |figures: &mut Figures| {
            let sum = figures[Resource::Virtual]
                .unwrap_or_default()
                .saturating_add(figures[Resource::Physical].unwrap_or_default());
            figures[Resource::Virtual] = figures[Resource::Physical].map(|_| sum);
        };
        for figures in self.rows.iter_mut().map(|row| &mut row.used.figures) {
            memory_too(figures);
        }
        memory_too(&mut self.size);
        memory_too(&mut self.total.figures);
        memory_too(&mut self.system.figures);

        let simple = |size: Option<u64>, total: Option<u64>| {
            total.map(|total| (size.unwrap_or(u64::MAX), total, 0))
        };
        let locked = simple(Some(host.memory), host.locked);
        self.amount(Resource::Locked, locked);
        self.amount(
            Resource::Processes,
            simple(host.max_processes, host.processes),
        );
        self.amount(Resource::Lwps, simple(host.max_lwps, host.lwps));
        for row in &mut self.rows[1..] {
            row.used.figures[Resource::Lofi] = host.lofi.map(|_| 0);
        }
        self.amount(Resource::Lofi, simple(None, host.lofi));
        for (resource, read) in IPC {
            // Each zone has its own traffic. The traffic of the host belongs to the global zone.
            let zones: u64 = self
                .rows
                .iter()
                .filter_map(|row| row.used.figures[resource])
                .fold(0, u64::saturating_add);
            let total = host.ipc.as_ref().map(|ipc| read(ipc).saturating_add(zones));
            self.amount(resource, simple(None, total));
            self.size[resource] = host.max_ipc.as_ref().map(read);
        }
    }

    /// Divides one resource. `whole` has the host's amount, the total use, and the use by the
    /// system.
    fn amount(&mut self, resource: Resource, whole: Option<(u64, u64, u64)>) {
        let Some((size, total, system)) = whole else {
            for row in &mut self.rows {
                row.used.figures[resource] = None;
            }
            return;
        };
        let zones = &mut self.rows[1..];
        let mut used: Vec<u64> = zones
            .iter()
            .map(|row| row.used.figures[resource].unwrap_or_default())
            .collect();
        let parts = divide(size, total, system, &mut used);
        for (row, used) in zones.iter_mut().zip(used) {
            let figure = &mut row.used.figures[resource];
            *figure = figure.map(|_| used);
        }
        self.rows[0].used.figures[resource] = Some(parts.global);
        self.size[resource] = Some(size).filter(|size| *size < u64::MAX);
        self.total.figures[resource] = Some(parts.total);
        self.system.figures[resource] = Some(parts.system);
    }
}

type OfIpc = (Resource, fn(&Ipc) -> u64);

const IPC: [OfIpc; 4] = [
    (Resource::ShmMemory, |ipc| ipc.shm_memory),
    (Resource::ShmIds, |ipc| ipc.shm_ids),
    (Resource::SemIds, |ipc| ipc.sem_ids),
    (Resource::MsgIds, |ipc| ipc.msg_ids),
];

/// Returns the zones of an interval with their CPU time, each scaled to the length of the interval.
fn parts<'a>(
    first: &'a Sample,
    second: &'a Sample,
    elapsed: Duration,
    online: u64,
) -> Vec<Part<'a>> {
    let before: HashMap<u32, &ZoneSample> =
        first.zones.iter().map(|zone| (zone.id, zone)).collect();
    let ended = second.ended.iter().map(|zone| (zone, true));
    let live = second.zones.iter().map(|zone| (zone, false));
    // The CPU time of all zones together, without the known time of each.
    let mut rest = difference(first.zones_cpu, second.zones_cpu, |now, then| {
        let usec = now.usec.saturating_sub(then.usec);
        let span = now.at.saturating_sub(then.at);
        scale(usec, elapsed.as_micros(), span.as_micros())
    })
    .unwrap_or_default();
    let mut parts: Vec<Part<'a>> = ended
        .chain(live)
        .map(|(last, is_over)| {
            let before = before.get(&last.id).copied();
            let cpu_usec = match before {
                // The zone was being booted, or could not be read: see below.
                None if last.booted < first.at => 0,
                None => last.cpu_usec,
                Some(before) => {
                    let usec = last.cpu_usec.saturating_sub(before.cpu_usec);
                    let span = last.at.saturating_sub(before.at);
                    if is_over {
                        usec
                    } else {
                        scale(usec, elapsed.as_micros(), span.as_micros())
                    }
                }
            };
            let begin = last.booted.max(first.at);
            let end = if is_over { last.at } else { second.at };
            let most = most_cpus(last, before, online).saturating_mul(micros(elapsed));
            let cpu_usec = cpu_usec.min(most);
            rest = rest.saturating_sub(cpu_usec);
            Part {
                last,
                before,
                is_over,
                ran: end.saturating_sub(begin).min(elapsed),
                most,
                cpu_usec,
            }
        })
        .collect();
    // If a zone may have used CPU time before the interval began, its part is at most the
    // remainder.
    for part in &mut parts {
        if part.before.is_none() && part.last.booted < first.at {
            part.cpu_usec = part.last.cpu_usec.min(rest).min(part.most);
            rest -= part.cpu_usec;
        }
    }
    // The zones that ended in one interval share the remainder equally, because their real parts
    // are not known.
    let mut ends = u64::try_from(second.ended.len()).unwrap_or(u64::MAX);
    for part in parts.iter_mut().filter(|part| part.is_over) {
        let share = rest / ends.max(1);
        let more = share.min(part.most.saturating_sub(part.cpu_usec));
        part.cpu_usec += more;
        rest -= more;
        ends = ends.saturating_sub(1);
    }
    parts
}

/// Returns the maximum number of CPUs that a zone can have used at one time.
fn most_cpus(last: &ZoneSample, before: Option<&ZoneSample>, online: u64) -> u64 {
    let cpus = |zone: &ZoneSample| match &zone.setting.pset {
        Pset::Default => online,
        Pset::Pool { cpus, .. } | Pset::Dedicated { cpus, .. } => (*cpus).min(online),
    };
    before.map_or(0, cpus).max(cpus(last))
}

/// Returns one row for each name.
fn rows(parts: &[Part<'_>]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::with_capacity(parts.len());
    let mut places: HashMap<&str, usize> = HashMap::new();
    for part in parts {
        let new = row(part);
        match places.get(&*part.last.name) {
            // The later boot has the greater id, unless the ids have started again at 1.
            Some(&place) => merge(&mut rows[place], new, part.is_over),
            None => {
                places.insert(&part.last.name, rows.len());
                rows.push(new);
            }
        }
    }
    rows.sort_by_key(|row| row.id);
    rows
}

fn row(part: &Part<'_>) -> Row {
    let zone = part.last;
    let mut figures = Figures::default();
    // The field of virtual memory holds only swap until the memory is added to it.
    for (resource, figure) in [
        (Resource::Physical, zone.memory),
        (
            Resource::Virtual,
            zone.swap.filter(|_| zone.memory.is_some()),
        ),
        (Resource::Locked, zone.locked),
        (Resource::Processes, zone.processes),
        (Resource::Lwps, zone.lwps),
    ] {
        figures[resource] = figure;
    }
    for (resource, read) in IPC {
        figures[resource] = zone.ipc.as_ref().map(read);
    }
    if part.is_over {
        for resource in Resource::ALL {
            figures[resource] = figures[resource].map(|_| 0);
        }
    }
    let before = part.before;
    Row {
        name: Arc::clone(&zone.name),
        id: zone.id,
        used: Use {
            figures,
            cpu_usec: part.cpu_usec,
        },
        setting: Arc::clone(&zone.setting),
        ran: part.ran,
        pressure: since_boot(before, zone, |zone| zone.pressure, Pressure::since),
        disk: since_boot(before, zone, |zone| zone.disk, Traffic::since),
        network: since_boot(before, zone, |zone| zone.network, Traffic::since),
        links: links_since(before, zone),
        hits: since_boot(before, zone, |zone| zone.hits, Hits::since),
    }
}

/// Adds the use of another boot under the same name.
fn merge(row: &mut Row, other: Row, other_is_over: bool) {
    let figures = row.used.figures.plus(&other.used.figures);
    let cpu_usec = row.used.cpu_usec.saturating_add(other.used.cpu_usec);
    row.add_traffic(&other);
    let (disk, network) = (row.disk, row.network);
    let links = std::mem::take(&mut row.links);
    let ran = row.ran + other.ran;
    // Boots that have ended come first, so the settings of the last one count.
    if !other_is_over || other.id > row.id {
        *row = other;
    }
    row.used = Use { figures, cpu_usec };
    (row.disk, row.network, row.links, row.ran) = (disk, network, links, ran);
}

/// Returns the traffic of each link since the previous sample. For a link that was recreated under
/// its name, the count starts at 0.
fn links_since(before: Option<&ZoneSample>, zone: &ZoneSample) -> Vec<LinkTraffic> {
    let known = before.map(|before| &before.links);
    let since = |link: &LinkTraffic| {
        let mut then = known.into_iter().flat_map(|links| links.iter());
        let then = then.find(|then| then.name == link.name);
        let then = then.map(|then| then.traffic).unwrap_or_default();
        let now = link.traffic;
        let is_new = now.bytes_in < then.bytes_in || now.bytes_out < then.bytes_out;
        LinkTraffic {
            name: link.name.clone(),
            traffic: if is_new { now } else { now.since(then) },
        }
    };
    zone.links.iter().map(since).collect()
}

/// Returns the increase of a counter that was 0 when the zone booted.
fn since_boot<T: Copy + Default>(
    before: Option<&ZoneSample>,
    zone: &ZoneSample,
    read: impl Fn(&ZoneSample) -> Option<T>,
    since: impl Fn(T, T) -> T,
) -> Option<T> {
    let then = match before {
        Some(before) => read(before)?,
        None => T::default(),
    };
    Some(since(read(zone)?, then))
}

fn difference<T, U>(first: Option<T>, second: Option<T>, since: impl Fn(T, T) -> U) -> Option<U> {
    Some(since(second?, first?))
}

impl Pressure {
    fn since(self, then: Self) -> Self {
        Self {
            cpu: self.cpu.since(then.cpu),
            memory: self.memory.since(then.memory),
            io: self.io.since(then.io),
        }
    }
}

impl Stall {
    fn since(self, then: Self) -> Self {
        Self {
            some_usec: self.some_usec.saturating_sub(then.some_usec),
            full_usec: self.full_usec.saturating_sub(then.full_usec),
        }
    }
}

impl Traffic {
    fn since(self, then: Self) -> Self {
        Self {
            bytes_in: self.bytes_in.saturating_sub(then.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(then.bytes_out),
        }
    }

    /// The sum of both users.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            bytes_in: self.bytes_in.saturating_add(other.bytes_in),
            bytes_out: self.bytes_out.saturating_add(other.bytes_out),
        }
    }
}

impl Hits {
    fn since(self, then: Self) -> Self {
        Self {
            oom_kills: self.oom_kills.saturating_sub(then.oom_kills),
            memory_full: self.memory_full.saturating_sub(then.memory_full),
            lwps_refused: self.lwps_refused.saturating_sub(then.lwps_refused),
        }
    }
}

#[cfg(test)]
mod tests;
