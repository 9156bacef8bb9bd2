//! Tests which verbs each state allows: notices, refusals, and their exit statuses.

use e2e::Host;

/// Makes a host with one zone in each lasting state, as clones of `master`. The name of the zone is
/// the state.
fn zoo() -> Option<Host> {
    let host = Host::with_master()?;
    host.configure("configured", "");
    for zone in ["incomplete", "installed", "mounted", "ready", "running"] {
        host.clone_from("master", zone);
    }
    host.on("incomplete", &["mark", "incomplete"]).quiet();
    host.on("mounted", &["mount"]).quiet();
    host.boot("running");
    host.on("ready", &["ready"]).quiet();
    Some(host)
}

/// The message of a verb in a state in which the verb does nothing. The exit status is 0 if the
/// message begins with "zone is already".
const TABLE: &[(&str, &[&str], &str)] = &[
    ("running", &["boot"], "zone is already booted"),
    ("running", &["ready"], "zone is already booted"),
    ("ready", &["ready"], "zone is already ready"),
    ("installed", &["halt"], "zone is already halted"),
    ("installed", &["unmount"], "zone is already unmounted"),
    ("mounted", &["mount"], "zone is already mounted"),
    ("configured", &["boot"], "must be installed before boot."),
    ("configured", &["ready"], "must be installed before ready."),
    ("configured", &["halt"], "must be installed before halt."),
    ("configured", &["mount"], "must be installed before mount."),
    (
        "configured",
        &["unmount"],
        "must be mounted before unmount.",
    ),
    ("configured", &["reboot"], "not running"),
    ("configured", &["shutdown"], "not running"),
    (
        "configured",
        &["uninstall", "-F"],
        "is already in state 'configured'.",
    ),
    (
        "incomplete",
        &["boot"],
        "zone is incomplete; uninstall required.",
    ),
    (
        "incomplete",
        &["ready"],
        "zone is incomplete; uninstall required.",
    ),
    (
        "incomplete",
        &["halt"],
        "zone is incomplete; uninstall required.",
    ),
    (
        "incomplete",
        &["mount"],
        "zone is incomplete; uninstall required.",
    ),
    (
        "incomplete",
        &["install"],
        "zone is incomplete; uninstall required.",
    ),
    (
        "incomplete",
        &["clone", "installed"],
        "zone is incomplete; uninstall required.",
    ),
    (
        "incomplete",
        &["verify"],
        "zone is incomplete; uninstall required.",
    ),
    ("incomplete", &["reboot"], "not running"),
    ("incomplete", &["shutdown"], "not running"),
    ("installed", &["install"], "is already installed."),
    ("installed", &["clone", "master"], "is already installed."),
    ("installed", &["reboot"], "not running"),
    ("installed", &["shutdown"], "not running"),
    (
        "mounted",
        &["boot"],
        "boot operation is invalid for mounted zones.",
    ),
    (
        "mounted",
        &["ready"],
        "ready operation is invalid for mounted zones.",
    ),
    (
        "mounted",
        &["halt"],
        "halt operation is invalid for mounted zones.",
    ),
    (
        "mounted",
        &["install"],
        "install operation is invalid for mounted zones.",
    ),
    (
        "mounted",
        &["uninstall", "-F"],
        "uninstall operation is invalid for mounted zones.",
    ),
    (
        "mounted",
        &["mark", "incomplete"],
        "mark operation is invalid for mounted zones.",
    ),
    (
        "ready",
        &["install"],
        "install operation is invalid for ready zones.",
    ),
    (
        "ready",
        &["uninstall", "-F"],
        "uninstall operation is invalid for ready zones.",
    ),
    (
        "ready",
        &["mount"],
        "mount operation is invalid for ready zones.",
    ),
    (
        "ready",
        &["shutdown"],
        "shutdown operation is invalid for ready zones.",
    ),
    (
        "ready",
        &["mark", "incomplete"],
        "mark operation is invalid for ready zones.",
    ),
    (
        "running",
        &["install"],
        "install operation is invalid for running zones.",
    ),
    (
        "running",
        &["clone", "installed"],
        "clone operation is invalid for running zones.",
    ),
    (
        "running",
        &["uninstall", "-F"],
        "uninstall operation is invalid for running zones.",
    ),
    (
        "running",
        &["mount"],
        "mount operation is invalid for running zones.",
    ),
    (
        "running",
        &["mark", "incomplete"],
        "mark operation is invalid for running zones.",
    ),
    (
        "configured",
        &["clone", "running"],
        "zone running is running; installed is required.",
    ),
    (
        "configured",
        &["clone", "incomplete"],
        "zone incomplete is incomplete; installed is required.",
    ),
    (
        "configured",
        &["clone", "configured"],
        "zone configured is configured; installed is required.",
    ),
];

