//! Tests `zoneadm detach` and `attach`: the states of the zone, the reported differences, and a
//! zone that follows a host with other packages.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::run::run;
use e2e::{Host, Ran};

const STATUS: &str = "/var/lib/dpkg/status";

/// A package database with a newer bash, whose package has a changed configuration file, and a host
/// with this database: each command sees it in its own mount namespace.
struct Elsewhere {
    mounts: Vec<(PathBuf, &'static str)>,
    former: String,
    newer: String,
}

const CHANGED: &str = "/etc/bash.bashrc";
const NEW_TEXT: &str = "# the next release\n";

/// Returns the MD5 sum of a text, as md5sum prints it.
fn md5(path: &Path) -> String {
    let ran = run(std::process::Command::new("md5sum").arg(path), b"").ok();
    ran.out.split(' ').next().unwrap().to_owned()
}

impl Elsewhere {
    /// Returns `None` if this machine has no dpkg.
    fn new(host: &Host) -> Option<Self> {
        let status = fs::read_to_string(STATUS).unwrap_or_default();
        let Some(stanza) = status
            .split("\n\n")
            .find(|one| one.starts_with("Package: bash\n"))
        else {
            e2e::skip("no bash of dpkg's on this machine");
            return None;
        };
        let field = |name: &str| {
            let mut lines = stanza.lines();
            let line = lines.find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        let former = field("Version:");
        let newer = format!("{former}+zones1");
        let packaged = field(&format!(" {CHANGED} "));
        let file = host.path("bashrc");
        fs::write(&file, NEW_TEXT).unwrap();
        let packaged = packaged.split(' ').next().unwrap().to_owned();
        let changed = stanza
            .replace(
                &format!("\nVersion: {former}\n"),
                &format!("\nVersion: {newer}\n"),
            )
            .replace(&packaged, &md5(&file));
        assert_ne!(changed, stanza);
        let database = host.path("dpkg");
        let mut copy = std::process::Command::new("cp");
        copy.args(["-a", "/var/lib/dpkg"]).arg(&database);
        run(&mut copy, b"").quiet();
        fs::write(database.join("status"), status.replace(stanza, &changed)).unwrap();
        Some(Self {
            mounts: vec![(database, "/var/lib/dpkg"), (file, CHANGED)],
            former,
            newer,
        })
    }

    /// Runs `zoneadm -z zone ...` on that host.
    fn on(&self, host: &Host, zone: &str, words: &[&str]) -> Ran {
        self.with(host, "", zone, words)
    }

    /// Does the same as [`Elsewhere::on`] with a fault.
    fn with(&self, host: &Host, fault: &str, zone: &str, words: &[&str]) -> Ran {
        let real = host.command("zoneadm", &[&["-z", zone], words].concat());
        let mut script = "mount --make-rprivate /".to_owned();
        for (source, target) in &self.mounts {
            script += &format!(" && mount --bind {} {target}", source.display());
        }
        script += " && exec \"$0\" \"$@\"";
        let mut command = std::process::Command::new("unshare");
        command
            .args(["-m", "sh", "-c", &script])
            .arg(real.get_program())
            .args(real.get_args())
            .env_clear()
            .env("ZONES_FAULT", fault);
        for (name, value) in real.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        run(&mut command, b"")
    }
}

/// Returns dpkg's record of bash in a zone's top.
fn bash_in(host: &Host, zone: &str) -> String {
    let status = fs::read_to_string(host.top(zone).join("var/lib/dpkg/status")).unwrap();
    let stanza = status
        .split("\n\n")
        .find(|one| one.starts_with("Package: bash\n"))
        .unwrap();
    let line = stanza
        .lines()
        .find_map(|line| line.strip_prefix("Version: "));
    line.unwrap().to_owned()
}

#[test]
fn a_zone_is_detached_and_attached() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    host.put("master", "root/word", "kept\n");
    let before = host.row("master");
    let manifest = host.on("master", &["detach", "-n"]).ok().out;
    assert!(manifest.contains("<zone name=\"master\""), "{manifest}");
    assert_eq!(host.state("master"), "installed");
    assert!(!host.path("/zones/master/SUNWdetached.xml").exists());

