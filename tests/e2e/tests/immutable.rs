//! Tests immutable zones: root of the zone attacks its own read-only files, and each attack
//! succeeds where the guard that it names is missing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use e2e::delegation::{Service, allow};
use e2e::{Host, skip, wait_for};

/// The guard that stops an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Guard {
    /// The root is mounted read-only.
    Root,
    /// A folder in a writable folder is mounted read-only.
    Kept,
    /// The kernel locks the flags of mounts that the host made.
    Flags,
    /// The kernel locks mounts that the host made over other mounts.
    Place,
    /// A folder is a mount point, so nobody renames or removes it.
    Pin,
    /// Two folders are different mounts.
    Border,
}

use Guard::{Border, Flags, Kept, Pin, Place, Root};

/// The place without the guard, where the same attack succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    /// The same place, after `boot -w`.
    Writable,
    /// Another place in the same boot, which has no such guard.
    Other(&'static str),
}

use Control::{Other, Writable};

/// An attack: a line of shell in which `$T` is the attacked place. Status 0 means success.
type Attack = (&'static str, Guard, &'static str, Control, &'static str);

/// Lines that every attack may use. `own` makes a read-only mount of the zone's own.
const HELPERS: &str = r#"
own() { mkdir -p /srv/own/sub/in; mount --bind /srv/own/sub /srv/own; mount -o remount,bind,ro /srv/own; }
call() { perl -e 'my ($n, @w) = @ARGV; my $r = syscall($n, map { /^-?\d+$/ ? $_ + 0 : "$_" } @w); exit($r < 0 ? 1 : 0)' "$@"; }
setattr() { perl -e 'my $p = $ARGV[0]; my $a = pack("QQQQ", 0, 1, 0, 0); exit(syscall(442, -100, $p, 0, $a, 32) < 0 ? 1 : 0)' "$1"; }
"#;

/// The attacks on a zone with the profile fixed-configuration.
#[rustfmt::skip]
const ATTACKS: &[Attack] = &[
    // Files of the read-only root.
    ("append to a file", Root, "/etc/passwd", Writable, "echo >>$T"),
    ("truncate a file", Root, "/etc/passwd", Writable, "perl -e 'truncate($ARGV[0], 100000) or exit 1' $T"),
    ("make a file", Root, "/etc/new", Writable, ": >$T"),
    ("make a folder", Root, "/new", Writable, "mkdir $T"),
    ("make a symbolic link", Root, "/etc/link", Writable, "ln -s passwd $T"),
    ("make a hard link", Root, "/etc", Writable, "ln $T/passwd $T/hard"),
    ("make a pipe", Root, "/etc/pipe", Writable, "mkfifo $T"),
    ("make a socket", Root, "/etc/socket", Writable, "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or exit 1' $T"),
    ("remove a file", Root, "/etc/issue", Writable, "cp -a $T /run/saved && rm $T && cp -a /run/saved $T"),
    ("rename a file", Root, "/etc/issue", Writable, "mv $T $T.old && mv $T.old $T"),
    ("rename a folder", Root, "/etc/profile.d", Writable, "mkdir -p $T && mv $T $T.old && mv $T.old $T"),
    ("exchange two files", Root, "/etc", Writable, "call 316 -100 $T/issue -100 $T/issue.net 2 && call 316 -100 $T/issue -100 $T/issue.net 2"),
    ("remove a folder", Root, "/mnt", Writable, "rmdir $T && mkdir $T"),
    ("change the mode", Root, "/etc/passwd", Writable, "chmod 0646 $T && chmod 0644 $T"),
    ("change the owner", Root, "/etc/passwd", Writable, "chown 1:1 $T && chown 0:0 $T"),
    ("change the time", Root, "/etc/passwd", Writable, "touch $T"),
    ("set an attribute", Root, "/etc/passwd", Writable, "perl -e 'my ($p, $n, $v) = ($ARGV[0], \"user.x\", \"1\"); exit(syscall(188, $p, $n, $v, 1, 0) < 0 ? 1 : 0)' $T"),
    ("set an access control list", Root, "/etc/passwd", Writable, "perl -e 'my ($p, $n) = ($ARGV[0], \"system.posix_acl_access\"); my $v = pack(\"Vvvl<vvl<vvl<\", 2, 1, 6, -1, 4, 4, -1, 32, 4, -1); exit(syscall(188, $p, $n, $v, length $v, 0) < 0 ? 1 : 0)' $T"),
    ("set a file capability", Root, "/etc/passwd", Writable, "perl -e 'my ($p, $n) = ($ARGV[0], \"security.capability\"); my $v = pack(\"V5\", 0x02000001, 1, 0, 0, 0); exit(syscall(188, $p, $n, $v, length $v, 0) < 0 ? 1 : 0)' $T"),
    ("open a file without a name", Root, "/etc", Writable, "perl -MFcntl -e 'sysopen(my $f, $ARGV[0], 020200000 | O_RDWR, 0600) or exit 1' $T"),
    ("open for writing through /proc/self/fd", Root, "/etc/passwd", Writable, "exec 7<$T; : >>/proc/self/fd/7"),
    ("open for writing through /proc/1/root", Root, "/etc/passwd", Writable, ": >>/proc/1/root$T"),
    ("open for writing through a working directory", Root, "/etc", Writable, "cd $T && : >>/proc/self/cwd/passwd"),
    ("map a file for writing", Root, "/etc/passwd", Writable, "perl -MFcntl -e 'sysopen(my $f, $ARGV[0], O_RDWR) or exit 1' $T"),
    ("allocate blocks", Root, "/etc/passwd", Writable, "fallocate -n -l 4096 $T"),
    ("replace by dd", Root, "/etc/issue", Writable, "dd if=$T of=$T conv=notrunc status=none"),
    ("copy a tree over it", Root, "/etc", Writable, "cp -a $T/issue.net $T/issue"),
    ("edit by sed", Root, "/etc/passwd", Writable, "sed -i s/nothing/nothing/ $T"),
    ("add a user", Root, "/etc/passwd", Writable, "useradd -M intruder && userdel intruder"),
    ("change a password", Root, "/etc/shadow", Writable, "usermod -p x games && usermod -p '*' games"),
    ("enable a service", Root, "/etc/systemd/system", Writable, "mkdir -p $T && : >$T/evil.service"),
    ("preload a library", Root, "/etc/ld.so.preload", Writable, ": >$T && rm $T"),
    ("add a rule of sudo", Root, "/etc/sudoers.d", Writable, "mkdir -p $T && : >$T/evil"),
    ("add a job of cron", Root, "/etc/cron.d", Writable, "mkdir -p $T && : >$T/evil"),
    ("add a key of root", Root, "/root", Writable, "mkdir -p $T/.ssh && : >>$T/.ssh/authorized_keys"),
    ("replace the start script", Root, "/etc/rc.zone", Writable, ": >>$T"),
    ("as another user namespace", Root, "/etc/passwd", Writable, "unshare -Urm sh -c \": >>$T\""),
    ("as a new mount namespace", Root, "/etc/passwd", Writable, "unshare -m sh -c \": >>$T\""),
    ("in a chroot of itself", Root, "/etc/passwd", Writable, "chroot / sh -c \": >>$T\""),
    ("through a recursive bind", Root, "/etc", Writable, "mkdir -p /tmp/b && mount --rbind / /tmp/b && : >>/tmp/b$T/passwd"),
    ("through a plain bind of a folder", Root, "/etc", Writable, "mkdir -p /tmp/e && mount --bind $T /tmp/e && : >>/tmp/e/passwd"),
    // Read-only files in writable folders.
    ("forge the record of packages", Kept, "/var/lib/dpkg/status", Writable, ": >>$T"),
    ("make a file among the records", Kept, "/var/lib/dpkg", Writable, ": >$T/new && rm $T/new"),
    ("lock the record of packages", Kept, "/var/lib/dpkg/lock", Writable, ": >>$T"),
    ("change a downloaded package", Kept, "/var/cache/apt", Writable, ": >$T/x.deb && rm $T/x.deb"),
    ("change the lists of packages", Kept, "/var/lib/apt", Writable, ": >$T/x && rm $T/x"),
    ("write a crontab", Kept, "/var/spool/cron", Writable, "mkdir -p $T/crontabs && : >$T/crontabs/root"),
    ("write a job of at", Kept, "/var/spool/at", Writable, ": >$T/a1"),
    ("start services of a user at boot", Kept, "/var/lib/systemd/linger", Writable, ": >$T/games"),
    ("change the mode of a record", Kept, "/var/lib/dpkg/status", Writable, "chmod 0646 $T && chmod 0644 $T"),
    ("open the record through /proc", Kept, "/var/lib/dpkg/status", Writable, ": >>/proc/1/root$T"),
    ("remove a record", Kept, "/var/lib/dpkg/available", Writable, ": >>$T && rm $T"),
    // Flags of the mounts.
    ("remount the root writable", Flags, "/", Other("/srv/own"), "own; mount -o remount,bind,rw $T"),
    ("remount the records writable", Flags, "/var/lib/dpkg", Other("/srv/own"), "own; mount -o remount,bind,rw $T"),
    ("clear the flag of the root", Flags, "/", Other("/srv/own"), "own; setattr $T"),
    ("clear the flag of the records", Flags, "/var/lib/dpkg", Other("/srv/own"), "own; setattr $T"),
    ("clear the flag in a new namespace", Flags, "/var/lib/dpkg", Other("/srv/own"), "own; unshare -m sh -c \"mount -o remount,bind,rw $T\""),
    ("clear the flag of a copy", Flags, "/var/lib/dpkg", Other("/srv/own"), "own; mkdir -p /tmp/c; mount --bind $T /tmp/c && mount -o remount,bind,rw /tmp/c"),
    ("clear the flag of a recursive copy", Flags, "/var", Other("/srv/own"), "own; mkdir -p /tmp/r /srv/own/sub/lib/dpkg; mount --rbind $T /tmp/r; at=/tmp/r; [ $T = /var ] && at=/tmp/r/lib/dpkg; mount -o remount,bind,rw $at"),
    ("remount the file system writable", Flags, "/", Other("/srv/tmpfs"), "mkdir -p /srv/tmpfs; mount -t tmpfs -o ro t /srv/tmpfs; perl -e 'my ($s, $p, $t) = (\"t\", $ARGV[0], \"tmpfs\"); exit(syscall(165, $s, $p, $t, 32, 0) < 0 ? 1 : 0)' $T"),
    // Places of the mounts.
    ("unmount the records", Place, "/var/lib/dpkg", Other("/srv/own"), "own; umount $T"),
    ("unmount the records lazily", Place, "/var/lib/dpkg", Other("/srv/own"), "own; umount -l $T"),
    ("unmount a pinned folder", Place, "/var/lib", Other("/srv/own"), "own; umount -l $T"),
    ("unmount a writable folder", Place, "/var", Other("/srv/own"), "own; umount -l $T"),
    ("move the records away", Place, "/var/lib/dpkg", Other("/srv/own"), "own; mkdir -p /tmp/m; mount --move $T /tmp/m"),
    ("unmount in a new user namespace", Place, "/var/lib/dpkg", Other("/srv/sub"), "mkdir -p /srv/sub; unshare -Urm sh -c \"[ $T = /srv/sub ] && mount --bind $T $T; umount -l $T\""),
    ("bind a folder without the mounts in it", Place, "/var", Other("/srv"), "mkdir -p /tmp/v; mount --bind $T /tmp/v"),
    ("bind the root without the mounts in it", Place, "/", Other("/srv"), "mkdir -p /tmp/w; mount --bind $T /tmp/w"),
    ("copy a mount by open_tree", Place, "/var", Other("/srv"), "perl -e 'my $p = $ARGV[0]; exit(syscall(428, -100, $p, 1) < 0 ? 1 : 0)' $T"),
    ("overlay over a folder without the mounts in it", Place, "/var", Other("/srv"), "mkdir -p /tmp/o/u /tmp/o/w /tmp/o/m; mount -t overlay -o lowerdir=$T,upperdir=/tmp/o/u,workdir=/tmp/o/w o /tmp/o/m"),
    // Folders that cannot be renamed.
    ("rename the folder above the records", Pin, "/var/lib", Other("/var/log"), "mv $T $T.old && mv $T.old $T"),
    ("rename the records", Pin, "/var/lib/dpkg", Other("/var/log"), "mv $T $T.old && mv $T.old $T"),
    ("exchange the folder above the records", Pin, "/var/lib", Other("/var/log"), "mkdir -p /var/x; call 316 -100 $T -100 /var/x 2 && call 316 -100 $T -100 /var/x 2; s=$?; rmdir /var/x; exit $s"),
    ("rename over the spool of cron", Pin, "/var/spool/cron", Other("/var/spool/free"), "mkdir -p /var/spool/free /var/spool/new; call 82 /var/spool/new $T; s=$?; rmdir /var/spool/new; exit $s"),
    ("remove the folder of lingering users", Pin, "/var/lib/systemd/linger", Other("/var/lib/systemd/free"), "mkdir -p /var/lib/systemd/free; rmdir $T"),
    ("rename the folder of systemd", Pin, "/var/lib/systemd", Other("/var/log"), "mv $T $T.old && mv $T.old $T"),
    ("rename a writable folder", Pin, "/var", Other("/var/log"), "mv -T $T $T.old && mv -T $T.old $T"),
    ("rename in a new mount namespace", Pin, "/var/lib", Other("/var/log"), "unshare -m sh -c \"mv $T $T.old && mv $T.old $T\""),
    // Borders between mounts.
    ("link a file into a writable folder", Border, "/etc/issue", Other("/var/log/file"), ": >>/var/log/file; ln $T /var/log/hard && rm /var/log/hard"),
    ("move a record out of its folder", Border, "/var/lib/dpkg/status", Other("/var/log/file"), ": >>/var/log/file; call 82 $T /var/log/moved"),
    ("link a record into a writable folder", Border, "/var/lib/dpkg/status", Other("/var/log/file"), ": >>/var/log/file; ln $T /var/log/hard2 && rm /var/log/hard2"),
];

/// Configures and boots `web` with a profile. Waits until it has assembled itself.
fn boot_with(host: &Host, profile: &str) {
    let set = format!("set file-mac-profile={profile}");
    host.zonecfg(&["-z", "web", &set]).quiet();
    host.boot("web");
    wait_until_sealed(host);
}

fn wait_until_sealed(host: &Host) {
    wait_for("the zone read-only", || {
        (access(host) == "R" && host.state("web") == "running").then_some(())
    });
}

/// Returns the field of `zoneadm list -p` for the root of `web`: R, W or -.
fn access(host: &Host) -> String {
    let line = host.on("web", &["list", "-p"]).ok().out;
    line.trim_end().split(':').nth(7).unwrap_or("?").to_owned()
}

/// Runs attacks in `web`, each in a mount namespace of its own. Returns the status of each, by name.
fn statuses(host: &Host, attacks: &[(&str, &str, &str)]) -> BTreeMap<String, i32> {
    let mut script = String::from("cd /\n");
    for (name, target, line) in attacks {
        let line = format!("T={target}\n{HELPERS}\n{line}\n");
        script.push_str(&format!(
            "cat >/run/attack <<'LINE'\n{line}LINE\n\
             timeout 60 unshare -m sh /run/attack >/dev/null 2>&1 </dev/null\necho \"$? {name}\"\n"
        ));
    }
    let out = host.zlogin_with(&["web"], script.as_bytes()).ok().out;
    let pair = |line: &str| {
        let (status, name) = line.split_once(' ')?;
        Some((name.to_owned(), status.parse().ok()?))
    };
    let found: BTreeMap<String, i32> = out.lines().filter_map(pair).collect();
    assert_eq!(found.len(), attacks.len(), "{out}");
    found
}

/// Files that the attacks need, which a small root may lack.
const FILES: &[(&str, &str)] = &[
    ("etc/issue", "a\n"),
    ("etc/issue.net", "b\n"),
    ("etc/rc.zone", "#!/bin/sh\n"),
    ("var/lib/dpkg/status", ""),
    ("var/lib/dpkg/available", ""),
    ("var/lib/dpkg/lock", ""),
    ("var/lib/apt/file", ""),
    ("var/cache/apt/file", ""),
    ("var/spool/file", ""),
    ("var/lib/systemd/file", ""),
];

#[test]
fn every_attack_fails_and_succeeds_without_its_guard() {
    let Some(host) = Host::with_web() else { return };
    for (path, text) in FILES {
        host.put("web", path, text);
    }
    boot_with(&host, "fixed-configuration");
    assert!(ATTACKS.len() >= 60, "{}", ATTACKS.len());
    let attacks: Vec<_> = ATTACKS
        .iter()
        .map(|&(name, _, at, _, line)| (name, at, line))
        .collect();
    let guarded = statuses(&host, &attacks);
    let done: Vec<_> = guarded.iter().filter(|(_, status)| **status == 0).collect();
    assert!(done.is_empty(), "root of the zone could: {done:?}");
    // Every attack leaves the files of the zone as they were.
    assert_eq!(host.sh("web", "cat /etc/issue /var/lib/dpkg/status"), "a");
    let others = ATTACKS
        .iter()
        .filter_map(|&(name, _, _, control, line)| match control {
            Other(at) => Some((name, at, line)),
            Writable => None,
        });
    let mut without = statuses(&host, &others.collect::<Vec<_>>());
    host.on("web", &["reboot", "-w"]).quiet();
    assert_eq!(access(&host), "W");
    let same = ATTACKS.iter().filter_map(|&(name, _, at, control, line)| {
        (control == Writable).then_some((name, at, line))
    });
    without.extend(statuses(&host, &same.collect::<Vec<_>>()));
    assert_eq!(without.len(), ATTACKS.len());
    let idle: Vec<_> = without.iter().filter(|(_, status)| **status != 0).collect();
    assert!(
        idle.is_empty(),
        "without the guard these failed, too: {idle:?}"
    );
    host.halt("web");
}

/// Returns the paths among `paths` to which root of `web` can write.
fn writable(host: &Host, paths: &[&str]) -> String {
    let script: String = paths
        .iter()
        .map(|path| {
            format!("if ( : >{path}/probe ) 2>/dev/null; then rm {path}/probe; echo {path}; fi\n")
        })
        .collect();
    let ran = host.zlogin_with(&["web"], script.as_bytes()).ok();
    ran.text().replace('\n', " ")
}

const PLACES: [&str; 12] = [
    "",
    "/etc",
    "/root",
    "/var/log",
    "/var/lib/dpkg",
    "/var/tmp",
    "/home",
    "/srv",
    "/opt",
    "/tmp",
    "/run",
    "/etc/apt",
];

#[test]
fn each_profile_leaves_its_own_places_writable() {
    let Some(host) = Host::with_web() else { return };
    for path in ["home", "srv", "opt", "etc/apt", "var/lib/dpkg", "var/log"] {
        host.put("web", &format!("{path}/kept"), "kept");
    }
    for (profile, expected) in [
        ("strict", "/var/tmp /tmp /run"),
        (
            "fixed-configuration",
            "/var/log /var/tmp /home /srv /opt /tmp /run",
        ),
        (
            "flexible-configuration",
            "/etc /root /var/log /var/tmp /home /srv /opt /tmp /run",
        ),
    ] {
        boot_with(&host, profile);
        assert_eq!(writable(&host, &PLACES), expected, "{profile}");
        host.on("web", &["reboot", "-w"]).quiet();
        // A writable boot has all places, and the same data.
        let all = writable(&host, &PLACES);
        assert_eq!(all.split_whitespace().count(), PLACES.len() - 1, "{all}");
        assert_eq!(host.sh("web", "cat /srv/kept /var/log/kept"), "keptkept");
        // A reboot from inside the zone makes it read-only again.
        let _ = host.zlogin(&["web", "reboot"]);
        wait_until_sealed(&host);
        host.halt("web");
        assert_eq!(access(&host), "-");
    }
}

#[test]
fn data_outlives_a_boot_and_memory_does_not() {
    let Some(host) = Host::with_web() else { return };
    boot_with(&host, "fixed-configuration");
    let _ = host.sh(
        "web",
        "echo data >/srv/data; echo log >/var/log/own; echo gone >/tmp/gone",
    );
    host.on("web", &["reboot"]).quiet();
    assert_eq!(
        host.sh("web", "cat /srv/data /var/log/own; ls /tmp"),
        "data\nlog"
    );
    assert_eq!(
        fs::read_to_string(host.top("web").join("srv/data")).unwrap(),
        "data\n"
    );
    host.halt("web");
}

#[test]
fn a_zone_assembles_itself_once_and_again_after_a_clone() {
    let Some(host) = Host::with_web() else { return };
    host.zonecfg(&["-z", "web", "set file-mac-profile=strict"])
        .quiet();
    // The start script of a new zone writes its first files, and is not cut off.
    host.put_program(
        "web",
        "etc/rc.zone",
        "#!/bin/sh\n[ \"$1\" = start ] || exit 0\nfor second in 1 2 3 4 5 6 7; do sleep 1; done\necho once >>/etc/made\n",
    );
    host.boot("web");
    assert_eq!(access(&host), "W");
    let line = host.on("web", &["list", "-p"]).ok().out;
    assert!(line.ends_with(":W:strict\n"), "{line}");
    wait_until_sealed(&host);
    assert_eq!(host.sh("web", "cat /etc/made"), "once");
    let told = fs::read_to_string(host.path("/var/log/zones/web.messages")).unwrap();
    for part in [
        "assembles itself",
        "has assembled itself: it reboots read-only",
    ] {
        assert!(told.contains(part), "{told}");
    }
    let json = host.on("web", &["list", "-j"]).ok().out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["read_only"], true);
    assert_eq!(json[0]["file_mac_profile"], "strict");
    host.on("web", &["reboot"]).quiet();
    assert_eq!(access(&host), "R");
    // With -W the zone assembles itself again.
    host.on("web", &["reboot", "-W"]).quiet();
    assert_eq!(access(&host), "W");
    wait_until_sealed(&host);
    assert_eq!(host.sh("web", "cat /etc/made"), "once\nonce");
    // A halt ends the assembly, and the next boot begins it again.
    host.halt("web");
    host.clone_from("web", "copy");
    host.zonecfg(&["-z", "copy", "set file-mac-profile=strict"])
        .quiet();
    host.boot("copy");
    let line = host.on("copy", &["list", "-p"]).ok().out;
    assert!(line.ends_with(":W:strict\n"), "{line}");
    host.on("copy", &["halt"]).quiet();
    host.on("copy", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/zones/copy").exists());
}

#[test]
fn ready_and_plans_know_the_profile() {
    let Some(host) = Host::with_web() else { return };
    boot_with(&host, "fixed-configuration");
    host.halt("web");
    let plan = host.on("web", &["boot", "-n"]).ok().out;
    assert!(
        plan.contains("lay out fixed-configuration: writable /home /opt /srv /var, but not "),
        "{plan}"
    );
    assert!(plan.contains("make / read-only"), "{plan}");
    let plan = host.on("web", &["boot", "-w", "-n"]).ok().out;
    assert!(!plan.contains("make / read-only"), "{plan}");
    assert!(!plan.contains("lay out"), "{plan}");
    host.on("web", &["ready"]).quiet();
    assert_eq!(access(&host), "R");
    host.on("web", &["boot", "-w"])
        .mentions(1, "is ready, and its root is read-only or writable already");
    host.boot("web");
    assert_eq!(writable(&host, &["/etc", "/srv"]), "/srv");
    host.halt("web");
}

#[test]
fn profiles_that_no_zone_can_have_are_refused_with_the_reason() {
    let Some(host) = Host::with_web() else { return };
    host.zonecfg(&["-z", "web", "set file-mac-profile=dynamic-zones"])
        .mentions(1, "file-mac-profile=dynamic-zones: a zone has no zones of its own here: use fixed-configuration");
    host.zonecfg(&["-z", "k", "create -b; set zonepath=/zones/k; set brand=kz; set ip-type=exclusive; set file-mac-profile=strict"])
        .mentions(
            1,
            "file-mac-profile=strict: the kernel of the zone mounts its own disks",
        );
    host.boot("web");
    assert_eq!(access(&host), "W");
    // Both options are ignored for a zone that is not immutable.
    host.on("web", &["reboot", "-w"]).quiet();
    host.on("web", &["reboot", "-W"]).quiet();
    assert_eq!(host.state("web"), "running");
    host.halt("web");
}

#[test]
fn a_changed_profile_waits_for_the_next_boot() {
    let Some(host) = Host::with_web() else { return };
    boot_with(&host, "fixed-configuration");
    host.zonecfg(&["-z", "web", "set file-mac-profile=none"])
        .quiet();
    let said = host.on("web", &["apply"]).ok();
    let text = said.out + &said.err;
    assert!(
        text.contains("file-mac-profile") && text.contains("takes effect when the zone boots"),
        "{text}"
    );
    assert_eq!(writable(&host, &["/etc", "/srv"]), "/srv");
    let line = host.on("web", &["list", "-p"]).ok().out;
    assert!(line.ends_with(":R:fixed-configuration\n"), "{line}");
    host.on("web", &["reboot"]).quiet();
    assert_eq!(writable(&host, &["/etc", "/srv"]), "/etc /srv");
    host.halt("web");
}

#[test]
fn a_delegated_user_cannot_loosen_a_profile() {
    let Some(host) = Host::with_web() else { return };
    allow(&host, "web", "daemon", "login,manage,config,liveconfig");
    boot_with(&host, "fixed-configuration");
    let service = Service::start(&host);
    for line in [
        "zoneadm -z web reboot -w",
        "zoneadm -z web reboot -W",
        "zoneadm -z web boot -w",
        "zlogin -T web id",
        "zlogin -U web id",
    ] {
        assert_ne!(service.run("daemon", line).code(), Some(0), "{line}");
    }
    for value in ["none", "flexible-configuration"] {
        let set = format!("set file-mac-profile={value}");
        let ran = service.run_words("daemon", "zonecfg", &["-z", "web", &set]);
        assert_ne!(ran.code(), Some(0), "{ran:?}");
    }
    assert_eq!(access(&host), "R");
    assert!(
        host.zonecfg(&["-z", "web", "info file-mac-profile"])
            .ok()
            .out
            .contains("fixed-configuration")
    );
    service.run("daemon", "zoneadm -z web reboot").quiet();
    assert_eq!(access(&host), "R");
    host.halt("web");
}

#[test]
fn file_systems_of_the_configuration_keep_their_own_options() {
    let Some(host) = Host::with_web() else { return };
    for name in ["rw", "ro", "live"] {
        fs::create_dir_all(host.path(&format!("/data/{name}"))).unwrap();
    }
    let closed = fs::Permissions::from_mode(0o700);
    fs::set_permissions(host.path("/data"), closed).unwrap();
    let fs = |dir: &str, name: &str, more: &str| {
        let special = host.path(&format!("/data/{name}"));
        format!(
            "add fs; set dir={dir}; set special={}; set type=lofs; {more} end",
            special.display()
        )
    };
    // The mount points do not exist, and the root is read-only when they are mounted.
    let all = [
        fs("/new/rw", "rw", ""),
        fs("/var/ro", "ro", "add options ro;"),
    ]
    .join("; ");
    host.zonecfg(&["-z", "web", &all]).quiet();
    boot_with(&host, "strict");
    host.halt("web");
    // A mount point that comes later is made by the boot, too.
    host.zonecfg(&["-z", "web", &fs("/later/live", "live", "")])
        .quiet();
    host.boot("web");
    assert_eq!(access(&host), "R");
    assert_eq!(
        writable(
            &host,
            &["/new/rw", "/new", "/var/ro", "/later/live", "/later"]
        ),
        "/new/rw /later/live"
    );
    host.halt("web");
}

#[test]
fn names_are_written_though_etc_is_read_only() {
    let Some(host) = Host::with_web() else { return };
    if Command::new("nft").arg("--version").output().is_err() {
        skip("the host has no nft");
        return;
    }
    host.zonecfg(&[
        "-z",
        "web",
        "add net; set address=192.0.2.9/24; set physical=lo; end",
    ])
    .quiet();
    boot_with(&host, "strict");
    host.zonecfg(&[
        "-z",
        "web",
        "select net address=192.0.2.9/24; set address=192.0.2.10/24; end",
    ])
    .quiet();
    host.on("web", &["reboot"]).quiet();
    assert_eq!(access(&host), "R");
    let hosts = host.sh("web", "cat /etc/hosts");
    assert!(
        hosts.contains("192.0.2.10\tweb") && !hosts.contains("192.0.2.9"),
        "{hosts}"
    );
    assert_eq!(writable(&host, &["/etc"]), "");
    host.halt("web");
}

#[test]
fn the_host_changes_an_immutable_zone_from_outside() {
    let Some(host) = Host::with_web() else { return };
    boot_with(&host, "strict");
    host.on("web", &["snapshot", "before"]).quiet();
    // A running zone is changed for its next boot.
    host.on("web", &["reboot", "-w"]).quiet();
    let _ = host.sh("web", "echo changed >/etc/changed");
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.sh("web", "cat /etc/changed"), "changed");
    host.halt("web");
    host.on("web", &["rollback", "-F", "before"]).quiet();
    host.boot("web");
    assert_eq!(access(&host), "R");
    assert_eq!(host.zlogin(&["web", "cat /etc/changed"]).code(), Some(1));
    // The zone cannot select another root for itself.
    let program = host.command("zoneadm", &[]).get_program().to_owned();
    host.halt("web");
    host.put_program("web", "root/beadm", fs::read(program).unwrap());
    host.boot("web");
    for words in ["create other", "activate before", "destroy -F before"] {
        host.zlogin(&["web", &format!("/root/beadm {words}")])
            .mentions(1, "the zone is immutable (file-mac-profile=strict)");
    }
    let _ = host.zlogin(&["web", "/root/beadm list"]).ok();
    host.halt("web");
    // Detach and attach keep the profile and the mark of the assembly.
    host.on("web", &["detach"]).quiet();
    host.on("web", &["attach"]).quiet();
    host.boot("web");
    assert_eq!(access(&host), "R");
    host.halt("web");
}

