//! Tests of snapshots of disks.

use store::Root;
use vm::{Format, Model};

use super::*;
use crate::record::{Base, Disk, Start};

/// Makes a kernel zone with one disk on a base file.
pub(crate) fn zone() -> (tempfile::TempDir, Host, Config, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new(Root::new(dir.path()), "/none".into(), None);
    let mut config = Config::new("k1".parse().unwrap());
    config.set("brand", "kz").unwrap();
    config.set_zonepath("/k1").unwrap();
    let spec = model::table::resource("device").unwrap();
    let mut one = model::config::Resource::new(spec);
    one.set("id", "0").unwrap();
    one.set("storage", "file:///k1/disk0").unwrap();
    config.add(one).unwrap();
    let zonepath = host.root.path(Path::new("/k1"));
    fs::create_dir(&zonepath).unwrap();
    fs::write(zonepath.join("disk0"), "first").unwrap();
    fs::write(zonepath.join(BASE), "base").unwrap();
    let record = Record {
        model: Model {
            qemu: "7.2.22".to_owned(),
            machine: "pc-q35-7.2".to_owned(),
            cpu: "max".to_owned(),
        },
        start: Start::Firmware,
        disks: vec![Disk {
            id: 0,
            size: 5,
            file: Some("disk0".to_owned()),
            format: Format::Raw,
            bases: vec![Base {
                name: BASE.to_owned(),
                format: Format::Raw,
                digest: None,
            }],
            port: None,
        }],
        nvram: None,
        ports: 0,
        room: None,
        boots: 0,
        cards: None,
    };
    record.save(&zonepath).unwrap();
    (dir, host, config, zonepath)
}

pub(crate) const BASE: &str = "base-5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10";

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn take(host: &Host, config: &Config, zonepath: &Path, text: &str) {
    let taking = begin(host, config, zonepath, &name(text)).unwrap();
    copy(&taking).unwrap();
    complete(taking, &name(text)).unwrap();
}

fn content(zonepath: &Path) -> String {
    let record = Record::load(zonepath).unwrap();
    let file = record.disks[0].file.clone().unwrap();
    fs::read_to_string(zonepath.join(file)).unwrap()
}

