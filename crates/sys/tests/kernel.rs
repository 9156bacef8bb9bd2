//! Tests the behaviour of the kernel on which zones depend, one fact per test. tests/vm runs these
//! tests on other kernels than the developer's: a test that fails names the difference.
//!
//! Each fact is tested in a process of its own, because namespaces, filters and ids of a process
//! cannot be undone. The tests need root, and make one cgroup (v2), which they remove. The tests do
//! not use the standard harness, because its threads forbid `fork`.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::mount::MountAttrFlags;
use rustix::process::Signal;
use sys::process::{Child, fork, ns};

type Outcome = Result<(), Box<dyn std::error::Error>>;
type Fact = fn(&Path) -> Outcome;

const FACTS: &[(&str, Fact)] = &[
    ("a_child_starts_in_its_cgroup", starts_in_cgroup),
    ("a_cgroup_freezes_and_is_killed_as_one", freezes_and_kills),
    ("a_device_program_refuses", device_program_refuses),
    ("a_program_is_loaded_despite_signals", loads_despite_signals),
    ("a_filter_refuses_without_no_new_privs", filter_refuses),
    ("all_namespaces_are_made_and_joined", namespaces),
    ("clocks_begin_anew_in_a_time_namespace", time_namespace),
    (
        "a_network_of_the_host_is_not_the_zones_to_administer",
        shared_network,
    ),
    ("proc_is_mounted_by_the_root_of_a_zone", proc_in_zone),
    ("process_1_ends_by_the_signal_that_tells_why", power_signals),
    ("a_child_starts_when_threads_have_ended", after_threads),
];

fn main() {
    println!("running {} tests", FACTS.len());
    let folder = match cgroup_folder() {
        Ok(folder) => folder,
        Err(why) => {
            println!("skipped: kernel facts: {why}");
            println!("test result: ok. 1 passed; 0 failed; 0 ignored");
            return;
        }
    };
    let mut failed = 0;
    for (name, fact) in FACTS {
        let tried = fork(0, None, &[], || match fact(&folder) {
            Ok(()) => 0,
            Err(e) => {
                println!("{name}: {e}");
                1
            }
        });
        let good = tried
            .and_then(|child| status(&child))
            .is_ok_and(|s| s == Ended::Exit(0));
        println!("test {name} ... {}", if good { "ok" } else { "FAILED" });
        failed += u32::from(!good);
    }
    let _ = fs::write(folder.join("cgroup.kill"), "1");
    fs::remove_dir(&folder).expect("the cgroup is empty");
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let passed = FACTS.len() - failed as usize;
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    std::process::exit(i32::from(failed > 0));
}

/// Joining a thread may be faster than the kernel, which still counts the joined thread: about once
/// in 6,000 times. A thread that is not joined always counts.
fn after_threads(_: &Path) -> Outcome {
    std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(20)));
    let child = fork(0, None, &[], || 0)?;
    match status(&child)? {
        Ended::Exit(0) => Ok(()),
        _ => Err("the child did not end as it should".into()),
    }
}

/// Returns a new cgroup for this run, or the reason why there is none.
fn cgroup_folder() -> Result<PathBuf, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root".to_owned());
    }
    let top = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|top| Path::new(top).join("cgroup.procs").exists() && is_v2(top))
        .ok_or("no cgroup v2 is mounted")?;
    let folder = Path::new(top).join(format!("kernel-facts-{}", std::process::id()));
    fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

fn is_v2(top: &str) -> bool {
    const CGROUP2: i64 = 0x6367_7270;
    rustix::fs::statfs(top).is_ok_and(|found| found.f_type == CGROUP2)
}

#[derive(Debug, PartialEq)]
enum Ended {
    Exit(i32),
    Signal(i32),
}

fn status(child: &Child) -> io::Result<Ended> {
    let pid = rustix::process::Pid::from_raw(child.pid).expect("a child has a number");
    let (_, status) = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())?
        .expect("waiting without NOHANG");
    Ok(status.exit_status().map_or_else(
        || Ended::Signal(status.terminating_signal().unwrap_or(0)),
        Ended::Exit,
    ))
}

/// Checks that the child ended with exit status 0.
fn succeeds(child: &Child) -> Outcome {
    match status(child)? {
        Ended::Exit(0) => Ok(()),
        other => Err(format!("the child: {other:?}").into()),
    }
}

fn told(work: impl FnOnce() -> Outcome) -> u8 {
    match work() {
        Ok(()) => 0,
        Err(e) => {
            println!("in the child: {e}");
            1
        }
    }
}

