//! Compares the configuration with which a zone runs with the wanted configuration. The result
//! lists the differences that can be changed while the zone runs, their order, and the differences
//! that need a reboot.
//!
//! Properties and resources are compared in the form in which `info` shows them, so that each
//! difference has one line: `Modifying fs dir=/data`. The order of resources does not matter.

mod cards;
mod disks;
mod size;

use std::fmt;

use crate::brands::Family;
use crate::config::{FileSystem, Resource, Value};
use crate::controls::Controls;
use crate::table::{GLOBAL, Kind, PropertySpec, RESOURCES, ResourceSpec};
use crate::{Config, table};

pub use size::{MEMORY_STEP, with_memory_of};

/// Types of file systems that belong to a namespace of the zone, and are mounted when the namespace
/// is created.
const OF_NAMESPACES: &[&str] = &["proc", "mqueue"];

/// Types of resources that are resource controls.
const CONTROLS: &[&str] = &["dedicated-cpu", "capped-cpu", "capped-memory", "rctl"];

/// The type of resource that sets the memory of a guest. The resource capped-memory also has limits
/// on QEMU.
const MEMORY: &str = "capped-memory";

/// Global properties that are resource controls, beside the aliases.
const OF_CONTROLS: &[&str] = &["pool"];

/// Types of resources that are network links.
const LINKS: &[&str] = &["net", "anet", PUBLISH];

/// The type of resource whose instances are rules of the host. Rules of the host can change even
/// while a guest runs.
const PUBLISH: &str = "publish";

/// Types of resources without effect on the running zone, because programs read the stored
/// configuration for them.
const ONLY_STORED: &[&str] = &["admin"];

/// Types of resources that programs read in the running configuration when they need them. A change
/// of the running configuration is all that such a resource needs.
const REMEMBERED: &[&str] = &["snapshots"];

/// The kind of a difference: an addition, a change or a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The property or resource is new.
    Adding,
    /// The property or resource has changed.
    Modifying,
    /// The property or resource is removed.
    Removing,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adding => "Adding",
            Self::Modifying => "Modifying",
            Self::Removing => "Removing",
        })
    }
}

/// A difference between two configurations, such as `Adding fs dir=/data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of the difference, for messages.
    pub action: Action,
    /// The object of the difference: a property, or the type of a resource and its key.
    pub subject: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, self.subject)
    }
}

/// A change of a running zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sets the resource controls of the zone.
    Control(Controls),
    /// Unmounts a file system.
    Unmount(FileSystem),
    /// Mounts a file system.
    Mount(FileSystem),
    /// Removes the devices that the pattern matches and no other pattern of the zone matches.
    RemoveDevices(String),
    /// Adds the devices that the pattern matches.
    AddDevices(String),
    /// Removes the disk with this number from a kernel zone.
    RemoveDisk(u32),
    /// Adds the disk with this number to a kernel zone.
    AddDisk(u32),
    /// Removes the network card on the link with this name from a kernel zone, and the link.
    RemoveCard(String),
    /// Makes the link with this name, and adds a network card on it to a kernel zone.
    AddCard(String),
    /// Grows a disk of a kernel zone.
    GrowDisk {
        /// The number of the disk.
        id: u32,
        /// The new size in bytes.
        size: u64,
    },
    /// Adds processors to a kernel zone until it has this number.
    Processors(u32),
    /// Grows the memory of a kernel zone to this number of bytes.
    Memory(u64),
    /// Changes the network links to those of the configuration after the step.
    Links,
    /// Changes only the recorded configuration of the running zone, because programs read the value
    /// when they need it.
    Remember,
}

/// A step, and the configuration with which the zone runs after the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The change of the running zone.
    pub act: Act,
    /// The configuration with which the zone runs after the step.
    pub after: Config,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Control(controls) if controls.is_empty() => {
                f.write_str("take away all resource controls")
            }
            Self::Control(controls) => write!(f, "set {controls}"),
            Self::Unmount(fs) => write!(f, "unmount {}", fs.dir.display()),
            Self::Mount(fs) => write!(f, "mount {} at {}", fs.special, fs.dir.display()),
            Self::RemoveDevices(pattern) => write!(f, "take away {pattern}"),
            Self::AddDevices(pattern) => write!(f, "show {pattern}"),
            Self::RemoveDisk(id) => write!(f, "remove disk {id}"),
            Self::AddDisk(id) => write!(f, "add disk {id}"),
            Self::RemoveCard(link) => write!(f, "remove network card {link}"),
            Self::AddCard(link) => write!(f, "add network card {link}"),
            Self::GrowDisk { id, size } => {
                write!(f, "grow disk {id} to {}", table::exact_size(*size))
            }
            Self::Processors(number) => write!(f, "give the machine {number} processors"),
            Self::Memory(bytes) => {
                write!(f, "grow the memory to {}", table::exact_size(*bytes))
            }
            Self::Links => f.write_str("change the network links"),
            Self::Remember => f.write_str("store the running configuration"),
        }
    }
}

