use super::*;

fn config(lines: &[(&str, &[(&str, &str)])]) -> Config {
    let mut config = Config::new("web".parse().unwrap());
    for (name, properties) in lines {
        let Some(spec) = table::resource(name) else {
            config.set(name, properties[0].1).unwrap();
            continue;
        };
        let mut resource = Resource::new(spec);
        for (property, value) in *properties {
            resource.set(property, value).unwrap();
        }
        config.add(resource).unwrap();
    }
    config
}

fn fs<'a>(dir: &'a str, special: &'a str) -> [(&'a str, &'a str); 3] {
    [("dir", dir), ("special", special), ("type", "lofs")]
}

/// Returns the lines of a plan, its steps, and the changes that wait for a reboot.
fn told(running: &Config, wanted: &Config) -> (Vec<String>, Vec<String>, Vec<String>) {
    let plan = plan(running, wanted, &Places::default());
    (
        plan.now.iter().map(ToString::to_string).collect(),
        plan.steps.iter().map(|step| step.act.to_string()).collect(),
        plan.at_boot
            .iter()
            .map(|(one, _)| one.to_string())
            .collect(),
    )
}

#[test]
fn an_unchanged_configuration_needs_no_step() {
    let one = config(&[
        ("fs", &fs("/a", "/x")),
        ("device", &[("match", "/dev/fuse")]),
        ("max-lwps", &[("", "100")]),
    ]);
    assert_eq!(plan(&one, &one, &Places::default()), LivePlan::default());
    let other_order = config(&[("fs", &fs("/b", "/x")), ("fs", &fs("/a", "/x"))]);
    let order = config(&[("fs", &fs("/a", "/x")), ("fs", &fs("/b", "/x"))]);
    assert_eq!(
        plan(&order, &other_order, &Places::default()),
        LivePlan::default()
    );
}

#[test]
fn a_schedule_of_snapshots_changes_while_the_zone_runs() {
    let none = config(&[]);
    let hours = config(&[("snapshots", &[("hourly", "5")])]);
    let days = config(&[("snapshots", &[("hourly", "5"), ("daily", "3")])]);
    for (running, wanted, line) in [
        (&none, &hours, "Adding snapshots hourly=5"),
        (&hours, &days, "Modifying snapshots daily=3"),
        (&days, &none, "Removing snapshots hourly=5 daily=3"),
    ] {
        let (now, steps, at_boot) = told(running, wanted);
        assert_eq!(now, [line]);
        assert_eq!(steps, ["store the running configuration"]);
        assert_eq!(at_boot, [""; 0]);
        let plan = plan(running, wanted, &Places::default());
        assert_eq!(plan.steps[0].after.schedule(), wanted.schedule());
    }
}

#[test]
fn a_running_kernel_zone_changes_only_limits() {
    let running = config(&[
        ("brand", &[("", "kz")]),
        ("ip-type", &[("", "exclusive")]),
        ("device", &[("storage", "file:///a"), ("id", "0")]),
        ("virtual-cpu", &[("ncpus", "1")]),
        ("anet", &[("linkname", "net0")]),
        ("capped-memory", &[("physical", "1g")]),
    ]);
    let wanted = config(&[
        ("brand", &[("", "kz")]),
        ("ip-type", &[("", "exclusive")]),
        ("device", &[("match", "/dev/sdx"), ("id", "1")]),
        ("virtual-cpu", &[("ncpus", "2")]),
        ("capped-memory", &[("physical", "2g"), ("swap", "4g")]),
        ("capped-cpu", &[("ncpus", "1.5")]),
        ("cpu-shares", &[("", "7")]),
    ]);
    let (now, steps, at_boot) = told(&running, &wanted);
    assert_eq!(
        now,
        [
            "Adding cpu-shares=7",
            "Adding capped-cpu ncpus=1.50",
            "Modifying capped-memory swap=4G"
        ]
    );
    // `zone.max-physical-memory` is the memory of the running guest plus the memory of QEMU itself.
    assert_eq!(
        steps,
        ["set zone.cpu-cap=150 zone.cpu-shares=7 zone.max-physical-memory=1568M zone.max-swap=4G"]
    );
    assert_eq!(
        at_boot,
        [
            "Modifying capped-memory physical=2G",
            "Modifying virtual-cpu ncpus=2",
            "Removing device storage=file:///a id=0",
            "Adding device match=/dev/sdx id=1",
            "Removing anet linkname=net0",
        ]
    );
    let after = &plan(&running, &wanted, &Places::default()).steps[0].after;
    assert_eq!(after.machine_memory(), 1 << 30);
    assert_eq!(after.machine_disks(), running.machine_disks());
}

