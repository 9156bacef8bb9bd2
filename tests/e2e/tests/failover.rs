//! Tests zone storage that moves from a failed host to another one.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::Host;
use rustix::fs::CWD;
use sys::mount::Extent;
use sys::process::ns;

/// Returns the uuid field of the zone's line.
fn uuid(host: &Host) -> String {
    let listed = host.on("web", &["list", "-p"]).ok();
    listed.text().split(':').nth(4).unwrap().to_owned()
}

#[test]
fn the_root_of_a_host_that_died_is_taken_over_and_never_removed() {
    let Some(died) = Host::new() else { return };
    died.configure("web", "");
    // The zone is not a clone: on its own file system all layers are in the zonepath.
    let _ = died.on("web", &["install"]).ok();
    let Some(next) = Host::new() else { return };
    next.configure("web", "");
    let was = uuid(&died);

    // The file system of the zonepath is mounted on the next host.
    let (from, to) = (died.path("/zones/web"), next.path("/zones/web"));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::rename(&from, &to).unwrap();
    fs::create_dir(&from).unwrap();

    assert_eq!(next.state("web"), "configured");
    for words in [&["boot"][..], &["install"], &["uninstall", "-F"]] {
        next.on("web", words)
            .mentions(1, "'zoneadm -z web attach --take-over' takes it");
    }
    assert!(to.join("root").exists());
    next.on("web", &["attach", "--take-over"]).quiet();
    assert_eq!(next.state("web"), "installed");
    assert_eq!(uuid(&next), was, "the uuid, from which addresses come");
    next.boot("web");
    next.on("web", &["halt"]).quiet();

    // The failed host returns: its mount point is empty.
    for words in [&["boot"][..], &["uninstall", "-F"], &["detach"]] {
        died.on("web", words).mentions(
            1,
            "/zones/web/root: no such directory: mount the file system",
        );
    }
    assert_eq!(died.state("web"), "installed");
    assert!(from.exists(), "the mount point");
    next.on("web", &["detach", "--lost"])
        .mentions(1, "/zones/web/root is here: detach it without --lost (-F).");
    died.on("web", &["detach", "--lost"]).quiet();
    assert_eq!(died.state("web"), "configured");
    assert_eq!(uuid(&died), was);
    assert!(from.exists(), "the mount point");

    // The storage moves back.
    fs::remove_dir(&from).unwrap();
    fs::rename(&to, &from).unwrap();
    died.on("web", &["attach", "--take-over"]).quiet();
    assert_eq!(uuid(&died), was);
    // A root that is lost for good needs an explicit option.
    fs::create_dir(&to).unwrap();
    next.on("web", &["mark", "incomplete"]).quiet();
    next.on("web", &["uninstall", "-F"]).quiet();
    assert_eq!(next.state("web"), "configured");
}

/// Mounts the zonepath of one host at the same path of another one.
struct Shared(PathBuf);

impl Shared {
    fn new(from: &Path, to: &Path) -> Self {
        sys::namespace::unshare(ns::MOUNT).expect("a mount namespace");
        sys::mount::make_private_recursive().expect("private mounts");
        fs::create_dir_all(to).unwrap();
        let mount = sys::mount::open_tree(CWD, from, Extent::One).unwrap();
        sys::mount::attach(&mount, CWD, to).unwrap();
        Self(to.to_owned())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = sys::mount::detach(&self.0);
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_zonepath_on_shared_storage_is_used_by_the_host_that_attached_it_last() {
    let Some(first) = Host::new() else { return };
    first.configure("web", "");
    let _ = first.on("web", &["install"]).ok();
    let Some(second) = Host::new() else { return };
    second.configure("web", "");
    let _shared = Shared::new(&first.path("/zones/web"), &second.path("/zones/web"));
    let refuses = |host: &Host| {
        for words in [
            &["boot"][..],
            &["uninstall", "-F"],
            &["mark", "incomplete"],
            &["snapshot", "one"],
            &["attach"],
            &["detach"],
        ] {
            host.on("web", words)
                .mentions(1, "zone 'web': /zones/web belongs to host ");
        }
        assert_eq!(host.state("web"), "installed");
        assert!(host.top("web").join("etc").exists());
    };

    second
        .on("web", &["attach", "-F"])
        .mentions(1, "zone 'web': /zones/web belongs to host ");
    second.on("web", &["attach", "--take-over"]).quiet();
    refuses(&first);
    second.boot("web");
    second.halt("web");

    // The first host forgets the zone, and attaches it again later.
    first.on("web", &["detach", "--lost"]).quiet();
    assert_eq!(first.state("web"), "configured");
    first
        .on("web", &["boot"])
        .mentions(1, "'zoneadm -z web attach --take-over' takes it");
    first.on("web", &["attach", "--take-over"]).quiet();
    refuses(&second);
    first.boot("web");
    first.halt("web");

    // Without detach --lost, and while the zone runs elsewhere, the zone can only be halted there.
    second.on("web", &["attach", "--take-over"]).quiet();
    second.boot("web");
    first.on("web", &["attach", "--take-over"]).quiet();
    second
        .on("web", &["reboot"])
        .mentions(1, "belongs to host ");
    assert_eq!(second.state("web"), "running");
    second.halt("web");
    refuses(&second);
    second.on("web", &["detach", "--lost"]).quiet();
}
