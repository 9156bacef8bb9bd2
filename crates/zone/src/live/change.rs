//! Carries out the steps of a change of a running zone, each with its undo.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use limits::ZoneCgroups;
use model::config::FileSystem;
use model::controls::Controls;
use model::live::{Act, Step};
use model::plan::DeviceNode;
use model::plan::network::Link;
use model::{Config, ZoneName};
use store::runtime::{self, Mounted, Runtime};

use crate::live::{Tell, Told, machine};
use host::undo::UndoStack;
use host::volumes::{self, Links};
use host::{Error, Host, devices, flatten};
use platform::controls;
use platform::plan::boot::{is_inside, rights};
use platform::visit::{InUse, Way, What};
use subject::Subject;
use subject::network::{self, Records, Up};

/// A running zone during a change.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) host: Host,
    pub(super) zone: ZoneName,
    pub(super) zonepath: PathBuf,
    /// The first host id of the zone's range of ids.
    first_id: u32,
    /// The recorded mounts that the zone's configuration requires.
    pub(super) mounts: Vec<Mounted>,
    controls: Controls,
    /// The configuration from which the zone's links were made.
    config: Config,
    up: Up,
    cgroups: ZoneCgroups,
    pub(super) way: Way,
    /// True if the guest may have more memory than before the change, because it did not give it
    /// back.
    pub(super) keeps_memory: bool,
}

type Shared = Rc<RefCell<Running>>;

type TakeBack = Box<dyn FnOnce(&mut Running) -> Result<(), Error>>;

/// Carries out one step and adds its undo to `undo`.
pub(super) fn carry_out(
    shared: &Shared,
    step: &Step,
    undo: &mut UndoStack,
    tell: Tell<'_>,
) -> Result<(), Error> {
    let what = step.act.to_string();
    let mut running = shared.borrow_mut();
    let back = Rc::clone(shared);
    let later = |take_back: TakeBack| {
        undo.push(what, move || {
            take_back(&mut back.borrow_mut()).map_err(Into::into)
        });
    };
    match &step.act {
        Act::Remember => {}
        Act::Links => {
            let before = running.config.clone();
            later(Box::new(move |running| {
                running.change_links(&before, &mut |_| {}).map(drop)
            }));
            running.change_links(&step.after, tell).map(drop)?;
        }
        Act::Control(controls) => {
            let before = running.controls.clone();
            running.control(controls, tell)?;
            later(Box::new(move |running| {
                let limits = match running.keeps_memory {
                    true => with_room_of(before, &running.controls),
                    false => before,
                };
                running.control(&limits, &mut |_| {})
            }));
        }
        Act::AddDisk(id) => {
            let id = *id;
            // The undo is added first, because an error may leave the disk in the machine.
            later(Box::new(move |running| machine::remove_disk(running, id)));
            for made in machine::add_disk(&running, &step.after, id)? {
                tell(Told::Progress(made));
            }
        }
        Act::RemoveDisk(id) => {
            let (id, before) = (*id, running.config.clone());
            machine::remove_disk(&running, id)?;
            later(Box::new(move |running| {
                machine::add_disk(running, &before, id).map(drop)
            }));
        }
        Act::AddCard(link) => {
            let (before, name) = (running.config.clone(), link.clone());
            // The undo is added first, because an error may leave the link or the card.
            later(Box::new(move |running| {
                machine::remove_card(running, &before, &name, &mut |_| {})
            }));
            machine::add_card(&mut running, &step.after, link, tell)?;
        }
        Act::RemoveCard(link) => {
            let (before, name) = (running.config.clone(), link.clone());
            machine::remove_card(&mut running, &step.after, link, tell)?;
            later(Box::new(move |running| {
                machine::add_card(running, &before, &name, &mut |_| {})
            }));
        }
        Act::Processors(number) => {
            // Processors never leave a running machine, so this step has no undo.
            machine::processors(&running, *number)?;
        }
        Act::Memory(bytes) => {
            let before = running.config.machine_memory();
            // The undo is added first, because an error may leave the memory in the machine.
            later(Box::new(move |running| {
                let undone = machine::memory(running, before);
                running.keeps_memory = undone.is_err();
                undone
            }));
            machine::memory(&running, *bytes)?;
        }
        // A disk never shrinks, so this step has no undo: the disk keeps its size.
        Act::GrowDisk { id, size } => machine::grow_disk(&running, *id, *size)?,
        Act::Mount(fs) => {
            running.mount(fs)?;
            let dir = fs.dir.clone();
            later(Box::new(move |running| {
                running.unmount(&dir, InUse::Detach)
            }));
        }
        Act::Unmount(fs) => {
            running.unmount(&fs.dir, InUse::Refuse)?;
            let fs = fs.clone();
            later(Box::new(move |running| running.mount(&fs)));
        }
        Act::AddDevices(pattern) => {
            let found = devices::find(std::iter::once(pattern.clone()));
            if found.nodes.is_empty() {
                let text = format!("device match={pattern}: nothing on this host matches");
                tell(Told::Warning(text));
            }
            if let Some(text) = found.too_many {
                tell(Told::Warning(text));
            }
            let new = running.unknown(found.nodes);
            let (shown, after) = (new.clone(), step.after.clone());
            // The undo is added first, because an error may leave some of the devices mounted.
            let config = without_device(&after, pattern);
            later(Box::new(move |running| running.hide(&new, &config)));
            running.show(&shown, &after)?;
        }
        Act::RemoveDevices(pattern) => {
            let gone = running.only_of(pattern, &step.after);
            let (again, config) = (gone.clone(), with_device(&step.after, pattern));
            later(Box::new(move |running| {
                let again = running.unknown(again);
                running.show(&again, &config)
            }));
            running.hide(&gone, &step.after)?;
        }
    }
    Ok(())
}

