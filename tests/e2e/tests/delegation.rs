//! Delegation: users who are not root, and what the admin resources of zones give them.
//!
//! The users are accounts that every Debian has. Each client runs in a mount namespace
//! of its own where the root of the test is /mnt and the programs are /srv, so that it
//! does not matter who may enter the folders above them.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::run::run;
use e2e::{Host, Ran, Terminal, wait_for};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, kill_process};

/// What a client runs in: $1 is the root, $2 the folder of programs, $3 the user id.
const AS_USER: &str = "mount --bind \"$1\" /mnt && mount --bind \"$2\" /srv && user=$3 && shift 3 && \
     exec setpriv --reuid=$user --regid=$user --clear-groups -- \"$@\"";

/// A zoneauthd, which ends with its test.
struct Service {
    child: Child,
    root: PathBuf,
    programs: PathBuf,
}

impl Service {
    fn start(host: &Host) -> Self {
        let command = host.command("zoneauthd", &[]);
        let programs = Path::new(command.get_program())
            .parent()
            .unwrap()
            .to_owned();
        Self::start_from(host, command, programs)
    }

    /// Starts this zoneauthd for clients in `programs`.
    fn start_from(host: &Host, mut command: Command, programs: PathBuf) -> Self {
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let service = Self {
            child,
            root: host.root().to_owned(),
            programs,
        };
        wait_for("zoneauthd that listens", || {
            reach(host.root()).then_some(())
        });
        service
    }

    /// A program as a user would start it. /mnt is the root of the test.
    fn command(&self, user: &str, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["-m", "--propagation", "private", "sh", "-c", AS_USER, "sh"])
            .arg(&self.root)
            .arg(&self.programs)
            .arg(uid(user).to_string())
            .arg(if program.contains('/') {
                program.to_owned()
            } else {
                format!("/srv/{program}")
            })
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("ZONES_ROOT", "/mnt");
        command
    }

    fn run(&self, user: &str, line: &str) -> Ran {
        let mut words = line.split(' ');
        let program = words.next().unwrap();
        self.run_words(user, program, &words.collect::<Vec<_>>())
    }

    fn run_words(&self, user: &str, program: &str, words: &[&str]) -> Ran {
        run(&mut self.command(user, program, words), b"")
    }

    /// The lines of the log, without their times.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.root.join("var/log/zones/authority.log"));
        let text = text.unwrap_or_default();
        text.lines()
            .map(|line| {
                let (time, rest) = line.split_once(' ').unwrap();
                assert!(time.ends_with('Z') && time.len() == 20, "{line}");
                rest.to_owned()
            })
            .collect()
    }

    /// The lines that say what was refused to a user.
    fn refusals(&self, user: &str) -> Vec<String> {
        let mine = format!("uid={} user={user} ", uid(user));
        let mut lines = self.log();
        lines.retain(|line| line.starts_with(&mine) && line.contains(" refused: "));
        lines
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// True when somebody listens on the socket below a root.
fn reach(root: &Path) -> bool {
    let Ok(folder) = fs::File::open(root.join("run/zones")) else {
        return false;
    };
    let path = format!("/proc/self/fd/{}/auth.sock", folder.as_raw_fd());
    let socket: OwnedFd = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).is_ok()
}

/// The number of an account.
fn uid(user: &str) -> u32 {
    let text = fs::read_to_string("/etc/passwd").unwrap();
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|line| line[0] == user);
    line.unwrap_or_else(|| panic!("no account {user}"))[2]
        .parse()
        .unwrap()
}

/// What zonecfg is told to let a user do something.
fn admin(user: &str, auths: &str) -> String {
    format!("add admin; set user={user}; set auths={auths}; end")
}

/// Lets a user do something to a zone that is there.
fn allow(host: &Host, zone: &str, user: &str, auths: &str) {
    host.zonecfg(&["-z", zone, &admin(user, auths)]).quiet();
}

/// The processes whose command line has this word.
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

