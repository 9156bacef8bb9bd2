//! Runs zinit as process 1 of namespaces of its own, as zoneadmd does.
//!
//! Each zone here is `unshare` with a chroot into a folder that sees the
//! host's /usr and /dev; its parent passes on the signal that zinit dies of.

// The tests print for the user who runs them.
#![allow(clippy::disallowed_macros)]
#![allow(clippy::missing_docs_in_private_items)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGPWR: i32 = 30;
const SIGRTMIN: i32 = 34;

/// Returns the path of zinit as it is shipped. A debug build of the tests contains another form of
/// zinit (see src/main.rs), so the tests build the release form separately, which takes a second.
fn zinit() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if !cfg!(debug_assertions) {
            return env!("CARGO_BIN_EXE_zinit").into();
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zinit");
        let status = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--release",
                "--package",
                "zinit",
                "--target-dir",
            ])
            .arg(&target)
            .env_remove("CARGO_BUILD_TARGET")
            // Without link-time optimisation, zinit does not link for this target.
            .env_remove("CARGO_PROFILE_RELEASE_LTO")
            .env_remove("CARGO_PROFILE_RELEASE_OPT_LEVEL")
            .env_remove("CARGO_PROFILE_RELEASE_CODEGEN_UNITS")
            .status()
            .expect("cargo starts");
        assert!(status.success(), "zinit builds");
        target.join("release/zinit")
    })
}

/// Timeout of every wait in a test.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

static STARTING: Mutex<()> = Mutex::new(());

/// Runs `act` while no other test starts a process. Until a new process executes its program, it
/// has copies of the test's descriptors, and the kernel does not execute a file that is open for
/// writing.
fn between_starts<T>(act: impl FnOnce() -> T) -> T {
    let _held = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    act()
}

fn start(command: &mut Command) -> Child {
    between_starts(|| command.spawn()).expect("a program of util-linux or a shell starts")
}

struct Zone {
    parent: Child,
    console: BufReader<ChildStdout>,
    /// The process id on the host of the zone's process 1.
    init: u32,
    _root: tempfile::TempDir,
}

impl Zone {
    /// Boots a zone whose /etc/rc.zone is `rc`; its first line must be `up`.
    fn boot(rc: &str) -> Self {
        let mut zone = Self::start(rc, 0o755, &[]);
        assert_eq!(zone.line(), "up\n");
        zone
    }

    fn start(rc: &str, mode: u32, boot_args: &[&str]) -> Self {
        Self::start_with(rc, mode, boot_args, &[])
    }

    /// Starts a zone with these links to scripts of services: the path of the link, and the script.
    fn start_with(rc: &str, mode: u32, boot_args: &[&str], links: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        for folder in ["etc", "usr", "dev"] {
            fs::create_dir(path.join(folder)).unwrap();
        }
        for link in ["bin", "sbin", "lib", "lib64"] {
            symlink(Path::new("usr").join(link), path.join(link)).unwrap();
        }
        let zinit = zinit();
        between_starts(|| fs::copy(zinit, path.join("zinit"))).unwrap();
        for name in ["poweroff", "reboot"] {
            symlink("zinit", path.join(name)).unwrap();
        }
        let file = path.join("etc/rc.zone");
        between_starts(|| fs::write(&file, rc)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        for (link, script) in links {
            let (link, script) = (path.join(link), path.join(script));
            for file in [&link, &script] {
                fs::create_dir_all(file.parent().unwrap()).unwrap();
            }
            let text = "#!/bin/sh\necho $0 $1 $RUNLEVEL";
            between_starts(|| fs::write(&script, text)).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            symlink(
                Path::new("/etc/init.d").join(script.file_name().unwrap()),
                link,
            )
            .unwrap();
        }

        let mut unshare = Command::new("unshare");
        unshare
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
            ])
            .args(["--propagation", "private", "sh", "-ec"])
            .arg(
                "root=$1; shift
                mount --rbind /usr \"$root/usr\"
                mount --rbind /dev \"$root/dev\"
                # As zoneadmd does: what comes before it listens is not lost.
                exec env --block-signal chroot \"$root\" /zinit \"$@\" 2>&1",
            )
            .arg("sh")
            .arg(path)
            .args(boot_args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut parent = start(&mut unshare);
        let console = BufReader::new(parent.stdout.take().unwrap());
        // From this line on, the drop of `zone` ends the processes in every case.
        let mut zone = Self {
            parent,
            console,
            init: 0,
            _root: root,
        };
        zone.init = until("process 1 starts", || {
            if zone.parent.try_wait().unwrap().is_some() {
                return Some(0); // it was quick
            }
            let init = *children(zone.parent.id()).first()?;
            let name = fs::read_to_string(format!("/proc/{init}/comm")).ok()?;
            (name == "zinit\n").then_some(init)
        });
        zone
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.console.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, number: i32) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("kill -{number} {}", self.init)]);
        assert!(start(&mut shell).wait().unwrap().success());
    }

    /// Waits for the end of the zone. Returns the rest of the console's output, and the signal that
    /// the parent of process 1 saw.
    fn ended(&mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        self.console.read_to_string(&mut rest).unwrap();
        (rest, self.parent.wait().unwrap().signal())
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        let _ = self.parent.kill();
        let _ = self.parent.wait();
    }
}