/// Returns controls with the limits on memory of `now` where those have more room: a limit below the
/// memory that a guest has would end its machine.
fn with_room_of(controls: Controls, now: &Controls) -> Controls {
    // No limit has the most room.
    let most = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(a, b)| a.max(b));
    Controls {
        physical: most(controls.physical, now.physical),
        swap: most(controls.swap, now.swap),
        ..controls
    }
}

/// Returns the device patterns of a configuration without one pattern.
fn without_device(config: &Config, pattern: &str) -> Patterns {
    let mut patterns = Patterns::of(config);
    patterns.list.retain(|one| one != pattern);
    patterns
}

/// Returns the device patterns of a configuration and one more pattern.
fn with_device(config: &Config, pattern: &str) -> Patterns {
    let mut patterns = Patterns::of(config);
    patterns.list.push(pattern.to_owned());
    patterns
}

/// The device patterns of a zone, and the settings that decide which further devices the zone may
/// use.
#[derive(Clone, Debug)]
struct Patterns {
    platform: Option<&'static brand::Platform>,
    ip_type: model::config::IpType,
    list: Vec<String>,
}

impl Patterns {
    fn of(config: &Config) -> Self {
        Self {
            platform: brand::by_name(config.brand()).map(brand::Brand::platform),
            ip_type: config.ip_type(),
            list: config.device_patterns().collect(),
        }
    }

    fn program(&self) -> Vec<u64> {
        let nodes = devices::nodes(self.list.iter().cloned());
        // The platform is known, because the brand of a running zone is known.
        let platform = self.platform.unwrap_or(&brand::Platform::LINUX);
        devices::program(platform, self.ip_type, &nodes)
    }
}

impl Running {
    pub(super) fn open(host: &Host, subject: &Subject, known: &Runtime) -> Result<Self, Error> {
        let zone = &subject.entry.name;
        Ok(Self {
            host: host.clone(),
            zone: zone.clone(),
            zonepath: subject.zonepath.clone(),
            first_id: known.first_id,
            mounts: runtime::load_mounts(&host.root, zone)?,
            controls: known.controls.clone(),
            config: crate::live::load(host, zone)?,
            up: Up {
                id: known.id,
                init: known.init.pid,
            },
            cgroups: ZoneCgroups::from_paths(&known.cgroups)
                .ok_or_else(|| Error::Refused("the zone has no control groups".to_owned()))?,
            way: Way::open(known, host.root.run().join("mnt"))?,
            keeps_memory: false,
        })
    }

