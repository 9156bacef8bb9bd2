//! Executes the steps of zoneadmd's plan.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use limits::ZoneCgroups;
use limits::devices::{self, Device, Kind};
use model::config::IpType;
use model::controls::Controls;
use model::plan::network::Link;
use model::plan::{BootPlan, InsideStep, PlatformStep};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use storage::Stack;
use store::index::IDS_PER_ZONE;
use sys::mount::{Attr, Extent, Param};
use sys::process::{Child, ns};

use crate::answerer;
use crate::console::Console;
use crate::folders::{EXPORT, HELD, LAYERS, NODES, ROOT};
use crate::proc::{self, File};
use crate::views;
use crate::{Channel, Error, KILL_TIMEOUT, Platform, datasets, guest, immutable, inside, place};
use host::devices::device;
use host::error::flatten;
use host::fault::Fault;
use host::undo::{self, UndoStack};
use host::volumes;
use subject::network::Records;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The results of earlier steps.
struct Building<'a> {
    plan: &'a BootPlan,
    zinit: OwnedFd,
    zinit_at: &'a Path,
    cgroups: Option<ZoneCgroups>,
    shared_tasks: Vec<OwnedFd>,
    /// The host's namespaces, to which zoneadmd returns.
    home: Vec<(OwnedFd, u64)>,
    scratch: PathBuf,
    ip_type: IpType,
    /// True if every user of the zone may open ICMP sockets.
    pings: bool,
    /// The layers that form the root. They may be closed later.
    layers: Option<storage::Scratch>,
    /// The first process, its user namespace, and zoneadmd's socket of the channel.
    first: Option<(Rc<Child>, OwnedFd, Channel)>,
    console: Option<Console>,
    /// The socket on which the first process passes the listener of the uname(2) filter.
    answerer: Option<OwnedFd>,
    /// The socket for the zone's own beadm.
    environments: Option<OwnedFd>,
    delegated: Option<Rc<datasets::Delegated>>,
    /// The sockets and files of a kernel zone's guest.
    machine: Option<guest::Opened>,
    /// The remarks about resource controls to report.
    remarks: Vec<String>,
    /// The sockets that announced the zone's addresses.
    announced: Vec<OwnedFd>,
}

impl Platform {
    /// Executes a plan up to and including state ready.
    ///
    /// # Errors
    /// Fails with the step that failed. All steps before it are undone.
    pub fn build(plan: &BootPlan, zinit: &Path, fault: &mut Fault) -> Result<Self, Error> {
        let mut undo = UndoStack::default();
        match build(plan, zinit, fault, &mut undo) {
            Ok(platform) => {
                undo.disarm();
                Ok(platform)
            }
            Err(error) => {
                let also = undo.run();
                if also.is_empty() {
                    return Err(error);
                }
                Err(Error::Teardown(
                    [flatten(&error)].into_iter().chain(also).collect(),
                ))
            }
        }
    }
}

fn build(
    plan: &BootPlan,
    zinit: &Path,
    fault: &mut Fault,
    undo: &mut UndoStack,
) -> Result<Platform, Error> {
    let open = |path: &Path| {
        openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| {
            Error::Step {
                step: format!("open {}", path.display()),
                source: Box::new(errno),
            }
        })
    };
    let mut building = Building {
        plan,
        zinit: open(zinit)?,
        zinit_at: zinit,
        cgroups: None,
        shared_tasks: Vec::new(),
        home: Vec::new(),
        scratch: PathBuf::new(),
        ip_type: IpType::Shared,
        pings: false,
        layers: None,
        first: None,
        console: None,
        answerer: None,
        environments: None,
        delegated: None,
        machine: None,
        remarks: Vec::new(),
        announced: Vec::new(),
    };
    for (name, kind) in [("mnt", ns::MOUNT), ("net", ns::NET), ("time", ns::TIME)] {
        building
            .home
            .push((open(&Path::new("/proc/self/ns").join(name))?, kind));
    }
    for step in &plan.platform {
        let done = if fault.strikes("boot") {
            Err(Fault::error())
        } else {
            building.carry_out(step, undo)
        };
        done.map_err(|source| Error::Step {
            step: step.to_string(),
            source,
        })?;
    }
    building.finish(fault)
}