/// The steps that change a running zone to another configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LivePlan {
    /// The differences that the steps change now.
    pub now: Vec<Difference>,
    /// The differences that take effect at the next boot of the zone, each with the reason.
    pub at_boot: Vec<(Difference, &'static str)>,
    /// The steps that change the running zone, in order.
    pub steps: Vec<Step>,
}

/// The places in a kernel zone's machine for parts that come and go while the zone runs, and the
/// room for more processors and memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The numbers of the disks in such places.
    pub removable: Vec<u32>,
    /// The links whose network cards are in such places.
    pub removable_cards: Vec<String>,
    /// The number of free places.
    pub free: usize,
    /// The most processors that the machine can have; 0 if their number cannot change.
    pub most_cpus: u32,
    /// The most memory in bytes that the machine can have; 0 if it cannot change.
    pub most_memory: u64,
}

const AT_BOOT: &str = "it takes effect when the zone boots";

/// Plans the change from the configuration with which a zone runs to another configuration.
///
/// The order of the steps is: limits, unmounts (inner file systems before outer ones), mounts,
/// devices, links.
///
/// For a kernel zone, the limits on QEMU, the published ports, and what `places` has room for change:
/// disks, network cards, processors, more memory. Other disks and cards, other properties of a card, and
/// less memory need a reboot. Memory is
/// the last step, because a guest may keep memory that it got, so that no other step can be undone to
/// the end.
#[must_use]
pub fn plan(running: &Config, wanted: &Config, places: &Places) -> LivePlan {
    let mut making = Making {
        plan: LivePlan::default(),
        now: running.clone(),
        wanted,
        running,
        memory: None,
    };
    making.globals();
    making.controls(places);
    match making.is_machine() {
        true => {
            making.processors(places);
            let mut free = places.free;
            making.disks(places, &mut free);
            making.cards(places, &mut free);
        }
        false => {
            making.file_systems();
            making.devices();
        }
    }
    making.links();
    making.remembered();
    making.memory();
    making.others();
    making.plan
}

struct Making<'a> {
    plan: LivePlan,
    /// The configuration after the steps that are planned so far.
    now: Config,
    running: &'a Config,
    wanted: &'a Config,
    /// The resource with the memory of the guest before and after, if it grows now.
    memory: Option<(Option<Resource>, Option<Resource>)>,
}