    host.boot("master");
    host.on("master", &["detach"]).says(
        1,
        "zoneadm: zone 'master': detach operation is invalid for running zones.",
    );
    host.halt("master");
    host.on("master", &["detach"]).quiet();
    assert_eq!(host.state("master"), "configured");
    let left = fs::read_to_string(host.path("/zones/master/SUNWdetached.xml")).unwrap();
    assert_eq!(left, manifest);
    host.on("master", &["install"]).says(
        1,
        "Cannot install detached zone.\nUse attach or remove /zones/master directory.\n\
         could not verify zonepath /zones/master because of the above errors.\n\
         zoneadm: zone master failed to verify",
    );
    host.on("master", &["detach"]).says(
        1,
        "zoneadm: zone 'master': must be installed before detach.",
    );
    host.on("master", &["boot"])
        .says(1, "zoneadm: zone 'master': must be installed before boot.");

    // The configuration is in the zonepath, too.
    host.zonecfg(&["-z", "master", "delete -F"]).quiet();
    host.zonecfg(&["-z", "again", "create -a /zones/master"])
        .quiet();
    host.on("again", &["attach"]).quiet();
    let after = host.row("again");
    assert_eq!(
        (after.state.as_str(), after.zonepath),
        ("installed", before.zonepath)
    );
    assert_eq!(after.uuid, before.uuid);
    assert!(!host.path("/zones/master/SUNWdetached.xml").exists());
    host.boot("again");
    assert_eq!(host.sh("again", "cat /root/word"), "kept");
    host.halt("again");
    host.on("again", &["attach"])
        .says(1, "zoneadm: zone 'again': is already installed.");
    host.on("again", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/zones/master").exists());
}

#[test]
fn a_manifest_is_looked_at_without_a_zone() {
    let Some(host) = Host::with_web() else { return };
    let manifest = host.on("web", &["detach", "-n"]).ok().out;
    let check = |text: &str| {
        run(
            &mut host.command("zoneadm", &["attach", "-n", "-"]),
            text.as_bytes(),
        )
    };
    check(&manifest).quiet();
    let path = host.path("manifest");
    let path = path.to_str().unwrap();
    fs::write(path, &manifest).unwrap();
    host.zoneadm(&["-z", "nobody", "attach", "-n", path])
        .quiet();
    check("<zone name='x'/>").mentions(0, "");
    check("no manifest").mentions(1, "no zone element");
    check(&manifest.replace("<zone ", "<zone odd=\"1\" ")).mentions(1, "odd");
    host.zoneadm(&["attach", "-F", "-n", path])
        .mentions(2, "-F does not go with -n");
    host.zoneadm(&["attach", "-n", "/nowhere"])
        .says(1, "zoneadm: /nowhere: no such manifest");
    let Some(line) = manifest.lines().find(|line| line.contains("name=\"bash\"")) else {
        println!("skipped: a_manifest_is_looked_at_without_a_zone: no bash of dpkg's");
        return;
    };
    let gone = manifest.replace(&format!("{line}\n"), "");
    let ran = check(&gone);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(
        ran.err.starts_with(
            "These packages installed on this system were not installed on the source system:\n\tbash ("
        ),
        "{ran:?}"
    );
    let other = manifest.replace("name=\"bash\"", "name=\"bash-of-another-kind\"");
    let ran = check(&other);
    assert!(
        ran.err.starts_with(
            "These packages installed on the source system are inconsistent with this system:\n\
             \tbash-of-another-kind ("
        ),
        "{ran:?}"
    );
}

#[test]
fn a_sparse_zone_follows_the_host_that_it_comes_to() {
    let (Some(here), Some(there)) = (Host::new(), Host::new()) else {
        return;
    };
    let Some(other) = Elsewhere::new(&there) else {
        return;
    };
    here.install("web");
    here.put("web", "etc/skel/.bashrc", "# mine\n");
    here.on("web", &["detach"]).quiet();
    fs::create_dir_all(there.path("/zones")).unwrap();
    fs::rename(here.path("/zones/web"), there.path("/zones/web")).unwrap();
    there
        .zonecfg(&["-z", "web", "create -a /zones/web"])
        .quiet();

    let report = format!(
        "These patches installed on this system were not installed on the source system:\n\
         \tbash ({}) version mismatch\n\t\t({})",
        other.former, other.newer
    );
    other.on(&there, "web", &["attach"]).says(1, &report);
    assert_eq!(there.state("web"), "configured");
    // After a cut at each step, the zone is either detached or attached.
    for step in 1..=4 {
        let before = bash_in(&there, "web");
        let fault = format!("attach:{step}:kill");
        let failed = other.with(&there, &fault, "web", &["attach", "-u"]);
        if !failed.was_killed() {
            break;
        }
        let after = bash_in(&there, "web");
        assert!(after == before || after == other.newer, "{after}");
        if there.state("web") == "installed" {
            there.on("web", &["detach"]).quiet();
        }
    }
    let ran = other.on(&there, "web", &["attach", "-u"]).ok();
    assert_eq!(there.state("web"), "installed", "{ran:?}");
    assert_eq!(bash_in(&there, "web"), other.newer);
    there.boot("web");
    assert_eq!(
        there.sh("web", "cat /etc/bash.bashrc /etc/skel/.bashrc"),
        format!("{NEW_TEXT}# mine")
    );
    there.halt("web");

    // The zone returns to a host with older packages.
    other.on(&there, "web", &["detach"]).quiet();
    there.on("web", &["attach"]).mentions(1, "bash (");
    there
        .on("web", &["attach", "-u"])
        .mentions(1, "cannot be downgraded");
    assert_eq!(there.state("web"), "configured");
    there.on("web", &["attach", "-F"]).quiet();
    assert!(there.path("/zones/web/SUNWattached.xml").exists());
    assert_eq!(there.state("web"), "installed");
    // No message is about the zone's state on the former host.
    here.zonecfg(&["-z", "web", "delete -F"]).quiet();
}

#[test]
fn a_damaged_package_list_in_a_zone_blocks_neither_detach_nor_export_nor_attach() {
    let Some(host) = Host::with_web() else { return };
    if !Path::new(STATUS).exists() {
        return e2e::skip("no packages of dpkg's on this machine");
    }
    host.boot("web");
    let file = host.path("web.tar.zst");
    let file = file.to_str().unwrap();
    let goes_on = |ran: Ran, reason: &str| {
        let ran = ran.ok();
        let text = format!(
            "zoneadm: zone 'web': WARNING: its packages are not known: cannot read {STATUS}: {reason}; no packages are compared or recorded.\n"
        );
        assert_eq!(ran.err, text, "{ran:?}");
    };
    for (script, reason) in [
        (
            "echo nonsense >/var/lib/dpkg/status",
            "line 1: no field name",
        ),
        (
            "rm /var/lib/dpkg/status; mkfifo /var/lib/dpkg/status",
            "expected a file, found Fifo",
        ),
    ] {
        host.sh("web", script);
        goes_on(host.on("web", &["export", file]), reason);
        host.halt("web");
        let ran = host.on("web", &["detach", "-n"]).ok();
        assert!(ran.out.contains("WARNING: its packages are not known"));
        let manifest = ran.out.into_bytes();
        let _ = run(
            &mut host.command("zoneadm", &["attach", "-n", "-"]),
            &manifest,
        )
        .ok();
        goes_on(host.on("web", &["detach"]), reason);
        host.on("web", &["attach", "-u"]).mentions(1, reason);
        goes_on(host.on("web", &["attach"]), reason);
        host.boot("web");
    }
    host.halt("web");
}

#[test]
fn attach_refuses_a_missing_or_undetached_root() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    host.on("web", &["attach"]).says(
        1,
        "zoneadm: zone 'web': /zones/web/root: no such directory: there is nothing to attach.",
    );
    // A user has put this file there by hand.
    fs::create_dir_all(host.path("/zones/web/root/etc")).unwrap();
    host.on("web", &["attach"]).mentions(
        1,
        "SUNWdetached.xml: no such file: the zone was not detached; attach -F takes it as it is.",
    );
    for words in [
        &["attach", "-b", "1-1"][..],
        &["attach", "-u", "-U"],
        &["detach", "x"],
    ] {
        assert_eq!(host.on("web", words).code(), Some(2), "{words:?}");
    }
    host.on("web", &["attach", "-F"]).quiet();
    assert_eq!(host.state("web"), "installed");
    host.on("web", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/zones/web").exists());
}

#[test]
fn cut_off_anywhere_a_zone_is_installed_or_detached() {
    let Some(host) = Host::with_web() else { return };
    for kind in ["fail", "kill"] {
        for (verb, from, to) in [
            ("detach", "installed", "configured"),
            ("attach", "configured", "installed"),
        ] {
            for step in 1..20 {
                let ran = host.with_fault(&format!("{verb}:{step}:{kind}"), "web", &[verb]);
                let state = host.state("web");
                assert!(state == from || state == to, "{state} after {ran:?}");
                if state == to && ran.code() == Some(0) {
                    break;
                }
                if state == to {
                    // The zone is complete, so the reverse verb must succeed.
                    let back = if verb == "detach" { "attach" } else { "detach" };
                    let _ = host.on("web", &[back]).ok();
                }
                assert_eq!(host.state("web"), from, "{ran:?}");
                assert!(step < 19, "no end");
            }
            assert_eq!(host.state("web"), to);
        }
    }
    host.boot("web");
}

/// Makes a configured zone shop, and an archive of a root for it.
fn shop(host: &Host) -> String {
    let tree = host.path("tree");
    fs::create_dir_all(tree.join("bin")).unwrap();
    fs::create_dir_all(tree.join("etc")).unwrap();
    fs::write(tree.join("etc/hostname"), "shop\n").unwrap();
    let archive = host.path("shop.tar");
    let mut tar = std::process::Command::new("tar");
    tar.arg("-cf").arg(&archive).arg("-C").arg(&tree).arg(".");
    run(&mut tar, b"").quiet();
    host.zonecfg(&["-z", "shop", "create -b; set zonepath=/zones/shop"])
        .quiet();
    archive.to_str().unwrap().to_owned()
}

#[test]
fn an_unpacking_that_was_cut_off_counts_for_nothing() {
    let Some(host) = Host::new() else { return };
    let archive = shop(&host);
    let unpack = ["attach", "-a", &archive];
    let mut half = 0;
    for step in 1..20 {
        let fault = format!("attach:{step}:kill");
        let ran = host.with_fault(&fault, "shop", &unpack);
        if ran.code() == Some(0) {
            break;
        }
        assert!(step < 19, "no end");
        if host.path("/zones/shop/.unfinished-root").exists() {
            half += 1;
            // A manifest in the archive does not make the archive a zone.
            for words in [&["attach"][..], &["attach", "-F"]] {
                assert_eq!(host.on("shop", words).code(), Some(1), "after {fault}");
            }
            let _ = host.on("shop", &unpack).ok();
            assert_eq!(host.state("shop"), "installed", "after {fault}");
        }
        // Before the zone is installed, there is no root that the same command would not replace.
        let is_unknown =
            host.state("shop") == "configured" && host.path("/zones/shop/root").exists();
        assert!(!is_unknown, "after {fault}");
        let _ = host.on("shop", &["uninstall", "-F"]);
        assert!(!host.path("/zones/shop/root").exists(), "after {fault}");
        // A zone may be configured with an empty folder as its zonepath.
        let _ = fs::remove_dir(host.path("/zones/shop"));
    }
    assert!(half >= 3, "cut off only {half} times in the midst");
}

/// A command that is killed after it has stored the zone leaves its mark.
#[test]
fn a_mark_of_a_killed_command_does_not_outlive_the_next_one() {
    let Some(host) = Host::with_web() else { return };
    for mark in [".unfinished-clone", ".unfinished-root"] {
        fs::write(host.path("/zones/web").join(mark), "").unwrap();
        assert_eq!(host.state("web"), "installed", "{mark}");
        host.on("web", &["detach"]).quiet();
        // The zone is detached, and is not an incomplete zone that a user may remove.
        assert_eq!(host.state("web"), "configured", "{mark}");
        host.on("web", &["uninstall", "-F"])
            .mentions(1, "is already in state 'configured'");
        host.on("web", &["attach"]).quiet();
    }
    host.boot("web");
}

#[test]
fn a_root_comes_from_an_archive() {
    let Some(host) = Host::new() else { return };
    let archive = shop(&host);
    let tree = host.path("tree");
    host.on("shop", &["attach", "-a", "/nowhere.tar"])
        .mentions(1, "/nowhere.tar");
    assert_eq!(host.state("shop"), "configured");
    assert!(!host.path("/zones/shop").exists());
    let _ = host.on("shop", &["attach", "-a", &archive]).ok();
    assert_eq!(host.state("shop"), "installed");
    // The zone is the same system, because it was not renamed.
    let name = fs::read_to_string(host.top("shop").join("etc/hostname")).unwrap();
    assert_eq!(name, "shop\n");
    host.on("shop", &["detach"]).quiet();
    host.on("shop", &["attach", "-d", tree.to_str().unwrap()])
        .mentions(1, "is there already");
    host.on("shop", &["attach"]).quiet();
}
