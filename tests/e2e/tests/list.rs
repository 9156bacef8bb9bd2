//! Tests `zoneadm list` for every state and format.

use std::collections::HashMap;

use e2e::{Host, Row};

/// Makes a host with one zone in each lasting state. The name of the zone is the state.
fn zoo() -> Option<Host> {
    let host = Host::with_master()?;
    host.configure("configured", "");
    for zone in ["incomplete", "mounted", "ready", "running"] {
        host.clone_from("master", zone);
    }
    host.on("incomplete", &["mark", "incomplete"]).quiet();
    host.on("mounted", &["mount"]).quiet();
    host.boot("running");
    host.on("ready", &["ready"]).quiet();
    Some(host)
}

fn by_name(host: &Host) -> HashMap<String, Row> {
    let rows = host.rows().into_iter();
    rows.map(|row| (row.name.clone(), row)).collect()
}

#[test]
fn options_of_list_select_the_zones() {
    let Some(host) = zoo() else { return };
    let list = |words: &[&str]| {
        let ran = host.zoneadm(&[&["list"], words].concat()).ok();
        assert_eq!(ran.err, "");
        ran.out.replace('\n', " ")
    };
    assert_eq!(list(&[]), "global running ready ");
    assert_eq!(list(&["-n"]), "running ready ");
    assert_eq!(list(&["-i"]), "global running ready master mounted ");
    assert_eq!(
        list(&["-c"]),
        "global running ready master configured incomplete mounted "
    );
    assert_eq!(
        list(&["-cn"]),
        "running ready master configured incomplete mounted "
    );
    assert_eq!(list(&["-ci"]), list(&["-c"]));
}

#[test]
fn the_forms_of_a_line() {
    let Some(host) = zoo() else { return };
    let rows = by_name(&host);
    for (name, row) in &rows {
        let state = if name == "master" { "installed" } else { name };
        assert_eq!(row.state, state);
        assert_eq!(row.id.is_some(), matches!(state, "ready" | "running"));
        assert_eq!(row.uuid.is_empty(), state == "configured", "{row:?}");
    }
    let master = &rows["master"];
    let verbose = host.zoneadm(&["list", "-v"]).ok().out;
    assert_eq!(
        verbose,
        "  ID NAME             STATUS     PATH                           BRAND    IP    \n   \
         0 global           running    /                              native   shared\n   \
         1 running          running    /zones/running                 native   shared\n   \
         2 ready            ready      /zones/ready                   native   shared\n"
    );
    assert_eq!(
        host.on("master", &["list", "-v"]).ok().out.lines().nth(1),
        Some("   - master           installed  /zones/master                  native   shared")
    );
    assert_eq!(
        host.on("master", &["list", "-p"]).ok().out,
        format!(
            "-:master:installed:/zones/master:{}:native:shared:-:none\n",
            master.uuid
        )
    );
    assert_eq!(
        host.zoneadm(&["list", "-p"]).ok().out.lines().next(),
        Some("0:global:running:/::native:shared:-:")
    );
    assert_eq!(
        host.on("configured", &["list", "-p"]).ok().out,
        "-:configured:configured:/zones/configured::native:shared:-:none\n"
    );
    assert_eq!(
        host.on("master", &["list", "-s"]).ok().out,
        "NAME             STATUS     AUXILIARY STATE\nmaster           installed\n"
    );
}

#[test]
fn json_has_what_the_line_for_programs_has() {
    let Some(host) = zoo() else { return };
    let text = host.zoneadm(&["list", "-cj"]).ok().out;
    let zones: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let rows = by_name(&host);
    assert_eq!(zones.len(), rows.len() + 1);
    assert_eq!(zones[0]["name"], "global");
    assert_eq!(zones[0]["id"], 0);
    for zone in &zones[1..] {
        let row = &rows[zone["name"].as_str().unwrap()];
        assert_eq!(zone["state"], row.state.as_str());
        assert_eq!(zone["zonepath"], row.zonepath.as_str());
        assert_eq!(zone["brand"], "native");
        assert_eq!(zone["ip_type"], "shared");
        assert_eq!(zone["file_mac_profile"], "none");
        assert_eq!(zone["read_only"].is_null(), row.id.is_none());
        assert_eq!(zone["id"].as_u64(), row.id.map(u64::from));
        assert_eq!(zone["uuid"].as_str().unwrap_or_default(), row.uuid);
    }
}

