//! Tests controls on trees of plain files that look like the kernel's v1 and v2 trees.

use std::fs;
use std::path::{Path, PathBuf};

use limits::{Base, Control, Controls, Error, ZoneCgroups};
use tempfile::TempDir;

/// A host with one zone.
struct Tree {
    dir: TempDir,
    base: Base,
    cgroups: ZoneCgroups,
}

fn put(path: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(path).unwrap();
    for (name, text) in files {
        fs::write(path.join(name), text).unwrap();
    }
}

const V2: &[(&str, &str)] = &[
    ("cgroup.procs", ""),
    ("cpu.max", "max 100000\n"),
    ("cpu.stat", "usage_usec 1234\nuser_usec 1000\n"),
    ("cpu.weight", "100\n"),
    ("io.weight", "default 100\n"),
    ("memory.current", "4096\n"),
    ("memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\n"),
    ("memory.max", "max\n"),
    ("memory.swap.current", "8192\n"),
    ("memory.swap.max", "max\n"),
    ("pids.current", "3\n"),
    ("pids.events", "max 5\n"),
    ("pids.max", "max\n"),
];

impl Tree {
    fn new(v2: &[&str], v1: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |names: &[&str]| -> Vec<PathBuf> {
            names.iter().map(|name| dir.path().join(name)).collect()
        };
        let base = Base {
            v2: path(v2)[0].clone(),
            v1: path(v1),
            v1_on_demand: vec![("cpuset", dir.path().join("cpuset/zones"))],
            v1_shared: Vec::new(),
        };
        let cgroups =
            ZoneCgroups::for_controls(&base, &"web".parse().unwrap(), &Controls::default());
        Self { dir, base, cgroups }
    }

    fn unified() -> Self {
        let tree = Self::new(&["unified/zones"], &[]);
        let cpuset = [("cpuset.cpus", "\n"), ("cpuset.cpus.effective", "0-3\n")];
        put(&tree.base.v2, &cpuset);
        put(&tree.base.v2.join("web"), V2);
        put(&tree.base.v2.join("web"), &cpuset);
        tree
    }

    fn hybrid() -> Self {
        let tree = Self::new(
            &["unified/zones"],
            &["cpu/zones", "memory/zones", "pids/zones"],
        );
        put(
            &tree.base.v2.join("web"),
            &[("cgroup.procs", ""), ("cpu.stat", "usage_usec 99\n")],
        );
        let files: [&[(&str, &str)]; 3] = [
            &[("cpu.cfs_quota_us", "-1\n"), ("cpu.shares", "1024\n")],
            &[
                ("memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory.memsw.limit_in_bytes", "9223372036854771712\n"),
                ("memory.usage_in_bytes", "4096\n"),
                ("memory.memsw.usage_in_bytes", "12288\n"),
                ("memory.failcnt", "7\n"),
                (
                    "memory.oom_control",
                    "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
                ),
            ],
            &[
                ("pids.current", "3\n"),
                ("pids.events", "max 5\n"),
                ("pids.max", "max\n"),
            ],
        ];
        for (group, files) in tree.base.v1.iter().zip(files) {
            put(&group.join("web"), files);
        }
        tree
    }

    /// Returns the content of a file of the zone, without the final line feed.
    fn show(&self, path: &str) -> String {
        let path = self.dir.path().join(path);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        text.trim_end().to_owned()
    }
}

fn controls() -> Controls {
    Controls {
        cpu_cap: Some(25),
        cpu_shares: Some(3),
        physical: Some(64 << 20),
        swap: Some(96 << 20),
        max_lwps: Some(50),
        ..Controls::default()
    }
}

#[test]
fn all_controls_read_back_as_set() {
    for tree in [Tree::unified(), Tree::hybrid()] {
        let changed = tree.cgroups.set(&controls()).unwrap();
        assert_eq!(changed.applied.len(), 5);
        for applied in &changed.applied {
            assert!(applied.is_exact(), "{applied:?}");
        }
        assert!(changed.warnings.is_empty(), "{:?}", changed.warnings);
    }
}

