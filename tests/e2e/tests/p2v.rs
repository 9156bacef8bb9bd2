//! Tests `zonep2vchk` on invented systems, and zonecfg on the configuration that it prints.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use e2e::run::run;
use e2e::{Host, Ran};

/// A system with an example of every fact that zonep2vchk reports.
fn system(host: &Host) -> PathBuf {
    let tree = host.path("old");
    let put = |path: &str, text: &str| {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("etc/hostname", "shop\n");
    put(
        "etc/os-release",
        "NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
    );
    put("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    put(
        "proc/meminfo",
        "MemTotal:        4194304 kB\nMemFree: 1 kB\n",
    );
    put(
        "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: x\nprocessor\t: 1\n",
    );
    put("etc/modules", "kvm\n");
    put(
        "etc/sysctl.conf",
        "vm.swappiness=1\nnet.ipv4.ip_forward=1\n",
    );
    put(
        "etc/fstab",
        "UUID=1 / ext4 defaults 0 1\nUUID=2 /srv/shop xfs defaults 0 2\n/dev/sda3 none swap sw 0 0\n\
         nas:/mail /srv/mail nfs4 defaults 0 0\n",
    );
    put("etc/exports", "/srv/shop 192.0.2.0/24(rw)\n");
    put(
        "etc/network/interfaces",
        "auto lo\niface lo inet loopback\nauto eth0\niface eth0 inet static\n\taddress 192.0.2.5\n\
         \tnetmask 255.255.255.0\n\tgateway 192.0.2.1\niface eth0 inet6 static\n\taddress 2001:db8::5/64\n\
         iface eth1 inet dhcp\n",
    );
    let wants = tree.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants).unwrap();
    for unit in [
        "docker.service",
        "cron.service",
        "chrony.service",
        "nftables.service",
    ] {
        symlink(format!("/lib/systemd/system/{unit}"), wants.join(unit)).unwrap();
    }
    put("opt/shop/clock", "\u{7f}ELF\0printf\0clock_settime\0");
    tree
}

fn zonep2vchk(host: &Host, words: &[&str]) -> Ran {
    let tree = host.path("old");
    let root = ["-R", tree.to_str().unwrap()];
    run(
        &mut host.command("zonep2vchk", &[&root, words].concat()),
        b"",
    )
}

#[test]
fn zonep2vchk_reports_features_that_do_not_work_in_a_zone() {
    let Some(host) = Host::new() else { return };
    system(&host);
    let ran = zonep2vchk(&host, &[]);
    assert_eq!((ran.code(), ran.err.as_str()), (Some(3), ""), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    for line in [
        "  - Source System: shop",
        "      Kernel:           6.1.0-18-amd64",
        "      IP type:          exclusive",
        "--Executing basic checks",
        "  - The following services will not work in a zone. Disable them in it:",
        "      docker.service",
        "      chrony.service",
        "      kvm",
        "      vm.swappiness",
        "      UUID=1",
        "      UUID=2",
        "      /dev/sda3",
        "      nas:/mail",
        "      /srv/shop",
        "  Basic checks complete. Issue(s) detected: 9",
        "--Total issue(s) detected: 9",
    ] {
        assert!(lines.contains(&line), "no {line:?} in {ran:?}");
    }
    for word in ["cron", "nftables", "net.ipv4"] {
        assert!(!ran.out.contains(word), "{word} in {ran:?}");
    }

    let issues = |words: &[&str]| -> Vec<String> {
        let ran = zonep2vchk(&host, words);
        assert_eq!((ran.code(), ran.err.as_str()), (Some(3), ""), "{ran:?}");
        ran.out.lines().map(str::to_owned).collect()
    };
    let shared = issues(&["-P", "-T", "S10"]);
    assert_eq!(shared.len(), 11);
    assert!(
        shared
            .iter()
            .any(|line| line.starts_with("basic:dhcp:eth1:")),
        "{shared:?}"
    );
    let network = "basic:exclusive:nftables.service:needs a network of its own\\: -T S11";
    assert!(shared.iter().any(|line| line == network), "{shared:?}");
    assert_eq!(
        issues(&["-P", "-s", "/opt"]),
        ["static:programs:/opt/shop/clock:sets the clock (clock_settime)"]
    );
    assert_eq!(issues(&["-bP", "-s", "/opt"]).len(), 10);
    let list = host.path("list");
    fs::write(&list, "/opt/shop\n\n").unwrap();
    assert_eq!(issues(&["-P", "-S", list.to_str().unwrap()]).len(), 1);

    let text = zonep2vchk(&host, &["-j"]).out;
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["host"], "shop");
    assert_eq!(
        report["checks"][0]["sections"][0]["findings"][0]["subject"],
        "chrony.service"
    );
}

