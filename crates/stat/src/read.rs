//! Reads the counters of the kernel.
//!
//! A zone is looked up once, when its state file appears: the paths of its counters, and its
//! settings. A sample then costs a pread of two or three open files per zone, and of some twenty if all
//! counters are wanted and the zone has used CPU time since the sample before. Most counters of a zone
//! whose processes all slept cannot have changed. The files of IPC objects and of links are opened for
//! each sample, because an open one would keep the namespace of a halted zone. inotify reports zones
//! that start and end. A zone that begins to shut down is read at that moment, so that little of its
//! use has to be estimated.

mod file;
mod groups;
mod hits;
mod host;
mod ipc;
mod parse;
mod setting;
pub(crate) mod wants;
mod watch;
mod zone;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::{State, ZoneName};
use rustix::time::{ClockId, clock_gettime};
use store::labels::{Shown, UNREADABLE};
use store::{Root, runtime};

use crate::sample::{Counter, Pset, Sample, ZoneSample};
use file::{Budget, File};
use wants::Wants;
use watch::Watch;
use zone::Zone;

/// Maximum number of samples between two reads of a zone's settings and state.
const MAX_SAMPLES_UNREVIEWED: usize = 60;

/// Takes samples of the host and its zones.
#[derive(Debug)]
pub struct Sampler {
    root: Root,
    wants: Wants,
    watch: Option<Watch>,
    zones: BTreeMap<ZoneName, Zone>,
    /// The last samples of zones that have ended since the previous sample.
    ended: Vec<ZoneSample>,
    /// The control group of all zones, and the one of the zoneadmds in it.
    group: PathBuf,
    group_cpu: File,
    daemons_cpu: File,
    host: host::Host,
    budget: Budget,
    buffer: Vec<u8>,
    /// The index of the zone at which the next check of settings starts.
    next: usize,
    /// True if the caller is inside a zone and sees only this zone.
    is_inside: bool,
}

impl Sampler {
    /// Returns a sampler of the active zones below a root. `files` is the number of kernel files
    /// that the sampler may keep open. If more are needed, the sampler opens the others for each
    /// sample.
    #[must_use]
    pub fn new(root: Root, wants: Wants, files: usize) -> Self {
        let mut sampler = Self {
            root,
            wants,
            watch: None,
            zones: BTreeMap::new(),
            ended: Vec::new(),
            group: PathBuf::new(),
            group_cpu: File::Unknown,
            daemons_cpu: File::Unknown,
            host: host::Host::default(),
            budget: Budget(files),
            buffer: Vec::new(),
            next: 0,
            is_inside: false,
        };
        sampler.look_at_all();
        sampler
    }

    /// Returns a sampler of the zone in which the caller is, or `None` if that zone does not see
    /// its own control group. All use outside the zone counts as the system's.
    #[must_use]
    pub fn inside(name: &str, id: u32, wants: Wants) -> Option<Self> {
        let group = zone::own_group()?;
        // This path has no state files, because a zone sees no other zone.
        let mut sampler = Self::new(Root::new(&group), wants, 64);
        let zone = Zone::own(name, id, group)?;
        sampler.zones.insert(name.parse().ok()?, zone);
        sampler.is_inside = true;
        Some(sampler)
    }

