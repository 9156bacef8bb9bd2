//! The audit record: one line to the system's log for each event of a zone with a label, for each
//! change of the labels of the network, and for each fence request of a zone.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use label::Label;
use model::ZoneName;
use store::Root;
use store::labels::network::Change;

/// The priority of a line in syslog: facility authpriv (10), severity notice (5).
const PRIORITY: u8 = 10 * 8 + 5;

/// Maximum number of bytes of old and of new values in one line: rsyslog cuts lines at 8 KiB. A
/// change with more values has several lines.
const MAX_VALUES_BYTES: usize = 2048;

/// Time for which a log that does not read delays a change of the network, for each line.
const LOG_TIMEOUT: Duration = Duration::from_millis(200);

/// An event that the audit record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A zone was booted or made ready.
    Boot,
    /// The label of a zone was set, changed or cleared.
    Label,
    /// A user entered a zone with zlogin.
    Login,
}

impl Event {
    const fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Label => "label",
            Self::Login => "login",
        }
    }
}

/// Writes one line about a zone to the system's log. `refused` is the reason if the event was
/// refused. Without a log on this host, nothing is written.
pub fn record(
    root: &Root,
    event: Event,
    zone: &ZoneName,
    label: Option<Label>,
    refused: Option<&str>,
) {
    send(root, &line(event, zone, label, refused, own_uid()));
}

/// Writes one line about a fence request of a zone to the system's log. `failed` is the reason if the
/// request was refused or failed. Without a log on this host, nothing is written.
pub fn record_fence(root: &Root, zone: &ZoneName, request: &str, failed: Option<&str>) {
    send(root, &fence_line(zone, request, failed));
}

fn send(root: &Root, line: &str) {
    let send = || -> std::io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        // A log that does not read must not stop the zone.
        socket.set_nonblocking(true)?;
        socket.send_to(line.as_bytes(), root.path(Path::new("/dev/log")))?;
        Ok(())
    };
    let _ = send();
}

/// Writes the changes of the labels of the network to the system's log: for each template and each
/// zone at least one line, with the old and the new values. `refused` is the reason if the changes
/// were refused. Without a log on this host, nothing is written.
pub fn record_network(root: &Root, changes: &[Change], refused: Option<&str>) {
    if changes.is_empty() {
        return;
    }
    let send = || -> std::io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(root.path(Path::new("/dev/log")))?;
        // Many lines at once fill the queue of the socket, so the log gets time to read them.
        socket.set_write_timeout(Some(LOG_TIMEOUT))?;
        for change in changes {
            for line in network_lines(change, refused, own_uid()) {
                socket.send(line.as_bytes())?;
            }
        }
        Ok(())
    };
    let _ = send();
}

fn network_lines(change: &Change, refused: Option<&str>, uid: u32) -> Vec<String> {
    let (mut old, mut new) = (packed(&change.old), packed(&change.new));
    let count = old.len().max(new.len()).max(1);
    old.resize(count, NO_VALUES.to_owned());
    new.resize(count, NO_VALUES.to_owned());
    let result = refused.map_or("ok", |_| "refused");
    let why = refused.map(why).unwrap_or_default();
    let line = |(old, new)| {
        format!(
            "<{PRIORITY}>zones: event=network {} uid={uid} result={result} old={old} new={new}{why}",
            change.part
        )
    };
    old.into_iter().zip(new).map(line).collect()
}

/// The text for no values.
const NO_VALUES: &str = "none";

/// Returns values in quotation marks, in pieces that fit into a line. The values have no quotation
/// marks themselves.
fn packed(values: &[String]) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for value in values {
        match pieces.last_mut() {
            Some(piece) if piece.len() + value.len() < MAX_VALUES_BYTES => {
                piece.push(' ');
                piece.push_str(value);
            }
            _ => pieces.push(value.clone()),
        }
    }
    pieces
        .iter()
        .map(|piece| format!("\"{}\"", piece.escape_debug()))
        .collect()
}

fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

fn line(
    event: Event,
    zone: &ZoneName,
    label: Option<Label>,
    refused: Option<&str>,
    uid: u32,
) -> String {
    let label = label.map_or_else(|| "none".to_owned(), |label| label.to_string());
    let (event, result) = (event.name(), refused.map_or("ok", |_| "refused"));
    let mut line = format!(
        "<{PRIORITY}>zones: event={event} zone={zone} label={label} uid={uid} result={result}"
    );
    if let Some(refused) = refused {
        line.push_str(&why(refused));
    }
    line
}

