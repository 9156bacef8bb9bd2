//! Tests `beadm` inside a zone: how the zone manages its boot environments, and what its root may
//! not do.

use std::fs;

use e2e::run::run;
use e2e::{Host, inside, wait_for};

/// Makes a running zone with beadm, which a sparse zone has in the host's /usr.
fn zone() -> Option<Host> {
    let host = Host::with_web()?;
    let program = host.command("zoneadm", &[]).get_program().to_owned();
    host.put_program("web", "root/beadm", fs::read(program).unwrap());
    host.boot("web");
    Some(host)
}

/// Returns the name and flags of each boot environment, as the zone sees them, sorted by name.
fn list(host: &Host) -> String {
    host.sh(
        "web",
        "/root/beadm list -H | sed 's/^\\([^;]*\\);;\\([^;]*\\);.*/\\1=\\2/' | LC_ALL=C sort | tr '\\n' ' '",
    )
}

/// Checks the error message of beadm in the zone.
#[track_caller]
fn refused(host: &Host, words: &str, expected: &str) {
    let ran = host.zlogin(&["web", &format!("/root/beadm {words}")]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert_eq!(ran.err.trim_end(), format!("beadm: {expected}"), "{words}");
}

/// Returns the answer to a packet, which is a Perl expression.
fn packet(host: &Host, packet: &str) -> String {
    let code = format!(
        "use Socket; socket(S, AF_UNIX, SOCK_SEQPACKET, 0); \
         connect(S, sockaddr_un(\"/dev/zone-beadm\")) or die; \
         send(S, {packet}, 0); \
         while (defined recv(S, $a, 70000, 0) and length $a) {{ $a =~ s/^x(.)/\"x\".ord($1)/se; print $a }}"
    );
    host.sh("web", &inside::perl(&code))
}

#[test]
fn a_zone_goes_to_another_environment_and_back_by_itself() {
    let Some(host) = zone() else { return };
    assert_eq!(list(&host), "initial=NR ");
    assert!(
        host.sh("web", "/root/beadm list")
            .starts_with("BE      Flags Mountpoint Space")
    );
    host.sh("web", "echo one >/var/word; /root/beadm create before");
    host.sh("web", "echo two >/var/word; /root/beadm activate before");
    assert_eq!(list(&host), "before=R initial=N ");
    refused(
        &host,
        "destroy -F before",
        "boot environment before is active on reboot; activate another one first.",
    );
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.sh("web", "cat /var/word"), "one");
    assert_eq!(list(&host), "before=NR initial= ");

    // The zone returns to the former one, also with a new zoneadmd.
    host.kill(host.zoneadmd("web").unwrap());
    assert_eq!(host.state("web"), "running");
    wait_for("the socket of the new one", || {
        let ran = host.zlogin(&["web", "/root/beadm activate initial"]);
        (ran.code() == Some(0)).then_some(())
    });
    assert_eq!(list(&host), "before=N initial=R ");
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.sh("web", "cat /var/word"), "two");

    // The zone may rename and remove boot environments that it made, also after the two reboots.
    host.sh("web", "/root/beadm rename before after");
    host.sh("web", "/root/beadm create -a -e after third");
    assert_eq!(list(&host), "after= initial=N third=R ");
    host.sh(
        "web",
        "/root/beadm activate initial; /root/beadm destroy -F after",
    );
    assert_eq!(list(&host), "initial=NR third= ");
    host.on("web", &["beadm", "destroy", "-F", "third"]).quiet();

    // The zone may boot, but not change, a boot environment that was made outside.
    let _ = host.on("web", &["beadm", "create", "third"]).ok();
    for words in ["destroy -F third", "rename third mine"] {
        refused(
            &host,
            words,
            "boot environment third was made in the global zone; only there can it be destroyed or renamed.",
        );
    }
    host.sh(
        "web",
        "/root/beadm activate third && /root/beadm activate initial",
    );
    let _ = host.on("web", &["beadm", "mount", "third"]).ok();
    refused(
        &host,
        "activate third",
        "boot environment third is mounted in the global zone.",
    );
    assert_eq!(
        host.sh("web", "/root/beadm list -H third | cut -d';' -f1-4"),
        "third;;;"
    );
    host.on("web", &["beadm", "unmount", "third"]).quiet();
    host.halt("web");
    host.on("web", &["uninstall", "-F"]).quiet();
}

#[test]
fn a_zone_activates_only_a_copy_of_an_automatic_snapshot() {
    let Some(host) = zone() else { return };
    host.zonecfg(&["-z", "web", "add snapshots; end"]).quiet();
    let _ = host.on("web", &["apply"]).ok();
    let words = ["slide", "--now", "2026-03-09T00:00:00Z"];
    let ran = run(&mut host.command("zones-service", &words), b"").ok();
    let auto = "auto-monthly-20260309T000000Z";
    assert!(ran.out.contains(auto), "{ran:?}");
    refused(
        &host,
        &format!("activate {auto}"),
        &format!(
            "boot environment {auto} is an automatic snapshot: beadm create -a -e {auto} NAME makes and activates a copy."
        ),
    );
    host.sh("web", &format!("/root/beadm create -a -e {auto} back"));
    assert_eq!(list(&host), format!("{auto}= back=R initial=N "));
}