impl Making<'_> {
    fn is_machine(&self) -> bool {
        self.running.family() == Family::Kz
    }

    /// Returns true if a property of a resource control belongs to the guest of a kernel zone.
    fn is_of_machine(&self, spec: &ResourceSpec, property: &PropertySpec) -> bool {
        self.is_machine() && spec.name == MEMORY && property.alias().is_none()
    }

    fn step(&mut self, act: Act) {
        self.plan.steps.push(Step {
            act,
            after: self.now.clone(),
        });
    }

    fn globals(&mut self) {
        let mut remembered = false;
        let others =
            |spec: &&PropertySpec| spec.alias().is_none() && !OF_CONTROLS.contains(&spec.name);
        for spec in GLOBAL.iter().filter(others) {
            let (old, new) = (self.running.get(spec.name), self.wanted.get(spec.name));
            if old == new {
                continue;
            }
            let difference = property(spec, old, new);
            if !spec.live {
                self.plan.at_boot.push((difference, AT_BOOT));
                continue;
            }
            // The value was accepted in the wanted configuration, so this configuration accepts it
            // too.
            let _ = match new.is_empty() {
                true => self.now.clear(spec.name),
                false => self.now.set(spec.name, new),
            };
            self.plan.now.push(difference);
            remembered = true;
        }
        if remembered {
            self.step(Act::Remember);
        }
    }

    fn controls(&mut self, places: &Places) {
        let mut seen = Vec::new();
        let mut differences = Vec::new();
        for spec in GLOBAL {
            let alias = spec.alias();
            if alias.is_none() && !OF_CONTROLS.contains(&spec.name) {
                continue;
            }
            let (old, new) = (self.running.get(spec.name), self.wanted.get(spec.name));
            if old != new {
                seen.extend(alias.map(|alias| alias.rctl));
                differences.push(property(spec, old, new));
            }
        }
        let types = CONTROLS.iter().filter_map(|name| table::resource(name));
        let mut types: Vec<&'static ResourceSpec> = types.filter(|spec| spec.live).collect();
        for spec in types.iter().filter(|spec| spec.singleton) {
            let (old, new) = (self.running.instances(spec), self.wanted.instances(spec));
            let (old, new) = (old.first(), new.first());
            let changed = changed_properties(spec, old, new);
            let (fixed, changed): (Vec<_>, Vec<_>) = changed
                .into_iter()
                .partition(|property| self.is_of_machine(spec, property));
            if !fixed.is_empty() {
                let difference = Difference {
                    action: action(old.is_some(), new.is_some()),
                    subject: describe(spec, new.or(old), &fixed),
                };
                match self.why_memory_waits(&fixed, places) {
                    Some(why) => self.plan.at_boot.push((difference, why)),
                    None => {
                        self.memory = Some((old.cloned(), new.cloned()));
                        differences.push(difference);
                    }
                }
            }
            if changed.is_empty() {
                continue;
            }
            seen.extend(changed.iter().filter_map(|spec| Some(spec.alias()?.rctl)));
            differences.push(Difference {
                action: action(old.is_some(), new.is_some()),
                subject: describe(spec, new.or(old), &changed),
            });
        }
        // An rctl whose alias is already in the list is left out.
        let rctls = compare(self.running, self.wanted, "rctl");
        let rctls = rctls.into_iter().filter(|one| {
            let name = one
                .old
                .as_ref()
                .or(one.new.as_ref())
                .map_or("", |rctl| rctl.get("name"));
            !seen.contains(&name)
        });
        differences.extend(rctls.map(|one| one.difference));
        if differences.is_empty() {
            return;
        }
        self.plan.now.append(&mut differences);
        if self.is_machine() {
            types.retain(|spec| spec.name != MEMORY);
        }
        self.take_over(&types);
        for name in OF_CONTROLS {
            // The value was accepted in the wanted configuration, so this configuration accepts it
            // too.
            let _ = match self.wanted.get(name) {
                "" => self.now.clear(name),
                value => self.now.set(name, value),
            };
        }
        // The limit on QEMU grows before the memory. Until the memory has grown, the configuration
        // keeps the old size, so that a second attempt after a crash continues.
        let mut grown = self.now.clone();
        if let Some((old, new)) = &self.memory {
            size::take_over(&mut grown, old.as_ref(), new.as_ref());
        }
        self.step(Act::Control(Controls::of(&grown)));
    }

    /// Replaces all resources of some types with those of the wanted configuration.
    fn take_over(&mut self, types: &[&'static ResourceSpec]) {
        let is_one = |one: &Resource| types.contains(&one.spec());
        self.now.retain(|one| !is_one(one));
        for one in self.wanted.resources().iter().filter(|one| is_one(one)) {
            // The wanted configuration has at least as many resources, so this call does not fail.
            let _ = self.now.add_stored(one.clone());
        }
    }

    fn file_systems(&mut self) {
        let pairs = |config: &Config| -> Vec<(FileSystem, Resource)> {
            let resources = config.resources_of("fs").cloned();
            config.filesystems().zip(resources).collect()
        };
        let (old, new) = (pairs(self.running), pairs(self.wanted));
        let find = |list: &[(FileSystem, Resource)], fs: &FileSystem| {
            list.iter().find(|(one, _)| one.dir == fs.dir).cloned()
        };
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        for (fs, resource) in &old {
            match find(&new, fs) {
                Some((same, _)) if same == *fs => {}
                other => {
                    let action = action(true, other.is_some());
                    let fixed = is_bound(fs) || other.as_ref().is_some_and(|(fs, _)| is_bound(fs));
                    if self.file_system(action, fs, fixed) {
                        gone.push((fs.clone(), resource.clone()));
                        come.extend(other);
                    }
                }
            }
        }
        for (fs, resource) in &new {
            if find(&old, fs).is_none() && self.file_system(Action::Adding, fs, is_bound(fs)) {
                come.push((fs.clone(), resource.clone()));
            }
        }
        // If an unchanged file system is mounted inside a changed one, the unchanged one is
        // unmounted first and mounted again after the change.
        for (fs, resource) in old.iter().filter(|(fs, _)| !is_bound(fs)) {
            let stays = find(&new, fs).is_some_and(|(same, _)| same == *fs);
            let mut moved = gone.iter().chain(&come);
            if stays && moved.any(|(outer, _)| fs.dir.starts_with(&outer.dir)) {
                gone.push((fs.clone(), resource.clone()));
                come.extend(find(&new, fs));
            }
        }
        // Inner file systems are unmounted before outer ones, and siblings in the reverse order of
        // their mounts.
        gone.reverse();
        gone.sort_by_key(|(fs, _)| std::cmp::Reverse(fs.dir.components().count()));
        for (fs, resource) in gone {
            self.now.remove(&resource);
            self.step(Act::Unmount(fs));
        }
        // Outer file systems are mounted before inner ones.
        come.sort_by_key(|(fs, _)| {
            let place = new.iter().position(|(one, _)| one.dir == fs.dir);
            (fs.dir.components().count(), place)
        });
        for (fs, resource) in come {
            let _ = self.now.add(resource);
            self.order_file_systems(&new);
            self.step(Act::Mount(fs));
        }
    }

    /// Sorts the file systems into the order of the wanted configuration, which may differ from the
    /// order of the mounts.
    fn order_file_systems(&mut self, wanted: &[(FileSystem, Resource)]) {
        let mut list: Vec<Resource> = self.now.resources_of("fs").cloned().collect();
        list.sort_by_key(|one| wanted.iter().position(|(_, other)| other.is_same(one)));
        self.now.retain(|one| one.spec().name != "fs");
        for one in list {
            // The resource was in the configuration before, so this call does not fail.
            let _ = self.now.add(one);
        }
    }

    /// Records a difference. Returns true if the difference can be changed now.
    fn file_system(&mut self, action: Action, fs: &FileSystem, fixed: bool) -> bool {
        let difference = Difference {
            action,
            subject: format!("fs dir={}", fs.dir.display()),
        };
        if fixed {
            let why = "a file system of this type is made with the zone";
            self.plan.at_boot.push((difference, why));
        } else {
            self.plan.now.push(difference);
        }
        !fixed
    }

    fn devices(&mut self) {
        let pairs = |config: &Config| -> Vec<(String, Resource)> {
            let resources = config.resources_of("device");
            let resources = resources.filter(|device| device.has("match")).cloned();
            config.device_patterns().zip(resources).collect()
        };
        let (old, new) = (pairs(self.running), pairs(self.wanted));
        let has =
            |list: &[(String, Resource)], pattern: &str| list.iter().any(|(one, _)| one == pattern);
        for (action, from, to) in [(Action::Removing, &old, &new), (Action::Adding, &new, &old)] {
            for (pattern, resource) in from.iter().filter(|(pattern, _)| !has(to, pattern)) {
                self.plan.now.push(Difference {
                    action,
                    subject: format!("device match={pattern}"),
                });
                if action == Action::Removing {
                    self.now.remove(resource);
                    self.step(Act::RemoveDevices(pattern.clone()));
                } else {
                    let _ = self.now.add(resource.clone());
                    self.step(Act::AddDevices(pattern.clone()));
                }
            }
        }
    }

    fn links(&mut self) {
        let mut differences = Vec::new();
        let is_live = |name: &&&str| !self.is_machine() || **name == PUBLISH;
        let names: Vec<&str> = LINKS.iter().filter(is_live).copied().collect();
        for name in &names {
            let changed = compare(self.running, self.wanted, name);
            differences.extend(changed.into_iter().map(|one| one.difference));
        }
        if differences.is_empty() {
            return;
        }
        let types = names.iter().filter_map(|name| table::resource(name));
        self.take_over(&types.collect::<Vec<_>>());
        // If the ip-type changes, the network stack changes at the next boot. The links cannot
        // change before the network stack changes.
        if self.running.ip_type() != self.wanted.ip_type() {
            let differences = differences.into_iter();
            self.plan
                .at_boot
                .extend(differences.map(|one| (one, AT_BOOT)));
            return;
        }
        self.plan.now.append(&mut differences);
        self.step(Act::Links);
    }

    /// Takes over the resources of which the running configuration is the only user.
    fn remembered(&mut self) {
        let mut differences = Vec::new();
        for name in REMEMBERED {
            let changed = compare(self.running, self.wanted, name);
            differences.extend(changed.into_iter().map(|one| one.difference));
        }
        if differences.is_empty() {
            return;
        }
        let types = REMEMBERED.iter().filter_map(|name| table::resource(name));
        self.take_over(&types.collect::<Vec<_>>());
        self.plan.now.append(&mut differences);
        self.step(Act::Remember);
    }

    /// Records the differences that a running zone cannot change.
    fn others(&mut self) {
        for spec in RESOURCES {
            let is_control = CONTROLS.contains(&spec.name) && spec.live;
            let attached = spec.name == "fs" || LINKS.contains(&spec.name);
            let of_machine = self.is_machine() && spec.name == size::PROCESSORS;
            let always = of_machine || ["device", cards::ANET, PUBLISH].contains(&spec.name);
            let elsewhere = is_control || always || attached && !self.is_machine();
            let mut seen = ONLY_STORED.iter().chain(REMEMBERED);
            if elsewhere || seen.any(|name| *name == spec.name) {
                continue;
            }
            let differences = compare(self.running, self.wanted, spec.name);
            let differences = differences.into_iter();
            self.plan
                .at_boot
                .extend(differences.map(|one| (one.difference, AT_BOOT)));
        }
    }
}

