//! The zone's first process: its work before it becomes init.
//!
//! It starts as a copy of zoneadmd in the zone's user, pid, uts and ipc
//! namespaces, with all capabilities over those and none over the host.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

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
use crate::{kernel, place};
use host::flatten;
use host::volumes::relative;
use subject::names;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The file in which processes of a zone find the zone's name and its other properties.
pub const NAME_FILE: &str = "/run/zonename";

/// The resources that the first process takes along.
pub(super) struct FirstProcess<'a> {
    pub plan: &'a BootPlan,
    /// Our own init, open because no path in the zone leads to it.
    pub zinit: BorrowedFd<'a>,
    /// Mounts of it, one for each command that it is shown as: its folder may be closed to
    /// the zone's root.
    pub commands: &'a [OwnedFd],
    pub channel: &'a Channel,
    /// Files to write "0" to, to enter v1 control groups.
    pub tasks: &'a [OwnedFd],
    pub console: &'a Console,
    /// Whom to tell of a filter that asks about uname(2).
    pub answerer: Option<BorrowedFd<'a>>,
    /// The socket for the zone's own beadm, not bound yet.
    pub environments: Option<BorrowedFd<'a>>,
}

impl<'a> FirstProcess<'a> {
    /// The descriptors that the first process needs: a zone in state ready must not
    /// hold zoneadmd's socket, nor the pipe on which a command waits.
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

/// Runs in the first process. Returns the exit status.
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
        // zoneadmd took the zone down, or is gone itself.
        Ok(None) | Err(_) => 0,
    }
}

/// A step of the first process that failed.
#[derive(Debug, thiserror::Error)]
enum StepError {
    /// A step that each zone has.
    #[error("could not {step}")]
    Own {
        step: &'static str,
        source: io::Error,
    },
    /// A step of the plan.
    #[error("could not {step}")]
    Planned { step: String, source: AnyError },
}

