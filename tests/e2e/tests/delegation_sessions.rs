//! Tests delegation: programs that the service runs for users, with and without a terminal.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use e2e::delegation::{Service, admin, allow, uid};
use e2e::run::run;
use e2e::{Host, Terminal, wait_for};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_session_on_a_terminal() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    allow(&host, "web", "daemon", "login");
    let service = Service::start(&host);
    let start = |words: &[&str]| {
        let mut command = service.command("daemon", "zlogin", words);
        command.env("TERM", "dumb");
        Terminal::start(command)
    };
    let mut session = start(&["web"]);
    session.expect("[Connected to zone 'web' pts/");
    session.types("echo got $((6 * 7)) $TERM; stty -a </dev/tty >/dev/null && echo tty\r");
    session.expect("got 42 dumb");
    session.expect("tty");
    // The terminal also shows the typed text, so the test waits for a word that only the output
    // contains. The word must come from the job itself, because a shell that is about to start a
    // job may lose the key.
    session.types("sh -c 'echo no\"\"w; exec sleep 1000'\r");
    session.expect("now");
    // The key goes to the zone and ends the job there, not the session.
    session.types("\u{3}");
    session.expect("^C");
    session.types("echo still; exit 3\r");
    session.expect("still");
    session.expect("[Connection to zone 'web' pts/");
    assert_eq!(session.status(), 0);
    let mut left = start(&["web"]);
    left.expect("[Connected to zone 'web' pts/");
    left.types("echo 'he''re'\r");
    left.expect("here");
    left.types("\r~.");
    assert_eq!(left.status(), 0);
    // A command without a terminal of its own gets the signal of the key.
    let mut command = start(&["web", "echo begun; sleep 1000; echo not reached"]);
    command.expect("begun");
    command.types("\u{3}");
    assert_ne!(command.status(), 0);
    let mut command = start(&["-i", "web", "tty; exit 5"]);
    command.expect("/dev/pts/");
    assert_eq!(command.status(), 5);
}

#[test]
fn lines_of_json_ask_no_question_and_leave_the_input_as_it_is() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    allow(&host, "web", "daemon", "login,manage");
    let service = Service::start(&host);
    fs::write(host.path("public"), "everybody's").unwrap();
    let said = service
        .run(
            "daemon",
            "zoneadm --progress=json -z web push /mnt/public /root/p",
        )
        .ok();
    assert!(
        said.out.ends_with("\"error\":null,\"status\":0}\n"),
        "{said:?}"
    );
    assert_eq!(host.sh("web", "cat /root/p"), "everybody's");
    host.halt("web");
    let _ = service.run("daemon", "zoneadm -z web snapshot one").ok();
    // Without an answer it must not hang.
    let words = ["--progress=json", "-z", "web", "rollback", "one"];
    let mut asked = Terminal::start(service.command("daemon", "zoneadm", &words));
    asked.expect("Input not from terminal and -F not specified: rollback not done.");
    asked.expect("\"status\":1}");
    assert_eq!(asked.status(), 1);
}

#[test]
fn signals_are_passed_on_and_who_goes_takes_the_program_along() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    allow(&host, "web", "daemon", "login");
    let service = Service::start(&host);
    let start = |mark: &str| {
        let script = format!("echo begun; exec sleep {mark}");
        let mut command = service.command("daemon", "zlogin", &["web", &script]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut begun = [0; 6];
        std::io::Read::read_exact(&mut out, &mut begun).unwrap();
        wait_for("command in the zone", || {
            (!sleeps(mark).is_empty()).then_some(())
        });
        (child, out)
    };
    let ended = |mark: &str| {
        wait_for("end of the command in the zone", || {
            sleeps(mark).is_empty().then_some(())
        });
    };
    // A number of seconds that no other test sleeps.
    let (mut child, _out) = start("71117");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    ended("71117");
    assert!(!child.wait().unwrap().success());
    let (mut child, out) = start("71118");
    child.kill().unwrap();
    drop(out);
    child.wait().unwrap();
    ended("71118");
    // The terminal is closed, which hangs up the session.
    let words = ["web", "echo begun; exec sleep 71119"];
    let mut terminal = Terminal::start(service.command("daemon", "zlogin", &words));
    terminal.expect("begun");
    drop(terminal);
    ended("71119");
    // No process is left; each test process has its own line.
    wait_for("ends in the log", || {
        let ends = service
            .log()
            .into_iter()
            .filter(|line| line.contains(" ended: "));
        (ends.count() == 3).then_some(())
    });
}

fn sleeps(mark: &str) -> Vec<i32> {
    let mut pids = processes_with(mark);
    pids.retain(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    pids
}

/// Returns the processes whose command line has this word.
fn processes_with(word: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0)
            .any(|one| one == word.as_bytes())
    })
    .collect()
}