#[test]
fn a_zone_goes_back_and_forth_between_its_snapshots() {
    let (_dir, host, config, zonepath) = zone();
    take(&host, &config, &zonepath, "one");
    fs::write(zonepath.join("disk0"), "second, longer").unwrap();
    take(&host, &config, &zonepath, "two");
    assert!(begin(&host, &config, &zonepath, &name("two")).is_err());
    let names: Vec<String> = list(&zonepath)
        .unwrap()
        .iter()
        .map(|one| one.name.to_string())
        .collect();
    assert_eq!(names, ["one", "two"]);
    fs::remove_file(zonepath.join(BASE)).unwrap();
    for (to, expected) in [
        ("one", "first"),
        ("two", "second, longer"),
        ("one", "first"),
    ] {
        rollback(&host, &config, &zonepath, &name(to)).unwrap();
        assert_eq!(content(&zonepath), expected);
    }
    // The base file is back, and each rollback has removed the former files.
    let mut left: Vec<String> = fs::read_dir(&zonepath)
        .unwrap()
        .map(|one| one.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!((left.len(), left[0].as_str()), (4, BASE));
    assert_eq!(Record::load(&zonepath).unwrap().boots, 3);
    destroy(&zonepath, &name("one")).unwrap();
    assert!(destroy(&zonepath, &name("one")).is_err());
    assert!(rollback(&host, &config, &zonepath, &name("one")).is_err());
    assert_eq!(content(&zonepath), "first");
    assert!(usage(&zonepath, &name("two")).unwrap().all > 0);
}

#[test]
fn a_file_of_several_snapshots_counts_once_and_only_if_nothing_else_has_it() {
    let (_dir, host, config, zonepath) = zone();
    for name in ["one", "two", "three"] {
        take(&host, &config, &zonepath, name);
    }
    let names = ["one", "two", "three"].map(name);
    let together = |count: usize| bytes_together(&zonepath, names[..count].iter()).unwrap();
    let before = [0, 1, 2, 3].map(together);
    // As after a merge: the first two snapshots have a file that the disk has no more.
    let file = zonepath.join("merged");
    fs::write(&file, vec![1; 1 << 20]).unwrap();
    for name in ["one", "two"] {
        fs::hard_link(&file, folder(&zonepath).join(name).join("merged")).unwrap();
    }
    assert_eq!([0, 1, 2, 3].map(together), before);
    fs::remove_file(&file).unwrap();
    assert_eq!([0, 1].map(together), before[..2]);
    let more = [2, 3].map(|count| together(count) - before[count]);
    assert!(more.iter().all(|more| *more >= 1 << 20), "{more:?}");
    assert_eq!(more[0], more[1]);
    // The base file has names in the zonepath and in three snapshots; each disk is a copy.
    let links: Vec<u64> = parts(&zonepath, &names[0])
        .unwrap()
        .iter()
        .map(|part| part.links)
        .collect();
    assert_eq!(links, [1, 4]);
    fs::remove_file(folder(&zonepath).join("one").join("disk0")).unwrap();
    assert_eq!(parts(&zonepath, &names[0]).unwrap().len(), 1);
}

#[test]
fn remains_of_killed_commands_do_not_count_and_go() {
    let (_dir, host, config, zonepath) = zone();
    take(&host, &config, &zonepath, "one");
    let half = folder(&zonepath).join(HALF);
    fs::create_dir(&half).unwrap();
    fs::write(half.join("disk0"), "half").unwrap();
    let stray = format!("{TOP}5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d11");
    fs::write(zonepath.join(&stray), "of a killed rollback").unwrap();
    assert_eq!(list(&zonepath).unwrap().len(), 1);
    take(&host, &config, &zonepath, "two");
    assert!(!half.exists() && !zonepath.join(&stray).exists());
    assert_eq!(list(&zonepath).unwrap().len(), 2);
    assert_eq!(content(&zonepath), "first");
}

#[test]
fn a_description_that_leads_elsewhere_is_refused() {
    let (_dir, host, config, zonepath) = zone();
    take(&host, &config, &zonepath, "one");
    let path = folder(&zonepath).join("one").join(ABOUT);
    let text = fs::read_to_string(&path).unwrap();
    for (old, new) in [
        ("\"disk0\"", "\"../disk0\""),
        ("\"format\": 1", "\"format\": 9"),
    ] {
        fs::write(&path, text.replacen(old, new, 1)).unwrap();
        assert!(rollback(&host, &config, &zonepath, &name("one")).is_err());
    }
    assert_eq!(content(&zonepath), "first");
}

#[test]
fn a_halted_zone_is_unchanged_until_its_disks_or_its_boots_change() {
    let (_dir, host, config, zonepath) = zone();
    let disk = zonepath.join("disk0");
    let set = |seconds: u64| {
        let file = File::options().write(true).open(&disk).unwrap();
        file.set_modified(UNIX_EPOCH + std::time::Duration::from_secs(seconds))
            .unwrap();
    };
    assert_eq!(unchanged_since(&zonepath).unwrap(), None);
    set(1000);
    take(&host, &config, &zonepath, "one");
    assert_eq!(unchanged_since(&zonepath).unwrap(), Some(name("one")));
    set(1001);
    assert_eq!(unchanged_since(&zonepath).unwrap(), None);
    set(1000);
    assert_eq!(unchanged_since(&zonepath).unwrap(), Some(name("one")));
    Record::count_boot(&zonepath).unwrap();
    assert_eq!(unchanged_since(&zonepath).unwrap(), None);
}

#[test]
fn bytes_to_copy_are_those_of_the_disks_alone() {
    let (_dir, _host, _config, zonepath) = zone();
    fs::write(zonepath.join("disk0"), vec![1; 1 << 20]).unwrap();
    fs::write(zonepath.join(BASE), vec![1; 4 << 20]).unwrap();
    let bytes = bytes_to_copy(&zonepath).unwrap();
    match shares_blocks(&zonepath) {
        true => assert_eq!(bytes, 0),
        false => assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}"),
    }
}
