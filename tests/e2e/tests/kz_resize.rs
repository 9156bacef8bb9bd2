//! Tests more processors and memory for a kernel zone while it runs.

use e2e::guest::{Kept, boot_machine, said};
use e2e::machine::{self, done};
use e2e::{Host, wait_for};

const CPUS: &str = "nproc";
const MEMORY: &str = "awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo";

/// Waits until a script in the guest prints a number of at least this.
fn reaches(host: &Host, script: &str, least: u64) {
    wait_for(&format!("{least} or more of {script}"), || {
        let now: u64 = said(host, script).parse().unwrap_or(0);
        (now >= least).then_some(())
    });
}

#[test]
fn processors_and_memory_come_while_the_zone_runs() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return e2e::skip("the host has one processor, so a machine has room for no other");
    }
    // A machine with less memory keeps no room for more.
    if !boot_machine(&host, "select capped-memory; set physical=1g; end") {
        return;
    }
    let kept = Kept::of(&host);
    assert_eq!(said(&host, CPUS), "1");
    host.zonecfg(&[
        "-z",
        "k1",
        "select virtual-cpu; set ncpus=2; end; select capped-memory; set physical=1280m; end",
    ])
    .quiet();
    let planned = host.on("k1", &["apply", "-n"]).ok().out;
    assert_eq!(
        planned,
        "zone 'k1': Checking: Modifying capped-memory physical=1280M\n\
         zone 'k1': Checking: Modifying virtual-cpu ncpus=2\n"
    );
    assert_eq!(said(&host, CPUS), "1");
    done(host.on("k1", &["apply"]));
    reaches(&host, CPUS, 2);
    reaches(&host, MEMORY, 1100);
    // The guest really uses the new memory.
    let fill = "mount -t tmpfs -o size=1000m none /mnt && \
                dd if=/dev/zero of=/mnt/a bs=1M count=950 2>/dev/null && ls -l /mnt/a | awk '{ print $5 }'; \
                umount /mnt";
    assert_eq!(said(&host, fill), (950_u64 << 20).to_string());
    host.on("k1", &["apply"]).mentions(0, "nothing to apply");

    // Another zoneadmd finds the machine as it is.
    host.kill(host.zoneadmd("k1").expect("a zoneadmd"));
    host.on("k1", &["suspend"]).mentions(
        1,
        "its machine has changed since it booted (memory0, processor1)",
    );

    let less = "select virtual-cpu; set ncpus=1; end; select capped-memory; set physical=64m; end";
    host.zonecfg(&["-z", "k1", "-r", less]).mentions(
        1,
        "Modifying capped-memory physical=64M: a running machine keeps its memory; it takes effect when the zone boots, \
         Modifying virtual-cpu ncpus=1: a running machine keeps its processors; it takes effect when the zone boots",
    );
    let much = "select capped-memory; set physical=100t; end";
    host.zonecfg(&["-z", "k1", "-r", much])
        .mentions(1, "room for less memory");

    // At a boot everything is part of the machine.
    kept.goes_on(&host);
    host.halt("k1");
    machine::boot(&host, "k1");
    assert_eq!(said(&host, CPUS), "2");
    reaches(&host, MEMORY, 1100);
    let kept = Kept::of(&host);
    host.on("k1", &["suspend"]).quiet();
    done(host.on("k1", &["boot"]));
    kept.goes_on(&host);
}
