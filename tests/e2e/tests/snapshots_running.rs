//! Tests snapshots of running zones: files that did not change, stores through mappings, and
//! databases that write all the time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use e2e::{Host, database, wait_for};

/// Longer than the time for which a file counts as changed after its change.
const RESTS: &str = "sleep 1.2";

/// Returns the topmost layer of a snapshot.
fn layer(host: &Host, zone: &str, snapshot: &str) -> PathBuf {
    let snapshot = host
        .path("/zones")
        .join(zone)
        .join("snapshots")
        .join(snapshot);
    let reference = fs::read_link(snapshot.join("dataset")).unwrap();
    // The reference is a link in the folder `refs` of the layer.
    let reference = snapshot.join(reference);
    let layer = reference.parent().unwrap().parent().unwrap();
    let layer = layer.canonicalize().unwrap();
    let tree = layer.join("tree");
    match tree.exists() {
        true => tree,
        false => layer.join("vol/root"),
    }
}

#[test]
fn a_snapshot_of_a_halted_zone_leaves_its_files_in_a_layer() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    assert_ne!(fs::read_dir(host.top("master")).unwrap().count(), 0);
    host.on("master", &["snapshot", "base"]).quiet();
    assert_eq!(fs::read_dir(host.top("master")).unwrap().count(), 0);
    let ran = host.on("master", &["storage", "-p"]).ok();
    assert_eq!(ran.out.split(':').nth(3), Some("1"), "{ran:?}");
    host.boot("master");
    assert_eq!(host.sh("master", "hostname"), "master");
}

#[test]
fn a_snapshot_copies_only_files_that_changed() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh(
        "web",
        "mkdir /var/d; for n in 1 2 3 4 5 6 7 8; do echo $n >/var/d/f$n; done",
    );
    host.sh("web", RESTS);
    let _ = host.on("web", &["snapshot", "one"]).ok();
    host.sh(
        "web",
        "echo new >/var/d/f3; rm /var/d/f4; mv /var/d/f5 /var/d/moved",
    );
    let ran = host.on("web", &["snapshot", "two"]).ok();
    let (one, two) = (layer(&host, "web", "one"), layer(&host, "web", "two"));
    let inode = |path: PathBuf| path.metadata().unwrap().ino();
    if one.ends_with("tree") {
        assert!(ran.out.contains("unchanged ones"), "{ran:?}");
        for file in ["f1", "f2", "f6", "f7", "f8"] {
            let file = Path::new("var/d").join(file);
            assert_eq!(inode(one.join(&file)), inode(two.join(&file)));
            assert_ne!(inode(one.join(&file)), inode(host.top("web").join(&file)));
        }
    }
    host.sh("web", "echo later >/var/d/f1");
    let text = |path: PathBuf| fs::read_to_string(path).unwrap();
    assert_eq!(text(two.join("var/d/f1")), "1\n");
    assert_eq!(text(two.join("var/d/f3")), "new\n");
    assert_eq!(text(one.join("var/d/f3")), "3\n");
    assert_eq!(text(two.join("var/d/moved")), "5\n");
    assert!(!two.join("var/d/f4").exists() && !two.join("var/d/f5").exists());
    // The removal of one snapshot takes nothing from the other.
    host.on("web", &["destroy-snapshot", "one"]).quiet();
    assert_eq!(text(two.join("var/d/f2")), "2\n");
    host.zoneadm(&["check"]).quiet();
}