#[test]
fn user_a_does_with_zone_a_what_was_allowed() {
    let Some(host) = Host::with_web() else { return };
    allow(&host, "web", "daemon", "login,manage");
    let service = Service::start(&host);
    service.run("daemon", "zoneadm -z web boot").quiet();
    assert_eq!(host.state("web"), "running");
    service
        .run("daemon", "zoneadm -z web boot")
        .mentions(0, "zone is already booted");
    let ran = service.run_words(
        "daemon",
        "zlogin",
        &["web", "echo out; echo err >&2; id -u; exit 7"],
    );
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str(), ran.code()),
        ("out\n0\n", "err\n", Some(7)),
        "{ran:?}"
    );
    // A signal counts as a shell counts it.
    let ran = service.run_words("daemon", "zlogin", &["-S", "web", "kill -KILL $$"]);
    assert_eq!(ran.code(), Some(137), "{ran:?}");
    let all: Vec<u8> = (0..=255u8).cycle().take(1 << 20).collect();
    let ran = run(
        &mut service.command("daemon", "zlogin", &["web", "cksum"]),
        &all,
    )
    .ok();
    assert_eq!(ran.out, run(&mut Command::new("cksum"), &all).ok().out);
    let ran = run(
        &mut service.command("daemon", "zlogin", &["-n", "web", "cat"]),
        b"x",
    )
    .ok();
    assert_eq!(ran.out, "");
    service.run("daemon", "zoneadm -z web reboot").quiet();
    service.run("daemon", "zoneadm -z web shutdown").quiet();
    assert_eq!(host.state("web"), "installed");
    service.run("daemon", "zoneadm -z web ready").quiet();
    service.run("daemon", "zoneadm -z web halt").quiet();
    let plan = service.run("daemon", "zoneadm -z web boot -n").ok();
    assert!(!plan.out.is_empty());
    assert_eq!(host.state("web"), "installed");
    service.run("daemon", "zoneadm -z web uninstall -F").quiet();
    assert_eq!(host.state("web"), "configured");
    // What was allowed is what is configured now, in whatever session.
    host.zonecfg(&["-z", "web", "remove -F admin"]).quiet();
    service.run("daemon", "zoneadm -z web install").says(
        1,
        "zoneadm: zone 'web': User daemon is not authorized to install this zone.",
    );
    let log = service.log();
    let line = |verb: &str, rest: &str| {
        let found = log.iter().any(|line| {
            line.starts_with(&format!("uid={} user=daemon pid=", uid("daemon")))
                && line.contains(&format!(" zone=web verb={verb} {rest}"))
        });
        assert!(found, "{verb} {rest}: {log:#?}");
    };
    for verb in ["boot", "reboot", "shutdown", "ready", "halt", "uninstall"] {
        line(verb, "granted");
        line(verb, "ended: exit status: 0");
    }
    line("command", "ended: exit status: 7");
    line("install", "refused: ");
}

#[test]
fn nothing_leads_from_zone_a_to_zone_b() {
    let Some(host) = Host::new() else { return };
    host.configure(
        "a",
        &admin(
            "daemon",
            "login,manage,clonefrom,copyfrom,config,liveconfig,migrate",
        ),
    );
    host.configure("b", &admin("bin", "login,manage,config"));
    let service = Service::start(&host);
    let secret = host.path("/secret");
    fs::write(&secret, "of the host\n").unwrap();
    let attempts: &[&str] = &[
        "zoneadm -z b boot",
        "zoneadm -z b halt",
        "zoneadm -z b install",
        "zoneadm -z b uninstall -F",
        "zoneadm -z a -z b verify",
        "zoneadm -z b -z a verify",
        "zoneadm -z * verify",
        "zoneadm -z ? verify",
        "zoneadm -z b verify -z a",
        "zoneadm -zb verify",
        "zoneadm -z a clone b",
        "zoneadm -z b clone a",
        "zoneadm -z a clone --create b",
        "zlogin b",
        "zlogin b id",
        "zlogin -C b",
        "zlogin -l a b id",
        "zlogin -S b",
        "zonecfg -z b set autoboot=true",
        "zonecfg -z b delete -F",
        "zonecfg -z a -z b set autoboot=true",
        // What is a's, but reaches further.
        "zoneadm -z a install -a /mnt/secret",
        "zoneadm -z a install -d /",
        "zoneadm -z a install -d/",
        "zoneadm -z a mark incomplete",
        "zoneadm -z a mount",
        "zoneadm -R / -z a mount",
        "zoneadm -R /mnt -z a mount",
        "zonecfg -z other create",
        "zonecfg -z a delete -F",
        "zonecfg -z a create -F -b",
        "zonecfg -z a -f /mnt/secret",
        "zonecfg -z a set zonename=b2",
        "zonecfg -z global set cpu-shares=9",
    ];
    let before = host.zoneadm(&["list", "-cp"]).ok().out;
    let configured = |zone: &str| host.zonecfg(&["-z", zone, "export"]).ok().out;
    let (a, b) = (configured("a"), configured("b"));
    for line in attempts {
        let ran = service.run("daemon", line);
        assert!(matches!(ran.code(), Some(1 | 2)), "{ran:?}");
        assert!(!ran.out.contains("of the host"), "{ran:?}");
        assert!(!ran.err.is_empty(), "{ran:?}");
    }
    // A line end or a blank in a word makes no second word.
    for zone in ["a\nb", "a -z b", "b\n", " b", "a,b", "", "a\u{0}b"] {
        let words = ["-z", zone, "verify"];
        if !zone.contains('\0') {
            let ran = service.run_words("daemon", "zoneadm", &words);
            assert_eq!(ran.code(), Some(1), "{ran:?}");
        }
    }
    assert_eq!(host.zoneadm(&["list", "-cp"]).ok().out, before);
    assert_eq!((configured("a"), configured("b")), (a, b));
    let granted: Vec<_> = service
        .log()
        .into_iter()
        .filter(|line| line.contains("granted"))
        .collect();
    // Only sessions of zonecfg that then stored nothing.
    assert!(
        granted
            .iter()
            .all(|line| line.contains(" zone=a verb=config ")),
        "{granted:#?}"
    );
    service.run("daemon", "zoneadm -z b boot").says(
        1,
        "zoneadm: zone 'b': User daemon is not authorized to boot this zone.",
    );
    service.run("daemon", "zoneadm -z nowhere boot").says(
        1,
        "zoneadm: zone 'nowhere': User daemon is not authorized to boot this zone.",
    );
    service.run("daemon", "zlogin b").says(
        1,
        "zlogin: user daemon is not authorized to log in to zone 'b'.",
    );
    service
        .run("daemon", "zoneadm -z a mount")
        .says(1, "zoneadm: mount is for root alone");
}