/// A guest may keep memory that it got, so a step that fails after it could not be undone.
#[test]
fn memory_is_the_last_step() {
    type Lines<'a> = [(&'a str, &'a [(&'a str, &'a str)])];
    let base: &Lines<'_> = &[("brand", &[("", "kz")]), ("ip-type", &[("", "exclusive")])];
    let running = config(&[base, &[("capped-memory", &[("physical", "1g")])]].concat());
    let more: &Lines<'_> = &[
        ("capped-memory", &[("physical", "2g")]),
        ("virtual-cpu", &[("ncpus", "2")]),
        ("device", &[("storage", "file:///b"), ("id", "2")]),
        ("snapshots", &[("daily", "3")]),
    ];
    let wanted = config(&[base, more].concat());
    let places = Places {
        free: 3,
        most_cpus: 4,
        most_memory: 4 << 30,
        ..Places::default()
    };
    let found = plan(&running, &wanted, &places);
    assert!(found.steps.len() > 3, "{found:?}");
    let last = found.steps.last().map(|step| &step.act);
    assert_eq!(last, Some(&Act::Memory(2 << 30)));
    assert_eq!(found.steps[0].after.machine_memory(), 1 << 30);
    // The limit on QEMU has room for the memory before.
    assert!(matches!(&found.steps[0].act, Act::Control(controls)
        if *controls == Controls::of(&with_memory_of(&running, &wanted))));
}

#[test]
fn processors_and_memory_of_a_running_kernel_zone_grow_into_their_room() {
    let of = |cpus: &str, memory: &str| {
        config(&[
            ("brand", &[("", "kz")]),
            ("virtual-cpu", &[("ncpus", cpus)]),
            ("capped-memory", &[("physical", memory)]),
        ])
    };
    let places = Places {
        most_cpus: 4,
        most_memory: 4 << 30,
        ..Places::default()
    };
    let steps = |found: &LivePlan| -> Vec<String> {
        let steps = found.steps.iter();
        steps.map(|step| step.act.to_string()).collect()
    };
    let running = of("2", "1g");
    let found = plan(&running, &of("1-4", "2g"), &places);
    assert_eq!(found.at_boot, []);
    assert_eq!(
        steps(&found),
        [
            "set zone.max-physical-memory=2624M",
            "give the machine 4 processors",
            "grow the memory to 2G"
        ]
    );
    // Until the memory has grown, the running configuration has the old size.
    let sizes: Vec<u64> = found
        .steps
        .iter()
        .map(|step| step.after.machine_memory() >> 20)
        .collect();
    assert_eq!(sizes, [1024, 1024, 2048]);
    assert_eq!(found.steps[2].after, of("1-4", "2g"));
    for (cpus, memory, why) in [
        ("5", "1g", "room for fewer processors"),
        ("1", "1g", "keeps its processors"),
        ("2", "5g", "room for less memory"),
        ("2", "512m", "keeps its memory"),
        ("2", "1025m", "steps of 128M"),
    ] {
        let found = plan(&running, &of(cpus, memory), &places);
        assert_eq!(steps(&found), [""; 0], "{cpus} {memory}");
        let (_, told) = &found.at_boot[0];
        assert!(
            told.contains(why) && told.contains("when the zone boots"),
            "{told}"
        );
    }
}

