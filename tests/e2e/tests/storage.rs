//! Tests that zones share layers on disk, and that zones do not notice the sharing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use e2e::Host;

/// Returns the bytes on disk at and below a folder.
fn used(folder: &Path) -> u64 {
    let meta = fs::symlink_metadata(folder).unwrap();
    let mut bytes = meta.blocks() * 512;
    if meta.is_dir() {
        for entry in fs::read_dir(folder).unwrap() {
            bytes += used(&entry.unwrap().path());
        }
    }
    bytes
}

/// Returns the number of layers.
fn layers(host: &Host) -> usize {
    let entries = fs::read_dir(host.path("/zones/.layers"))
        .into_iter()
        .flatten()
        .flatten();
    entries.filter(|entry| entry.file_name() != ".dead").count()
}

#[test]
fn clones_share_what_they_do_not_write() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    fs::write(host.top("master").join("var/big"), vec![1; 20 << 20]).unwrap();
    let before = used(&host.path("/zones"));
    host.clone_from("master", "web[1-20]");
    let each = (used(&host.path("/zones")) - before) / 20;
    assert!(each < 256 << 10, "a clone takes {each} bytes");
    // The first clone seals the origin's top, and the other clones use the sealed layer.
    assert_eq!(layers(&host), 1);
    host.boot("web7");
    assert_eq!(host.sh("web7", "wc -c </var/big"), (20 << 20).to_string());
}

#[test]
fn clones_do_not_see_writes_of_other_zones() {
    let Some(host) = Host::with_web() else {
        return;
    };
    for name in ["changed", "removed", "renamed", "folder/inner"] {
        host.put("web", &format!("var/{name}"), "of web\n");
    }
    host.clone_from("web", "one");
    host.clone_from("web", "two");
    for zone in ["one", "two", "web"] {
        host.boot(zone);
    }
    host.sh(
        "one",
        "cd /var; echo of one >changed; rm removed; mv renamed elsewhere; rm -r folder; echo new >new; \
         chmod 700 /var/tmp; touch folder",
    );
    let seen = |zone: &str| {
        host.sh(
            zone,
            "cd /var; cat changed removed renamed folder/inner; ls elsewhere new 2>/dev/null; true",
        )
    };
    for zone in ["two", "web"] {
        assert_eq!(seen(zone), "of web\n".repeat(4).trim_end(), "{zone}");
        assert_eq!(host.sh(zone, "stat -c %a /var/tmp"), "1777");
    }
    host.sh(
        "web",
        "echo changed later >/var/changed; echo later >/var/later",
    );
    assert_eq!(
        host.sh(
            "two",
            "cat /var/changed; ls /var/later 2>/dev/null || echo none"
        ),
        "of web\nnone"
    );
    assert_eq!(
        host.sh(
            "one",
            "cat /var/changed; ls /var/removed 2>/dev/null || echo none"
        ),
        "of one\nnone"
    );
    // The file is the same after a boot.
    host.on("one", &["reboot"]).quiet();
    assert_eq!(host.sh("one", "cat /var/changed /var/new /var/elsewhere; ls -A /var/folder; ls /var/removed 2>/dev/null || echo none"),
        "of one\nnew\nof web\n/var/folder\nnone");
}

#[test]
fn a_renamed_folder_of_a_layer_stays_whole() {
    let Some(host) = Host::with_web() else {
        return;
    };
    host.put("web", "var/a/b/c/file", "inner\n");
    host.clone_from("web", "one");
    host.boot("one");
    host.sh("one", "mv /var/a/b /var/moved && rmdir /var/a");
    host.halt("one");
    host.clone_from("one", "two");
    for zone in ["one", "two"] {
        host.boot(zone);
        assert_eq!(
            host.sh(
                zone,
                "cat /var/moved/c/file; ls -d /var/a 2>/dev/null || echo none"
            ),
            "inner\nnone"
        );
    }
}

#[test]
fn a_clone_of_a_clone_has_what_both_wrote() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    host.put("master", "var/first", "1\n");
    host.clone_from("master", "one");
    host.put("one", "var/second", "2\n");
    host.clone_from("one", "two");
    host.put("two", "var/third", "3\n");
    assert_eq!(layers(&host), 2);
    host.boot("two");
    host.boot("one");
    assert_eq!(
        host.sh("two", "cat /var/first /var/second /var/third; hostname"),
        "1\n2\n3\ntwo"
    );
    assert_eq!(
        host.sh(
            "one",
            "cat /var/first /var/second; ls /var/third 2>/dev/null || hostname"
        ),
        "1\n2\none"
    );
}

