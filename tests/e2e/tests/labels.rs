//! Tests the label of a zone: its configuration, the rules at boot, and what the lists show.

use std::fs;

use e2e::Host;
use e2e::run::{Ran, run};

const NAMES: &str = include_str!("../../../crates/label/tests/label_encodings");

#[test]
fn labels_decide_which_zones_boot() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let names = host.path("/etc/zones/label_encodings");
    fs::write(&names, NAMES).unwrap();
    host.configure("low", "set -F label=PUBLIC");
    host.on("low", &["clone", "master"]).quiet();
    host.boot("low");
    // A zone without a label does not boot beside it.
    let why = "could not verify label: it has none, and zone low of this host has one";
    host.on("master", &["boot"]).mentions(1, why);
    // Nor does a zone with a label boot beside a running zone without one.
    host.on("low", &["halt"]).quiet();
    let hidden = host.path("/etc/zones/low.xml");
    let kept = fs::read(&hidden).unwrap();
    fs::write(&hidden, "label=damaged").unwrap();
    host.on("master", &["boot"]).mentions(1, "low.xml");
    fs::write(&hidden, "").unwrap();
    host.boot("master");
    fs::write(&hidden, kept).unwrap();
    let why = "these running zones have none: master: halt them";
    host.on("low", &["boot"]).mentions(1, why);
    host.on("master", &["halt"]).quiet();
    host.boot("low");
    // Names that no longer have the label of a zone stop this zone.
    host.on("low", &["halt"]).quiet();
    fs::write(&names, NAMES.replace("value= 2;", "value= 3;")).unwrap();
    let why = "label '0x0002-08-08': classification 2 is not in the encodings";
    host.on("low", &["boot"]).mentions(1, why);
    fs::write(&names, NAMES).unwrap();
    host.boot("low");
    let listed = host.zoneadm(&["list", "-v"]).ok().out;
    assert!(
        listed.contains("LABEL") && listed.contains("PUBLIC"),
        "{listed}"
    );
}

#[test]
fn plabel_and_getlabel_tell_the_label_of_a_running_zone() {
    let Some(host) = Host::with_master() else {
        return;
    };
    fs::write(host.path("/etc/zones/label_encodings"), NAMES).unwrap();
    host.configure("high", "set -F label=\"CNF : NTK\"");
    host.on("high", &["clone", "master"]).quiet();
    host.boot("high");
    let run =
        |program: &str, words: &[&str]| -> Ran { run(&mut host.command(program, words), b"") };
    let pids = run("zps", &["-z", "high", "-o", "pid="]).ok().out;
    let first = pids
        .split_whitespace()
        .next()
        .expect("a process of the zone");
    let own = std::process::id().to_string();
    let told = run("zonelabel", &["plabel", "-s", first, &own]).ok();
    assert_eq!(told.out, format!("{first}: CNF : NTK\n{own}: ADMIN_LOW\n"));
    let export = host.path("/zones/high/export/root");
    fs::write(export.join("report"), "").unwrap();
    let report = export.join("report").display().to_string();
    let told = run("zonelabel", &["getlabel", &report]).ok();
    assert_eq!(told.out, format!("{report}: CONFIDENTIAL : NEED TO KNOW\n"));
    // The path leads into the mounts of the zone, where another file has the same name.
    let inside = format!("/proc/{first}/root/etc/passwd");
    let told = run("zonelabel", &["getlabel", &inside]);
    told.mentions(1, "name its path on the host");
}

#[test]
fn zps_and_zonestat_show_labels_beside_zones() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let run =
        |program: &str, words: &[&str]| -> Ran { run(&mut host.command(program, words), b"") };
    host.boot("master");
    // A host without labels has no such column.
    let plain = run("zps", &["-e"]).ok().out;
    assert!(!plain.contains("LABEL"), "{plain}");
    let plain = run("zonestat", &["1", "1"]).ok().out;
    assert!(!plain.contains("LABEL"), "{plain}");
    let of_master = run("zps", &["-z", "master", "-o", "label="]).ok().out;
    let of_master: Vec<&str> = of_master.split_whitespace().collect();
    assert!(!of_master.is_empty() && of_master.iter().all(|one| *one == "-"));
    host.halt("master");

    fs::write(host.path("/etc/zones/label_encodings"), NAMES).unwrap();
    host.configure("low", "set -F label=PUBLIC");
    host.on("low", &["clone", "master"]).quiet();
    host.boot("low");
    let shown = run("zps", &["-z", "low", "-o", "zone=,label="]).ok().out;
    let lines: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(!lines.is_empty());
    assert!(
        lines.iter().all(|line| *line == ["low", "PUBLIC"]),
        "{shown}"
    );
    for words in [&["-M", "-z", "low"][..], &["-e"]] {
        let shown = run("zps", words).ok().out;
        let head = shown.lines().next().unwrap_or_default();
        assert!(head.split_whitespace().any(|one| one == "LABEL"), "{shown}");
        assert!(shown.contains("PUBLIC"), "{shown}");
    }
    let shown = run("zonestat", &["1", "1"]).ok().out;
    let mut lines = shown.lines();
    assert!(
        lines.any(|line| line.trim_end().ends_with("LABEL")),
        "{shown}"
    );
    let mut of_low = shown
        .lines()
        .filter(|line| line.trim_start().starts_with("low "));
    assert!(
        of_low.any(|line| line.trim_end().ends_with("PUBLIC")),
        "{shown}"
    );
    let line = run("zonestat", &["-j"]).ok().out;
    assert!(line.contains(r#""label":"PUBLIC""#), "{line}");
    let plain = run("zonestat", &["-p", "1", "1"]).ok().out;
    assert!(!plain.contains("PUBLIC"), "{plain}");
}
