//! Tests that nothing flows from a zone to a zone of a lower or an incomparable label: by the view
//! of files, by folders and devices that a zone writes, and by the network. Files that several zones
//! only read remain a channel, see docs/labels.md. Each test has a control: the same attempt
//! succeeds without the wall.

use std::fs;
use std::path::Path;

use e2e::inside::perl;
use e2e::{At, Host, World, wait_for};

/// Labels of the example of names: LOW is below HIGH, and ASIDE is incomparable to both.
const LOW: &str = "0x0002-08-08";
const HIGH: &str = "0x0004-08-68";
const ASIDE: &str = "0x0005-08-02";

const NAMES: &str = include_str!("../../../crates/label/tests/label_encodings");

fn put_names(host: &Host) {
    fs::write(host.path("/etc/zones/label_encodings"), NAMES).unwrap();
}

fn labeled(label: &str, more: &str) -> String {
    format!("set -F label={label}; {more}")
}

/// Returns a host with the installed zones `low` and `high`.
fn two() -> Option<Host> {
    let host = Host::with_master()?;
    put_names(&host);
    for (zone, label) in [("low", LOW), ("high", HIGH)] {
        host.configure(zone, &labeled(label, ""));
        host.on(zone, &["clone", "master"]).quiet();
    }
    Some(host)
}

const VIEW: &str = "/zone/low/export";

