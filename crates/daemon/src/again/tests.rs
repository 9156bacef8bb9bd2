//! Tests of the pauses before a boot, and of a zone that reboots itself while other commands look
//! at its state.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use model::controls::Controls;
use model::{State, ZoneName};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use store::Root;
use store::lock::{self, Wait};
use store::runtime::{self, Process, Runtime};

use super::*;
use crate::console::Console;
use crate::server::{End, listen};
use host::spawn::{Starter, Wanted};
use host::{Error, Host};
use limits::ZoneCgroups;
use platform::Platform;
use sys::process::Child;

#[test]
fn pauses_grow_and_have_an_end() {
    let seconds = |reboots| pause(reboots).as_secs();
    assert_eq!(
        [1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 90, u32::MAX].map(seconds),
        [0, 0, 0, 1, 2, 4, 32, 60, 60, 60, 60, 60]
    );
}

#[test]
fn a_zone_that_ran_for_a_while_begins_anew() {
    let short = Duration::from_millis(20);
    assert_eq!(in_succession(0, short), 1);
    assert_eq!(in_succession(7, short), 8);
    assert_eq!(in_succession(7, STABLE_TIME), 1);
    assert_eq!(in_succession(u32::MAX, short), u32::MAX);
}

/// Starts no program, but keeps the start request, so that the test can run it later.
#[derive(Debug, Default)]
struct Later(Mutex<Vec<Vec<OwnedFd>>>);

impl Starter for Later {
    fn start(&self, _: &Host, wanted: &Wanted<'_>) -> Result<Child, Error> {
        assert_eq!(
            (wanted.name, wanted.arguments[2]),
            ("zoneadm", spawn::AGAIN)
        );
        let passed = wanted.pass.iter().map(|one| one.try_clone_to_owned());
        let passed = passed.collect::<Result<_, _>>();
        self.0.lock().unwrap().push(passed.unwrap());
        sys::crash::point();
        Ok(child_of(std::process::id()))
    }
}

fn child_of(pid: u32) -> Child {
    let pid = i32::try_from(pid).unwrap();
    let number = Pid::from_raw(pid).unwrap();
    let pidfd = pidfd_open(number, PidfdFlags::empty()).unwrap();
    Child { pid, pidfd }
}

/// Returns the zoneadmd of a zone that rebooted itself. The zone has a real process and no control
/// groups.
#[expect(clippy::zombie_processes, reason = "the zoneadmd waits for it")]
fn rebooted<'a>(host: &'a Host, zone: &'a ZoneName) -> Server<'a> {
    let mut init = Command::new("sleep");
    let init = init.arg("600").stdin(Stdio::null()).spawn().unwrap();
    let process = |pid: u32| Process::find(i32::try_from(pid).unwrap()).unwrap();
    let groups = vec![host.root.run().join("no-such-group")];
    let runtime = Runtime {
        id: 1,
        state: State::Running,
        init: process(init.id()),
        daemon: process(std::process::id()),
        cgroups: groups.clone(),
        first_id: 0x2000_0000,
        shutdown_signal: 30,
        capabilities: 0,
        seccomp: Vec::new(),
        kernel: false,
        environment: Vec::new(),
        controls: Controls::default(),
        auxiliary: String::new(),
        pager: None,
        immutable: None,
    };
    runtime::save(&host.root, zone, &runtime).unwrap();
    let child = child_of(init.id());
    rustix::process::kill_process(Pid::from_child(&init), rustix::process::Signal::HUP).unwrap();
    let nothing = || OwnedFd::from(File::open("/dev/null").unwrap());
    let groups = ZoneCgroups::from_paths(&groups).unwrap();
    let platform = Platform::adopted(child, groups, nothing(), nothing(), None, None);
    let root_lock = File::create(host.root.run().join("root-lock")).unwrap();
    let listener = listen(&host.root, zone).unwrap();
    let console = Console::open(&host.root, zone).unwrap();
    Server::new(host, zone, root_lock, listener, console, platform, runtime)
}

/// Returns true if `zoneadm halt` would report now that the zone is halted.
fn is_halted(root: &Root, zone: &ZoneName) -> bool {
    let free = lock::zone(root, zone, Wait::No).is_ok();
    free && runtime::load_any(root, zone).unwrap().is_none()
}

#[test]
fn commands_never_see_a_restarting_zone_as_halted() {
    let folder = tempfile::tempdir().unwrap();
    let later = Arc::new(Later::default());
    let mut host = Host::new(Root::new(folder.path()), "no-such-group".into(), None);
    host.starter = later.clone();
    let zone: ZoneName = "web".parse().unwrap();
    std::fs::create_dir_all(host.root.run()).unwrap();
    let looks = Arc::new(Mutex::new(Vec::new()));
    let (seen, root, name) = (looks.clone(), host.root.clone(), zone.clone());
    let look = move || seen.lock().unwrap().push(is_halted(&root, &name));

    let held = lock::zone(&host.root, &zone, Wait::Yes).unwrap();
    let server = rebooted(&host, &zone);
    sys::crash::watched(look, || server.finish(End::Reboot, Some(held))).unwrap();
    // The old zoneadmd has ended, and the command that boots the zone again has not done any work
    // yet.
    looks.lock().unwrap().push(is_halted(&host.root, &zone));
    let looks = looks.lock().unwrap();
    assert!(looks.len() > 8, "{}", looks.len());
    let wrong: Vec<usize> = (0..looks.len()).filter(|at| looks[*at]).collect();
    assert_eq!(
        wrong,
        [0; 0],
        "looks of {} that found it halted",
        looks.len()
    );

    let mut started = later.0.lock().unwrap();
    let passed = started.pop().expect("a program that boots the zone");
    let lock = File::from(passed.into_iter().next().expect("the lock"));
    let held = ZoneLock::handed_on(&host.root, &zone, lock).unwrap();
    assert!(held.as_fd().try_clone_to_owned().is_ok());
    assert!(!is_halted(&host.root, &zone));
}
