//! Tests the figures of zonestat, and who may see which of them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use e2e::run::run;
use e2e::{Host, Ran, WAIT_TIMEOUT, start, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn zonestat(host: &Host, words: &[&str]) -> Ran {
    run(&mut host.command("zonestat", words), b"")
}

/// A zonestat that prints a line of JSON every second.
struct Stream {
    child: Child,
    lines: Receiver<Value>,
}

impl Stream {
    /// Starts zonestat. When this returns, zonestat has taken its first sample.
    fn new(host: &Host) -> Self {
        let mut command = host.command("zonestat", &["-j", "1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = start(&mut command);
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("a line of JSON");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stream = Self { child, lines };
        stream.next();
        stream
    }

    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(WAIT_TIMEOUT);
        check(line.expect("a line in time"))
    }

    /// Returns all lines up to the second one from now. The interval of that line began after this
    /// call.
    fn rest(&self) -> Vec<Value> {
        let mut lines: Vec<Value> = self.lines.try_iter().map(check).collect();
        lines.extend([self.next(), self.next()]);
        lines
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or_default()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let status = self.child.wait();
        if !std::thread::panicking() {
            assert!(status.is_ok_and(|status| status.success()));
        }
    }
}

/// Checks the rules for every line: no use is above the host's amount, and totals are sums.
fn check(line: Value) -> Value {
    let zones = line["zones"].as_array().expect("zones");
    for key in [
        "cpu_usec",
        "cpu_millionths",
        "physical_bytes",
        "virtual_bytes",
        "lwps",
        "processes",
    ] {
        let of = |user: &Value| user[key].as_u64().unwrap_or_default();
        let sum: u64 = zones.iter().map(of).sum::<u64>() + of(&line["system"]);
        assert_eq!(of(&line["total"]), sum, "{key} of {line}");
        if let Some(size) = line["size"][key].as_u64() {
            assert!(sum <= size, "{key} of {line}");
        }
    }
    let seconds = line["seconds"].as_f64().expect("a length");
    for zone in zones {
        let ran = zone["ran_seconds"].as_f64().expect("a time");
        assert!((0.0..=seconds).contains(&ran), "{zone} in {line}");
    }
    line
}

fn of_zone<'a>(line: &'a Value, zone: &str) -> Option<&'a Value> {
    let mut zones = line["zones"].as_array()?.iter();
    zones.find(|one| one["name"] == zone)
}

/// Returns the CPU seconds that a zone used in some intervals.
fn cpu_seconds(lines: &[Value], zone: &str) -> f64 {
    let usec = |line| of_zone(line, zone)?["cpu_usec"].as_f64();
    lines.iter().filter_map(usec).sum::<f64>() / 1e6
}

/// Runs a bash script in a zone. Returns the CPU seconds that bash reports for itself and its
/// children. The script must not use CPU time after that report.
fn rusage(host: &Host, zone: &str, script: &str) -> f64 {
    let script = format!("exec bash -c '{script}; TIMEFORMAT=x; times'");
    let times = host.sh(zone, &script);
    // `times` prints two lines of user and system time: 0m1.234s 0m0.567s.
    let words = times.split_whitespace().rev().take(4);
    let seconds = |word: &str| -> f64 {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').expect("a time");
        let (minutes, seconds): (f64, f64) = (
            minutes.parse().expect("minutes"),
            seconds.parse().expect("seconds"),
        );
        minutes * 60.0 + seconds
    };
    words.map(seconds).sum()
}

/// A loop that takes about the same time on every machine.
const BUSY: &str = "end=$((SECONDS+4)); while [ $SECONDS -lt $end ]; do :; done";

#[test]
fn a_cap_holds_and_is_what_the_zone_itself_says() {
    let Some(host) = Host::with_web() else { return };
    host.zonecfg(&["-z", "web", "add capped-cpu; set ncpus=0.25; end"])
        .quiet();
    host.boot("web");
    let stream = Stream::new(&host);
    let own = rusage(&host, "web", BUSY);
    let lines = stream.rest();
    let shown = cpu_seconds(&lines, "web");
    // The shell of zlogin uses some CPU time in addition to that of bash.
    assert!(
        shown >= own * 0.98 && shown <= own * 1.05 + 0.1,
        "{shown} {own}"
    );
    for line in &lines {
        let Some(web) = of_zone(line, "web") else {
            continue;
        };
        assert_eq!(web["caps"]["cpu_millionths"], 250_000);
        let used = web["cpu_millionths"].as_u64().unwrap();
        // A period of the kernel's CPU limit may begin in one interval and end in the next.
        assert!(used <= 300_000, "{used} in {line}");
    }
    let seconds: f64 = lines
        .iter()
        .filter_map(|line| line["seconds"].as_f64())
        .sum();
    assert!(shown / seconds <= 0.27, "{shown} in {seconds} s");
}

