//! Tests the owner of a zonepath on storage that two hosts have mounted.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::Host;
use rustix::fs::CWD;
use sys::mount::Extent;
use sys::process::ns;

/// Two hosts, and the zonepath of `web` of the first one at the same path of the second one.
struct Hosts {
    first: Host,
    second: Host,
    shared: PathBuf,
}

impl Hosts {
    /// The second host has no configuration of the zone.
    fn new() -> Option<Self> {
        let first = Host::new()?;
        first.configure("web", "");
        let _ = first.on("web", &["install"]).ok();
        let second = Host::new()?;
        let shared = second.path("/zones/web");
        sys::namespace::unshare(ns::MOUNT).expect("a mount namespace");
        sys::mount::make_private_recursive().expect("private mounts");
        fs::create_dir_all(&shared).unwrap();
        let hosts = Self {
            first,
            second,
            shared,
        };
        hosts.mount();
        Some(hosts)
    }

    fn mount(&self) {
        let from = self.first.path("/zones/web");
        let mount = sys::mount::open_tree(CWD, &from, Extent::One).unwrap();
        sys::mount::attach(&mount, CWD, &self.shared).unwrap();
    }

    fn unmount(&self) {
        sys::mount::detach(&self.shared).unwrap();
    }

    /// Moves the zone back to the first host, as planned, and uninstalls it.
    fn end(&self) {
        self.second.on("web", &["detach"]).quiet();
        self.first.on("web", &["attach"]).quiet();
        self.unmount();
        self.first.on("web", &["uninstall", "-F"]).quiet();
        let zonepath = self.first.path("/zones/web");
        assert!(!zonepath.exists(), "files are left in {zonepath:?}");
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = sys::mount::detach(&self.shared);
        let _ = fs::remove_dir(&self.shared);
    }
}

/// Returns the uuid and the Ethernet address of the zone.
fn identity(host: &Host) -> (String, String) {
    let listed = host.on("web", &["list", "-p"]).ok();
    let uuid = listed.text().split(':').nth(4).unwrap().to_owned();
    let links = host.on("web", &["links", "-p"]).ok();
    let line = links.text().lines().next().unwrap_or_default().to_owned();
    (uuid, line)
}

/// Returns the value of a line of the file `.identity`.
fn line(zonepath: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(zonepath.join(".identity")).unwrap();
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    lines
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value.to_owned())
}

#[test]
fn a_zone_that_moves_as_planned_belongs_to_no_host_in_between() {
    let Some(hosts) = Hosts::new() else { return };
    let (first, second) = (&hosts.first, &hosts.second);
    first.boot("web");
    let was = identity(first);
    first.halt("web");
    assert_eq!(line(&hosts.shared, "generation").as_deref(), Some("1"));
    assert_eq!(line(&hosts.shared, "configuration").as_deref(), Some("1"));
    first.on("web", &["detach"]).quiet();
    assert_eq!(line(&hosts.shared, "owner"), None);

    second
        .zonecfg(&["-z", "web", "create -a /zones/web"])
        .quiet();
    second.on("web", &["attach"]).quiet();
    assert_eq!(line(&hosts.shared, "generation").as_deref(), Some("2"));
    second.boot("web");
    assert_eq!(identity(second), was);
    first
        .on("web", &["attach", "-F"])
        .mentions(1, "zone 'web': /zones/web belongs to host ");
    second.halt("web");
    // A refused detach or attach leaves the owner as it was.
    let broken = second.with_fault("detach:3fail", "web", &["detach"]);
    assert_eq!(broken.code(), Some(1), "{broken:?}");
    assert!(line(&hosts.shared, "owner").is_some());
    assert_eq!(second.state("web"), "installed");
    second.boot("web");
    second.halt("web");
    hosts.end();
}

#[test]
fn a_host_that_never_knew_the_zone_takes_it_over_with_its_identity() {
    let Some(hosts) = Hosts::new() else { return };
    let (first, second) = (&hosts.first, &hosts.second);
    let _ = first
        .zonecfg(&[
            "-z",
            "web",
            "add attr; set name=owner; set type=string; set value=crm; end",
        ])
        .ok();
    first.boot("web");
    let was = identity(first);
    first.halt("web");

    // The first host dies: its index still has the zone.
    second
        .zonecfg(&["-z", "web", "create -a /zones/web"])
        .quiet();
    assert!(
        second
            .zonecfg(&["-z", "web", "info attr"])
            .ok()
            .text()
            .contains("crm")
    );
    for words in [
        &["boot"][..],
        &["attach"],
        &["attach", "-F"],
        &["uninstall", "-F"],
    ] {
        let mut command = second.command("zoneadm", &[&["-z", "web"][..], words].concat());
        let ran = e2e::run::run(command.env("ZONES_EXIT_STATUS", "distinct"), b"");
        ran.mentions(9, "'zoneadm -z web attach --take-over' takes it");
    }
    // A kill of the command leaves the zone to this host, and the same command completes.
    for step in 1..=4 {
        let fault = format!("attach:{step}kill");
        let _ = second.with_fault(&fault, "web", &["attach", "--take-over"]);
        assert!(hosts.shared.join("root/etc").exists());
        assert!(line(&hosts.shared, "owner").is_some());
        if second.state("web") == "installed" {
            break;
        }
    }
    if second.state("web") != "installed" {
        second.on("web", &["attach", "--take-over"]).quiet();
    }
    second.boot("web");
    assert_eq!(identity(second), was);

    // The first host returns.
    for words in [&["boot"][..], &["uninstall", "-F"], &["detach"]] {
        first
            .on("web", words)
            .mentions(1, "'zoneadm -z web detach --lost' forgets the zone here");
    }
    first.on("web", &["detach", "--lost"]).quiet();
    assert_eq!(first.state("web"), "configured");
    assert_eq!(second.state("web"), "running");
    second.halt("web");
    hosts.end();
}

#[test]
fn storage_that_is_late_is_named_and_a_changed_configuration_is_told() {
    let Some(hosts) = Hosts::new() else { return };
    let (first, second) = (&hosts.first, &hosts.second);
    first.boot("web");
    first.halt("web");
    first.on("web", &["detach"]).quiet();
    second.configure("web", "set autoboot=true");
    let attached = second.on("web", &["attach", "-F"]).ok();
    assert!(
        format!("{attached:?}").contains("WARNING: the configuration of zone web is not the one"),
        "{attached:?}"
    );
    second.boot("web");
    assert_eq!(line(&hosts.shared, "configuration").as_deref(), Some("2"));
    second.halt("web");
    let before = fs::metadata(hosts.shared.join(".identity")).unwrap();
    second.boot("web");
    second.halt("web");
    let after = fs::metadata(hosts.shared.join(".identity")).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());

    hosts.unmount();
    for words in [&["boot"][..], &["uninstall", "-F"]] {
        second.on("web", words).mentions(
            1,
            "/zones/web/root: no such directory: mount the file system",
        );
    }
    assert_eq!(second.state("web"), "installed");
    assert!(hosts.shared.exists(), "the mount point");
    assert_eq!(fs::read_dir(&hosts.shared).unwrap().count(), 0);
    hosts.mount();
    second.boot("web");
    second.halt("web");
    hosts.end();
}
