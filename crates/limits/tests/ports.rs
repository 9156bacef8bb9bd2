//! Tests ports below 1024 in a real control group. These tests need root and are skipped without
//! it. The tests do not use the standard test harness, because only a program of one thread can
//! fork.

use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use limits::{Base, Controls, ZoneCgroups};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use rustix::thread::set_thread_res_uid;
use sys::process::{fork, ns};

/// The first id of the zone's range.
const ROOT: u32 = 1_800_000;

/// Returns true if a process with a user id and without capabilities can bind an address.
fn binds(group: BorrowedFd<'_>, uid: u32, address: &str) -> bool {
    let address: std::net::SocketAddr = address.parse().unwrap();
    let child = fork(0, Some(group), &[], || {
        let id = rustix::process::Uid::from_raw(uid);
        // In a new network namespace no program of the machine listens on a port.
        let prepared =
            sys::namespace::unshare(ns::NET).is_ok() && set_thread_res_uid(id, id, id).is_ok();
        match (prepared, TcpListener::bind(address)) {
            (false, _) => 9,
            (true, Ok(_)) => 0,
            (true, Err(error)) if error.raw_os_error() == Some(13) => 1,
            (true, Err(_)) => 8,
        }
    });
    let child = child.unwrap();
    let ended = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)
        .unwrap()
        .unwrap();
    match ended.exit_status() {
        Some(0) => true,
        Some(1) => false,
        other => panic!("{other:?}"),
    }
}

/// The groups of a zone, which are removed at the end.
struct Zone {
    base: Base,
    cgroups: ZoneCgroups,
}

impl Drop for Zone {
    fn drop(&mut self) {
        let removed = self.cgroups.remove();
        limits::hierarchy::tidy(&self.base);
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

/// Only the zone's root can bind low ports.
fn main() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: low ports: not root");
        return;
    }
    let place = format!("limits-test-ports-{}", std::process::id());
    let base = match Base::find(Path::new(&place)) {
        Ok(base) => base,
        Err(error) => {
            println!("skipped: low ports: {error}");
            return;
        }
    };
    let cgroups = ZoneCgroups::for_controls(&base, &"web".parse().unwrap(), &Controls::default());
    let zone = Zone { base, cgroups };
    zone.cgroups.create(ROOT).unwrap();
    let payload = zone.cgroups.open_payload().unwrap();
    let group = payload.as_fd();
    assert!(!binds(group, ROOT, "0.0.0.0:80"), "before");
    if let Err(error) = zone.cgroups.admit_low_ports(ROOT) {
        let why = std::error::Error::source(&error).unwrap();
        assert!(why.to_string().contains("not permitted"), "{why}");
        println!("skipped: low ports: {why}");
        return;
    }
    for address in ["0.0.0.0:80", "[::]:80", "127.0.0.1:1"] {
        // The loopback link is down in a new network namespace; bind(2) works all the same.
        assert!(binds(group, ROOT, address), "{address}");
        assert!(!binds(group, ROOT + 1, address), "{address}");
        let high = address.replace(":80", ":8080").replace(".1:1", ".1:1024");
        assert!(binds(group, ROOT + 1, &high), "{high}");
    }
    // A process of zlogin is in another group of the zone.
    let login = zone.cgroups.open_login().unwrap();
    assert!(binds(login.as_fd(), ROOT, "0.0.0.0:22"));
    // This line has the format of the standard harness, which ./check counts.
    println!("test low_ports ... ok");
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
}
