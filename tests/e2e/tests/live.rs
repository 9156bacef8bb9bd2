//! Tests changes of running zones: `zoneadm apply`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use e2e::inside::all_fail;
use e2e::{Host, Ran};

/// Makes a folder of the host with a file in it, closed to the users of the host.
fn folder(host: &Host, name: &str) -> PathBuf {
    let folder = host.path(name);
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(folder.join("file"), format!("of {name}")).unwrap();
    folder
}

fn lofs(dir: &str, special: &Path, more: &str) -> String {
    format!(
        "add fs; set dir={dir}; set special={}; set type=lofs; {more}; end",
        special.display()
    )
    .replace("; ;", ";")
}

#[track_caller]
fn configure(host: &Host, script: &str) {
    host.zonecfg(&["-z", "web", script]).quiet();
}

#[track_caller]
fn apply(host: &Host) -> Ran {
    host.on("web", &["apply"]).ok()
}

/// Returns the printed lines of an apply that succeeded.
#[track_caller]
fn applied(host: &Host, lines: &[&str]) {
    let ran = apply(host);
    let told: Vec<String> = lines
        .iter()
        .map(|line| format!("zone 'web': Checking: {line}"))
        .chain(["zone 'web': Applying the changes".to_owned()])
        .collect();
    assert_eq!(ran.text(), told.join("\n"), "{ran:?}");
    assert_eq!(ran.err, "", "{ran:?}");
}

const NOTHING: &str = "zoneadm: zone 'web': runs as it is configured: nothing to apply";

#[track_caller]
fn nothing_to_apply(host: &Host) {
    host.on("web", &["apply"]).says(0, NOTHING);
}

#[test]
fn file_systems_come_and_go() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    nothing_to_apply(&host);
    let (data, other) = (folder(&host, "/data"), folder(&host, "/other"));
    configure(&host, &lofs("/srv/deep/data", &data, ""));
    configure(&host, &lofs("/srv/fixed", &data, "add options ro"));
    configure(
        &host,
        "add fs; set dir=/srv/quick; set special=swap; set type=tmpfs; add options \"size=1m\"; end",
    );
    // A dry run prints the same lines and changes nothing.
    let dry = host.on("web", &["apply", "-n"]).ok();
    assert_eq!(dry.out.lines().count(), 3, "{dry:?}");
    assert!(!dry.out.contains("Applying"), "{dry:?}");
    all_fail(&host, "web", &["ls /srv/deep", "ls /srv/fixed"]);
    applied(
        &host,
        &[
            "Adding fs dir=/srv/deep/data",
            "Adding fs dir=/srv/fixed",
            "Adding fs dir=/srv/quick",
        ],
    );
    assert_eq!(host.sh("web", "cat /srv/deep/data/file"), "of /data");
    // Owners are mapped by the zone's ids, in both directions.
    host.sh("web", "echo new >/srv/deep/data/new; touch /srv/quick/x");
    assert_eq!(fs::read_to_string(data.join("new")).unwrap(), "new\n");
    let owner = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).unwrap().uid()
    };
    assert_eq!(owner(&data.join("new")), 0);
    assert_eq!(host.sh("web", "stat -c %u /srv/fixed/new"), "0");
    // A read-only mount of the host stays read-only.
    all_fail(
        &host,
        "web",
        &[
            "touch /srv/fixed/x",
            "mount -o remount,rw /srv/fixed",
            "mount -o remount,rw,bind /srv/fixed",
            "mount -o remount,ro,bind,dev /srv/deep/data",
            "mount -o remount,rw,bind,suid /srv/deep/data",
            "mount --bind /srv/fixed /mnt && mount -o remount,rw,bind /mnt",
        ],
    );
    nothing_to_apply(&host);

    // One file system is removed, and one is replaced.
    configure(&host, "remove fs dir=/srv/quick; remove fs dir=/srv/fixed");
    configure(
        &host,
        &format!(
            "select fs dir=/srv/deep/data; set special={}; end",
            other.display()
        ),
    );
    applied(
        &host,
        &[
            "Modifying fs dir=/srv/deep/data",
            "Removing fs dir=/srv/fixed",
            "Removing fs dir=/srv/quick",
        ],
    );
    assert_eq!(host.sh("web", "cat /srv/deep/data/file"), "of /other");
    assert_eq!(
        host.sh("web", "ls /srv/fixed /srv/quick"),
        "/srv/fixed:\n\n/srv/quick:"
    );
    assert_eq!(
        host.sh(
            "web",
            "cut -d ' ' -f 5 /proc/self/mountinfo | grep -c ^/srv/"
        ),
        "1"
    );
    assert_eq!(fs::read_to_string(data.join("file")).unwrap(), "of /data");
}

