//! Tests the services of Debian in an immutable zone: each profile with systemd, journald, nginx,
//! sshd, cron and PostgreSQL.

use std::fs;

use e2e::{Host, wait_for};

const PACKAGES: &str = "systemd-sysv,dbus,nginx-light,openssh-server,cron,postgresql";

/// Returns the states of units in `web`, in one line.
fn active(host: &Host, units: &str) -> String {
    let ran = host.zlogin(&["web", &format!("systemctl is-active {units}")]);
    ran.out.trim().replace('\n', " ")
}

/// Waits until `web` is read-only and systemd has started everything.
fn up(host: &Host) {
    wait_for("the zone read-only, with its services", || {
        let line = host.on("web", &["list", "-p"]).ok().out;
        let sealed = line.trim_end().rsplit(':').nth(1) == Some("R");
        let state = || {
            host.zlogin(&["-S", "web", "systemctl is-system-running"])
                .out
        };
        (sealed && ["running\n", "degraded\n"].contains(&state().as_str())).then_some(())
    });
}

#[test]
fn services_of_debian_run_under_each_profile() {
    let Some(host) = Host::new() else { return };
    let name = "bookworm-services";
    let is_made = std::env::temp_dir()
        .join("zones-test-roots")
        .join(format!("{name}.tar"));
    if !is_made.exists() && e2e::left_to_long_runs("the root is downloaded") {
        return;
    }
    let root = match e2e::roots::root(name, "bookworm", PACKAGES) {
        Ok(root) => root,
        Err(why) => return e2e::skip(&why),
    };
    fs::create_dir(host.path("/data")).unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(host.path("/data"), closed).unwrap();
    let fs = |dir: &str, name: &str| {
        let special = host.path(&format!("/data{name}"));
        format!(
            "add fs; set dir={dir}; set special={}; set type=lofs; end",
            special.display()
        )
    };
    let configuration = format!(
        "create -t SYSlx; remove anet; set file-mac-profile=strict; {}",
        fs("/mnt", "")
    );
    host.zonecfg(&["-z", "web", &configuration]).quiet();
    let _ = host
        .on("web", &["install", "-a", &root.to_string_lossy()])
        .ok();
    // A new zone has no host keys. The data of services lies on file systems of the configuration.
    host.on("web", &["boot", "-w"]).quiet();
    let _ = host.zlogin(&[
        "web",
        "ssh-keygen -A && cp -a /var/log /mnt/log && cp -a /var/lib/nginx /var/lib/postgresql /mnt",
    ]).ok();
    host.halt("web");
    let several = [
        fs("/var/log", "/log"),
        fs("/var/lib/nginx", "/nginx"),
        fs("/var/lib/postgresql", "/postgresql"),
    ];
    let all = "nginx ssh cron systemd-journald postgresql@15-main";
    host.zonecfg(&["-z", "web", "remove fs dir=/mnt"]).quiet();
    for (profile, configuration, units) in [
        ("flexible-configuration", "", all),
        ("fixed-configuration", "", all),
        ("strict", "", "ssh cron systemd-journald"),
        ("strict", several.join("; ").as_str(), all),
    ] {
        let set = format!("set file-mac-profile={profile}; {configuration}");
        host.zonecfg(&["-z", "web", set.trim_end_matches("; ")])
            .quiet();
        host.boot("web");
        up(&host);
        let expected = vec!["active"; units.split(' ').count()].join(" ");
        let found = active(&host, units);
        let journal = "systemctl --failed --no-legend; journalctl -b -p 4 --no-pager | tail -40";
        assert_eq!(
            found,
            expected,
            "{profile} {units}: {:?}",
            host.zlogin(&["web", journal])
        );
        if units == all {
            let sum = host.zlogin(&["web", "cd /; su postgres -c \"psql -Atc 'select 40 + 2'\""]);
            assert_eq!(sum.ok().out, "42\n", "{profile}");
        }
        host.halt("web");
    }
}