    /// Returns a descriptor that is readable when zones start or end; the caller then calls
    /// [`Sampler::notice`]. `None` if the kernel does not report this; samples are correct all the
    /// same.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(Watch::descriptor)
    }

    /// Finds the zones that have started or ended.
    pub fn notice(&mut self) {
        let Some(watch) = &self.watch else { return };
        match watch.news() {
            Some(news) => {
                for zone in &news.zones {
                    self.look_at(zone);
                }
                if news.missed {
                    self.look_at_all();
                }
            }
            None => self.watch = None,
        }
    }

    /// Takes a sample.
    pub fn sample(&mut self) -> Sample {
        if !self.is_inside {
            self.notice();
            if self.watch.is_none() {
                self.look_at_all();
            }
            self.review();
        }
        let zones_cpu = self.zones_cpu();
        let mut gone = Vec::new();
        for (name, zone) in &mut self.zones {
            if !zone.read(now(), self.wants, &mut self.budget, &mut self.buffer) {
                gone.push(name.clone());
            }
        }
        for name in gone {
            self.end(&name);
        }
        if self.wants.ipc {
            let zones = self.zones.values_mut();
            let mut fresh: Vec<&mut Zone> = zones.filter(|zone| zone.is_fresh).collect();
            let processes: Vec<i32> = fresh.iter().map(|zone| zone.ipc_process()).collect();
            let found = ipc::of(&processes, &mut self.buffer);
            for (zone, ipc) in fresh.iter_mut().zip(found) {
                zone.last.ipc = ipc;
            }
        }
        for zone in self.zones.values_mut() {
            zone.is_fresh = false;
        }
        let host = self
            .host
            .read(self.wants, &mut self.budget, &mut self.buffer);
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut zones: Vec<ZoneSample> = self.zones.values().map(|z| z.last.clone()).collect();
        zones.sort_by_key(|zone| zone.id);
        Sample {
            at: now(),
            unix: unix.unwrap_or_default().as_secs(),
            host,
            zones_cpu,
            zones,
            ended: std::mem::take(&mut self.ended),
            is_inside: self.is_inside,
            global_shares: self.global_shares(),
        }
    }

    /// Returns the CPU time of all zones together, without that of the zoneadmds.
    fn zones_cpu(&mut self) -> Option<Counter> {
        if self.group.as_os_str().is_empty() {
            return None;
        }
        let at = now();
        let mut read = |file: &mut File, group: &Path| {
            let text = file.read(group, "cpu.stat", &mut self.budget, &mut self.buffer);
            let usec = text.ok().and_then(|text| parse::keyed(text, "usage_usec"));
            if usec.is_none() {
                // The group is gone until the next zone starts.
                file.close(&mut self.budget);
                *file = File::Unknown;
            }
            usec
        };
        let daemons = read(&mut self.daemons_cpu, &self.group.join(".zoneadmd"));
        let all = read(&mut self.group_cpu, &self.group)?;
        let usec = all.saturating_sub(daemons.unwrap_or_default());
        Some(Counter { at, usec })
    }

    fn global_shares(&self) -> Option<u64> {
        let base = limits::Base {
            v2: self.group.clone(),
            v1: Vec::new(),
            v1_on_demand: Vec::new(),
            v1_shared: Vec::new(),
        };
        limits::global_shares(&base)
    }

    /// Reads all state files, and watches them from then on.
    fn look_at_all(&mut self) {
        let folder = self.root.run();
        if self.watch.is_none() {
            // The watch starts first, so that no change in between is missed.
            self.watch = Watch::new(&folder);
        }
        let mut there: Vec<ZoneName> = self.zones.keys().cloned().collect();
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        there.extend(entries.filter_map(|entry| watch::of_state_file(entry.file_name().to_str()?)));
        there.sort();
        there.dedup();
        for zone in there {
            self.look_at(&zone);
        }
    }

    /// Reads the state file of a zone.
    fn look_at(&mut self, name: &ZoneName) {
        // A zone with an unreadable state file is left out: `zoneadm list` prints the error.
        let found = runtime::load_any(&self.root, name).ok().flatten();
        let Some(found) = found else {
            // The groups of the zone may still exist, with its last figures.
            if let Some(zone) = self.zones.get_mut(name) {
                zone.read(now(), self.wants, &mut self.budget, &mut self.buffer);
                self.end(name);
            }
            return;
        };
        if let Some(zone) = self.zones.get_mut(name) {
            if zone.runtime.id == found.id {
                if found.state == State::ShuttingDown {
                    zone.read(now(), self.wants, &mut self.budget, &mut self.buffer);
                }
                let is_other = zone.runtime != found;
                zone.runtime = found;
                if is_other {
                    zone.review(name, &self.root);
                }
                return;
            }
            self.end(name);
        }
        if !found.init.is_alive() {
            return;
        }
        // zoneadm prints the error of a configuration that cannot be read.
        let label = Shown::of_host(&self.root).of_zone(name);
        let label = label.unwrap_or_else(|_| Some(UNREADABLE.to_owned()));
        if let Some(mut zone) = Zone::new(name, found, &self.root, label) {
            if let Some(group) = zone.runtime.cgroups.first().and_then(|path| path.parent()) {
                if self.group != group {
                    self.group = group.to_owned();
                    self.group_cpu.close(&mut self.budget);
                    self.daemons_cpu.close(&mut self.budget);
                }
            }
            zone.read(now(), self.wants, &mut self.budget, &mut self.buffer);
            self.zones.insert(name.clone(), zone);
        }
    }

    /// Checks some of the zones at each sample: if they live, and their settings. This finds limits
    /// that a user wrote directly to a control group.
    fn review(&mut self) {
        let count = self.zones.len() / MAX_SAMPLES_UNREVIEWED + 1;
        let names = self.zones.keys().skip(self.next).take(count).cloned();
        let mut names: Vec<ZoneName> = names.collect();
        self.next = if names.len() < count {
            0
        } else {
            self.next + count
        };
        // The CPUs of pools and of single zones change whenever another zone claims CPUs.
        let has_own = |zone: &Zone| zone.last.setting.pset != Pset::Default;
        let own = self.zones.iter().filter(|(_, zone)| has_own(zone));
        names.extend(own.map(|(name, _)| name.clone()));
        for name in names {
            match self.zones.get_mut(&name) {
                Some(zone) if zone.runtime.init.is_alive() => zone.review(&name, &self.root),
                // zoneadmd is tearing the zone down, or has died together with it.
                Some(_) => self.end(&name),
                None => {}
            }
        }
    }

    /// Removes a zone that has ended, and keeps its last figures.
    fn end(&mut self, name: &ZoneName) {
        if let Some(zone) = self.zones.remove(name) {
            self.ended.push(zone.close(&mut self.budget));
        }
    }
}

