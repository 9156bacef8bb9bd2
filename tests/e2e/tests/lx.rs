//! Tests zones of brand lx: any root from an archive or a folder, with its own init.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Host, wait_for};

const INIT: &str = "#!/bin/sh
echo \"$*\" >/etc/started
trap 'echo powered >/etc/stopped; exit 0' PWR
trap 'exit 0' INT
while :; do sleep 1000 & wait $!; done
";

/// Returns a statically linked busybox of this host, if there is one.
fn busybox() -> Option<PathBuf> {
    for path in ["/usr/bin/busybox", "/bin/busybox"] {
        let mut ldd = Command::new("ldd");
        let ran = e2e::run::run(ldd.arg(path), b"");
        let said = ran.out + &ran.err;
        if Path::new(path).exists() && said.contains("not a dynamic executable") {
            return Some(path.into());
        }
    }
    e2e::skip("no static busybox (package busybox-static)");
    None
}

/// Makes a root of a few files below the folder of the host.
fn tree(host: &Host, busybox: &Path) -> PathBuf {
    let tree = host.path("/tree");
    for name in ["bin", "sbin", "etc", "root", "tmp", "usr/bin"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    e2e::copy_program(busybox, tree.join("bin/busybox"));
    for name in [
        "sh", "sleep", "hostname", "id", "cat", "kill", "ls", "mount", "stat", "test", "echo",
        "readlink",
    ] {
        std::os::unix::fs::symlink("busybox", tree.join("bin").join(name)).unwrap();
    }
    e2e::between_starts(|| fs::write(tree.join("sbin/init"), INIT)).unwrap();
    fs::set_permissions(tree.join("sbin/init"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(tree.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    tree
}

fn archive(host: &Host, tree: &Path, options: &str, name: &str) -> String {
    let path = host.path(name).to_string_lossy().into_owned();
    let mut tar = Command::new("tar");
    tar.arg(options).arg(&path).arg("-C").arg(tree).arg(".");
    e2e::run::run(&mut tar, b"").quiet();
    path
}

#[test]
fn a_root_from_an_archive_boots_its_own_init() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let tree = tree(&host, &busybox);
    let file = archive(&host, &tree, "-czf", "/tiny.tar.gz");
    host.zonecfg(&["-z", "tiny", "create -t SUNWlx"]).quiet();
    host.on("tiny", &["install", "-a", &file]).quiet();
    assert!(
        host.on("tiny", &["list", "-p"])
            .ok()
            .out
            .ends_with(":lx:shared:-:none\n")
    );
    host.on("tiny", &["boot", "--", "one", "two"]).quiet();
    let started = host.top("tiny").join("etc/started");
    wait_for("word of the zone's init", || {
        fs::read_to_string(&started)
            .ok()
            .filter(|text| !text.is_empty())
    });
    assert_eq!(fs::read_to_string(&started).unwrap(), "one two\n");
    // The root has no su and no login, so zlogin starts a shell.
    let ran = host.zlogin(&["tiny", "hostname; id -u; echo err >&2; exit 7"]);
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str(), ran.code()),
        ("tiny\n0\n", "err\n", Some(7)),
        "{ran:?}"
    );
    assert_eq!(
        host.zlogin_with(&["tiny", "cat"], b"through").ok().out,
        "through"
    );
    // The root contains no software of the host.
    assert_eq!(host.sh("tiny", "ls /usr/bin"), "");
    assert_ne!(host.zlogin(&["tiny", "perl -v"]).code(), Some(0));
    host.on("tiny", &["shutdown"]).quiet();
    assert_eq!(host.state("tiny"), "installed");
    assert_eq!(
        fs::read_to_string(host.top("tiny").join("etc/stopped")).unwrap(),
        "powered\n"
    );
    host.boot("tiny");
    host.halt("tiny");
}

#[test]
fn a_clone_of_it_runs_beside_it() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let tree = tree(&host, &busybox);
    host.zonecfg(&["-z", "tiny", "create -t SUNWlx"]).quiet();
    host.on("tiny", &["install", "-d", &tree.to_string_lossy()])
        .quiet();
    host.clone_from("tiny", "other");
    for zone in ["tiny", "other"] {
        host.boot(zone);
        assert_eq!(host.sh(zone, "hostname"), zone);
    }
    host.sh("other", "echo changed >/etc/passwd");
    assert_eq!(
        host.sh("tiny", "cat /etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh"
    );
}

#[test]
fn sparse_and_lx_zones_are_no_clones_of_each_other() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.zonecfg(&["-z", "tiny", "create -t SUNWlx"]).quiet();
    host.on("tiny", &["clone", "master"]).mentions(1, "brand");
    assert_eq!(host.state("tiny"), "configured");
}

