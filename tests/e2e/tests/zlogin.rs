//! Tests zlogin: commands, sessions and the console.

use std::fs;
use std::process::Command;

use e2e::inside::perl;
use e2e::run::run;
use e2e::{Host, Terminal, cgroup, wait_for};

/// Adds a user `joe` to a zone.
fn add_joe(host: &Host, zone: &str) {
    host.sh(
        zone,
        "echo joe:x:1000:1000::/var/joe:/bin/sh >>/etc/passwd && echo joe:x:1000: >>/etc/group && \
         echo 'joe:*:1::::::' >>/etc/shadow && mkdir /var/joe && chown 1000:1000 /var/joe",
    );
}

fn session(host: &Host, words: &[&str]) -> Terminal {
    let mut command = host.command("zlogin", words);
    command.env("TERM", "dumb");
    Terminal::start(command)
}

#[test]
fn streams_stay_apart_and_the_status_is_the_commands() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let ran = host.zlogin(&["web", "echo out; echo err >&2; exit 7"]);
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str(), ran.code()),
        ("out\n", "err\n", Some(7)),
        "{ran:?}"
    );
    host.zlogin(&["web", "true"]).quiet();
    assert_eq!(host.zlogin(&["web", "false"]).code(), Some(1));
    assert_eq!(host.zlogin(&["web", "no-such-command"]).code(), Some(127));
    // The exit status is 128 plus the number of the signal, as in a shell.
    for options in [&[][..], &["-S"]] {
        let words = [options, &["web", "kill -KILL $$"]].concat();
        assert_eq!(host.zlogin(&words).code(), Some(137), "{options:?}");
    }
}

#[test]
fn a_command_runs_in_its_folder_with_its_variables() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    add_joe(&host, "web");
    let words = [
        "--cwd",
        "/var/joe",
        "--env",
        "A=it's $HOME",
        "--env=B=",
        "web",
        "pwd; echo \"$A.$B.\"; exit 3",
    ];
    for user in [&[][..], &["-S"], &["-l", "joe"]] {
        let ran = host.zlogin(&[user, &words].concat());
        assert_eq!(
            (ran.out.as_str(), ran.err.as_str(), ran.code()),
            ("/var/joe\nit's $HOME..\n", "", Some(3)),
            "{ran:?}"
        );
    }
    let ran = host.zlogin(&["--cwd", "/no/such", "web", "echo ran"]);
    assert!(ran.code() != Some(0) && ran.out.is_empty(), "{ran:?}");
    let all = ["--env", "C=1", "web", "cat"];
    assert_eq!(host.zlogin_with(&all, b"x").ok().out, "x");
}

#[test]
fn input_goes_through_byte_for_byte() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let all: Vec<u8> = (0..=255u8).cycle().take(1 << 20).collect();
    let ran = host.zlogin_with(&["web", "cksum"], &all).ok();
    let mut cksum = Command::new("cksum");
    assert_eq!(ran.out, run(&mut cksum, &all).ok().out);
    assert_eq!(host.zlogin_with(&["web", "cat"], b"x").ok().out, "x");
    assert_eq!(host.zlogin_with(&["-n", "web", "cat"], b"x").ok().out, "");
    // A command that does not read its standard input is not disturbed.
    host.zlogin_with(&["web", "true"], &all).quiet();
}

#[test]
fn a_shell_without_a_command_reads_piped_input() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let ran = host.zlogin_with(&["web"], b"hostname\necho err >&2\nexit 5\n");
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str(), ran.code()),
        ("web\n", "err\n", Some(5)),
        "{ran:?}"
    );
}

#[test]
fn words_are_joined_and_parsed_again_in_the_zone() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let ran = host
        .zlogin(&["web", "echo", "$HOME", "a   b", "'c   d'"])
        .ok();
    assert_eq!(ran.text(), "/root a b c   d");
    // Options after the name of the zone belong to the command.
    assert_eq!(
        host.zlogin(&["web", "echo", "-l", "-S"]).ok().text(),
        "-l -S"
    );
}

