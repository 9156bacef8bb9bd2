//! Tests the labels of the network: a zone with a label reaches a host outside by a template, and
//! its multilevel ports are open for other labels.

use std::fs;
use std::os::unix::net::UnixDatagram;

use e2e::{At, Host, Ran, World};

/// Labels of the example of names: LOW is below HIGH.
const LOW: &str = "0x0002-08-08";
const HIGH: &str = "0x0004-08-68";

const NAMES: &str = include_str!("../../../crates/label/tests/label_encodings");

fn tncfg(host: &Host, words: &[&str]) -> Ran {
    e2e::run::run(&mut host.command("tncfg", words), b"")
}

/// Returns a network with the labels, in which zones with labels can boot.
fn world() -> Option<World> {
    let world = World::new()?;
    fs::write(world.host.path("/etc/zones/label_encodings"), NAMES).unwrap();
    Some(world)
}

fn boot(world: &World, zone: &str, label: &str) {
    let more = format!("set -F label={label}; set ip-type=exclusive; add anet; end");
    world.boot(zone, &more);
}

/// Returns the IPv4 and the IPv6 address of a zone.
fn addresses(world: &World, zone: &str) -> [String; 2] {
    let row = world.link(zone, "net0");
    let list = row["addresses"].as_array().expect("a list").iter();
    let texts: Vec<&str> = list.filter_map(|one| one.as_str()).collect();
    [false, true].map(|six| {
        let found = texts.iter().find(|text| text.contains(':') == six);
        let found = found.unwrap_or_else(|| panic!("{texts:?}"));
        found.split('/').next().unwrap_or_default().to_owned()
    })
}

/// Returns true if a server answers. `expected` decides how long an answer may take.
fn asks(world: &World, from: At<'_>, to: &str, port: &str, expected: bool) -> bool {
    let seconds = if expected { "5" } else { "0.4" };
    let line = format!("timeout {seconds} bash -c \"cat </dev/tcp/{to}/{port}\"");
    world.run(from, &line, "").out.contains("sees")
}

const PORT: &str = e2e::peer::PORT;

#[test]
fn a_template_at_the_label_of_a_zone_opens_a_host_outside_while_it_exists() {
    let Some(world) = world() else { return };
    let host = &world.host;
    boot(&world, "low", LOW);
    boot(&world, "high", HIGH);
    let _server = world.serve(At::Source, "source");
    let reach = |zone: &str, expected: [bool; 2], when: &str| {
        for (to, open) in ["10.0.0.2", "fd00::2"].into_iter().zip(expected) {
            let asked = asks(&world, At::Zone(zone), to, PORT, open);
            assert_eq!(asked, open, "{when}: from {zone} to {to}");
        }
    };
    reach("low", [false; 2], "no template");
    reach("high", [false; 2], "no template");

    // The zones run, and need no boot.
    let line = format!("set def_label={HIGH}; add host=10.0.0.0/24; add host=fd00::/64");
    tncfg(host, &["-t", "lan", &line]).quiet();
    reach("low", [false; 2], "a template of another label");
    reach("high", [true; 2], "a template of this label");

    // The longest prefix decides.
    let one = format!("set def_label={LOW}; add host=10.0.0.2");
    tncfg(host, &["-t", "one", &one]).quiet();
    reach("low", [true, false], "a template for the host");
    reach("high", [false, true], "a template for the host");

    // A host that keeps labels apart has a range of them.
    let range = format!("set host_type=multilevel; set min_label={LOW}; set max_label={HIGH}");
    tncfg(host, &["-t", "one", &range]).quiet();
    reach("low", [true, false], "a range");
    reach("high", [true, true], "a range");

    tncfg(host, &["delete -t one; delete -t lan"]).quiet();
    reach("low", [false; 2], "removed");
    reach("high", [false; 2], "removed");

    // A zone that boots later has the templates, too, and a wrong file keeps it from its boot.
    host.halt("high");
    tncfg(host, &["-t", "lan", &line]).quiet();
    host.boot("high");
    reach("high", [true; 2], "a later boot");
    host.halt("high");
    let file = host.path("/etc/zones/tncfg");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}template x host=10.0.0.7\n")).unwrap();
    let why = "tncfg:3: template x: def_label is not set";
    host.on("high", &["boot"]).mentions(1, why);
}