fn must(condition: bool, what: &str) -> Outcome {
    if condition { Ok(()) } else { Err(what.into()) }
}

fn starts_in_cgroup(folder: &Path) -> Outcome {
    let door = fs::File::open(folder)?;
    let name = folder.file_name().expect("it has one").to_string_lossy();
    let child = fork(0, Some(door.as_fd()), &[], || {
        told(|| {
            let groups = fs::read_to_string("/proc/self/cgroup")?;
            let mine = groups.lines().find(|line| line.starts_with("0::"));
            must(mine.is_some_and(|line| line.ends_with(&*name)), &groups)
        })
    })?;
    succeeds(&child)
}

fn freezes_and_kills(folder: &Path) -> Outcome {
    let door = fs::File::open(folder)?;
    let sleeper = || loop {
        std::thread::park();
    };
    let children = [
        fork(0, Some(door.as_fd()), &[], sleeper)?,
        fork(0, Some(door.as_fd()), &[], sleeper)?,
    ];
    let events = folder.join("cgroup.events");
    let file = fs::File::open(&events)?;
    fs::write(folder.join("cgroup.freeze"), "1")?;
    while !fs::read_to_string(&events)?.contains("frozen 1") {
        let mut fds = [PollFd::new(&file, PollFlags::PRI)];
        let limit = rustix::event::Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        };
        must(
            rustix::event::poll(&mut fds, Some(&limit))? == 1,
            "not frozen in 10 s",
        )?;
    }
    // The kill also ends frozen processes.
    fs::write(folder.join("cgroup.kill"), "1")?;
    for child in &children {
        must(status(child)? == Ended::Signal(9), "not killed")?;
    }
    fs::write(folder.join("cgroup.freeze"), "0")?;
    Ok(())
}

fn device_program_refuses(folder: &Path) -> Outcome {
    let inner = folder.join("devices");
    fs::create_dir(&inner)?;
    let tried = (|| {
        let door = fs::File::open(&inner)?;
        // The program is: r0 = 0 (refuse); exit.
        sys::bpf::attach_device_filter(door.as_fd(), &[0xb7, 0x95])?;
        let child = fork(0, Some(door.as_fd()), &[], || {
            told(|| {
                let error = fs::File::open("/dev/zero").err().ok_or("it opened")?;
                must(error.raw_os_error() == Some(1), &error.to_string())
            })
        })?;
        succeeds(&child)
    })();
    fs::remove_dir(&inner)?;
    tried
}

/// The verifier gives up if a signal is pending. Here a child stops and continues its parent once
/// during each load, as a terminal or a debugger does, each time at another moment of the load.
fn loads_despite_signals(_: &Path) -> Outcome {
    const LOADS: u32 = 64;
    // The program is: r0 = 0, many times; exit.
    let mut program = vec![0xb7; 20_000];
    program.push(0x95);
    let began = Instant::now();
    sys::bpf::load_classifier(&program)?;
    let duration = began.elapsed();

    let parent = rustix::process::getpid();
    let (reader, writer) = rustix::pipe::pipe()?;
    let child = fork(0, None, &[reader.as_fd()], || {
        told(|| {
            for load in 0..LOADS {
                must(rustix::io::read(&reader, &mut [0])? == 1, "no load")?;
                // A sleep would end too late.
                let begun = Instant::now();
                while begun.elapsed() < duration * load / LOADS {}
                rustix::process::kill_process(parent, Signal::STOP)?;
                rustix::process::kill_process(parent, Signal::CONT)?;
            }
            Ok(())
        })
    })?;
    let mut errors = Vec::new();
    for _ in 0..LOADS {
        rustix::io::write(&writer, &[0])?;
        errors.extend(sys::bpf::load_classifier(&program).err());
    }
    succeeds(&child)?;
    errors.first().map_or(Ok(()), |first| {
        Err(format!("{} of {LOADS} loads failed: {first}", errors.len()).into())
    })
}

fn filter_refuses(_: &Path) -> Outcome {
    const CHDIR: u64 = if cfg!(target_arch = "x86_64") { 80 } else { 49 };
    // An instruction in memory: code, jump if true, jump if false, number.
    let instruction =
        |code: u64, yes: u64, no: u64, number: u64| code | yes << 16 | no << 24 | number << 32;
    sys::seccomp::install(&[
        instruction(0x20, 0, 0, 0),               // load the call's number
        instruction(0x15, 0, 1, CHDIR),           // is it chdir?
        instruction(0x06, 0, 0, 0x0005_0000 | 1), // EPERM
        instruction(0x06, 0, 0, 0x7fff_0000),     // allow
    ])?;
    let refused = rustix::process::chdir("/").err();
    must(refused == Some(rustix::io::Errno::PERM), "chdir works")?;
    let status = fs::read_to_string("/proc/self/status")?;
    let line = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_whitespace().last())
            .map(str::to_owned)
    };
    must(line("Seccomp:").as_deref() == Some("2"), "no filter")?;
    must(line("NoNewPrivs:").as_deref() == Some("0"), "no_new_privs")
}

