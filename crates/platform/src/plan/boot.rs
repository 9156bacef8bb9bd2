//! The plan of a boot: the parts of a zone's virtual platform.

use std::path::{Path, PathBuf};

use brand::sparse::Layout;
use brand::{BootSpec, InitProgram, Platform};
use limits::{Base, ZoneCgroups};
use model::config::{FileSystem, IpType};
use model::controls::Controls;
use model::immutable::Immutable;
use model::plan::network::Link;
use model::plan::{BootPlan, DeviceNode, Init, InsideStep, PlatformStep};
use model::privilege::{self, Capabilities, Openings};
use model::{Config, Uuid};
use storage::Stack;

use crate::plan::{guest, syscalls};
use crate::proc::{self, SHARED_MEMORY, Size};
use control::beadm_socket;
use host::{Error, devices};
use kernelzone::facts::Facts;

/// The inputs of a boot plan.
#[derive(Debug)]
pub struct BootInputs<'a> {
    /// The zone's configuration.
    pub config: &'a Config,
    /// The zone's resource controls.
    pub controls: Controls,
    /// The zone's numeric id; 0 if the plan is only printed.
    pub id: u32,
    /// The UUID that the zone got at install.
    pub uuid: Option<Uuid>,
    /// First host id of the zone's range.
    pub first_id: u32,
    /// The parts of the zone's root.
    pub stack: &'a Stack,
    /// The inherited directories of a sparse zone.
    pub layout: Option<&'a Layout>,
    /// The part of the boot that is constant for the brand.
    pub platform: &'a Platform,
    /// The program and signals of init.
    pub spec: &'a BootSpec,
    /// The cgroup that contains the groups of all zones.
    pub base: &'a Base,
    /// A folder of the host on which zoneadmd mounts a scratch file system.
    pub scratch: &'a Path,
    /// The devices of the host that the zone gets.
    pub nodes: &'a [DeviceNode],
    /// The network links of the zone.
    pub links: Vec<Link>,
    /// The file that records the changes to the host's network.
    pub records: &'a Path,
    /// The path of the socket of the uname(2) answerer; `None` if the zone needs no answerer.
    pub answerer: &'a Path,
    /// The folder with the files that show the zone its limits.
    pub limit_files: &'a Path,
    /// The step that writes the zone's name resolution files.
    pub names: Option<InsideStep>,
    /// The guest of a kernel zone; `None` for a container.
    pub machine: Option<MachineInputs<'a>>,
    /// The profile of an immutable zone; `None` for other zones.
    pub immutable: Option<Immutable>,
    /// True if the boot stops in state ready.
    pub ready_only: bool,
}

impl BootInputs<'_> {
    /// Returns the profile if it is in force in this boot.
    fn sealed(&self) -> Option<Immutable> {
        self.immutable.filter(|immutable| immutable.is_sealed())
    }
}

/// The inputs for the guest of a kernel zone.
#[derive(Debug)]
pub struct MachineInputs<'a> {
    /// The guest.
    pub machine: vm::Machine,
    /// The facts about the host.
    pub facts: &'a Facts,
}

/// Files of the kernel that describe the host's hardware or change it. The owner of most of them
/// already prevents access: the host's root has no id in the zone.
pub(crate) const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/security",
];

/// Commands that halt or reboot a zone. A sparse zone inherits the host's commands, which work only
/// with the host's init.
const COMMANDS: &[&str] = &["reboot", "poweroff", "halt", "shutdown"];

/// File system types that need no device and whose content belongs to the zone alone.
const WITHOUT_DEVICE: &[&str] = &["tmpfs", "proc", "mqueue"];

