//! Types the examples of zonecfg(8) at a terminal, exactly as the manual prints them. Only the
//! names of devices and links are those of the test machine.

use e2e::{Host, Terminal};

/// Types the lines of a session, and checks the prompt before each line.
fn session(host: &Host, zone: &str, lines: &[(&str, &str)]) {
    let mut command = host.command("zonecfg", &["-z", zone]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(command);
    for (prompt, line) in lines {
        terminal.expect(&format!("{prompt}> "));
        terminal.types(&format!("{line}\n"));
    }
    assert_eq!(terminal.status(), 0, "{zone}");
}

fn export(host: &Host, zone: &str) -> String {
    host.zonecfg(&["-z", zone, "export"]).ok().out
}

fn info(host: &Host, zone: &str, what: &str) -> String {
    host.zonecfg(&["-z", zone, &format!("info {what}")])
        .ok()
        .out
}

#[test]
fn example_1_a_new_zone() {
    let Some(host) = Host::new() else { return };
    let mut command = host.command("zonecfg", &["-z", "myzone3"]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(command);
    terminal.expect("myzone3: No such zone configured\r\n");
    terminal.expect("Use 'create' to begin configuring a new zone.\r\n");
    let net = "zonecfg:myzone3:net";
    let fs = "zonecfg:myzone3:fs";
    let global = "zonecfg:myzone3";
    for (prompt, line) in [
        (global, "create"),
        (global, "set zonepath=/export/home/my-zone3"),
        (global, "set autoboot=true"),
        (global, "add fs"),
        (fs, "set dir=/usr/local"),
        (fs, "set special=/opt/local"),
        (fs, "set type=lofs"),
        (fs, "add options [ro,nodevices]"),
        (fs, "end"),
        (global, "add fs"),
        (fs, "set dir=/mnt"),
        (fs, "set special=/dev/vdb7"),
        (fs, "set raw=/dev/vdb7"),
        (fs, "set type=ext4"),
        (fs, "end"),
        (global, "add net"),
        (net, "set address=192.168.0.1/24"),
        (net, "set physical=eri0"),
        (net, "end"),
        (global, "add net"),
        (net, "set address=192.168.1.2/24"),
        (net, "set physical=eri0"),
        (net, "end"),
        (global, "add net"),
        (net, "set address=192.168.2.3/24"),
        (net, "set physical=eri0"),
        (net, "end"),
        (global, "set cpu-shares=5"),
        (global, "add capped-memory"),
        ("zonecfg:myzone3:capped-memory", "set physical=50m"),
        ("zonecfg:myzone3:capped-memory", "set swap=100m"),
        ("zonecfg:myzone3:capped-memory", "end"),
        (global, "exit"),
    ] {
        terminal.expect(&format!("{prompt}> "));
        terminal.types(&format!("{line}\n"));
    }
    assert_eq!(terminal.status(), 0);
    assert_eq!(
        info(&host, "myzone3", ""),
        "zonename: myzone3\nzonepath: /export/home/my-zone3\nbrand: native\nautoboot: true\nautoshutdown: shutdown\n\
         bootargs: \nfile-mac-profile: \npool: \nlimitpriv: \nscheduling-class: \nip-type: shared\n\
         hostid: \ntenant: \nfs-allowed: \n\
         [cpu-shares: 5]\n\
         inherit-pkg-dir:\n\tdir: /usr\n\
         fs:\n\tdir: /usr/local\n\tspecial: /opt/local\n\traw not specified\n\ttype: lofs\n\toptions: [ro,nodevices]\n\
         fs:\n\tdir: /mnt\n\tspecial: /dev/vdb7\n\traw: /dev/vdb7\n\ttype: ext4\n\toptions: []\n\
         net:\n\taddress: 192.168.0.1/24\n\tallowed-address not specified\n\tphysical: eri0\n\tdefrouter not specified\n\
         net:\n\taddress: 192.168.1.2/24\n\tallowed-address not specified\n\tphysical: eri0\n\tdefrouter not specified\n\
         net:\n\taddress: 192.168.2.3/24\n\tallowed-address not specified\n\tphysical: eri0\n\tdefrouter not specified\n\
         capped-memory:\n\tphysical: 50M\n\t[swap: 100M]\n\
         rctl:\n\tname: zone.cpu-shares\n\tvalue: (priv=privileged,limit=5,action=none)\n\
         rctl:\n\tname: zone.max-swap\n\tvalue: (priv=privileged,limit=104857600,action=deny)\n"
    );
}

#[test]
fn examples_2_and_3_other_zones() {
    let Some(host) = Host::new() else { return };
    let lx = "zonecfg:lxzone";
    session(
        &host,
        "lxzone",
        &[
            (lx, "create -t SUNWlx"),
            (lx, "set zonepath=/export/zones/lxzone"),
            (lx, "set autoboot=true"),
            (lx, "exit"),
        ],
    );
    assert_eq!(
        export(&host, "lxzone"),
        "create -b\nset zonepath=/export/zones/lxzone\nset brand=lx\nset autoboot=true\nset ip-type=shared\n"
    );
    let (excl, net) = ("zonecfg:excl", "zonecfg:excl:net");
    session(
        &host,
        "excl",
        &[
            (excl, "create"),
            (excl, "set zonepath=/export/zones/excl"),
            (excl, "set ip-type=exclusive"),
            (excl, "add net"),
            (net, "set physical=bge1"),
            (net, "end"),
            (excl, "add net"),
            (net, "set physical=bge33000"),
            (net, "end"),
            (excl, "exit"),
        ],
    );
    let text = export(&host, "excl");
    assert!(text.contains("\nset ip-type=exclusive\n"), "{text}");
    assert!(
        text.ends_with("add net\nset physical=bge1\nend\nadd net\nset physical=bge33000\nend\n"),
        "{text}"
    );
}

#[test]
fn examples_4_to_6_and_8_changes() {
    let Some(host) = Host::new() else { return };
    host.configure("myzone", "");
    let myzone = "zonecfg:myzone";
    session(
        &host,
        "myzone",
        &[(myzone, "set pool=mypool"), (myzone, "exit")],
    );
    assert_eq!(info(&host, "myzone", "pool"), "pool: mypool\n");
    session(
        &host,
        "myzone",
        &[
            (myzone, "set zonename=myzone2"),
            ("zonecfg:myzone2", "exit"),
        ],
    );
    host.zonecfg(&["-z", "myzone", "info"])
        .mentions(1, "myzone: No such zone configured");
    let myzone = "zonecfg:myzone2";
    session(
        &host,
        "myzone2",
        &[
            (myzone, "set limitpriv=\"default,sys_time\""),
            (myzone, "exit"),
        ],
    );
    assert_eq!(
        info(&host, "myzone2", "limitpriv"),
        "limitpriv: default,sys_time\n"
    );
    let device = "zonecfg:myzone2:device";
    session(
        &host,
        "myzone2",
        &[
            (myzone, "add device"),
            (device, "set match=\"/dev/cua/a00[2-5]\""),
            (device, "end"),
            (myzone, "exit"),
        ],
    );
    assert!(info(&host, "myzone2", "device").contains("\tmatch: /dev/cua/a00[2-5]\n"));
}

#[test]
fn example_7_the_global_zone() {
    let Some(host) = Host::new() else { return };
    let global = "zonecfg:global";
    session(
        &host,
        "global",
        &[(global, "set cpu-shares=5"), (global, "exit")],
    );
    assert_eq!(info(&host, "global", "cpu-shares"), "[cpu-shares: 5]\n");
    assert_eq!(
        info(&host, "global", ""),
        "zonename: global\npool: \nscheduling-class: \n[cpu-shares: 5]\n\
         rctl:\n\tname: zone.cpu-shares\n\tvalue: (priv=privileged,limit=5,action=none)\n"
    );
    host.zonecfg(&["-z", "global", "set autoboot=true"])
        .mentions(1, "autoboot: the global zone does not have it.");
    host.zonecfg(&["-z", "global", "delete -F"])
        .mentions(1, "cannot be deleted");
    host.zonecfg(&["-z", "global", "create"])
        .mentions(1, "is there already");
}

#[test]
fn example_9_a_cap_in_two_ways() {
    let Some(host) = Host::new() else { return };
    for zone in ["one", "two"] {
        host.configure(zone, "");
    }
    session(
        &host,
        "one",
        &[
            ("zonecfg:one", "add capped-cpu"),
            ("zonecfg:one:capped-cpu", "set ncpus=3"),
            ("zonecfg:one:capped-cpu", "end"),
            ("zonecfg:one", "exit"),
        ],
    );
    session(
        &host,
        "two",
        &[
            ("zonecfg:two", "add rctl"),
            ("zonecfg:two:rctl", "set name=zone.cpu-cap"),
            (
                "zonecfg:two:rctl",
                "add value (priv=privileged,limit=300,action=none)",
            ),
            ("zonecfg:two:rctl", "end"),
            ("zonecfg:two", "exit"),
        ],
    );
    for zone in ["one", "two"] {
        assert_eq!(
            info(&host, zone, "capped-cpu"),
            "capped-cpu:\n\t[ncpus: 3.00]\n"
        );
        assert!(export(&host, zone).contains("add value (priv=privileged,limit=300,action="));
    }
}