/// A resource in the running and in the wanted configuration.
struct Compared {
    difference: Difference,
    old: Option<Resource>,
    new: Option<Resource>,
}

/// Returns the resources of one type that differ.
fn compare(running: &Config, wanted: &Config, name: &str) -> Vec<Compared> {
    let Some(spec) = table::resource(name) else {
        return Vec::new();
    };
    let (old, new) = (running.instances(spec), wanted.instances(spec));
    let same = |list: &[Resource], one: &Resource| {
        let found = list
            .iter()
            .find(|other| other.is_same(one) || spec.singleton);
        found.cloned()
    };
    let mut found = Vec::new();
    for one in &old {
        let other = same(&new, one);
        if other.as_ref() != Some(one) {
            let changed = changed_properties(spec, Some(one), other.as_ref());
            found.push(Compared {
                difference: Difference {
                    action: action(true, other.is_some()),
                    subject: describe(spec, other.as_ref().or(Some(one)), &changed),
                },
                old: Some(one.clone()),
                new: other,
            });
        }
    }
    for one in &new {
        if same(&old, one).is_none() {
            let changed = changed_properties(spec, None, Some(one));
            found.push(Compared {
                difference: Difference {
                    action: Action::Adding,
                    subject: describe(spec, Some(one), &changed),
                },
                old: None,
                new: Some(one.clone()),
            });
        }
    }
    found
}

