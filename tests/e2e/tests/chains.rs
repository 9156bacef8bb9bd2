//! Chains of layers: kept short by use, and nobody can tell that they were merged.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use e2e::Host;
use rustix::fs::XattrFlags;

/// The most layers that use may lead to.
const DEEP: usize = 8;

/// How many layers a halted zone stands on, as its boot plan says.
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

/// How many layers zone `web` stands on, as `storage` says.
#[track_caller]
fn storage_says(host: &Host) -> usize {
    let ran = host.on("web", &["storage", "-p"]).ok();
    let layers = ran.text().split(':').nth(3).unwrap_or_default();
    layers.parse().unwrap_or_else(|_| panic!("{ran:?}"))
}

/// Works on the whole root of a halted zone.
#[track_caller]
fn mounted<T>(host: &Host, zone: &str, work: impl FnOnce(&Path) -> T) -> T {
    host.on(zone, &["mount"]).quiet();
    let done = work(&host.path("/zones").join(zone).join("lu"));
    host.on(zone, &["unmount"]).quiet();
    done
}

/// All that can be told of a tree: type, mode, owner, times, content, attributes, and
/// which names are one file.
fn face(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut names = vec![PathBuf::new()];
    while let Some(name) = names.pop() {
        let path = root.join(&name);
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let mut text = format!(
            "{:o} {}:{} {}.{:09} {}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.rdev()
        );
        if kind.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            let mut inner: Vec<PathBuf> = entries
                .map(|entry| name.join(entry.unwrap().file_name()))
                .collect();
            // Sorted, so that "the first name of a file" is the same each time.
            inner.sort_by(|a, b| b.cmp(a));
            names.extend(inner);
        } else {
            // Not how many names it has: overlay counts those that a layer above removed.
            let one = first.entry(meta.ino()).or_insert_with(|| name.clone());
            text.push_str(&format!(" like {}", one.display()));
        }
        if kind.is_symlink() {
            text.push_str(&format!(" -> {}", fs::read_link(&path).unwrap().display()));
        } else if kind.is_file() {
            text.push_str(&format!(
                " {} {:?}",
                meta.len(),
                sum(&fs::read(&path).unwrap())
            ));
        }
        if kind.is_file() || kind.is_dir() {
            let mut list = vec![0; 4096];
            let length = rustix::fs::listxattr(&path, &mut list).unwrap();
            for attribute in list[..length].split(|byte| *byte == 0) {
                let attribute = String::from_utf8_lossy(attribute).into_owned();
                if attribute.is_empty() {
                    continue;
                }
                let mut value = vec![0; 4096];
                let length = rustix::fs::getxattr(&path, &attribute, &mut value).unwrap();
                text.push_str(&format!(" {attribute}={:?}", &value[..length]));
            }
        }
        all.insert(name, text);
    }
    all
}

/// The part of a zone's root that [`change`] works on.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    face(&root.join("var/tree"))
}

/// FNV-1a: enough to see a difference.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[track_caller]
fn assert_same(before: &BTreeMap<PathBuf, String>, after: &BTreeMap<PathBuf, String>) {
    for (name, text) in before {
        assert_eq!(after.get(name), Some(text), "{}", name.display());
    }
    let new: Vec<_> = after
        .keys()
        .filter(|name| !before.contains_key(*name))
        .collect();
    assert!(new.is_empty(), "{new:?}");
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
        // Of the others some go, some stay and keep their layers.
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

/// What a zone may do to its files, a step per layer: each meets what lower ones hold.
fn change(root: &Path, step: usize) {
    let at = |name: &str| root.join("var/tree").join(name);
    let set = |name: &str, attribute: &str, value: &[u8]| {
        rustix::fs::setxattr(at(name), attribute, value, XattrFlags::empty()).unwrap();
    };
    match step {
        0 => {
            fs::create_dir_all(at("a/b/c")).unwrap();
            fs::create_dir_all(at("gone/inner")).unwrap();
            for name in ["a/f", "a/b/g", "a/b/c/h", "gone/inner/file", "cap"] {
                fs::write(at(name), name).unwrap();
            }
            symlink("a/f", at("link")).unwrap();
            fs::hard_link(at("a/f"), at("same1")).unwrap();
            fs::hard_link(at("a/f"), at("same2")).unwrap();
            lchown(at("link"), Some(1000), Some(1001)).unwrap();
            lchown(at("a/b"), Some(5), Some(6)).unwrap();
            fs::set_permissions(at("a/b"), fs::Permissions::from_mode(0o2770)).unwrap();
            // cap_net_raw=ep, revision 2.
            let capability = [
                1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ];
            set("cap", "security.capability", &capability);
        }
        1 => {
            fs::remove_dir_all(at("gone")).unwrap();
            fs::rename(at("a/b"), at("moved")).unwrap();
            set("moved", "user.colour", b"red");
        }
        2 => {
            fs::create_dir(at("gone")).unwrap();
            fs::write(at("gone/new"), "new").unwrap();
            fs::rename(at("moved/c"), at("a/b")).unwrap();
        }
        3 => {
            fs::set_permissions(at("a/f"), fs::Permissions::from_mode(0o4755)).unwrap();
            fs::remove_file(at("link")).unwrap();
            fs::create_dir(at("link")).unwrap();
            fs::hard_link(at("gone/new"), at("link/new")).unwrap();
        }
        4 => {
            fs::rename(at("a"), at("link/a")).unwrap();
            fs::write(at("a"), "a file now").unwrap();
            let file = fs::File::options().write(true).open(at("moved/g")).unwrap();
            file.set_len(1 << 20).unwrap();
        }
        5 => {
            fs::remove_file(at("a")).unwrap();
            fs::create_dir(at("a")).unwrap();
            set("a", "user.colour", b"blue");
            fs::remove_file(at("gone/new")).unwrap();
        }
        _ => {
            let name = format!("step{step}");
            fs::write(at(&name), &name).unwrap();
            fs::hard_link(at(&name), at(&format!("{name}-same"))).unwrap();
            fs::File::open(at("a"))
                .unwrap()
                .set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(step as u64))
                .unwrap();
        }
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
        // What only adds a layer: the snapshot does not stay.
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
