//! Tests that the rights of a delegated user do not reach other zones or the host.

use std::fs;

use e2e::delegation::{Service, admin};
use e2e::run::run;
use e2e::{Host, Terminal};

#[test]
fn rights_on_one_zone_give_no_access_to_another() {
    let Some(host) = Host::new() else { return };
    host.configure(
        "a",
        &admin(
            "daemon",
            "login,manage,clonefrom,copyfrom,config,liveconfig,migrate",
        ),
    );
    host.configure("b", &admin("bin", "login,manage,config"));
    let service = Service::start(&host);
    let secret = host.path("/secret");
    fs::write(&secret, "of the host\n").unwrap();
    let attempts: &[&str] = &[
        "zoneadm -z b boot",
        "zoneadm -z b halt",
        "zoneadm -z b install",
        "zoneadm -z b uninstall -F",
        "zoneadm -z a -z b verify",
        "zoneadm -z b -z a verify",
        "zoneadm -z * verify",
        "zoneadm -z ? verify",
        "zoneadm -z b verify -z a",
        "zoneadm -zb verify",
        "zoneadm -z a clone b",
        "zoneadm -z b clone a",
        "zoneadm -z a clone --create b",
        "zlogin b",
        "zlogin b id",
        "zlogin -C b",
        "zlogin -l a b id",
        "zlogin -S b",
        "zonecfg -z b set autoboot=true",
        "zonecfg -z b delete -F",
        "zonecfg -z a -z b set autoboot=true",
        // These changes concern the user's own zone a, but reach beyond it.
        "zoneadm -z a install -a /mnt/secret",
        "zoneadm -z a install -d /",
        "zoneadm -z a install -d/",
        "zoneadm -z a mark incomplete",
        "zoneadm -z a move /mnt/a",
        "zoneadm -z a move -n /mnt/a",
        "zoneadm -z a mount",
        "zoneadm -R / -z a mount",
        "zoneadm -R /mnt -z a mount",
        "zonecfg -z other create",
        "zonecfg -z a delete -F",
        "zonecfg -z a create -F -b",
        "zonecfg -z a -f /mnt/secret",
        "zonecfg -z a set zonename=b2",
        "zonecfg -z global set cpu-shares=9",
    ];
    let before = host.zoneadm(&["list", "-cp"]).ok().out;
    let configured = |zone: &str| host.zonecfg(&["-z", zone, "export"]).ok().out;
    let (a, b) = (configured("a"), configured("b"));
    for line in attempts {
        let ran = service.run("daemon", line);
        assert!(matches!(ran.code(), Some(1 | 2)), "{ran:?}");
        assert!(!ran.out.contains("of the host"), "{ran:?}");
        assert!(!ran.err.is_empty(), "{ran:?}");
    }
    // A line feed or a blank in a word does not begin a second word.
    for zone in ["a\nb", "a -z b", "b\n", " b", "a,b", "", "a\u{0}b"] {
        let words = ["-z", zone, "verify"];
        if !zone.contains('\0') {
            let ran = service.run_words("daemon", "zoneadm", &words);
            assert_eq!(ran.code(), Some(1), "{ran:?}");
        }
    }
    assert_eq!(host.zoneadm(&["list", "-cp"]).ok().out, before);
    assert_eq!((configured("a"), configured("b")), (a, b));
    let granted: Vec<_> = service
        .log()
        .into_iter()
        .filter(|line| line.contains("granted"))
        .collect();
    // The log has only sessions of zonecfg that stored nothing.
    assert!(
        granted
            .iter()
            .all(|line| line.contains(" zone=a verb=config ")),
        "{granted:#?}"
    );
    service.run("daemon", "zoneadm -z b boot").says(
        1,
        "zoneadm: zone 'b': User daemon is not authorized to boot this zone.",
    );
    service.run("daemon", "zoneadm -z nowhere boot").says(
        1,
        "zoneadm: zone 'nowhere': User daemon is not authorized to boot this zone.",
    );
    service.run("daemon", "zlogin b").says(
        1,
        "zlogin: user daemon is not authorized to log in to zone 'b'.",
    );
    service
        .run("daemon", "zoneadm -z a mount")
        .says(1, "zoneadm: mount is for root alone");
}

