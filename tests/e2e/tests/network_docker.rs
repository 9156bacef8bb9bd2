//! Tests zones of two roots beside Docker's own daemon, while another program flushes the ruleset.

use std::time::{Duration, Instant};

use e2e::firewall::{Docker, advice, reaches, type_in};
use e2e::lan::rules;
use e2e::{At, Host, World, container, wait_for};

/// Time within which flushed rules are back, as docs/network.md promises.
const RULES_ARE_BACK: Duration = Duration::from_secs(2);

/// A zone with a link of the pool, whose TCP port 4321 is published as this port of the host.
fn publishing(port: u16) -> String {
    format!(
        "set ip-type=exclusive; add anet; end; \
         add publish; set host-port={port}; set zone-port=4321; end"
    )
}

/// Starts a container that says "docker answers" on port 9090 of the host.
fn serve_in_a_container(docker: &Docker, busybox: &[u8]) {
    docker.run(
        &["import", "-", "small"],
        &container::archive(&container::system(busybox)),
    );
    let words = "run --detach --restart always --name page --publish 9090:80 small \
         /bin/busybox nc -ll -p 80 -e /bin/busybox echo docker answers";
    docker.run(&words.split_whitespace().collect::<Vec<_>>(), b"");
}

/// Removes all rules of the host, and returns the time until those of zones are back.
fn flush(lines: &[String]) -> Duration {
    type_in("nft flush ruleset");
    let began = Instant::now();
    wait_for("the rules of zones", || {
        let now = rules();
        lines.iter().all(|line| now.contains(line)).then_some(())
    });
    began.elapsed()
}

#[test]
fn two_roots_and_dockers_daemon_survive_a_flushed_ruleset() {
    let Some(busybox) = container::busybox() else {
        return;
    };
    let Some(world) = World::new() else { return };
    let Some(second) = Host::with_master() else {
        return;
    };
    let Some(mut docker) = Docker::start(&world.host) else {
        return;
    };
    serve_in_a_container(&docker, &busybox);
    let _client = world.serve(At::Client, "client");
    world.install("web", &publishing(8080));
    let said = world.host.on("web", &["boot"]).ok().err;
    second.configure("app", &publishing(8081));
    second.on("app", &["clone", "master"]).quiet();
    let _ = second.on("app", &["boot"]).ok();
    let _web = world.serve(At::Zone("web"), "web");
    let server = include_str!("../src/peer.pl");
    second.put("app", "srv/peer.pl", server);
    let start = "perl /srv/peer.pl serve app :: 4321 >/dev/null 2>&1 </dev/null &";
    let _ = second.zlogin(&["app", start]).ok();

    let ask = |port: u16| world.peer(At::Client, &format!("ask 10.0.0.9 {port}"));
    let outwards = || reaches(&world.host, "web") && reaches(&second, "app");
    let inwards = || ask(8080) == "web sees 203.0.113.7" && ask(8081) == "app sees 203.0.113.7";
    assert!(!outwards(), "Docker's policy drops packets of zones");
    type_in(&advice(&said, "chain FORWARD"));
    wait_for("a server in each root", || inwards().then_some(()));
    assert!(outwards());
    wait_for("the container", || {
        (ask(9090) == "docker answers").then_some(())
    });

    // The other program takes the rules of Docker and of zones. Those of zones come back.
    let ours: Vec<String> = rules()
        .lines()
        .skip_while(|line| !line.starts_with("table inet zones"))
        .take_while(|line| *line != "}")
        .map(|line| line.trim().to_owned())
        .collect();
    assert!(
        ours.iter().any(|line| line.contains("masquerade")),
        "{ours:?}"
    );
    assert!(rules().contains("chain DOCKER-USER"));
    // A machine that has other work may take longer than the promised time once.
    let times: Vec<Duration> = (0..3).map(|_| flush(&ours)).collect();
    println!("the rules of zones were back after {times:?}");
    assert!(times.iter().any(|time| *time < RULES_ARE_BACK), "{times:?}");
    assert!(!rules().contains("DOCKER"), "{}", rules());
    assert!(outwards() && inwards());

    // An administrator gets Docker's rules back by a restart. Docker sets its policy only when it
    // turns forwarding on, so now the host's firewall admits zones.
    docker.restart();
    assert!(rules().contains("chain DOCKER-USER"));
    let text = world.host.zoneadm(&["network"]).ok().out;
    assert!(!text.contains("the host's firewall"), "{text}");
    assert!(outwards() && inwards());
    wait_for("the container", || {
        (ask(9090) == "docker answers").then_some(())
    });

    // The last zone takes no rule of Docker with it.
    let docker_rules = || -> Vec<String> {
        let all = rules();
        let lines = all.lines().filter(|line| line.contains("docker0"));
        lines.map(str::to_owned).collect()
    };
    let before = docker_rules();
    world.host.halt("web");
    second.halt("app");
    assert!(!rules().contains("table inet zones"));
    assert_eq!(docker_rules(), before);
    assert_eq!(ask(9090), "docker answers");
}