#[test]
fn a_snapshot_of_an_unchanged_zone_copies_nothing() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh("web", "echo word >/var/word");
    host.sh("web", RESTS);
    let _ = host.on("web", &["snapshot", "one"]).ok();
    let planned = host.on("web", &["snapshot", "-n", "two"]).ok();
    assert!(!planned.out.contains("freeze"), "{planned:?}");
    let ran = host.on("web", &["snapshot", "two"]).ok();
    assert_eq!(
        ran.out,
        "No file has changed since snapshot one, so nothing was copied.\n"
    );
    assert_eq!(layer(&host, "web", "one"), layer(&host, "web", "two"));
    host.sh("web", "echo other >/var/word");
    let ran = host.on("web", &["snapshot", "three"]).ok();
    assert!(ran.out.contains("stood still"), "{ran:?}");
    host.halt("web");
    for (snapshot, word) in [("two", "word"), ("three", "other"), ("one", "word")] {
        host.on("web", &["rollback", "-F", snapshot]).quiet();
        host.boot("web");
        assert_eq!(host.sh("web", "cat /var/word"), word, "{snapshot}");
        host.halt("web");
    }
}

/// A program that stores a growing number into a mapped file, and never writes it back. The number
/// stands at the begin and at the end of the file.
const MAPPER: &str = r"import mmap, os, struct, sys
path = '/var/tmp/mapped'
f = open(path, 'w+b'); f.write(bytes(64 << 10)); f.flush(); os.fsync(f.fileno())
m = mmap.mmap(f.fileno(), 64 << 10)
open('/var/tmp/ready', 'w').close()
for line in sys.stdin:
    n = struct.pack('<Q', int(line)); m[0:8] = n; m[-8:] = n
    print(int(line), flush=True)
";

#[test]
fn a_store_through_a_mapping_is_in_the_next_snapshot() {
    if !Path::new("/usr/bin/python3").exists() {
        e2e::skip("no python3 on the host");
        return;
    }
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.zlogin_with(&["web", "cat >/var/tmp/mapper"], MAPPER.as_bytes())
        .quiet();
    host.sh(
        "web",
        "mkfifo /var/tmp/in /var/tmp/out; (setsid /usr/bin/python3 /var/tmp/mapper \
         </var/tmp/in >/var/tmp/out 2>/var/tmp/err &) ; \
         (setsid sh -c 'exec 3>/var/tmp/in 4</var/tmp/out; sleep 100000' >/dev/null 2>&1 </dev/null &)",
    );
    wait_for("the mapping", || {
        host.top("web").join("var/tmp/ready").exists().then_some(())
    });
    for n in 1..5 {
        host.sh(
            "web",
            &format!("echo {n} >/var/tmp/in; read got </var/tmp/out; {RESTS}"),
        );
        let snapshot = format!("s{n}");
        let _ = host.on("web", &["snapshot", &snapshot]).ok();
        let found = fs::read(layer(&host, "web", &snapshot).join("var/tmp/mapped")).unwrap();
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        assert_eq!(number(&found[..8]), n, "{snapshot}");
        assert_eq!(number(&found[found.len() - 8..]), n, "{snapshot}");
    }
}

/// Makes snapshots of a zone while its database writes, and checks the database in a clone of each.
fn check_each_copy(host: &Host, rounds: u64, count: &str, check: &str, want: &str) {
    let rows = || -> u64 { host.sh("web", count).trim().parse().unwrap_or(0) };
    let mut linked = 0;
    for n in 0..rounds {
        let before = rows();
        wait_for("more rows in the database", || {
            (rows() > before + 2).then_some(())
        });
        let ran = host.on("web", &["snapshot", &format!("live{n}")]).ok();
        assert!(ran.out.contains("stood still"), "{ran:?}");
        linked += u64::from(ran.out.contains("unchanged ones"));
        println!("{}", ran.out.trim());
    }
    println!("{linked} of {rounds} snapshots shared files with an older one");
    host.halt("web");
    for n in 0..rounds {
        let (zone, snapshot) = (format!("copy{n}"), format!("live{n}"));
        host.on(&zone, &["clone", "--create", "-s", &snapshot, "web"])
            .quiet();
        host.boot(&zone);
        assert_eq!(host.sh(&zone, check), want, "{snapshot}");
        host.halt(&zone);
        host.on(&zone, &["uninstall", "-F"]).quiet();
        host.zonecfg(&["-z", &zone, "delete -F"]).quiet();
    }
}

