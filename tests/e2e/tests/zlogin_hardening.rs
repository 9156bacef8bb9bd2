//! Tests that zlogin passes no descriptor, signal or key between the caller and the zone, and that
//! the caller can always leave.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::inside::perl;
use e2e::run::{Ran, run};
use e2e::{Host, Terminal, cgroup, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// Returns a command for a program that ignores no terminating signal, even if this test program
/// was started with ignored signals, as by nohup or a shell's `&`.
fn with_signals(program: impl AsRef<OsStr>) -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal=HUP,INT,QUIT,TERM").arg(program);
    env
}

/// Runs a script of the host's shell that calls `$ZLOGIN`.
fn script(host: &Host, text: &str) -> Command {
    let zlogin = host.command("zlogin", &[]);
    let mut shell = with_signals("sh");
    shell.args(["-c", text]).env("ZLOGIN", zlogin.get_program());
    for (name, value) in zlogin.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    shell
}

fn runs(host: &Host, text: &str) -> Ran {
    run(&mut script(host, text), b"")
}

fn session(host: &Host, words: &[&str]) -> Terminal {
    let zlogin = host.command("zlogin", words);
    let mut command = with_signals(zlogin.get_program());
    command.args(zlogin.get_args()).env_clear();
    for (name, value) in zlogin.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    Terminal::start(command)
}

fn in_zone(host: &Host, line: &str) -> bool {
    let pids = cgroup::processes(&host.groups_of("web"));
    pids.into_iter()
        .any(|pid| cgroup::describe(pid).ends_with(line))
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process number"), signal).expect("a process to signal");
}

#[test]
fn a_command_cannot_reach_the_callers_terminal() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // The script tries TIOCSTI on each stream, and opens the controlling terminal by its name.
    let attack = perl(
        "for my $fd (0, 1, 2) { open(my $f, \"+<&=\", $fd); my $c = \"x\"; \
         print ioctl($f, 0x5412, $c) ? \"typed\" : \"no $fd\", \"\\n\" } \
         print open(my $t, \"+<\", \"/dev/tty\") ? \"tty\" : \"no tty\", \"\\n\"",
    );
    for options in [&["web"][..], &["-S", "web"]] {
        let mut caller = session(&host, &[options, &[&attack]].concat());
        for expected in ["no 0", "no 1", "no 2", "no tty"] {
            let before = caller.expect(expected);
            assert!(!before.contains("typed"), "{before}");
        }
        assert_eq!(caller.status(), 0);
    }
    // The process has its own session, so it gets no signal of the caller's terminal.
    let own = host.sh("web", "ps -o sid= -p $$");
    assert_ne!(own.trim(), "0", "a session of the host's");
}

#[test]
fn the_streams_are_pipes_whatever_the_callers_are() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let show = "'for fd in 0 1 2; do readlink /proc/self/fd/$fd; done'";
    for redirect in ["</", "</dev/null", "<&-", "2>&-", ""] {
        for options in ["-S", "-n", ""] {
            let ran = runs(&host, &format!("$ZLOGIN {options} web {show} {redirect}")).ok();
            assert_eq!(ran.out.lines().count(), 3, "{ran:?}");
            assert!(ran.out.lines().all(|l| l.starts_with("pipe:")), "{ran:?}");
        }
    }
    // The streams can be opened by name, like those of a login.
    host.sh("web", "echo x >/dev/stdout; cat </dev/stdin >/dev/stderr");
    runs(&host, "$ZLOGIN web 'echo x' >&-").quiet();
    let log = host.path("/log");
    let line = format!(
        "for i in 1 2; do $ZLOGIN web echo x >>{}; done",
        log.display()
    );
    runs(&host, &line).quiet();
    assert_eq!(fs::read_to_string(log).unwrap(), "x\nx\n");
    runs(&host, "$ZLOGIN web 'echo x' >/dev/full").mentions(1, "No space left on device");
}

#[test]
fn a_hundred_megabytes_go_there_and_back() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let big = host.path("/big");
    let line = format!(
        "head -c 100000000 /dev/urandom >{0} && $ZLOGIN web cat <{0} | cmp - {0} && \
         cat {0} | $ZLOGIN -S web 'tee /dev/stderr' 2>&1 >/dev/null | cmp - {0}",
        big.display()
    );
    runs(&host, &line).quiet();
}