#[test]
fn processes_that_live_a_moment_are_charged() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let stream = Stream::new(&host);
    let own = rusage(&host, "web", "for i in {1..5000}; do /bin/true; done");
    let shown = cpu_seconds(&stream.rest(), "web");
    let off = (shown - own) / own;
    println!("5000 processes: {shown:.3} s by zonestat, {own:.3} s by rusage");
    // rusage does not contain the CPU time that a process uses while it exits.
    assert!(
        (-0.01..0.03).contains(&off),
        "{shown} s by zonestat, {own} s by rusage"
    );
}

#[test]
fn a_zone_that_halts_is_shown_for_the_part_it_ran() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // With the last zone, the control group of all zones and its counter end, too.
    host.clone_from("master", "db");
    host.boot("db");
    let stream = Stream::new(&host);
    let own = rusage(&host, "web", BUSY);
    host.halt("web");
    let lines = stream.rest();
    let shown = cpu_seconds(&lines, "web");
    assert!(shown >= own * 0.98, "{shown} {own}");
    assert_eq!(of_zone(lines.last().unwrap(), "web"), None);
}

#[test]
fn a_reboot_a_rename_and_an_id_above_999() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let stream = Stream::new(&host);
    let first = of_zone(&stream.next(), "web").expect("a row")["id"].clone();
    std::fs::write(host.path("/run/zones/last_id"), "2147483\n").unwrap();
    host.on("web", &["reboot"]).quiet();
    let seen = |zone: &str| {
        wait_for("a row of the zone", || {
            of_zone(&stream.next(), zone).cloned()
        })
    };
    let again = wait_for("the zone's new id", || {
        let row = seen("web");
        (row["id"] != first).then_some(row)
    });
    assert_eq!(again["id"], 2_147_484);
    host.halt("web");
    host.zonecfg(&["-z", "web", "set zonename=shop"]).quiet();
    host.boot("shop");
    assert_eq!(seen("shop")["id"], 2_147_485);
    wait_for("the end of the old name", || {
        of_zone(&stream.next(), "web").is_none().then_some(())
    });
    host.halt("shop");
}

#[test]
fn memory_is_what_the_kernel_charges() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let physical = || {
        let line = check(serde_json::from_str(&zonestat(&host, &["-j"]).ok().out).unwrap());
        of_zone(&line, "web").unwrap()["physical_bytes"].as_u64()
    };
    let Some(before) = physical() else {
        e2e::skip("this host does not account memory");
        return;
    };
    host.sh("web", "head -c 33554432 /dev/zero > /var/tmp/much");
    let after = physical().unwrap();
    let gained = after.saturating_sub(before) >> 20;
    assert!((31..64).contains(&gained), "{gained} MiB");
}

#[test]
fn json_has_only_the_figures_and_zones_that_were_asked_for() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let words = ["-j", "-r", "summary", "-z", "w*", "1", "1"];
    let line: Value = serde_json::from_str(&zonestat(&host, &words).ok().out).unwrap();
    let zones = line["zones"].as_array().unwrap();
    assert_eq!(zones.len(), 1, "{line}");
    assert_eq!(zones[0]["name"], "web");
    assert!(zones[0]["cpu_usec"].is_u64());
    for absent in ["lwps", "network", "pressure", "limits_hit", "shm_bytes"] {
        assert!(zones[0].get(absent).is_none(), "{absent} in {line}");
    }
    let all: Value = serde_json::from_str(&zonestat(&host, &["-j"]).ok().out).unwrap();
    assert!(of_zone(&all, "web").unwrap()["lwps"].is_u64());
    assert!(!all.to_string().contains(&u64::MAX.to_string()), "{all}");
}

/// An open list keeps the namespace of a halted zone, with its shared memory or its links, for as
/// long as zonestat is stopped.
#[test]
fn between_two_samples_no_namespace_of_a_zone_is_held() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut command = host.command("zonestat", &["-j", "3"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = start(&mut command);
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("a line");
    // The next sample is three seconds away.
    let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).expect("its descriptors");
    let open: Vec<_> = open
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .collect();
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::KILL).expect("it runs");
    child.wait().expect("it ends");
    assert!(!open.is_empty());
    // The host's own network is read from the folder of zonestat.
    let own = format!("/proc/{}", child.id());
    for held in ["sysvipc", "/net/"] {
        let is_held = |path: &std::path::PathBuf| {
            path.to_string_lossy().contains(held) && !path.starts_with(&own)
        };
        assert!(!open.iter().any(is_held), "{held}: {open:?}");
    }
    let line: Value = serde_json::from_str(&line).expect("JSON");
    let web = of_zone(&line, "web").expect("the zone");
    assert!(
        web["shm_bytes"].is_u64() && web["network"].is_object(),
        "{web}"
    );
}

