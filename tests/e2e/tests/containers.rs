//! Tests containers of other tools in a zone, on a separate volume.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use e2e::container::{Image, archive, busybox, system};
use e2e::lan::Space;
use e2e::registry::{Guard, Registry, push};
use e2e::unpacked::Unpacked;
use e2e::{Host, Terminal, wait_for};

/// Makes containers share the zone's network, for a zone that cannot change its network.
const SHARED: &str = "--rm --network=host";

/// The name of the image in its registry.
const NAME: &str = "test/tiny";

/// Gives the zone the unpacked programs, and a volume for the containers. Containers are overlays,
/// and an overlay cannot be on the overlay of a zone's root.
fn configure(host: &Host, programs: &Unpacked, kept: &str) {
    let volume = host.path("/volume");
    fs::create_dir(&volume).unwrap();
    fs::set_permissions(&volume, fs::Permissions::from_mode(0o700)).unwrap();
    host.zonecfg(&[
        "-z",
        "web",
        &format!(
            "{}; add fs; set dir={kept}; set special={}; set type=lofs; end",
            programs.configured(),
            volume.display()
        ),
    ])
    .quiet();
}

/// Boots the zone and prepares it for containers.
fn boot(host: &Host, programs: &Unpacked) {
    host.boot("web");
    let libraries = programs.libraries(&[]);
    host.sh(
        "web",
        &format!("{libraries}mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
    );
}

/// Starts a registry with a small image on the zone's loopback, and returns its address.
fn registry_inside(host: &Host, busybox: &[u8]) -> SocketAddr {
    let image = Image::make(
        &host.path("/layout"),
        &[archive(&system(busybox))],
        r#"{"Cmd":["echo","in a container"],"Env":["PATH=/bin"]}"#,
    );
    Space::of(host.init_of("web")).unwrap().within(|| {
        let registry = Registry::start(Guard::None);
        push(registry.address, &image, NAME, "1");
        registry.address
    })
}

#[test]
fn podman_runs_in_a_sparse_zone() {
    let Some(host) = Host::with_web() else { return };
    let Some(podman) = Unpacked::find("podman") else {
        return;
    };
    let Some(busybox) = busybox() else { return };
    configure(&host, &podman, "/var/lib/containers");
    let place = podman.place();
    // The configuration is that of the packages, except for the paths.
    host.put(
        "web",
        "root/containers.conf",
        format!(
            "[engine]\nconmon_path = [\"{place}/usr/bin/conmon\"]\nruntime = \"crun\"\n\
             [engine.runtimes]\ncrun = [\"{place}/usr/bin/crun\"]\n"
        ),
    );
    host.put(
        "web",
        "etc/containers/policy.json",
        r#"{"default":[{"type":"insecureAcceptAnything"}]}"#,
    );
    boot(&host, &podman);
    let profile = format!(
        "{}export CONTAINERS_CONF=/root/containers.conf\n",
        podman.profile()
    );
    let image = format!("{}/{NAME}:1", registry_inside(&host, &busybox));
    host.sh(
        "web",
        &format!("{profile}podman pull -q --tls-verify=false {image}"),
    );
    // The zone's limits apply to the container, which needs no control group of its own.
    let podman_run = format!("podman run {SHARED} --cgroups=disabled {image}");
    let said = host.sh("web", &format!("{profile}{podman_run} cat /proc/1/comm"));
    assert_eq!(said, "cat");
    assert!(host.path("/volume/storage").is_dir());
    // The same works in a login shell.
    let mut command = host.command("zlogin", &["web"]);
    command.env("TERM", "dumb");
    let mut session = Terminal::start(command);
    session.expect("# ");
    for line in profile.lines() {
        session.types(&format!("{line}\r"));
    }
    session.types(&format!("{podman_run}; echo status $?\r"));
    let said = session.expect("status 0");
    assert!(said.contains("in a container\r"), "{said}");
    session.types("exit\r");
    assert_eq!(session.status(), 0);
    host.halt("web");
}

#[test]
fn docker_runs_in_a_zone_with_a_network_of_its_own() {
    let Some(host) = Host::with_web() else { return };
    let Some(docker) = Unpacked::find("docker") else {
        return;
    };
    let Some(busybox) = busybox() else { return };
    configure(&host, &docker, "/var/lib/docker");
    boot(&host, &docker);
    let profile = docker.profile();
    let dockerd = "dockerd --iptables=false --ip6tables=false";
    // A shared-IP zone cannot administer its network, with any options of Docker.
    let refused = host.zlogin(&["web", &format!("{profile}{dockerd} --bridge=none 2>&1")]);
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    let reason = "open /proc/sys/net/ipv4/ip_forward: permission denied";
    assert!(refused.out.contains(reason), "{refused:?}");
    host.halt("web");
    host.zonecfg(&["-z", "web", "set ip-type=exclusive"])
        .quiet();
    boot(&host, &docker);
    let sh = |script: &str| host.sh("web", &format!("{profile}{script}"));
    sh(&format!(
        "setsid {dockerd} >/root/dockerd.log 2>&1 </dev/null &"
    ));
    wait_for("dockerd", || {
        let asked = host.zlogin(&["web", &format!("{profile}docker version")]);
        (asked.code() == Some(0)).then_some(())
    });
    // Docker uses plain HTTP for registries on loopback without an option.
    let image = format!("{}/{NAME}:1", registry_inside(&host, &busybox));
    sh(&format!("docker pull -q {image}"));
    assert_eq!(sh(&format!("docker run --rm {image}")), "in a container");
    assert_eq!(
        sh(&format!("docker run {SHARED} {image} cat /proc/1/comm")),
        "cat"
    );
    // The zone can connect to a container on Docker's bridge.
    sh(&format!(
        "docker run -d --name one {image} sh -c 'while :; do sleep 1; done'"
    ));
    let address = sh("docker inspect -f '{{.NetworkSettings.IPAddress}}' one");
    sh(&format!("ping -c 1 -W 5 {address}"));
    sh("docker rm -f one");
    host.halt("web");
    assert!(Path::new(&host.path("/volume/overlay2")).is_dir());
}

/// A file server whose folder every user of the zone can write.
const SMB_CONF: &str = "[global]
map to guest = Bad User
guest account = root
server role = standalone server
interfaces = lo
bind interfaces only = yes
disable netbios = yes
smb ports = 4450
load printers = no
rpc start on demand helpers = no
private dir = /root/smb
lock directory = /root/smb
state directory = /root/smb
cache directory = /root/smb
pid directory = /root/smb
ncalrpc dir = /root/smb/ncalrpc
[share]
path = /root/share
guest ok = yes
read only = no
";

#[test]
fn samba_serves_files_in_a_sparse_zone() {
    let Some(host) = Host::with_web() else { return };
    let Some(samba) = Unpacked::find("samba") else {
        return;
    };
    host.zonecfg(&["-z", "web", &samba.configured()]).quiet();
    host.put("web", "root/smb.conf", SMB_CONF);
    host.put("web", "root/in", "content of a file\n");
    host.boot("web");
    let profile = format!("{}cd /root\n", samba.profile());
    host.sh(
        "web",
        &format!(
            "{}mkdir /root/smb /root/share\n{profile}smbd -D -s /root/smb.conf -l /root/smb",
            samba.libraries(&["samba"])
        ),
    );
    // smbd locks its databases, and the files that clients have open.
    let client = format!(
        "{profile}smbclient -s /root/smb.conf -p 4450 -N -c 'put in there; get there out' \
         //127.0.0.1/share"
    );
    wait_for("smbd", || {
        let asked = host.zlogin(&["web", &client]);
        (asked.code() == Some(0)).then_some(())
    });
    assert_eq!(
        host.sh("web", "cat /root/share/there /root/out"),
        "content of a file\ncontent of a file"
    );
    host.halt("web");
}