impl Building<'_> {
    // This function is long because it is a table with one arm for each step.
    fn carry_out(&mut self, step: &PlatformStep, undo: &mut UndoStack) -> Result<(), AnyError> {
        match step {
            PlatformStep::Cgroups { paths, shared } => self.make_cgroups(paths, shared, undo),
            PlatformStep::Devices { allowed, nodes } => {
                let plain = allowed.iter().map(|&(major, minor)| Device {
                    kind: Kind::Character,
                    major,
                    minor,
                });
                let allowed: Vec<Device> = plain.chain(nodes.iter().map(device)).collect();
                let cgroups = self.cgroups.as_ref().ok_or("no control groups")?;
                Ok(cgroups.allow_devices(&devices::program(&allowed))?)
            }
            PlatformStep::Controls { controls } => {
                let cgroups = self.cgroups.as_ref().ok_or("no control groups")?;
                self.remarks.extend(cgroups.set(controls)?.remarks());
                Ok(())
            }
            PlatformStep::Answerer { kernel, socket } => {
                let cgroups = self.cgroups.as_ref().ok_or("no control groups")?;
                let (group, tasks) = (cgroups.open_login()?, cgroups.open_v1_tasks()?);
                let started = answerer::start(kernel, socket, group.as_fd(), &tasks)?;
                self.answerer = Some(started);
                Ok(())
            }
            PlatformStep::PrivateMounts { scratch } => self.leave_host_mounts(scratch),
            PlatformStep::HideLocks => hide_locks(),
            PlatformStep::Clocks => start_clocks(),
            PlatformStep::Network { ip_type, pings } => {
                (self.ip_type, self.pings) = (*ip_type, *pings);
                match ip_type {
                    IpType::Shared => {
                        net::enter_shared()?;
                        self.write_settings(net::write_settings_here)?;
                        let cgroups = self.cgroups.as_ref().ok_or("no control groups")?;
                        Ok(cgroups.admit_low_ports(self.plan.first_id)?)
                    }
                    // An exclusive-IP zone gets its network namespace together with its first
                    // process.
                    IpType::Exclusive => Ok(()),
                }
            }
            PlatformStep::JoinNetwork { pid, started } => {
                self.ip_type = IpType::Shared;
                join_network(*pid, *started)
            }
            PlatformStep::Links { links, records } => self.make_links(links, records, undo),
            PlatformStep::FirstProcess => self.start_first_process(undo),
            PlatformStep::ProcessControls { controls } => self.limit_processes(controls),
            PlatformStep::Datasets { names } => self.give_datasets(names, undo),
            PlatformStep::Root {
                zonepath,
                top,
                work,
                lowers,
                volatile,
            } => self.assemble_root(&Stack {
                zonepath: zonepath.clone(),
                top: top.clone(),
                work: work.clone(),
                lowers: lowers.clone(),
                volatile: *volatile,
            }),
            PlatformStep::Export { zonepath } => self.export(zonepath),
            PlatformStep::Immutable(layout) => Ok(immutable::lay_out(
                layout,
                &self.scratch,
                self.plan.first_id,
            )?),
            PlatformStep::Seal => Ok(immutable::seal(&self.scratch)?),
            PlatformStep::Bind {
                source,
                target,
                read_only,
                set_id,
                held,
            } => {
                // Only the host can write to inherited folders, so links in them may be followed.
                let links = match held {
                    Some(_) => volumes::Links::Refuse,
                    None => volumes::Links::Follow,
                };
                let mount = volumes::bind(source, links, *read_only, *set_id, self.users()?)?;
                match held {
                    Some(number) => self.hold(&mount, *number),
                    None => self.attach_in_root(&mount, target),
                }
            }
            PlatformStep::Mount {
                fstype,
                source,
                options,
                held,
                ..
            } => {
                let mount = volumes::file_system(fstype, source, options, self.users()?)?;
                self.hold(&mount, *held)
            }
            PlatformStep::DeviceNodes { nodes } => {
                let mount = volumes::device_nodes(nodes, self.plan.first_id)?;
                Ok(volumes::hold(&mount, &self.scratch, NODES)?)
            }
            PlatformStep::LimitFiles { folder, targets } => {
                let cgroups = self.cgroups.as_ref().ok_or("no control groups")?;
                // A crash may have left files of an earlier boot in this folder.
                store::runtime::remove_files_of(folder)?;
                let wanted =
                    |file: &File| targets.iter().any(|path| path == Path::new(file.target()));
                let wanted: Vec<File> = File::ALL.into_iter().filter(wanted).collect();
                for (file, path) in proc::make(folder, &wanted, cgroups)? {
                    let mount = proc::source(&path)?;
                    volumes::hold(&mount, &self.scratch.join(HELD), file.name())?;
                }
                Ok(())
            }
            PlatformStep::HostId { id } => self.give_host_id(*id),
            PlatformStep::Sysfs => {
                let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
                    | MountAttrFlags::MOUNT_ATTR_NODEV
                    | MountAttrFlags::MOUNT_ATTR_NOEXEC
                    | MountAttrFlags::MOUNT_ATTR_RDONLY;
                let sysfs = sys::mount::new_fs("sysfs", &[], flags)?;
                self.attach_in_root(&sysfs, Path::new("/sys"))
            }
            PlatformStep::Console => {
                self.console = Some(Console::new(self.plan.first_id)?);
                Ok(())
            }
            PlatformStep::Machine(parts) => {
                let owner = self.plan.first_id + parts.user;
                let opened = guest::Opened::new(parts, owner, |card| self.make_card(card))?;
                self.machine = Some(opened);
                Ok(())
            }
        }
    }

    fn make_cgroups(
        &mut self,
        paths: &[PathBuf],
        shared: &[PathBuf],
        undo: &mut UndoStack,
    ) -> Result<(), AnyError> {
        let cgroups = ZoneCgroups::from_paths(paths).ok_or("no control group is named")?;
        let made = cgroups.clone();
        undo.push("make control groups", move || {
            made.kill().and_then(|()| made.remove()).map_err(Into::into)
        });
        cgroups.create(self.plan.first_id)?;
        for path in shared {
            self.shared_tasks
                .push(limits::zone::open_shared_tasks(path)?);
        }
        // zoneadmd itself leaves the control group of the session in which the user typed the
        // command.
        for tasks_file in &self.shared_tasks {
            rustix::io::write(tasks_file, b"0")?;
        }
        self.cgroups = Some(cgroups);
        Ok(())
    }

    fn leave_host_mounts(&mut self, scratch: &Path) -> Result<(), AnyError> {
        fs::create_dir_all(scratch)?;
        sys::namespace::unshare(ns::MOUNT)?;
        sys::mount::make_private_recursive()?;
        let tmpfs = sys::mount::new_fs(
            "tmpfs",
            &[Param::text("mode", "0711"), Param::text("size", "64k")],
            MountAttrFlags::MOUNT_ATTR_NODEV,
        )?;
        sys::mount::attach(&tmpfs, CWD, scratch)?;
        self.scratch = scratch.to_owned();
        rustix::process::chdir(scratch)?;
        fs::create_dir(scratch.join(ROOT))?;
        fs::create_dir(scratch.join(HELD))?;
        Ok(fs::create_dir(scratch.join(LAYERS))?)
    }

    /// Returns a read-only mount of zinit for each command name under which the zone sees zinit.
    fn mounts_of_zinit(&self) -> Result<Vec<OwnedFd>, AnyError> {
        let attr = Attr {
            set: MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID,
            ..Attr::default()
        };
        let mut mounts = Vec::new();
        for step in &self.plan.inside {
            let InsideStep::Commands { names } = step else {
                continue;
            };
            for _ in names {
                let mount = sys::mount::open_tree(CWD, self.zinit_at, Extent::One)?;
                sys::mount::set_attr(&mount, &attr, Extent::One, self.zinit_at)?;
                mounts.push(mount);
            }
        }
        Ok(mounts)
    }

    fn start_first_process(&mut self, undo: &mut UndoStack) -> Result<(), AnyError> {
        let cgroups = self.cgroups.as_ref().ok_or("no control groups")?;
        let payload = cgroups.open_payload()?;
        let mut tasks = cgroups.open_v1_tasks()?;
        let opened = tasks.len();
        tasks.append(&mut self.shared_tasks);
        let (ours, theirs) = Channel::pair()?;
        let network = net::namespaces_of_first_process(self.ip_type);
        let flags = ns::USER | ns::PID | ns::UTS | ns::IPC | network;
        let asks = |step: &InsideStep| matches!(step, InsideStep::Environments { .. });
        if self.plan.inside.iter().any(asks) {
            self.environments = Some(control::beadm_socket::socket()?);
        }
        let commands = self.mounts_of_zinit()?;
        // Everything that the child needs is open already, and the child gets copies.
        let first = inside::FirstProcess {
            plan: self.plan,
            zinit: self.zinit.as_fd(),
            commands: &commands,
            channel: &theirs,
            tasks: &tasks,
            console: self.console.as_ref().ok_or("no console")?,
            answerer: self.answerer.as_ref().map(AsFd::as_fd),
            environments: self.environments.as_ref().map(AsFd::as_fd),
        };
        // The user namespace belongs to the zone's root, not to the host's root, so the kernel
        // counts its limits for each user (queues, signals, inotify) for the zone alone.
        let child = sys::idmap::with_effective_user(self.plan.first_id, || {
            sys::process::fork(flags, Some(payload.as_fd()), &first.kept(), || {
                inside::run(&first)
            })
        })??;
        // The answerer ends when no process can pass a filter to it any more, so zoneadmd closes
        // its socket.
        self.answerer = None;
        let child = Rc::new(child);
        let ended = Rc::clone(&child);
        undo.push("start the first process", move || {
            let _ = rustix::process::pidfd_send_signal(&ended.pidfd, rustix::process::Signal::KILL);
            undo::reap(&ended, KILL_TIMEOUT);
            Ok(())
        });
        cgroups.follow(opened)?;
        self.leave_clocks()?;
        let proc_dir = PathBuf::from(format!("/proc/{}", child.pid));
        let map = format!("0 {} {IDS_PER_ZONE}", self.plan.first_id);
        fs::write(proc_dir.join("uid_map"), &map)?;
        fs::write(proc_dir.join("gid_map"), &map)?;
        let users = openat(
            CWD,
            proc_dir.join("ns/user"),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if self.ip_type == IpType::Exclusive {
            let network = net::ends::namespace(&proc_dir.join("ns/net"))?;
            self.write_settings(|pings| net::write_settings(network.as_fd(), pings))?;
        }
        self.first = Some((child, users, ours));
        Ok(())
    }

    /// Calls `write`, which writes the initial settings of the zone's network, with true if the
    /// zone's privileges let its users ping.
    fn write_settings(&self, write: impl FnOnce(bool) -> io::Result<()>) -> Result<(), AnyError> {
        write(self.pings).map_err(|error| {
            format!("could not write the settings of the zone's network: {error}")
        })?;
        Ok(())
    }

    fn limit_processes(&mut self, controls: &Controls) -> Result<(), AnyError> {
        let cgroups = self.cgroups.as_ref().ok_or("no control groups")?;
        let (child, ..) = self.first.as_ref().ok_or("no first process")?;
        let first = limits::First {
            pid: child.pid,
            pidfd: child.pidfd.as_fd(),
            owner: self.plan.first_id,
        };
        let changed = limits::process::change(cgroups, first, &Controls::default(), controls)?;
        self.remarks.extend(changed.remarks());
        Ok(())
    }

    fn users(&self) -> Result<BorrowedFd<'_>, AnyError> {
        Ok(self.first.as_ref().ok_or("no first process")?.1.as_fd())
    }

    fn make_links(
        &mut self,
        links: &[Link],
        records: &Path,
        undo: &mut UndoStack,
    ) -> Result<(), AnyError> {
        let (child, ..) = self.first.as_ref().ok_or("no first process")?;
        let zone = net::ends::namespace(Path::new(&format!("/proc/{}/ns/net", child.pid)))?;
        let host = self.home_of(ns::NET)?.try_clone()?;
        let records = Records::at(records);
        let (back, name, home) = (records.clone(), self.plan.zone.clone(), host.try_clone()?);
        let (mounts, scratch) = (self.home_of(ns::MOUNT)?.try_clone()?, self.scratch.clone());
        // The undo finds a link that was moved to the zone through a mount of the host.
        undo.push("make the links", move || {
            within_mounts(&mounts, &scratch, || back.release_in(&home, &name))
                .map_err(|error| format!("could not go back to the host's mounts: {error}"))??;
            Ok(())
        });
        let (name, id) = (&self.plan.zone, self.plan.id);
        let in_mounts = |action: &dyn Fn() -> Result<(), AnyError>| self.in_mounts_of_host(action);
        let made = records.make(name, id, links, host, zone, &in_mounts)?;
        self.remarks.extend(made.remarks);
        self.announced.extend(made.announced);
        Ok(())
    }

    /// Makes the network card of a guest on a link of the zone.
    fn make_card(&self, link: &str) -> Result<OwnedFd, AnyError> {
        let (child, ..) = self.first.as_ref().ok_or("no first process")?;
        guest::tap(child.pid, link)
    }

    /// Gives later children of zoneadmd the clocks of the host again. Before Linux 6.2 the kernel
    /// refuses with EINVAL to start a program by vfork(2), as for nft(8) and zfs(8), in a process
    /// whose children would get another time namespace.
    fn leave_clocks(&mut self) -> Result<(), AnyError> {
        let position = self.home.iter().position(|(_, kind)| *kind == ns::TIME);
        if let Some(position) = position {
            let (clocks, kind) = self.home.remove(position);
            sys::namespace::join(clocks.as_fd(), kind)?;
        }
        Ok(())
    }

    fn home_of(&self, kind: u64) -> Result<&OwnedFd, AnyError> {
        let found = self.home.iter().find(|(_, other)| *other == kind);
        Ok(&found.ok_or("no way back to the host")?.0)
    }

    fn in_mounts_of_host(&self, action: &dyn Fn() -> Result<(), AnyError>) -> Result<(), AnyError> {
        within_mounts(self.home_of(ns::MOUNT)?, &self.scratch, action)?
    }

    fn give_datasets(&mut self, names: &[String], undo: &mut UndoStack) -> Result<(), AnyError> {
        let users = self.users()?.try_clone_to_owned()?;
        let delegated = Rc::new(datasets::Delegated::new(users, names.to_vec()));
        delegated.give()?;
        let given = Rc::clone(&delegated);
        undo.push("delegate datasets", move || {
            let failed = given.take_back();
            match failed.is_empty() {
                true => Ok(()),
                false => Err(failed.join("; ").into()),
            }
        });
        self.delegated = Some(delegated);
        Ok(())
    }

    fn assemble_root(&mut self, stack: &Stack) -> Result<(), AnyError> {
        let (users, first_id) = (self.users()?, self.plan.first_id);
        let (root, layers) =
            storage::assemble_keeping(stack, Some(users), first_id, &self.scratch.join(LAYERS))?;
        self.layers = layers;
        Ok(sys::mount::attach(&root, CWD, &self.scratch.join(ROOT))?)
    }

    /// Mounts /export and /zone of a zone with a label. The zone cannot unmount them.
    fn export(&self, zonepath: &Path) -> Result<(), AnyError> {
        let (users, first_id) = (self.users()?, self.plan.first_id);
        let place = self.scratch.join(EXPORT);
        fs::create_dir(&place)?;
        let mount = storage::export(zonepath, users, first_id, &place)?;
        self.attach_in_root(&mount, Path::new(views::EXPORT))?;
        let (uid, gid) = (format!("{first_id}"), format!("{first_id}"));
        let params = [
            Param::text("mode", "0755"),
            Param::text("size", "64k"),
            Param::text("nr_inodes", "1k"),
            Param::text("uid", &uid),
            Param::text("gid", &gid),
        ];
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let folder = sys::mount::new_fs("tmpfs", &params, flags)?;
        self.attach_in_root(&folder, Path::new(views::ZONES))
    }

    /// Opens a folder of the zone's root, and makes the folder if it is missing. No link in the
    /// zone can lead out of the zone's root.
    fn open_in_root(&self, path: &Path) -> Result<OwnedFd, AnyError> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = openat(
            CWD,
            self.scratch.join(ROOT),
            flags | OFlags::DIRECTORY,
            Mode::empty(),
        )?;
        // The folder is made with the ids of the zone's root, because the host's root has no id in
        // the zone.
        let make = |folder: BorrowedFd<'_>, name: &OsStr| {
            let made = sys::idmap::with_fs_ids(self.plan.first_id, || {
                rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o755))
            });
            Ok(made.map_err(io::Error::other)??)
        };
        Ok(place::open_or_make_folder(root.as_fd(), path, &make)?)
    }

    /// Writes the file that gethostid(3) reads. The new file replaces any file of the zone at this
    /// path.
    fn give_host_id(&self, id: u32) -> Result<(), AnyError> {
        let etc = self.open_in_root(Path::new("/etc"))?;
        let name = "hostid";
        let failed = |errno| in_zone(Path::new("etc/hostid"), errno);
        match rustix::fs::unlinkat(&etc, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = sys::idmap::with_fs_ids(self.plan.first_id, || {
            openat(&etc, name, flags, Mode::from_raw_mode(0o644))
        })?
        .map_err(failed)?;
        rustix::io::write(&file, &id.to_ne_bytes()).map_err(failed)?;
        Ok(())
    }

    fn attach_in_root(&self, mount: &OwnedFd, target: &Path) -> Result<(), AnyError> {
        let target = self.open_in_root(target)?;
        Ok(sys::mount::attach(mount, &target, Path::new(""))?)
    }

    /// Attaches a mount of the host at the path where the first process expects it.
    fn hold(&self, mount: &OwnedFd, number: u32) -> Result<(), AnyError> {
        let folder = self.scratch.join(HELD);
        Ok(volumes::hold(mount, &folder, &number.to_string())?)
    }

    /// Tells the first process to continue, and waits until it is ready.
    fn finish(mut self, fault: &mut Fault) -> Result<Platform, Error> {
        let (child, _users, channel) = self.first.take().ok_or(Error::Plan("a first process"))?;
        let console = self.console.take().ok_or(Error::Plan("a console"))?;
        let cgroups = self.cgroups.take().ok_or(Error::Plan("control groups"))?;
        if fault.strikes("boot") {
            return Err(Error::Step {
                step: "go on".to_owned(),
                source: Fault::error(),
            });
        }
        channel.send_go().map_err(Error::Channel)?;
        channel.wait_for_ready()?;
        let pidfd = child.pidfd.try_clone().map_err(Error::Channel)?;
        let (machine, controller) = match self.machine {
            None => (None, console.controller),
            Some(opened) => {
                let (machine, line) = opened.with(console.controller);
                (Some(machine), line)
            }
        };
        Ok(Platform {
            init: Child {
                pid: child.pid,
                pidfd,
            },
            cgroups,
            console: controller,
            _terminal: console.terminal,
            machine,
            environments: self.environments,
            channel: Some(channel),
            layers: self.layers,
            delegated: self.delegated,
            home: self.home,
            sealed: self.plan.platform.iter().find_map(|step| match step {
                PlatformStep::Immutable(layout) => Some((self.scratch.clone(), layout.clone())),
                _ => None,
            }),
            trusted: None,
            remarks: self.remarks,
            announced: self.announced,
        })
    }
}