#[test]
fn reports_of_running_zones_have_all_columns() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let ran = zonestat(&host, &["1", "2"]).ok();
    let mut lines = ran.out.lines();
    assert_eq!(lines.next(), Some("Collecting data for first interval..."));
    // On a busy machine the second sample may be skipped, because its time had passed.
    let headers = lines.filter(|line| line.starts_with("Interval: ")).count();
    assert!((1..=2).contains(&headers), "{ran:?}");
    for name in ["[total]", "[system]", "global", "web"] {
        let start = format!("{name} ");
        let rows = ran
            .out
            .lines()
            .filter(|line| line.trim_start().starts_with(&start));
        assert_eq!(rows.count(), headers, "{name} in {ran:?}");
    }
    // Each line for programs has the number of fields that the manual gives.
    let ran = zonestat(
        &host,
        &["-p", "-r", "all", "-R", "total,average,high", "1", "1"],
    )
    .ok();
    for line in ran.out.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let wanted: &[usize] = match (fields[1], fields[2], fields[3]) {
            ("header", "since-last-interval", _) => &[6],
            ("header", ..) => &[6],
            ("footer", ..) => &[5],
            ("summary", "[resource]", _) => &[7],
            ("summary", ..) => &[13],
            ("processor-set", ..) => &[10, 13],
            ("network" | "network-link" | "disk", ..) => &[6],
            ("pressure", ..) => &[9],
            (_, _, "[resource]") => &[5],
            _ => &[8],
        };
        assert!(wanted.contains(&fields.len()), "{line}");
    }
    for report in [
        "report-total:header:",
        "report-average:",
        "report-high:footer:",
    ] {
        assert!(ran.out.contains(report), "{report}");
    }
    let ran = zonestat(&host, &["-P"]).ok();
    let header = ran.out.lines().next().unwrap();
    let fields = header.split(':').count();
    assert!(header.starts_with("Zonename:I:T:"), "{ran:?}");
    assert!(
        ran.out
            .lines()
            .all(|line| line.split(':').count() == fields),
        "{ran:?}"
    );
    assert!(ran.out.lines().any(|line| line.starts_with("==TOTAL=:")));
    let ran = zonestat(&host, &["-l", "-N"]).ok();
    assert!(ran.out.starts_with("        |----Pool-----|"), "{ran:?}");
    assert!(ran.out.ends_with('\n') && ran.out.contains("==TOTAL="));
}

#[test]
fn wrong_command_lines_are_2() {
    let Some(host) = Host::new() else { return };
    for line in [
        "-r summary",
        "0",
        "-q 5",
        "-P zones 5",
        "-x",
        "-l -p 5",
        "5 5 5 5",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = zonestat(&host, &words);
        assert_eq!((ran.code(), ran.out.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.err.starts_with("zonestat: Error: "), "{ran:?}");
        assert!(ran.err.contains("usage: zonestat"), "{ran:?}");
    }
    zonestat(&host, &["--root", "relative", "-j"]).mentions(2, "zonestat: Error: root path");
    let help = zonestat(&host, &["--help"]).ok();
    assert!(help.out.contains("usage: zonestat"));
}

#[test]
fn an_interrupt_prints_the_reports() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut command = host.command("zonestat", &["-R", "total", "1", "inf"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = start(&mut command);
    let mut out = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let line = |wanted: &str, out: &mut dyn Iterator<Item = std::io::Result<String>>| {
        let found = out
            .map_while(Result::ok)
            .any(|line| line.starts_with(wanted));
        assert!(found, "no {wanted}");
    };
    line("Interval: 1", &mut out);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    line("Report: Total Usage", &mut out);
    line("    Intervals: ", &mut out);
    drop(out);
    assert!(child.wait().unwrap().success());
}

#[test]
fn zonestat_in_a_zone_shows_only_that_zone() {
    let Some(host) = Host::with_web() else { return };
    let programs = std::env::var_os("ZONES_BIN").map_or_else(
        || std::path::Path::new("../../target/release").to_owned(),
        std::path::PathBuf::from,
    );
    let program = std::fs::read(programs.join("zonestat")).expect("the program");
    host.put_program("web", "root/zonestat", program);
    host.boot("web");
    host.clone_from("master", "db");
    host.boot("db");
    let ran = host.zlogin(&["web", "/root/zonestat -j 1 1"]);
    if ran.err.contains("does not see its control group") {
        e2e::skip("a zone does not see its control group here");
        return;
    }
    let line = check(serde_json::from_str(&ran.ok().out).unwrap());
    let names: Vec<&Value> = line["zones"]
        .as_array()
        .unwrap()
        .iter()
        .map(|zone| &zone["name"])
        .collect();
    assert_eq!(names, ["web"]);
}

/// Parses a text by the grammar of Prometheus. Returns the names of samples with the number of
/// times that each occurs.
fn samples(text: &str) -> std::collections::BTreeMap<String, usize> {
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let mut samples = std::collections::BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        assert!(
            value.parse::<f64>().is_ok_and(|value| value >= 0.0),
            "{line}"
        );
        let name = match name.split_once('{') {
            Some((name, labels)) => {
                assert!(labels.ends_with("\"}") && labels.contains("=\""), "{line}");
                name
            }
            None => name,
        };
        *samples.entry(name.to_owned()).or_default() += 1;
    }
    samples
}

#[test]
fn figures_for_prometheus() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let text = zonestat(&host, &["--openmetrics"]).ok().out;
    let found = samples(&text);
    for name in [
        "zone_cpu_seconds_total",
        "zone_info",
        "zones_active",
        "zones_host_cpus",
    ] {
        assert_eq!(found.get(name), Some(&1), "{name} in {text}");
    }
    let mut promtool = std::process::Command::new("promtool");
    promtool.args(["check", "metrics"]);
    if std::process::Command::new("promtool")
        .arg("--version")
        .output()
        .is_err()
    {
        e2e::skip("promtool is not installed (package prometheus); read by a parser of ours only");
        return;
    }
    let ran = run(&mut promtool, text.as_bytes()).ok();
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
}

