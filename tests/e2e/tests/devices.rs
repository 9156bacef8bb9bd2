//! Tests devices of the host in a zone, at its boot and while it runs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use e2e::inside::all_fail;
use e2e::{Host, skip};

/// A folder of this test below the host's /dev, with device nodes in it.
struct Nodes(PathBuf);

impl Nodes {
    /// Makes nodes of /dev/kmsg, which no zone may use and which is harmless as long as no program
    /// writes to it, and of /dev/full.
    fn new(host: &Host) -> Self {
        let folder = PathBuf::from("/dev").join(format!("test-{}", host.cgroup()));
        fs::create_dir(&folder).unwrap();
        let nodes = Self(folder);
        nodes.make("log0", "1", "11");
        nodes.make("log1", "1", "11");
        nodes.make("full", "1", "7");
        nodes
    }

    fn make(&self, name: &str, major: &str, minor: &str) {
        let status = Command::new("mknod")
            .args(["-m", "640"])
            .arg(self.0.join(name))
            .args(["c", major, minor])
            .status();
        assert!(status.unwrap().success());
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// An `add device` command with a pattern for this folder.
    fn add(&self, pattern: &str) -> String {
        format!("add device; set match=\"{}\"; end", self.path(pattern))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a host and nodes. Returns `None`, and prints it, if /dev cannot hold device nodes.
fn start() -> Option<(Host, Nodes)> {
    let host = Host::with_master()?;
    let probe = PathBuf::from("/dev").join(format!("probe-{}", host.cgroup()));
    if fs::create_dir(&probe).is_err() {
        skip("/dev cannot be written to");
        return None;
    }
    fs::remove_dir(&probe).unwrap();
    let nodes = Nodes::new(&host);
    // With printk.devkmsg=off, no process can open it.
    if fs::OpenOptions::new()
        .write(true)
        .open(nodes.path("log0"))
        .is_err()
    {
        skip("/dev/kmsg cannot be opened");
        return None;
    }
    Some((host, nodes))
}

/// Returns a command that opens a node and writes nothing.
fn opens(path: &str) -> String {
    format!("exec 3>{path}")
}

#[test]
fn a_zone_boots_with_the_devices_that_match() {
    let Some((host, nodes)) = start() else { return };
    std::os::unix::fs::symlink("log0", nodes.path("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", nodes.path("away")).unwrap();
    fs::write(nodes.path("log-file"), "").unwrap();
    host.configure(
        "web",
        &format!("{}; {}", nodes.add("[al]*"), nodes.add("none*")),
    );
    host.on("web", &["clone", "master"]).quiet();
    let ran = host.on("web", &["verify"]).ok();
    let warning = format!(
        "zoneadm: zone 'web': WARNING: device match={}: nothing on this host matches",
        nodes.path("none*")
    );
    assert_eq!(ran.err.trim_end(), warning);
    let plan = host.on("web", &["boot", "-n"]).ok();
    assert!(
        plan.out
            .contains(&format!("{} (c 1:11)", nodes.path("log1"))),
        "{plan:?}"
    );
    host.boot("web");
    assert_eq!(
        host.sh("web", &format!("ls {}", nodes.path(""))),
        "link\nlog0\nlog1"
    );
    // The zone's root owns the nodes. A change of a node does not change the host's node.
    let stat = "stat -c '%u:%g %a'";
    assert_eq!(
        host.sh("web", &format!("{stat} {}", nodes.path("log0"))),
        "0:0 640"
    );
    for name in ["log0", "link"] {
        host.sh("web", &opens(&nodes.path(name)));
    }
    host.sh(
        "web",
        &format!("chmod 666 {0}; chown 7 {0}", nodes.path("log0")),
    );
    use std::os::unix::fs::MetadataExt;
    let ours = fs::metadata(nodes.path("log0")).unwrap();
    assert_eq!((ours.uid(), ours.mode() & 0o777), (0, 0o640));
    all_fail(
        &host,
        "web",
        &[
            "mknod /dev/kmsg c 1 11 && exec 3>/dev/kmsg",
            "mknod /root/mem c 1 1 && head -c 1 /root/mem",
        ],
    );
}

#[test]
fn more_devices_than_a_zone_can_have_are_not_cut_silently() {
    let Some((host, nodes)) = start() else { return };
    for number in 0..1026 {
        std::os::unix::fs::symlink("full", nodes.path(&format!("many{number:04}"))).unwrap();
    }
    host.configure(
        "web",
        &format!("{}; {}", nodes.add("log*"), nodes.add("many*")),
    );
    host.on("web", &["clone", "master"]).quiet();
    let warning = format!(
        "zoneadm: zone 'web': WARNING: device match={}: too many: the zone has 1024 devices at \
         the most, the first by their names",
        nodes.path("many*")
    );
    for verb in ["verify", "boot"] {
        let ran = host.on("web", &[verb]).ok();
        assert_eq!(ran.err.trim_end(), warning, "{verb}");
    }
    assert_eq!(
        host.sh(
            "web",
            &format!("cd {}; ls | wc -l; ls many1021", nodes.path(""))
        ),
        "1024\nmany1021"
    );
}

#[test]
fn devices_come_and_go_while_a_zone_runs() {
    let Some((host, nodes)) = start() else { return };
    host.clone_from("master", "web");
    host.boot("web");
    let configure = |script: &str| host.zonecfg(&["-z", "web", script]).quiet();
    let apply = |lines: &[String]| {
        let ran = host.on("web", &["apply"]).ok();
        let mut told: Vec<String> = lines
            .iter()
            .map(|line| format!("zone 'web': Checking: {line}"))
            .collect();
        told.push("zone 'web': Applying the changes".to_owned());
        assert_eq!(
            (ran.text(), ran.err.as_str()),
            (told.join("\n").as_str(), ""),
            "{ran:?}"
        );
    };
    all_fail(&host, "web", &[&opens(&nodes.path("log0"))]);
    configure(&nodes.add("log*"));
    configure(&nodes.add("log1"));
    apply(&[
        format!("Adding device match={}", nodes.path("log*")),
        format!("Adding device match={}", nodes.path("log1")),
    ]);
    for name in ["log0", "log1"] {
        host.sh("web", &opens(&nodes.path(name)));
    }
    // The host gets a new device node.
    nodes.make("log2", "1", "11");
    apply(&[format!("Adding device match={}", nodes.path("log*"))]);
    host.sh("web", &opens(&nodes.path("log2")));
    host.on("web", &["apply", "-q"]).quiet();
    // A node that another pattern matches stays.
    configure(&format!("remove device match={}", nodes.path("log*")));
    apply(&[format!("Removing device match={}", nodes.path("log*"))]);
    assert_eq!(host.sh("web", &format!("ls {}", nodes.path(""))), "log1");
    host.sh("web", &opens(&nodes.path("log1")));
    // The zone's root cannot keep a removed node open for new use.
    host.sh(
        "web",
        &format!(
            "touch /root/kept && mount --bind {} /root/kept",
            nodes.path("log1")
        ),
    );
    host.sh("web", &opens("/root/kept"));
    configure(&format!("remove device match={}", nodes.path("log1")));
    let failed = host.with_fault("apply:1:fail", "web", &["apply"]);
    failed.mentions(1, "a fault was asked for");
    host.sh("web", &opens("/root/kept"));
    host.on("web", &["apply", "-q"]).quiet();
    all_fail(
        &host,
        "web",
        &[&opens("/root/kept"), &format!("ls {}", nodes.path(""))],
    );
    host.sh("web", "head -c 1 /dev/zero >/dev/null; echo x >/dev/null");
    configure(&nodes.add("log0"));
    configure(&nodes.add("log1"));
    let ran = host.with_fault("apply:2:fail", "web", &["apply"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    all_fail(
        &host,
        "web",
        &[&opens("/root/kept"), &format!("ls {}", nodes.path(""))],
    );
    host.on("web", &["apply", "-q"]).quiet();
    host.sh("web", &opens("/root/kept"));
}
