use std::fs;
use std::path::Path;

use storage::Dataset;
use store::Root;
use store::index::Entry;
use store::lock::{self, Wait};

use crate::check::{Kind, look, places, repair};
use crate::executor;
use host::Host;

/// Makes a host in a folder, with zones that are only configured.
fn host(dir: &Path, zones: &[&str]) -> Host {
    let host = Host::new(Root::new(dir), "/zones-that-nobody-has".into(), None);
    fs::create_dir_all(dir.join("run/zones")).unwrap();
    for zone in zones {
        let zonepath = Path::new("/zones").join(zone);
        fs::create_dir_all(host.root.path(&zonepath)).unwrap();
        let entry = Entry::configured(zone.parse().unwrap(), zonepath);
        executor::record_now(&host, entry).unwrap();
    }
    host
}

fn write(dir: &Path, name: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
}

/// Returns the kind, zone and path of each finding.
fn lines(host: &Host) -> Vec<String> {
    let found = look(host).unwrap();
    let line = |one: &crate::check::Finding| {
        let zone = one.zone.as_deref().unwrap_or("-");
        format!("{} {zone} {}", one.kind.as_str(), one.path.display())
    };
    found.iter().map(line).collect()
}

#[test]
fn remains_are_found_and_go_and_the_rest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path(), &["web", "busy", "kept"]);
    let at = |name: &str| dir.path().join(name);
    Dataset::create(&at("zones/kept")).unwrap();
    Dataset::open(&at("zones/kept")).unwrap().seal().unwrap();
    let whole = [
        "zones/.mine.gone/notes",
        "run/zones/web.zoneadm.lock",
        "run/zones/web.root.lock",
        "run/zones/last_id",
        "run/zones/busy.mounts",
        "etc/zones/.hidden",
    ];
    whole.iter().for_each(|name| write(dir.path(), name));
    let busy = lock::zone(&host.root, &"busy".parse().unwrap(), Wait::No).unwrap();
    Dataset::create(&at("zones/.attach-busy")).unwrap();
    assert_eq!(lines(&host), [] as [&str; 0]);

    for name in [
        "run/zones/web.zoneadmd_sock",
        "run/zones/web.progress",
        "zones/.web.gone/.migrating",
        "run/zones/gone.root.lock",
        "run/zones/gone.mounts",
        "run/zones/.web.state.new",
        "etc/zones/.index.new",
        "zones/.layers/.dead/0123456789abcdef/file",
        "zones/.layers/fedcba9876543210/tree/file",
        "var/lib/zones/images/.fetch-0123456789abcdef/layer",
        "var/lib/zones/images/.half-0123456789abcdef/root/file",
    ] {
        write(dir.path(), name);
    }
    for name in [".patch-web", ".attach-web", ".web.be.other"] {
        Dataset::create(&at("zones").join(name)).unwrap();
    }
    let expected = [
        "layer - /zones/.layers/fedcba9876543210",
        "dead - /zones/.layers/.dead/0123456789abcdef",
        "dead web /zones/.web.gone",
        "image - /var/lib/zones/images/.fetch-0123456789abcdef",
        "image - /var/lib/zones/images/.half-0123456789abcdef",
        "copy - /zones/.patch-web",
        "copy web /zones/.attach-web",
        "copy web /zones/.web.be.other",
        "aside - /etc/zones/.index.new",
        "aside - /run/zones/.web.state.new",
        "record gone /run/zones/gone.mounts",
        "record gone /run/zones/gone.root.lock",
        "record web /run/zones/web.progress",
        "record web /run/zones/web.zoneadmd_sock",
    ];
    let mut found = lines(&host);
    let mut wanted = expected.map(str::to_owned);
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);

    assert_eq!(repair(&host).unwrap(), [] as [&str; 0]);
    assert_eq!(lines(&host), [] as [&str; 0]);
    for name in whole {
        assert!(at(name).exists(), "{name}");
    }
    for name in ["zones/kept/root", "zones/.attach-busy/root"] {
        assert!(at(name).exists(), "{name}");
    }
    drop(busy);
    assert_eq!(
        lines(&host),
        [
            "copy busy /zones/.attach-busy",
            "record busy /run/zones/busy.mounts"
        ]
    );
}

#[test]
fn layers_of_a_zone_that_is_elsewhere_are_told_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path(), &["web", "db"]);
    let zonepath = dir.path().join("zones/web");
    Dataset::create(&zonepath).unwrap();
    Dataset::open(&zonepath).unwrap().seal().unwrap();
    fs::rename(&zonepath, dir.path().join("elsewhere")).unwrap();
    for _ in 0..2 {
        let found = look(&host).unwrap();
        let [lost] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(lost.kind, Kind::Lost);
        assert_eq!(lost.kept.as_deref(), Some("/zones/web is not there"));
        repair(&host).unwrap();
    }
}

#[test]
fn a_patch_that_is_cut_off_is_told_with_its_zone_and_keeps_its_copy() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path(), &["web"]);
    let copy = dir.path().join("zones/.patch-web");
    Dataset::create(&copy).unwrap();
    let folder = dir.path().join("var/lib/zones/patch");
    fs::create_dir_all(&folder).unwrap();
    let journal = serde_json::json!({ "zone": "web", "copy": copy });
    fs::write(folder.join("1.journal"), journal.to_string()).unwrap();
    assert_eq!(lines(&host), ["patch web /var/lib/zones/patch/1.journal"]);
    // A zonepatch that runs uses its journals and copies, so they are no findings.
    let at_work = lock::exclusive(&folder.join("lock")).unwrap();
    assert_eq!(lines(&host), [] as [&str; 0]);
    drop(at_work);
    fs::remove_file(folder.join("1.journal")).unwrap();
    assert_eq!(lines(&host), ["copy - /zones/.patch-web"]);
}

#[test]
fn a_copy_that_a_command_has_begun_to_use_stays() {
    let dir = tempfile::tempdir().unwrap();
    let host = host(dir.path(), &["web"]);
    let copies = [".patch-web", ".attach-web", ".attach-gone", ".web.be.other"];
    let there = || copies.map(|name| dir.path().join("zones").join(name).exists());
    for name in copies {
        Dataset::create(&dir.path().join("zones").join(name)).unwrap();
    }
    let found = look(&host).unwrap();
    assert_eq!(found.len(), copies.len());
    let repair_them = || {
        let mut failed = Vec::new();
        places::repair(&host, &found, &mut failed);
        assert_eq!(failed, [] as [&str; 0]);
    };
    let locks = ["web", "gone"].map(|zone| {
        let zone = zone.parse().unwrap();
        lock::zone(&host.root, &zone, Wait::No).unwrap()
    });
    let patch = lock::exclusive(&host.root.lib().join("patch/lock")).unwrap();
    repair_them();
    assert_eq!(there(), [true; 4]);
    drop((locks, patch));
    repair_them();
    assert_eq!(there(), [false; 4]);
}
