//! Tests `zoneadm check`: it reports and removes objects that nothing refers to, and keeps those of
//! zones.

use std::fs;

use e2e::{Host, Ran, cgroup};

fn check(host: &Host, words: &[&str]) -> Ran {
    host.zoneadm(&[&["check"], words].concat())
}

#[test]
fn zones_in_every_state_have_nothing_that_is_left_over() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.on("web", &["snapshot", "first"]).quiet();
    let _ = host.on("web", &["beadm", "create", "other"]).ok();
    let _ = host.on("web", &["beadm", "mount", "other"]).ok();
    host.clone_from("master", "db");
    host.on("db", &["mount"]).quiet();
    host.clone_from("master", "moved");
    let _ = host.on("moved", &["detach"]).ok();
    host.configure("new", "");
    host.clone_from("master", "up");
    host.on("up", &["ready"]).quiet();
    check(&host, &[]).quiet();
    assert_eq!(check(&host, &["-r", "-j"]).ok().out, "[]\n");
    assert_eq!(host.sh("web", "hostname"), "web");
    host.on("web", &["beadm", "unmount", "other"]).quiet();
    host.on("db", &["unmount"]).quiet();
    host.halt("web");
    host.on("up", &["halt"]).quiet();
    host.on("moved", &["attach"]).quiet();
    check(&host, &[]).quiet();
}

#[test]
fn check_lists_and_removes_unused_objects() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    for name in ["gone.root.lock", ".gone.state.new", "gone.zoneadmd_sock"] {
        fs::write(host.path("/run/zones").join(name), "").unwrap();
    }
    let group = |name: &str| -> Vec<_> {
        let all = cgroup::below(host.cgroup());
        all.into_iter()
            .filter(|path| path.ends_with(name))
            .collect()
    };
    let base = group("web")[0].parent().unwrap().to_owned();
    fs::create_dir(base.join("gone")).unwrap();
    // A zone that was killed together with its zoneadmd, without any command since.
    host.clone_from("master", "dead");
    host.boot("dead");
    let (zoneadmd, init) = (host.zoneadmd("dead").unwrap(), host.init_of("dead"));
    host.kill(zoneadmd);
    host.kill(init);
    assert!(host.path("/run/zones/dead.state").exists());
    // This comes last, because any command that acts on a zone removes these objects.
    let layer = host.path("/zones/.layers/0123456789abcdef");
    fs::create_dir_all(layer.join("tree/etc")).unwrap();
    fs::create_dir_all(host.path("/zones/.layers/.dead/1123456789abcdef/a")).unwrap();

    let found = check(&host, &[]);
    assert_eq!(found.code(), Some(1), "{found:?}");
    let lines = |ran: &Ran| -> Vec<String> {
        let lines = ran.out.lines().skip(1);
        lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    };
    let expected = [
        "layer - STATE /zones/.layers/0123456789abcdef",
        "dead - STATE /zones/.layers/.dead/1123456789abcdef",
        "aside - STATE /run/zones/.gone.state.new",
        "record gone STATE /run/zones/gone.root.lock",
        "record gone STATE /run/zones/gone.zoneadmd_sock",
        "record dead STATE /run/zones/dead.state",
        &format!("cgroup gone STATE {}", base.join("gone").display()),
    ];
    for line in expected {
        let line = line.replace("STATE", "found");
        assert!(lines(&found).contains(&line), "{line}: {found:?}");
    }
    assert!(layer.exists() && host.path("/run/zones/dead.state").exists());

    let removed = check(&host, &["-r"]);
    assert_eq!(removed.code(), Some(0), "{removed:?}");
    for line in expected {
        let line = line.replace("STATE", "removed");
        assert!(lines(&removed).contains(&line), "{line}: {removed:?}");
    }
    assert!(!layer.exists() && group("gone").is_empty() && group("dead").is_empty());
    assert!(!host.path("/run/zones/dead.state").exists());
    check(&host, &[]).quiet();
    assert_eq!(host.sh("web", "hostname"), "web");
    host.boot("dead");
    assert_eq!(host.sh("dead", "hostname"), "dead");
}

#[test]
fn check_keeps_layers_of_a_moved_zonepath() {
    let Some(host) = Host::with_web() else {
        return;
    };
    host.put("web", "var/word", "one\n");
    host.on("web", &["snapshot", "first"]).quiet();
    fs::rename(host.path("/zones/web"), host.path("/elsewhere")).unwrap();
    let kept = check(&host, &["-r"]);
    assert_eq!(kept.code(), Some(1), "{kept:?}");
    assert!(kept.out.contains("lost ") && kept.out.contains("(/zones/web is not there)"));
    fs::rename(host.path("/elsewhere"), host.path("/zones/web")).unwrap();
    check(&host, &[]).quiet();
    host.boot("web");
    assert_eq!(host.sh("web", "cat /var/word"), "one");
    let refused = host.on("web", &["check"]);
    assert_eq!(refused.code(), Some(2), "{refused:?}");
}
