//! The service: serves figures over HTTP, and stores a history on disk.
//!
//! `/metrics` is for Prometheus, `/history` is JSON. One thread takes samples. Each client has a
//! thread of its own, which ends after a timeout.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stat::history::History;
use stat::report::Kind;
use stat::{Interval, Report, Sample, Wants};

use crate::args::{Common, DEFAULT_INTERVAL};
use crate::metrics::{self, Format};
use crate::run::{Woken, sampler, take_signals, wait};
use crate::zones::Zones;

/// Length of the interval that one point of the history covers, in seconds.
const POINT_SECONDS: u64 = 60;

/// Maximum number of points in the history: four hours.
const MAX_POINTS: usize = 240;

/// Number of points after which the history is stored; it is also stored at the end.
const STORED_EVERY: u64 = 10;

/// Maximum number of clients at a time; further clients are refused.
const MAX_CLIENTS: usize = 16;

/// Timeout for a client to send its request, and to read its answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a request that is read, in bytes.
const MAX_REQUEST_BYTES: usize = 8192;

/// Largest history that is read, in bytes.
const MAX_HISTORY: u64 = 256 << 20;

/// The data that clients read.
#[derive(Debug)]
struct Shown {
    sample: Sample,
    history: History,
    /// The end of the history's last point, in seconds since 1970.
    until: u64,
}

/// Serves clients until a signal ends the process.
///
/// # Errors
/// Fails if the service cannot listen at the address, or with an error of the root.
pub fn serve(common: &Common, address: &str) -> Result<(), String> {
    let address: SocketAddr = address
        .parse()
        .map_err(|_| format!("no address and port: {address}"))?;
    let zones = Zones::new(&common.zones)?;
    let signals = take_signals()?;
    let mut sampler = sampler(common, Wants::ALL)?;
    let root = cli::root(common.root.as_deref()).map_err(|error| error.to_string())?;
    let file = root.lib().join("zonestat.history");
    let listener = TcpListener::bind(address)
        .map_err(|error| format!("cannot listen at {address}: {error}"))?;
    let address = listener.local_addr().unwrap_or(address);
    eprintln!("zonestat: serving at {address}");
    let mut last = sampler.sample();
    let (history, until) = load(&file, last.unix);
    let shown = Arc::new(Mutex::new(Shown {
        sample: last.clone(),
        history,
        until,
    }));
    let clients = Arc::clone(&shown);
    // The thread ends with the process: it has nothing to clean up.
    std::thread::spawn(move || accept(&listener, &clients, &zones));
    let every = Duration::from_secs(DEFAULT_INTERVAL);
    let mut next = Instant::now() + every;
    let mut report = Report::default();
    let mut points: u64 = 0;
    loop {
        let end = wait(&mut sampler, &signals, next) == Woken::End;
        next = (next + every).max(Instant::now());
        let sample = sampler.sample();
        report.add(&Interval::between(&last, &sample));
        last = sample.clone();
        let mut shown = lock(&shown);
        shown.sample = sample;
        let minute = report.compute(Kind::Total);
        let minute = minute.filter(|minute| minute.elapsed.as_secs() >= POINT_SECONDS);
        if let Some(minute) = minute {
            shown.history.add(&minute);
            shown.until = minute.unix;
            report = Report::default();
            points += 1;
        }
        if end || (points > 0 && points % STORED_EVERY == 0) {
            // The same points are not stored twice.
            points = 0;
            let text = history_text(&shown);
            drop(shown);
            store(&file, &text);
        }
        if end {
            return Ok(());
        }
    }
}

fn lock(shown: &Mutex<Shown>) -> std::sync::MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the stored history, with empty points for the time since it was stored.
fn load(file: &PathBuf, now: u64) -> (History, u64) {
    let read = || -> Option<(History, u64)> {
        let file = std::fs::File::open(file).ok()?;
        let mut text = String::new();
        file.take(MAX_HISTORY).read_to_string(&mut text).ok()?;
        let (until, rest) = text.split_once('\n')?;
        let until: u64 = until.parse().ok()?;
        let mut history = History::read(rest, MAX_POINTS)?;
        let missed = now.saturating_sub(until) / POINT_SECONDS;
        for _ in 0..missed.min(MAX_POINTS as u64) {
            history.add(&Interval::default());
        }
        Some((history, until))
    };
    read().unwrap_or_else(|| (History::new(MAX_POINTS), now))
}

fn history_text(shown: &Shown) -> String {
    format!("{}\n{}", shown.until, shown.history.write())
}

/// Stores the history. A failure is reported and does not end the service.
fn store(file: &std::path::Path, text: &str) {
    let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    let stored = folder.map_err(|error| error.to_string()).and_then(|()| {
        store::atomic::write(file, text.as_bytes(), 0o644).map_err(|e| e.to_string())
    });
    if let Err(error) = stored {
        eprintln!("zonestat: the history is not stored: {error}");
    }
}

