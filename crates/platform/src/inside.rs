//! The zone's first process: its work before it becomes init.
//!
//! The first process starts as a copy of zoneadmd in the zone's user, pid, uts and ipc namespaces.
//! It has all capabilities over those namespaces, and none over the host.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use model::immutable::PROPERTY;
use model::plan::{BootPlan, Init, InsideStep, Interpreter};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::process::{Signal, set_parent_process_death_signal};
use sys::mount::{Attr, Extent, MountFd, Param};
use sys::process::{Executable, Program, ns};

use crate::answerer;
use crate::channel::Channel;
use crate::console::Console;
use crate::credentials::{become_root, become_user, limit_privileges};
use crate::folders::{HELD, NODES, ROOT};
use crate::proc::File;
use crate::{host_name, immutable, kernel, place};
use host::flatten;
use host::volumes::relative;
use subject::names;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The file in which processes of a zone find the name and other properties of the zone.
pub const NAME_FILE: &str = "/run/zonename";

/// The resources that the first process inherits.
pub(super) struct FirstProcess<'a> {
    pub plan: &'a BootPlan,
    /// Our own init, as an open file, because no path in the zone leads to it.
    pub zinit: BorrowedFd<'a>,
    /// Mounts of our own init, one for each command that it replaces. The folder of init may be
    /// closed to the zone's root.
    pub commands: &'a [OwnedFd],
    pub channel: &'a Channel,
    /// The files to which the process writes "0" to enter v1 control groups.
    pub tasks: &'a [OwnedFd],
    pub console: &'a Console,
    /// The socket to the answerer, which gets the listener of the uname(2) filter.
    pub answerer: Option<BorrowedFd<'a>>,
    /// The socket for the zone's own beadm, which is not bound yet.
    pub environments: Option<BorrowedFd<'a>>,
}

impl<'a> FirstProcess<'a> {
    /// Returns the descriptors that the first process needs. A zone in state ready must not hold
    /// zoneadmd's socket, nor the pipe on which a command waits.
    pub(super) fn kept(&self) -> Vec<BorrowedFd<'a>> {
        let console = self.console;
        [
            self.zinit,
            self.channel.as_fd(),
            console.controller.as_fd(),
            console.terminal.as_fd(),
            console.mount.as_fd(),
        ]
        .into_iter()
        .chain(self.tasks.iter().map(AsFd::as_fd))
        .chain(self.commands.iter().map(AsFd::as_fd))
        .chain(self.answerer)
        .chain(self.environments)
        .collect()
    }
}

/// The main function of the first process. Returns the exit status.
pub(super) fn run(first: &FirstProcess<'_>) -> u8 {
    if let Err(error) = prepare(first) {
        first.channel.send_error(&flatten(&error));
        return 1;
    }
    match first.channel.wait_for_boot() {
        Ok(Some((init, passed))) => {
            let error = become_init(first, &init, &passed);
            first.channel.send_error(&error);
            1
        }
        // zoneadmd tore the zone down, or has ended itself.
        Ok(None) | Err(_) => 0,
    }
}

/// A step of the first process that failed.
#[derive(Debug, thiserror::Error)]
enum StepError {
    /// Runs a step that every zone has.
    #[error("could not {step}")]
    Own {
        step: &'static str,
        source: io::Error,
    },
    /// Runs a step of the plan.
    #[error("could not {step}")]
    Planned { step: String, source: AnyError },
}

fn prepare(first: &FirstProcess<'_>) -> Result<(), StepError> {
    // Before init runs, the zone must end together with its zoneadmd.
    let step = |step: &'static str, result: io::Result<()>| {
        result.map_err(|source| StepError::Own { step, source })
    };
    let die_with_parent =
        || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    step("follow zoneadmd", die_with_parent())?;
    step("leave the session's keys", sys::keyring::leave_session())?;
    step("wait for zoneadmd", first.channel.wait_for_go())?;
    step("become the zone's root", become_root())?;
    // The change of ids has cleared this setting.
    step("follow zoneadmd", die_with_parent())?;
    for inside in &first.plan.inside {
        carry_out(first, inside).map_err(|source| StepError::Planned {
            step: inside.to_string(),
            source,
        })?;
    }
    step("tell zoneadmd", first.channel.send_ready())
}

