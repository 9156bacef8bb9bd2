use model::config::Resource;
use model::table;
use store::index::Entry;

use super::*;

fn zone(name: &str, label: &str, fs: &[(&Path, &str)]) -> Config {
    let mut config = Config::new(name.parse().unwrap());
    config.set(LABEL, label).unwrap();
    for (source, options) in fs {
        let mut one = Resource::new(table::resource("fs").unwrap());
        one.set("dir", "/data").unwrap();
        one.set("special", source.to_str().unwrap()).unwrap();
        one.set("type", "lofs").unwrap();
        if !options.is_empty() {
            one.set("options", options).unwrap();
        }
        config.add(one).unwrap();
    }
    config
}

const LOW: &str = "0x0002-08-00";
const HIGH: &str = "0x0004-08-68";
const ASIDE: &str = "0x0004-08-10";

#[test]
fn files_are_copied_to_equal_and_higher_labels_only() {
    let (low, high) = (zone("low", LOW, &[]), zone("high", HIGH, &[]));
    let (aside, plain) = (zone("aside", ASIDE, &[]), Config::new("x".parse().unwrap()));
    for (from, to, admitted) in [
        (&low, &low, true),
        (&low, &high, true),
        (&high, &low, false),
        (&high, &aside, false),
        (&aside, &high, false),
        (&high, &plain, false),
        (&plain, &low, true),
    ] {
        assert_eq!(
            admit_copy(from, to).is_ok(),
            admitted,
            "{} {}",
            from.name(),
            to.name()
        );
    }
}

#[test]
fn two_labels_share_no_folder_that_one_of_them_can_write_to() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&inner, &link).unwrap();
    let mut compared = Compared::new().unwrap();
    for (ours, our_options, theirs, their_options, refused) in [
        (folder.path(), "", inner.as_path(), "", true),
        (&inner, "", folder.path(), "ro", true),
        (&inner, "ro", folder.path(), "", true),
        (&link, "", &inner, "", true),
        (&inner, "ro", &inner, "ro", false),
    ] {
        let low = zone("low", LOW, &[(ours, our_options)]);
        let high = zone("high", HIGH, &[(theirs, their_options)]);
        let lines = of_folders(&low, &high, "zone high", &mut compared);
        assert_eq!(!lines.is_empty(), refused, "{ours:?} {theirs:?} {lines:?}");
    }
}

#[test]
fn a_label_needs_the_whole_filter() {
    let mut config = zone("low", LOW, &[]);
    assert_eq!(of_zone(&config), [""; 0]);
    config
        .set("limitpriv", "default,sys_unfiltered,proc_io_uring")
        .unwrap();
    let lines = of_zone(&config);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("remove sys_unfiltered"), "{lines:?}");
}

/// Returns a host with the zones in its index and their stored configurations.
fn host_with(zones: &[&Config]) -> (tempfile::TempDir, Host, Index) {
    let dir = tempfile::tempdir().unwrap();
    let root = store::Root::new(dir.path());
    for folder in [root.etc(), root.run()] {
        std::fs::create_dir_all(folder).unwrap();
    }
    for config in zones {
        xml::save(&root, config).unwrap();
        let zonepath = format!("/zones/{}", config.name());
        let entry = Entry::configured(config.name().clone(), zonepath.into());
        store::index::update(&root, |index| {
            index.put(entry);
            Ok::<(), store::Error>(())
        })
        .unwrap();
    }
    let index = Index::load(&root).unwrap();
    let host = Host::new(root, "/none".into(), None);
    (dir, host, index)
}

#[test]
fn a_running_configuration_counts_although_the_stored_one_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let both = zone("low", LOW, &[(folder.path(), "")]);
    let (high, low) = (
        zone("high", HIGH, &[(folder.path(), "")]),
        zone("low", LOW, &[]),
    );
    let (_dir, host, index) = host_with(&[&low, &high]);
    assert_eq!(problems(&host, &index, &high), [""; 0]);
    // The zone runs with the folder, and its stored configuration no longer has it.
    xml::save_running(&host.root, &both).unwrap();
    let lines = problems(&host, &index, &high);
    assert!(
        matches!(&lines[..], [one] if one.contains("two labels share no folder")),
        "{lines:?}"
    );
    // A folder in both configurations is one problem.
    xml::save(&host.root, &both).unwrap();
    assert_eq!(problems(&host, &index, &high).len(), 1);
    std::fs::remove_file(host.root.running(low.name())).unwrap();
    assert_eq!(problems(&host, &index, &high).len(), 1);
}

#[test]
fn a_configuration_that_cannot_be_read_is_a_problem() {
    let (low, high) = (zone("low", LOW, &[]), zone("high", HIGH, &[]));
    let (_dir, host, index) = host_with(&[&low, &high]);
    assert_eq!(problems(&host, &index, &high), [""; 0]);
    for path in [host.root.xml(low.name()), host.root.running(low.name())] {
        std::fs::write(&path, "damaged").unwrap();
        let lines = problems(&host, &index, &high);
        assert!(
            matches!(&lines[..], [one] if one.contains("the configuration of zone low cannot be compared")),
            "{lines:?}"
        );
        xml::save(&host.root, &low).unwrap();
    }
}

#[test]
fn zones_with_other_datasets_have_no_device_in_common() {
    let mut config = zone("low", LOW, &[]);
    for (kind, property, value) in [
        ("dataset", "name", "tank/low"),
        ("device", "match", "/dev/snd/*"),
    ] {
        let mut one = Resource::new(table::resource(kind).unwrap());
        one.set(property, value).unwrap();
        config.add(one).unwrap();
    }
    assert!(config.device_patterns().any(|one| one == "/dev/zfs"));
    let compared: Vec<String> = patterns(&config).collect();
    assert_eq!(compared, ["/dev/snd/*"]);
}