fn in_zone(path: &Path, errno: Errno) -> AnyError {
    format!("/{} in the zone: {errno}", path.display()).into()
}

/// Runs a function in the mount namespace `mounts`, and then returns to `folder` in the present
/// namespace.
fn within_mounts<T>(
    mounts: &OwnedFd,
    folder: &Path,
    action: impl FnOnce() -> T,
) -> Result<T, AnyError> {
    let path = Path::new("/proc/self/ns/mnt");
    let own = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    sys::namespace::join(mounts.as_fd(), ns::MOUNT)?;
    let done = action();
    sys::namespace::join(own.as_fd(), ns::MOUNT)?;
    // Joining a mount namespace has changed the working directory to the root.
    rustix::process::chdir(folder)?;
    Ok(done)
}

/// Joins the network namespace of a process, if the process id still belongs to the same process.
fn join_network(pid: i32, started: u64) -> Result<(), AnyError> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let number = Pid::from_raw(pid).ok_or("no such process")?;
    let process = pidfd_open(number, PidfdFlags::empty())?;
    // While the pidfd is open, the process id cannot belong to another process.
    if !(store::runtime::Process { pid, started }).is_alive() {
        return Err("the zone halted meanwhile".into());
    }
    Ok(sys::namespace::join(process.as_fd(), ns::NET)?)
}