#[test]
fn an_archive_that_is_none_leaves_a_zone_configured() {
    let Some(host) = Host::new() else { return };
    host.zonecfg(&["-z", "tiny", "create -t SUNWlx"]).quiet();
    let noise = host.path("/noise.tar");
    fs::write(&noise, vec![7; 4096]).unwrap();
    host.on("tiny", &["install", "-a", &noise.to_string_lossy()])
        .mentions(1, "noise.tar");
    assert_eq!(host.state("tiny"), "configured");
    host.on("tiny", &["install", "-a", "/nowhere.tar"])
        .mentions(1, "/nowhere.tar");
    host.on("tiny", &["install", "-a", "relative.tar"])
        .mentions(1, "/relative.tar: No such file or directory");
    host.on("tiny", &["install"]).mentions(2, "-a");
    assert_eq!(host.state("tiny"), "configured");
    assert!(!host.path("/zones/tiny").exists());
}

#[test]
fn a_hostile_archive_stays_in_the_zone() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let tree = tree(&host, &busybox);
    let outside = host.path("/outside");
    fs::create_dir(&outside).unwrap();
    // The archive contains a link that leads outside, a file through this link, a path with `..`,
    // and a device.
    let way_out = tree.join("way");
    std::os::unix::fs::symlink(&outside, &way_out).unwrap();
    let first = archive(&host, &tree, "-cf", "/hostile.tar");
    fs::remove_file(&way_out).unwrap();
    fs::create_dir(&way_out).unwrap();
    fs::write(way_out.join("through"), "").unwrap();
    let mut append = Command::new("tar");
    append
        .args(["-rf", &first, "-C"])
        .arg(&tree)
        .arg("./way/through");
    e2e::run::run(&mut append, b"").quiet();
    let mut up = Command::new("tar");
    up.args(["-rPf", &first, "--transform", "s,.*,../../../../up,", "-C"])
        .arg(&tree)
        .arg("./way/through");
    let _ = e2e::run::run(&mut up, b"").ok();
    let mut mknod = Command::new("mknod");
    mknod.arg(tree.join("disk")).args(["b", "254", "0"]);
    e2e::run::run(&mut mknod, b"").quiet();
    let mut device = Command::new("tar");
    device.args(["-rf", &first, "-C"]).arg(&tree).arg("./disk");
    let _ = e2e::run::run(&mut device, b"").ok();

    host.zonecfg(&["-z", "tiny", "create -t SUNWlx"]).quiet();
    let ran = host.on("tiny", &["install", "-a", &first]);
    assert!(matches!(ran.code(), Some(0 | 1)), "{ran:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{ran:?}");
    for place in ["/up", "/zones/up", "/zones/tiny/up"] {
        assert!(!host.path(place).exists(), "{place}: {ran:?}");
    }
    if ran.code() == Some(0) {
        assert!(!host.top("tiny").join("disk").exists(), "{ran:?}");
    }
}

#[test]
fn a_root_without_init_says_what_was_looked_for() {
    let Some(host) = Host::new() else { return };
    let empty = host.path("/empty");
    fs::create_dir_all(empty.join("usr/bin")).unwrap();
    host.zonecfg(&["-z", "tiny", "create -t SUNWlx"]).quiet();
    let ran = host.on("tiny", &["install", "-d", &empty.to_string_lossy()]);
    if ran.code() == Some(0) {
        host.on("tiny", &["boot"]).mentions(1, "/sbin/init");
        assert_eq!(host.state("tiny"), "installed");
    } else {
        ran.mentions(1, "init");
        assert_eq!(host.state("tiny"), "configured");
    }
}