fn carry_out(first: &FirstProcess<'_>, step: &InsideStep) -> Result<(), AnyError> {
    match step {
        InsideStep::OwnViews => own_views(first),
        InsideStep::Loopback => Ok(net::start_exclusive()?),
        InsideStep::Mount {
            fstype,
            target,
            options,
            noexec,
            read_only,
        } => mount(fstype, target, options, *noexec, *read_only),
        InsideStep::MountPoints { targets } => {
            immutable::make_mount_points(targets, &first.plan.inside)
        }
        InsideStep::Place { held, target } => put_in_place(*held, target),
        InsideStep::ShowLimits { targets } => show_limits(targets),
        InsideStep::Devices { names, own } => populate_dev(names, *own, first.console),
        InsideStep::DeviceNodes { paths } => paths.iter().try_for_each(|path| show_node(path)),
        InsideStep::Environments { socket } => {
            let listener = first.environments.ok_or("no socket")?;
            Ok(control::beadm_socket::listen(listener, socket)?)
        }
        InsideStep::Mask { paths } => mask(paths),
        InsideStep::Interpreter { interpreter } => register(interpreter),
        InsideStep::Commands { names } => names
            .iter()
            .zip(first.commands)
            .try_for_each(|(name, zinit)| show_command(zinit, name)),
        InsideStep::BootId => kernel::show_boot_id(),
        InsideStep::Enter => Ok(sys::mount::pivot_into_cwd()?),
        InsideStep::Hostname { name } => set_name(name, first.plan),
        InsideStep::Names {
            resolver,
            zones,
            hosts,
            sealed,
        } => {
            let write = || names::write(resolver.as_deref(), zones.as_ref(), hosts);
            match sealed {
                true => immutable::on_writable_mount(write),
                false => {
                    write();
                    Ok(())
                }
            }
        }
        InsideStep::Kernel { kernel, .. } => {
            kernel::show(kernel)?;
            Ok(answerer::ask(first.answerer.ok_or("no answerer")?)?)
        }
        InsideStep::Privileges { keep } => limit_privileges(*keep),
        InsideStep::Syscalls { program } => Ok(sys::seccomp::install(program)?),
    }
}

fn own_views(first: &FirstProcess<'_>) -> Result<(), AnyError> {
    // The process enters the groups first. The view that it then makes shows the groups of that
    // moment.
    for tasks_file in first.tasks {
        rustix::io::write(tasks_file, b"0")?;
    }
    sys::namespace::unshare(ns::MOUNT | ns::CGROUP)?;
    sys::mount::make_private_recursive()?;
    // A mount from the host is locked and cannot become the root. A copy that is mounted over it
    // can.
    let root = sys::mount::open_tree(CWD, Path::new(ROOT), Extent::Tree)?;
    sys::mount::attach(&root, CWD, Path::new(ROOT))?;
    Ok(rustix::process::chdir(ROOT)?)
}