    /// Unmounts a file system or device that the running configuration does not contain.
    pub fn forget(&mut self, left: &Mounted) -> Result<(), Error> {
        self.way.unmount(left, InUse::Detach)?;
        self.drop_record(&left.at)
    }

    /// Changes the zone's links to the links of the configuration `after`, and returns those links.
    pub(super) fn change_links(
        &mut self,
        after: &Config,
        tell: Tell<'_>,
    ) -> Result<Vec<Link>, Error> {
        let index = store::index::Index::load(&self.host.root)?;
        let entry = index.get(&self.zone)?;
        let old = network::links_of_running(&self.host, &self.config, entry)?;
        let new = network::links_of_running(&self.host, after, entry)
            .map_err(|error| network::explained(&self.host, after, error))?;
        // The configuration is stored before the links are changed. If an error leaves only some
        // links changed, the undo starts from this configuration.
        self.config = after.clone();
        let records = Records::of(&self.host.root);
        let remarks = records
            .change(&self.zone, self.up, &old, &new)
            .map_err(|error| Error::Refused(format!("{}.", flatten(error.as_ref()))))?;
        remarks
            .into_iter()
            .for_each(|text| tell(Told::Warning(text)));
        Ok(new)
    }

    fn save(&self) -> Result<(), Error> {
        Ok(runtime::save_mounts(
            &self.host.root,
            &self.zone,
            &self.mounts,
        )?)
    }

    fn drop_record(&mut self, at: &Path) -> Result<(), Error> {
        self.mounts.retain(|one| one.at != at);
        self.save()
    }

    fn control(&mut self, new: &Controls, tell: Tell<'_>) -> Result<(), Error> {
        let old = self.controls.clone();
        let changed = controls::change(&self.host, &self.zone, new)?;
        self.controls = new.clone();
        let is_new = |control| old.get(control) != new.get(control);
        for one in changed.applied.iter().filter(|one| is_new(one.control)) {
            if !one.is_exact() {
                let control = one.control;
                let effective = one.effective.map(|number| control.show(number).to_string());
                tell(Told::Warning(format!(
                    "operation succeeded partially for {control} (requested: {}, final: {})",
                    control.show(one.requested),
                    effective.as_deref().unwrap_or("no limit")
                )));
            }
        }
        for warning in changed.warnings.iter().filter(|one| is_new(one.control)) {
            tell(Told::Warning(warning.to_string()));
        }
        Ok(())
    }

    /// Mounts a file system or device in the zone. The mount is recorded first; if the mount fails,
    /// the record is removed.
    fn attach(&mut self, what: &What<'_>, at: &Path) -> Result<(), Error> {
        let (mounts, host, zone) = (&mut self.mounts, &self.host, &self.zone);
        let attached = self.way.mount(what, at, &mut |mounted| {
            mounts.retain(|one| one.at != mounted.at);
            mounts.push(mounted);
            Ok(runtime::save_mounts(&host.root, zone, mounts)?)
        });
        if attached.is_err() {
            // An error is ignored, because the first error is reported.
            let _ = self.drop_record(at);
        }
        attached
    }

    fn mount(&mut self, fs: &FileSystem) -> Result<(), Error> {
        let refused = |error: sys::mount::Error| Error::Refused(flatten(&error));
        if is_inside(fs) {
            let what = What::Own {
                fstype: &fs.fstype,
                options: &fs.options,
            };
            return self.attach(&what, &fs.dir);
        }
        let users = self.way.users();
        let mount = if fs.fstype == "lofs" {
            let (read_only, set_id) = rights(fs);
            let source = Path::new(&fs.special);
            volumes::bind(source, Links::Refuse, read_only, set_id, users)
        } else {
            volumes::file_system(&fs.fstype, &fs.special, &fs.options, users)
        };
        self.attach(&What::Host(&mount.map_err(refused)?), &fs.dir)
    }