#[test]
fn zonecfg_takes_what_it_prints() {
    let Some(host) = Host::new() else { return };
    system(&host);
    for (target, zone) in [("S10", "shared"), ("S11", "exclusive")] {
        let commands = zonep2vchk(&host, &["-c", "-T", target]).ok();
        assert_eq!(commands.err, "");
        let file = host.path(&format!("{zone}.cfg"));
        fs::write(&file, &commands.out).unwrap();
        host.zonecfg(&["-z", zone, "-f", file.to_str().unwrap()])
            .quiet();
        let info = host.zonecfg(&["-z", zone, "info"]).ok().out;
        for line in [
            "brand: lx",
            &format!("ip-type: {zone}"),
            &format!("zonepath: /zones/{zone}"),
            "\tphysical: 4G",
            "\tdir: /srv/shop",
            "\tspecial: /change-me/srv/shop",
            "\tdir: /srv/mail",
            "\ttype: lofs",
            "\tname: zonep2vchk-info",
            "\tvalue: \"p2v of host shop\"",
            "\tvalue: \"Debian GNU/Linux 12 (bookworm)\"",
        ] {
            assert!(info.lines().any(|one| one == line), "no {line:?} in {info}");
        }
        let addresses = |name: &str| -> Vec<&str> {
            let lines = info
                .lines()
                .filter_map(|line| line.trim().strip_prefix(name));
            lines.collect()
        };
        if target == "S10" {
            assert_eq!(addresses("address: "), ["192.0.2.5/24", "2001:db8::5/64"]);
            assert_eq!(addresses("defrouter: "), ["192.0.2.1"]);
        } else {
            assert_eq!(addresses("linkname: "), ["eth0", "eth1"]);
            assert!(info.contains("192.0.2.5/24,2001:db8::5/64"), "{info}");
        }
        // The stored configuration equals the printed one.
        let exported = host.zonecfg(&["-z", zone, "export"]).ok().out;
        assert!(
            exported.contains("set special=/change-me/srv/shop\n"),
            "{exported}"
        );
    }
}

#[test]
fn a_system_without_anything_and_none_at_all() {
    let Some(host) = Host::new() else { return };
    zonep2vchk(&host, &[]).mentions(1, "cannot open");
    fs::create_dir(host.path("old")).unwrap();
    let ran = zonep2vchk(&host, &[]).ok();
    assert!(
        ran.out.ends_with("--Total issue(s) detected: 0\n"),
        "{ran:?}"
    );
    let commands = zonep2vchk(&host, &["-c"]).ok().out;
    let file = host.path("empty.cfg");
    fs::write(&file, commands).unwrap();
    host.zonecfg(&["-z", "web", "-f", file.to_str().unwrap()])
        .quiet();

    zonep2vchk(&host, &["-s", "/nowhere"]).mentions(1, "/nowhere: no such file");
    zonep2vchk(&host, &["-x"]).mentions(2, "DTrace");
    zonep2vchk(&host, &["-T", "S9"]).mentions(2, "usage: zonep2vchk");
    let version = zonep2vchk(&host, &["-V"]).ok().out;
    assert!(
        version.starts_with(|c: char| c.is_ascii_digit()),
        "{version}"
    );
}

#[test]
fn zonep2vchk_refuses_to_run_in_a_zone() {
    let Some(host) = Host::with_web() else { return };
    let program = host.command("zonep2vchk", &[]).get_program().to_owned();
    e2e::copy_program(program, host.put("web", "root/zonep2vchk", ""));
    host.boot("web");
    host.zlogin(&["web", "/root/zonep2vchk"])
        .mentions(1, "must be in the global zone");
}