#[test]
fn a_disk_of_a_running_kernel_zone_grows() {
    let of = |size: &str, bootpri: &str| {
        let disk = [
            ("storage", "file:///z/disk0"),
            ("id", "0"),
            ("size", size),
            ("bootpri", bootpri),
        ];
        let set: Vec<_> = disk.into_iter().filter(|(_, v)| !v.is_empty()).collect();
        config(&[("brand", &[("", "kz")]), ("device", &set)])
    };
    let (now, steps, at_boot) = told(&of("", ""), &of("20g", ""));
    assert_eq!(
        now,
        ["Modifying device storage=file:///z/disk0 id=0 size=20G"]
    );
    assert_eq!(steps, ["grow disk 0 to 20G"]);
    assert_eq!(at_boot, [""; 0]);
    let grown = plan(&of("16g", ""), &of("20g", ""), &Places::default());
    let sizes: Vec<_> = grown
        .steps
        .iter()
        .map(|step| step.after.machine_disks())
        .collect();
    assert_eq!(sizes, [of("20g", "").machine_disks()]);
    // A size that is no longer configured changes nothing in the guest.
    let (_, steps, _) = told(&of("20g", ""), &of("", ""));
    assert_eq!(steps, ["store the running configuration"]);
    // Another change of the same disk needs a reboot, and the disk grows then, too.
    let (now, _, at_boot) = told(&of("16g", ""), &of("20g", "1"));
    assert_eq!((now.len(), at_boot.len()), (0, 1));
}

#[test]
fn disks_come_and_go_in_their_places() {
    let of = |ids: &[&str]| {
        let paths: Vec<String> = ids.iter().map(|id| format!("file:///z/disk{id}")).collect();
        let mut all = config(&[("brand", &[("", "kz")])]);
        for (id, path) in ids.iter().zip(&paths) {
            let mut one = Resource::new(table::resource("device").unwrap());
            one.set("storage", path).unwrap();
            one.set("id", id).unwrap();
            all.add(one).unwrap();
        }
        all
    };
    let (old, new) = (of(&["0", "1", "2"]), of(&["0", "3", "4"]));
    let places = Places {
        removable: vec![1],
        ..Places::default()
    };
    let found = plan(&old, &new, &places);
    let steps: Vec<_> = found
        .steps
        .iter()
        .map(|step| step.act.to_string())
        .collect();
    // Disk 3 takes the place of disk 1, disk 4 has none, and disk 2 cannot go.
    assert_eq!(steps, ["remove disk 1", "add disk 3"]);
    let waits: Vec<_> = found
        .at_boot
        .iter()
        .map(|(one, why)| format!("{one}: {why}"))
        .collect();
    assert_eq!(
        waits,
        [
            "Removing device storage=file:///z/disk2 id=2: this disk stays until the machine ends",
            "Adding device storage=file:///z/disk4 id=4: the machine has no free port",
        ]
    );
    assert_eq!(
        found.steps[1].after.machine_disks(),
        of(&["0", "2", "3"]).machine_disks()
    );
}

#[test]
fn file_systems_go_inside_out_and_come_outside_in() {
    let running = config(&[
        ("fs", &fs("/a", "/1")),
        ("fs", &fs("/a/b", "/2")),
        ("fs", &fs("/keep", "/3")),
        ("fs", &fs("/m", "/4")),
    ]);
    let wanted = config(&[
        ("fs", &fs("/m", "/5")),
        ("fs", &fs("/keep", "/3")),
        ("fs", &fs("/new", "/6")),
        ("fs", &fs("/new/er", "/7")),
    ]);
    let (now, steps, at_boot) = told(&running, &wanted);
    assert_eq!(
        now,
        [
            "Removing fs dir=/a",
            "Removing fs dir=/a/b",
            "Modifying fs dir=/m",
            "Adding fs dir=/new",
            "Adding fs dir=/new/er",
        ]
    );
    assert_eq!(
        steps,
        [
            "unmount /a/b",
            "unmount /m",
            "unmount /a",
            "mount /5 at /m",
            "mount /6 at /new",
            "mount /7 at /new/er",
        ]
    );
    assert_eq!(at_boot, [""; 0]);
}

