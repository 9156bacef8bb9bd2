//! Tests `zoneadm monitor`: events of states, configurations, snapshots and limits, and its end.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use e2e::delegation::Service;
use e2e::{Host, wait_for};
use serde_json::Value;

/// Time within which an event must come.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

/// A monitor that runs, and its lines.
struct Monitor {
    child: Child,
    lines: Receiver<Value>,
}

impl Monitor {
    fn start(mut command: std::process::Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("zoneadm monitor");
        let output: ChildStdout = child.stdout.take().expect("its output");
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).expect("a JSON object in each line");
                if to.send(event).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// Returns the next event for which `is_it` is true.
    #[track_caller]
    fn expect(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut others = Vec::new();
        loop {
            match self.lines.recv_timeout(EVENT_TIMEOUT) {
                Ok(event) if is_it(&event) => return event,
                Ok(event) => others.push(event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no event: {what}; instead: {others:#?}")
                }
            }
        }
    }

    #[track_caller]
    fn expect_state(&self, zone: &str, state: &str) {
        self.expect(&format!("{zone} is {state}"), |event| {
            event["event"] == "state" && event["zone"] == zone && event["state"] == state
        });
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_monitor_reports_the_life_of_a_zone() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let monitor = Monitor::start(host.command("zoneadm", &["monitor", "-j"]));
    let start = monitor.expect("start", |event| event["event"] == "start");
    assert_eq!(start["messages"], true);
    assert_eq!(start["zone"], Value::Null);
    host.configure("web", "");
    let new = monitor.expect("web is new", |event| event["zone"] == "web");
    assert_eq!(new["state"], "configured");
    assert_eq!(new["was"], Value::Null);
    host.zonecfg(&["-z", "web", "set max-lwps=20"]).quiet();
    monitor.expect("a new configuration", |event| {
        event["event"] == "config" && event["zone"] == "web"
    });
    host.on("web", &["clone", "master"]).quiet();
    monitor.expect_state("web", "installed");
    host.boot("web");
    monitor.expect_state("web", "running");
    host.on("web", &["snapshot", "monday"]).quiet();
    let taken = monitor.expect("a snapshot", |event| event["event"] == "snapshot");
    assert_eq!(
        (&taken["name"], &taken["change"]),
        (&"monday".into(), &"taken".into())
    );
    host.on("web", &["destroy-snapshot", "monday"]).quiet();
    monitor.expect("no snapshot", |event| event["change"] == "destroyed");
    // More threads than the limit allows.
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do sleep 3 & done; wait";
    let _ = host.zlogin(&["web", script]);
    let limit = monitor.expect("a limit", |event| event["event"] == "limit");
    let text = limit["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("zone.max-lwps=20 was reached"), "{text}");
    host.halt("web");
    monitor.expect_state("web", "installed");
    host.on("web", &["uninstall", "-F"]).quiet();
    monitor.expect_state("web", "configured");
    host.zonecfg(&["-z", "web", "delete -F"]).quiet();
    let gone = monitor.expect("web is deleted", |event| {
        event["event"] == "state" && event["state"].is_null()
    });
    assert_eq!(gone["was"], "configured");
}

#[test]
fn a_monitor_ends_with_its_reader_and_sleeps_until_then() {
    let Some(host) = Host::new() else { return };
    let mut command = host.command("zoneadm", &["monitor", "-j"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a monitor");
    let mut reader = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("its first line");
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("voluntary_ctxt_switches"));
        line.map(str::to_owned)
    };
    // The monitor has printed its first line, and must still begin to wait.
    std::thread::sleep(Duration::from_millis(500));
    let before = switches();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(switches(), before, "the monitor woke up without an event");
    assert!(child.try_wait().expect("its state").is_none());
    drop(reader);
    let status = wait_for("the end of the monitor", || child.try_wait().ok().flatten());
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_pattern_selects_zones_and_a_user_sees_states_only() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web1");
    host.clone_from("master", "db1");
    let chosen = Monitor::start(host.command("zoneadm", &["-z", "web*", "monitor", "-j"]));
    chosen.expect("start", |event| event["event"] == "start");
    let service = Service::start(&host);
    let user = Monitor::start(service.command("daemon", "zoneadm", &["monitor", "-j"]));
    let start = user.expect("start", |event| event["event"] == "start");
    assert_eq!(start["messages"], false);
    host.boot("db1");
    host.boot("web1");
    let first = chosen.expect("an event", |_| true);
    assert_eq!(first["zone"], "web1", "{first}");
    user.expect_state("db1", "running");
    host.on("web1", &["snapshot", "one"]).quiet();
    chosen.expect("a snapshot", |event| event["event"] == "snapshot");
    host.halt("web1");
    let next = user.expect("web1 is down", |event| {
        event["event"] == "snapshot" || event["state"] == "installed"
    });
    assert_eq!(next["event"], "state", "{next}");
}