fn prepare(first: &FirstProcess<'_>) -> Result<(), StepError> {
    // Until init runs, a zone without its zoneadmd is nothing.
    let step = |step: &'static str, result: io::Result<()>| {
        result.map_err(|source| StepError::Own { step, source })
    };
    let die_with_parent =
        || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    step("follow zoneadmd", die_with_parent())?;
    step("leave the session's keys", sys::keyring::leave_session())?;
    step("wait for zoneadmd", first.channel.wait_for_go())?;
    step("become the zone's root", become_root())?;
    // Changing ids has cleared it.
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
        InsideStep::Place { held, target } => put_in_place(*held, target),
        InsideStep::ShowLimits { targets } => show_limits(targets),
        InsideStep::Devices { names } => populate_dev(names, first.console),
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
        InsideStep::Names { resolver, hosts } => {
            names::write(resolver.as_deref(), hosts);
            Ok(())
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
    // First enters the groups, then makes the view, which shows the groups of that moment.
    for tasks_file in first.tasks {
        rustix::io::write(tasks_file, b"0")?;
    }
    sys::namespace::unshare(ns::MOUNT | ns::CGROUP)?;
    sys::mount::make_private_recursive()?;
    // A mount from the host is locked and cannot become the root; a copy on top of it can.
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

/// Attaches the mounts that zoneadmd holds. A mount that came with a copy of the host's mounts is
/// locked, and so are its flags; a copy of it has the flags locked and is not locked itself:
/// read-only stays read-only, but it can be unmounted while the zone runs.
fn put_in_place(number: u32, target: &Path) -> Result<(), AnyError> {
    let held = Path::new("..").join(HELD).join(number.to_string());
    show(&held, target)
}

/// Covers files of the kernel by those that zoneadmd holds under their names. It may hold
/// fewer: of some this host has nothing to tell.
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

/// Folders in which a command may be that ends the zone, in the order of most paths.
const FOLDERS_OF_COMMANDS: [&str; 2] = ["usr/sbin", "usr/bin"];

/// Shows a mount of zinit in the place of a command. The place is mostly a link to systemctl: a
/// mount on it hides only the link. Where there is no such command, nothing is shown, as the folder
/// is the host's.
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

/// Attaches a mount below the working directory, which is the zone's root, at a place
/// that is made when it is missing.
fn attach(mount: &OwnedFd, target: &Path) -> Result<(), AnyError> {
    let place = place::open_or_make(CWD, target, mount)?;
    Ok(sys::mount::attach(mount, &place, Path::new(""))?)
}

/// Terminals that a zone's /dev/pts has at most: the machine has 4,096 for all zones and
/// itself (`kernel.pty.max`), of which it keeps 1,024.
const TERMINALS: &str = "512";

/// Shows the admitted devices of the host, the zone's own terminals and console.
fn populate_dev(names: &[String], console: &Console) -> Result<(), AnyError> {
    // As its file system was mounted: the root is still the host's, and a link of the
    // zone's must not lead there.
    let dev = place::open(CWD, Path::new("dev"))?;
    let make_file = |name: &str| {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(&dev, name, flags, Mode::from_raw_mode(0o666)).map(drop)
    };
    for name in names {
        make_file(name)?;
        let node = sys::mount::open_tree(CWD, &Path::new("/dev").join(name), Extent::One)?;
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
        // mkdir is subject to the umask.
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
        // The group tty of every distribution.
        Param::text("gid", "5"),
        Param::text("max", TERMINALS),
    ];
    let terminals = sys::mount::new_fs("devpts", &params, flags)?;
    sys::mount::attach(&terminals, &dev, Path::new("pts"))?;
    let queues = sys::mount::new_fs("mqueue", &[], flags)?;
    Ok(sys::mount::attach(&queues, &dev, Path::new("mqueue"))?)
}

/// Tells the zone its name: as host name, and, with the other fields of `zoneadm list`, in a file
/// for our commands inside.
fn set_name(name: &str, plan: &BootPlan) -> Result<(), AnyError> {
    rustix::system::sethostname(name.as_bytes())?;
    let uuid = plan.uuid.map(|uuid| uuid.to_string()).unwrap_or_default();
    let facts = format!(
        "{name}\nid={}\nuuid={uuid}\nbrand={}\nip-type={}\n",
        plan.id, plan.brand, plan.ip_type
    );
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    match openat(CWD, NAME_FILE, flags, Mode::from_raw_mode(0o444)) {
        Ok(file) => rustix::io::write(&file, facts.as_bytes()).map(drop)?,
        // A brand without a fresh /run: then only the host name tells.
        Err(Errno::NOENT | Errno::EXIST | Errno::NOTDIR) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(())
}

/// Registers an interpreter in the zone's own table. The host's files are still in view.
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

/// Covers files with /dev/null, and folders with an empty one. All folders show one file system:
/// the kernel needs much longer to make and to end one than to show it once more.
fn mask(paths: &[PathBuf]) -> Result<(), AnyError> {
    let mut covered_file: Option<PathBuf> = None;
    let mut covered_folder: Option<PathBuf> = None;
    for path in paths {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let place = match openat(CWD, relative(path), flags, Mode::empty()) {
            // This kernel does not have it.
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

/// Returns a file system with one folder, which is empty and stays so.
fn empty_folder() -> Result<MountFd, AnyError> {
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let size = [Param::text("size", "4k")];
    Ok(sys::mount::new_fs("tmpfs", &size, flags)?)
}

/// Returns a mount of the zone's /dev/null that is read-only. An error names `path`.
fn null_device(path: &Path) -> Result<MountFd, AnyError> {
    let null = sys::mount::open_tree(CWD, Path::new("dev/null"), Extent::One)?;
    let attr = Attr {
        set: MountAttrFlags::MOUNT_ATTR_RDONLY,
        ..Attr::default()
    };
    sys::mount::set_attr(&null, &attr, Extent::One, path)?;
    Ok(null)
}

/// The signals that zinit takes as an order to end the zone: SIGINT, SIGTERM, SIGPWR, and
/// SIGRTMIN+3 to SIGRTMIN+5. SIGINT, SIGTERM, SIGPWR, and 3 to 5 behind SIGRTMIN. An order that
/// comes before it is ready must not be lost.
const ORDERS: [i32; 6] = [2, 15, 30, 37, 38, 39];

/// Becomes init; returns only when that failed.
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
                // Its console outlives a zoneadmd that is killed: programs can still write there.
                None => {
                    let console = first.console.controller.as_fd();
                    program.exec_passing_with_blocked(&[console], &ORDERS)
                }
                // The states of other system calls, and the descriptors that they leave open, are
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
        // By name, so that it may be a script.
        Some(path) => Executable::Path(CString::new(path.as_os_str().as_bytes())?),
        None => Executable::Open(first.zinit.try_clone_to_owned()?),
    };
    rustix::process::setsid()?;
    let terminal = &first.console.terminal;
    // QEMU only complains there, and must not end with zoneadmd, who has the other side.
    // A job has no terminal: a script that reads /dev/tty would wait for an answer for ever.
    if init.user == 0 && !init.bound {
        rustix::process::ioctl_tiocsctty(terminal)?;
    }
    match init.bound {
        false => rustix::stdio::dup2_stdin(terminal)?,
        true => {
            // The end of its input: the other side closes here.
            let (nothing, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::stdio::dup2_stdin(nothing)?;
        }
    }
    rustix::stdio::dup2_stdout(terminal)?;
    rustix::stdio::dup2_stderr(terminal)?;
    if !init.bound {
        // From here on the zone lives without zoneadmd.
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