#[test]
fn zlogin_enters_as_another_user() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    add_joe(&host, "web");
    let ran = host
        .zlogin(&["-l", "joe", "web", "id -un; pwd; echo $HOME"])
        .ok();
    assert_eq!(ran.text(), "joe\n/var/joe\n/var/joe");
    let ran = host.zlogin(&["-l", "nobody-of-that-name", "web", "id"]);
    assert!(ran.code() != Some(0) && ran.out.is_empty(), "{ran:?}");
}

#[test]
fn a_zone_without_accounts_still_has_a_shell_for_root() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh(
        "web",
        "rm /etc/passwd /etc/shadow /etc/group; rm -r /etc/pam.d",
    );
    assert_eq!(
        host.zlogin(&["-S", "web", "echo $((6 * 7))"]).ok().text(),
        "42"
    );
    let ran = host.zlogin_with(&["-S", "web"], b"echo piped\n").ok();
    assert_eq!(ran.text(), "piped");
}

#[test]
fn the_environment_of_the_caller_does_not_enter_the_zone() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let zlogin = host.command("zlogin", &[]).get_program().to_owned();
    let secret = host.path("/secret");
    fs::write(&secret, "of the host\n").unwrap();
    for options in ["", "-S"] {
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(format!(
                "exec 7<\"$SECRET\" 8</ && cd / && exec \"$ZLOGIN\" {options} web \
                 'env; pwd; for fd in /proc/self/fd/*; do echo \"$fd\"; done; cat <&7'"
            ))
            .env("ZLOGIN", &zlogin)
            .env("SECRET", &secret)
            .env("HTTP_PASSWORD", "of-the-host")
            .env("ZONES_ROOT", host.root())
            .env("ZONES_CGROUP", host.cgroup());
        let ran = run(&mut shell, b"");
        assert!(!ran.out.contains("of-the-host"), "{ran:?}");
        assert!(!ran.out.contains("ZONES_"), "{ran:?}");
        assert!(!ran.out.contains("of the host"), "{ran:?}");
        let open: Vec<&str> = ran
            .out
            .lines()
            .filter_map(|l| l.strip_prefix("/proc/self/fd/"))
            .collect();
        // Descriptor 3 is the folder that ls reads.
        assert!(
            open.iter().all(|fd| ["0", "1", "2", "3"].contains(fd)),
            "{open:?}"
        );
    }
}

#[test]
fn a_command_is_confined_as_the_zones_own_processes_are() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let of = |pid: &str| {
        let text = host.sh("web", &format!("cat /proc/{pid}/status"));
        let wanted = [
            "CapBnd:",
            "CapEff:",
            "CapPrm:",
            "Seccomp:",
            "NoNewPrivs:",
            "Uid:",
            "Groups:",
        ];
        let lines = text
            .lines()
            .filter(|line| wanted.iter().any(|name| line.starts_with(name)));
        lines
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    let (own, init) = (of("self"), of("1"));
    assert!(own.contains(&"Seccomp:\t2".to_owned()), "{own:?}");
    assert!(own.contains(&"NoNewPrivs:\t0".to_owned()), "{own:?}");
    let bounding = own.iter().find(|line| line.starts_with("CapBnd:"));
    assert_eq!(
        bounding,
        init.iter().find(|line| line.starts_with("CapBnd:"))
    );
    // The zone has none of these capabilities: modules (16), raw I/O (17), clock (25), kernel log
    // (34), BPF (39).
    let bits = u64::from_str_radix(bounding.unwrap().trim_start_matches("CapBnd:\t"), 16).unwrap();
    for number in [16, 17, 25, 34, 39] {
        assert_eq!(bits & (1 << number), 0, "capability {number} in {bits:x}");
    }
    for name in ["user", "pid", "mnt", "uts", "ipc", "net", "cgroup", "time"] {
        let both = host.sh(
            "web",
            &format!("readlink /proc/self/ns/{name} /proc/1/ns/{name}"),
        );
        let both: Vec<&str> = both.lines().collect();
        assert_eq!(both[0], both[1]);
        let ours = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert_ne!(both[0], ours.to_string_lossy());
    }
}

