//! The audit record of labels: one line to the system's log for each event of a zone with a label.

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
    let line = line(event, zone, label, refused, own_uid());
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
        let why: String = why.chars().take(400).collect();
        line.push_str(&format!(" why=\"{}\"", why.escape_debug()));
    }
    line
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
    fn a_host_without_a_log_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let zone: ZoneName = "web".parse().unwrap();
        record(&Root::new(folder.path()), Event::Login, &zone, None, None);
    }
}