#[test]
fn file_systems_of_the_boot_can_be_taken_away() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let data = folder(&host, "/data");
    host.configure(
        "web",
        &format!(
            "{}; {}",
            lofs("/data", &data, "add options ro"),
            lofs("/more", &data, "")
        ),
    );
    host.on("web", &["clone", "master"]).quiet();
    host.boot("web");
    all_fail(
        &host,
        "web",
        &["touch /data/x", "mount -o remount,rw,bind /data"],
    );
    assert_eq!(
        host.sh("web", "cat /data/file /more/file"),
        "of /dataof /data"
    );
    configure(&host, "remove fs dir=/data");
    // A mount that is in use cannot be removed: then nothing changes.
    let mut reader = host
        .command("zlogin", &["web", "cd /data && echo in && cat"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 3];
    let mut out = reader.stdout.take().unwrap();
    std::io::Read::read_exact(&mut out, &mut line).unwrap();
    host.on("web", &["apply"]).says(
        1,
        "zoneadm: zone 'web': could not unmount /data: it is in use in the zone",
    );
    assert_eq!(host.sh("web", "cat /data/file"), "of /data");
    drop(reader.stdin.take());
    assert!(reader.wait().unwrap().success());
    applied(&host, &["Removing fs dir=/data"]);
    assert_eq!(host.sh("web", "ls /data; cat /more/file"), "of /data");
    // The zone's root may unmount it too, and the next apply mounts it again.
    host.sh("web", "umount /more && ! test -e /more/file");
    applied(&host, &["Adding fs dir=/more"]);
    assert_eq!(host.sh("web", "cat /more/file"), "of /data");
    // The same works after zoneadmd was killed.
    let zoneadmd = host.zoneadmd("web").unwrap();
    host.kill(zoneadmd);
    configure(&host, &lofs("/data", &data, ""));
    applied(&host, &["Adding fs dir=/data"]);
    assert_eq!(host.sh("web", "cat /data/file"), "of /data");
    host.on("web", &["reboot"]).quiet();
    assert_eq!(
        host.sh("web", "cat /data/file /more/file"),
        "of /dataof /data"
    );
    nothing_to_apply(&host);
}

#[test]
fn a_mount_point_that_is_a_trap_leads_nowhere() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let (data, outside) = (folder(&host, "/data"), host.path("/outside"));
    fs::create_dir(&outside).unwrap();
    // Only mounts below the root of this test count, because other tests mount and unmount at the
    // same time.
    let below = host.path("/").display().to_string();
    let mounts = || {
        let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
        all.lines().filter(|line| line.contains(&below)).count()
    };
    let before = mounts();
    // The zone plants links: to the host's folder, upwards, to magic links, and one that changes
    // all the time.
    host.sh(
        "web",
        &format!(
            "ln -s {0} /a; ln -s ../../../../../../../../..{0} /b; ln -s /proc/1/root{0} /c; \
             mkdir -p /d1/x /d2; \
             (while :; do ln -sfn {0} /d2/x; ln -sfn /d1 /d; ln -sfn /d2 /d; done) >/dev/null 2>&1 </dev/null & \
             echo started",
            outside.display()
        ),
    );
    for (dir, round) in ["/a", "/b", "/c", "/d/x"].iter().cycle().zip(0..24) {
        configure(&host, &lofs(dir, &data, ""));
        let ran = host.on("web", &["apply", "-q"]);
        assert!(matches!(ran.code(), Some(0 | 1)), "{round}: {ran:?}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{ran:?}");
        configure(&host, &format!("remove fs dir={dir}"));
        let ran = host.on("web", &["apply", "-q"]);
        assert!(matches!(ran.code(), Some(0 | 1)), "{round}: {ran:?}");
    }
    assert_eq!(mounts(), before);
    assert_eq!(fs::read_to_string(data.join("file")).unwrap(), "of /data");
    assert_eq!(host.state("web"), "running");
}