#[test]
fn the_service_answers_and_keeps_its_history() {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut command = host.command("zonestat", &["--serve", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = start(&mut command);
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let line = said.next().expect("a line").expect("a line of text");
    let address = line.strip_prefix("zonestat: serving at ");
    let port: std::net::SocketAddr = address.expect("an address").parse().expect("an address");
    let ask = |path: &str| -> Option<String> {
        let mut client = TcpStream::connect(port).ok()?;
        client
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .ok()?;
        let mut text = String::new();
        client.read_to_string(&mut text).ok()?;
        Some(text)
    };
    let metrics = wait_for("an answer of the service", || ask("/metrics"));
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    let (_, body) = metrics.split_once("\r\n\r\n").unwrap();
    assert_eq!(samples(body).get("zone_cpu_seconds_total"), Some(&1));
    let history = ask("/history").expect("a history");
    let (_, body) = history.split_once("\r\n\r\n").unwrap();
    let json: Value = serde_json::from_str(body).unwrap();
    assert_eq!(json["seconds"], 60);
    assert!(ask("/nothing").unwrap().starts_with("HTTP/1.1 404 "));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(host.path("/var/lib/zones/zonestat.history").exists());
    std::fs::remove_file(host.path("/var/lib/zones/zonestat.history")).unwrap();
}

#[test]
fn the_full_screen_in_a_real_terminal() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    if std::process::Command::new("tmux")
        .arg("-V")
        .output()
        .is_err()
    {
        e2e::skip("tmux is not installed");
        return;
    }
    // The path of a Unix socket has a small maximum length.
    let socket = std::env::temp_dir().join(format!("zones-e2e-tmux-{}", std::process::id()));
    let tmux = |words: &[&str]| {
        let mut command = std::process::Command::new("tmux");
        command
            .arg("-S")
            .arg(&socket)
            .args(words)
            .env("LC_ALL", "C.UTF-8");
        run(&mut command, b"")
    };
    let programs = std::env::var_os("ZONES_BIN").map_or_else(
        || {
            std::path::Path::new("../../target/release")
                .canonicalize()
                .expect("programs")
        },
        std::path::PathBuf::from,
    );
    let line = format!(
        "env ZONES_ROOT={} ZONES_CGROUP={} {} --tui 1",
        host.root().display(),
        host.cgroup(),
        programs.join("zonestat").display()
    );
    tmux(&[
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-x",
        "110",
        "-y",
        "30",
        &line,
    ])
    .quiet();
    let screen = |wanted: &str| {
        wait_for(&format!("{wanted:?} on the screen"), || {
            let shown = tmux(&["capture-pane", "-p"]);
            shown.out.contains(wanted).then_some(shown.out)
        })
    };
    let list = screen("web");
    for wanted in ["zonestat", "global", "CPU", "Memory", "q quit"] {
        assert!(list.contains(wanted), "{wanted} in {list}");
    }
    tmux(&["send-keys", "/", "web", "Enter"]).quiet();
    screen("with 'web'");
    tmux(&["send-keys", "Enter"]).quiet();
    screen("web, id ");
    tmux(&["send-keys", "?"]).quiet();
    screen("sort by CPU, memory");
    tmux(&["send-keys", "q"]).quiet();
    // The only tmux window has ended, and with it the tmux server of the test.
    wait_for("the end of the screen", || {
        (tmux(&["list-sessions"]).code() != Some(0)).then_some(())
    });
    let _ = std::fs::remove_file(&socket);
}