#[test]
fn json_has_facts_for_pages_and_scripts() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let admin = "add admin; set user=daemon; set auths=login,manage; end";
    let net = "set ip-type=shared; add net; set address=192.0.2.7/24; set physical=lo; end";
    let limits = "set autoboot=true; set max-lwps=500; add capped-memory; set physical=1g; end";
    host.configure("web", &format!("{admin}; {net}; {limits}"));
    host.on("web", &["clone", "master"]).quiet();
    host.on("web", &["snapshot", "one"]).quiet();
    let before = std::time::SystemTime::now();
    host.clone_from("master", "db");
    host.boot("db");
    let listed = |text: &str| -> HashMap<String, serde_json::Value> {
        let zones: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        let named = |zone: serde_json::Value| (zone["name"].as_str().unwrap().to_owned(), zone);
        zones.into_iter().map(named).collect()
    };
    let zones = listed(&host.zoneadm(&["list", "-cj"]).ok().out);
    let web = &zones["web"];
    assert_eq!(web["autoboot"], true);
    assert_eq!(web["addresses"], serde_json::json!(["192.0.2.7/24"]));
    assert_eq!(web["caps"]["zone.max-lwps"], 500);
    assert_eq!(web["caps"]["zone.max-physical-memory"], 1 << 30);
    assert_eq!(web["snapshots"], 1);
    assert!(web["booted"].is_null());
    let may = web["may"].as_array().unwrap();
    assert!(may.contains(&"root".into()) && may.contains(&"manage".into()));
    let db = &zones["db"];
    assert_eq!(
        (&db["autoboot"], &db["snapshots"]),
        (&false.into(), &0.into())
    );
    let since = before.duration_since(std::time::UNIX_EPOCH).unwrap();
    let booted = db["booted"].as_u64().unwrap();
    assert!(booted.abs_diff(since.as_secs()) < 120, "{booted} {since:?}");
    // A user sees what the admin resources give to the user.
    let service = e2e::delegation::Service::start(&host);
    let of = |user: &str| listed(&service.run(user, "zoneadm list -cj").ok().out);
    let (daemon, games) = (of("daemon"), of("games"));
    assert_eq!(daemon["web"]["may"], serde_json::json!(["login", "manage"]));
    assert_eq!(daemon["db"]["may"], serde_json::json!([]));
    assert_eq!(games["web"]["may"], serde_json::json!([]));
    assert!(games["web"]["snapshots"].is_null());
}

#[test]
fn zones_by_name_glob_range_and_uuid_in_any_state() {
    let Some(host) = zoo() else { return };
    let uuid = host.row("incomplete").uuid;
    let list = |words: &[&str]| host.zoneadm(&[words, &["list"]].concat()).ok().out;
    assert_eq!(list(&["-z", "incomplete"]), "incomplete\n");
    assert_eq!(list(&["-u", &uuid]), "incomplete\n");
    // If a name is also the uuid of a zone, the uuid counts.
    assert_eq!(list(&["-u", &uuid, "-z", "master"]), "incomplete\n");
    let nobody = "00000000-0000-4000-8000-000000000000";
    assert_eq!(list(&["-u", nobody, "-z", "master"]), "master\n");
    assert_eq!(list(&["-z", "r*"]), "running\nready\n");
    assert_eq!(
        list(&["-z", "master", "-z", "running"]),
        "running\nmaster\n"
    );
    assert_eq!(list(&["-z", "global"]), "global\n");

    host.zoneadm(&["-u", nobody, "list"])
        .mentions(1, "No such zone configured");
    host.zoneadm(&["-u", "not-a-uuid", "list"])
        .mentions(1, "not-a-uuid");
    host.zoneadm(&["-z", "nobody", "list"])
        .says(1, "zoneadm: nobody: No such zone configured");
}

#[test]
fn options_that_do_not_go_together() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    host.zoneadm(&["list", "-pv"])
        .says(1, "zoneadm: list -p and -v are mutually exclusive.");
    host.zoneadm(&["list", "-ps"])
        .says(1, "zoneadm: list -p and -s are mutually exclusive.");
    for option in ["-i", "-c", "-n"] {
        host.on("web", &["list", option]).mentions(2, "usage");
    }
    host.zoneadm(&["list", "-x"]).mentions(2, "usage");
}

#[test]
fn a_long_path_and_a_colon_in_it_stay_whole() {
    let Some(host) = Host::new() else { return };
    let path = "/zones/a-very-long-path-that-has-a:colon";
    host.configure("web", &format!("set zonepath={path}"));
    let line = host.on("web", &["list", "-p"]).ok().out;
    assert_eq!(
        line,
        format!(
            "-:web:configured:{}::native:shared:-:none\n",
            path.replace(':', "\\:")
        )
    );
    let verbose = host.on("web", &["list", "-v"]).ok().out;
    assert!(verbose.contains(&format!(" {path} native ")), "{verbose}");
}

#[test]
fn list_in_a_zone_shows_only_that_zone() {
    let Some(host) = Host::with_web() else { return };
    for program in ["zoneadm", "zonename", "zlogin"] {
        let from = host.command(program, &[]).get_program().to_owned();
        host.put_program(
            "web",
            &format!("root/{program}"),
            std::fs::read(from).unwrap(),
        );
    }
    host.boot("web");
    assert_eq!(host.sh("web", "/root/zonename"), "web");
    assert_eq!(host.sh("web", "/root/zoneadm list"), "web");
    let line = host.sh("web", "/root/zoneadm list -p");
    assert_eq!(line.split(':').nth(3), Some("/"), "{line}");
    host.zlogin(&["web", "/root/zoneadm -z web halt"])
        .mentions(1, "global zone");
    host.zlogin(&["web", "/root/zlogin web id"])
        .mentions(1, "global zone");
    assert_eq!(host.state("web"), "running");
    // The host shows:
    let mut zonename = host.command("zonename", &[]);
    assert_eq!(e2e::run::run(&mut zonename, b"").ok().text(), "global");
}
