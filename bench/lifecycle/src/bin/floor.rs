//! The least that a zone costs on this kernel: a clone, a boot and a halt made
//! of the kernel calls alone, with nothing checked, kept, locked or logged.
//!
//! The boot gives the zone what ours have: user, pid, mount, uts, ipc, cgroup,
//! time and network namespaces, an overlay over id-mapped layers, /usr of the
//! host read-only, /proc, /sys, /dev with its nodes and terminals, and the same
//! init. The network namespace is the host's, as in a shared-IP zone.
//!
//! usage: floor clone DIR | boot DIR LOWER INIT CGROUP BASE | halt DIR CGROUP |
//!        remove DIR

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mkdirat, mknodat, open, symlinkat};
use rustix::mount::{MountAttrFlags, MoveMountFlags, move_mount};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Pid, PidfdFlags, Signal, Uid};
use sys::mount::{Attr, Extent, Param, attach, new_fs, open_tree, set_attr};
use sys::process::{Child, Executable, Program, fork, ns};

/// Number of ids of a zone.
const IDS: u32 = 65_536;

/// Character devices of a zone: name, major, minor.
const NODES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

/// The message of the child that it needs the host's root no longer.
const READY: &[u8] = b"\n";

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["clone", dir] => clone(Path::new(dir)),
        ["boot", dir, lower, init, cgroup, base] => Zone {
            dir: dir.into(),
            lower: lower.into(),
            init: init.into(),
            cgroup: cgroup.into(),
            base: base.parse().context("BASE")?,
        }
        .boot(),
        ["halt", dir, cgroup] => halt(Path::new(dir), Path::new(cgroup)),
        ["remove", dir] => {
            // The mounts were the zone's own and have gone with it.
            fs::remove_dir_all(dir).with_context(|| dir.to_owned())
        }
        _ => bail!("usage: floor clone|boot|halt|remove ..."),
    }
}

/// A new top over the shared layer, and the points where both get mounted.
fn clone(dir: &Path) -> Result<()> {
    for folder in ["", "top", "work", "root", "lower", "upper"] {
        fs::create_dir(dir.join(folder)).with_context(|| folder.to_owned())?;
    }
    Ok(())
}

struct Zone {
    dir: PathBuf,
    lower: PathBuf,
    init: PathBuf,
    cgroup: PathBuf,
    /// The host's id of the zone's root.
    base: u32,
}

