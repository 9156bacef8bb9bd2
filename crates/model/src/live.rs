//! Compares the configuration that a zone runs with and the one it is to have: which differences
//! can be changed while it runs, in which order, and which need a reboot.
//!
//! Everything is compared as people see it, so that each difference has one line:
//! `Modifying fs dir=/data`. The order of resources does not matter.

use std::fmt;

use crate::brands::Family;
use crate::config::{FileSystem, Resource, Value};
use crate::controls::Controls;
use crate::table::{GLOBAL, Kind, PropertySpec, RESOURCES, ResourceSpec};
use crate::{Config, table};

/// Kinds of file systems that belong to namespaces which are made with the zone.
const OF_NAMESPACES: &[&str] = &["proc", "mqueue"];

/// Types of resources that are resource controls.
const CONTROLS: &[&str] = &["dedicated-cpu", "capped-cpu", "capped-memory", "rctl"];

/// The type of resource that gives a machine its memory; limits on QEMU stand beside it.
const MEMORY: &str = "capped-memory";

/// Global properties that are resource controls, beside those with another name.
const OF_CONTROLS: &[&str] = &["pool"];

/// Types of resources that are network links.
const LINKS: &[&str] = &["net", "anet", PUBLISH];

/// Type of resources that are rules of the host: they also change while a machine runs.
const PUBLISH: &str = "publish";

/// Has no effect on the running zone: rights are looked up in the stored configuration.
const ONLY_STORED: &[&str] = &["admin"];

/// The action of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was not there.
    Adding,
    /// It was there, otherwise.
    Modifying,
    /// It is not to be there any more.
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

/// A difference: `Adding fs dir=/data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The action, for messages.
    pub action: Action,
    /// The object of the step: the type of a resource and its key, or a property.
    pub subject: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, self.subject)
    }
}

/// Something that is done to a running zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sets the resource controls that the zone is to have.
    Control(Controls),
    /// Unmounts a file system.
    Unmount(FileSystem),
    /// Mounts one.
    Mount(FileSystem),
    /// Takes away the devices that only this pattern matches.
    RemoveDevices(String),
    /// Shows the devices that match.
    AddDevices(String),
    /// Makes the links those of the configuration after the step.
    Links,
    /// No step: the changed value is read when it is needed.
    Remember,
}

/// A step, and the configuration that the zone runs with once it is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The operation.
    pub act: Act,
    /// The configuration of the zone after the change.
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
            Self::Links => f.write_str("change the network links"),
            Self::Remember => f.write_str("store the running configuration"),
        }
    }
}

/// The steps that give a running zone another configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LivePlan {
    /// The differences that are changed now.
    pub now: Vec<Difference>,
    /// The differences that take effect when the zone boots the next time, with the reason.
    pub at_boot: Vec<(Difference, &'static str)>,
    /// The steps to take.
    pub steps: Vec<Step>,
}

const AT_BOOT: &str = "it takes effect when the zone boots";

/// Plans the way from the configuration that a zone runs with to another one.
///
/// Limits come first, then unmounts, inner file systems before outer ones, then mounts, then
/// devices, then links.
///
/// Of a kernel zone only limits, as they hold for QEMU, and published ports change: memory, disks
/// and cards are those of its machine.
#[must_use]
pub fn plan(running: &Config, wanted: &Config) -> LivePlan {
    let mut making = Making {
        plan: LivePlan::default(),
        now: running.clone(),
        wanted,
        running,
    };
    making.globals();
    making.controls();
    if !making.is_machine() {
        making.file_systems();
        making.devices();
    }
    making.links();
    making.others();
    making.plan
}

struct Making<'a> {
    plan: LivePlan,
    /// The configuration after the steps so far.
    now: Config,
    running: &'a Config,
    wanted: &'a Config,
}

impl Making<'_> {
    fn is_machine(&self) -> bool {
        self.running.family() == Family::Kz
    }

    /// Returns whether a property of a resource control is one of the machine of a kernel zone.
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
            // The value was checked in one configuration, so the other accepts it.
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

    fn controls(&mut self) {
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
                self.plan.at_boot.push((difference, AT_BOOT));
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
        // Limits that have another name were named by it.
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
            // The value was checked in one configuration, so the other accepts it.
            let _ = match self.wanted.get(name) {
                "" => self.now.clear(name),
                value => self.now.set(name, value),
            };
        }
        self.step(Act::Control(Controls::of(&self.now)));
    }

    /// Replaces all resources of some types by those that are wanted.
    fn take_over(&mut self, types: &[&'static ResourceSpec]) {
        let is_one = |one: &Resource| types.contains(&one.spec());
        self.now.retain(|one| !is_one(one));
        for one in self.wanted.resources().iter().filter(|one| is_one(one)) {
            // There were as many in the configuration that it comes from.
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
        // A file system that stays, but is mounted inside one that changes, is unmounted first, and
        // mounted again on top.
        for (fs, resource) in old.iter().filter(|(fs, _)| !is_bound(fs)) {
            let stays = find(&new, fs).is_some_and(|(same, _)| same == *fs);
            let mut moved = gone.iter().chain(&come);
            if stays && moved.any(|(outer, _)| fs.dir.starts_with(&outer.dir)) {
                gone.push((fs.clone(), resource.clone()));
                come.extend(find(&new, fs));
            }
        }
        // Inner ones first; of those beside each other the last one.
        gone.reverse();
        gone.sort_by_key(|(fs, _)| std::cmp::Reverse(fs.dir.components().count()));
        for (fs, resource) in gone {
            self.now.remove(&resource);
            self.step(Act::Unmount(fs));
        }
        // Outer ones first.
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

    /// Keeps them in the order in which they are wanted, whatever is mounted first.
    fn order_file_systems(&mut self, wanted: &[(FileSystem, Resource)]) {
        let mut list: Vec<Resource> = self.now.resources_of("fs").cloned().collect();
        list.sort_by_key(|one| wanted.iter().position(|(_, other)| other.is_same(one)));
        self.now.retain(|one| one.spec().name != "fs");
        for one in list {
            // It was in there.
            let _ = self.now.add(one);
        }
    }

    /// Notes a difference; true where it can be changed now.
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
        // Links of a network that is the host's until the next boot are not those of one
        // that is the zone's.
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

    /// Everything that a running zone cannot change.
    fn others(&mut self) {
        for spec in RESOURCES {
            let is_control = CONTROLS.contains(&spec.name) && spec.live;
            let attached = ["fs", "device"].contains(&spec.name) || LINKS.contains(&spec.name);
            let elsewhere = is_control || attached && !self.is_machine() || spec.name == PUBLISH;
            if elsewhere || ONLY_STORED.contains(&spec.name) {
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

/// A resource on both sides.
struct Compared {
    difference: Difference,
    old: Option<Resource>,
    new: Option<Resource>,
}

/// The resources of one type that differ.
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

/// `fs dir=/data`; a resource without a key is identified by its changes.
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