#[test]
fn a_command_is_in_the_zones_control_groups() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut sleeper = session(&host, &["-i", "web", "echo here; exec sleep 1000"]);
    sleeper.expect("here");
    let found = wait_for("sleep in the zone", || {
        let pids = cgroup::processes(&host.groups_of("web"));
        pids.into_iter()
            .find(|&pid| cgroup::describe(pid).ends_with("sleep 1000"))
    });
    let text = fs::read_to_string(format!("/proc/{found}/cgroup")).unwrap();
    let limiting = ["memory", "pids", "cpu", ""];
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap(), fields.next().unwrap());
        if controllers.split(',').any(|name| limiting.contains(&name)) {
            assert!(path.contains(&format!("{}/web", host.cgroup())), "{line}");
        }
    }
    // The session is in the zone, so it ends with the zone.
    host.halt("web");
    assert_eq!(sleeper.status(), 137);
}

#[test]
fn a_session_on_a_terminal_of_the_zones_own() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut session = session(&host, &["web"]);
    session.expect("[Connected to zone 'web' pts/");
    let number = session.expect("]");
    session.types("tty; id -un; echo $((6 * 7))\r");
    session.expect(&format!("/dev/pts/{number}"));
    session.expect("root");
    session.expect("42");
    session.types("exit 3\r");
    session.expect(&format!("[Connection to zone 'web' pts/{number} closed]"));
    assert_eq!(session.status(), 0);
}

#[test]
fn the_escape_character_leaves_a_session() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut one = session(&host, &["web"]);
    one.expect("[Connected to zone 'web' pts/");
    one.types("sleep 1234\r");
    let sleeping = || {
        let pids = cgroup::processes(&host.groups_of("web"));
        pids.into_iter()
            .any(|pid| cgroup::describe(pid).ends_with("sleep 1234"))
    };
    wait_for("sleep in the session", || sleeping().then_some(()));
    one.types("~.");
    one.expect("[Connection to zone 'web' pts/");
    assert_eq!(one.status(), 0);
    wait_for("end of what ran in the session", || {
        (!sleeping()).then_some(())
    });
    // With another escape character, ~. has no special meaning.
    let mut two = session(&host, &["-e", "@", "web"]);
    two.expect("[Connected to zone 'web' pts/");
    two.types("~.\r");
    two.types("echo $((40 + 2))\r");
    two.expect("42");
    two.types("@.");
    assert_eq!(two.status(), 0);
    // Without an escape character no text is special. An escape of two characters is refused.
    let mut three = session(&host, &["-E", "web"]);
    three.expect("[Connected to zone 'web' pts/");
    three.types("@.\r~.\r");
    three.types("echo $((40 + 2)); exit\r");
    three.expect("42");
    assert_eq!(three.status(), 0);
}

#[test]
fn a_command_on_a_terminal_keeps_its_status() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut command = session(&host, &["-i", "web", "tty; exit 4"]);
    command.expect("[Connected to zone 'web' pts/");
    command.expect("/dev/pts/");
    assert_eq!(command.status(), 4);
    let mut quiet = session(&host, &["-Q", "-i", "web", "echo word"]);
    assert_eq!(quiet.expect("word"), "");
    assert_eq!(quiet.status(), 0);
}

#[test]
fn the_console_shows_and_takes_what_the_zone_does() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut console = session(&host, &["-C", "web"]);
    console.expect("[Connected to zone 'web' console]");
    host.sh("web", "echo to the console >/dev/console");
    console.expect("to the console");
    console.types("typed line\r");
    assert_eq!(
        host.sh("web", "read line </dev/console; echo \"$line\""),
        "typed line"
    );

    // Only one client can use the console at a time.
    let pid = console.pid();
    let text = format!("Console is already in use by process ID {pid}.");
    host.zlogin(&["-C", "web"]).mentions(1, &text);

    console.types("\r~.");
    console.expect("[Connection to zone 'web' console closed]");
    assert_eq!(console.status(), 0);
    let mut next = session(&host, &["-C", "web"]);
    next.expect("[Connected to zone 'web' console]");
    let history = fs::read_to_string(host.path("/var/log/zones/web.console")).unwrap();
    assert!(history.contains("to the console"), "{history}");
}