#[test]
fn nested_mounts_are_remounted_with_their_parent() {
    let running = config(&[
        ("fs", &fs("/a/b", "/2")),
        ("fs", &fs("/a", "/1")),
        ("fs", &fs("/new/er", "/3")),
        ("fs", &fs("/newer", "/4")),
    ]);
    let wanted = config(&[
        ("fs", &fs("/a/b", "/2")),
        ("fs", &fs("/a", "/5")),
        ("fs", &fs("/new/er", "/3")),
        ("fs", &fs("/newer", "/4")),
        ("fs", &fs("/new", "/6")),
    ]);
    let (now, steps, at_boot) = told(&running, &wanted);
    assert_eq!(now, ["Modifying fs dir=/a", "Adding fs dir=/new"]);
    assert_eq!(
        steps,
        [
            "unmount /new/er",
            "unmount /a/b",
            "unmount /a",
            "mount /5 at /a",
            "mount /6 at /new",
            "mount /2 at /a/b",
            "mount /3 at /new/er",
        ]
    );
    let plan = plan(&running, &wanted, &Places::default());
    assert_eq!(plan.steps.last().unwrap().after, wanted);
    assert_eq!(at_boot, [""; 0]);
}

#[test]
fn controls_are_one_step_and_known_by_their_short_names() {
    let running = config(&[
        ("max-lwps", &[("", "100")]),
        ("capped-memory", &[("physical", "64M"), ("swap", "128M")]),
        ("capped-cpu", &[("ncpus", "1.5")]),
    ]);
    let wanted = config(&[
        ("cpu-shares", &[("", "20")]),
        ("max-lwps", &[("", "200")]),
        ("capped-memory", &[("physical", "64M"), ("swap", "256M")]),
    ]);
    let (now, steps, at_boot) = told(&running, &wanted);
    assert_eq!(
        now,
        [
            "Modifying max-lwps=200",
            "Modifying max-processes=200",
            "Adding cpu-shares=20",
            "Removing capped-cpu ncpus=1.50",
            "Modifying capped-memory swap=256M",
        ]
    );
    assert_eq!(
        steps,
        [
            "set zone.cpu-shares=20 zone.max-physical-memory=64M zone.max-swap=256M zone.max-lwps=200 zone.max-processes=200"
        ]
    );
    assert_eq!(at_boot, [""; 0]);
    let (_, steps, _) = told(&wanted, &config(&[]));
    assert_eq!(steps, ["take away all resource controls"]);
}

#[test]
fn cpus_are_given_and_taken_while_the_zone_runs() {
    let shared = config(&[("cpu-shares", &[("", "5")])]);
    let mut own = config(&[("dedicated-cpu", &[("ncpus", "1-2")])]);
    let (now, steps, at_boot) = told(&shared, &own);
    assert_eq!(
        now,
        ["Removing cpu-shares=5", "Adding dedicated-cpu ncpus=1-2"]
    );
    assert_eq!(steps, ["set dedicated-cpu=1-2"]);
    assert_eq!(at_boot, [""; 0]);
    let old = own.resources()[0].clone();
    let mut cpus = Resource::new(old.spec());
    cpus.add_value("cpus", "0-1".into()).unwrap();
    cpus.add_value("cpus", "4".into()).unwrap();
    own.replace(&old, cpus).unwrap();
    let (now, steps, _) = told(&shared, &own);
    assert_eq!(now[1], "Adding dedicated-cpu cpus=[0-1,4]");
    assert_eq!(steps, ["set dedicated-cpu=cpus[0-1,4]"]);
}

#[test]
fn changes_that_need_a_reboot_are_only_reported() {
    let running = config(&[("bootargs", &[("", "-s")])]);
    let wanted = config(&[
        ("limitpriv", &[("", "default,!sys_time")]),
        ("autoboot", &[("", "true")]),
        ("fs", &[("dir", "/p"), ("special", "p"), ("type", "proc")]),
        (
            "attr",
            &[("name", "init"), ("type", "string"), ("value", "/x")],
        ),
        ("admin", &[("user", "joe"), ("auths", "login")]),
    ]);
    let plan = plan(&running, &wanted, &Places::default());
    let at_boot: Vec<String> = plan
        .at_boot
        .iter()
        .map(|(one, _)| one.to_string())
        .collect();
    assert_eq!(
        at_boot,
        [
            "Removing bootargs=-s",
            "Adding limitpriv=default,!sys_time",
            "Adding fs dir=/p",
            "Adding attr name=init",
        ]
    );
    assert_eq!(plan.now.len(), 1, "{:?}", plan.now);
    let after = &plan.steps.last().unwrap().after;
    assert!(after.autoboot() && after.limitpriv().is_empty() && after.bootargs() == "-s");
    assert_eq!(after.resources(), []);
}