#[test]
fn limits_are_changed_and_read_back() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let value = |names: &[&str]| {
        let groups = host.groups_of("web");
        let files = groups.iter().filter(|group| group.ends_with("web"));
        let mut files = files.flat_map(|group| names.iter().map(|name| group.join(name)));
        let file = files.find(|file| file.exists());
        let file = file.unwrap_or_else(|| panic!("none of {names:?} in {groups:?}"));
        fs::read_to_string(file).unwrap().trim().to_owned()
    };
    let memory = || value(&["memory.max", "memory.limit_in_bytes"]);
    let threads = || value(&["pids.max"]);
    let unlimited = (memory(), threads());
    configure(
        &host,
        "set max-lwps=300; add capped-memory; set physical=256m; end",
    );
    applied(
        &host,
        &[
            "Adding max-lwps=300",
            "Adding max-processes=300",
            "Adding capped-memory physical=256M",
        ],
    );
    assert_eq!(
        (memory(), threads()),
        ((256 << 20).to_string(), "300".to_owned())
    );
    configure(
        &host,
        "set max-lwps=400; select capped-memory; set physical=300m; end",
    );
    applied(
        &host,
        &[
            "Modifying max-lwps=400",
            "Modifying capped-memory physical=300M",
        ],
    );
    assert_eq!(
        (memory(), threads()),
        ((300 << 20).to_string(), "400".to_owned())
    );
    // If the kernel cannot do all of a change, apply does what is possible and prints the rest.
    configure(&host, "set cpu-shares=65535");
    let ran = apply(&host);
    let partial = "zone 'web': warning: operation succeeded partially for zone.cpu-shares (requested: 65535, final: ";
    assert!(ran.err.starts_with(partial), "{ran:?}");
    configure(
        &host,
        "clear max-lwps; clear max-processes; clear cpu-shares; remove capped-memory",
    );
    apply(&host);
    assert_eq!((memory(), threads()), unlimited);
    nothing_to_apply(&host);
}