    fn unmount(&mut self, at: &Path, in_use: InUse) -> Result<(), Error> {
        let found = self.mounts.iter().find(|one| one.at == at);
        let Some(mounted) = found.cloned() else {
            return Ok(());
        };
        self.way.unmount(&mounted, in_use)?;
        self.drop_record(at)
    }

    /// Returns the device nodes that the zone does not have yet.
    fn unknown(&self, mut nodes: Vec<DeviceNode>) -> Vec<DeviceNode> {
        let has = |node: &DeviceNode| self.mounts.iter().any(|one| one.at == node.path);
        nodes.retain(|node| !has(node));
        nodes
    }

    /// Returns the device nodes that the zone has because of this pattern only, and not because of
    /// another pattern of `config`.
    fn only_of(&self, pattern: &str, config: &Config) -> Vec<DeviceNode> {
        let dirs: Vec<PathBuf> = config.filesystems().map(|fs| fs.dir).collect();
        let others: Vec<String> = config.device_patterns().collect();
        let mine = self.mounts.iter().map(|one| &one.at).filter(|at| {
            devices::matches(pattern, at)
                && !dirs.contains(at)
                && !others.iter().any(|other| devices::matches(other, at))
        });
        let now = devices::nodes(std::iter::once(pattern.to_owned()));
        mine.map(|at| {
            let found = now.iter().find(|node| node.path == *at).cloned();
            // The device does not exist on the host any more. Its mount can be removed but not
            // restored.
            found.unwrap_or(DeviceNode {
                path: at.clone(),
                block: false,
                major: 0,
                minor: 0,
                mode: 0,
                uid: 0,
                gid: 0,
            })
        })
        .collect()
    }

    fn show(&mut self, nodes: &[DeviceNode], after: &impl Admits) -> Result<(), Error> {
        let refused = |error: sys::mount::Error| Error::Refused(flatten(&error));
        for node in nodes {
            // Each node has its own tree, because a mount can be moved into a zone only once.
            let one = std::slice::from_ref(node);
            let tree = volumes::device_nodes(one, self.first_id).map_err(refused)?;
            let part = node.path.strip_prefix("/dev").unwrap_or(&node.path);
            self.attach(&What::Part(&tree, part.to_owned()), &node.path)?;
        }
        self.admit(after)
    }

    /// Removes device nodes from the zone. The right to open them is removed first.
    fn hide(&mut self, nodes: &[DeviceNode], after: &impl Admits) -> Result<(), Error> {
        self.admit(after)?;
        nodes
            .iter()
            .try_for_each(|node| self.unmount(&node.path, InUse::Detach))
    }

    fn admit(&self, after: &impl Admits) -> Result<(), Error> {
        Ok(self.cgroups.change_devices(&after.patterns().program())?)
    }
}

/// A configuration or list that determines the devices that a zone may use.
trait Admits {
    fn patterns(&self) -> Patterns;
}

impl Admits for Config {
    fn patterns(&self) -> Patterns {
        Patterns::of(self)
    }
}

impl Admits for Patterns {
    fn patterns(&self) -> Patterns {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_keeps_its_memory_keeps_the_room_for_it() {
        let limits = |physical, swap, shares| Controls {
            physical,
            swap,
            cpu_shares: shares,
            ..Controls::default()
        };
        let before = limits(Some(1 << 30), Some(4 << 30), Some(1));
        let now = limits(Some(2 << 30), None, Some(7));
        assert_eq!(
            with_room_of(before.clone(), &now),
            limits(Some(2 << 30), None, Some(1))
        );
        assert_eq!(
            with_room_of(now.clone(), &before),
            limits(Some(2 << 30), None, Some(7))
        );
    }
}