#[test]
fn a_multilevel_port_is_open_for_other_labels_and_other_ports_are_closed() {
    let Some(world) = world() else { return };
    let host = &world.host;
    host.configure("low", &format!("set -F label={LOW}"));
    tncfg(host, &["-z", "low", "add mlp_private=8080/tcp"]).quiet();
    host.zonecfg(&["-z", "low", "delete -F"]).quiet();
    // The port went with the zone.
    assert_eq!(tncfg(host, &["list"]).ok().out, "");
    boot(&world, "low", LOW);
    boot(&world, "high", HIGH);
    let _open = world.serve_on(At::Zone("low"), "open", "::", "8080");
    let _other = world.serve(At::Zone("low"), "other");
    let from_high = |port: &str, open: bool, when: &str| {
        for to in addresses(&world, "low") {
            let asked = asks(&world, At::Zone("high"), &to, port, open);
            assert_eq!(asked, open, "{when}: {to} {port}");
        }
    };
    from_high("8080", false, "no multilevel port");

    let said = tncfg(host, &["-z", "low", "add mlp_private=8080/tcp"]);
    let why = "zone low is running: its multilevel ports change at its next boot";
    assert!(said.code() == Some(0) && said.err.contains(why), "{said:?}");
    from_high("8080", false, "before the boot");
    drop((_open, _other));
    host.halt("low");
    host.boot("low");
    let _open = world.serve_on(At::Zone("low"), "open", "::", "8080");
    let _other = world.serve(At::Zone("low"), "other");
    from_high("8080", true, "the port and its answers");
    from_high(PORT, false, "another port");
    // The port opens nothing towards the other label.
    let _high = world.serve_on(At::Zone("high"), "high", "::", "8080");
    for to in addresses(&world, "high") {
        assert!(!asks(&world, At::Zone("low"), &to, "8080", false), "{to}");
    }
}

/// Returns the lines that the log of a host got since the last call.
fn logged(log: &UnixDatagram) -> Vec<String> {
    let mut lines = Vec::new();
    let mut buffer = [0; 16 << 10];
    while let Ok(length) = log.recv(&mut buffer) {
        lines.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    lines
}

#[test]
fn each_change_of_tncfg_is_a_line_in_the_log() {
    let Some(host) = Host::with_master() else {
        return;
    };
    fs::write(host.path("/etc/zones/label_encodings"), NAMES).unwrap();
    // Another test may have used the same host before.
    let _ = fs::remove_file(host.path("/etc/zones/tncfg"));
    fs::create_dir_all(host.path("/dev")).unwrap();
    let log = host.path("/dev/log");
    let _ = fs::remove_file(&log);
    let log = UnixDatagram::bind(log).unwrap();
    log.set_nonblocking(true).unwrap();
    host.configure("web", &format!("set -F label={HIGH}"));
    let lines = logged(&log);
    assert!(
        lines.len() == 1 && lines[0].contains("event=label"),
        "{lines:?}"
    );
    let begin = "<85>zones: event=network";
    tncfg(
        &host,
        &["create -t lan; set def_label=0x0002-08-08; add host=192.0.2.0/24; add host=2001:db8::/32"],
    )
    .quiet();
    let hosts = "host=192.0.2.0/24 host=2001:db8::/32";
    let whole = format!("host_type=unlabeled def_label={LOW} {hosts}");
    assert_eq!(
        logged(&log),
        [format!(
            "{begin} template=lan uid=0 result=ok old=none new=\"{whole}\""
        )]
    );
    // One line for each part, and only the values that differ.
    tncfg(
        &host,
        &[&format!(
            "select -t lan; set def_label={HIGH}; remove host=2001:db8::/32; \
             select -z web; add mlp_private=80/tcp"
        )],
    )
    .quiet();
    assert_eq!(
        logged(&log),
        [
            format!(
                "{begin} template=lan uid=0 result=ok \
                 old=\"def_label={LOW} host=2001:db8::/32\" new=\"def_label={HIGH}\""
            ),
            format!("{begin} zone=web uid=0 result=ok old=none new=\"mlp_private=80/tcp\""),
        ]
    );
    // A refused change has the reason. Commands without a change, and after an error, have no line.
    tncfg(&host, &["-t", "bad", "set def_label=ADMIN_LOW"]).mentions(1, "which no zone has");
    let lines = logged(&log);
    assert!(
        lines.len() == 1
            && lines[0].starts_with(&format!(
                "{begin} template=bad uid=0 result=refused old=none"
            ))
            && lines[0].contains("why=\"template bad: def_label"),
        "{lines:?}"
    );
    let _ = tncfg(&host, &["list; commit"]).ok();
    let ran = tncfg(&host, &["delete -t lan; add host=1"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert_eq!(logged(&log), [""; 0]);
    // The ports follow the name of their zone, and end with it.
    host.zonecfg(&["-z", "web", "set zonename=shop"]).quiet();
    let list = tncfg(&host, &["-z", "shop", "info"]).ok();
    assert!(list.out.contains("mlp_private: 80/tcp"), "{list:?}");
    let port = "\"mlp_private=80/tcp\"";
    assert_eq!(
        logged(&log),
        [
            format!("{begin} zone=web uid=0 result=ok old={port} new=none"),
            format!("{begin} zone=shop uid=0 result=ok old=none new={port}"),
        ]
    );
    host.zonecfg(&["-z", "shop", "delete -F"]).quiet();
    let gone = format!("{begin} zone=shop uid=0 result=ok old={port} new=none");
    assert_eq!(logged(&log), [gone]);
    tncfg(&host, &["delete -t lan"]).quiet();
    let lines = logged(&log);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines.iter().all(|line| line.ends_with(" new=none")));
    fs::remove_file(host.path("/dev/log")).unwrap();
}