#[test]
fn views_come_and_go_with_the_lower_zone_and_are_read_only() {
    let Some(host) = two() else { return };
    // The order of the boots does not matter.
    host.boot("high");
    host.boot("low");
    host.sh("low", "echo one >/export/f; cp /usr/bin/true /export/true");
    assert_eq!(host.sh("high", &format!("cat {VIEW}/f")), "one");
    // The writer of the file decides, at once.
    host.sh("low", "echo two >/export/g; mv /export/g /export/f");
    assert_eq!(host.sh("high", &format!("cat {VIEW}/f")), "two");
    // No view leads down.
    let listed = host.zlogin(&["low", "ls /zone"]);
    assert_eq!(listed.out, "");
    for (attempt, why) in [
        (format!("echo x >{VIEW}/f"), "Read-only file system"),
        (format!("touch {VIEW}/new"), "Read-only file system"),
        (format!("chmod 0 {VIEW}/f"), "Read-only file system"),
        (format!("rm {VIEW}/f"), "Read-only file system"),
        (format!("{VIEW}/true"), "Permission denied"),
        (
            format!("mount -o remount,bind,rw {VIEW}"),
            "permission denied",
        ),
        (
            format!("mkdir -p /m; mount --bind {VIEW} /m; mount -o remount,bind,rw /m"),
            "permission denied",
        ),
        ("umount /export".to_owned(), "not mounted"),
    ] {
        let ran = host.zlogin(&["high", &attempt]);
        let said = ran.err.to_lowercase();
        let is_umount = attempt.starts_with("umount");
        assert!(
            ran.code() != Some(0) && (is_umount || said.contains(&why.to_lowercase())),
            "{attempt}: {ran:?}"
        );
    }
    assert_eq!(host.sh("low", "cat /export/f"), "two");
    // An open file of the view does not keep the lower zone from its end.
    host.sh(
        "high",
        &format!("setsid sleep 100 <{VIEW}/f >/dev/null 2>&1 &"),
    );
    host.halt("low");
    let gone = host.zlogin(&["high", &format!("ls {VIEW}")]);
    assert_eq!(gone.out, "", "{gone:?}");
    host.boot("low");
    assert_eq!(host.sh("high", &format!("cat {VIEW}/f")), "two");
    // A reader that boots later has the view, too.
    host.halt("high");
    host.boot("high");
    assert_eq!(host.sh("high", &format!("cat {VIEW}/f")), "two");
    host.halt("high");
    host.halt("low");
    host.on("low", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/zones/low/export").exists());
}

#[test]
fn the_view_of_a_zone_that_died_with_its_zoneadmd_goes_with_the_next_command() {
    let Some(host) = two() else { return };
    host.boot("low");
    host.boot("high");
    for command in ["halt", "uninstall"] {
        host.sh("low", "echo words >/export/f");
        assert_eq!(host.sh("high", &format!("cat {VIEW}/f")), "words");
        let init = host.init_of("low");
        host.kill(host.zoneadmd("low").unwrap());
        host.kill(init);
        // The dead zone took no view with it.
        assert_eq!(host.sh("high", &format!("cat {VIEW}/f")), "words");
        let words: &[&str] = if command == "halt" {
            &["halt"]
        } else {
            &["uninstall", "-F"]
        };
        let ran = host.on("low", words);
        assert!(matches!(ran.code(), Some(0 | 1)), "{ran:?}");
        let gone = host.zlogin(&["high", &format!("ls {VIEW}")]);
        assert_eq!(gone.out, "", "{command}: {gone:?}");
        if command == "halt" {
            host.boot("low");
        }
    }
    assert!(!host.path("/zones/low/export").exists());
}

/// Opens a socket, a FIFO and a watch in /export, and reports what reached them when /root/stop
/// appears.
fn listener() -> String {
    let code = format!(
        "use IO::Socket::UNIX; use Fcntl; use POSIX; \
         my $s = IO::Socket::UNIX->new(Local => \"/export/sock\", Listen => 5) or die $!; \
         chmod 0777, \"/export/sock\"; POSIX::mkfifo(\"/export/fifo\", 0777); \
         sysopen(my $f, \"/export/fifo\", O_RDONLY | O_NONBLOCK) or die $!; \
         my $i = syscall({}, 2048); my $path = \"/export/f\"; \
         syscall({}, $i, $path, 1 | 16 | 32) >= 0 or die $!; \
         open my $ready, \">\", \"/root/ready\"; close $ready; \
         select undef, undef, undef, 0.01 until -e \"/root/stop\"; \
         $s->blocking(0); my $c = $s->accept ? 1 : 0; \
         my $words = \"\"; sysread($f, $words, 100); \
         open my $w, \"<&=\", $i; my $events = \"\"; sysread($w, $events, 1000); \
         open my $said, \">\", \"/root/said.new\"; \
         print $said \"socket $c fifo $words events \" . (length($events) ? 1 : 0); close $said; \
         rename \"/root/said.new\", \"/root/said\"",
        libc::SYS_inotify_init1,
        libc::SYS_inotify_add_watch,
    );
    format!("setsid {} >/dev/null 2>&1 </dev/null &", perl(&code))
}

/// Tries to reach the listener through the folder.
fn reach(folder: &str) -> String {
    perl(&format!(
        "use IO::Socket::UNIX; use Fcntl; \
         IO::Socket::UNIX->new(Peer => \"{folder}/sock\") or print \"$! \"; \
         my $f; sysopen($f, \"{folder}/fifo\", O_WRONLY | O_NONBLOCK) or print \"$! \"; \
         syswrite $f, \"word\" if $f; \
         open my $r, \"<\", \"{folder}/f\" or print \"$! \"; my $line = <$r>; close $r"
    ))
}

fn heard(host: &Host) -> String {
    host.sh("low", "touch /root/stop");
    let said = wait_for("report of the listener", || {
        let ran = host.zlogin(&["low", "cat /root/said"]);
        (ran.code() == Some(0)).then_some(ran.out)
    });
    host.sh(
        "low",
        "rm -f /root/stop /root/said /root/ready /export/sock /export/fifo",
    );
    said
}

#[test]
fn a_reader_sends_nothing_through_the_inodes_that_it_reads() {
    let Some(host) = two() else { return };
    host.boot("low");
    host.boot("high");
    let listen = || {
        host.sh("low", "echo words >/export/f");
        host.sh("low", &listener());
        wait_for("listener in zone low", || {
            let ran = host.zlogin(&["low", "test -e /root/ready"]);
            (ran.code() == Some(0)).then_some(())
        });
    };
    listen();
    let tried = host.zlogin(&["high", &reach(VIEW)]);
    assert_eq!(
        tried.out.trim(),
        "Connection refused No such device or address",
        "{tried:?}"
    );
    assert_eq!(heard(&host).trim(), "socket 0 fifo  events 0");
    // A lock of the reader does not stop the writer, and the reader gets no lease.
    host.sh(
        "high",
        &format!("setsid flock {VIEW}/f sleep 100 >/dev/null 2>&1 </dev/null &"),
    );
    wait_for("lock in zone high", || {
        let ran = host.zlogin(&["high", &format!("flock -n {VIEW}/f true")]);
        (ran.code() == Some(1)).then_some(())
    });
    host.sh("low", "flock -n /export/f true");
    for command in [1024, 1040, 36, 37, 38] {
        let code = format!(
            "open my $f, \"<\", \"{VIEW}/f\" or exit 200; my $l = \"\\0\" x 32; \
             exit(fcntl($f, {command}, $l) ? 0 : $!)"
        );
        let ran = host.zlogin(&["high", &perl(&code)]);
        assert_eq!(ran.code(), Some(libc::EINVAL), "{command}: {ran:?}");
    }
    // The control: through the writer's own inodes, every word arrives.
    listen();
    let root = format!("/proc/{}/root/export", host.init_of("low"));
    let mut command = std::process::Command::new("sh");
    let ran = e2e::run::run(command.args(["-c", &reach(&root)]), b"");
    assert_eq!(ran.out.trim(), "", "{ran:?}");
    assert_eq!(heard(&host).trim(), "socket 1 fifo word events 1");
    let held = format!("flock {root}/f sleep 100");
    let mut locker = std::process::Command::new("setsid")
        .args(["sh", "-c", &format!("exec {held}")])
        .spawn()
        .unwrap();
    let stopped = wait_for("lock that stops the writer", || {
        host.zlogin(&["low", "flock -n /export/f true"])
            .code()
            .filter(|code| *code == 1)
    });
    assert_eq!(stopped, 1);
    let group = rustix::process::Pid::from_child(&locker);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    locker.wait().unwrap();
}

/// The six devices that every zone has.
const DEVICES: &str = "null zero full random urandom tty";

/// Opens the devices of a folder, as a process that has a terminal, and then runs `each` for the
/// device `$_` that is open as `$f`. Locks of the whole file are in `$lock`.
fn on_devices(folder: &str, each: &str, end: &str) -> String {
    let code = format!(
        "use Fcntl qw(:DEFAULT :flock); $SIG{{HUP}} = \"IGNORE\"; \
         open my $m, \"+<\", \"/dev/ptmx\" or die $!; my $n = pack(\"i\", 0); \
         ioctl($m, 0x40045431, $n) or die $!; ioctl($m, 0x80045430, $n) or die $!; \
         open my $s, \"+<\", \"/dev/pts/\" . unpack(\"i\", $n) or die $!; my @all; \
         for (qw({DEVICES})) {{ open my $f, \"+<\", \"{folder}/$_\" or die \"$_ $!\"; \
         push @all, $f; my $lock = pack(\"ssx4qqix4\", F_WRLCK, 0, 0, 0, 0); {each} }} {end}"
    );
    format!("setsid -w {}", perl(&code))
}

#[test]
fn locks_of_devices_stay_in_the_zone() {
    let Some(host) = two() else { return };
    host.boot("low");
    host.boot("high");
    let hold = on_devices(
        "/dev",
        "fcntl($f, F_SETLK, $lock) or die $!; flock($f, LOCK_EX | LOCK_NB) or die $!;",
        "open my $ready, \">\", \"/root/ready\"; sleep 100",
    );
    host.sh("low", &format!("{hold} >/dev/null 2>&1 </dev/null &"));
    wait_for("locks in zone low", || {
        let ran = host.zlogin(&["low", "test -e /root/ready"]);
        (ran.code() == Some(0)).then_some(())
    });
    let probe = |folder: &str| {
        on_devices(
            folder,
            "fcntl($f, F_GETLK, $lock) or die $!; \
             print unpack(\"s\", $lock) == F_UNLCK ? \"free \" : \"held \"; \
             print flock($f, LOCK_EX | LOCK_NB) ? \"free \" : \"held \";",
            "",
        )
    };
    let seen = host.zlogin(&["high", &probe("/dev")]).ok().out;
    assert_eq!(seen.trim(), ["free free"; 6].join(" "));
    // The control: through the nodes that hold the locks, each lock is seen.
    let on_host = |folder: &str| {
        let mut command = std::process::Command::new("sh");
        let ran = e2e::run::run(command.args(["-c", &probe(folder)]), b"");
        ran.ok().out.trim().to_owned()
    };
    let of_low = format!("/proc/{}/root/dev", host.init_of("low"));
    assert_eq!(on_host(&of_low), ["held held"; 6].join(" "));
    assert_eq!(on_host("/dev"), ["free free"; 6].join(" "));
}

#[test]
fn two_labels_share_no_folder_and_no_copy_goes_down() {
    let Some(host) = two() else { return };
    let shared = host.path("/shared");
    fs::create_dir_all(shared.join("inner")).unwrap();
    fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let add = |zone: &str, source: &str, options: &str| {
        host.zonecfg(&[
            "-z",
            zone,
            &format!("add fs; set dir=/data; set special={source}; set type=lofs; {options} end"),
        ])
        .quiet();
    };
    let (outer, inner) = (
        shared.display().to_string(),
        shared.join("inner").display().to_string(),
    );
    add("low", &inner, "");
    add("high", &outer, "set options=[ro];");
    for zone in ["low", "high"] {
        let ran = host.on(zone, &["boot"]);
        assert!(
            ran.code() == Some(1) && ran.err.contains("two labels share no folder"),
            "{ran:?}"
        );
    }
    // The control: folders that both only read are admitted. Locks of their files remain visible, as
    // docs/labels.md says.
    host.zonecfg(&["-z", "low", "select fs dir=/data; set options=[ro]; end"])
        .quiet();
    host.boot("low");
    host.boot("high");
    host.halt("high");
    host.zonecfg(&["-z", "high", "remove fs dir=/data"]).quiet();
    // A zone reads another zone's folders only by the view.
    let root = host.path("/zones/low").display().to_string();
    add("high", &root, "set options=[ro];");
    let ran = host.on("high", &["boot"]);
    assert!(ran.err.contains("only at /zone/NAME/export"), "{ran:?}");
    host.zonecfg(&[
        "-z",
        "high",
        "remove fs dir=/data; set limitpriv=default,proc_io_uring",
    ])
    .quiet();
    let ran = host.on("high", &["boot"]);
    assert!(ran.err.contains("remove proc_io_uring"), "{ran:?}");
    host.zonecfg(&["-z", "high", "clear limitpriv"]).quiet();
    // A copy of files of a higher label at a lower one.
    for (zone, label, admitted) in [
        ("down", LOW, false),
        ("aside", ASIDE, false),
        ("up", HIGH, true),
    ] {
        host.configure(zone, &labeled(label, ""));
        let ran = host.on(zone, &["clone", "high"]);
        assert_eq!(ran.code() == Some(0), admitted, "{zone}: {ran:?}");
        assert_eq!(
            ran.err.contains("lower the label of the files"),
            !admitted,
            "{ran:?}"
        );
    }
}

#[test]
fn an_attach_does_not_lower_the_label_of_files() {
    let Some(host) = two() else { return };
    let why = "lower the label of the files";
    // The zone has never booted.
    host.on("high", &["detach"]).quiet();
    for label in [LOW, ASIDE] {
        host.zonecfg(&["-z", "high", &format!("set label={label}")])
            .quiet();
        host.on("high", &["attach"]).mentions(1, why);
    }
    host.on("high", &["attach", "-F"]).mentions(1, why);
    host.zonecfg(&["-z", "high", &format!("set label={HIGH}")])
        .quiet();
    host.on("high", &["attach"]).quiet();
    // A lower zone may rise.
    host.on("low", &["detach"]).quiet();
    host.zonecfg(&["-z", "low", &format!("set label={HIGH}")])
        .quiet();
    host.on("low", &["attach"]).quiet();
    // The manifest is gone, and the record of the last boot remains.
    host.boot("high");
    host.halt("high");
    host.on("high", &["detach"]).quiet();
    fs::remove_file(host.path("/zones/high/SUNWdetached.xml")).unwrap();
    host.zonecfg(&["-z", "high", &format!("set label={LOW}")])
        .quiet();
    host.on("high", &["attach", "-F"]).mentions(1, why);
    host.zonecfg(&["-z", "high", &format!("set label={HIGH}")])
        .quiet();
    let attached = host.on("high", &["attach", "-F"]);
    assert_eq!(attached.code(), Some(0), "{attached:?}");
}

/// Verifies a zone in a mount namespace in which `folder` is also mounted at `alias`.
fn verify_with_alias(host: &Host, zone: &str, folder: &Path, alias: &Path) -> e2e::Ran {
    let plain = host.command("zoneadm", &["-z", zone, "verify"]);
    let script = "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-c", script]);
    command.args([folder, alias]).arg(plain.get_program());
    command.args(plain.get_args());
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    e2e::run::run(&mut command, b"")
}