#[test]
fn the_files_of_v2() {
    let tree = Tree::unified();
    tree.cgroups.set(&controls()).unwrap();
    let show = |name: &str| tree.show(&format!("unified/zones/web/{name}"));
    assert_eq!(show("cpu.max"), "25000 100000");
    assert_eq!(show("cpu.weight"), "300");
    assert_eq!(show("memory.max"), "67108864");
    assert_eq!(show("memory.swap.max"), "33554432");
    assert_eq!(show("pids.max"), "50");
}

#[test]
fn the_files_of_v1() {
    let tree = Tree::hybrid();
    tree.cgroups.set(&controls()).unwrap();
    assert_eq!(tree.show("cpu/zones/web/cpu.cfs_quota_us"), "25000");
    assert_eq!(tree.show("cpu/zones/web/cpu.shares"), "3072");
    let memory = |name: &str| tree.show(&format!("memory/zones/web/{name}"));
    assert_eq!(memory("memory.limit_in_bytes"), "67108864");
    assert_eq!(memory("memory.memsw.limit_in_bytes"), "100663296");
    assert_eq!(tree.show("pids/zones/web/pids.max"), "50");
}

#[test]
fn a_zone_with_many_shares_makes_the_share_of_all_smaller() {
    let tree = Tree::hybrid();
    let other = tree.dir.path().join("cpu/zones/other");
    put(&other, &[("cpu.shares", "2048\n")]);
    let many = Controls {
        cpu_shares: Some(1000),
        ..Controls::default()
    };
    let changed = tree.cgroups.set(&many).unwrap();
    assert!(changed.applied.iter().all(limits::Applied::is_exact));
    // The maximum weight 262144 has room for 1000 shares of 262 each.
    assert_eq!(tree.show("cpu/zones/web/cpu.shares"), "262000");
    assert_eq!(tree.show("cpu/zones/other/cpu.shares"), "524");
    let two = Controls {
        cpu_shares: Some(2),
        ..Controls::default()
    };
    tree.cgroups.set(&two).unwrap();
    assert_eq!(tree.show("cpu/zones/web/cpu.shares"), "524");
}

#[test]
fn use_and_events_are_read_from_either() {
    for (tree, cpu) in [(Tree::unified(), 1234), (Tree::hybrid(), 99)] {
        tree.cgroups.set(&controls()).unwrap();
        let usage = tree.cgroups.read();
        assert_eq!(usage.cpu_usec, cpu);
        assert_eq!((usage.memory, usage.swap), (Some(4096), Some(8192)));
        assert_eq!(usage.lwps, Some(3));
        let events = usage.events;
        assert_eq!(
            (events.oom_kills, events.memory_full, events.lwps_refused),
            (1, 7, 5)
        );
        assert_eq!(usage.limits.cpu_cap, Some(25));
        assert_eq!(usage.limits.swap, Some(96 << 20));
    }
}

#[test]
fn a_change_takes_limits_away_again() {
    for mut tree in [Tree::unified(), Tree::hybrid()] {
        tree.cgroups.set(&controls()).unwrap();
        let less = Controls {
            max_lwps: Some(60),
            ..Controls::default()
        };
        let base = tree.base.clone();
        let changed = tree.cgroups.change(&base, &controls(), &less).unwrap();
        assert_eq!(changed.applied.len(), 1);
        let limits = tree.cgroups.effective();
        assert_eq!((limits.cpu_cap, limits.cpu_shares), (None, Some(1)));
        assert_eq!(limits.max_lwps, Some(60));
        if tree.base.v1.is_empty() {
            assert_eq!((limits.physical, limits.swap), (None, None));
        } else {
            // Plain files store the text -1, unlike the kernel, which would show a huge number.
            assert_eq!(tree.show("memory/zones/web/memory.limit_in_bytes"), "-1");
        }
    }
}

