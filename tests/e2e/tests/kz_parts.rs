//! Tests the parts of a kernel zone besides its first disk: network cards in the zone's networks,
//! further disks, and the core dump after a kernel panic.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use e2e::lan::{Lan, face};
use e2e::machine::{auxiliary, boot, configure, done, guest, install};
use e2e::{At, Host, World, wait_for};

/// Adds two network cards: one on a link of the host, and one on the default link. Adds a second
/// disk, which sorts before the first one except for its number.
const PARTS: &str = "add anet; set lower-link=eth0; set allowed-address=10.0.0.111/24; end; \
     add anet; end; \
     add device; set storage=file:///zones/%{zonename}/disk1; set id=1; set bootpri=0; end";

#[test]
fn a_guest_has_what_is_configured_and_takes_it_along() {
    let Some(host) = Host::new() else { return };
    // This must run while the host's network is available, because the kernel may have to be
    // downloaded.
    let Some(guest) = guest(&host) else { return };
    let Some(lan) = Lan::new() else { return };
    let world = World { host, lan };
    let host = &world.host;
    configure(host, "k1", PARTS);
    install(host, "k1", &guest);
    host.on("k1", &["savecore"])
        .says(1, "zoneadm: zone 'k1': not running");
    let before = face();
    boot(host, "k1");
    cards(&world);
    let serial = |disk: &str| host.sh("k1", &format!("cat /sys/block/{disk}/serial"));
    assert_eq!(
        (serial("vda").as_str(), serial("vdb").as_str()),
        ("disk0", "disk1")
    );
    assert_eq!(host.sh("k1", "cat /sys/block/vdb/size"), "33554432");
    gives_up(host);

    // All parts are removed, after an orderly end and after a crash.
    host.halt("k1");
    assert_eq!(auxiliary(host, "k1"), "");
    world.wait_for_face(&before);
    let qemu = boots_after_a_crash(host);
    assert_ne!(face(), before);
    host.kill(host.zoneadmd("k1").expect("a zoneadmd"));
    host.kill(qemu);
    assert_eq!(host.state("k1"), "installed");
    world.wait_for_face(&before);
}

/// Kills QEMU, checks the log, and waits until the zone has booted again with its configuration.
/// Returns the pid of the new QEMU.
fn boots_after_a_crash(host: &Host) -> i32 {
    let set = "add attr; set name=restart; set type=string; set value=on-failure; end";
    host.zonecfg(&["-z", "k1", set]).quiet();
    done(host.on("k1", &["boot"]));
    let crashed = host.init_of("k1");
    host.kill(crashed);
    let next = wait_for("the next boot of the zone", || {
        let mut inits = host.inits_of("k1").into_iter();
        let next = inits.find(|init| *init != crashed);
        next.filter(|_| host.state("k1") == "running")
    });
    let told = host.path("/var/log/zones/k1.messages");
    let told = fs::read_to_string(told).expect("the messages of the zone");
    assert!(
        told.contains("ended: QEMU was killed by signal 9"),
        "{told}"
    );
    next
}

/// Tests the guest's network cards in both networks.
fn cards(world: &World) {
    let host = &world.host;
    for (link, card) in [("net0", "eth0"), ("net1", "eth1")] {
        let address = host.sh("k1", &format!("cat /sys/class/net/{card}/address"));
        let row = world.link("k1", link);
        assert_eq!(row["mac"].as_str(), Some(address.as_str()), "{row}");
    }
    // A neighbour on the wire connects, as any machine could.
    host.sh(
        "k1",
        "ip addr add 10.0.0.111/24 dev eth0 && ip link set eth0 up",
    );
    let ping = |words: &str| {
        let ran = host.zlogin(&["-n", "k1", &format!("ping -c 1 {words}")]);
        ran.code() == Some(0)
    };
    wait_for("answer of a neighbour", || ping("10.0.0.2").then_some(()));
    let ask = |address: &str| world.peer(At::Source, &format!("ping {address}"));
    assert_eq!(ask("10.0.0.111"), "answer of 10.0.0.111");
    let _server = world.serve(At::Source, "source");
    let said = host.sh("k1", &format!("nc 10.0.0.2 {} </dev/null", e2e::peer::PORT));
    assert_eq!(said, "source sees 10.0.0.111");
    // The guest cannot use another address.
    host.sh("k1", "ip addr add 10.0.0.99/24 dev eth0");
    assert!(!ping("-W 2 -I 10.0.0.99 10.0.0.2"));
    let dropped: u64 = world.dropped("k1", "net0").values().sum();
    assert!(dropped > 0, "nothing was dropped");

    // The other card is routed: the host and all others reach it by its address.
    let row = world.link("k1", "net1");
    let all = row["addresses"].as_array().expect("addresses").iter();
    let mut all = all.filter_map(|one| one.as_str()?.split('/').next());
    let own = all
        .find(|one| one.starts_with("10.208."))
        .expect("one of the pool");
    host.sh(
        "k1",
        &format!(
            "ip link set eth1 arp off up && ip addr add {own}/32 dev eth1 && \
             ip route add 169.254.0.1 dev eth1 && ip route add default via 169.254.0.1"
        ),
    );
    wait_for("answer of the host", || ping("10.208.0.1").then_some(()));
    assert_eq!(
        world.peer(At::Global, &format!("ping {own}")),
        format!("answer of {own}")
    );
    wait_for("answer of the outside", || {
        ping("203.0.113.7").then_some(())
    });
}

/// The guest's kernel panics: zoneadmd notices it, and a core dump can be taken.
fn gives_up(host: &Host) {
    assert_eq!(auxiliary(host, "k1"), "");
    let saved = |number: u32| host.path(&format!("/var/crash/k1/vmcore.{number}"));
    let planned = host.on("k1", &["savecore", "-n"]).ok().out;
    assert!(planned.contains("vmcore.0"), "{planned}");
    assert!(!host.path("/var/crash").exists());
    let count = || host.sh("k1", "cat /run/count").parse::<u64>().unwrap_or(0);
    let counted = count();
    let is_core = |path: &PathBuf| {
        let meta = fs::metadata(path).expect("a file");
        assert_eq!(meta.permissions().mode() & 0o7777, 0o600);
        let mut begin = [0; 8];
        let file = fs::File::open(path).expect("a file");
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut begin, 0).expect("a begin");
        // The core dump has the form that makedumpfile(8) writes to a pipe.
        assert_eq!(&begin, b"makedump");
    };
    let said = host.on("k1", &["savecore"]).ok().out;
    assert!(said.contains("vmcore.0."), "{said}");
    is_core(&saved(0));
    wait_for("guest that goes on", || (count() > counted).then_some(()));

    let mut crash = host.command("zlogin", &["-n", "k1", "echo c >/proc/sysrq-trigger"]);
    crash.stdout(std::process::Stdio::null());
    crash.stderr(std::process::Stdio::null());
    let mut crash = e2e::start(&mut crash);
    wait_for("panic", || {
        (auxiliary(host, "k1") == "panicked").then_some(())
    });
    // The guest no longer answers this command.
    let _ = crash.kill();
    let _ = crash.wait();
    assert_eq!(host.state("k1"), "running");
    let _ = host.on("k1", &["savecore"]).ok();
    is_core(&saved(1));
    fs::remove_dir_all(host.path("/var/crash")).expect("to be removed");
}
