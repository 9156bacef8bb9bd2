//! Logs requests and their results: one line each in `/var/log/zones/authority.log` and in syslog.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use authority::reply::plain;
use rustix::fs::OFlags;
use store::Root;
use sys::peer::Peer;

use crate::decide::What;
use crate::users::User;

/// Maximum size of each of the log's two files, in bytes.
const MAX_SIZE: u64 = 4 << 20;

/// Maximum length of a user's text in one field of a line, in characters.
const MAX_FIELD: usize = 200;

/// Facility authpriv, severities notice and info, as syslog(3) numbers them.
const NOTICE: u8 = 10 * 8 + 5;
const INFO: u8 = 10 * 8 + 6;

/// The event that a log line reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The request is granted and its program starts.
    Granted,
    /// The request is refused for this reason.
    Refused(&'a str),
    /// The program has ended with this result.
    Ended(&'a str),
}

/// The log of one root.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    syslog: PathBuf,
    /// Lock that lets one thread at a time write a line or rotate the file.
    turn: Mutex<()>,
}

impl Log {
    /// Creates the log below a root. With an alternate root, the syslog socket is also below that
    /// root.
    pub fn new(root: &Root) -> Self {
        Self {
            path: root.log().join("authority.log"),
            syslog: root.dir().join("dev/log"),
            turn: Mutex::new(()),
        }
    }

    /// Adds a line. If the log cannot be written, the request continues, and the error is printed
    /// on standard error.
    pub fn add(&self, user: &User, peer: Peer, what: &What, event: Event<'_>) {
        let line = line(user, peer, what, event);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = control::log::timestamp(seconds.map_or(0, |since| since.as_secs()));
        let turn = self.turn.lock();
        let written = self
            .open()
            .and_then(|mut file| file.write_all(format!("{time} {line}\n").as_bytes()));
        if let Err(error) = written {
            eprintln!("zoneauthd: {}: {error}: {line}", self.path.display());
        }
        drop(turn);
        self.to_syslog(event, &line);
    }

    fn open(&self) -> std::io::Result<File> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let open = || {
            OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o640)
                .custom_flags(i32::from_ne_bytes(OFlags::NOFOLLOW.bits().to_ne_bytes()))
                .open(&self.path)
        };
        let file = open()?;
        if file.metadata()?.len() < MAX_SIZE {
            return Ok(file);
        }
        fs::rename(&self.path, self.path.with_extension("log.0"))?;
        open()
    }

    /// Sends a line to syslog without waiting, because the syslog daemon may be slow or gone.
    fn to_syslog(&self, event: Event<'_>, line: &str) {
        let priority = match event {
            Event::Refused(_) => NOTICE,
            _ => INFO,
        };
        let text = format!("<{priority}>zoneauthd[{}]: {line}", std::process::id());
        let _ = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to(text.as_bytes(), &self.syslog)
        });
    }
}

fn line(user: &User, peer: Peer, what: &What, event: Event<'_>) -> String {
    let field = |text: &str| -> String {
        let text = plain(text).replace(' ', "\\x20");
        match (text.is_empty(), text.char_indices().nth(MAX_FIELD)) {
            (true, _) => "-".to_owned(),
            (_, Some((end, _))) => format!("{}...", &text[..end]),
            _ => text,
        }
    };
    let pid = peer
        .pid
        .map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    let event = match event {
        Event::Granted => "granted".to_owned(),
        Event::Refused(why) => format!("refused: {}", cut(&plain(why))),
        Event::Ended(how) => format!("ended: {}", cut(&plain(how))),
    };
    format!(
        "uid={} user={} pid={pid} program={} zone={} verb={} {event}",
        user.uid,
        field(&user.name),
        field(&what.program),
        field(&what.zones),
        field(&what.verb),
    )
}

fn cut(text: &str) -> &str {
    // It is plain, so each character is a byte.
    &text[..text.len().min(MAX_FIELD)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joe() -> User {
        User {
            uid: 1000,
            name: "joe".to_owned(),
        }
    }

    const PEER: Peer = Peer {
        uid: 1000,
        pid: Some(7),
    };

    fn what(zones: &str) -> What {
        What {
            program: "zoneadm".to_owned(),
            verb: "boot".to_owned(),
            zones: zones.to_owned(),
        }
    }

    #[test]
    fn a_line_is_a_line_whatever_a_user_wrote() {
        assert_eq!(
            line(&joe(), PEER, &what("web"), Event::Granted),
            "uid=1000 user=joe pid=7 program=zoneadm zone=web verb=boot granted"
        );
        let odd = "a\nuid=0 user=root granted\u{1b}[2J\u{e9}";
        let text = line(&joe(), PEER, &what(odd), Event::Refused(odd));
        assert!(
            text.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
            "{text}"
        );
        // Text of a user cannot add a field to the line.
        let fields: Vec<&str> = text.split(' ').take(7).collect();
        assert!(
            fields[4].starts_with("zone=a\\nuid=0\\x20user=root"),
            "{text}"
        );
        assert_eq!((fields[5], fields[6]), ("verb=boot", "refused:"));
        let long = line(
            &joe(),
            PEER,
            &what(&"x".repeat(1 << 16)),
            Event::Refused(&"y".repeat(1 << 16)),
        );
        assert!(long.len() < 600, "{}", long.len());
        let nothing = line(
            &joe(),
            Peer { uid: 1, pid: None },
            &What::default(),
            Event::Ended("7"),
        );
        assert_eq!(
            nothing,
            "uid=1000 user=joe pid=- program=- zone=- verb=- ended: 7"
        );
    }

    #[test]
    fn the_log_is_bounded_and_goes_to_syslog_too() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::new(&Root::new(folder.path()));
        fs::create_dir(folder.path().join("dev")).unwrap();
        let syslog = UnixDatagram::bind(folder.path().join("dev/log")).unwrap();
        log.add(&joe(), PEER, &what("web"), Event::Refused("no auth"));
        let mut text = [0; 1024];
        let length = syslog.recv(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text[..length]);
        assert!(text.starts_with("<85>zoneauthd["), "{text}");
        assert!(text.ends_with("verb=boot refused: no auth"), "{text}");
        let path = folder.path().join("var/log/zones/authority.log");
        fs::write(&path, vec![b'\n'; usize::try_from(MAX_SIZE).unwrap()]).unwrap();
        log.add(&joe(), PEER, &what("web"), Event::Granted);
        let fresh = fs::read_to_string(&path).unwrap();
        assert!(
            fresh.ends_with("verb=boot granted\n") && fresh.len() < 200,
            "{fresh}"
        );
        assert!(path.with_extension("log.0").exists());
        // The log is not written through a symbolic link.
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(log.open().is_err());
    }
}