#[test]
fn clones_keep_what_their_profile_has() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let profile = host.path("/profile");
    for (name, text) in [
        ("etc/hostname", "fixed\n"),
        ("etc/ssh/ssh_host_key", "given\n"),
    ] {
        let path = profile.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let at = profile.to_string_lossy().into_owned();
    let planned = host.on(
        "web[1-2]",
        &["clone", "-n", "--create", "-c", &at, "master"],
    );
    assert!(
        planned.ok().out.contains("copy the contents of"),
        "no such step"
    );
    host.on("web[1-2]", &["clone", "--create", "-c", &at, "master"])
        .quiet();
    host.on("plain", &["clone", "--create", "master"]).quiet();
    let script = "cat /etc/hostname /etc/ssh/ssh_host_key 2>&1; cat /etc/machine-id";
    let mut ids = Vec::new();
    for zone in ["web1", "web2"] {
        host.boot(zone);
        let said = host.sh(zone, script);
        let (kept, id) = said.rsplit_once('\n').unwrap();
        assert_eq!(kept, "fixed\ngiven", "{zone}");
        ids.push(id.to_owned());
    }
    assert_ne!(
        ids[0], ids[1],
        "what the profile does not have is each clone's own"
    );
    assert!(!host.top("plain").join("etc/ssh/ssh_host_key").exists());
    for (wrong, why) in [
        ("profile", "must be absolute"),
        ("/nowhere", "is not a directory"),
    ] {
        host.on("more", &["clone", "--create", "-c", wrong, "master"])
            .mentions(1, why);
    }
}

#[test]
fn an_unchanged_origin_is_sealed_once() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    host.clone_from("master", "one");
    assert_eq!(layers(&host), 1);
    host.clone_from("master", "two");
    assert_eq!(layers(&host), 1);
    // A zone that was booted and halted, without a written file, needs no new layer.
    host.put("master", "var/news", "");
    host.clone_from("master", "three");
    assert_eq!(layers(&host), 2);
    host.clone_from("master", "four");
    assert_eq!(layers(&host), 2);
    host.on("three", &["uninstall", "-F"]).quiet();
    host.on("four", &["uninstall", "-F"]).quiet();
}

#[test]
fn clones_outlive_their_origin_and_layers_their_last_user_does_not() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    host.put("master", "var/word", "of the master\n");
    host.clone_from("master", "web[1-3]");
    host.clone_from("web1", "deep");
    host.boot("web3");
    host.on("master", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/zones/master").exists());
    assert_eq!(host.sh("web3", "cat /var/word"), "of the master");
    host.on("web1", &["uninstall", "-F"]).quiet();
    host.boot("deep");
    assert_eq!(
        host.sh("deep", "cat /var/word; echo more >>/var/word; hostname"),
        "of the master\ndeep"
    );
    // The name can be used again, for a different zone.
    host.on("master", &["install"]).quiet();
    assert!(!host.top("master").join("var/word").exists());
    host.zoneadm(&["-z", "web3", "-z", "deep", "halt"]).quiet();
    host.on("web[2-3]", &["uninstall", "-F"]).quiet();
    host.boot("deep");
    assert_eq!(host.sh("deep", "cat /var/word"), "of the master\nmore");
    host.halt("deep");
    for zone in ["deep", "master"] {
        host.on(zone, &["uninstall", "-F"]).quiet();
    }
    assert_eq!(layers(&host), 0);
}

#[test]
fn long_chains_still_boot() {
    let Some(host) = Host::with_web() else {
        return;
    };
    let mut origin = "web".to_owned();
    for depth in 1..=12 {
        host.put(&origin, &format!("var/step{depth}"), "");
        let zone = format!("z{depth}");
        host.clone_from(&origin, &zone);
        origin = zone;
    }
    host.boot("z12");
    assert_eq!(host.sh("z12", "ls /var | grep -c step"), "12");
    // Each of the twelve zones still has its own files, and no others.
    host.boot("z5");
    assert_eq!(host.sh("z5", "ls /var | grep -c step"), "6");
}

#[test]
fn a_whole_root_on_disk_has_unshifted_owners() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh(
        "web",
        "touch /var/of-root && touch /var/of-joe && chown 1000:1000 /var/of-joe",
    );
    let owner = |name: &str| {
        let meta = fs::metadata(host.top("web").join("var").join(name)).unwrap();
        (meta.uid(), meta.gid())
    };
    assert_eq!((owner("of-root"), owner("of-joe")), ((0, 0), (1000, 1000)));
}

#[test]
fn solaris_automation_writes_into_the_root_of_a_halted_zone() {
    let Some(host) = Host::with_web() else {
        return;
    };
    host.put("web", "root/.ssh/authorized_keys", "key\n");
    host.put("web", "etc/motd", "welcome\n");
    host.boot("web");
    assert_eq!(
        host.sh(
            "web",
            "cat /root/.ssh/authorized_keys /etc/motd; stat -c %u /etc/motd"
        ),
        "key\nwelcome\n0"
    );
}