#[test]
fn a_failed_apply_is_undone() {
    let Some(host) = Host::with_web() else {
        return;
    };
    let data = folder(&host, "/data");
    configure(&host, &lofs("/old", &data, ""));
    host.boot("web");
    let before = host.sh("web", "cat /proc/self/mountinfo | wc -l");
    configure(&host, "remove fs dir=/old; set max-lwps=1000");
    configure(&host, &lofs("/new", &data, ""));
    let steps = 3;
    for step in 1..=steps {
        let ran = host.with_fault(&format!("apply:{step}:fail"), "web", &["apply"]);
        ran.mentions(1, "a fault was asked for");
        assert_eq!(host.sh("web", "cat /proc/self/mountinfo | wc -l"), before);
        assert_eq!(
            host.sh("web", "cat /old/file; cat /new/file 2>/dev/null; true"),
            "of /data"
        );
        let dry = host.on("web", &["apply", "-n"]).ok();
        assert_eq!(dry.out.lines().count(), 4, "{dry:?}");
    }
    // This step fails without a kill.
    let gone = folder(&host, "/gone");
    configure(
        &host,
        "add fs; set dir=/bad; set special=/x; set type=nosuchfs; end",
    );
    configure(&host, &lofs("/gone", &gone, ""));
    host.on("web", &["apply"])
        .mentions(1, "could not mount /x at /bad");
    assert_eq!(
        host.sh(
            "web",
            "cat /old/file; cat /new/file /gone/file 2>/dev/null; true"
        ),
        "of /data"
    );
    configure(&host, "remove fs dir=/bad; remove fs dir=/gone");
    // After a kill at any step, the next command completes the change.
    for step in 1..=steps + 1 {
        let killed = host.with_fault(&format!("apply:{step}:kill"), "web", &["apply"]);
        assert!(killed.was_killed(), "{killed:?}");
        host.on("web", &["apply", "-q"]).quiet();
        assert_eq!(host.sh("web", "cat /new/file; ls /old"), "of /data");
        nothing_to_apply(&host);
        configure(
            &host,
            "remove fs dir=/new; clear max-lwps; clear max-processes",
        );
        configure(&host, &lofs("/old", &data, ""));
        host.on("web", &["apply", "-q"]).quiet();
        assert_eq!(host.sh("web", "cat /proc/self/mountinfo | wc -l"), before);
        configure(&host, "remove fs dir=/old; set max-lwps=1000");
        configure(&host, &lofs("/new", &data, ""));
    }
}

#[test]
fn apply_names_changes_that_need_a_reboot() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    configure(
        &host,
        "set limitpriv=default,!sys_time; set autoboot=true; add attr; set name=note; set type=string; set value=x; end",
    );
    let ran = apply(&host);
    for line in [
        "zone 'web': Checking: Modifying autoboot=true",
        "zone 'web': Checking: Adding limitpriv=default,!sys_time: needs a reboot: it takes effect when the zone boots",
        "zone 'web': Checking: Adding attr name=note: needs a reboot: it takes effect when the zone boots",
    ] {
        assert!(
            ran.out.lines().any(|one| one == line),
            "{line} is not in {ran:?}"
        );
    }
    // The same message is printed by every command until the zone boots.
    let again = apply(&host);
    assert_eq!(again.out.lines().count(), 2, "{again:?}");
    host.on("web", &["apply", "-q"]).quiet();
    host.on("web", &["reboot"]).quiet();
    nothing_to_apply(&host);
}

