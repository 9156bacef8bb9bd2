//! Tests zonestat while zones start and end: no crash, no impossible figure, correct sums.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use e2e::{Host, start};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Returns a pseudo-random number.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn zones_that_boot_and_halt_at_random() {
    let (count, seconds) = if e2e::is_long() { (100, 60) } else { (20, 12) };
    let Some(host) = Host::with_master() else {
        return;
    };
    let zones: Vec<String> = (1..=count).map(|number| format!("churn{number}")).collect();
    host.clone_from("master", &format!("churn[1-{count}]"));
    // The zone ids exceed 999 during this test.
    std::fs::create_dir_all(host.path("/run/zones")).unwrap();
    std::fs::write(host.path("/run/zones/last_id"), "990\n").unwrap();

    let mut streams: Vec<_> = [&["-j", "1"][..], &["-p", "-r", "psets,memory,summary", "1"]]
        .into_iter()
        .map(|words| {
            let mut command = host.command("zonestat", words);
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            start(&mut command)
        })
        .collect();
    let done = AtomicBool::new(false);
    let changes = AtomicU64::new(0);
    let (json, text) = std::thread::scope(|scope| {
        for (worker, part) in zones.chunks(zones.len().div_ceil(4)).enumerate() {
            let (host, done, changes) = (&host, &done, &changes);
            scope.spawn(move || {
                let mut random = 0x9e37_79b9_7f4a_7c15 ^ (worker as u64 + 1);
                let mut runs = vec![false; part.len()];
                while !done.load(Ordering::Relaxed) {
                    let place = usize::try_from(next(&mut random) % part.len() as u64).unwrap();
                    let verb = match (runs[place], next(&mut random) % 4) {
                        (false, _) => "boot",
                        (true, 0) => "reboot",
                        (true, _) => "halt",
                    };
                    host.on(&part[place], &[verb]).quiet();
                    runs[place] = verb != "halt";
                    changes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut readers = streams.iter_mut().map(|child| {
            let out = BufReader::new(child.stdout.take().expect("a pipe"));
            scope.spawn(move || out.lines().map_while(Result::ok).collect::<Vec<String>>())
        });
        let (json, text) = (readers.next().unwrap(), readers.next().unwrap());
        drop(readers);
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
        }
        done.store(true, Ordering::Relaxed);
        for child in &mut streams {
            kill_process(Pid::from_child(child), Signal::TERM).unwrap();
            assert!(child.wait().unwrap().success());
        }
        (json.join().unwrap(), text.join().unwrap())
    });
    let _ = host.on("churn*", &["halt"]).ok();

    let mut ids = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for line in &json {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let rows = line["zones"].as_array().unwrap();
        for key in [
            "cpu_usec",
            "cpu_millionths",
            "physical_bytes",
            "virtual_bytes",
            "lwps",
        ] {
            let of = |user: &Value| user[key].as_u64().unwrap_or_default();
            let sum = rows.iter().map(of).sum::<u64>() + of(&line["system"]);
            assert_eq!(of(&line["total"]), sum, "{key} in {line}");
            if let Some(size) = line["size"][key].as_u64() {
                assert!(sum <= size, "{key} in {line}");
            }
        }
        let mut names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
        ids.extend(rows.iter().filter_map(|row| row["id"].as_u64()));
        seen.extend(names.iter().map(|name| (*name).to_owned()));
        let rows = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows, "a zone is shown twice in {line}");
    }
    assert!(!json.is_empty() && !text.is_empty());
    for line in &text {
        for field in line.split(':').filter_map(|field| field.strip_suffix('%')) {
            let percent: f64 = field.parse().expect("a percentage");
            // A zone may use more than its share, but all zones together never more than the host
            // has.
            let is_of_whole = line.split(':').nth(if line.contains(":processor-set:") {
                6
            } else {
                4
            });
            if is_of_whole.is_some_and(|whole| whole.trim_end_matches('%') == field) {
                assert!((0.0..=100.0).contains(&percent), "{line}");
            }
        }
        assert!(!line.contains(":-0") && !line.contains("NaN"), "{line}");
    }
    let most = ids.iter().max().copied().unwrap_or_default();
    println!(
        "{} changes, {} intervals, {} zones seen, ids up to {most}",
        changes.load(Ordering::Relaxed),
        json.len(),
        seen.len()
    );
    assert!(seen.len() > 2, "zones were seen: {seen:?}");
    assert!(
        changes.load(Ordering::Relaxed) < 100 || most > 999,
        "{most}"
    );
}
