//! Tests that an immutable zone stays immutable when it goes to another host: by migrate, and as an
//! archive.

use e2e::ssh::Server;
use e2e::{Host, wait_for};

/// Returns the last two fields of `zoneadm list -p`: the state of the root, and the profile.
fn root_of(host: &Host, zone: &str) -> String {
    let line = host.on(zone, &["list", "-p"]).ok().out;
    let fields: Vec<&str> = line.trim_end().split(':').collect();
    fields[7..].join(":")
}

fn wait_until_sealed(host: &Host, zone: &str) {
    wait_for("the zone read-only", || {
        let is_there = host.state(zone) == "running";
        (is_there && root_of(host, zone).starts_with("R:")).then_some(())
    });
}

/// Returns a host with zone `web`, which runs read-only.
fn with_sealed_web() -> Option<Host> {
    let host = Host::with_web()?;
    host.zonecfg(&["-z", "web", "set file-mac-profile=fixed-configuration"])
        .quiet();
    host.boot("web");
    host.sh("web", "echo made >/etc/made; echo data >/var/data");
    wait_until_sealed(&host, "web");
    Some(host)
}

/// Expects that the zone runs read-only, with the files of its first boot.
#[track_caller]
fn is_sealed(host: &Host, zone: &str) {
    assert_eq!(root_of(host, zone), "R:fixed-configuration");
    assert_eq!(host.sh(zone, "cat /etc/made /var/data"), "made\ndata");
    let ran = host.zlogin(&[zone, "echo x >/etc/made"]);
    assert!(
        ran.code() != Some(0) && ran.err.contains("Read-only"),
        "{ran:?}"
    );
}

#[test]
fn a_migrated_zone_is_read_only_from_its_first_boot_on_the_other_host() {
    let (Some(here), Some(there)) = (with_sealed_web(), Host::new()) else {
        return;
    };
    let Some(server) = Server::new(&there) else {
        return;
    };
    is_sealed(&here, "web");
    let _ = server.migrate(&here, "web", &[]).ok();
    assert_eq!(there.state("web"), "running");
    is_sealed(&there, "web");
    there.on("web", &["reboot"]).quiet();
    is_sealed(&there, "web");
    there.halt("web");
}

#[test]
fn an_imported_zone_keeps_its_profile_and_assembles_itself() {
    let (Some(here), Some(there)) = (with_sealed_web(), Host::new()) else {
        return;
    };
    let archive = here.path("/web.tar.zst").display().to_string();
    let _ = here.on("web", &["export", &archive]).ok();
    let _ = there.on("copy", &["import", &archive]).ok();
    assert_eq!(root_of(&there, "copy"), "-:fixed-configuration");
    there.boot("copy");
    assert_eq!(root_of(&there, "copy"), "W:fixed-configuration");
    wait_until_sealed(&there, "copy");
    is_sealed(&there, "copy");
    there.halt("copy");
}