#[test]
fn links_change_in_one_step() {
    let net = |address| [("physical", "eth0"), ("address", address)];
    let (one, two) = (net("10.0.0.1/24"), net("10.0.0.2/24"));
    let running = config(&[("net", &one)]);
    let wanted = config(&[("net", &two)]);
    let (now, steps, at_boot) = told(&running, &wanted);
    assert_eq!(
        now,
        [
            "Removing net address=10.0.0.1/24 physical=eth0",
            "Adding net address=10.0.0.2/24 physical=eth0"
        ]
    );
    assert_eq!(steps, ["change the network links"]);
    assert_eq!(at_boot, [""; 0]);
    // A change of the ip-type takes effect only at the next boot.
    let mut exclusive = Config::new(running.name().clone());
    exclusive.set("ip-type", "exclusive").unwrap();
    let (now, steps, at_boot) = told(&running, &exclusive);
    assert_eq!((now.len(), steps.len(), at_boot.len()), (0, 0, 2));
}

#[test]
fn devices_are_taken_away_before_others_come() {
    let running = config(&[("device", &[("match", "/dev/fuse")])]);
    let wanted = config(&[("device", &[("match", "/dev/snd/*")])]);
    let (now, steps, _) = told(&running, &wanted);
    assert_eq!(
        now,
        [
            "Removing device match=/dev/fuse",
            "Adding device match=/dev/snd/*"
        ]
    );
    assert_eq!(steps, ["take away /dev/fuse", "show /dev/snd/*"]);
}

/// After the last step a new comparison finds no differences, whatever the two configurations are.
#[test]
fn the_steps_lead_to_the_wanted_configuration() {
    let many = [
        config(&[]),
        config(&[("max-processes", &[("", "10")]), ("fs", &fs("/a", "/x"))]),
        config(&[("max-lwps", &[("", "10")]), ("fs", &fs("/a", "/y"))]),
        config(&[
            ("device", &[("match", "/dev/%{zonename}*")]),
            ("device", &[("match", "/dev/fuse")]),
            ("rctl", &[("name", "zone.max-lofi")]),
            ("capped-memory", &[("locked", "1M")]),
        ]),
        config(&[
            ("autoboot", &[("", "true")]),
            ("fs", &fs("/%{zonename}", "/y")),
        ]),
    ];
    for running in &many {
        for wanted in &many {
            let first = plan(running, wanted, &Places::default());
            let after = first.steps.last().map_or(running, |step| &step.after);
            let second = plan(after, wanted, &Places::default());
            assert_eq!(second.steps, [], "{running:?} to {wanted:?}");
            assert_eq!(second.now, []);
            assert_eq!(second.at_boot, first.at_boot);
        }
    }
}

#[test]
fn a_running_zone_changes_its_pool() {
    let running = config(&[("pool", &[("", "batch")])]);
    let wanted = config(&[("pool", &[("", "web")]), ("hostid", &[("", "beef")])]);
    let (now, steps, at_boot) = told(&running, &wanted);
    assert_eq!(now, ["Modifying pool=web"]);
    assert_eq!(steps, ["set pool=web"]);
    assert_eq!(at_boot, ["Adding hostid=beef"]);
    let plan = plan(&running, &wanted, &Places::default());
    assert_eq!(plan.steps[0].after.pool(), "web");
    let (now, steps, _) = told(&running, &config(&[]));
    assert_eq!(now, ["Removing pool=batch"]);
    assert_eq!(steps, ["take away all resource controls"]);
}