/// Starts a process in its own namespaces for other processes to join, and ends it.
fn zone(flags: u64, body: impl FnOnce() -> u8) -> io::Result<Child> {
    let (ready, go) = rustix::pipe::pipe()?;
    let child = fork(flags, None, &[ready.as_fd()], || {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        let mut byte = [0];
        match rustix::io::read(&ready, &mut byte) {
            Ok(1) => body(),
            _ => 1,
        }
    })?;
    for file in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{}/{file}", child.pid), "0 100000 65536")?;
    }
    rustix::io::write(&go, b"g")?;
    Ok(child)
}

fn namespaces(_: &Path) -> Outcome {
    let flags = ns::ALL & !ns::TIME;
    let init = zone(flags, || {
        loop {
            std::thread::park();
        }
    })?;
    // A single descriptor, the pidfd, is enough to join all namespaces of a process, as zlogin
    // does.
    let visitor = fork(0, None, &[init.pidfd.as_fd()], || {
        told(|| {
            sys::namespace::join(init.pidfd.as_fd(), flags)?;
            let inside = fork(0, None, &[], || {
                u8::from(rustix::process::getpid().as_raw_nonzero().get() != 2)
            })?;
            succeeds(&inside)
        })
    })?;
    succeeds(&visitor)?;
    sys::process::send_signal(init.pidfd.as_fd(), 9)?;
    must(status(&init)? == Ended::Signal(9), "process 1 lives on")
}

fn time_namespace(_: &Path) -> Outcome {
    sys::namespace::unshare(ns::TIME)?;
    let uptime = fs::read_to_string("/proc/uptime")?;
    let seconds: i64 = uptime.split('.').next().unwrap_or_default().parse()?;
    let offsets = format!("monotonic -{seconds} 0\nboottime -{seconds} 0\n");
    fs::write("/proc/self/timens_offsets", offsets)?;
    let child = zone(ns::USER | ns::PID, || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        u8::from(now.tv_sec > 60)
    })?;
    succeeds(&child)
}

fn shared_network(_: &Path) -> Outcome {
    sys::namespace::unshare(ns::NET)?;
    sys::link::loopback_up()?;
    let child = zone(ns::USER | ns::PID | ns::MOUNT, || {
        told(|| {
            let socket = rustix::net::socket(
                rustix::net::AddressFamily::INET,
                rustix::net::SocketType::RAW,
                Some(rustix::net::ipproto::ICMP),
            );
            must(
                socket.err() == Some(rustix::io::Errno::PERM),
                "a raw socket",
            )?;
            let sysfs = sys::mount::new_fs("sysfs", &[], MountAttrFlags::empty());
            must(sysfs.is_err_and(|e| e.errno() == 1), "sysfs")
        })
    })?;
    succeeds(&child)?;
    // A process of the host may mount sysfs.
    sys::mount::new_fs("sysfs", &[], MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    Ok(())
}

fn proc_in_zone(_: &Path) -> Outcome {
    let child = zone(ns::USER | ns::PID | ns::MOUNT | ns::IPC, || {
        told(|| {
            sys::mount::new_fs("proc", &[], MountAttrFlags::MOUNT_ATTR_NOSUID)?;
            let devpts = [
                sys::mount::Param::text("ptmxmode", "0666"),
                sys::mount::Param::text("mode", "0620"),
            ];
            sys::mount::new_fs("devpts", &devpts, MountAttrFlags::empty())?;
            sys::mount::new_fs("mqueue", &[], MountAttrFlags::empty())?;
            sys::mount::new_fs("tmpfs", &[], MountAttrFlags::empty())?;
            Ok(())
        })
    })?;
    succeeds(&child)
}

fn power_signals(_: &Path) -> Outcome {
    use rustix::system::RebootCommand;
    for (command, signal) in [(RebootCommand::PowerOff, 2), (RebootCommand::Restart, 1)] {
        let init = zone(ns::USER | ns::PID, || {
            // Without this check, the call could reboot the machine itself.
            if rustix::process::getpid().is_init() {
                let _ = rustix::system::reboot(command);
            }
            1
        })?;
        must(status(&init)? == Ended::Signal(signal), "another end")?;
    }
    Ok(())
}
