//! Tests command lines: wrong ones, many zones at once, and dry runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use e2e::Host;
use e2e::run::run;

#[test]
fn wrong_command_lines_are_2_and_say_how_it_goes() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    for line in [
        "",
        "-z web",
        "bo",
        "-z web bo",
        "-z web instal",
        "-z web frobnicate",
        "-x list",
        "-R relative list",
        "-R / -z web boot",
        "boot",
        "install",
        "-z web boot -x",
        "-z web boot surplus",
        "-z web halt -F",
        "-z web clone",
        "-z web clone -m snapshot other",
        "-z web clone one two",
        "-z web mark",
        "-z web mark installed",
        "-z web uninstall -x",
        "-z web shutdown -- -s surplus -x -i",
        "-z web ready now",
        "help frobnicate",
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ran = host.zoneadm(&words);
        assert_eq!(ran.code(), Some(2), "{ran:?}");
        assert!(ran.err.contains("usage:"), "{ran:?}");
        assert_eq!(ran.out, "", "{ran:?}");
    }
    assert_eq!(host.state("web"), "configured");
}

#[test]
fn errors_have_statuses_of_their_own_where_that_is_asked_for() {
    let Some(host) = Host::with_web() else { return };
    let open = host.path("/zones/web");
    let status = |words: &[&str]| {
        let mut command = host.command("zoneadm", words);
        let without = run(&mut command, b"").code();
        let with = run(command.env("ZONES_EXIT_STATUS", "distinct"), b"").code();
        (without, with)
    };
    let expect = |words: &[&str], distinct| {
        assert_eq!(status(words), (Some(1), Some(distinct)), "{words:?}");
    };
    expect(&["-z", "none", "boot"], 3);
    expect(&["-z", "none", "list"], 3);
    expect(&["-z", "web", "reboot"], 4);
    expect(&["-z", "web", "-z", "none", "reboot"], 4);
    let lock = fs::File::open(host.path("/run/zones/web.zoneadm.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    expect(&["-z", "web", "boot"], 5);
    drop(lock);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    expect(&["-z", "web", "boot"], 6);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(&open, host.path("/elsewhere")).unwrap();
    expect(&["-z", "web", "boot"], 8);
    fs::rename(host.path("/elsewhere"), &open).unwrap();
    let usage = status(&["-z", "web", "boot", "surplus"]);
    assert_eq!(usage, (Some(2), Some(2)));
    host.boot("web");
}

#[test]
fn a_root_that_does_not_exist_is_1_everywhere_and_the_remedy_is_told() {
    let Some(host) = Host::new() else { return };
    for (program, words) in [
        ("zonecfg", &["-z", "web", "create"][..]),
        ("zoneadm", &["list", "-cv"]),
        ("zoneadm", &["-z", "web", "install"]),
        ("zps", &[]),
        ("zonestat", &["1", "1"]),
        ("zoneimg", &["list"]),
        ("zonepatch", &["status"]),
        ("zones-service", &["start", "-n"]),
    ] {
        let mut command = host.command(program, words);
        command.env("ZONES_ROOT", "/nowhere/zones");
        let ran = e2e::run::run(&mut command, b"");
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        assert!(ran.err.contains("mkdir -p /nowhere/zones"), "{ran:?}");
    }
}

#[test]
fn help_is_no_error() {
    let Some(host) = Host::new() else { return };
    for words in [
        &["help"][..],
        &["-?"],
        &["--help"],
        &["help", "boot"],
        &["boot", "-?"],
        &["list", "--help"],
    ] {
        let ran = host.zoneadm(words);
        assert!(ran.out.contains("usage:") && ran.err.is_empty(), "{ran:?}");
        assert!(matches!(ran.code(), Some(0 | 2)), "{ran:?}");
    }
    for verb in [
        "list",
        "verify",
        "install",
        "clone",
        "uninstall",
        "ready",
        "boot",
        "reboot",
        "shutdown",
        "halt",
        "mount",
        "unmount",
        "mark",
    ] {
        let ran = host.zoneadm(&["help", verb]).ok();
        assert!(ran.out.contains("example"), "{ran:?}");
    }
}

#[test]
fn several_zones_a_glob_and_a_range_act_on_each() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web[1-4]");
    host.zoneadm(&["-z", "web1", "-z", "web2", "boot"]).quiet();
    let states = |host: &Host| {
        let rows = host.rows();
        let mut states: Vec<String> = rows
            .iter()
            .map(|row| format!("{} {}", row.name, row.state))
            .collect();
        states.sort();
        states.join(", ")
    };
    assert_eq!(
        states(&host),
        "master installed, web1 running, web2 running, web3 installed, web4 installed"
    );
    // A zone that already has the requested state gets a notice. The others are changed, and the
    // exit status is 0.
    let ran = host.on("web*", &["boot"]).ok();
    let mut lines: Vec<&str> = ran.err.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "zoneadm: zone 'web1': zone is already booted",
            "zoneadm: zone 'web2': zone is already booted"
        ]
    );
    assert_eq!(
        states(&host),
        "master installed, web1 running, web2 running, web3 running, web4 running"
    );
    host.on("web[1-2,4]", &["halt"]).quiet();
    assert_eq!(
        states(&host),
        "master installed, web1 installed, web2 installed, web3 running, web4 installed"
    );
    // A zone that fails does not stop the command for other zones.
    host.configure("web5", "");
    host.on("web?", &["reboot"])
        .mentions(1, "zoneadm: zone 'web5': not running");
    let ran = host.on("web[3-6]", &["boot"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    for line in [
        "zoneadm: zone 'web5': must be installed before boot.",
        "zoneadm: web6: No such zone configured",
    ] {
        assert!(
            ran.err.lines().any(|one| one == line),
            "no {line:?} in {ran:?}"
        );
    }
    assert_eq!(host.state("web4"), "running");
    host.on("web*", &["halt"])
        .mentions(1, "zone 'web5': must be installed before halt.");
    host.on("mail*", &["boot"])
        .says(1, "zoneadm: mail*: No such zone configured");
    host.on("web[3-", &["boot"]).mentions(1, "web[3-");
    host.on("web[1-4]", &["uninstall", "-F"]).quiet();
    assert_eq!(
        states(&host),
        "master installed, web1 configured, web2 configured, web3 configured, web4 configured, web5 configured"
    );
}

#[test]
fn a_name_given_twice_is_one_zone() {
    let Some(host) = Host::with_web() else {
        return;
    };
    host.zoneadm(&["-z", "web", "-z", "we*", "boot"]).quiet();
    assert_eq!(host.state("web"), "running");
}

/// Returns every file below a folder with its size and time of change, without lock files.
fn everything(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let meta = entry.metadata().unwrap();
            let name = path.to_string_lossy().into_owned();
            if name.ends_with(".lock")
                || name.ends_with("/run/zones")
                || name.ends_with("/run/zones/mnt")
            {
                if meta.is_dir() {
                    folders.push(path);
                }
                continue;
            }
            if meta.is_dir() {
                folders.push(path);
            }
            found.push(format!(
                "{name} {} {:?}",
                meta.len(),
                meta.modified().unwrap()
            ));
        }
    }
    found.sort();
    found
}

