//! Tests whole roots of a host's own distribution other than Debian, with the real dnf, zypper and
//! pacstrap, and repositories that are made for the test.

use std::fs;

use e2e::foreign::{self, Rpm, Rpms};
use e2e::{Host, container};

/// The configuration of rpm, because Debian's rpm keeps its database in another folder.
const MACROS: (&str, &str) = ("rpm/macros", "%_dbpath /usr/lib/sysimage/rpm\n");

/// Installs two zones as on such a host, the second from the image of the first, and boots one.
fn installs(host: &Host, etc: &[(&str, &str)], image: &str, step: &str) {
    for zone in ["whole", "second"] {
        let blank = format!("create -b; set zonepath=/zones/{zone}");
        host.zonecfg(&["-z", zone, &blank]).quiet();
    }
    let install = |zone: &str| {
        let mut command = foreign::on(host, etc, "zoneadm", &["-z", zone, "install"]);
        e2e::run::run(&mut command, b"").ok().out
    };
    let first = install("whole");
    assert!(first.contains(step), "{first}");
    let second = install("second");
    assert!(
        first.contains("Log: ") && !second.contains("Log: "),
        "{second}"
    );
    let images = e2e::run::run(&mut host.command("zoneimg", &["list"]), b"").ok();
    assert!(images.out.contains(image), "{images:?}");
    host.boot("second");
    assert_eq!(host.sh("second", "hostname"), "second");
    let release = host.sh("second", "cat /etc/os-release");
    assert_eq!(release, etc[0].1.trim_end());
    // No download of the tool is left, in the image or elsewhere.
    for folder in ["dnf", "zypp", "pacman/pkg"] {
        let left = host.sh(
            "second",
            &format!("ls /var/cache/{folder} 2>/dev/null; true"),
        );
        assert_eq!(left, "", "{folder}");
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let images = host.path("/var/lib/zones/images");
    assert!(!mounts.contains(&*images.to_string_lossy()), "{mounts}");
}

/// Makes packages with these names. The first one is a bootable system.
fn packages(host: &Host, release: &str, names: &[&str]) -> Option<Rpms> {
    let busybox = container::busybox()?;
    let rpms = Rpms::new(host.path("/packages"));
    let tree = host.path("/tree");
    foreign::system(&tree, &busybox, release);
    let mut all = vec![Rpm {
        name: names[0],
        version: "1",
        tree: Some(&tree),
        ..Rpm::default()
    }];
    let paths: Vec<String> = names
        .iter()
        .map(|name| format!("usr/share/{name}/version"))
        .collect();
    let files: Vec<[(&str, &str); 1]> = paths.iter().map(|path| [(&**path, "1\n")]).collect();
    all.extend(names.iter().zip(&files).skip(1).map(|(name, files)| Rpm {
        name,
        version: "1",
        requires: names[0],
        files,
        ..Rpm::default()
    }));
    rpms.add(&all);
    fs::remove_dir_all(tree).unwrap();
    Some(rpms)
}

#[test]
fn dnf_makes_a_root() {
    let Some(host) = Host::new() else { return };
    if !foreign::are_there(&["dnf", Rpms::NEEDS[0], Rpms::NEEDS[1]]) {
        return;
    }
    let release = "ID=rocky\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\n";
    let names = ["systemd", "dnf", "passwd", "iproute", "rootfiles"];
    let Some(rpms) = packages(&host, release, &names) else {
        return;
    };
    let etc = [
        ("os-release", release),
        ("yum.repos.d/own.repo", &rpms.named("file", rpms.folder())),
        MACROS,
    ];
    installs(&host, &etc, "native-rocky-9.4-", "Running transaction");
    let installed = host.top("whole");
    assert!(!installed.join("root/.rpmdb").exists());
}

#[test]
fn zypper_makes_a_root() {
    let Some(host) = Host::new() else { return };
    if !foreign::are_there(&["zypper", Rpms::NEEDS[0], Rpms::NEEDS[1]]) {
        return;
    }
    let release = "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"15.6\"\n";
    let names = [
        "systemd",
        "patterns-base-minimal_base",
        "zypper",
        "iproute2",
    ];
    let Some(rpms) = packages(&host, release, &names) else {
        return;
    };
    let own = rpms.named("dir", rpms.folder());
    let etc = [
        ("os-release", release),
        ("zypp/repos.d/own.repo", &own),
        MACROS,
    ];
    installs(
        &host,
        &etc,
        "native-opensuse-leap-15.6-",
        "Loading repository",
    );
    let told = host.sh("second", "cat /etc/zypp/repos.d/own.repo");
    assert_eq!(told, own.trim_end());
}

#[test]
fn pacstrap_makes_a_root() {
    let Some(host) = Host::new() else { return };
    let keys = ["pacman-key", "makepkg", "gpg", "gpg-agent"];
    if !foreign::are_there(&[&["pacstrap", "pacman"], &keys[..]].concat()) {
        return;
    }
    let Some(busybox) = container::busybox() else {
        return;
    };
    let release = "ID=arch\n";
    let (tree, place) = (host.path("/tree"), host.path("/packages"));
    foreign::system(&tree, &busybox, release);
    foreign::pacman_place(&place, "base", &tree);
    let pacman = format!(
        "[options]\nArchitecture = x86_64\nSigLevel = Never\n[own]\nServer = file://{}\n",
        place.display()
    );
    let etc = [("os-release", release), ("pacman.conf", &*pacman)];
    installs(&host, &etc, "native-arch-rolling-", "==> ");
}