#[test]
fn the_console_outlives_halts_and_boots() {
    let Some(host) = Host::with_web() else {
        return;
    };
    let mut console = session(&host, &["-C", "web"]);
    console.expect("[Connected to zone 'web' console]");
    let says_until_seen = |console: &mut Terminal, word: &str| {
        // The client reconnects to the console of a booted zone by itself, after a moment.
        host.sh(
            "web",
            &format!("(while :; do echo {word}; sleep 0.1; done >/dev/console) >/dev/null 2>&1 &"),
        );
        console.expect(word);
    };
    host.boot("web");
    says_until_seen(&mut console, "after-boot");
    host.on("web", &["reboot"]).quiet();
    says_until_seen(&mut console, "after-reboot");
    host.halt("web");
    console.expect("[NOTICE: Zone halted]");
    console.types("\r~.");
    assert_eq!(console.status(), 0);

    // With -d the client exits when the zone halts.
    host.boot("web");
    let mut guest = session(&host, &["-C", "-d", "web"]);
    guest.expect("[Connected to zone 'web' console]");
    says_until_seen(&mut guest, "before-halt");
    host.halt("web");
    assert_eq!(guest.status(), 0);
}

#[test]
fn a_console_that_nobody_reads_stops_no_zone() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let flood = perl("print \"x\" x 72, \"\\n\" for 1 .. 30000");
    host.sh("web", &format!("{flood} >/dev/console"));
    assert_eq!(host.sh("web", "hostname"), "web");
    let size = |name: &str| {
        fs::metadata(host.path("/var/log/zones").join(name)).map_or(0, |meta| meta.len())
    };
    // The console history has a maximum size, in two files.
    assert!(size("web.console") <= (1 << 20) + 8192);
    assert!(size("web.console.0") > 0);
}

#[test]
fn zones_that_cannot_be_entered() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.configure("conf", "");
    host.zlogin(&["master", "id"]).says(
        1,
        "zlogin: login allowed only to running zones (master is 'installed').",
    );
    host.zlogin(&["nobody", "id"])
        .says(1, "zlogin: zone 'nobody' unknown");
    host.zlogin(&["-C", "nobody"])
        .says(1, "zlogin: zone 'nobody' unknown");
    host.zlogin(&["../etc", "id"])
        .says(1, "zlogin: zone '../etc' unknown");
    host.zlogin(&["global", "id"])
        .mentions(1, "zlogin: zone 'global'");
    for words in [&["conf", "id"][..], &["-C", "conf"]] {
        host.zlogin(words)
            .says(1, "zlogin: cannot login to a zone which is 'configured'");
    }
}

#[test]
fn wrong_command_lines_are_2() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    for line in [
        "",
        "-C web id",
        "-C -l joe web",
        "-C -S web",
        "-S -l joe web",
        "-x web",
        "-e ab web",
        "-i web",
        "-d web",
        "--cwd /tmp web",
        "--cwd tmp web id",
        "--env A web id",
    ] {
        let ran = host.zlogin(&line.split_whitespace().collect::<Vec<_>>());
        assert!(
            ran.code() == Some(2) && ran.err.contains("usage:"),
            "{ran:?}"
        );
    }
    assert!(host.zlogin(&["-?"]).out.contains("usage:"));
}

#[test]
fn many_sessions_run_at_once() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let host = &host;
    std::thread::scope(|scope| {
        for i in 0..12 {
            scope.spawn(move || assert_eq!(host.sh("web", &format!("echo {i}")), i.to_string()));
        }
    });
}