/// Returns the plan of a boot.
///
/// # Errors
/// Fails with [`Error::Privilege`] for a list of privileges that no zone can have.
pub fn plan(inputs: &BootInputs<'_>) -> Result<BootPlan, Error> {
    let config = inputs.config;
    let privileges = inputs.platform.privileges(config);
    let mut capabilities = privilege::capabilities(privileges, config.ip_type())?;
    let own_userland = inputs.layout.is_none();
    let mut openings = privilege::openings(privileges, config.ip_type(), own_userland)?;
    // A zone with a label always runs under the filter. Its 32-bit programs make sockets by the
    // calls whose family the filter can read.
    if config.label().is_some() {
        openings = Openings::default();
    }
    // QEMU always runs under the filter, because the cost of the filter affects only QEMU itself.
    if inputs.machine.is_some() {
        openings = Openings::default();
    }
    let init = match &inputs.machine {
        None => init(inputs.spec),
        Some(with) => {
            // QEMU needs no capabilities.
            capabilities = Capabilities(0);
            guest::init(&with.machine, with.facts)
        }
    };
    Ok(BootPlan {
        zone: config.name().clone(),
        id: inputs.id,
        uuid: inputs.uuid,
        brand: config.brand().to_owned(),
        ip_type: config.ip_type(),
        first_id: inputs.first_id,
        platform: platform_steps(inputs, privilege::may_ping(privileges, config.ip_type())?),
        inside: inside_steps(inputs, &init, capabilities, openings),
        remembered: remembered(config, inputs.nodes),
        init,
        shutdown_signal: inputs.spec.shutdown.poweroff,
        ready_only: inputs.ready_only,
        reboots: 0,
        words: String::new(),
        immutable: inputs.immutable,
        resume: None,
        arriving: None,
    })
}

// This function is long because it is the list of steps in their order.
fn platform_steps(inputs: &BootInputs<'_>, pings: bool) -> Vec<PlatformStep> {
    let config = inputs.config;
    let stack = inputs.stack;
    let ip_type = config.ip_type();
    let allowed = devices::standard(inputs.platform, ip_type);
    let allowed = allowed.iter().map(|one| (one.major, one.minor)).collect();
    let groups = ZoneCgroups::for_controls(inputs.base, config.name(), &inputs.controls);
    let (controls, of_processes) = inputs.controls.split();
    let mut steps = vec![
        PlatformStep::Cgroups {
            paths: groups.paths(),
            shared: inputs.base.v1_shared.clone(),
        },
        PlatformStep::Devices {
            allowed,
            nodes: inputs.nodes.to_vec(),
        },
    ];
    // This step comes before any process runs in the zone.
    if !controls.is_empty() {
        steps.push(PlatformStep::Controls { controls });
    }
    // This step comes while zoneadmd still has the mounts of the host.
    if let Some(kernel) = &inputs.spec.kernel {
        steps.push(PlatformStep::Answerer {
            kernel: kernel.clone(),
            socket: inputs.answerer.to_owned(),
        });
    }
    steps.push(PlatformStep::HideLocks);
    steps.push(PlatformStep::PrivateMounts {
        scratch: inputs.scratch.to_owned(),
    });
    // A guest has clocks of its own.
    if inputs.machine.is_none() {
        steps.push(PlatformStep::Clocks);
    }
    steps.extend([
        PlatformStep::Network { ip_type, pings },
        PlatformStep::Console,
        PlatformStep::FirstProcess,
    ]);
    if !of_processes.is_empty() {
        steps.push(PlatformStep::ProcessControls {
            controls: of_processes,
        });
    }
    if !inputs.links.is_empty() {
        steps.push(PlatformStep::Links {
            links: inputs.links.clone(),
            records: inputs.records.to_owned(),
        });
    }
    let datasets: Vec<String> = config.datasets().collect();
    if !datasets.is_empty() {
        steps.push(PlatformStep::Datasets { names: datasets });
    }
    steps.push(PlatformStep::Root {
        zonepath: stack.zonepath.clone(),
        top: stack.top.clone(),
        work: stack.work.clone(),
        lowers: stack.lowers.clone(),
        volatile: stack.volatile,
    });
    if let Some(immutable) = inputs.sealed() {
        steps.push(PlatformStep::Immutable(immutable.profile.layout()));
    }
    // A guest has its own file systems, which other zones cannot read.
    if config.label().is_some() && inputs.machine.is_none() {
        steps.push(PlatformStep::Export {
            zonepath: stack.zonepath.clone(),
        });
    }
    let inherited = inputs
        .layout
        .map(|layout| layout.dirs.as_slice())
        .unwrap_or_default();
    steps.extend(inherited.iter().map(|dir| PlatformStep::Bind {
        source: dir.clone(),
        target: dir.clone(),
        read_only: true,
        set_id: true,
        held: None,
    }));
    steps.extend(held(config).map(|(held, fs)| file_system(held, fs)));
    if let Some(with) = &inputs.machine {
        let shown = (0..).zip(guest::shown(with.facts));
        steps.extend(shown.map(|(held, path)| PlatformStep::Bind {
            source: path.clone(),
            target: path,
            read_only: true,
            set_id: false,
            held: Some(held),
        }));
    }
    let targets = limit_files(inputs);
    if !targets.is_empty() {
        steps.push(PlatformStep::LimitFiles {
            folder: inputs.limit_files.to_owned(),
            targets,
        });
    }
    let mut nodes = inputs.nodes.to_vec();
    nodes.extend(own_devices(inputs));
    if !nodes.is_empty() {
        steps.push(PlatformStep::DeviceNodes { nodes });
    }
    if let Some(id) = config.hostid() {
        steps.push(PlatformStep::HostId { id });
    }
    if ip_type == IpType::Shared {
        steps.push(PlatformStep::Sysfs);
    }
    // The steps before this one make mount points and files in the root.
    if inputs.sealed().is_some() {
        steps.push(PlatformStep::Seal);
    }
    if let Some(with) = &inputs.machine {
        steps.push(guest::step(
            config,
            &with.machine,
            with.facts,
            &inputs.links,
        ));
    }
    steps
}