#[test]
fn a_step_that_fails_takes_the_others_back() {
    for (mut tree, file) in [
        (Tree::unified(), "unified/zones/web/pids.max"),
        (Tree::hybrid(), "pids/zones/web/pids.max"),
    ] {
        let old = Controls {
            cpu_cap: Some(50),
            physical: Some(1 << 20),
            ..Controls::default()
        };
        tree.cgroups.set(&old).unwrap();
        let before = tree.cgroups.effective();
        // A file that cannot be read cannot be changed either.
        let path = tree.dir.path().join(file);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let base = tree.base.clone();
        let error = tree.cgroups.change(&base, &old, &controls()).unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error}");
        assert_eq!(tree.cgroups.effective(), before);
    }
}

#[test]
fn memory_in_use_is_not_taken_away_by_force() {
    let tree = Tree::unified();
    fs::write(
        tree.base.v2.join("web/memory.current"),
        (100u64 << 20).to_string(),
    )
    .unwrap();
    let error = tree.cgroups.set(&controls()).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    assert_eq!(tree.show("unified/zones/web/memory.max"), "max");
    assert_eq!(tree.show("unified/zones/web/cpu.max"), "max 100000");
}

#[test]
fn a_control_that_has_no_place_is_refused_by_name() {
    let tree = Tree::new(&["unified/zones"], &[]);
    put(&tree.base.v2.join("web"), &[("cgroup.procs", "")]);
    assert_eq!(tree.cgroups.set(&Controls::default()).unwrap().applied, []);
    for (controls, name) in [
        (
            Controls {
                cpu_cap: Some(1),
                ..Controls::default()
            },
            Control::CpuCap,
        ),
        (
            Controls {
                max_processes: Some(1),
                ..Controls::default()
            },
            Control::MaxProcesses,
        ),
        (
            Controls {
                dedicated_cpu: Some(limits::Dedicated::Count(1, 1)),
                ..Controls::default()
            },
            Control::DedicatedCpu,
        ),
    ] {
        let error = tree.cgroups.set(&controls).unwrap_err();
        assert!(
            matches!(error, Error::Unsupported { control, .. } if control == name),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains(name.as_str()) && text.contains("enable"),
            "{text}"
        );
    }
}

/// Returns true if trees of plain files can hold claims. Not every file system supports user
/// attributes.
fn has_attributes(tree: &Tree) -> bool {
    let flags = rustix::fs::XattrFlags::empty();
    let has = rustix::fs::setxattr(tree.dir.path(), "user.zones.try", b"1", flags).is_ok();
    if !has {
        println!("skipped: CPUs of zones: this file system has no attributes");
    }
    has
}

fn dedicated(least: u32, most: u32) -> Controls {
    Controls {
        dedicated_cpu: Some(limits::Dedicated::Count(least, most)),
        ..Controls::default()
    }
}

#[test]
fn zones_are_kept_off_the_cpus_of_others() {
    let tree = Tree::unified();
    if !has_attributes(&tree) {
        return;
    }
    let cpuset = [("cpuset.cpus", "\n"), ("cpuset.cpus.effective", "0-3\n")];
    for name in ["db", "app"] {
        put(&tree.base.v2.join(name), V2);
        put(&tree.base.v2.join(name), &cpuset);
    }
    let mut db = ZoneCgroups::of(&tree.base, &"db".parse().unwrap());
    let two = dedicated(1, 2);
    assert!(tree.cgroups.set(&two).unwrap().applied[0].is_exact());
    assert_eq!(tree.show("unified/zones/web/cpuset.cpus"), "2-3");
    assert_eq!(tree.show("unified/zones/app/cpuset.cpus"), "0-1");
    let changed = db.set(&two).unwrap();
    assert_eq!(changed.applied[0].effective, Some(1));
    assert_eq!(tree.show("unified/zones/db/cpuset.cpus"), "1");
    assert_eq!(tree.show("unified/zones/app/cpuset.cpus"), "0");
    // Two more CPUs are not available, so the call fails and changes nothing.
    let app = ZoneCgroups::of(&tree.base, &"app".parse().unwrap());
    let error = app.set(&dedicated(2, 2)).unwrap_err();
    assert!(matches!(error, Error::NoCpus { free: 1, .. }), "{error}");
    assert_eq!(tree.show("unified/zones/web/cpuset.cpus"), "2-3");
    // One CPU is available: a zone with more CPUs than its minimum gives one up.
    app.set(&dedicated(1, 1)).unwrap();
    assert_eq!(tree.show("unified/zones/web/cpuset.cpus"), "3");
    assert_eq!(
        app.effective().dedicated_cpu,
        Some(limits::Dedicated::Cpus("2".into()))
    );
    // Released CPUs go to zones with a range first, and then to the zones that share.
    let (mut app, base) = (app, tree.base.clone());
    app.change(&base, &dedicated(1, 1), &Controls::default())
        .unwrap();
    assert_eq!(tree.show("unified/zones/db/cpuset.cpus"), "1-2");
    assert_eq!(tree.show("unified/zones/app/cpuset.cpus"), "0");
    db.change(&base, &two, &Controls::default()).unwrap();
    assert_eq!(tree.show("unified/zones/web/cpuset.cpus"), "2-3");
    assert_eq!(tree.show("unified/zones/db/cpuset.cpus"), "0-1");
}