#[test]
fn a_dry_run_prints_a_plan_and_changes_nothing() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.configure("new", "");
    host.clone_from("master", "run");
    host.boot("run");
    host.clone_from("master", "mnt");
    host.on("mnt", &["mount"]).quiet();
    // This is the last step of zoneadmd after a boot, after its answer to the command.
    e2e::wait_for("word of the boot in the log", || {
        let log = fs::read_to_string(host.path("/var/log/zones/run.messages"));
        log.ok().filter(|log| log.contains("booted, id"))
    });
    let rows = host.rows();
    let before = everything(host.root());
    let groups = e2e::cgroup::below(host.cgroup());
    for (zone, words, part) in [
        ("new", &["install", "-n"][..], "install brand native"),
        (
            "new",
            &["clone", "-n", "master"],
            "sealed layers of zone master",
        ),
        ("master", &["uninstall", "-n"], "remove the root of"),
        ("master", &["boot", "-n"], "make control groups"),
        ("master", &["ready", "-n"], "make control groups"),
        ("master", &["mount", "-n"], "/lu"),
        ("master", &["mark", "-n", "incomplete"], "incomplete"),
        ("run", &["halt", "-n"], "kill every process"),
        ("run", &["reboot", "-n"], "make control groups"),
        ("run", &["shutdown", "-n"], "init"),
        ("mnt", &["unmount", "-n"], "unmount"),
    ] {
        let ran = host.on(zone, words).ok();
        assert!(
            ran.out.contains(part) && ran.err.is_empty(),
            "no {part:?} in {ran:?}"
        );
    }
    assert_eq!(host.rows(), rows);
    assert_eq!(everything(host.root()), before);
    assert_eq!(e2e::cgroup::below(host.cgroup()), groups);
}