#[test]
fn apply_refuses_zones_that_do_not_run() {
    let Some(host) = Host::with_web() else {
        return;
    };
    let refused = "zoneadm: zone 'web': not running";
    host.on("web", &["apply"]).says(1, refused);
    host.on("web", &["ready"]).quiet();
    host.on("web", &["apply", "-n"]).says(1, refused);
    host.on("web", &["halt"]).quiet();
    host.on("none", &["apply"])
        .says(1, "zoneadm: none: No such zone configured");
    host.on("web", &["apply", "-x"])
        .mentions(2, "apply [-n] [-q]");
    // The running configuration of a halted zone is removed.
    let left = fs::read_dir(host.path("/run/zones")).unwrap().flatten();
    let left: Vec<_> = left
        .filter(|one| one.path().extension().is_some_and(|e| e == "xml"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    // An invalid configuration is not applied.
    host.boot("web");
    configure(&host, &lofs("/data", Path::new("/no/such/folder"), ""));
    let ran = host.on("web", &["apply"]);
    assert_eq!(
        (ran.code(), ran.err.trim_end()),
        (
            Some(1),
            "could not verify fs /data: could not access /no/such/folder: no such directory on the host\n\
             zoneadm: zone web failed to verify"
        )
    );
}

/// Runs `zonecfg -z web -r script`.
fn live(host: &Host, script: &str) -> Ran {
    host.zonecfg(&["-z", "web", "-r", script])
}

#[test]
fn the_running_configuration_is_edited_and_lost_at_the_next_boot() {
    let Some(host) = Host::with_web() else {
        return;
    };
    let data = folder(&host, "/data");
    live(&host, "info").says(1, "zonecfg: zone 'web': not running");
    host.boot("web");
    let stored = host.zonecfg(&["-z", "web", "info"]).ok();
    assert_eq!(live(&host, "info").ok().out, stored.out);

    // A dry run changes nothing, and prints nothing if it must be quiet.
    let dry = live(
        &host,
        &format!("{}; commit -n; revert -F", lofs("/data", &data, "")),
    );
    assert_eq!(dry.ok().text(), "zone 'web': Checking: Adding fs dir=/data");
    all_fail(&host, "web", &["ls /data"]);
    let quiet = live(&host, "set max-lwps=700; commit -q").ok();
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));

    let added = live(&host, &lofs("/data", &data, "")).ok();
    assert_eq!(
        added.text(),
        "zone 'web': Checking: Adding fs dir=/data\nzone 'web': Applying the changes"
    );
    assert_eq!(host.sh("web", "cat /data/file"), "of /data");
    // The stored configuration does not have the change, and a message says so.
    assert_eq!(host.zonecfg(&["-z", "web", "info"]).ok().out, stored.out);
    let back = host.on("web", &["apply", "-n"]).ok();
    assert_eq!(
        back.text(),
        "zone 'web': Checking: Removing max-lwps=700\n\
         zone 'web': Checking: Removing max-processes=700\n\
         zone 'web': Checking: Removing fs dir=/data"
    );
    // Some changes of a running zone are impossible.
    for (script, why) in [
        ("create -F", "already installed; create not allowed"),
        ("set zonename=other", "set zonename not allowed"),
        ("delete -F", "delete not allowed"),
        ("set zonepath=/x", "set zonepath not allowed"),
    ] {
        live(&host, script).mentions(1, why);
    }
    live(&host, &lofs("/none", Path::new("/no/such/folder"), "")).mentions(
        1,
        "zonecfg: zone 'web': could not verify fs /none: could not access /no/such/folder",
    );
    let failed = |fault: &str| {
        let mut command = host.command("zonecfg", &["-z", "web", "-r", "remove fs dir=/data"]);
        e2e::run::run(command.env("ZONES_FAULT", fault), b"")
    };
    failed("apply:1:fail").mentions(1, "a fault was asked for");
    assert_eq!(host.sh("web", "cat /data/file"), "of /data");
    host.on("web", &["reboot"]).quiet();
    all_fail(&host, "web", &["cat /data/file"]);
    assert_eq!(live(&host, "info").ok().out, stored.out);
    nothing_to_apply(&host);
    host.halt("web");
    live(&host, "set max-lwps=100").says(1, "zonecfg: zone 'web': not running");
}

#[test]
fn two_who_edit_a_running_zone_do_not_overwrite_each_other() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut first = e2e::Terminal::start(host.command("zonecfg", &["-z", "web", "-r"]));
    first.expect("zonecfg:web> ");
    first.types("set max-lwps=500\n");
    first.expect("zonecfg:web> ");
    let second = live(&host, "set cpu-shares=5");
    let _ = second.ok();
    first.types("commit\n");
    first.expect("another session changed the");
    first.expect("zonecfg:web> ");
    first.types("revert -F\n");
    first.expect("zonecfg:web> ");
    first.types("set max-lwps=500\n");
    first.expect("zonecfg:web> ");
    first.types("commit\n");
    first.expect("Applying the changes");
    first.expect("zonecfg:web> ");
    first.types("exit\n");
    // The changes of the refused commit are still in the session.
    assert_eq!(first.status(), 1);
    let info = live(&host, "info cpu-shares; info max-lwps").ok();
    assert_eq!(info.text(), "[cpu-shares: 5]\n[max-lwps: 500]");
}
