//! Tests the storage drivers, each on its own file system: a small image on a loop device, mounted
//! where only the test sees it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::run::run;
use e2e::{Host, skip, wait_for};
use sys::process::ns;

/// A file system that is mounted at `/zones` of a host.
struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Makes and mounts a file system. Prints the reason if this is impossible.
    fn new(host: &Host, fstype: &str, mib: u64, options: &[&str]) -> Option<Self> {
        let image = host.path("/disk.img");
        fs::File::create(&image)
            .unwrap()
            .set_len(mib << 20)
            .unwrap();
        let program = format!("mkfs.{fstype}");
        let Some(path) = ["/usr/sbin", "/sbin", "/usr/bin"]
            .map(|dir| Path::new(dir).join(&program))
            .into_iter()
            .find(|path| path.exists())
        else {
            skip(&format!("no {program}"));
            return None;
        };
        let mut mkfs = Command::new(path);
        run(mkfs.arg("-q").args(options).arg(&image), b"")
            .ok()
            .out
            .clear();
        let at = host.path("/zones");
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        let ran = run(mount.args(["-o", "loop"]).args([&image, &at]), b"");
        if ran.code() != Some(0) {
            skip(&format!(
                "{fstype} cannot be mounted here: {}",
                ran.err.trim()
            ));
            return None;
        }
        Some(Self { at })
    }

    /// Fills the file system until this number of bytes is free. Returns the file that fills it.
    fn fill(&self, left: u64) -> PathBuf {
        let path = self.at.join("filler");
        let mut file = fs::File::create(&path).unwrap();
        let block = vec![1; 64 << 10];
        // The space of removed files becomes free only when the journal is written.
        loop {
            rustix::fs::syncfs(&file).unwrap();
            let before = file.metadata().unwrap().len();
            while std::io::Write::write_all(&mut file, &block).is_ok() {}
            if file.metadata().unwrap().len() == before {
                break;
            }
        }
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(left)).unwrap();
        file.sync_all().unwrap();
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // zoneadmd may still be closing the zone's root after its answer.
        let lazy = std::thread::panicking().then_some("-l");
        let end = std::time::Instant::now() + e2e::WAIT_TIMEOUT;
        loop {
            let done = Command::new("umount").args(lazy).arg(&self.at).output();
            if done.is_ok_and(|done| done.status.success()) || std::time::Instant::now() > end {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Runs a test on a host with its own disk, in a new mount namespace, so that all mounts end with
/// the namespace.
fn on_disk(fstype: &str, mib: u64, options: &[&str], test: impl FnOnce(&Host, &Disk) + Send) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let alone = || {
        let Some(host) = Host::new() else { return };
        sys::namespace::unshare(ns::MOUNT).expect("a mount namespace");
        sys::mount::make_private_recursive().expect("private mounts");
        let Some(disk) = Disk::new(&host, fstype, mib, options) else {
            return;
        };
        test(&host, &disk);
        for row in host.rows() {
            if ["running", "ready"].contains(&row.state.as_str()) {
                host.halt(&row.name);
            }
            if row.state != "configured" {
                host.on(&row.name, &["uninstall", "-F"]).quiet();
            }
            host.zonecfg(&["-z", &row.name, "delete -F"]).quiet();
        }
        let left: Vec<_> = fs::read_dir(&disk.at)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "lost+found")
            .collect();
        assert!(left.is_empty(), "{left:?}");
    };
    // A namespace belongs to a thread: when this thread ends, the namespace ends.
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(name);
        let thread = builder.spawn_scoped(scope, alone).unwrap();
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn btrfs(test: impl FnOnce(&Host, &Disk) + Send) {
    on_disk("btrfs", 400, &[], test);
}

#[track_caller]
fn storage(host: &Host, zone: &str) -> Vec<String> {
    let ran = host.on(zone, &["storage", "-p"]).ok();
    ran.text().split(':').map(str::to_owned).collect()
}

/// Checks that a driver works.
fn works(host: &Host, driver: &str, fstype: &str) {
    host.configure("master", "");
    let ran = host.on("master", &["install"]).ok();
    assert!(
        ran.out.contains(&format!("Storage: layered on {fstype}")),
        "{ran:?}"
    );
    assert_eq!(storage(host, "master")[1..3], [driver, fstype]);
    let word = host.put("master", "var/word", "of the master\n");
    assert!(word.exists(), "automation writes into <zonepath>/root");
    host.clone_from("master", "web[1-3]");
    host.clone_from("web1", "deep");
    // The origins are removed first.
    for origin in ["master", "web1"] {
        host.on(origin, &["uninstall", "-F"]).quiet();
    }
    for zone in ["web2", "web3", "deep"] {
        host.boot(zone);
        let script =
            "cat /var/word; echo more >>/var/word; mv /var/opt /var/moved; rm /etc/motd; hostname";
        assert_eq!(host.sh(zone, script), format!("of the master\n{zone}"));
    }
    // The snapshot is taken of a running zone, and of the same zone halted.
    let ran = host.on("web2", &["snapshot", "live"]).ok();
    assert!(ran.out.contains("The zone stood still for"), "{ran:?}");
    host.sh("web2", "echo later >/var/word");
    host.halt("web2");
    host.on("web2", &["snapshot", "halted"]).quiet();
    host.on("web2", &["rollback", "-F", "live"]).quiet();
    host.boot("web2");
    let look =
        "cat /var/word; ls -d /var/moved /var/opt 2>/dev/null; test -e /etc/motd || hostname";
    assert_eq!(
        host.sh("web2", look),
        "of the master\nmore\n/var/moved\nweb2"
    );
    host.on("copy", &["clone", "--create", "-s", "halted", "web2"])
        .quiet();
    host.boot("copy");
    assert_eq!(host.sh("copy", "cat /var/word; hostname"), "later\ncopy");
    host.halt("web2");
    // This many seals cause a merge of layers.
    for n in 0..10 {
        host.put("web2", &format!("var/n{n}"), n.to_string());
        host.on("web2", &["snapshot", &format!("s{n}")]).quiet();
    }
    host.boot("web2");
    assert_eq!(host.sh("web2", "cat /var/n?"), "0123456789");
    host.halt("web2");
    for n in [0, 9, 5] {
        host.on("web2", &["rollback", "-F", &format!("s{n}")])
            .quiet();
    }
    host.boot("web2");
    assert_eq!(host.sh("web2", "cat /var/n?"), "012345");
}

#[test]
fn layered_on_ext4() {
    on_disk("ext4", 400, &[], |host, _| works(host, "layered", "ext4"));
}

#[test]
fn layered_on_xfs_shares_blocks() {
    on_disk("xfs", 400, &["-m", "reflink=1"], |host, _| {
        works(host, "layered", "xfs");
        host.sh("web2", "head -c 8M /dev/urandom >/var/big");
        let ran = host.on("web2", &["snapshot", "shared"]).ok();
        // A file that changed in the last second is copied once more while the zone is frozen.
        let words = ["sharing 8", "sharing 16"];
        assert!(words.iter().any(|one| ran.out.contains(one)), "{ran:?}");
    });
}

#[test]
fn subvolumes_on_btrfs() {
    btrfs(|host, disk| {
        works(host, "btrfs", "btrfs");
        host.sh("web2", "head -c 8M /dev/urandom >/var/big");
        let ran = host.on("web2", &["snapshot", "shared"]).ok();
        assert!(
            ran.out.contains("Made a snapshot of its subvolume"),
            "{ran:?}"
        );
        let list = run(
            Command::new("btrfs")
                .args(["subvolume", "list"])
                .arg(&disk.at),
            b"",
        )
        .ok();
        assert!(list.out.contains("web2/vol"), "{list:?}");
    });
}

/// Returns a listing of a tree with the properties that a stream keeps, without the files of a
/// zone's identity.
fn listed(tree: &Path) -> String {
    let script = "export LC_ALL=C; find . -path ./etc -prune -o -type f -printf '%P %m %U %s %n %Ts\n' \
                  -o -type l -printf '%P %l\n' -o -type d -printf '%P %m\n' | sort | tail -n +2";
    let mut shell = Command::new("sh");
    let found = run(shell.args(["-c", script]).current_dir(tree), b"").ok();
    let sums =
        "export LC_ALL=C; find . -path ./etc -prune -o -type f -exec md5sum {} + | sort -k 2";
    let mut shell = Command::new("sh");
    found.out
        + &run(shell.args(["-c", sums]).current_dir(tree), b"")
            .ok()
            .out
}

#[test]
fn a_stream_of_btrfs_becomes_a_zone() {
    btrfs(|host, disk| {
        let Some(busybox) = e2e::container::busybox() else {
            return;
        };
        let shell = |script: &str| {
            let mut shell = Command::new("sh");
            run(shell.args(["-ec", script]).current_dir(&disk.at), b"").ok()
        };
        shell("btrfs -q subvolume create source");
        let packed = e2e::container::archive(&e2e::container::system(&busybox));
        let mut tar = Command::new("tar");
        tar.args(["-xf", "-", "-C"]).arg(disk.at.join("source"));
        run(&mut tar, &packed).quiet();
        shell(
            "cd source; mkdir -p usr/share; head -c 3M /dev/urandom >usr/share/big
             cp --reflink=always usr/share/big usr/share/shared
             truncate -s 8M usr/share/hole; echo x >>usr/share/hole
             echo one >usr/share/one; ln usr/share/one usr/share/two; chmod 4755 usr/share/one
             chown 7:8 usr/share/hole; ln -s /nowhere usr/share/link; mknod usr/share/null c 1 3
             touch -d 2001-02-03 usr/share/one; mkfifo usr/share/pipe",
        );
        shell("btrfs -q subvolume snapshot -r source sent; sync -f sent");
        let streams = host.path("/streams");
        fs::create_dir(&streams).unwrap();
        let at = streams.to_string_lossy().into_owned();
        shell(&format!(
            "btrfs -q send -f {at}/plain sent; gzip -c {at}/plain >{at}/gzip"
        ));
        for form in ["plain", "gzip"] {
            host.zonecfg(&["-z", form, "create -t SUNWlx"]).quiet();
            let ran = host
                .on(form, &["install", "-a", &format!("{at}/{form}")])
                .ok();
            assert!(ran.out.contains("Left out 1 device node"), "{ran:?}");
            assert_eq!(listed(&host.top(form)), listed(&disk.at.join("sent")));
        }
        host.boot("plain");
        assert_eq!(
            host.sh("plain", "hostname; cat /usr/share/two"),
            "plain\none"
        );
        host.halt("plain");
        // An increment needs the layer from which it was made.
        shell(
            "echo more >source/usr/share/one; btrfs -q subvolume snapshot -r source later; sync -f later",
        );
        shell(&format!("btrfs -q send -p sent -f {at}/increment later"));
        host.zonecfg(&["-z", "more", "create -t SUNWlx"]).quiet();
        host.on("more", &["install", "-a", &format!("{at}/increment")])
            .mentions(1, "an increment");
        assert_eq!(host.state("more"), "configured");
        shell("for one in later sent source; do btrfs -q subvolume delete $one; done");
    });
}

#[test]
fn a_quota_holds_on_btrfs() {
    btrfs(|host, disk| {
        host.install("web");
        host.on("web", &["quota", "20M"])
            .mentions(1, "btrfs quota enable");
        run(
            Command::new("btrfs")
                .args(["quota", "enable"])
                .arg(&disk.at),
            b"",
        )
        .quiet();
        host.on("web", &["quota", "60M"]).quiet();
        assert_eq!(storage(host, "web")[7], (60 << 20).to_string());
        // The same is true for the new top after a seal.
        host.on("web", &["snapshot", "one"]).quiet();
        host.boot("web");
        let write = "head -c 100M /dev/zero >/var/big 2>/dev/null; sync /var/big; wc -c </var/big; rm /var/big";
        let written: u64 = host.sh("web", write).parse().unwrap();
        assert!((1 << 20..=60 << 20).contains(&written), "{written}");
        host.on("web", &["quota", "none"]).quiet();
        wait_for("room for 100 MB", || {
            (host.sh("web", write) == (100 << 20).to_string()).then_some(())
        });
    });
}

#[test]
fn new_zones_get_the_default_quota() {
    btrfs(|host, disk| {
        host.zonecfg(&["-z", "global", "set default-quota=48m"])
            .quiet();
        // Without quotas on the file system the zone is installed all the same.
        host.configure("plain", "");
        let said = host.on("plain", &["install"]).ok().out;
        let line = "The files of the zone have no limit, though default-quota is set";
        assert!(said.contains(line), "{said}");
        let none = storage(host, "plain")[7].clone();

        run(
            Command::new("btrfs")
                .args(["quota", "enable"])
                .arg(&disk.at),
            b"",
        )
        .quiet();
        let quota = |zone: &str| storage(host, zone)[7].clone();
        let default = (48_u64 << 20).to_string();
        host.configure("web", "");
        let plan = host.on("web", &["install", "-n"]).ok().out;
        assert!(plan.contains("to 50331648 bytes"), "{plan}");
        host.on("web", &["install"]).quiet();
        assert_eq!(quota("web"), default);
        host.on("web", &["quota", "none"]).quiet();
        host.clone_from("web", "copy");
        assert_eq!(quota("copy"), default);
        host.boot("copy");
        let write = "head -c 100M /dev/zero >/var/big 2>/dev/null; sync /var/big; wc -c </var/big; rm /var/big";
        let written: u64 = host.sh("copy", write).parse().unwrap();
        assert!((1 << 20..=48 << 20).contains(&written), "{written}");
        host.halt("copy");

        // A limit of the zone itself is kept.
        host.on("copy", &["quota", "64M"]).quiet();
        host.on("copy", &["detach"]).quiet();
        host.on("copy", &["attach"]).quiet();
        assert_eq!(quota("copy"), (64 << 20).to_string());
        // A zone without a limit of its own gets the default when it comes back.
        host.on("copy", &["quota", "none"]).quiet();
        assert_eq!(quota("copy"), none);
        let file = disk.at.join("copy.zone");
        let file = file.to_str().unwrap();
        let _ = host.on("copy", &["export", file]).ok();
        host.on("copy", &["detach"]).quiet();
        host.on("copy", &["attach"]).quiet();
        assert_eq!(quota("copy"), default);
        let _ = host.on("third", &["import", file]).ok();
        assert_eq!(quota("third"), default);
        fs::remove_file(file).unwrap();
        host.zonecfg(&["-z", "global", "set default-quota=none"])
            .quiet();
        host.clone_from("web", "free");
        assert_eq!(quota("free"), none);
        host.zonecfg(&["-z", "web", "set default-quota=1g"])
            .mentions(1, "default-quota");
    });
}

#[test]
fn a_quota_that_cannot_hold_is_refused() {
    let Some(host) = Host::with_web() else { return };
    let ran = host.on("web", &["quota", "1G"]);
    if storage(&host, "web")[1] == "layered" {
        ran.mentions(1, "with project quotas");
    }
    host.on("web", &["quota", "lots"])
        .mentions(2, "expected a size");
    host.on("web", &["quota"]).mentions(2, "quota needs a size");
    host.on("web", &["quota", "none"]).quiet();
}

#[test]
fn a_full_disk_in_the_middle_of_many_clones() {
    on_disk("ext4", 96, &["-m", "0", "-N", "16384"], |host, disk| {
        host.install("master");
        host.put("master", "var/word", "of the master\n");
        // The first clone seals the origin's top, which is not part of this test.
        host.clone_from("master", "web1");
        // A clone takes about 7 KiB of the free space.
        let filler = disk.fill(64 << 10);
        let ran = host.on("web[2-40]", &["clone", "--create", "master"]);
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        let states = |host: &Host| -> Vec<(String, String)> {
            let rows = host.rows().into_iter();
            rows.map(|row| (row.name, row.state)).collect()
        };
        let finished: Vec<String> = states(host)
            .into_iter()
            .filter(|(name, state)| name != "master" && state == "installed")
            .map(|(name, _)| name)
            .collect();
        assert!((2..40).contains(&finished.len()), "{finished:?}");
        // Many zones are cloned at a time, and each clone may find the disk full.
        let missing: Vec<String> = (1..=40)
            .map(|number| format!("web{number}"))
            .filter(|name| !finished.contains(name))
            .collect();
        let first = ran.err.lines().next().unwrap_or_default();
        assert!(
            missing
                .iter()
                .any(|name| first.contains(&format!("zone '{name}'")))
                && first.contains("No space left"),
            "{ran:?}"
        );
        // A failed clone leaves nothing.
        assert!(
            states(host).iter().all(|(_, state)| state != "incomplete"),
            "{ran:?}"
        );
        for name in &missing {
            assert!(!disk.at.join(name).exists(), "{name}: {ran:?}");
        }
        fs::remove_file(filler).unwrap();
        for zone in [finished.first().unwrap(), finished.last().unwrap()] {
            host.boot(zone);
            assert_eq!(
                host.sh(zone, "cat /var/word; hostname"),
                format!("of the master\n{zone}")
            );
            host.halt(zone);
        }
        // With free space, the rest of the clones succeed.
        let mut rest: Vec<&str> = missing.iter().flat_map(|name| ["-z", name]).collect();
        rest.extend(["clone", "--create", "master"]);
        host.zoneadm(&rest).quiet();
        assert_eq!(host.rows().len(), 41);
        host.boot("web40");
        host.halt("web40");
        host.on("web*", &["uninstall", "-F"]).quiet();
        host.on("web*", &["list"]).ok().out.clear();
        let names: Vec<String> = (1..=40).map(|n| format!("web{n}")).collect();
        for name in names {
            host.zonecfg(&["-z", &name, "delete -F"]).quiet();
        }
    });
}