/// Returns a kernel zone with links of these names and lower links.
fn with_links(links: &[(&str, &str)], more: &[(&str, &[(&str, &str)])]) -> Config {
    let mut lines: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("brand", vec![("", "kz")]),
        ("ip-type", vec![("", "exclusive")]),
    ];
    for (name, lower) in links {
        // The last letter of the name is the number of the link.
        let id = &name[name.len() - 1..];
        let anet = vec![("linkname", *name), ("lower-link", lower), ("id", id)];
        lines.push(("anet", anet));
    }
    lines.extend(more.iter().map(|(name, list)| (*name, list.to_vec())));
    let lines: Vec<_> = lines
        .iter()
        .map(|(name, list)| (*name, list.as_slice()))
        .collect();
    config(&lines)
}

/// Returns the steps of a plan for network cards, and the differences that wait, with their reasons.
fn cards(running: &Config, wanted: &Config, places: &Places) -> (Vec<String>, Vec<String>) {
    let plan = plan(running, wanted, places);
    let waits = plan.at_boot.iter();
    (
        plan.steps.iter().map(|step| step.act.to_string()).collect(),
        waits.map(|(one, why)| format!("{one}: {why}")).collect(),
    )
}

#[test]
fn network_cards_come_and_go_in_ports() {
    let running = with_links(&[("net0", "auto"), ("net1", "br0")], &[]);
    let places = Places {
        free: 1,
        removable_cards: vec!["net1".to_owned()],
        ..Places::default()
    };
    let other = with_links(&[("net0", "auto"), ("net2", "br0"), ("net3", "auto")], &[]);
    let (steps, waits) = cards(&running, &other, &places);
    assert_eq!(
        steps,
        [
            "remove network card net1",
            "add network card net2",
            "add network card net3"
        ]
    );
    assert_eq!(waits, [""; 0]);
    let done = plan(&running, &other, &places);
    let names: Vec<String> = done.steps[2].after.anet_names().collect();
    assert_eq!(names, ["net0", "net2", "net3"]);
    assert!(plan(&other, &other, &places).steps.is_empty());

    let full = Places {
        free: 0,
        ..places.clone()
    };
    let (steps, waits) = cards(&running, &other, &full);
    assert_eq!(steps.len(), 2);
    assert_eq!(
        waits,
        ["Adding anet linkname=net3: the machine has no free port"]
    );
    let none = with_links(&[("net1", "br1")], &[]);
    let (steps, waits) = cards(&running, &none, &places);
    assert_eq!(steps, [""; 0]);
    assert_eq!(
        waits,
        [
            "Removing anet linkname=net0: this network card stays until the machine ends",
            "Modifying anet linkname=net1: a network card keeps its properties: remove the anet, apply, and add it again, or reboot",
        ]
    );
}

#[test]
fn a_removed_card_does_not_move_the_addresses_of_others() {
    let running = with_links(&[("net0", "auto"), ("net1", "auto"), ("net2", "auto")], &[]);
    let places = Places {
        free: 4,
        removable_cards: vec!["net1".to_owned(), "net2".to_owned()],
        ..Places::default()
    };
    let wanted = with_links(&[("net0", "auto"), ("net2", "auto")], &[]);
    let (steps, waits) = cards(&running, &wanted, &places);
    assert_eq!(steps, [""; 0]);
    assert_eq!(
        waits,
        ["Removing anet linkname=net1: other links of the zone would get other addresses"]
    );
    let last = with_links(&[("net0", "auto"), ("net1", "auto")], &[]);
    let (steps, _) = cards(&running, &last, &places);
    assert_eq!(steps, ["remove network card net2"]);
}

/// A published port leads to the first link for which the host routes, which must exist.
#[test]
fn published_ports_close_before_their_link_goes_and_open_after_it_came() {
    let port: &[(&str, &[(&str, &str)])] =
        &[("publish", &[("host-port", "80"), ("zone-port", "80")])];
    let without = with_links(&[("net0", "br0")], &[]);
    let with = with_links(&[("net0", "br0"), ("net1", "auto")], port);
    let places = Places {
        free: 1,
        removable_cards: vec!["net1".to_owned()],
        ..Places::default()
    };
    let (steps, waits) = cards(&with, &without, &places);
    assert_eq!(
        steps[..2],
        ["change the network links", "remove network card net1"]
    );
    assert_eq!(waits, [""; 0]);
    let (steps, _) = cards(&without, &with, &places);
    assert_eq!(steps, ["add network card net1", "change the network links"]);
}