impl Zone {
    fn boot(&self) -> Result<()> {
        fs::create_dir(&self.cgroup).context("cgroup")?;
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let cgroup = open(&self.cgroup, folder, Mode::empty()).context("cgroup")?;
        let init = Program {
            executable: Executable::Open(
                open(&self.init, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).context("init")?,
            ),
            arguments: vec![CString::from(c"init")],
            environment: vec![],
        };
        let Executable::Open(init_file) = &init.executable else {
            bail!("init is not open");
        };
        let name = self.dir.file_name().context("DIR has no name")?;
        let (go_read, go_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let (done_read, done_write) = pipe_with(PipeFlags::CLOEXEC)?;

        // The host's: the zone's root may use this network and not change it.
        sys::namespace::unshare(ns::NET | ns::TIME).context("unshare")?;
        fs::write("/proc/self/timens_offsets", "boottime -1 0\n").context("timens_offsets")?;
        sys::link::loopback_up().context("loopback")?;

        let own = ns::USER | ns::PID | ns::MOUNT | ns::UTS | ns::IPC | ns::CGROUP;
        let keep = [init_file.as_fd(), go_read.as_fd(), done_write.as_fd()];
        let child = fork(own, Some(cgroup.as_fd()), &keep, || {
            let error = in_zone(
                &init,
                name.as_encoded_bytes(),
                go_read.as_fd(),
                done_write.as_fd(),
            );
            let text = format!("{error:#}");
            let _ = rustix::io::write(&done_write, text.as_bytes());
            1
        })
        .context("clone3")?;
        drop(done_write);

        self.map_ids(&child)?;
        sys::namespace::join(child.pidfd.as_fd(), ns::MOUNT).context("setns")?;
        self.mount_all(&child)?;
        let mut answer = [0; 200];
        // The child has its /proc: the host's may leave its sight.
        let ready = rustix::io::read(&done_read, &mut answer[..1])?;
        if answer[..ready] == *READY {
            sys::mount::pivot_into_cwd()?;
            rustix::io::write(&go_write, b"g")?;
        }
        // The kernel closes the child's end when init's program has been loaded.
        let length = rustix::io::read(&done_read, &mut answer)?;
        if length > 0 {
            bail!(
                "in the zone: {}",
                String::from_utf8_lossy(&answer[..length])
            );
        }
        Ok(())
    }

    fn map_ids(&self, child: &Child) -> Result<()> {
        fs::write(self.dir.join("pid"), child.pid.to_string())?;
        let map = format!("0 {} {IDS}", self.base);
        for file in ["uid_map", "gid_map"] {
            fs::write(format!("/proc/{}/{file}", child.pid), &map).context(file)?;
        }
        Ok(())
    }

    /// Makes every mount of the zone but /proc, and stands in its root.
    fn mount_all(&self, child: &Child) -> Result<()> {
        let none = MountAttrFlags::empty();
        let users = open(
            format!("/proc/{}/ns/user", child.pid),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let at = |name: &str| self.dir.join(name);
        rustix::process::umask(Mode::empty());
        sys::mount::make_private_recursive()?;
        self.attach_mapped(&self.lower, users.as_fd(), &at("lower"))?;
        self.attach_mapped(&self.dir, users.as_fd(), &at("upper"))?;
        let path = |p: PathBuf| p.into_os_string();
        let (lower, top, work) = (
            path(at("lower")),
            path(at("upper/top")),
            path(at("upper/work")),
        );
        let options = [
            Param::Text("lowerdir", &lower),
            Param::Text("upperdir", &top),
            Param::Text("workdir", &work),
            Param::text("index", "off"),
            Param::text("metacopy", "off"),
            Param::text("redirect_dir", "on"),
            Param::text("xino", "off"),
        ];
        let root = sys::idmap::with_fs_ids(self.base, || new_fs("overlay", &options, none))??;
        attach(&root, CWD, &at("root"))?;
        rustix::process::chdir(at("root"))?;

        let usr = open_tree(CWD, Path::new("/usr"), Extent::One)?;
        let read_only = Attr {
            set: MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NODEV,
            ..Attr::default()
        };
        set_attr(&usr, &read_only, Extent::One, Path::new("/usr"))?;
        attach(&usr, CWD, Path::new("usr"))?;

        let closed = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let sysfs = new_fs("sysfs", &[], closed | MountAttrFlags::MOUNT_ATTR_RDONLY)?;
        attach(&sysfs, CWD, Path::new("sys"))?;
        self.mount_dev()
    }

    fn attach_mapped(&self, from: &Path, users: BorrowedFd<'_>, to: &Path) -> Result<()> {
        let mount = open_tree(CWD, from, Extent::One)?;
        let mapped = Attr {
            idmap: Some(users),
            ..Attr::default()
        };
        set_attr(&mount, &mapped, Extent::One, from)?;
        Ok(attach(&mount, CWD, to)?)
    }

    fn mount_dev(&self) -> Result<()> {
        let base = self.base.to_string();
        let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let options = [
            Param::text("mode", "755"),
            Param::text("uid", &base),
            Param::text("gid", &base),
        ];
        let dev = new_fs("tmpfs", &options, no_programs)?;
        for (name, major, minor) in NODES {
            let mode = Mode::from_raw_mode(0o666);
            mknodat(
                &dev,
                name,
                FileType::CharacterDevice,
                mode,
                makedev(major, minor),
            )?;
        }
        for (name, target) in LINKS {
            symlinkat(target, &dev, name)?;
        }
        for folder in ["pts", "shm"] {
            mkdirat(&dev, folder, Mode::from_raw_mode(0o1777))?;
        }
        attach(&dev, CWD, Path::new("dev"))?;
        let options = [Param::text("mode", "620"), Param::text("ptmxmode", "666")];
        let terminals = new_fs("devpts", &options, no_programs)?;
        Ok(attach(&terminals, CWD, Path::new("dev/pts"))?)
    }
}

/// Process 1 of the zone until it is init. Returns only what went wrong.
fn in_zone(init: &Program, name: &[u8], go: BorrowedFd<'_>, done: BorrowedFd<'_>) -> anyhow::Error {
    let prepare = || -> Result<()> {
        // Should the one who mounts for us fail, nobody says go.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        rustix::process::chdir("/")?;
        // Made while the host's /proc can be seen: the kernel asks for that.
        let closed = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let proc: OwnedFd = new_fs("proc", &[], closed)?;
        rustix::io::write(done, READY)?;
        if rustix::io::read(go, &mut [0])? != 1 {
            bail!("nobody said go");
        }
        move_mount(
            &proc,
            "",
            CWD,
            "/proc",
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )?;
        rustix::system::sethostname(name)?;
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
        rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
        Ok(rustix::process::set_parent_process_death_signal(None)?)
    };
    match prepare() {
        Ok(()) => anyhow::Error::new(init.exec()).context("init"),
        Err(error) => error,
    }
}

fn halt(dir: &Path, cgroup: &Path) -> Result<()> {
    let text = fs::read_to_string(dir.join("pid")).context("pid")?;
    let pid = Pid::from_raw(text.parse().context("pid")?).context("pid")?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    rustix::process::pidfd_send_signal(&pidfd, Signal::KILL)?;
    poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None)?;
    fs::remove_dir(cgroup).context("cgroup")
}