#[test]
fn a_bind_mount_of_another_zone_is_refused_as_a_source() {
    let Some(host) = two() else { return };
    let alias = host.path("/alias");
    fs::create_dir_all(&alias).unwrap();
    fs::set_permissions(&alias, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let add = format!(
        "add fs; set dir=/data; set special={}; set type=lofs; end",
        alias.display()
    );
    let (low, empty) = (host.path("/zones/low/root"), host.path("/empty"));
    fs::create_dir_all(&empty).unwrap();
    host.configure("plain", "");
    for zone in ["high", "plain"] {
        host.zonecfg(&["-z", zone, &add]).quiet();
        let ran = verify_with_alias(&host, zone, &low, &alias);
        assert!(
            ran.code() == Some(1) && ran.err.contains("where no zone may write"),
            "{ran:?}"
        );
        // The control: another folder at the same mount point.
        let ran = verify_with_alias(&host, zone, &empty, &alias);
        assert!(!ran.err.contains("where no zone may write"), "{ran:?}");
    }
    host.zonecfg(&["-z", "high", "select fs dir=/data; set options=[ro]; end"])
        .quiet();
    let ran = verify_with_alias(&host, "high", &low, &alias);
    assert!(ran.err.contains("only at /zone/NAME/export"), "{ran:?}");
}

/// Takes the lock of labels, as a boot of another zone does.
fn lock_of_labels(host: &Host) -> fs::File {
    let lock = fs::File::open(host.path("/run/zones/.labels.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    lock
}

#[test]
fn a_running_zone_gets_no_folder_while_another_zone_boots() {
    let Some(host) = two() else { return };
    let shared = host.path("/shared");
    fs::create_dir_all(&shared).unwrap();
    fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    host.boot("high");
    let add = format!(
        "add fs; set dir=/data; set special={}; set type=lofs; end",
        shared.display()
    );
    host.zonecfg(&["-z", "high", &add]).quiet();
    let running = host.path("/run/zones/high.xml");
    let has_folder = || fs::read_to_string(&running).unwrap().contains("/data");
    let lock = lock_of_labels(&host);
    std::thread::scope(|scope| {
        let change = scope.spawn(|| host.on("high", &["apply"]));
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(!change.is_finished() && !has_folder());
        drop(lock);
        assert_eq!(change.join().unwrap().code(), Some(0));
    });
    assert!(has_folder());
    // The stored configuration loses the folder, and the zone still has it.
    host.zonecfg(&["-z", "high", "remove fs dir=/data"]).quiet();
    host.zonecfg(&["-z", "low", &add]).quiet();
    host.on("low", &["boot"])
        .mentions(1, "two labels share no folder");
}

/// Returns the first IPv4 address of a zone's first link.
fn address(world: &World, zone: &str) -> String {
    let listed = world.host.on(zone, &["links", "-j"]).ok().out;
    let parsed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let found = parsed.as_array().into_iter().flatten().find_map(|row| {
        let list = row["addresses"].as_array()?;
        let mut texts = list.iter().filter_map(|one| one.as_str());
        texts.find(|text| !text.contains(':')).map(str::to_owned)
    });
    let found = found.unwrap_or_else(|| panic!("no address: {listed}"));
    found.split('/').next().unwrap().to_owned()
}

#[test]
fn packets_go_between_equal_labels_only() {
    let Some(world) = World::new() else { return };
    let host = &world.host;
    put_names(host);
    let auto = "set ip-type=exclusive; add anet; end";
    for (zone, label) in [("low", LOW), ("high", HIGH), ("same", HIGH)] {
        world.boot(zone, &labeled(label, auto));
    }
    let _servers = ["low", "high", "same"].map(|zone| world.serve(At::Zone(zone), zone));
    let to = |zone: &str| address(&world, zone);
    let (low, high) = (to("low"), to("high"));
    let asks = |from: At<'_>, to: &str| {
        let line = format!("timeout 0.5 bash -c \"cat </dev/tcp/{to}/4321\"");
        world.run(from, &line, "").out.contains("sees")
    };
    let check = |when: &str| {
        assert!(asks(At::Zone("same"), &high), "{when}");
        for (from, to) in [
            (At::Zone("high"), &low),
            (At::Zone("low"), &high),
            (At::Global, &high),
            (At::Global, &low),
            // The outside has no label.
            (At::Zone("high"), &"10.0.0.9".to_owned()),
        ] {
            assert!(!asks(from, to), "{when}: {from:?} {to}");
        }
    };
    check("with the rules of the host");
    // A zone that takes an address of another zone: the guard of its link drops the packets, also
    // on the way to a zone of its own label.
    let ask_from = |source: &str| {
        let code = format!(
            "use IO::Socket::INET; my $s = IO::Socket::INET->new(LocalAddr => \"{source}\", \
             PeerAddr => \"{high}\", PeerPort => 4321, Timeout => 0.5); \
             print $s ? <$s> : \"no: $@\""
        );
        world
            .run(At::Zone("same"), &e2e::inside::perl(&code), "")
            .out
    };
    let own = to("same");
    let add = format!("ip addr add {low}/32 dev net0");
    let _ = world.run(At::Zone("same"), &add, "").ok();
    let dropped = || world.dropped("same", "net0")["source4"];
    let before = dropped();
    // The control: its own address as the source.
    assert!(ask_from(&own).contains("sees"));
    assert_eq!(dropped(), before);
    let said = ask_from(&low);
    assert!(!said.contains("sees"), "{said}");
    assert!(!said.contains("assign"), "the address is not there: {said}");
    assert!(dropped() > before);
    let del = format!("ip addr del {low}/32 dev net0");
    let _ = world.run(At::Zone("same"), &del, "").ok();
    // The programs are at the links, and no part of the host's firewall.
    let _ = world.run(At::Global, "nft flush ruleset", "").ok();
    check("without the rules of the host");
    // The control: without the programs at the links, the packets pass.
    let links = world.run(At::Global, "ip -o link", "").out;
    let names = links
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("zone"));
    let names: Vec<String> = names
        .filter_map(|word| word.split('@').next())
        .map(|rest| format!("zone{rest}"))
        .filter(|name| name.contains('-'))
        .collect();
    assert_eq!(names.len(), 3, "{links}");
    for name in names {
        let line = format!("tc qdisc del dev {name} clsact");
        let _ = world.run(At::Global, &line, "").ok();
    }
    assert!(asks(At::Zone("high"), &low) && asks(At::Zone("low"), &high));
    assert!(asks(At::Global, &high));
}