#[test]
fn users_whom_nobody_names_have_nothing_and_it_is_logged() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("daemon", "login,manage,config"));
    let service = Service::start(&host);
    for (line, verb) in [
        ("zoneadm -z a boot", "boot"),
        ("zoneadm -z a halt", "halt"),
        ("zoneadm -z a uninstall -F", "uninstall"),
        ("zlogin a", "login"),
        ("zlogin -C a", "console"),
        ("zlogin a id", "command"),
        ("zonecfg -z a set autoboot=true", "config"),
    ] {
        let ran = service.run("games", line);
        assert_eq!((ran.code(), ran.out.as_str()), (Some(1), ""), "{ran:?}");
        let last = service.refusals("games").pop().unwrap();
        assert!(
            last.contains(&format!(" zone=a verb={verb} refused: ")),
            "{last}"
        );
    }
    // What needs nobody's leave needs nobody to serve it.
    let before = service.log();
    let listed = service.run("games", "zoneadm list -cp").ok();
    assert!(listed.out.contains(":a:configured:"), "{listed:?}");
    let info = service.run("games", "zonecfg -z a info admin").ok();
    assert!(info.out.contains("user: daemon"), "{info:?}");
    service.run("games", "zonename").quiet();
    let export = service.run("daemon", "zonecfg -z a export").ok();
    assert!(export.out.contains("add admin"), "{export:?}");
    assert_eq!(service.log(), before);
}

#[test]
fn without_the_service_root_is_asked_for() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("daemon", "login,manage,config"));
    let mut service = Service::start(&host);
    service.child.kill().unwrap();
    service.child.wait().unwrap();
    for (line, text) in [
        (
            "zoneadm -z a boot",
            "zoneadm: zone 'a': only a privileged user may boot a zone.",
        ),
        (
            "zlogin a",
            "zlogin: only a privileged user may log in to zone 'a'.",
        ),
    ] {
        let ran = service.run("daemon", line);
        assert!(ran.err.starts_with(text), "{ran:?}");
        ran.mentions(1, "zoneauthd");
    }
    let ran = service.run("daemon", "zonecfg -z a set autoboot=true");
    ran.mentions(1, "read-only mode");
    // A socket that somebody else has put there is no service.
    let fake = service.root.join("run/zones/auth.sock");
    fs::remove_file(&fake).unwrap();
    fs::write(&fake, "").unwrap();
    let ran = service.run("daemon", "zoneadm -z a boot");
    ran.mentions(1, "only a privileged user");
    // The next one takes the place of the dead one, and is then the only one.
    let service = Service::start(&host);
    let second = run(&mut host.command("zoneauthd", &[]), b"");
    second.mentions(1, "is served already");
    service
        .run("daemon", "zoneadm -z a halt")
        .mentions(1, "must be installed before halt.");
    // Not for everybody to start.
    service.run("daemon", "zoneauthd").mentions(1, "only root");
}

