//! Tests zonepatch with the real dnf, in a zone with an rpm database. The zone gets the host's
//! programs through a folder of the host. The packages are made for this test.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::foreign::{self, Rpm, Rpms};
use e2e::patching::{change, face, read, zonepatch};
use e2e::run::run;
use e2e::{Host, container};

fn app(version: &str) -> Rpm<'_> {
    Rpm {
        name: "app",
        version,
        files: match version {
            "1" => &[
                ("opt/app/data", "one\n"),
                ("opt/app/old", "old\n"),
                ("etc/app.conf", "setting 1\n"),
                ("etc/other.conf", "other 1\n"),
            ],
            _ => &[
                ("opt/app/data", "two\n"),
                ("opt/app/new", "new\n"),
                ("etc/app.conf", "setting 2\n"),
                ("etc/other.conf", "other 2\n"),
            ],
        },
        post: "cat /opt/app/data >/var/lib/app",
        ..Rpm::default()
    }
}

/// A package that cannot be installed.
fn broken() -> Rpm<'static> {
    Rpm {
        pre: "echo 'no way'; exit 3",
        ..app("3")
    }
}

const OTHER: [(&str, &str); 1] = [("opt/other", "other\n")];

/// Makes a root with an rpm database, in which dnf works once /usr is mounted.
fn root(at: &Path, busybox: &[u8], rpms: &Rpms) {
    foreign::system(at, busybox, "ID=fedora\nVERSION_ID=41\n");
    for name in ["lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), at.join(name)).unwrap();
    }
    // The shell of Busybox would prefer its own applet rpm.
    fs::remove_file(at.join("bin/sh")).unwrap();
    e2e::copy_program("/usr/bin/dash", at.join("bin/sh"));
    for folder in [
        "repo",
        "mnt",
        "var/lib/rpm",
        "var/log",
        "dev",
        "proc",
        "sys",
        "run",
    ] {
        fs::create_dir_all(at.join(folder)).unwrap();
    }
    for (name, text) in [
        // zonepatch recognizes the package manager by this file.
        ("usr/bin/dnf", ""),
        ("etc/rpm/macros", "%_dbpath /var/lib/rpm\n"),
        ("etc/dnf/dnf.conf", "[main]\n"),
        (
            "etc/yum.repos.d/own.repo",
            &rpms.named("file", Path::new("/repo")),
        ),
    ] {
        let file = at.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let mut install = Command::new("rpm");
    install
        .args(["--force-debian", "--nodeps", "--noscripts", "--define"])
        .args(["_dbpath /var/lib/rpm", "-i", "--root"])
        .arg(at);
    for entry in fs::read_dir(rpms.folder().join("x86_64")).unwrap() {
        install.arg(entry.unwrap().path());
    }
    let _ = run(install.env("HOME", at), b"").ok();
    assert_eq!(
        fs::read_to_string(at.join("opt/app/data")).unwrap(),
        "one\n"
    );
}

#[test]
fn dnf_patches_a_zone() {
    let Some(host) = Host::new() else { return };
    if !foreign::are_there(&["dnf", "rpm", Rpms::NEEDS[0], Rpms::NEEDS[1]]) {
        return;
    }
    let Some(busybox) = container::busybox() else {
        return;
    };
    let rpms = Rpms::new(host.path("/packages"));
    let other = Rpm {
        name: "other",
        version: "1",
        // Scripts of other packages need this.
        provides: "/bin/sh",
        files: &OTHER,
        ..Rpm::default()
    };
    rpms.add(&[app("1"), other]);
    let tree = host.path("/fedora");
    root(&tree, &busybox, &rpms);
    let configuration = format!(
        "create -t SUNWlx; add fs; set dir=/usr; set special=/usr; set type=lofs; \
         add options ro; end; add fs; set dir=/repo; set special={}; set type=lofs; \
         add options ro; end",
        rpms.folder().display()
    );
    host.zonecfg(&["-z", "web", &configuration]).quiet();
    let from = tree.display().to_string();
    let _ = host.on("web", &["install", "-d", &from]).ok();
    change(&host, "web", |root| {
        fs::write(root.join("etc/app.conf"), "of the zone\n").unwrap();
    });
    let patch = |words: &[&str]| zonepatch(&host, &[words, &["-z", "web"]].concat());
    let data = || read(&host, "web", "opt/app/data");

    // No package has a newer version.
    let ran = patch(&["apply"]).ok();
    assert!(ran.out.contains("web: unchanged"), "{ran:?}");
    rpms.add(&[app("2")]);
    let plan = patch(&["plan"]).ok();
    let line = "web: 1 package\n\tapp 1-1 -> 2-1\n";
    assert!(plan.out.contains(line), "{plan:?}");
    assert_eq!(data(), "one\n");
    let before = face(&host, "web");
    let ran = patch(&["apply"]).ok();
    assert!(ran.out.contains("web: patched real, 1 package"), "{ran:?}");
    assert_eq!(data(), "two\n");
    assert_eq!(read(&host, "web", "var/lib/app"), "two\n");
    assert_eq!(read(&host, "web", "opt/app/old"), "");
    // A file that the zone changed stays, and the new version is written beside it.
    assert_eq!(read(&host, "web", "etc/app.conf"), "of the zone\n");
    assert_eq!(read(&host, "web", "etc/app.conf.rpmnew"), "setting 2\n");
    assert_eq!(read(&host, "web", "etc/other.conf"), "other 2\n");
    let status = patch(&["status"]).ok();
    assert!(status.out.contains("web"), "{status:?}");
    let history = patch(&["history"]).ok();
    assert!(history.out.contains("applied"), "{history:?}");
    let ran = patch(&["apply"]).ok();
    assert!(ran.out.contains("web: unchanged"), "{ran:?}");
    let _ = patch(&["rollback"]).ok();
    assert_eq!(face(&host, "web"), before);

    // The package is given by name and version, and as a file.
    let ran = patch(&["apply", "app=2"]).ok();
    assert!(ran.out.contains("web: patched real, 1 package"), "{ran:?}");
    let _ = patch(&["rollback"]).ok();
    let file = rpms.folder().join("x86_64/app-2-1.x86_64.rpm");
    let ran = patch(&["apply", &file.display().to_string()]).ok();
    assert!(ran.out.contains("web: patched real, 1 package"), "{ran:?}");
    assert_eq!(data(), "two\n");

    // A failed package leaves the zone unchanged.
    let before = face(&host, "web");
    rpms.add(&[broken()]);
    patch(&["apply"]).mentions(1, "dnf failed: ");
    assert_eq!(face(&host, "web"), before);
    // No security advisory names this package.
    let ran = patch(&["apply", "--security"]).ok();
    assert!(ran.out.contains("web: unchanged"), "{ran:?}");
    patch(&["apply", "none"]).mentions(1, "dnf failed: ");
}