fn is_bound(fs: &FileSystem) -> bool {
    OF_NAMESPACES.contains(&fs.fstype.as_str())
}

const fn action(was: bool, will_be: bool) -> Action {
    match (was, will_be) {
        (false, _) => Action::Adding,
        (true, true) => Action::Modifying,
        (true, false) => Action::Removing,
    }
}

fn changed_properties(
    spec: &'static ResourceSpec,
    old: Option<&Resource>,
    new: Option<&Resource>,
) -> Vec<&'static PropertySpec> {
    let differs = |property: &&PropertySpec| match (old, new) {
        (Some(old), Some(new)) => {
            old.get(property.name) != new.get(property.name)
                || old.list(property.name) != new.list(property.name)
        }
        (one, other) => one.or(other).is_some_and(|one| one.is_set(property.name)),
    };
    spec.properties.iter().filter(differs).collect()
}

/// Describes a resource by its type and keys: `fs dir=/data`. A singleton is described by its
/// changed properties.
fn describe(
    spec: &ResourceSpec,
    one: Option<&Resource>,
    changed: &[&'static PropertySpec],
) -> String {
    let mut text = spec.name.to_owned();
    let Some(one) = one else { return text };
    let keys = spec.keys.iter().filter_map(|key| spec.property(key));
    let keys: Vec<&PropertySpec> = match spec.singleton {
        true => changed.to_vec(),
        false => keys.filter(|key| one.has(key.name)).collect(),
    };
    for key in keys {
        let value = match key.is_list() {
            true => listed(one.list(key.name)),
            false => shown(key, one.get(key.name)),
        };
        text.push_str(&format!(" {}={value}", key.name));
    }
    text
}

fn listed(values: &[Value]) -> String {
    let texts = values.iter().filter_map(|value| match value {
        Value::Simple(text) => Some(text.as_str()),
        Value::Complex(_) | Value::List(_) => None,
    });
    format!("[{}]", texts.collect::<Vec<_>>().join(","))
}

fn property(spec: &PropertySpec, old: &str, new: &str) -> Difference {
    let value = if new.is_empty() { old } else { new };
    Difference {
        action: action(!old.is_empty(), !new.is_empty()),
        subject: format!("{}={}", spec.name, shown(spec, value)),
    }
}

fn shown(spec: &PropertySpec, value: &str) -> String {
    match (spec.kind, value.parse()) {
        (Kind::Size, Ok(bytes)) => table::exact_size(bytes),
        _ if value.contains(' ') => format!("\"{value}\""),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests;