/// A folder of programs with a zlogin that prints its arguments and descriptors.
fn telling_programs(host: &Host) -> PathBuf {
    let folder = host.path("/programs");
    fs::create_dir(&folder).unwrap();
    for program in ["zoneauthd", "zlogin"] {
        let built = host.command(program, &[]).get_program().to_owned();
        e2e::copy_program(built, folder.join(program));
    }
    // The service searches programs in its own folder, so the zlogin of that folder runs.
    let service = folder.join("service");
    fs::create_dir(&service).unwrap();
    fs::rename(folder.join("zoneauthd"), service.join("zoneauthd")).unwrap();
    // The shell reads its own status file, because it blocks signals while it starts another
    // program.
    let script = "#!/bin/sh\n\
        echo \"words $#\"; for word in \"$@\"; do printf '<%s>\\n' \"$word\"; done\n\
        echo \"folder $(pwd)\"; echo \"mask $(umask)\"\n\
        cut -d' ' -f1,5,6 /proc/$$/stat | { read pid group session; echo \"leads $((pid == group)) $((pid == session))\"; }\n\
        while read -r line; do case $line in SigIgn:*|SigBlk:*|Groups:*|Uid:*) echo \"$line\"; esac; done </proc/$$/status\n\
        for fd in 0 1 2; do echo \"fd $(readlink /proc/$$/fd/$fd)\"; done\n\
        echo open $(ls /proc/self/fd)\n\
        env | sed 's/^/env /'\n";
    let zlogin = service.join("zlogin");
    fs::write(&zlogin, script).unwrap();
    Command::new("chmod")
        .arg("755")
        .arg(&zlogin)
        .status()
        .unwrap();
    folder
}

#[test]
fn a_program_gets_nothing_of_the_users_but_words() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("daemon", "login"));
    let folder = telling_programs(&host);
    let mut command = Command::new(folder.join("service/zoneauthd"));
    command
        .env_clear()
        .env("ZONES_ROOT", host.root())
        .env("ZONES_CGROUP", host.cgroup());
    let service = Service::start_from(&host, command, folder);
    fs::write(host.path("/secret"), "x").unwrap();
    let words = [
        "-c",
        "umask 0; ulimit -c 0; cd /tmp; trap '' HUP; exec /srv/zlogin -Qe @ a \"$1\" '' '-z b' 7</mnt/secret 8</ >/mnt/out",
        "sh",
        "one\ntwo\u{1b} \u{e9}",
    ];
    fs::write(host.path("/out"), "").unwrap();
    Command::new("chmod")
        .arg("666")
        .arg(host.path("/out"))
        .status()
        .unwrap();
    let mut command = service.command("daemon", "/bin/sh", &words);
    command
        .env("TERM", "../../etc/passwd")
        .env("LANG", "C.UTF-8")
        .env("LD_PRELOAD", "/mnt/evil.so")
        .env("IFS", "x")
        .env("ZONES_FAULT", "boot:1:kill")
        .env("ZONES_DELEGATED_UID", "0")
        .env("ZONES_CGROUP", "/elsewhere")
        .env("BASH_ENV", "/mnt/evil")
        .env("PAGER", "/mnt/evil");
    let ran = run(&mut command, b"typed").ok();
    assert_eq!(ran.out, "");
    let told = fs::read_to_string(host.path("/out")).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        told.starts_with("words 7\n<-Q>\n<-e>\n<@>\n<a>\n<one\ntwo\u{1b} \u{e9}>\n<>\n<-z b>\nfolder /\nmask 0022\nleads 1 1\n"),
        "{told}"
    );
    let value = |name: &str| {
        lines
            .iter()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    assert_eq!(value("Uid:"), Some("0\t0\t0\t0"), "{told}");
    assert_eq!(value("Groups:"), Some(""), "{told}");
    for set in ["SigIgn:", "SigBlk:"] {
        assert_eq!(value(set), Some("0000000000000000"), "{told}");
    }
    let streams: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("fd "))
        .collect();
    assert_eq!(streams.len(), 3, "{told}");
    assert!(
        streams.iter().all(|target| target.starts_with("pipe:")),
        "{told}"
    );
    // Descriptor 3 is the folder that ls reads.
    assert_eq!(value("open "), Some("0 1 2 3"), "{told}");
    let mut environment: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("env "))
        .collect();
    environment.retain(|one| {
        !["PWD=", "OLDPWD=", "SHLVL=", "_="]
            .iter()
            .any(|own| one.starts_with(own))
    });
    environment.sort_unstable();
    let expected = [
        "LANG=C.UTF-8".to_owned(),
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        format!("ZONES_CGROUP={}", host.cgroup()),
        format!("ZONES_DELEGATED_UID={}", uid("daemon")),
        "ZONES_DELEGATED_USER=daemon".to_owned(),
        format!("ZONES_ROOT={}", host.root().display()),
    ];
    assert_eq!(environment, expected, "{told}");
}