/// Returns the reason of a refusal as the end of a line.
fn why(refused: &str) -> String {
    format!(" why={}", in_quotes(refused))
}

fn fence_line(zone: &ZoneName, request: &str, failed: Option<&str>) -> String {
    let request = in_quotes(request);
    let result = match failed {
        None => "result=ok".to_owned(),
        Some(why) => format!("result=failed why={}", in_quotes(why)),
    };
    format!("<{PRIORITY}>zones: event=fence zone={zone} request={request} {result}")
}

/// Returns the first 400 characters of a text, on one line and in quotes.
fn in_quotes(text: &str) -> String {
    let text: String = text.chars().take(400).collect();
    format!("\"{}\"", text.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_in_the_log_of_the_root() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("dev")).unwrap();
        let log = UnixDatagram::bind(folder.path().join("dev/log")).unwrap();
        let zone: ZoneName = "web".parse().unwrap();
        let label = "0x0004-08-68".parse().ok();
        let root = Root::new(folder.path());
        record(&root, Event::Boot, &zone, label, Some("a\nb \"c\""));
        let mut buffer = [0; 1024];
        let length = log.recv(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        let uid = own_uid();
        assert_eq!(
            text,
            format!(
                "<85>zones: event=boot zone=web label=0x0004-08-68 uid={uid} result=refused why=\"a\\nb \\\"c\\\"\""
            )
        );
    }

    #[test]
    fn a_fence_request_is_one_line_whatever_the_zone_wrote() {
        let zone: ZoneName = "pg".parse().unwrap();
        assert_eq!(
            fence_line(&zone, "off pg2", None),
            "<85>zones: event=fence zone=pg request=\"off pg2\" result=ok"
        );
        let line = fence_line(&zone, "a\"\nb", Some("refused\n"));
        assert_eq!(
            line,
            "<85>zones: event=fence zone=pg request=\"a\\\"\\nb\" result=failed why=\"refused\\n\""
        );
    }

    #[test]
    fn a_change_of_the_network_has_its_old_and_new_values() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let change = Change {
            part: "template=lan".to_owned(),
            old: words(&["def_label=0x0001-08-00", "host=192.0.2.0/24"]),
            new: words(&["def_label=0x0004-08-60"]),
        };
        assert_eq!(
            network_lines(&change, None, 7),
            ["<85>zones: event=network template=lan uid=7 result=ok \
              old=\"def_label=0x0001-08-00 host=192.0.2.0/24\" new=\"def_label=0x0004-08-60\""]
        );
        let hosts = (0..1000).map(|n| format!("host=10.0.{}.{}/32", n / 256, n % 256));
        let many = Change {
            part: "template=lan".to_owned(),
            old: Vec::new(),
            new: hosts.collect(),
        };
        let lines = network_lines(&many, Some("too many"), 7);
        assert!(lines.len() > 1);
        for line in &lines {
            assert!(line.len() < 2 * MAX_VALUES_BYTES, "{line}");
            assert!(
                line.contains(" result=refused old=none new=\"host="),
                "{line}"
            );
            assert!(line.ends_with(" why=\"too many\""), "{line}");
        }
        for host in &many.new {
            assert!(lines.iter().any(|line| line.contains(host)), "{host}");
        }
    }

    #[test]
    fn a_change_does_not_wait_for_a_log_that_does_not_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("dev")).unwrap();
        let log = UnixDatagram::bind(folder.path().join("dev/log")).unwrap();
        let changes: Vec<Change> = (0..1000)
            .map(|n| Change {
                part: format!("template=t{n}"),
                old: Vec::new(),
                new: vec!["host=192.0.2.1/32".to_owned()],
            })
            .collect();
        // Without a timeout this call does not return: nothing reads the lines until its end.
        record_network(&Root::new(folder.path()), &changes, None);
        log.set_nonblocking(true).unwrap();
        let queued = std::iter::from_fn(|| log.recv(&mut [0; 4096]).ok()).count();
        assert!((1..changes.len()).contains(&queued), "{queued} lines");
    }

    #[test]
    fn a_host_without_a_log_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let zone: ZoneName = "web".parse().unwrap();
        record(&Root::new(folder.path()), Event::Login, &zone, None, None);
    }
}