#[test]
fn a_hostile_root_reaches_nothing_else() {
    let Some(host) = zone() else { return };
    let daemon = host.zoneadmd("web").unwrap();
    host.clone_from("master", "other");
    for (words, what) in [
        ("mount initial", "mount"),
        ("unmount initial", "unmount"),
        ("activate --now initial", "activate --now"),
        ("create -n a", "-n"),
    ] {
        refused(&host, words, &format!("{what} is for the global zone."));
        // The service also refuses a packet that does not come from our program.
        let said = packet(&host, &format!("\"{words}\""));
        assert_eq!(said, format!("ebeadm: {what} is for the global zone.\nx1"));
    }
    let outside = "must be in the global zone to beadm a zone.";
    host.zlogin(&[
        "web",
        "cp /root/beadm /root/zoneadm; /root/zoneadm -z other beadm list",
    ])
    .mentions(1, outside);

    let plain = "ebeadm: a request has letters, digits, '_', '-', '.', ':' and spaces.\nx1";
    let short = "ebeadm: a request has 1 to 1024 bytes.\nx1";
    for (bytes, answer) in [
        ("\"\"", short),
        ("\"a\" x 1025", short),
        ("\"a\" x 60000", short),
        ("\"list\\0\"", plain),
        ("\"create ../../x\"", plain),
        ("\"list;id\"", plain),
        ("\" \"", "ebeadm: a request has up to 8 words.\nx1"),
        (
            "\"a \" x 9 . \"a\"",
            "ebeadm: a request has up to 8 words.\nx1",
        ),
    ] {
        assert_eq!(packet(&host, bytes), answer, "{bytes}");
    }
    for words in [
        "lost",
        "--inside list",
        "-z other list",
        "list -z other",
        "-R .. list",
        "create .hidden",
    ] {
        let said = packet(&host, &format!("\"{words}\""));
        assert!(
            said.ends_with("x2") && !said.contains("other="),
            "{words}: {said}"
        );
    }
    // A zone that is no node of a zone cluster fences no zone. It learns no names either.
    let stranger = "efence: this zone is no node of a zone cluster.\nx1";
    for (words, answer) in [
        ("fence off other", stranger),
        ("fence list", stranger),
        ("fence monitor", stranger),
        ("fence reboot global", stranger),
    ] {
        assert_eq!(packet(&host, &format!("\"{words}\"")), answer, "{words}");
    }
    for words in [
        "fence",
        "fence off",
        "fence off other -F",
        "fence --local halt other",
    ] {
        let said = packet(&host, &format!("\"{words}\""));
        assert!(
            said.starts_with("efence: expected monitor, list,") && said.ends_with("x1"),
            "{words}: {said}"
        );
    }
    assert_eq!(host.state("other"), "installed");
    // A boot environment of another zone is not visible here.
    let _ = host.on("other", &["beadm", "create", "theirs"]).ok();
    let said = packet(&host, "\"activate theirs\"");
    assert_eq!(said, "ebeadm: has no boot environment theirs.\nx1");

    // Other users of the zone have no access, whatever its root does with the socket.
    let connect = inside::perl(
        "use Socket; $) = 65534; $> = 65534; socket(S, AF_UNIX, SOCK_SEQPACKET, 0); \
         connect(S, sockaddr_un(\"/dev/zone-beadm\")) or die \"$!\\n\"; \
         send(S, \"list\", 0); recv(S, $a, 9999, 0); print $a",
    );
    host.zlogin(&["web", &connect])
        .mentions(13, "Permission denied");
    let said = host.sh("web", &format!("chmod 666 /dev/zone-beadm; {connect}"));
    assert_eq!(said, "ebeadm: only root of the zone may do that.");

    // The clients: a silent one, many that do not wait for their answers, and one that asks.
    let flood = inside::perl(
        "use Socket; for (1..10) { next if fork; socket(S, AF_UNIX, SOCK_SEQPACKET, 0); \
         connect(S, sockaddr_un(\"/dev/zone-beadm\")); send(S, \"list\", 0) if $_ > 1; \
         sleep 600 if $_ == 1; exit }",
    );
    host.sh(
        "web",
        &format!("({flood}) >/dev/null 2>&1 </dev/null & sleep 0.2; /root/beadm create late"),
    );
    assert_eq!(list(&host), "initial=NR late= ");

    // The zone can make a limited number: 32 with the one that exists.
    for number in 2..32 {
        let name = format!("n{number}");
        let _ = host
            .on("web", &["beadm", "create", "-e", "late", &name])
            .ok();
    }
    refused(
        &host,
        "create more",
        "has 32 boot environments, the most with which it makes another itself.",
    );
    // The zone can remove its socket, and then has none. The host does not notice it.
    host.sh("web", "rm /dev/zone-beadm");
    refused(
        &host,
        "list",
        "the zone's zoneadmd is not there; any zoneadm command of the global zone brings it back.",
    );
    host.sh("web", "ln -s /etc /dev/zone-beadm");
    assert_eq!(host.zoneadmd("web"), Some(daemon));
    host.kill(daemon);
    assert_eq!(host.state("web"), "running");
    wait_for("the socket of the new zoneadmd", || {
        let ran = host.zlogin(&["web", "/root/beadm list -H initial"]);
        ran.out.starts_with("initial;;NR;/;").then_some(())
    });
    host.halt("web");
    assert_eq!(host.state("other"), "installed");
}