#[test]
fn an_idle_reader_or_writer_does_not_block_zlogin() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    assert_eq!(runs(&host, "$ZLOGIN -S web yes | head -n 1").out, "y\n");
    // The reader closes the pipe before the end of the output.
    runs(&host, "yes | $ZLOGIN web true").quiet();
    // zlogin does not wait for a background process, and prints everything that was written before
    // its end.
    let ran = host.zlogin(&[
        "-S",
        "web",
        "(sleep 1000 &); (yes x | head -c 50000); exit 3",
    ]);
    assert_eq!((ran.out.len(), ran.code()), (50000, Some(3)));
}

#[test]
fn the_callers_session_keyring_stays_outside() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // The system calls: keyctl is 250 (1 joins a new session keyring, 10 searches), add_key is 248,
    // and -3 means the session keyring.
    let search = "$t = \"user\"; $d = \"ticket\"; $r = syscall(250, 10, -3, $t, $d, 0); \
                  print $r > 0 ? \"found\" : \"nothing\"";
    let with_key = "$n = \"ours\"; $p = \"x\"; syscall(250, 1, $n); $t = \"user\"; \
                    $d = \"ticket\"; syscall(248, $t, $d, $p, 1, -3) > 0 or die; exec @ARGV";
    let found = |mut command: Command| {
        let mut perl = Command::new("perl");
        perl.args(["-e", with_key]).arg(command.get_program());
        perl.args(command.get_args());
        perl.envs(command.get_envs().filter_map(|(n, v)| Some((n, v?))));
        command = perl;
        run(&mut command, b"").ok().out
    };
    let mut here = Command::new("perl");
    here.args(["-e", search]);
    assert_eq!(found(here), "found");
    let inside = perl(search);
    assert_eq!(
        found(host.command("zlogin", &["-S", "web", &inside])),
        "nothing"
    );
    assert_eq!(found(host.command("zlogin", &["web", &inside])), "nothing");
}

#[test]
fn the_callers_limits_and_habits_stay_outside() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let show = "grep -E ^Sig.*: /proc/self/status; umask; nice; cat /proc/self/oom_score_adj; \
                grep -v Max.proc /proc/self/limits; grep ^Cpus_allowed: /proc/self/status";
    let plain = runs(&host, &format!("$ZLOGIN -S web '{show}'")).ok();
    let odd = format!(
        "trap '' HUP INT QUIT TERM USR1 PIPE; ulimit -Sn 200; ulimit -Ss 1024; ulimit -Sf 100000; \
         umask 077; echo 500 >/proc/self/oom_score_adj; \
         exec taskset 1 nice -n 10 $ZLOGIN -S web '{show}'"
    );
    let ran = runs(&host, &odd).ok();
    assert_eq!(ran.out, plain.out);
    assert!(
        plain.out.contains("SigIgn:\t0000000000000000\n"),
        "{plain:?}"
    );
    assert!(plain.out.contains("\n0022\n0\n0\n"), "{plain:?}");
    let limits = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("Max open files"));
        line.map(str::to_owned)
    };
    let init = fs::read_to_string(format!("/proc/{}/limits", host.init_of("web"))).unwrap();
    assert_eq!(limits(&ran.out), limits(&init));
}

#[test]
fn signals_reach_the_command_in_the_zone() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    for (number, sent) in [(2, Signal::INT), (15, Signal::TERM), (1, Signal::HUP)] {
        for options in [&["-S"][..], &[]] {
            // This is not the last command of the script, so the shell stays as a process of its
            // own.
            let words = [options, &["web", "sleep 1357; true"]].concat();
            let mut caller = session(&host, &words);
            wait_for("sleep in the zone", || {
                in_zone(&host, "sleep 1357").then_some(())
            });
            signal(caller.pid(), sent);
            assert_eq!(caller.status(), 128 + number, "{words:?}");
            wait_for("end of sleep, which had the signal too", || {
                (!in_zone(&host, "sleep 1357")).then_some(())
            });
        }
    }
    // Signals that the caller ignores are not ignored in the zone.
    let line = "trap '' HUP; $ZLOGIN -S web 'echo $$; sleep 1; echo end' & kill -HUP $!; wait $!";
    assert!(runs(&host, line).ok().out.ends_with("end\n"));
}