fn accept(listener: &TcpListener, shown: &Arc<Mutex<Shown>>, zones: &Zones) {
    static CLIENTS: AtomicUsize = AtomicUsize::new(0);
    for client in listener.incoming() {
        let Ok(client) = client else {
            // This can be too many open files: wait, instead of a busy loop.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if CLIENTS.fetch_add(1, Ordering::Relaxed) >= MAX_CLIENTS {
            CLIENTS.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (shown, zones) = (Arc::clone(shown), zones.clone());
        std::thread::spawn(move || {
            // A client that disconnects or sends its request too slowly gets no answer.
            let _ = answer(client, &shown, &zones);
            CLIENTS.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn answer(mut client: TcpStream, shown: &Mutex<Shown>, zones: &Zones) -> std::io::Result<()> {
    client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let deadline = Instant::now() + CLIENT_TIMEOUT;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = client.read(&mut piece)?;
        request.extend_from_slice(&piece[..length]);
        if length == 0 || request.len() > MAX_REQUEST_BYTES || Instant::now() > deadline {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let response = respond(&request, shown, zones);
    client.write_all(response.as_bytes())
}

/// Returns the whole answer to a request.
fn respond(request: &str, shown: &Mutex<Shown>, zones: &Zones) -> String {
    let mut words = request.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = path.split('?').next().unwrap_or_default();
    let plain = "text/plain; charset=utf-8";
    let (status, content_type, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let format = wanted_format(request);
            let sample = lock(shown).sample.clone();
            let body = metrics::text(&sample, format, |zone| zones.has(&zone.name));
            ("200 OK", format.content_type(), body)
        }
        ("GET" | "HEAD", "/history") => {
            let shown = lock(shown);
            let body = format!(
                "{{\"until\":{},\"seconds\":{POINT_SECONDS},\"zones\":{}}}\n",
                shown.until,
                shown.history.write()
            );
            ("200 OK", "application/json", body)
        }
        ("GET" | "HEAD", "/") => {
            let body = "zonestat: /metrics for Prometheus, /history for the last four hours\n";
            ("200 OK", plain, body.to_owned())
        }
        ("GET" | "HEAD", _) => ("404 Not Found", plain, "not found\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "only GET\n".to_owned()),
    };
    let length = body.len();
    let body = if method == "HEAD" {
        String::new()
    } else {
        body
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Returns OpenMetrics for clients that accept it.
fn wanted_format(request: &str) -> Format {
    let accepts = request.lines().any(|line| {
        let line = line.to_ascii_lowercase();
        line.starts_with("accept:") && line.contains("application/openmetrics-text")
    });
    if accepts {
        Format::OpenMetrics
    } else {
        Format::Prometheus
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn shown() -> Mutex<Shown> {
        let mut history = History::new(MAX_POINTS);
        history.add(&example::interval());
        Mutex::new(Shown {
            sample: example::now(),
            history,
            until: 7,
        })
    }

    fn body(request: &str) -> (String, String) {
        let zones = Zones::new(&[]).unwrap();
        let response = respond(request, &shown(), &zones);
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    #[test]
    fn metrics_in_the_format_that_is_wanted() {
        let (head, text) = body("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("version=0.0.4"));
        assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())));
        assert!(text.contains("# TYPE zone_cpu_seconds_total counter\n"));
        let (head, text) = body(
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n",
        );
        assert!(head.contains("openmetrics-text"));
        assert!(text.contains("# TYPE zone_cpu_seconds counter\n"));
    }

    #[test]
    fn history_and_what_is_not_there() {
        let (_, text) = body("GET /history HTTP/1.1\r\n\r\n");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["zones"]["zones"]["web"][0][0], 200_000);
        for (request, status) in [
            ("GET / HTTP/1.0\r\n\r\n", "200"),
            ("GET /../etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\r\n\r\n", "405"),
        ] {
            let (head, _) = body(request);
            assert_eq!(head.split(' ').nth(1), Some(status), "{request}");
        }
        assert_eq!(body("HEAD /metrics HTTP/1.1\r\n\r\n").1, "");
    }

    #[test]
    fn a_history_comes_back_with_a_gap() {
        let dir = std::env::temp_dir().join(format!("zonestat-{}", std::process::id()));
        let file = dir.join("history");
        store(&file, &history_text(&shown().into_inner().unwrap()));
        let (history, until) = load(&file, 7 + 2 * POINT_SECONDS);
        assert_eq!((until, history.len()), (7, 3));
        let cpu: Vec<u64> = history.zone("web").map(|point| point.cpu).collect();
        assert_eq!(cpu, [200_000, 0, 0]);
        std::fs::write(&file, "nonsense").unwrap();
        assert!(load(&file, 0).0.is_empty());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