#[test]
fn a_trusted_login_changes_what_the_zone_cannot() {
    let Some(host) = Host::with_web() else { return };
    for (path, text) in FILES {
        host.put("web", path, text);
    }
    host.put_program("web", "srv/evil", "#!/bin/sh\necho evil\n");
    host.zlogin(&["-T", "web", "id"]).mentions(1, "");
    boot_with(&host, "fixed-configuration");
    let sh = |option: &str, line: &str| host.zlogin(&[option, "web", line]);
    for option in ["-T", "-U"] {
        let line = "echo new >/etc/issue && : >>/var/lib/dpkg/status && : >/etc/new && rm /etc/new";
        let _ = sh(option, line).ok();
        assert_eq!(host.sh("web", "cat /etc/issue"), "new");
        // The users, the name and the network are those of the zone, and its processes are not.
        let same = "hostname; id -u; readlink /proc/self/ns/user /proc/self/ns/net";
        assert_eq!(
            sh(option, same).ok().out,
            host.zlogin(&["web", same]).ok().out,
            "{option}"
        );
        let alone = sh(option, "ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm")
            .ok()
            .out;
        let count: u32 = alone.lines().next().unwrap().parse().unwrap();
        assert!(count < 8, "{alone}");
        assert_eq!(sh(option, "exit 7").code(), Some(7));
        // A service of the zone would get hold of a session that connects to it.
        let socket = "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or exit 3'";
        assert_eq!(sh(option, socket).code(), Some(3), "{option}");
        assert_eq!(host.zlogin(&["web", socket]).code(), Some(0));
        // The session cannot uncover files, or reach those of the host.
        assert_ne!(
            sh(option, "umount /dev 2>/dev/null").code(),
            Some(0),
            "{option}"
        );
        assert_ne!(
            sh(option, "touch /usr/new 2>/dev/null").code(),
            Some(0),
            "{option}"
        );
        assert_eq!(sh(option, "echo x >/dev/null; echo ok").ok().out, "ok\n");
    }
    assert_eq!(sh("-U", "/srv/evil").ok().out, "evil\n");
    assert_ne!(sh("-T", "/srv/evil").code(), Some(0));
    assert_eq!(
        sh("-T", "ls /srv /home")
            .ok()
            .out
            .lines()
            .filter(|line| !line.is_empty() && !line.ends_with(':'))
            .count(),
        0
    );
    assert_eq!(
        sh("-T", "ls /var/lib/dpkg/status").ok().out,
        "/var/lib/dpkg/status\n"
    );
    let told = fs::read_to_string(host.path("/var/log/zones/web.messages")).unwrap();
    assert!(told.contains("zlogin -T, command: ls /srv /home"), "{told}");
    // Root of the zone does not see the session, and cannot write through it.
    let words = ["-U", "web", "cd /etc; echo begun; exec sleep 60"];
    let mut command = host.command("zlogin", &words);
    let mut session = e2e::start(command.stdout(std::process::Stdio::piped()));
    let output = session.stdout.take().expect("a pipe");
    let line = std::io::BufRead::lines(std::io::BufReader::new(output)).next();
    assert_eq!(line.expect("a line").expect("text"), "begun");
    let reach = "for one in /proc/[0-9]*; do ( : >$one/cwd/reached || : >$one/root/etc/reached ) 2>/dev/null && echo $one; done; ls /etc/reached 2>/dev/null; grep -l sleep /proc/[0-9]*/comm; true";
    assert_eq!(host.sh("web", reach), "");
    // The zone ends although a session is open, and the session ends with it.
    host.halt("web");
    let ended = session.wait().unwrap();
    assert!(!ended.success());
    assert_eq!(host.zlogin(&["-T", "web", "true"]).code(), Some(1));
    assert_eq!(host.zlogin(&["-C", "-T", "web"]).code(), Some(2));
    assert_eq!(host.zlogin(&["-T", "-U", "web", "true"]).code(), Some(2));
}

#[test]
fn a_trusted_login_needs_a_read_only_zone_and_its_own_zoneadmd() {
    let Some(host) = Host::with_web() else { return };
    host.boot("web");
    host.zlogin(&["-T", "web", "true"])
        .mentions(1, "zone 'web' is writable: log in without them");
    host.halt("web");
    boot_with(&host, "flexible-configuration");
    // With -T, /etc is empty but for what the session needs.
    assert_eq!(
        host.zlogin(&["-T", "web", "id -un; touch /usr/local 2>/dev/null; ls /etc"])
            .ok()
            .out
            .lines()
            .next(),
        Some("root")
    );
    host.kill(host.zoneadmd("web").unwrap());
    wait_for("an answer about the missing way", || {
        let ran = host.zlogin(&["-T", "web", "true"]);
        ran.err.contains("reboot the zone").then_some(())
    });
    assert_eq!(access(&host), "R");
    assert_eq!(writable(&host, &["/etc", ""]), "/etc");
    host.on("web", &["reboot"]).quiet();
    let _ = host.zlogin(&["-T", "web", "true"]).ok();
    host.halt("web");
}