#[test]
fn who_may_configure_does_not_reach_the_host() {
    let Some(host) = Host::new() else { return };
    host.configure(
        "a",
        &format!(
            "set limitpriv=default; add fs; set dir=/data; set special=/srv; set type=lofs; end; {}",
            admin("daemon", "config")
        ),
    );
    let service = Service::start(&host);
    let configured = || host.zonecfg(&["-z", "a", "export"]).ok().out;
    let before = configured();
    let stolen = host.path("/stolen");
    fs::write(&stolen, "").unwrap();
    for commands in [
        "add fs; set dir=/h; set special=/; set type=lofs; end",
        "select fs dir=/data; set special=/; end",
        "select fs dir=/data; add options suid; end",
        "remove fs dir=/data",
        "remove -F fs",
        "add admin; set user=daemon; set auths=login; end",
        "select admin user=daemon; set auths=config,login,manage; end",
        "remove -F admin; set autoboot=true",
        "add device; set match=/dev/sda; end",
        "add net; set physical=lo; set address=127.0.0.9; end",
        "add dataset; set name=rpool/x; end",
        "add inherit-pkg-dir; set dir=/root; end",
        "set zonepath=/etc",
        "set zonename=b",
        "set brand=lx",
        "set limitpriv=default,sys_time",
        "set ip-type=exclusive",
        "set fs-allowed=ext4",
        "set pool=p",
        "clear limitpriv; set limitpriv=all",
        "create -F",
        "create -F -b",
        "create -F -a /etc",
        "delete -F",
        "export -f /mnt/stolen",
        "export -f /mnt/new",
    ] {
        for (input, words) in [
            ("", &["-z", "a", commands][..]),
            (commands, &["-z", "a", "-f", "-"]),
        ] {
            let ran = run(
                &mut service.command("daemon", "zonecfg", words),
                input.as_bytes(),
            );
            assert_eq!(ran.code(), Some(1), "{commands}: {ran:?}");
        }
        assert_eq!(configured(), before, "{commands}");
    }
    assert_eq!(fs::read(&stolen).unwrap(), b"");
    assert!(!host.path("/new").exists());
    // What may be changed is not stored together with what may not.
    let both = ["-z", "a", "set bootargs=-s; set zonepath=/etc"];
    service
        .run_words("daemon", "zonecfg", &both)
        .mentions(1, "only root may change zonepath");
    assert_eq!(configured(), before);
    for commands in [
        "set autoboot=true",
        "set bootargs=-s; set max-lwps=500",
        "add attr; set name=owner; set type=string; set value=d; end",
        "add capped-memory; set physical=1G; end",
    ] {
        service
            .run_words("daemon", "zonecfg", &["-z", "a", commands])
            .quiet();
    }
    let ran = run(
        &mut service.command("daemon", "zonecfg", &["-z", "a", "-f", "-"]),
        b"set hostid=7\nset bootargs=\n",
    );
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let after = configured();
    for part in [
        "set autoboot=true",
        "set hostid=7",
        "set name=owner",
        "set physical=1G",
    ] {
        assert!(after.contains(part), "{part} in {after}");
    }
    assert!(!after.contains("bootargs"), "{after}");
    // At a terminal, with a prompt.
    let words = ["-z", "a"];
    let mut terminal = Terminal::start(service.command("daemon", "zonecfg", &words));
    terminal.expect("zonecfg:a> ");
    terminal.types("set autoboot=false\r");
    terminal.expect("zonecfg:a> ");
    terminal.types("exit\r");
    assert_eq!(terminal.status(), 0);
    assert!(configured().contains("set autoboot=false"));
    // Whom nobody names reads it, no more.
    let mut terminal = Terminal::start(service.command("games", "zonecfg", &words));
    terminal.expect("going into read-only mode");
    terminal.expect("zonecfg:a> ");
    terminal.types("set autoboot=true\r");
    terminal.expect("cannot set in read-only mode");
    terminal.types("exit\r");
    assert_eq!(terminal.status(), 1);
    assert!(configured().contains("set autoboot=false"));
}