/// Returns the children of a process, including zombies.
fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            begin.elapsed() < WAIT_TIMEOUT,
            "{what}: not in {} s",
            WAIT_TIMEOUT.as_secs()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn orphans_are_reaped_while_rc_zone_runs() {
    let mut zone = Zone::boot(
        "#!/bin/sh
        case $1 in stop) exit ;; esac
        for i in 1 2 3 4 5 6 7 8; do (sleep 0.1 & sleep 0.2 &) done
        echo up
        exec sleep 1000",
    );
    // Only rc.zone is left, and the test does not wait for rc.zone.
    until("orphans are gone", || {
        (children(zone.init).len() == 1).then_some(())
    });
    zone.signal(SIGTERM);
    assert_eq!(zone.ended(), ("zinit: power off\n".into(), Some(SIGINT)));
}

const SERVICE: &str = "#!/bin/sh
    case $1 in
    start)
        # A service: it says when it is asked to end.
        (exec 2>/dev/null; trap 'echo asked; exit' TERM; echo up; while :; do sleep 0.05; done) & ;;
    stop) echo stop ;;
    esac";

#[test]
fn every_order_ends_the_zone_in_order() {
    for (number, word, seen) in [
        (SIGPWR, "power off", SIGINT),
        (SIGTERM, "power off", SIGINT),
        (SIGRTMIN + 3, "power off", SIGINT),
        (SIGRTMIN + 4, "power off", SIGINT),
        (SIGINT, "reboot", SIGHUP),
        (SIGRTMIN + 5, "reboot", SIGHUP),
    ] {
        let mut zone = Zone::boot(SERVICE);
        zone.signal(number);
        let expected = format!("zinit: {word}\nstop\nasked\n");
        assert_eq!(zone.ended(), (expected, Some(seen)), "signal {number}");
    }
}

#[test]
fn halt_and_reboot_commands_signal_process_1() {
    for (name, word, seen) in [
        ("poweroff", "power off", SIGINT),
        ("reboot", "reboot", SIGHUP),
    ] {
        let rc = format!("#!/bin/sh\ncase $1 in start) echo up; /{name} ;; esac");
        let mut zone = Zone::boot(&rc);
        assert_eq!(zone.ended(), (format!("zinit: {word}\n"), Some(seen)));
    }
}

#[test]
fn other_signals_do_nothing() {
    let mut zone = Zone::boot(SERVICE);
    // SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH
    for number in [1, 3, 10, 12, 14, 28] {
        zone.signal(number);
    }
    zone.signal(SIGPWR);
    let expected = "zinit: power off\nstop\nasked\n".to_owned();
    assert_eq!(zone.ended(), (expected, Some(SIGINT)));
}

#[test]
fn processes_that_ignore_sigterm_are_killed_after_the_grace_period() {
    let mut zone = Zone::boot(
        "#!/bin/sh
        case $1 in start) (exec 2>/dev/null; trap '' TERM; echo up; while :; do sleep 1; done) & ;; esac",
    );
    zone.signal(SIGTERM);
    assert_eq!(zone.ended(), ("zinit: power off\n".into(), Some(SIGINT)));
}

#[test]
fn a_hanging_stop_script_does_not_stop_the_halt() {
    let mut zone = Zone::boot("#!/bin/sh\necho up; case $1 in stop) sleep 1000 ;; esac");
    zone.signal(SIGTERM);
    let expected = "zinit: power off\nup\nzinit: /etc/rc.zone stop: takes too long, going on\n";
    assert_eq!(zone.ended(), (expected.into(), Some(SIGINT)));
}

#[test]
fn a_second_order_does_not_wait() {
    let mut zone = Zone::boot(
        "#!/bin/sh
        trap '' TERM
        case $1 in start) echo up ;; stop) echo stop ;; esac
        exec sleep 1000",
    );
    zone.signal(SIGTERM);
    assert_eq!(zone.line(), "zinit: power off\n");
    assert_eq!(zone.line(), "stop\n");
    zone.signal(SIGINT);
    // The first order remains in force: power off, not reboot. If zinit had waited for rc.zone,
    // zinit would have printed that the stop takes too long.
    assert_eq!(zone.ended(), (String::new(), Some(SIGINT)));
}