/// Returns the files of the kernel that show a zone its own limits instead of the host's. A guest
/// needs none, because it has a kernel of its own.
fn limit_files(inputs: &BootInputs<'_>) -> Vec<PathBuf> {
    match inputs.machine {
        Some(_) => Vec::new(),
        None => {
            let files = proc::names_for(&inputs.controls).into_iter();
            files.map(|file| PathBuf::from(file.target())).collect()
        }
    }
}

/// Returns true if the zone itself mounts this file system: the type needs no device, and zones may
/// mount it.
pub fn is_inside(fs: &FileSystem) -> bool {
    WITHOUT_DEVICE.contains(&fs.fstype.as_str())
}

/// Returns the file systems that the host mounts, with the numbers under which zoneadmd holds them.
fn held(config: &Config) -> impl Iterator<Item = (u32, FileSystem)> {
    (0..).zip(outer_first(config).into_iter().filter(|fs| !is_inside(fs)))
}

/// Returns the file systems of a zone in an order in which no mount hides another. File systems of
/// the same depth keep their order in the configuration.
fn outer_first(config: &Config) -> Vec<FileSystem> {
    let mut list: Vec<FileSystem> = config.filesystems().collect();
    list.sort_by_key(|fs| fs.dir.components().count());
    list
}

fn remembered(config: &Config, nodes: &[DeviceNode]) -> Vec<PathBuf> {
    let nodes = nodes.iter().map(|node| node.path.clone());
    config.filesystems().map(|fs| fs.dir).chain(nodes).collect()
}

/// Returns two flags for a lofs mount: true if it is read-only, and true if set-id programs on it
/// keep their rights.
pub fn rights(fs: &FileSystem) -> (bool, bool) {
    let has = |name: &str| fs.options.iter().any(|option| option == name);
    let read_only = has("ro");
    // A set-id program that the zone writes must not work for users of the host.
    (read_only, read_only && !has("nosuid"))
}

fn file_system(held: u32, fs: FileSystem) -> PlatformStep {
    if fs.fstype != "lofs" {
        return PlatformStep::Mount {
            fstype: fs.fstype,
            source: fs.special,
            target: fs.dir,
            options: fs.options,
            held,
        };
    }
    let (read_only, set_id) = rights(&fs);
    PlatformStep::Bind {
        source: PathBuf::from(fs.special),
        target: fs.dir,
        read_only,
        set_id,
        held: Some(held),
    }
}