#[test]
fn a_clone_needs_its_source_too() {
    let Some(host) = Host::with_master() else {
        return;
    };
    for zone in ["c1", "c2"] {
        host.configure(zone, &admin("daemon", "manage"));
    }
    host.configure("source", &admin("daemon", "clonefrom"));
    host.on("source", &["clone", "master"]).quiet();
    let service = Service::start(&host);
    service.run("daemon", "zoneadm -z c1 clone master").says(
        1,
        "zoneadm: zone 'master': User daemon is not authorized to clone this zone.",
    );
    assert_eq!(host.state("c1"), "configured");
    service
        .run("daemon", "zoneadm -z c1 -z c2 clone source")
        .quiet();
    assert_eq!(
        (host.state("c1"), host.state("c2")),
        ("installed".into(), "installed".into())
    );
    service
        .run("daemon", "zoneadm -z c1 clone source -n")
        .mentions(1, "not expected here");
    service
        .run("daemon", "zoneadm -z source uninstall -F")
        .mentions(1, "not authorized");
    // A question at a terminal is answered there.
    let words = ["-z", "c1", "uninstall"];
    let mut terminal = Terminal::start(service.command("daemon", "zoneadm", &words));
    terminal.expect("Are you sure you want to uninstall zone c1 (y/[n])? ");
    terminal.types("y\r");
    assert_eq!(terminal.status(), 0);
    assert_eq!(host.state("c1"), "configured");
    // A glob means the zones that match, which are all the user's or none is touched.
    service
        .run("daemon", "zoneadm -z c* uninstall -F")
        .mentions(1, "is already in state");
    assert_eq!(host.state("c2"), "configured");
}

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
    // What is typed is shown, too: only the output has the whole word. And it comes from
    // the job itself: a shell that is about to start one may lose the key.
    session.types("sh -c 'echo no\"\"w; exec sleep 1000'\r");
    session.expect("now");
    // The key goes into the zone and ends what runs there, not the session.
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
    // Seconds that no other test sleeps.
    let (mut child, _out) = start("71117");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    ended("71117");
    assert!(!child.wait().unwrap().success());
    let (mut child, out) = start("71118");
    child.kill().unwrap();
    drop(out);
    child.wait().unwrap();
    ended("71118");
    // The terminal is hung up.
    let words = ["web", "echo begun; exec sleep 71119"];
    let mut terminal = Terminal::start(service.command("daemon", "zlogin", &words));
    terminal.expect("begun");
    drop(terminal);
    ended("71119");
    // Nothing of it stays: each has its line.
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

