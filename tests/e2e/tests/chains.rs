//! Tests chains of layers: normal use keeps them short, and the zones do not notice the merges.

use std::fs;
use std::path::Path;

use e2e::Host;
use e2e::tree::{Face, assert_same, change, face};

/// Maximum number of layers that normal use can produce.
const DEEP: usize = 8;

/// Returns the number of layers below a halted zone, according to its boot plan.
#[track_caller]
fn depth(host: &Host, zone: &str) -> usize {
    let ran = host.on(zone, &["boot", "-n"]).ok();
    let root = ran
        .out
        .lines()
        .find(|line| line.trim().starts_with("mount / of"));
    root.unwrap_or_else(|| panic!("{ran:?}"))
        .matches(" over ")
        .count()
}

/// Returns the number of layers below zone `web`, according to `storage`.
#[track_caller]
fn storage_says(host: &Host) -> usize {
    let ran = host.on("web", &["storage", "-p"]).ok();
    let layers = ran.text().split(':').nth(3).unwrap_or_default();
    layers.parse().unwrap_or_else(|_| panic!("{ran:?}"))
}

/// Works on the complete root of a halted zone.
#[track_caller]
fn mounted<T>(host: &Host, zone: &str, work: impl FnOnce(&Path) -> T) -> T {
    host.on(zone, &["mount"]).quiet();
    let done = work(&host.path("/zones").join(zone).join("lu"));
    host.on(zone, &["unmount"]).quiet();
    done
}

/// The part of a zone's root that [`change`] changes.
fn tree(root: &Path) -> Face {
    face(&root.join("var/tree"))
}

#[test]
fn a_clone_of_a_clone_of_a_clone() {
    let Some(host) = Host::with_web() else { return };
    let mut origin = "web".to_owned();
    for n in 1..=60 {
        host.put(&origin, &format!("var/steps/{n}"), n.to_string());
        let zone = format!("z{n}");
        host.clone_from(&origin, &zone);
        if n % 10 == 0 {
            host.boot(&zone);
            let script = format!(
                "ls /var/steps | wc -l; mv /var/steps /var/at{n} && mkdir /var/steps && mv /var/at{n}/* /var/steps && rmdir /var/at{n}; rm /var/steps/{n}; echo {n} >/var/steps/{n}"
            );
            assert_eq!(host.sh(&zone, &script), n.to_string());
            host.halt(&zone);
        }
        let (old, new) = (depth(&host, &origin), depth(&host, &zone));
        assert!(
            old <= DEEP && new <= DEEP,
            "{origin} has {old} layers, {zone} {new}"
        );
        // Some of the other zones are removed, and some stay and keep their layers.
        if n > 2 && n % 3 != 0 {
            host.on(&origin, &["uninstall", "-F"]).quiet();
        }
        origin = zone;
    }
    for (zone, count) in [("z60", 60), ("z29", 30), ("z5", 6)] {
        mounted(&host, zone, |root| {
            for n in 1..=count {
                let text = fs::read_to_string(root.join(format!("var/steps/{n}")));
                assert_eq!(text.unwrap().trim(), n.to_string(), "{zone}");
            }
            assert_eq!(fs::read_dir(root.join("var/steps")).unwrap().count(), count);
        });
    }
}

#[test]
fn a_merge_changes_nothing() {
    let Some(host) = Host::with_web() else { return };
    let mut merges = 0;
    let whole = |host: &Host| {
        let mut face = mounted(host, "web", face);
        face.retain(|name, _| !name.starts_with("var/tree"));
        face
    };
    mounted(&host, "web", |root| change(root, 0));
    let rest = whole(&host);
    for step in 1..20 {
        mounted(&host, "web", |root| change(root, step));
        let before = mounted(&host, "web", tree);
        let layers = depth(&host, "web");
        // This operation only adds a layer, because the snapshot is removed again.
        host.on("web", &["snapshot", "step"]).quiet();
        host.on("web", &["destroy-snapshot", "step"]).quiet();
        assert_same(&before, &mounted(&host, "web", tree));
        merges += usize::from(depth(&host, "web") <= layers);
        assert!(depth(&host, "web") <= DEEP);
    }
    assert!(merges >= 3, "{merges} merges in 19 snapshots");
    assert_same(&rest, &whole(&host));
    assert_eq!(storage_says(&host), depth(&host, "web"));
    host.boot("web");
    assert_eq!(
        host.sh("web", "cat /var/tree/link/a/b/h; echo; hostname"),
        "a/b/c/h\nweb"
    );
}

#[test]
fn snapshots_of_a_zone_are_what_they_were_after_merges() {
    let Some(host) = Host::with_web() else { return };
    let mut faces = Vec::new();
    for step in 0..14 {
        mounted(&host, "web", |root| change(root, step));
        host.on("web", &["snapshot", &format!("s{step}")]).quiet();
        faces.push(mounted(&host, "web", tree));
    }
    for step in [13, 0, 6, 7, 3, 12] {
        host.on("web", &["rollback", "-F", &format!("s{step}")])
            .quiet();
        assert_same(&faces[step], &mounted(&host, "web", tree));
        assert!(depth(&host, "web") <= DEEP);
    }
}

#[test]
fn the_comparison_sees_what_it_should() {
    let Some(host) = Host::new() else { return };
    let dir = host.path("/face");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("a"), "one").unwrap();
    fs::hard_link(dir.join("a"), dir.join("b")).unwrap();
    let before = face(&dir);
    assert!(before[Path::new("b")].contains("like a"));
    fs::remove_file(dir.join("b")).unwrap();
    fs::write(dir.join("b"), "one").unwrap();
    assert_ne!(face(&dir)[Path::new("b")], before[Path::new("b")]);
}