/// Returns the time since the host booted.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_keeps_its_label_while_it_is_active() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let group = dir.path().join("zones/high");
        for folder in [&root.etc(), &root.run(), &group] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(group.join("cpu.stat"), "usage_usec 1\n").unwrap();
        let name: ZoneName = "high".parse().unwrap();
        let mut config = model::Config::new(name.clone());
        config.set_zonepath("/zones/high").unwrap();
        config.set("label", "0x0004-08-68").unwrap();
        store::xml::save(&root, &config).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let mut runtime = zone::tests::runtime(vec![group]);
        runtime.init = runtime::Process::find(own).unwrap();
        runtime::save(&root, &name, &runtime).unwrap();
        let sampler = || Sampler::new(root.clone(), Wants::default(), 10);
        // Each sample reads the settings of this zone again.
        let label = |sampler: &mut Sampler| sampler.sample().zones[0].setting.label.clone();
        assert_eq!(label(&mut sampler()), None);
        fs::write(root.label_encodings(), "").unwrap();
        let mut early = sampler();
        assert_eq!(label(&mut early).as_deref(), Some("0x0004-08-68"));
        fs::write(root.xml(&name), "<zone label=").unwrap();
        assert_eq!(label(&mut early).as_deref(), Some("0x0004-08-68"));
        assert_eq!(label(&mut sampler()).as_deref(), Some(UNREADABLE));
    }

    #[test]
    fn a_host_without_zones() {
        let dir = tempfile::tempdir().unwrap();
        let mut sampler = Sampler::new(Root::new(dir.path()), Wants::default(), 10);
        let first = sampler.sample();
        assert!(sampler.descriptor().is_none());
        fs::create_dir_all(dir.path().join("run/zones")).unwrap();
        let second = sampler.sample();
        assert!(sampler.descriptor().is_some());
        assert!(first.zones.is_empty() && second.at > first.at);
        fs::write(dir.path().join("run/zones/web.state"), "{").unwrap();
        assert!(sampler.sample().zones.is_empty());
    }
}
