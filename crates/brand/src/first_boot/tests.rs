//! Tests the files that profiles and seeds make in a root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use model::config::Resource;

use super::seed::Instance;
use super::*;

/// The files belong to root, so only root can create them.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: not root");
    }
    root
}

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

fn profile(properties: &[(&str, &str, &[&str])]) -> tempfile::TempDir {
    let mut text = String::from("<service_bundle type='profile' name='x'>");
    for (service, name, values) in properties {
        let (group, name) = name.split_once('/').unwrap();
        text.push_str(&format!(
            "<service name='{service}'><property_group name='{group}'><property name='{name}'>\
             <astring_list>"
        ));
        for value in *values {
            text.push_str(&format!("<value_node value='{value}'/>"));
        }
        text.push_str("</astring_list></property></property_group></service>");
    }
    text.push_str("</service_bundle>");
    tree(&[("sc_profile.xml", &text)])
}

fn settings(properties: &[(&str, &str, &[&str])]) -> Settings {
    let folder = profile(properties);
    let Kind::Profiles(paths) = kind_of(folder.path()).unwrap() else {
        panic!("not a folder of profiles");
    };
    read(&paths).unwrap()
}

fn config(init: Option<&str>) -> Config {
    let mut config = Config::new("web".parse().unwrap());
    if let Some(init) = init {
        let mut attr = Resource::new(model::table::resource("attr").unwrap());
        for (name, value) in [("name", "init"), ("type", "string"), ("value", init)] {
            attr.set(name, value).unwrap();
        }
        config.add(attr).unwrap();
    }
    config
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

const USER: &str = "system/config-user";

#[test]
fn the_path_decides_the_meaning_of_c() {
    let file = tree(&[("a.xml", ""), ("b.xml", "")]);
    let at = |name: &str| file.path().join(name);
    let both = Kind::Profiles(vec![at("a.xml"), at("b.xml")]);
    assert_eq!(kind_of(file.path()).unwrap(), both);
    let one = Kind::Profiles(vec![at("b.xml")]);
    assert_eq!(kind_of(&at("b.xml")).unwrap(), one);
    let mixed = tree(&[("a.xml", ""), ("etc/hostname", "x")]);
    assert_eq!(kind_of(mixed.path()).unwrap(), Kind::Files);
    assert_eq!(kind_of(tree(&[]).path()).unwrap(), Kind::Files);
    for name in ["user-data", "meta-data"] {
        let seed = tree(&[(name, ""), ("a.xml", "")]);
        assert_eq!(kind_of(seed.path()).unwrap(), Kind::Seed, "{name}");
    }
    let error = kind_of(Path::new("/dev/null")).unwrap_err().to_string();
    assert!(
        error.contains("neither a profile nor a directory"),
        "{error}"
    );
    assert!(kind_of(&at("none")).is_err());
}

#[test]
fn files_that_are_too_large_or_no_files_are_refused() {
    let large = "x".repeat(usize::try_from(bundle::MAX_BYTES).unwrap() + 1);
    let folder = tree(&[("large.xml", &large), ("binary.xml", "")]);
    let at = |name: &str| folder.path().join(name);
    fs::write(at("binary.xml"), b"\xff\xfe").unwrap();
    for (name, expected) in [
        ("large.xml", "larger than 1024 KiB"),
        ("binary.xml", "expected a profile in XML"),
    ] {
        let error = read(&[at(name)]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = read(&[folder.path().to_owned()]).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn a_profile_changes_files_of_the_top_alone() {
    if !is_root() {
        return;
    }
    let below = tree(&[
        (
            "etc/passwd",
            "root:x:0:0:root:/root:/bin/bash\nold:x:1000:1000::/home/old:/bin/sh\n",
        ),
        ("etc/group", "root:x:0:\nold:x:1000:\n"),
        ("etc/shadow", "root:*:19000:0:99999:7:::\n"),
        ("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 web\n"),
        ("etc/hostname", "web\n"),
        ("etc/nsswitch.conf", "passwd: files\nhosts: files\n"),
        ("etc/timezone", "Etc/UTC\n"),
        ("etc/default/x", ""),
        ("usr/lib/systemd/systemd", ""),
    ]);
    fs::set_permissions(
        below.path().join("etc/shadow"),
        fs::Permissions::from_mode(0o640),
    )
    .unwrap();
    let top = tree(&[]);
    let layers = [below.path().to_owned()];
    let settings = settings(&[
        ("system/identity:node", "config/nodename", &["db-1"]),
        (USER, "root_account/password", &["$6$root"]),
        (USER, "root_account/expire", &["0"]),
        (USER, "user_account/login", &["jack"]),
        (USER, "user_account/password", &["$6$jack"]),
        (USER, "user_account/sudoers", &["ALL=(ALL) ALL"]),
        (
            USER,
            "user_account/ssh_public_keys",
            &["ssh-ed25519 AAAA a", "ssh-rsa BBBB b"],
        ),
        ("system/timezone", "timezone/localtime", &["Europe/Berlin"]),
        ("system/environment:init", "environment/LANG", &["C.UTF-8"]),
        ("network/dns/client", "config/nameserver", &["192.0.2.1"]),
        (
            "network/dns/client",
            "config/search",
            &["a.example", "b.example"],
        ),
        ("system/name-service/switch", "config/host", &["files dns"]),
        ("site/first-boot", "run/packages", &["nginx"]),
        ("site/first-boot", "run/command", &["echo hello"]),
    ]);
    apply(&settings, &config(None), top.path(), &layers).unwrap();

    let at = |name: &str| top.path().join(name);
    let read = |name: &str| fs::read_to_string(at(name)).unwrap();
    assert_eq!(read("etc/hostname"), "db-1\n");
    assert_eq!(read("etc/hosts"), "127.0.0.1 localhost\n127.0.1.1\tdb-1\n");
    assert!(read("etc/passwd").ends_with("jack:x:1001:1001::/home/jack:/bin/sh\n"));
    assert!(read("etc/group").ends_with("jack:x:1001:\n"));
    assert_eq!(
        read("etc/shadow"),
        "root:$6$root:0:0:99999:7:::\njack:$6$jack::0:99999:7:::\n"
    );
    assert_eq!(mode(&at("etc/shadow")), 0o640, "as the root had it");
    assert_eq!(read("etc/sudoers.d/zone-jack"), "jack ALL=(ALL) ALL\n");
    assert_eq!(mode(&at("etc/sudoers.d/zone-jack")), 0o440);
    let keys = at("home/jack/.ssh/authorized_keys");
    assert_eq!(fs::read_to_string(&keys).unwrap().lines().count(), 2);
    for (path, expected) in [
        (&keys, 0o600),
        (&at("home/jack/.ssh"), 0o700),
        (&at("home/jack"), 0o700),
    ] {
        let meta = path.metadata().unwrap();
        assert_eq!((mode(path), meta.uid(), meta.gid()), (expected, 1001, 1001));
    }
    assert_eq!(
        fs::read_link(at("etc/localtime")).unwrap(),
        Path::new("/usr/share/zoneinfo/Europe/Berlin")
    );
    assert_eq!(read("etc/timezone"), "Europe/Berlin\n");
    assert_eq!(read("etc/default/locale"), "LANG=C.UTF-8\n");
    assert_eq!(
        read("etc/resolv.conf"),
        "search a.example b.example\nnameserver 192.0.2.1\n"
    );
    assert_eq!(
        read("etc/nsswitch.conf"),
        "passwd: files\nhosts:          files dns\n"
    );
    assert!(read("var/lib/zones/first-boot/001.todo").contains("install nginx"));
    assert_eq!(read("var/lib/zones/first-boot/002.todo"), "echo hello\n");
    assert_eq!(mode(&at("var/lib/zones/first-boot")), 0o700);
    let script = at("etc/rc2.d").join(fs::read_link(at("etc/rc2.d/S99zone-first-boot")).unwrap());
    assert_eq!(mode(&script), 0o755);
    let wants = at("etc/systemd/system/multi-user.target.wants");
    let unit = fs::read_link(wants.join("zone-first-boot.service")).unwrap();
    assert!(wants.join(unit).is_file());
    assert_eq!(
        fs::read_to_string(below.path().join("etc/hostname")).unwrap(),
        "web\n"
    );
}

#[test]
fn links_of_a_hostile_root_are_not_followed() {
    if !is_root() {
        return;
    }
    let outside = tree(&[("passwd", "outside\n"), ("keys/x", "")]);
    let root = tree(&[("etc/x", ""), ("root/x", ""), ("etc/rc2.d/x", "")]);
    let at = |name: &str| root.path().join(name);
    symlink(outside.path().join("passwd"), at("etc/passwd")).unwrap();
    symlink(outside.path().join("passwd"), at("etc/shadow")).unwrap();
    symlink(outside.path().join("keys"), at("root/.ssh")).unwrap();
    symlink(outside.path(), at("etc/init.d")).unwrap();
    let settings = settings(&[
        (USER, "root_account/password", &["$6$root"]),
        (USER, "root_account/ssh_public_keys", &["ssh-rsa AAAA"]),
        ("site/first-boot", "run/command", &["echo hello"]),
    ]);
    apply(&settings, &config(None), root.path(), &[]).unwrap();
    assert_eq!(
        fs::read_to_string(outside.path().join("passwd")).unwrap(),
        "outside\n"
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2);
    assert_eq!(
        fs::read_dir(outside.path().join("keys")).unwrap().count(),
        1
    );
    assert!(at("root/.ssh/authorized_keys").is_file());
    assert_eq!(mode(&at("etc/shadow")), 0o600, "a new file with passwords");
}

#[test]
fn an_existing_user_keeps_its_ids() {
    if !is_root() {
        return;
    }
    let root = tree(&[
        (
            "etc/passwd",
            "jack:x:1005:100:Jack:/srv/jack:/bin/sh\nbackup:x:0:0::/:/bin/sh\n",
        ),
        ("etc/group", "users:x:100:\n"),
    ]);
    let change = |login: &str, more: &[(&'static str, &'static str, &'static [&'static str])]| {
        let login = [login];
        let mut all = vec![(USER, "user_account/login", &login[..])];
        all.extend(more.iter().map(|one| (one.0, one.1, one.2)));
        apply(&settings(&all), &config(None), root.path(), &[])
    };
    change("jack", &[(USER, "user_account/shell", &["/bin/zsh"])]).unwrap();
    let passwd = fs::read_to_string(root.path().join("etc/passwd")).unwrap();
    assert!(
        passwd.starts_with("jack:x:1005:100:Jack:/srv/jack:/bin/zsh\n"),
        "{passwd}"
    );
    let error = change("jack", &[(USER, "user_account/uid", &["1234"])]).unwrap_err();
    assert!(
        error.to_string().contains("with the ids 1005 and 100"),
        "{error}"
    );
    // A second name of root would get the keys and the sudo rule of the profile.
    assert!(change("backup", &[]).is_err());
}

#[test]
fn commands_need_an_init_that_starts_them() {
    if !is_root() {
        return;
    }
    let run = settings(&[("site/first-boot", "run/command", &["echo"])]);
    let root = tree(&[("etc/x", ""), ("sbin/init", "")]);
    let error = apply(&run, &config(None), root.path(), &[]).unwrap_err();
    assert!(error.to_string().contains("init=zinit"), "{error}");
    apply(&run, &config(Some("zinit")), root.path(), &[]).unwrap();

    let packages = settings(&[("site/first-boot", "run/packages", &["nginx"])]);
    let mut sparse = config(None);
    let mut inherited = Resource::new(model::table::resource("inherit-pkg-dir").unwrap());
    inherited.set("dir", "/usr").unwrap();
    sparse.add(inherited).unwrap();
    let error = packages.check(&sparse).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("install the packages on the host"),
        "{error}"
    );
    apply(&run, &sparse, root.path(), &[]).unwrap();
}

fn seed_of(files: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>, Error> {
    let folder = tree(files);
    let instance = Instance {
        name: "web",
        uuid: "0b1e".to_owned(),
        network: Some(seed::NO_NETWORK),
    };
    let seed = seed::read(folder.path(), &instance)?;
    let text = |content| String::from_utf8(content).unwrap();
    Ok(seed
        .files
        .into_iter()
        .map(|(name, content)| (name, text(content)))
        .collect())
}

#[test]
fn a_seed_is_completed_for_its_zone() {
    let files = seed_of(&[("user-data", "#cloud-config\n{}")]).unwrap();
    assert_eq!(
        files,
        [
            (
                "meta-data",
                "instance-id: \"0b1e\"\nlocal-hostname: \"web\"\n".to_owned()
            ),
            ("user-data", "#cloud-config\n{}".to_owned()),
            ("network-config", "config: disabled\n".to_owned()),
        ]
    );
    let own = [
        ("meta-data", "instance-id: i-1\nextra: x\n"),
        ("network-config", "version: 2\n"),
        ("vendor-data", "v"),
    ];
    let files = seed_of(&own).unwrap();
    assert_eq!(
        files[0].1,
        "local-hostname: \"web\"\ninstance-id: i-1\nextra: x\n"
    );
    assert_eq!(files[2].1, "version: 2\n");
    assert_eq!(files[3].0, "vendor-data");
    let json = "{\"instance-id\": \"a\", \"local-hostname\": \"b\"}";
    assert_eq!(seed_of(&[("meta-data", json)]).unwrap()[0].1, json);
    let error = seed_of(&[("meta-data", "{}")]).unwrap_err().to_string();
    assert!(error.contains("expected the keys instance-id"), "{error}");
}

#[test]
fn a_seed_needs_cloud_init_in_the_root() {
    if !is_root() {
        return;
    }
    let folder = tree(&[("user-data", "password: geheim")]);
    let instance = Instance {
        name: "web",
        uuid: "0b1e".to_owned(),
        network: Some(seed::NO_NETWORK),
    };
    let seed = seed::read(folder.path(), &instance).unwrap();
    assert!(!format!("{seed:?}").contains("geheim"));
    let root = tree(&[("etc/x", "")]);
    let error = seed::write(&seed, root.path(), &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("the root has no cloud-init"), "{error}");
    let layer = tree(&[("usr/bin/cloud-init", "")]);
    let layers: [PathBuf; 1] = [layer.path().to_owned()];
    seed::write(&seed, root.path(), &layers).unwrap();
    let data = root.path().join("var/lib/cloud/seed/nocloud/user-data");
    assert_eq!(fs::read_to_string(&data).unwrap(), "password: geheim");
    assert_eq!((mode(&data), mode(data.parent().unwrap())), (0o600, 0o700));
}

#[test]
fn a_guest_with_one_bridged_link_gets_its_addresses() {
    let network = |links: &[&[(&str, &str)]]| {
        let mut config = config(None);
        config.set("ip-type", "exclusive").unwrap();
        for link in links {
            let mut anet = Resource::new(model::table::resource("anet").unwrap());
            for (name, value) in *link {
                anet.set(name, value).unwrap();
            }
            config.add(anet).unwrap();
        }
        seed::guest_network(&config)
    };
    let bridged: &[(&str, &str)] = &[
        ("linkname", "net0"),
        ("lower-link", "br0"),
        ("allowed-address", "192.0.2.7/24"),
        ("defrouter", "192.0.2.1"),
    ];
    let text = network(&[bridged]).unwrap();
    assert_eq!(
        text,
        "version: 2\nethernets:\n  net0:\n    match: {name: \"e*\"}\n    addresses: [\"192.0.2.7/24\"]\n    \
         routes:\n      - {to: \"0.0.0.0/0\", via: \"192.0.2.1\", on-link: true}\n"
    );
    assert_eq!(network(&[]), None);
    assert_eq!(network(&[&bridged[..2]]), None, "no address is known");
    let routed = [bridged[0], ("lower-link", "auto"), bridged[2]];
    assert_eq!(network(&[&routed]), None, "the host routes to the guest");
    let second = [("linkname", "net1"), ("lower-link", "br1")];
    assert_eq!(network(&[bridged, &second]), None);
}

#[test]
fn a_clone_is_a_new_instance_of_cloud_init() {
    if !is_root() {
        return;
    }
    let meta = "var/lib/cloud/seed/nocloud/meta-data";
    let below = tree(&[(
        meta,
        "instance-id: \"old\"\nlocal-hostname: \"master\"\nextra: x\n",
    )]);
    let top = tree(&[]);
    let identity = crate::Identity {
        name: "web2".parse().unwrap(),
        machine_id: "0123456789abcdef0123456789abcdef".to_owned(),
    };
    seed::renew(top.path(), &[below.path().to_owned()], &identity).unwrap();
    let text = fs::read_to_string(top.path().join(meta)).unwrap();
    assert_eq!(
        text,
        "instance-id: \"0123456789abcdef0123456789abcdef\"\nlocal-hostname: \"web2\"\nextra: x\n"
    );
    let json = tree(&[(meta, "{\"instance-id\": \"old\"}")]);
    seed::renew(json.path(), &[], &identity).unwrap();
    assert!(
        fs::read_to_string(json.path().join(meta))
            .unwrap()
            .contains("old")
    );
}
