//! Tests that zonepatch undoes a patch, and skips zones that cannot be patched.

use std::fs;

use e2e::patching::{change, debian, installed, more, within, zonepatch};
use serde_json::Value;

#[test]
fn removing_a_patch_keeps_later_changes() {
    let Some((host, archive)) = debian() else {
        return;
    };
    host.clone_from("master", "web1");
    archive.add(&more("2"));
    let _ = zonepatch(&host, &["apply", "-z", "web1"]).ok();
    let past = zonepatch(&host, &["history", "-z", "web1", "-j"]).ok();
    let past: Value = serde_json::from_str(&past.out).unwrap();
    let patch = past[0]["patch"].as_str().unwrap().to_owned();
    change(&host, "web1", |root| {
        fs::write(root.join("etc/since"), "x").unwrap();
    });
    let _ = zonepatch(&host, &["remove", "-z", "web1", &patch]).ok();
    within(&host, "web1", |root| {
        assert_eq!(installed(root, "more"), "1 install ok installed");
        assert!(root.join("etc/since").exists());
    });
    zonepatch(&host, &["remove", "-z", "web1", &patch]).mentions(
        1,
        &format!("zonepatch: zone 'web1': patch {patch} is taken back already."),
    );
    let histories = || {
        let entries = fs::read_dir(host.path("/var/lib/zones/patch")).unwrap();
        let names = entries.map(|entry| entry.unwrap().path());
        names
            .filter(|path| path.extension().is_some_and(|kind| kind == "history"))
            .count()
    };
    let before = histories();
    host.on("web1", &["uninstall", "-F"]).quiet();
    assert_eq!(histories(), before - 1, "the history goes with its zone");

    // Zones in other states are not changed.
    host.configure("new", "");
    let ran = zonepatch(&host, &["apply", "-z", "new"]).ok();
    assert!(ran.out.contains("new: skipped (is configured)"), "{ran:?}");
    zonepatch(&host, &["apply", "-z", "none"])
        .mentions(1, "zonepatch: zone 'none': No such zone configured");
}