#[test]
fn processes_that_entered_the_zone_are_ended_too() {
    let mut zone = Zone::boot("#!/bin/sh\ncase $1 in start) echo up ;; esac");
    let mut nsenter = Command::new("nsenter");
    nsenter
        .args([
            "--target",
            &zone.init.to_string(),
            "--user",
            "--preserve-credentials",
        ])
        .args(["--mount", "--pid", "--root", "--wd"])
        .args([
            "sh",
            "-c",
            "trap 'sleep 0.3; exit 9' TERM; echo in; while :; do sleep 0.05; done",
        ])
        .stdout(Stdio::piped());
    let mut stranger = start(&mut nsenter);
    let mut line = [0; 3];
    stranger
        .stdout
        .take()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    zone.signal(SIGTERM);
    assert_eq!(zone.ended(), ("zinit: power off\n".into(), Some(SIGINT)));
    // The process had time to end by itself.
    assert_eq!(stranger.wait().unwrap().code(), Some(9));
}

#[test]
fn rc_zone_without_execute_mode_is_not_run() {
    let mut zone = Zone::start("#!/bin/sh\necho wrong", 0o644, &[]);
    zone.signal(SIGTERM);
    assert_eq!(zone.ended(), ("zinit: power off\n".into(), Some(SIGINT)));
}

#[test]
fn single_user_leaves_rc_zone_out() {
    let mut zone = Zone::start("#!/bin/sh\necho $1", 0o755, &["-v", "-s"]);
    zone.signal(SIGTERM);
    assert_eq!(
        zone.ended(),
        ("zinit: power off\nstop\n".into(), Some(SIGINT))
    );
}

#[test]
fn rc_zone_needs_no_interpreter_line_and_its_failure_is_told() {
    let mut zone = Zone::boot("echo up; echo $0 $1; echo $PATH; exit 3");
    assert_eq!(zone.line(), "/etc/rc.zone start\n");
    assert_eq!(zone.line(), "/usr/sbin:/usr/bin:/sbin:/bin\n");
    assert_eq!(zone.line(), "zinit: /etc/rc.zone start: exit status 3\n");
    zone.signal(SIGTERM);
    assert!(zone.ended().0.ends_with("stop: exit status 3\n"));
}

#[test]
fn enabled_services_are_started_and_stopped_in_order() {
    let links = [
        ("etc/rc2.d/S02cron", "etc/init.d/cron"),
        ("etc/rc2.d/S01ssh", "etc/init.d/ssh"),
        ("etc/rc2.d/K01off", "etc/init.d/off"),
        ("etc/rc0.d/K01cron", "etc/init.d/cron"),
    ];
    let mut zone = Zone::start_with("", 0o644, &[], &links);
    assert_eq!(zone.line(), "/etc/rc2.d/S01ssh start 2\n");
    assert_eq!(zone.line(), "/etc/rc2.d/S02cron start 2\n");
    zone.signal(SIGTERM);
    let rest = "zinit: power off\n/etc/rc0.d/K01cron stop 2\n".to_owned();
    assert_eq!(zone.ended(), (rest, Some(SIGINT)));

    // A boot for a single user starts none.
    let mut zone = Zone::start_with("", 0o644, &["-s"], &links[1..2]);
    zone.signal(SIGTERM);
    assert_eq!(zone.ended(), ("zinit: power off\n".into(), Some(SIGINT)));
}

#[test]
fn zinit_refuses_to_run_outside_a_zone() {
    let mut outside = start(Command::new(zinit()).stderr(Stdio::piped()));
    let mut told = String::new();
    let mut errors = outside.stderr.take().unwrap();
    errors.read_to_string(&mut told).unwrap();
    assert_eq!(outside.wait().unwrap().code(), Some(1));
    assert_eq!(told, "zinit: I am process 1 of a zone or nothing\n");
}

#[test]
fn zinit_is_small_on_disk_and_in_memory() {
    let size = fs::metadata(zinit()).unwrap().len();
    assert!(size <= 32 * 1024, "{size} bytes");
    let zone = Zone::boot("#!/bin/sh\necho up");
    until("rc.zone is gone", || {
        children(zone.init).is_empty().then_some(())
    });
    let maps = fs::read_to_string(format!("/proc/{}/smaps_rollup", zone.init)).unwrap();
    let kib = |name: &str| -> u32 {
        let line = maps.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    println!(
        "{size} bytes; PSS {} KiB, private dirty {} KiB",
        kib("Pss:"),
        kib("Private_Dirty:")
    );
    assert!(kib("Private_Dirty:") <= 24, "{maps}");
    assert!(kib("Pss:") <= 40, "{maps}");
}
