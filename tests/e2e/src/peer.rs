//! Runs programs that communicate over the test's network: see [`Lan`] and peer.pl.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use crate::frames::{Mac, hex};
use crate::lan::{self, Lan, piped};
use crate::run::{Ran, run};
use crate::{Host, WAIT_TIMEOUT, wait_for};

/// Perl is installed on every Debian, and so in every sparse zone of it.
const PROGRAM: &str = include_str!("peer.pl");

/// The port of the servers.
pub const PORT: &str = "4321";

/// The host or zone in which a program runs.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    /// The global zone.
    Global,
    /// The router.
    Router,
    /// The host behind the router.
    Client,
    /// The other host on the switch.
    Source,
    /// The namespace of the switch.
    Switch,
    /// A zone; the program runs as the zone's root.
    Zone(&'a str),
}

/// A host with a zone `master` in a network.
#[derive(Debug)]
pub struct World {
    /// The host.
    pub host: Host,
    /// The networks around the host. They are dropped after the host.
    pub lan: Lan,
}

/// A running program, which is ended when this value is dropped.
#[derive(Debug)]
pub struct Helper {
    child: Child,
    lines: Receiver<String>,
}

impl Helper {
    /// Returns the next line of the program's output.
    ///
    /// # Panics
    /// Fails if no line comes.
    #[track_caller]
    #[must_use]
    pub fn line(&self) -> String {
        let line = self.lines.recv_timeout(WAIT_TIMEOUT);
        line.expect("one more line of a program under way")
    }

