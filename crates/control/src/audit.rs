//! The audit record: one line to the system's log for each event of a zone with a label, and for each
//! fence request of a zone.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use label::Label;
use model::ZoneName;
use store::Root;

/// The priority of a line in syslog: facility authpriv (10), severity notice (5).
const PRIORITY: u8 = 10 * 8 + 5;

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
    if let Some(why) = refused {
        line.push_str(&format!(" why={}", in_quotes(why)));
    }
    line
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
    fn a_host_without_a_log_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let zone: ZoneName = "web".parse().unwrap();
        record(&Root::new(folder.path()), Event::Login, &zone, None, None);
    }
}