// This function is long because it is the list of steps in their order.
fn inside_steps(
    inputs: &BootInputs<'_>,
    init: &Init,
    keep: Capabilities,
    openings: Openings,
) -> Vec<InsideStep> {
    let config = inputs.config;
    let mount =
        |fstype: &str, target: &str, options: &[&str], noexec, read_only| InsideStep::Mount {
            fstype: fstype.to_owned(),
            target: PathBuf::from(target),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            noexec,
            read_only,
        };
    let mut steps = vec![InsideStep::OwnViews];
    // File systems of the configuration may lie in these folders, or take their place.
    let configured = |target: &str| config.filesystems().any(|fs| fs.dir == Path::new(target));
    let sealed = inputs.sealed();
    for &target in sealed.iter().flat_map(|one| one.profile.in_memory()) {
        if !configured(target) {
            let options = in_memory(0o1777, target, &inputs.controls);
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            steps.push(mount("tmpfs", target, &options, false, false));
        }
    }
    // Of the zone's own file systems, this adds only those that contain a file system of the host.
    // The others may be for /dev or /proc, which are mounted later.
    let holds = |own: &FileSystem| held(config).any(|(_, fs)| fs.dir.starts_with(&own.dir));
    let mut numbers = held(config).map(|(held, _)| held);
    for fs in outer_first(config) {
        if !is_inside(&fs) {
            steps.extend(numbers.next().map(|held| InsideStep::Place {
                held,
                target: fs.dir,
            }));
        } else if holds(&fs) {
            steps.push(own(fs));
        }
    }
    if let Some(with) = &inputs.machine {
        let shown = (0..).zip(guest::shown(with.facts));
        steps.extend(shown.map(|(held, target)| InsideStep::Place { held, target }));
    }
    steps.push(mount("proc", "/proc", &[], true, false));
    if inputs.machine.is_some() {
        // QEMU needs neither the loopback link nor /sys.
    } else if config.ip_type() == IpType::Exclusive {
        steps.push(InsideStep::Loopback);
        steps.push(mount("sysfs", "/sys", &[], true, true));
    }
    let targets = limit_files(inputs);
    if !targets.is_empty() {
        steps.push(InsideStep::ShowLimits { targets });
    }
    if init.path.is_some() && inputs.machine.is_none() {
        // An init of a whole system divides its control group.
        steps.push(mount("cgroup2", "/sys/fs/cgroup", &[], true, false));
    }
    steps.push(mount(
        "tmpfs",
        "/dev",
        &["mode=0755", "size=4m"],
        true,
        false,
    ));
    let names = inputs
        .platform
        .devices
        .iter()
        .map(|device| device.name.to_owned())
        .collect();
    steps.push(InsideStep::Devices {
        names,
        own: config.label().is_some(),
    });
    // QEMU shares no memory by name.
    if inputs.machine.is_none() {
        let options = in_memory(0o1777, SHARED_MEMORY, &inputs.controls);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        // The mount allows execution, because programs map memory in it to run it. Every init finds
        // it mounted.
        steps.push(mount("tmpfs", SHARED_MEMORY, &options, false, false));
    }
    if !inputs.nodes.is_empty() {
        steps.push(InsideStep::DeviceNodes {
            paths: inputs.nodes.iter().map(|node| node.path.clone()).collect(),
        });
    }
    for one in inputs.spec.mounts {
        let options = in_memory(one.mode, one.target, &inputs.controls);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        steps.push(mount(one.fstype, one.target, &options, one.noexec, false));
    }
    let late = outer_first(config).into_iter();
    steps.extend(late.filter(|fs| is_inside(fs) && !holds(fs)).map(own));
    if let Some(interpreter) = &inputs.spec.interpreter {
        steps.push(InsideStep::Interpreter {
            interpreter: interpreter.clone(),
        });
    }
    if inputs.layout.is_some() && init.path.is_none() {
        let names = COMMANDS.iter().map(|&name| name.to_owned()).collect();
        steps.push(InsideStep::Commands { names });
    }
    if sealed.is_some() {
        steps.insert(1, mount_points(&steps));
        steps.extend(inputs.names.clone().map(through_writable_mount));
    }
    steps.push(InsideStep::Enter);
    // The zone of a guest has no processes that could read the boot id.
    if inputs.machine.is_none() {
        steps.push(InsideStep::BootId);
        steps.push(InsideStep::Environments {
            socket: PathBuf::from(beadm_socket::SOCKET),
        });
    }
    steps.push(InsideStep::Mask {
        paths: MASKED.iter().map(PathBuf::from).collect(),
    });
    if sealed.is_none() {
        steps.extend(inputs.names.clone());
    }
    steps.push(InsideStep::Hostname {
        name: config.name().to_string(),
    });
    if let Some(kernel) = &inputs.spec.kernel {
        steps.push(InsideStep::Kernel {
            kernel: kernel.clone(),
            program: syscalls::asking_about_uname(),
        });
    }
    steps.push(InsideStep::Privileges { keep });
    if !openings.unfiltered {
        steps.push(InsideStep::Syscalls {
            program: syscalls::program(keep, openings, labeled(config)),
        });
    }
    steps
}

