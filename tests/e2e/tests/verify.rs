//! What `zoneadm verify` says before a boot would fail.

use e2e::Host;

#[test]
fn no_file_system_lies_where_the_system_s_own_are_mounted() {
    let Some(host) = Host::with_web() else { return };
    for dir in ["/dev/x", "/proc/x", "/sys"] {
        let add = format!("add fs; set dir={dir}; set special=none; set type=tmpfs; end");
        host.zonecfg(&["-z", "web", &add]).quiet();
        for verb in ["verify", "boot"] {
            host.on("web", &[verb])
                .mentions(1, &format!("could not verify fs {dir}: "));
        }
        host.zonecfg(&["-z", "web", &format!("remove fs dir={dir}")])
            .quiet();
    }
    host.on("web", &["verify"]).quiet();
}

#[test]
fn a_change_of_the_zonepath_that_was_cut_off_is_completed() {
    let Some(host) = Host::new() else { return };
    host.configure("new", "");
    // As a zonecfg leaves it that is killed before it writes the index.
    let file = host.path("/etc/zones/new.xml");
    let text = std::fs::read_to_string(&file).expect("its configuration");
    let text = text.replace("/zones/%{zonename}", "/zones/elsewhere");
    std::fs::write(&file, text).expect("its configuration");
    host.on("new", &["install"])
        .mentions(1, "zonecfg -z new commit");
    host.zonecfg(&["-z", "new", "commit"]).quiet();
    assert_eq!(host.row("new").zonepath, "/zones/elsewhere");
    host.on("new", &["verify"]).quiet();
}
