//! create, delete, commit, revert, verify, exit.

mod common;

use common::Host;
use model::State;

#[test]
fn create() {
    let host = Host::new();
    insta::assert_snapshot!(host.transcript(&[
        "info",
        "create -b",
        "info",
        "create",
        "create -F -b; set autoboot=true",
        "info autoboot",
        "create -F -t SUNWlx",
        "create -F -t nosuch",
        "create -x",
        "info brand",
    ]));
}

#[test]
fn create_from_the_default_template_is_sparse() {
    let host = Host::new();
    assert_eq!(host.status(&["-z", "web1", "create"]), 0);
    let config = store::xml::load(&host.root(), &"web1".parse().unwrap()).unwrap();
    assert!(config.inherited_dirs().contains(&"/usr".into()));
    let text = std::fs::read_to_string(host.root().index()).unwrap();
    assert!(text.ends_with("\nweb1:configured:/zones/web1:\n"), "{text}");
}

#[test]
fn a_zone_can_be_a_template() {
    let host = Host::with_web1();
    insta::assert_snapshot!(
        [
            host.run(&["-z", "web1", "set bootargs=-v; set zonepath=/z/%{zonename}"]),
            host.run(&["-z", "web2", "create -t web1"]),
            host.run(&["-z", "web2", "info"]),
        ]
        .join("\n")
    );
}

#[test]
fn create_is_refused_once_installed() {
    let host = Host::with_web1();
    let mut transcript = String::new();
    for state in [State::Incomplete, State::Installed] {
        host.set_state("web1", state);
        transcript.push_str(&host.run(&["-z", "web1", "create -F"]));
    }
    insta::assert_snapshot!(transcript);
}

#[test]
fn delete() {
    let host = Host::with_web1();
    std::fs::create_dir_all(host.dir().join("zones/web1/root")).unwrap();
    // A migration to another host was killed at its end.
    let gone = host.dir().join("zones/.web1.gone");
    std::fs::create_dir(&gone).unwrap();
    insta::assert_snapshot!(host.transcript(&["delete", "delete -F", "info", "delete -F"]));
    assert!(!host.root().xml(&"web1".parse().unwrap()).exists());
    assert!(host.dir().join("zones/web1/root").exists());
    assert!(!host.root().lock(&"web1".parse().unwrap()).exists());
    assert!(!gone.exists());
}

#[test]
fn delete_of_an_installed_zone_takes_force() {
    let host = Host::with_web1();
    host.set_state("web1", State::Installed);
    let without = host.run_with(&["-z", "web1"], "delete\n");
    insta::assert_snapshot!(format!(
        "{without}\n{}",
        host.transcript(&["delete -F", "info"])
    ));
}

#[test]
fn delete_gets_rid_of_a_damaged_configuration() {
    let host = Host::with_web1();
    let name = "web1".parse().unwrap();
    std::fs::write(host.root().xml(&name), "<zone name='web1'><bogus/></zone>").unwrap();
    insta::assert_snapshot!(host.transcript(&["info", "create -F", "delete -F", "create -b"]));
}

#[test]
fn commit_verify_revert() {
    let host = Host::new();
    insta::assert_snapshot!(host.transcript(&[
        "create -b; verify; commit; set bootargs=-v; revert -F; info bootargs",
        "set bootargs=-v; revert",
        "revert",
        "set pool=SUNWx; add attr; set name=a; set type=string; set value=b; end; verify",
        "info pool; info attr",
        "set pool=SUNWx; exit -F",
        "add attr; exit",
        "add attr; exit -F",
        "add attr",
        "exit now",
    ]));
}

#[test]
fn a_rename_moves_the_entry_and_the_file() {
    let host = Host::with_web1();
    let renamed = host.run(&["-z", "web1", "set zonename=web2"]);
    let after = [
        host.run(&["-z", "web1", "info zonepath"]),
        host.run(&["-z", "web2", "info zonepath"]),
    ];
    insta::assert_snapshot!(format!("{renamed}\n{}", after.join("\n")));
    let index = std::fs::read_to_string(host.root().index()).unwrap();
    assert!(
        index.ends_with("\nweb2:configured:/zones/web2:\n"),
        "{index}"
    );
    let old = "web1".parse().unwrap();
    assert!(!host.root().xml(&old).exists());
    for lock in [host.root().lock(&old), host.root().root_lock(&old)] {
        assert!(!lock.exists(), "{}", lock.display());
    }
}

/// Returns a host whose new zones get a default link.
fn host_with_default_links() -> Host {
    let host = Host::new();
    let set = ["-z", "global", "set default-network=anet"];
    assert_eq!(host.status(&set), 0);
    host
}

/// Returns the lines about the network in the export of a zone, except that of the default ip-type.
fn network(host: &Host, zone: &str) -> Vec<String> {
    let text = host.run(&["-z", zone, "export"]);
    let words = [
        "ip-type",
        "net",
        "anet",
        "physical",
        "address",
        "lower-link",
    ];
    let lines = text.lines().filter(|line| {
        let mut parts = line.split([' ', '=']);
        *line != "set ip-type=shared" && parts.any(|part| words.contains(&part))
    });
    lines.map(str::to_owned).collect()
}

#[test]
fn create_gives_a_default_link_that_other_links_replace() {
    let host = host_with_default_links();
    let create = |zone: &str, commands: &str| {
        assert_eq!(host.status(&["-z", zone, commands]), 0, "{commands}");
        network(&host, zone)
    };
    let link = ["set ip-type=exclusive", "add anet"];
    assert_eq!(create("plain", "create"), link);
    // A session that changes other properties keeps the link.
    assert_eq!(create("plain", "set autoboot=true"), link);

    let net = "add net; set physical=eth0; set address=10.0.0.2; end";
    let shared = ["add net", "set address=10.0.0.2", "set physical=eth0"];
    assert_eq!(create("one", &format!("create; {net}")), shared);
    // In sessions of their own, as automation does it.
    assert_eq!(create("plain", net), shared);

    assert!(create("none", "create; set ip-type=shared").is_empty());
    assert_eq!(
        create(
            "own",
            "create; set ip-type=exclusive; add net; set physical=eth1; end"
        ),
        ["set ip-type=exclusive", "add net", "set physical=eth1"]
    );
    assert!(create("blank", "create -b").is_empty());
    assert!(create("named", "create -t SUNWdefault").is_empty());
    assert_eq!(
        create("removed", "create; remove anet"),
        ["set ip-type=exclusive"]
    );
}

#[test]
fn an_installed_zone_keeps_its_default_link_beside_a_link_of_its_own() {
    let host = host_with_default_links();
    assert_eq!(host.status(&["-z", "web1", "create"]), 0);
    host.set_state("web1", State::Installed);
    let add = ["-z", "web1", "add net; set physical=eth1; end"];
    assert_eq!(host.status(&add), 0);
    let both = [
        "set ip-type=exclusive",
        "add net",
        "set physical=eth1",
        "add anet",
    ];
    assert_eq!(network(&host, "web1"), both);
}

#[test]
fn the_global_zone_s_setting_leaves_the_default_link_out() {
    let host = host_with_default_links();
    assert_eq!(
        host.status(&["-z", "global", "set default-network=none"]),
        0
    );
    assert_eq!(host.status(&["-z", "web1", "create"]), 0);
    assert!(network(&host, "web1").is_empty());
    assert_ne!(host.status(&["-z", "web1", "set default-network=none"]), 0);
}