#[test]
fn leaving_waits_for_nobody() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let stubborn = "trap '' HUP TERM; echo ready; while :; do sleep 1; done";
    let mut caller = session(&host, &["-i", "web", stubborn]);
    caller.expect("ready");
    caller.types("\r~.");
    caller.expect("closed]");
    // The command was killed, so the exit status is not 0.
    assert_eq!(caller.status(), 1);
    host.halt("web");
}

#[test]
fn a_large_paste_that_nobody_reads_can_be_left() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut caller = session(
        &host,
        &["-i", "web", "stty raw -echo; echo ready; sleep 1000"],
    );
    caller.expect("ready");
    for _ in 0..2000 {
        caller.types(&format!("{}\r", "x".repeat(999)));
    }
    caller.types("~.");
    caller.expect("closed]");
    assert_eq!(caller.status(), 1);
}

#[test]
fn a_large_paste_arrives() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let count = "stty raw -echo; echo ready; sleep 1; head -c 500000 | cksum";
    let mut caller = session(&host, &["-i", "web", count]);
    caller.expect("ready");
    let text = format!("{}\r", "x".repeat(999)).repeat(500);
    caller.types(&text);
    let expected = run(&mut Command::new("cksum"), text.as_bytes()).ok();
    caller.expect(expected.text());
    assert_eq!(caller.status(), 0);
}

#[test]
fn a_signal_leaves_no_raw_terminal() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let state = "stty | grep -q -e -icanon && echo is-raw || echo is-cooked";
    for words in ["web", "-C web"] {
        for (number, sent) in [(15, Signal::TERM), (1, Signal::HUP), (2, Signal::INT)] {
            let line = format!("{state}; $ZLOGIN {words}; echo status=$?; {state}");
            let mut shell = Terminal::start(script(&host, &line));
            shell.expect("is-cooked");
            shell.expect("[Connected to zone 'web'");
            // zlogin sets its signal handlers before it changes the terminal.
            shell.wait_until_raw();
            let path = format!("/proc/{0}/task/{0}/children", shell.pid());
            let children = fs::read_to_string(path).unwrap();
            let pid = children.trim().parse().unwrap();
            signal(pid, sent);
            shell.expect(&format!("status={}", 128 + number));
            assert!(!shell.expect("is-").contains("is-raw"));
            shell.expect("cooked");
            assert_eq!(shell.status(), 0);
        }
    }
}

#[test]
fn a_zlogin_that_cannot_write_or_was_stopped_holds_up_no_halt() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut blocked = host.command("zlogin", &["-S", "web", "yes"]);
    blocked.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut blocked = e2e::start(&mut blocked);
    let mut stopped = session(&host, &["-S", "web", "sleep 2468"]);
    wait_for("both in the zone", || {
        (in_zone(&host, "yes") && in_zone(&host, "sleep 2468")).then_some(())
    });
    let mut stream = blocked.stdout.take().unwrap();
    // The program writes until the pipe is full, and no more output follows.
    let mut before = 0;
    let full = wait_for("full pipe", || {
        std::thread::sleep(Duration::from_millis(100));
        let now = rustix::io::ioctl_fionread(&stream).unwrap();
        (std::mem::replace(&mut before, now) == now && now > 0).then_some(now)
    });
    signal(stopped.pid(), Signal::TSTP);
    host.halt("web");
    assert_eq!(stopped.status(), 137);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.len() as u64 >= full && rest.starts_with(b"y\ny\n"));
    assert_eq!(blocked.wait().unwrap().code(), Some(137));
}

#[test]
fn an_empty_input_is_no_device_of_the_hosts() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let null = File::open("/dev/null").unwrap();
    let mut command = host.command("zlogin", &["-n", "web", "cat; readlink /proc/self/fd/0"]);
    command.stdin(null).stdout(Stdio::piped());
    let mut zlogin = e2e::start(&mut command);
    let mut out = String::new();
    let mut stream = zlogin.stdout.take().unwrap();
    stream.read_to_string(&mut out).unwrap();
    assert!(zlogin.wait().unwrap().success());
    assert!(out.starts_with("pipe:"), "{out:?}");
}