/// Makes /proc/locks unreadable for all users except the host's root, in every mount of proc, also
/// in those that a zone makes: the mode belongs to the kernel's one entry. /proc/locks lists locks
/// of open file descriptions of all process namespaces, so two zones could communicate through
/// them.
fn hide_locks() -> Result<(), AnyError> {
    let path = "/proc/locks";
    let mode = match rustix::fs::stat(path) {
        Ok(stat) => Mode::from_raw_mode(stat.st_mode),
        // This kernel has no file locks.
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    };
    if !mode.intersects(Mode::RWXG | Mode::RWXO) {
        return Ok(());
    }
    rustix::fs::chmod(path, Mode::RUSR).map_err(|errno| {
        format!("{path} can be read by everybody: {errno}: run 'chmod 400 {path}' on the host")
    })?;
    Ok(())
}

/// Makes uptime and the monotonic clock start at zero in the zone.
fn start_clocks() -> Result<(), AnyError> {
    sys::namespace::unshare(ns::TIME)?;
    let mut offsets = String::new();
    for (name, clock) in [
        ("monotonic", rustix::time::ClockId::Monotonic),
        ("boottime", rustix::time::ClockId::Boottime),
    ] {
        let now = rustix::time::clock_gettime(clock);
        // The kernel requires nanoseconds that are not negative, so they count forward from the
        // whole second.
        let (seconds, nanoseconds) = match now.tv_nsec {
            0 => (-now.tv_sec, 0),
            part => (-now.tv_sec - 1, 1_000_000_000 - part),
        };
        offsets.push_str(&format!("{name} {seconds} {nanoseconds}\n"));
    }
    let path = "/proc/self/timens_offsets";
    let written: io::Result<()> = fs::write(path, offsets);
    Ok(written.map_err(|error| format!("write {path}: {error}"))?)
}