fn mount(
    fstype: &str,
    target: &Path,
    options: &[String],
    noexec: bool,
    read_only: bool,
) -> Result<(), AnyError> {
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if noexec {
        flags |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    if read_only {
        flags |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    let params: Vec<Param<'_>> = options
        .iter()
        .map(|option| match option.split_once('=') {
            Some((key, value)) => Param::text(key, value),
            None => Param::Flag(option),
        })
        .collect();
    let mounted = sys::mount::new_fs(fstype, &params, flags)?;
    attach(&mounted, target)
}

/// Attaches the mounts that zoneadmd holds. A mount from a copy of the host's mounts is locked,
/// with its flags. A copy of such a mount has locked flags but is not locked itself: read-only
/// stays read-only, and the zone can unmount it while it runs.
fn put_in_place(number: u32, target: &Path) -> Result<(), AnyError> {
    let held = Path::new("..").join(HELD).join(number.to_string());
    show(&held, target)
}

/// Mounts files that zoneadmd holds over files of the kernel with the same names. zoneadmd may hold
/// fewer, because this host does not have all of them.
fn show_limits(targets: &[PathBuf]) -> Result<(), AnyError> {
    for file in File::ALL {
        let target = Path::new(file.target());
        if !targets.iter().any(|wanted| wanted == target) {
            continue;
        }
        let held = Path::new("..").join(HELD).join(file.name());
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match openat(CWD, &held, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            other => drop(other?),
        }
        match place::open(CWD, host::volumes::relative(target).as_path()) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
            Ok(place) => {
                let mount = sys::mount::open_tree(CWD, &held, Extent::One)?;
                sys::mount::attach(&mount, &place, Path::new(""))?;
            }
        }
    }
    Ok(())
}

fn show_node(path: &Path) -> Result<(), AnyError> {
    let name = path.strip_prefix("/dev")?;
    show(&Path::new("..").join(NODES).join(name), path)
}

fn show(source: &Path, target: &Path) -> Result<(), AnyError> {
    let mount = sys::mount::open_tree(CWD, source, Extent::One)?;
    let place = place::open_or_make(CWD, target, &mount)?;
    Ok(sys::mount::attach(&mount, &place, Path::new(""))?)
}

/// The folders that may contain a command that shuts a system down, in the order of most PATHs.
const FOLDERS_OF_COMMANDS: [&str; 2] = ["usr/sbin", "usr/bin"];

/// Mounts zinit over a command. The command is usually a link to systemctl, and the mount hides
/// only the link. If the command does not exist, nothing is mounted, because the folder belongs to
/// the host.
fn show_command(zinit: &OwnedFd, name: &str) -> Result<(), AnyError> {
    for folder in FOLDERS_OF_COMMANDS {
        let Ok(folder) = place::open(CWD, Path::new(folder)) else {
            continue;
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let place = match openat(&folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        return Ok(sys::mount::attach(zinit, &place, Path::new(""))?);
    }
    Ok(())
}

/// Attaches a mount below the working directory, which is the zone's root. Makes the mount point if
/// it is missing.
fn attach(mount: &OwnedFd, target: &Path) -> Result<(), AnyError> {
    let place = place::open_or_make(CWD, target, mount)?;
    Ok(sys::mount::attach(mount, &place, Path::new(""))?)
}

/// Maximum number of terminals in a zone's /dev/pts. The host has 4,096 for all zones and itself
/// (`kernel.pty.max`), and reserves 1,024 of them for itself.
const TERMINALS: &str = "512";

/// Mounts the admitted devices, and the zone's own terminals and console. The nodes of the devices
/// are those of the host, or the zone's own ones that zoneadmd has made.
fn populate_dev(names: &[String], own: bool, console: &Console) -> Result<(), AnyError> {
    // This uses the folder as it was mounted. The root is still the host's, so a link of the zone
    // must not be followed.
    let dev = place::open(CWD, Path::new("dev"))?;
    let make_file = |name: &str| {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(&dev, name, flags, Mode::from_raw_mode(0o666)).map(drop)
    };
    let nodes = match own {
        true => Path::new("..").join(NODES),
        false => PathBuf::from("/dev"),
    };
    for name in names {
        make_file(name)?;
        let node = sys::mount::open_tree(CWD, &nodes.join(name), Extent::One)?;
        sys::mount::attach(&node, &dev, Path::new(name))?;
    }
    make_file("console")?;
    sys::mount::attach(&console.mount, &dev, Path::new("console"))?;
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        rustix::fs::symlinkat(target, &dev, name)?;
    }
    for (name, mode) in [("pts", 0o755), ("shm", 0o1777), ("mqueue", 0o1777)] {
        rustix::fs::mkdirat(&dev, name, Mode::from_raw_mode(mode))?;
        // mkdir(2) applies the umask, so the mode is set afterwards.
        rustix::fs::chmodat(
            &dev,
            name,
            Mode::from_raw_mode(mode),
            rustix::fs::AtFlags::empty(),
        )?;
    }
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let params = [
        Param::Flag("newinstance"),
        Param::text("ptmxmode", "0666"),
        Param::text("mode", "0620"),
        // The id of the group tty, the same in every distribution.
        Param::text("gid", "5"),
        Param::text("max", TERMINALS),
    ];
    let terminals = sys::mount::new_fs("devpts", &params, flags)?;
    sys::mount::attach(&terminals, &dev, Path::new("pts"))?;
    let queues = sys::mount::new_fs("mqueue", &[], flags)?;
    Ok(sys::mount::attach(&queues, &dev, Path::new("mqueue"))?)
}

/// Sets the host name of the zone: its /etc/hostname, else its name. Writes the zone's name, with
/// the other fields of `zoneadm list`, into a file for our commands inside.
fn set_name(name: &str, plan: &BootPlan) -> Result<(), AnyError> {
    rustix::system::sethostname(host_name::of_zone(name).as_bytes())?;
    let uuid = plan.uuid.map(|uuid| uuid.to_string()).unwrap_or_default();
    let mut facts = format!(
        "{name}\nid={}\nuuid={uuid}\nbrand={}\nip-type={}\n",
        plan.id, plan.brand, plan.ip_type
    );
    if let Some(one) = plan.immutable {
        let (profile, read_only) = (one.profile, one.is_sealed());
        facts.push_str(&format!("{PROPERTY}={profile}\nread-only={read_only}\n"));
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    match openat(CWD, NAME_FILE, flags, Mode::from_raw_mode(0o444)) {
        Ok(file) => rustix::io::write(&file, facts.as_bytes()).map(drop)?,
        // A brand without a fresh /run has no such file: there only the host name gives the zone's
        // name.
        Err(Errno::NOENT | Errno::EXIST | Errno::NOTDIR) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(())
}

/// Registers an interpreter in the zone's own table of binary formats. The host's files are still
/// visible.
fn register(interpreter: &Interpreter) -> Result<(), AnyError> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let table = sys::mount::new_fs("binfmt_misc", &[], flags).map_err(|error| {
        format!(
            "{}: a zone has interpreters of its own from Linux 6.7 on, with the module binfmt_misc; on others register qemu-{} for the whole host (docs/brands.md)",
            flatten(&error),
            interpreter.machine
        )
    })?;
    attach(&table, Path::new("/proc/sys/fs/binfmt_misc"))?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(&table, "register", flags, Mode::empty())?;
    rustix::io::write(file, interpreter.line.as_bytes())?;
    Ok(())
}

/// Mounts /dev/null over files, and an empty folder over folders. All folders share one file
/// system, because the kernel needs much longer to create and end a file system than to mount it
/// once more.
pub(crate) fn mask(paths: &[PathBuf]) -> Result<(), AnyError> {
    let mut covered_file: Option<PathBuf> = None;
    let mut covered_folder: Option<PathBuf> = None;
    for path in paths {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let place = match openat(CWD, relative(path), flags, Mode::empty()) {
            // This kernel does not have the file.
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        let stat = rustix::fs::fstat(&place)?;
        let is_folder = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
        let covered = if is_folder {
            &mut covered_folder
        } else {
            &mut covered_file
        };
        let nothing = match covered {
            Some(like) => sys::mount::open_tree(CWD, like, Extent::One)?,
            None if is_folder => empty_folder()?,
            None => null_device(path)?,
        };
        sys::mount::attach(&nothing, &place, Path::new(""))?;
        covered.get_or_insert_with(|| relative(path));
    }
    Ok(())
}

/// Returns a read-only file system with one empty folder.
fn empty_folder() -> Result<MountFd, AnyError> {
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let size = [Param::text("size", "4k")];
    Ok(sys::mount::new_fs("tmpfs", &size, flags)?)
}

/// Returns a read-only mount of the zone's /dev/null. An error names `path`.
fn null_device(path: &Path) -> Result<MountFd, AnyError> {
    let null = sys::mount::open_tree(CWD, Path::new("dev/null"), Extent::One)?;
    let attr = Attr {
        set: MountAttrFlags::MOUNT_ATTR_RDONLY,
        ..Attr::default()
    };
    sys::mount::set_attr(&null, &attr, Extent::One, path)?;
    Ok(null)
}

/// The signals with which zinit is told to end the zone: SIGINT, SIGTERM, SIGPWR, and SIGRTMIN+3 to
/// SIGRTMIN+5. A signal that arrives before zinit is ready must not be lost.
const ORDERS: [i32; 6] = [2, 15, 30, 37, 38, 39];

/// Executes init. Returns only on failure.
fn become_init(first: &FirstProcess<'_>, init: &Init, passed: &[OwnedFd]) -> String {
    match prepare_init(first, init) {
        Ok(program) if init.user != 0 => {
            let passed: Vec<BorrowedFd<'_>> = passed.iter().map(AsFd::as_fd).collect();
            let error = become_user(init.user)
                .map_or_else(|error| error, |()| program.exec_passing(&passed));
            format!("could not run {}: {error}", shown(init))
        }
        Ok(program) => {
            let error = match &init.path {
                // The console must outlive a killed zoneadmd, so that programs can still write to
                // it.
                None => {
                    let console = first.console.controller.as_fd();
                    program.exec_passing_with_blocked(&[console], &ORDERS)
                }
                // For other system calls, the state and the open descriptors afterwards are
                // unknown.
                Some(_) => program.exec(),
            };
            format!("could not run {}: {error}", shown(init))
        }
        Err(error) => format!("could not run {}: {}", shown(init), flatten(error.as_ref())),
    }
}

fn shown(init: &Init) -> String {
    init.path
        .as_ref()
        .map_or_else(|| "zinit".to_owned(), |path| path.display().to_string())
}

fn prepare_init(first: &FirstProcess<'_>, init: &Init) -> Result<Program, AnyError> {
    let executable = match &init.path {
        // The program is executed by its path, so it may be a script.
        Some(path) => Executable::Path(CString::new(path.as_os_str().as_bytes())?),
        None => Executable::Open(first.zinit.try_clone_to_owned()?),
    };
    rustix::process::setsid()?;
    let terminal = &first.console.terminal;
    // A job has no controlling terminal, because a script that reads /dev/tty would wait for an
    // answer forever. QEMU has none either: it only writes messages there, and must not end with
    // zoneadmd, which has the other side.
    if init.user == 0 && !init.bound {
        rustix::process::ioctl_tiocsctty(terminal)?;
    }
    match init.bound {
        false => rustix::stdio::dup2_stdin(terminal)?,
        true => {
            // Standard input is at its end, because the writing side of the pipe closes here.
            let (nothing, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::stdio::dup2_stdin(nothing)?;
        }
    }
    rustix::stdio::dup2_stdout(terminal)?;
    rustix::stdio::dup2_stderr(terminal)?;
    if !init.bound {
        // From here on the zone no longer depends on zoneadmd.
        set_parent_process_death_signal(None)?;
    }
    let strings = |list: &[String]| -> Result<Vec<CString>, AnyError> {
        list.iter()
            .map(|text| Ok(CString::new(text.as_str())?))
            .collect()
    };
    Ok(Program {
        executable,
        arguments: strings(&init.arguments)?,
        environment: strings(&init.environment)?,
    })
}