/// A program that works only with a range of kernel versions, like the programs of CentOS 5.
const OLD: &str = r#"#include <stdio.h>
#include <sys/utsname.h>
int main(void)
{
    struct utsname names;
    int version, patch, sub;
    if (uname(&names) || sscanf(names.release, "%d.%d.%d", &version, &patch, &sub) != 3)
        return 2;
    printf("%s %s %s\n", names.sysname, names.release, names.machine);
    return version == 2 && patch == 6 && sub == 18 ? 0 : 1;
}
"#;

/// Builds [`OLD`] as a static program at `path`.
fn build_old(host: &Host, path: &Path) -> bool {
    let source = host.path("/old.c");
    fs::write(&source, OLD).unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-static").arg("-o").arg(path).arg(&source);
    let built = e2e::between_starts(|| cc.output()).is_ok_and(|ran| ran.status.success());
    if !built {
        e2e::skip("no C compiler that links statically");
    }
    built
}

#[test]
fn programs_are_shown_the_kernel_that_is_configured() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let tree = tree(&host, &busybox);
    let old = tree.join("bin/old");
    if !build_old(&host, &old) {
        return;
    }
    std::os::unix::fs::symlink("busybox", tree.join("bin/uname")).unwrap();
    let attr = |name: &str, value: &str| {
        format!("add attr; set name={name}; set type=string; set value={value}; end; ")
    };
    let shown = attr("kernel-version", "2.6.18") + &attr("machine", "i686");
    host.zonecfg(&["-z", "old", &format!("create -t SUNWlx; {shown}")])
        .quiet();
    host.zonecfg(&["-z", "new", "create -t SUNWlx"]).quiet();
    for zone in ["old", "new"] {
        let source = tree.to_string_lossy();
        host.on(zone, &["install", "-d", &source]).quiet();
        host.boot(zone);
    }
    let inside = host.zlogin(&["old", "old"]);
    assert_eq!(
        (inside.out.as_str(), inside.code()),
        ("Linux 2.6.18 i686\n", Some(0)),
        "{inside:?}"
    );
    let outside = e2e::run::run(&mut Command::new(&old), b"");
    assert_eq!(outside.code(), Some(1), "{outside:?}");
    assert_eq!(host.zlogin(&["new", "old"]).code(), Some(1));
    assert_eq!(host.sh("old", "uname -n"), "old");
    let version = host.sh("old", "cat /proc/version");
    assert!(version.starts_with("Linux version 2.6.18 ("), "{version}");
    assert_eq!(host.sh("old", "cat /proc/sys/kernel/osrelease"), "2.6.18");
    // A process from an ended session also sees it, and so it does without the zoneadmd that booted
    // the zone.
    let later = "(while ! test -e /tmp/go; do sleep 0.1; done; old >/tmp/late) >/dev/null 2>&1 &";
    host.sh("old", later);
    host.kill(host.zoneadmd("old").expect("a zoneadmd"));
    host.sh("old", "echo >/tmp/go");
    let late = host.top("old").join("tmp/late");
    let text = wait_for("the late word", || {
        fs::read_to_string(&late)
            .ok()
            .filter(|text| !text.is_empty())
    });
    assert_eq!(text, "Linux 2.6.18 i686\n");
    host.halt("old");
    host.clone_from("old", "copy");
    host.boot("copy");
    assert_eq!(host.zlogin(&["copy", "old"]).code(), Some(0));
    for zone in ["copy", "new"] {
        host.halt(zone);
    }
}

#[test]
fn a_kernel_that_uname_cannot_show_is_refused() {
    let Some(host) = Host::new() else { return };
    host.zonecfg(&[
        "-z",
        "old",
        "create -t SUNWlx; add attr; set name=kernel-version; set type=string; set value=\"2 6\"; end",
    ])
    .quiet();
    host.on("old", &["verify"]).mentions(1, "kernel-version");
}