#[test]
fn a_dry_run_of_a_clone_configures_nothing() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let _ = host.on("web[1-3]", &["clone", "-n", "--create", "master"]);
    assert_eq!(host.rows().len(), 1);
}

#[test]
fn output_into_a_closed_pipe_is_no_panic() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    let mut shell = host.command("zoneadm", &[]);
    let program = shell.get_program().to_string_lossy().into_owned();
    shell = std::process::Command::new("sh");
    shell
        .args([
            "-c",
            &format!("for i in 1 2 3 4 5; do {program} list -cv | true; done"),
        ])
        .env("ZONES_ROOT", host.root())
        .env("ZONES_CGROUP", host.cgroup());
    let ran = e2e::run::run(&mut shell, b"").ok();
    assert_eq!(ran.err, "");
}

#[test]
fn an_unknown_subcommand_is_told_in_two_lines_with_the_one_that_is_meant() {
    let Some(host) = Host::new() else { return };
    for (program, words, meant) in [
        ("zoneadm", &["lsit"][..], "list"),
        ("zoneadm", &["-z", "web", "instal"], "install"),
        ("zoneadm", &["help", "bot"], "boot"),
        ("zoneimg", &["imprt"], "import"),
        ("zonepatch", &["aply"], "apply"),
        ("zonesuspend", &["verfy"], "verify"),
    ] {
        let ran = e2e::run::run(&mut host.command(program, words), b"");
        let word = words.last().expect("a word");
        let told = format!(
            "{program}: {word}: unknown subcommand; did you mean {meant}?\n\
             usage:\t{program} --help lists the subcommands"
        );
        ran.says(2, &told);
    }
    for program in ["zoneadm", "zoneimg", "zonepatch", "zonesuspend"] {
        let ran = e2e::run::run(&mut host.command(program, &[]), b"");
        assert!(
            ran.err.contains("no subcommand was given\nusage:"),
            "{ran:?}"
        );
        assert!(ran.err.lines().count() > 3, "{ran:?}");
    }
}

#[test]
fn every_program_has_a_version() {
    let Some(host) = Host::new() else { return };
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin");
    for entry in fs::read_dir(programs).expect("the folder of programs") {
        let entry = entry.expect("a program");
        let name = entry.file_name().into_string().expect("a plain name");
        // zinit is process 1 of a zone, and accepts no options.
        if !entry.path().is_dir() || name == "zinit" {
            continue;
        }
        let ran = e2e::run::run(&mut host.command(&name, &["--version"]), b"").ok();
        assert_eq!(ran.out, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn a_report_on_a_zone_that_is_not_configured_warns() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    let zonestat =
        |zones| e2e::run::run(&mut host.command("zonestat", &["-z", zones, "1", "1"]), b"");
    let warning = "zonestat: WARNING: nosuch: No such zone configured";
    zonestat("nosuch,web").says(0, warning);
    for known in ["web", "global", "no*"] {
        let ran = zonestat(known).ok();
        assert_eq!(ran.err, "", "{ran:?}");
    }
}

#[test]
fn a_relative_root_is_a_wrong_command_line_everywhere() {
    let Some(host) = Host::new() else { return };
    for (program, words) in [
        ("zonecfg", &["-z", "web", "create"][..]),
        ("zoneadm", &["list", "-cv"]),
        ("zoneadm", &["-z", "web", "install"]),
        ("zlogin", &["web", "true"]),
        ("zoneauthd", &[]),
        ("zps", &[]),
        ("zonestat", &["1", "1"]),
        ("zoneimg", &["list"]),
        ("zonepatch", &["status"]),
        ("zones-service", &["start", "-n"]),
    ] {
        let mut command = host.command(program, words);
        command.env("ZONES_ROOT", "zones");
        let ran = e2e::run::run(&mut command, b"");
        assert_eq!(ran.code(), Some(2), "{ran:?}");
        assert!(
            ran.err
                .trim_end()
                .ends_with("root path must be absolute: zones"),
            "{ran:?}"
        );
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
}