#[test]
fn a_user_who_may_configure_does_not_reach_the_host() {
    let Some(host) = Host::new() else { return };
    host.configure(
        "a",
        &format!(
            "set limitpriv=default; add fs; set dir=/data; set special=/srv; set type=lofs; end; {}",
            admin("daemon", "config")
        ),
    );
    let service = Service::start(&host);
    let configured = || host.zonecfg(&["-z", "a", "export"]).ok().out;
    let before = configured();
    let stolen = host.path("/stolen");
    fs::write(&stolen, "").unwrap();
    for commands in [
        "add fs; set dir=/h; set special=/; set type=lofs; end",
        "select fs dir=/data; set special=/; end",
        "select fs dir=/data; add options suid; end",
        "remove fs dir=/data",
        "remove -F fs",
        "add admin; set user=daemon; set auths=login; end",
        "select admin user=daemon; set auths=config,login,manage; end",
        "remove -F admin; set autoboot=true",
        "add device; set match=/dev/sda; end",
        "add net; set physical=lo; set address=127.0.0.9; end",
        "add dataset; set name=rpool/x; end",
        "add inherit-pkg-dir; set dir=/root; end",
        "set zonepath=/etc",
        "set zonename=b",
        "set brand=lx",
        "set limitpriv=default,sys_time",
        "set ip-type=exclusive",
        "set fs-allowed=ext4",
        "set pool=p",
        "clear limitpriv; set limitpriv=all",
        "create -F",
        "create -F -b",
        "create -F -a /etc",
        "delete -F",
        "export -f /mnt/stolen",
        "export -f /mnt/new",
    ] {
        for (input, words) in [
            ("", &["-z", "a", commands][..]),
            (commands, &["-z", "a", "-f", "-"]),
        ] {
            let ran = run(
                &mut service.command("daemon", "zonecfg", words),
                input.as_bytes(),
            );
            assert_eq!(ran.code(), Some(1), "{commands}: {ran:?}");
        }
        assert_eq!(configured(), before, "{commands}");
    }
    assert_eq!(fs::read(&stolen).unwrap(), b"");
    assert!(!host.path("/new").exists());
    // A commit with both allowed and forbidden changes stores neither.
    let both = ["-z", "a", "set bootargs=-s; set zonepath=/etc"];
    service
        .run_words("daemon", "zonecfg", &both)
        .mentions(1, "only root may change zonepath");
    assert_eq!(configured(), before);
    for commands in [
        "set autoboot=true",
        "set bootargs=-s; set max-lwps=500",
        "add attr; set name=owner; set type=string; set value=d; end",
        "add capped-memory; set physical=1G; end",
    ] {
        service
            .run_words("daemon", "zonecfg", &["-z", "a", commands])
            .quiet();
    }
    let ran = run(
        &mut service.command("daemon", "zonecfg", &["-z", "a", "-f", "-"]),
        b"set hostid=7\nset bootargs=\n",
    );
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let after = configured();
    for part in [
        "set autoboot=true",
        "set hostid=7",
        "set name=owner",
        "set physical=1G",
    ] {
        assert!(after.contains(part), "{part} in {after}");
    }
    assert!(!after.contains("bootargs"), "{after}");
    // This session runs at a terminal, with a prompt.
    let words = ["-z", "a"];
    let mut terminal = Terminal::start(service.command("daemon", "zonecfg", &words));
    terminal.expect("zonecfg:a> ");
    terminal.types("set autoboot=false\r");
    terminal.expect("zonecfg:a> ");
    terminal.types("exit\r");
    assert_eq!(terminal.status(), 0);
    assert!(configured().contains("set autoboot=false"));
    // A user without delegation can read the configuration, and nothing more.
    let mut terminal = Terminal::start(service.command("games", "zonecfg", &words));
    terminal.expect("going into read-only mode");
    terminal.expect("zonecfg:a> ");
    terminal.types("set autoboot=true\r");
    terminal.expect("cannot set in read-only mode");
    terminal.types("exit\r");
    assert_eq!(terminal.status(), 1);
    assert!(configured().contains("set autoboot=false"));
}