    /// Waits for a line with a text. Returns the lines before it.
    ///
    /// # Panics
    /// Fails if no such line comes.
    #[track_caller]
    #[must_use]
    pub fn until(&self, text: &str) -> Vec<String> {
        let end = Instant::now() + WAIT_TIMEOUT;
        let mut before = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return before,
                Ok(line) => before.push(line),
                Err(error) => panic!("no {text:?}: {error}; there were {before:#?}"),
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl World {
    /// Returns a host with an installed zone `master`; `None`, with a message on standard output,
    /// if this machine cannot have such a network.
    #[must_use]
    pub fn new() -> Option<Self> {
        let lan = Lan::new()?;
        let host = Host::with_master()?;
        Some(Self { host, lan })
    }

    /// Configures a zone with links, and installs it as a clone.
    #[track_caller]
    pub fn install(&self, zone: &str, links: &str) {
        self.host.configure(zone, links);
        self.host.on(zone, &["clone", "master"]).quiet();
    }

    /// Installs a zone as [`install`](Self::install) does, and boots it.
    #[track_caller]
    pub fn boot(&self, zone: &str, links: &str) {
        self.install(zone, links);
        self.host.boot(zone);
    }

    fn command(&self, at: At<'_>, line: &str) -> Command {
        if let At::Zone(zone) = at {
            return self.host.command("zlogin", &[zone, line]);
        }
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec {line}")])
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    fn there<T>(&self, at: At<'_>, act: impl FnOnce() -> T) -> T {
        match at {
            At::Global | At::Zone(_) => act(),
            At::Router => self.lan.router.within(act),
            At::Client => self.lan.client.within(act),
            At::Source => self.lan.source.within(act),
            At::Switch => self.lan.switch.within(act),
        }
    }

    /// Runs a command.
    #[must_use]
    pub fn run(&self, at: At<'_>, line: &str, input: &str) -> Ran {
        let mut command = self.command(at, line);
        self.there(at, || run(&mut command, input.as_bytes()))
    }

    /// Starts a command.
    #[must_use]
    pub fn start(&self, at: At<'_>, line: &str, input: &str) -> Helper {
        let mut command = self.command(at, line);
        command.env("LC_ALL", "C");
        let mut child = self.there(at, || piped(&mut command, input.as_bytes()));
        let (sender, lines) = channel();
        let streams: [Option<Box<dyn std::io::Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        for stream in streams.into_iter().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let lines = BufReader::new(stream).lines();
                // The thread ends when the program ends, or when no test reads the lines any more.
                for line in lines.map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Helper { child, lines }
    }

    /// Runs a mode of peer.pl to its end, and returns what it printed.
    #[track_caller]
    #[must_use]
    pub fn peer(&self, at: At<'_>, words: &str) -> String {
        let ran = self.run(at, &format!("perl - {words}"), PROGRAM);
        ran.ok().text().to_owned()
    }

    /// Starts a server that sends its name and the address of its client, and waits until it
    /// listens.
    #[track_caller]
    #[must_use]
    pub fn serve_on(&self, at: At<'_>, name: &str, address: &str, port: &str) -> Helper {
        self.ready(at, &format!("serve {name} {address} {port}"))
    }

    /// Starts a UDP server on all addresses. It answers each datagram with its name, the datagram's
    /// source address, and the text of the datagram.
    #[track_caller]
    #[must_use]
    pub fn echo(&self, at: At<'_>, name: &str) -> Helper {
        self.ready(at, &format!("echo {name} :: {PORT}"))
    }

    /// Starts a mode of peer.pl and waits until it listens.
    #[track_caller]
    fn ready(&self, at: At<'_>, words: &str) -> Helper {
        let helper = self.start(at, &format!("perl - {words}"), PROGRAM);
        assert_eq!(helper.line(), "ready", "{words}");
        helper
    }

    /// Starts a server on all addresses.
    #[track_caller]
    #[must_use]
    pub fn serve(&self, at: At<'_>, name: &str) -> Helper {
        self.serve_on(at, name, "::", PORT)
    }

    /// Returns the answer of the server at this address.
    #[track_caller]
    #[must_use]
    pub fn ask(&self, at: At<'_>, address: &str) -> String {
        self.peer(at, &format!("ask {address} {PORT}"))
    }

    /// Starts a program that prints every frame on the switch, and waits until it listens.
    #[track_caller]
    #[must_use]
    pub fn listen(&self) -> Helper {
        self.ready(At::Switch, "listen")
    }

    /// Sends frames from a link of a zone.
    #[track_caller]
    pub fn send(&self, zone: &str, link: &str, frames: &[Vec<u8>]) {
        let frames: Vec<String> = frames.iter().map(hex).collect();
        let words = format!("frames {link} {}", frames.join(" "));
        assert_eq!(self.peer(At::Zone(zone), &words), "sent");
    }

    /// Returns a link as `zoneadm links -j` prints it.
    #[track_caller]
    #[must_use]
    pub fn link(&self, zone: &str, link: &str) -> serde_json::Value {
        let text = self.host.on(zone, &["links", "-j"]).ok().out;
        let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let mut rows = rows.as_array().expect("a list").iter();
        let row = rows.find(|row| row["link"] == link);
        row.unwrap_or_else(|| panic!("no link {link} in {text}"))
            .clone()
    }

    /// Returns the number of dropped frames that a zone sent on a link, by reason.
    #[track_caller]
    #[must_use]
    pub fn dropped(&self, zone: &str, link: &str) -> BTreeMap<String, u64> {
        let row = self.link(zone, link);
        let counts = row["dropped"].as_object().expect("counters");
        let count = |(name, count): (&String, &serde_json::Value)| {
            (name.clone(), count.as_u64().expect("a number"))
        };
        counts.iter().map(count).collect()
    }

    /// Waits until, for each reason, this many frames more than `before` were dropped.
    pub fn wait_for_drops(
        &self,
        zone: &str,
        link: &str,
        before: &BTreeMap<String, u64>,
        more: &BTreeMap<&str, u64>,
    ) {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            let now = self.dropped(zone, link);
            if more
                .iter()
                .all(|(why, more)| now[*why] >= before[*why] + more)
            {
                return;
            }
            assert!(
                Instant::now() < end,
                "expected {more:?} more than {before:?}, there are {now:?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Returns the Ethernet address of a zone's link.
    #[track_caller]
    #[must_use]
    pub fn mac(&self, zone: &str, link: &str) -> Mac {
        let row = self.link(zone, link);
        let text = row["mac"].as_str().expect("an Ethernet address");
        let mut bytes = text
            .split(':')
            .map(|byte| u8::from_str_radix(byte, 16).expect("a byte"));
        std::array::from_fn(|_| bytes.next().expect("six bytes"))
    }

    /// Waits until the network of the global zone is as before: the kernel removes links some time
    /// after the last process of their zone has ended.
    #[track_caller]
    pub fn wait_for_face(&self, before: &[String]) {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            let now = lan::face();
            if now == before {
                return;
            }
            if Instant::now() > end {
                panic!("{:#?}", lan::difference(before, &now));
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Waits until the settings below /proc/sys/net equal `before`: the kernel removes the settings
    /// of a link some time after the last process of its network namespace has ended.
    #[track_caller]
    pub fn wait_for_settings(&self, before: &[String]) {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            let changed = lan::difference(before, &lan::settings());
            if changed.is_empty() {
                return;
            }
            assert!(Instant::now() <= end, "{changed:#?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Expects that /run/zones/network holds nothing for zones.
    #[track_caller]
    pub fn assert_no_records(&self) {
        let folder = self.host.path("/run/zones/network");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.retain(|name| name != ".lock");
        assert!(names.is_empty(), "{names:?}");
    }

    /// Repeats a command until its output contains a text.
    pub fn wait_for_text(&self, at: At<'_>, line: &str, text: &str) -> String {
        wait_for(&format!("{text:?} of {line:?}"), || {
            let ran = self.run(at, line, "");
            ran.out.contains(text).then_some(ran.out)
        })
    }
}
