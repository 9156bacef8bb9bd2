//! Tests that `zoneadm verify` reports problems before a boot would fail.

use e2e::Host;

#[test]
fn verify_refuses_file_systems_in_dev_proc_and_sys() {
    let Some(host) = Host::with_web() else { return };
    for dir in ["/dev/x", "/proc/x", "/sys"] {
        let add = format!("add fs; set dir={dir}; set special=none; set type=tmpfs; end");
        host.zonecfg(&["-z", "web", &add]).quiet();
        for verb in ["verify", "boot"] {
            host.on("web", &[verb])
                .mentions(1, &format!("could not verify fs {dir}: "));
        }
        host.zonecfg(&["-z", "web", &format!("remove fs dir={dir}")])
            .quiet();
    }
    host.on("web", &["verify"]).quiet();
}

#[test]
fn a_zone_does_not_write_into_another_zone_s_root_or_into_state() {
    use std::os::unix::fs::PermissionsExt;
    let Some(host) = Host::with_web() else { return };
    host.configure("db", "");
    host.on("db", &["clone", "master"]).quiet();
    let fs = |special: &std::path::Path, more: &str| {
        let add = format!(
            "remove -F fs; add fs; set dir=/data; set special={}; set type=lofs; {more}; end",
            special.display()
        );
        host.zonecfg(&["-z", "web", &add])
    };
    let zones = host.path("/zones");
    let closed = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    };
    for (special, text) in [
        (host.top("db").join("etc"), "(the zonepath of zone db)"),
        (zones.join(".layers"), "(the layers of zones)"),
        (host.path("/etc/zones"), "(a folder of the zone programs)"),
        (host.path("/run/zones"), "(a folder of the zone programs)"),
        (zones.clone(), " contains "),
    ] {
        let mode = std::fs::metadata(&special).unwrap().permissions();
        closed(&special);
        fs(&special, "").quiet();
        for verb in ["verify", "boot"] {
            let ran = host.on("web", &[verb]);
            assert!(ran.err.contains("where no zone may write"), "{ran:?}");
            ran.mentions(1, text);
        }
        // The zone may read this folder.
        fs(&special, "add options ro").quiet();
        host.on("web", &["verify"]).quiet();
        std::fs::set_permissions(&special, mode).unwrap();
    }
    // Two zones may write to one folder, as on Solaris. verify prints a warning.
    let shared = host.path("/shared");
    std::fs::create_dir_all(shared.join("db")).unwrap();
    closed(&shared);
    fs(&shared, "").quiet();
    host.on("web", &["verify"]).quiet();
    let add = format!(
        "add fs; set dir=/var/db; set special={}/db; set type=lofs; end",
        shared.display()
    );
    host.zonecfg(&["-z", "db", &add]).quiet();
    let ran = host.on("web", &["verify"]).ok();
    let text = "WARNING: fs /data: ";
    assert!(ran.err.contains(text), "{ran:?}");
    assert!(ran.err.contains("the source of fs /var/db of zone db"));
    host.boot("web");
    // verify also checks a change of the running zone.
    let into = host.top("db").join("etc");
    fs(&into, "").quiet();
    host.on("web", &["apply"])
        .mentions(1, "where no zone may write");
    host.halt("web");
}

#[test]
fn a_change_of_the_zonepath_that_was_cut_off_is_completed() {
    let Some(host) = Host::new() else { return };
    host.configure("new", "");
    // This is the state after a zonecfg that was killed before it wrote the index.
    let file = host.path("/etc/zones/new.xml");
    let text = std::fs::read_to_string(&file).expect("its configuration");
    let text = text.replace("/zones/%{zonename}", "/zones/elsewhere");
    std::fs::write(&file, text).expect("its configuration");
    host.on("new", &["install"])
        .mentions(1, "zonecfg -z new commit");
    host.zonecfg(&["-z", "new", "commit"]).quiet();
    assert_eq!(host.row("new").zonepath, "/zones/elsewhere");
    host.on("new", &["verify"]).mentions(0, "does not exist");
}

#[test]
fn a_zonepath_that_install_makes_or_closes_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    host.on("web", &["verify"]).says(
        0,
        "zoneadm: zone 'web': WARNING: /zones/web does not exist, so it could not be verified: 'install' makes it and verifies it again.",
    );
    let path = host.path("/zones/web");
    std::fs::create_dir_all(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    host.on("web", &["verify"]).says(
        0,
        "zoneadm: zone 'web': WARNING: /zones/web has mode 0755, and users other than root must not reach it: 'install' changes the mode to 0700.",
    );
    let ran = host.on("web", &["install"]).ok();
    let line = "Changed the mode of /zones/web from 0755 to 0700.\n";
    assert!(ran.out.contains(line), "{ran:?}");
    host.on("web", &["verify"]).quiet();
}