/// A folder of programs with a zlogin that tells what it was started with.
fn telling_programs(host: &Host) -> PathBuf {
    let folder = host.path("/programs");
    fs::create_dir(&folder).unwrap();
    for program in ["zoneauthd", "zlogin"] {
        let built = host.command(program, &[]).get_program().to_owned();
        fs::copy(built, folder.join(program)).unwrap();
    }
    // The service finds programs beside itself: it is the other one's zlogin that runs.
    let service = folder.join("service");
    fs::create_dir(&service).unwrap();
    fs::rename(folder.join("zoneauthd"), service.join("zoneauthd")).unwrap();
    // The shell reads its own status: while it starts another program it blocks signals.
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
    // 3 is the folder that ls reads.
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

/// Says things to the service, each on a connection of its own, and prints the answers.
const SPEAK: &str = r#"
use Socket;
for my $packet (@ARGV) {
    socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die $!;
    connect($s, pack_sockaddr_un("/mnt/run/zones/auth.sock")) or die $!;
    my $bytes = eval $packet;
    send($s, $bytes, 0);
    shutdown($s, 1) if $bytes eq "";
    my $answer = "";
    recv($s, $answer, 4096, 0);
    print "$answer\n";
}
"#;

#[test]
fn odd_packets_are_refused_and_stop_nobody() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("daemon", "login,manage"));
    host.configure("b", &admin("bin", "manage"));
    let service = Service::start(&host);
    let header = "\"ZNA1-pp\\0\\0\\0\\0\"";
    let packets: Vec<String> = [
        "\"\"",
        "\"x\"",
        "\"\\0\" x 65536",
        "\"\\xff\" x 65537",
        "\"ZNA1\" . \"A\" x 60000",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0a\\0boot\"",
        "HEAD . \"\\0\\0/bin/sh\\0-c\\0id\\0\"",
        "HEAD . \"\\0\\0zoneadmd\\0-z\\0a\\0\"",
        "HEAD . \"\\0\\0zoneauthd\\0\"",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0b\\0boot\\0\"",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0../b\\0boot\\0\"",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0a\\0-R\\0/tmp\\0boot\\0\"",
        "HEAD . \"\\0\\0zoneadm\\0\" . \"-z\\0a\\0\" x 5000",
        "HEAD . \"\\0\\0zoneadm\\0-z\\0a\\0\\xff\\0\"",
        "\"ZNA1ptt\\0\\0\\0\\0\\0\\0zoneadm\\0-z\\0a\\0halt\\0\"",
        "\"ZNA1---\\0\\0\\0\\0\\0\\0zoneadm\\0-z\\0a\\0halt\\0\"",
    ]
    .iter()
    .map(|packet| packet.replace("HEAD", header))
    .collect();
    let speak = |user: &str, packets: &[String]| {
        let mut words = vec!["-e", SPEAK];
        words.extend(packets.iter().map(String::as_str));
        service.run_words(user, "/usr/bin/perl", &words).ok().out
    };
    let answers = speak("daemon", &packets);
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), packets.len());
    assert_eq!(answers[0], "", "nothing was asked for");
    for (packet, answer) in packets.iter().zip(&answers).skip(1) {
        assert!(answer.starts_with("refused "), "{packet}: {answer}");
    }
    // All but the first are in the log.
    assert_eq!(service.refusals("daemon").len(), packets.len() - 1);
    // Root does it itself, and gets no second way.
    let mut root = Command::new("unshare");
    root.args(["-m", "--propagation", "private", "sh", "-c", AS_USER, "sh"])
        .arg(&service.root)
        .arg(&service.programs)
        .args(["0", "/usr/bin/perl", "-e", SPEAK])
        .arg(format!("{header} . \"\\0\\0zoneadm\\0-z\\0a\\0verify\\0\""));
    assert_eq!(
        run(&mut root, b"").ok().out,
        "refused root does it itself\n"
    );
    // Connections that say nothing, as many as there may be and more.
    let idle = r#"
        use Socket;
        my (@open, $answer);
        # Those that were let in may have been sent away before the last one came.
        for (1..20) {
            @open = ();
            for (1..60) {
                socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die $!;
                connect($s, pack_sockaddr_un("/mnt/run/zones/auth.sock")) or die $!;
                push @open, $s;
            }
            recv($open[59], $answer = "", 4096, 0);
            last if $answer ne "";
        }
        print "$answer\n";
        $| = 1;
        print "open\n";
        <STDIN>;
    "#;
    let mut command = service.command("daemon", "/usr/bin/perl", &["-e", idle]);
    let mut crowd = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(crowd.stdout.take().unwrap()));
    let refused = lines.next().unwrap().unwrap();
    assert!(
        refused.starts_with("refused ") && refused.contains("at a time"),
        "{refused}"
    );
    assert_eq!(lines.next().unwrap().unwrap(), "open");
    service
        .run("bin", "zoneadm -z b halt")
        .mentions(1, "must be installed before halt.");
    drop(crowd.stdin.take());
    crowd.wait().unwrap();
    // The places are free again.
    wait_for("a place for daemon", || {
        let ran = service.run("daemon", "zoneadm -z a halt");
        ran.err
            .contains("must be installed before halt.")
            .then_some(())
    });
}

#[test]
fn a_flood_of_refusals_does_not_fill_the_log() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("bin", "manage"));
    let service = Service::start(&host);
    let packet = "\"ZNA1-pp\\0\\0\\0\\0\\0\\0zoneadm\\0-z\\0a\\0boot\\0\"".to_owned();
    let mut words = vec!["-e", SPEAK];
    words.extend(std::iter::repeat_n(packet.as_str(), 130));
    let begun = std::time::Instant::now();
    let ran = service.run_words("games", "/usr/bin/perl", &words).ok();
    let more = usize::try_from(begun.elapsed().as_secs() / 10).unwrap();
    assert_eq!(ran.out.lines().count(), 130);
    assert!(
        ran.out
            .lines()
            .all(|line| line.starts_with("refused zone 'a': User games")),
        "{ran:?}"
    );
    let logged = service.refusals("games").len();
    // A hundred, and one more for each ten seconds that it took.
    assert!((100..=100 + more).contains(&logged), "{logged}");
    // Somebody else is served and logged as ever.
    service
        .run("bin", "zoneadm -z a halt")
        .mentions(1, "must be installed before halt.");
    assert!(
        service
            .log()
            .iter()
            .any(|line| line.contains("user=bin") && line.contains("granted"))
    );
}