#[test]
fn zones_of_a_pool_share_its_cpus() {
    let tree = Tree::unified();
    if !has_attributes(&tree) {
        return;
    }
    let cpuset = [("cpuset.cpus", "\n"), ("cpuset.cpus.effective", "0-3\n")];
    for name in ["db", "app"] {
        put(&tree.base.v2.join(name), V2);
        put(&tree.base.v2.join(name), &cpuset);
    }
    let of = |name: &str| ZoneCgroups::of(&tree.base, &name.parse().unwrap());
    let batch = |list: &str| Controls {
        pool: Some(limits::Pool {
            name: "batch".into(),
            wanted: Some(limits::Dedicated::Cpus(list.into())),
            importance: None,
        }),
        ..Controls::default()
    };
    let changed = of("web").set(&batch("3")).unwrap();
    assert_eq!(changed.applied[0].effective, Some(1));
    of("db").set(&batch("2-3")).unwrap();
    for (zone, set) in [("web", "2-3"), ("db", "2-3"), ("app", "0-1")] {
        assert_eq!(tree.show(&format!("unified/zones/{zone}/cpuset.cpus")), set);
    }
    let shown = of("db").effective().pool.unwrap();
    assert_eq!(shown.name, "batch");
    // An unknown pool counts as the default pool, with a warning.
    let unknown = Controls {
        pool: Some(limits::Pool {
            name: "x".into(),
            ..limits::Pool::default()
        }),
        ..Controls::default()
    };
    let changed = of("app").set(&unknown).unwrap();
    assert!(changed.warnings[0].text.contains("there is no pool x"));
}

#[test]
fn a_v1_group_that_is_needed_later_is_made_then() {
    let mut tree = Tree::hybrid();
    if !has_attributes(&tree) {
        return;
    }
    let root = tree.dir.path().join("cpuset");
    put(&tree.base.v2.join("db"), &[("cgroup.procs", "")]);
    for group in ["", "zones", "zones/web", "zones/db"] {
        let filled = group.is_empty();
        put(
            &root.join(group),
            &[
                ("cgroup.clone_children", "0\n"),
                ("cpuset.cpus", if filled { "0-3\n" } else { "\n" }),
                ("cpuset.mems", if filled { "0\n" } else { "\n" }),
            ],
        );
    }
    let one = dedicated(1, 1);
    let base = tree.base.clone();
    let none = Controls::default();
    tree.cgroups.change(&base, &none, &one).unwrap();
    assert_eq!(tree.show("cpuset/zones/web/cpuset.cpus"), "3");
    assert_eq!(tree.show("cpuset/zones/db/cpuset.cpus"), "0-2");
    tree.cgroups.change(&base, &one, &none).unwrap();
    assert_eq!(tree.show("cpuset/zones/web/cpuset.cpus"), "0-3");
    assert_eq!(tree.show("cpuset/zones/db/cpuset.cpus"), "0-3");
    assert_eq!(tree.cgroups.effective().dedicated_cpu, None);
}