/// Returns the step that makes the mount points of these steps in a root that is read-only for the
/// first process. Mount points in another mount are made when that mount exists.
fn mount_points(steps: &[InsideStep]) -> InsideStep {
    let target = |step: &InsideStep| match step {
        InsideStep::Mount { target, .. } | InsideStep::Place { target, .. } => Some(target.clone()),
        _ => None,
    };
    let mut targets: Vec<PathBuf> = Vec::new();
    for path in steps.iter().filter_map(target) {
        if !targets.iter().any(|outer| path.starts_with(outer)) {
            targets.push(path);
        }
    }
    InsideStep::MountPoints { targets }
}

/// Returns the step of name resolution for a zone whose root is read-only.
fn through_writable_mount(step: InsideStep) -> InsideStep {
    match step {
        InsideStep::Names {
            resolver,
            zones,
            hosts,
            ..
        } => InsideStep::Names {
            resolver,
            zones,
            hosts,
            sealed: true,
        },
        other => other,
    }
}

/// Returns the mount options of a file system in memory.
fn in_memory(mode: u32, target: &str, controls: &Controls) -> Vec<String> {
    let size = Size::of(target, controls);
    let size = size.iter().flat_map(Size::options);
    [format!("mode={mode:04o}")]
        .into_iter()
        .chain(size)
        .collect()
}

/// Returns the step that mounts a file system of the zone's own.
fn own(fs: FileSystem) -> InsideStep {
    let flags = ["ro", "rw", "noexec", "nosuid", "nodevices", "nodev"];
    let has = |name: &str| fs.options.iter().any(|option| option == name);
    InsideStep::Mount {
        noexec: has("noexec"),
        read_only: has("ro"),
        options: fs
            .options
            .iter()
            .filter(|o| !flags.contains(&o.as_str()))
            .cloned()
            .collect(),
        fstype: fs.fstype,
        target: fs.dir,
    }
}

/// Returns the nodes of a zone with a label in the place of the host's nodes of the same devices.
/// Locks belong to the inode, so on a node of the host they would tell zones of other labels
/// something.
fn own_devices(inputs: &BootInputs<'_>) -> Vec<DeviceNode> {
    if inputs.config.label().is_none() {
        return Vec::new();
    }
    let node = |device: &brand::Device| DeviceNode {
        path: Path::new("/dev").join(device.name),
        block: false,
        major: device.major,
        minor: device.minor,
        mode: 0o666,
        uid: 0,
        gid: 0,
    };
    let is_new = |node: &DeviceNode| inputs.nodes.iter().all(|one| one.path != node.path);
    let devices = inputs.platform.devices.iter();
    devices.map(node).filter(is_new).collect()
}

fn labeled(config: &Config) -> syscalls::Labeled {
    match config.label() {
        Some(_) => syscalls::Labeled::Yes,
        None => syscalls::Labeled::No,
    }
}

fn init(spec: &BootSpec) -> Init {
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    Init {
        bound: false,
        path: match &spec.init {
            InitProgram::Zinit => None,
            InitProgram::Root(path) => Some(path.clone()),
        },
        arguments: spec.argv.iter().map(|one| text(one)).collect(),
        environment: spec
            .environment
            .iter()
            .map(|(name, value)| format!("{}={}", text(name), text(value)))
            .collect(),
        user: 0,
    }
}

#[cfg(test)]
mod tests {
    use model::config::Resource;
    use model::table;

    use super::*;

    #[test]
    fn outer_file_systems_come_first() {
        let mut config = Config::new("web".parse().unwrap());
        for dir in ["/w/data/more", "/z", "/w/data", "/a", "/w"] {
            let mut fs = Resource::new(table::resource("fs").unwrap());
            for (name, value) in [("dir", dir), ("special", "/x"), ("type", "lofs")] {
                fs.set(name, value).unwrap();
            }
            config.add(fs).unwrap();
        }
        let dirs: Vec<PathBuf> = outer_first(&config).into_iter().map(|fs| fs.dir).collect();
        let expected = ["/z", "/a", "/w", "/w/data", "/w/data/more"];
        assert_eq!(dirs, expected.map(PathBuf::from));
    }
}