#[test]
fn every_notice_and_refusal() {
    let Some(host) = zoo() else { return };
    let before = host.rows();
    for (zone, words, text) in TABLE {
        let status = i32::from(!text.starts_with("zone is already"));
        // Solaris prints the source of a clone, without the name of the new zone.
        let expected = match text.strip_suffix("; installed is required.") {
            Some(_) => format!("zoneadm: {text}"),
            None => format!("zoneadm: zone '{zone}': {text}"),
        };
        let ran = host.on(zone, words);
        assert_eq!(
            (ran.code(), ran.err.trim_end(), ran.out.as_str()),
            (Some(status), expected.as_str(), ""),
            "{ran:?}"
        );
    }
    assert_eq!(host.rows(), before);
}

#[test]
fn a_zone_is_no_clone_of_itself() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.on("master", &["clone", "master"])
        .mentions(1, "must be different zones");
    host.configure("web", "");
    host.on("web", &["clone", "nobody"])
        .says(1, "zoneadm: nobody: No such zone configured");
    assert_eq!(host.state("web"), "configured");
}

#[test]
fn verify_lists_all_that_is_wrong() {
    use std::os::unix::fs::PermissionsExt;
    let Some(host) = Host::with_web() else {
        return;
    };
    let path = host.path("/zones/web");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let wanted = "/zones/web must not be group readable.\n\
                  /zones/web must not be group executable.\n\
                  /zones/web must not be world readable.\n\
                  /zones/web must not be world executable.\n\
                  could not verify zonepath /zones/web because of the above errors.\n\
                  zoneadm: zone web failed to verify";
    for verb in ["verify", "boot", "ready"] {
        host.on("web", &[verb]).says(1, wanted);
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    host.on("web", &["verify"]).quiet();
    let parent = host.path("/zones");
    std::fs::set_permissions(&parent, std::fs::Permissions::from_mode(0o777)).unwrap();
    let wanted = "/zones must not be group writable.\n\
                  /zones must not be world writable.\n\
                  could not verify zonepath /zones/web because of the above errors.\n\
                  zoneadm: zone web failed to verify";
    host.on("web", &["verify"]).says(1, wanted);
    std::fs::set_permissions(&parent, std::fs::Permissions::from_mode(0o755)).unwrap();

    host.configure("inner", "set zonepath=/zones/web/inner");
    host.on("inner", &["install"]).mentions(1, "overlap");
    host.configure(
        "lofs",
        "add fs; set dir=/mnt; set special=/nowhere/at/all; set type=lofs; end",
    );
    host.on("lofs", &["install"]).mentions(1, "/nowhere/at/all");
    assert_eq!(
        (host.state("inner"), host.state("lofs")),
        ("configured".into(), "configured".into())
    );
}

#[test]
fn the_global_zone_is_left_alone() {
    let Some(host) = Host::new() else { return };
    for words in [
        &["boot"][..],
        &["halt"],
        &["install"],
        &["uninstall", "-F"],
        &["reboot"],
        &["mark", "incomplete"],
    ] {
        let text = format!(
            "zoneadm: zone 'global': {} operation is invalid for the global zone.",
            words[0]
        );
        host.on("global", words).says(1, &text);
    }
}

#[test]
fn a_locked_zone_refuses_a_second_command() {
    let Some(host) = Host::with_web() else {
        return;
    };
    let lock = host.path("/run/zones/web.zoneadm.lock");
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(lock)
        .unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    host.on("web", &["boot"]).says(
        1,
        "zoneadm: zone 'web': another zoneadm may have an operation in progress.",
    );
    e2e::between_starts(|| drop(file));
    host.boot("web");
}