#[test]
fn a_sqlite_database_with_a_write_ahead_log_is_whole_in_each_snapshot() {
    if !Path::new("/usr/bin/sqlite3").exists() {
        e2e::skip("no sqlite3 on the host");
        return;
    }
    let Some(host) = Host::with_running_web() else {
        return;
    };
    database::write_all_the_time(&host, "web", "wal");
    check_each_copy(
        &host,
        e2e::rounds(3).end,
        "sqlite3 -cmd '.timeout 20000' /var/tmp/base.db 'SELECT max(n) FROM t' 2>/dev/null; true",
        "sqlite3 /var/tmp/base.db 'PRAGMA integrity_check; SELECT count(*) > 0, sum(half <> other) FROM t;'",
        "ok\n1|0",
    );
}

/// Returns the folder with the programs of PostgreSQL.
fn postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut bins = versions.map(|version| version.path().join("bin"));
    bins.find(|bin| {
        ["postgres", "pgbench", "pg_amcheck"]
            .iter()
            .all(|name| bin.join(name).exists())
    })
}

#[test]
fn a_postgresql_database_is_whole_in_each_snapshot() {
    let Some(bin) = postgres() else {
        e2e::skip("no PostgreSQL with pgbench on the host (Debian: postgresql postgresql-contrib)");
        return;
    };
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // The user daemon exists in each zone. PostgreSQL refuses to run as root.
    let script = format!(
        "export PATH={}:$PATH LC_ALL=C HOME=/var/tmp PGHOST=/var/tmp PGUSER=daemon\n\
         as() {{ setpriv --reuid 1 --regid 1 --clear-groups -- \"$@\"; }}\n\
         start() {{ as pg_ctl -D /var/tmp/pg -l /var/tmp/pg.log -s -w -t 120 \
         -o '-k /var/tmp -c listen_addresses= -c shared_buffers=16MB' start; }}\n",
        bin.display()
    );
    host.zlogin_with(&["web", "cat >/var/tmp/env"], script.as_bytes())
        .quiet();
    host.sh(
        "web",
        ". /var/tmp/env; chmod 1777 /var/tmp; cd /; \
         as initdb -D /var/tmp/pg -A trust -U daemon --no-locale --data-checksums >/dev/null && \
         start && as pgbench -i -q -s 1 postgres >/dev/null 2>&1 && \
         (setsid setpriv --reuid 1 --regid 1 --clear-groups -- \
         pgbench -n -c 4 -T 100000 postgres >/dev/null 2>&1 </dev/null &)",
    );
    check_each_copy(
        &host,
        e2e::rounds(3).end,
        ". /var/tmp/env; as psql -At postgres -c 'SELECT count(*) FROM pgbench_history'",
        // Each transaction adds the same number to three balances and to the history.
        ". /var/tmp/env; cd /; rm -f /var/tmp/pg/postmaster.pid; start && \
         as pg_amcheck --install-missing --heapallindexed postgres && \
         as psql -At postgres -c 'SELECT (SELECT sum(abalance) FROM pgbench_accounts) = h, \
         (SELECT sum(bbalance) FROM pgbench_branches) = h, \
         (SELECT sum(tbalance) FROM pgbench_tellers) = h, h IS NOT NULL \
         FROM (SELECT sum(delta) AS h FROM pgbench_history) AS one' && \
         as pg_ctl -D /var/tmp/pg -s -m fast stop && as pg_checksums -D /var/tmp/pg --check | \
         grep -c 'Bad checksums:  0'",
        "t|t|t|t\n1",
    );
}

#[test]
fn snapshots_are_listed_without_their_sizes() {
    let Some(host) = Host::with_web() else { return };
    host.on("web", &["snapshot", "one"]).quiet();
    let ran = host.on("web", &["snapshots", "-p", "--no-size"]).ok();
    assert!(ran.out.trim_end().ends_with(":2::"), "{ran:?}");
    let ran = host.on("web", &["snapshots", "-j", "--no-size"]).ok();
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json[0]["used_bytes"], serde_json::Value::Null);
    assert_eq!(json[0]["name"], "one");
}
