//! Tests the way to a web server in a kernel zone that answers a client outside of the host, with
//! the commands of docs/kernel-zones.md, section "A web server".

use std::time::Instant;

use e2e::lan::Lan;
use e2e::{At, Host, World, machine, wait_for};

/// Commands that an administrator types in a guest without cloud-init: the address of the pool, and
/// a web server.
const IN_GUEST: &str = "\
ip link set eth0 arp off up && ip addr add OWN/32 dev eth0
ip route add 169.254.0.1 dev eth0 && ip route add default via 169.254.0.1
mkdir -p /srv && echo 'a page of a kernel zone' >/srv/index.html
httpd -h /srv
";

/// The script of a client that prints the page at an address and port.
const CLIENT: &str = r#"exec 3<>/dev/tcp/ADDRESS/8080
printf 'GET / HTTP/1.0\r\n\r\n' >&3
cat <&3
"#;

/// Returns the answer of the web server to a client at a place.
fn page(world: &World, at: At<'_>, address: &str) -> String {
    let script = CLIENT.replace("ADDRESS", address);
    world.run(at, "timeout 20 bash", &script).out
}

#[test]
fn a_web_server_in_a_kernel_zone_answers_the_outside() {
    let Some(host) = Host::new() else { return };
    // A guest's kernel may have to be downloaded: the network of the test has no way to a mirror.
    let Some(guest) = machine::guest(&host) else {
        return;
    };
    let Some(lan) = Lan::new() else { return };
    let world = World { host, lan };
    let host = &world.host;
    let began = Instant::now();
    let mut steps = Vec::new();
    let mut step = |name: &'static str| steps.push((name, began.elapsed()));

    let publish = "add anet; end; add publish; set host-port=8080; set zone-port=80; end";
    machine::configure(host, "k1", publish);
    step("zonecfg");
    machine::install(host, "k1", &guest);
    step("zoneadm install");
    let booted = host.on("k1", &["boot"]).ok();
    step("zoneadm boot");
    machine::up(host, "k1");
    step("the guest is up");
    let row = world.link("k1", "net0");
    let addresses = row["addresses"].as_array().expect("addresses").iter();
    let own = addresses
        .filter_map(|one| one.as_str()?.split('/').next())
        .find(|one| one.starts_with("10.208."))
        .expect("an IPv4 address of the pool");
    let _ = host.zlogin(&["k1", &IN_GUEST.replace("OWN", own)]).ok();
    step("zlogin");
    let answer = wait_for("the page", || {
        let answer = page(&world, At::Client, "10.0.0.9");
        answer.contains("a page of a kernel zone").then_some(answer)
    });
    step("the page is there");

    assert!(answer.contains("200 OK"), "{answer}");
    let how = if booted.err.contains("emulation") {
        "emulated"
    } else {
        "with KVM"
    };
    println!("a kernel zone, {how}, to a web page outside: {steps:.1?}");
    for address in ["10.0.0.9", "127.0.0.1"] {
        let answer = page(&world, At::Global, address);
        assert!(
            answer.contains("a page of a kernel zone"),
            "{address}: {answer}"
        );
    }
    // The port is closed when it is published no more.
    let _ = host
        .zonecfg(&["-z", "k1", "-r", "remove publish host-port=8080"])
        .ok();
    assert_eq!(page(&world, At::Client, "10.0.0.9"), "");
    host.halt("k1");
}
