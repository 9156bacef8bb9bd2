//! Tests `zoneadm uninstall --delete`, which removes the files and the configurations of zones.

use e2e::{Host, Terminal};

const DELETE: &[&str] = &["uninstall", "--delete", "-F"];

fn names(host: &Host) -> Vec<String> {
    host.rows().into_iter().map(|row| row.name).collect()
}

#[test]
fn deletes_zones_with_and_without_files_and_leaves_no_file() {
    let Some(host) = Host::new() else { return };
    host.install("master");
    for zone in ["web1", "web2"] {
        host.clone_from("master", zone);
    }
    host.configure("new", "");
    host.on("web1", &["mark", "incomplete"]).quiet();
    host.zoneadm(&[&["-z", "web*", "-z", "new"], DELETE].concat())
        .quiet();
    assert_eq!(names(&host), ["master"]);
    for zone in ["web1", "web2", "new"] {
        assert!(!host.path(&format!("/zones/{zone}")).exists(), "{zone}");
        assert!(!host.path(&format!("/etc/zones/{zone}.xml")).exists());
        assert!(
            !host
                .path(&format!("/run/zones/{zone}.zoneadm.lock"))
                .exists()
        );
    }
    host.on("web1", DELETE)
        .says(1, "zoneadm: web1: No such zone configured");
    host.zoneadm(&["check"]).quiet();
}

#[test]
fn refuses_a_running_zone_and_deletes_the_others() {
    let Some(host) = Host::new() else { return };
    host.install("web");
    host.configure("new", "");
    host.boot("web");
    host.zoneadm(&[&["-z", "web", "-z", "new"], DELETE].concat())
        .says(
            1,
            "zoneadm: zone 'web': uninstall operation is invalid for running zones.",
        );
    assert_eq!(names(&host), ["web"]);
    assert_eq!(host.state("web"), "running");
    host.halt("web");
    host.on("web", DELETE).quiet();
    assert_eq!(names(&host), [""; 0]);
}

#[test]
fn keeps_the_root_of_a_detached_zone_as_zonecfg_delete_does() {
    let Some(host) = Host::new() else { return };
    host.install("web");
    let _ = host.on("web", &["detach"]).ok();
    host.on("web", DELETE).quiet();
    assert_eq!(names(&host), [""; 0]);
    assert!(host.path("/zones/web/root").exists());
    // The root is attached again and removed with its zone.
    host.zonecfg(&["-z", "web", "create -a /zones/web"]).quiet();
    let _ = host.on("web", &["attach"]).ok();
    host.on("web", DELETE).quiet();
    assert!(!host.path("/zones/web").exists());
}

#[test]
fn prints_the_plan_and_asks_before_it_deletes() {
    let Some(host) = Host::new() else { return };
    host.install("web");
    let plan = host.on("web", &["uninstall", "--delete", "-n"]).ok().out;
    let last = plan.lines().last();
    assert_eq!(last, Some("  delete the configuration"), "{plan}");
    let words = ["-z", "web", "uninstall", "--delete"];
    let mut asked = Terminal::start(host.command("zoneadm", &words));
    asked.expect("uninstall and delete zone web (y/[n])? ");
    asked.types("n\n");
    assert_eq!(asked.status(), 0);
    assert_eq!(host.state("web"), "installed");
    host.on("web", DELETE).quiet();
}

#[test]
fn completes_a_deletion_that_was_killed_after_its_write_of_the_index() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    let index = host.path("/etc/zones/index");
    let text = std::fs::read_to_string(&index).unwrap();
    let without = text.lines().filter(|line| !line.starts_with("web:"));
    let without: Vec<&str> = without.collect();
    std::fs::write(&index, without.join("\n") + "\n").unwrap();
    host.on("web", DELETE).quiet();
    assert!(!host.path("/etc/zones/web.xml").exists());
}

#[test]
fn keeps_a_template_that_a_range_happens_to_match() {
    let Some(host) = Host::new() else { return };
    host.configure("web1", "");
    // A site's template: a configuration file that the index does not name.
    let template = host.path("/etc/zones/web2.xml");
    std::fs::copy(host.path("/etc/zones/web1.xml"), &template).unwrap();
    host.zoneadm(&[&["-z", "web[1-2]"], DELETE].concat())
        .says(1, "zoneadm: web2: No such zone configured");
    assert_eq!(names(&host), [""; 0]);
    assert!(template.exists());
    host.on("web2", DELETE).quiet();
    assert!(!template.exists());
}
