//! Freezes the file systems in a guest for a snapshot of its disks, and thaws them.
//!
//! The agent in the guest does the work; it is hostile, and may never answer. Before zoneadmd asks
//! for a freeze, it stores a mark. It removes the mark when the agent has confirmed the thaw. So a
//! zoneadmd that takes over the zone knows that the guest may be frozen, and thaws it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use model::ZoneName;
use store::atomic::{self, Durability};
use vm::agent::Agent;

use control::log;
use host::unix_socket::{self, Kind};
use host::{Host, flatten};

use crate::error::FreezeError;

/// Timeout for the agent to freeze the file systems. zoneadmd serves nothing else meanwhile.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for the agent to thaw the file systems, while a command waits.
const THAW_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for the agent to thaw the file systems, when no command waits.
const LATE_THAW_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between attempts to thaw the file systems.
const THAW_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Time after which no more attempts are made. zoneagent thaws by itself much earlier.
const MAX_THAW_TIME: Duration = Duration::from_secs(600);

/// The file systems of a guest, while they are or may be frozen.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    root: store::Root,
    zone: ZoneName,
    agent: PathBuf,
    mark: PathBuf,
}

impl Frozen {
    fn of(host: &Host, zone: &ZoneName) -> Self {
        Self {
            root: host.root.clone(),
            zone: zone.clone(),
            agent: host.root.machine(zone, "agent"),
            mark: host.root.frozen(zone),
        }
    }

    /// Freezes the file systems of the guest.
    ///
    /// # Errors
    /// Fails if the agent refuses or does not answer in time. It may freeze the file systems later,
    /// so the caller must call [`thaw`](Self::thaw) in any case.
    pub fn freeze(host: &Host, zone: &ZoneName) -> (Self, Result<u64, FreezeError>) {
        let frozen = Self::of(host, zone);
        let count = frozen.ask_for_freeze();
        (frozen, count)
    }

    fn ask_for_freeze(&self) -> Result<u64, FreezeError> {
        atomic::replace(&self.mark, b"", 0o600, Durability::Volatile)?;
        let end = Instant::now() + FREEZE_TIMEOUT;
        let left = || end.saturating_duration_since(Instant::now());
        let mut agent = self.connect(FREEZE_TIMEOUT)?;
        Ok(agent.freeze(left())?)
    }

    fn connect(&self, limit: Duration) -> Result<Agent, FreezeError> {
        let socket = unix_socket::connect_to(&self.agent, Kind::Stream);
        Ok(Agent::begin(socket.map_err(FreezeError::Connect)?, limit)?)
    }

    fn thaw_within(&self, limit: Duration) -> Result<u64, FreezeError> {
        let count = self.connect(limit)?.thaw(limit)?;
        // If the mark stays, a new zoneadmd thaws a guest that is not frozen.
        let _ = std::fs::remove_file(&self.mark);
        Ok(count)
    }

    /// Thaws the file systems. Returns the number that the agent tells: 0 if the guest has thawed
    /// them itself. If the agent does not answer in time, a thread continues to ask.
    ///
    /// # Errors
    /// Fails if the agent has not answered in time.
    pub fn thaw(self) -> Result<u64, FreezeError> {
        self.thaw_within(THAW_TIMEOUT)
            .inspect_err(|_| self.insist())
    }

    /// Starts a thread that asks the agent for a thaw until it answers, and logs the result.
    fn insist(&self) {
        let this = self.clone();
        let ask = move || {
            let end = Instant::now() + MAX_THAW_TIME;
            let text = loop {
                match this.thaw_within(LATE_THAW_TIMEOUT) {
                    Ok(_) => break "the file systems of the guest were thawed".to_owned(),
                    // The mark is removed when the zone ends.
                    Err(_) if !this.mark.exists() => return,
                    Err(why) if Instant::now() > end => {
                        break format!(
                            "WARNING: the file systems of the guest may be frozen ({}): thaw them at its console (fsfreeze -u), or reboot it",
                            flatten(&why)
                        );
                    }
                    Err(_) => std::thread::sleep(THAW_RETRY_INTERVAL),
                }
            };
            log::message(&this.root, &this.zone, &text);
        };
        // If no thread can be started, zoneagent thaws the file systems after some seconds.
        let _ = std::thread::Builder::new().spawn(ask);
    }
}

/// Thaws a guest whose former zoneadmd died while the guest was or may have been frozen.
pub(super) fn thaw_after_death(host: &Host, zone: &ZoneName) {
    let frozen = Frozen::of(host, zone);
    if frozen.mark.exists() {
        frozen.insist();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;

    use store::Root;

    use super::*;

    /// Starts an agent that answers one connection after another. `says` returns the answer to a
    /// command; `None` is silence. Returns the commands as they come.
    fn agent(
        host: &Host,
        zone: &ZoneName,
        says: impl Fn(&str) -> Option<&'static str> + Send + 'static,
    ) -> mpsc::Receiver<String> {
        std::fs::create_dir_all(host.root.run()).unwrap();
        let listener = UnixListener::bind(host.root.machine(zone, "agent")).unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let lines = BufReader::new(client.try_clone().unwrap());
                for line in lines.split(b'\n') {
                    let line = line.unwrap();
                    let start = usize::from(line.first() == Some(&0xff));
                    let call: serde_json::Value = serde_json::from_slice(&line[start..]).unwrap();
                    let command = call["execute"].as_str().unwrap();
                    let answer = match command {
                        "guest-sync" => Some(call["arguments"]["id"].to_string()),
                        other => says(other).map(str::to_owned),
                    };
                    if command != "guest-sync" && tell.send(command.to_owned()).is_err() {
                        return;
                    }
                    if let Some(answer) = answer {
                        writeln!(client, "{{\"return\": {answer}}}").unwrap();
                    }
                }
            }
        });
        told
    }

    fn zone() -> (tempfile::TempDir, Host, ZoneName) {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(Root::new(dir.path()), "/none".into(), None);
        (dir, host, "k1".parse().unwrap())
    }

    #[test]
    fn the_mark_exists_from_the_freeze_to_the_thaw() {
        let (_dir, host, zone) = zone();
        let _told = agent(&host, &zone, |_| Some("2"));
        let (frozen, count) = Frozen::freeze(&host, &zone);
        assert_eq!(count.unwrap(), 2);
        assert!(host.root.frozen(&zone).exists());
        assert_eq!(frozen.thaw().unwrap(), 2);
        assert!(!host.root.frozen(&zone).exists());
    }

    #[test]
    fn an_agent_that_refuses_is_asked_for_a_thaw_anyway() {
        let (_dir, host, zone) = zone();
        let told = agent(&host, &zone, |command| match command {
            "guest-fsfreeze-freeze" => Some("\"no\""),
            _ => Some("0"),
        });
        let (frozen, count) = Frozen::freeze(&host, &zone);
        assert!(count.is_err());
        assert_eq!(frozen.thaw().unwrap(), 0);
        let told: Vec<String> = told.try_iter().collect();
        assert_eq!(told, ["guest-fsfreeze-freeze", "guest-fsfreeze-thaw"]);
    }

    #[test]
    fn a_new_zoneadmd_thaws_a_guest_with_a_mark() {
        let (_dir, host, zone) = zone();
        let told = agent(&host, &zone, |_| Some("1"));
        thaw_after_death(&host, &zone);
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
        std::fs::write(host.root.frozen(&zone), "").unwrap();
        thaw_after_death(&host, &zone);
        let first = told.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(first, "guest-fsfreeze-thaw");
        let end = Instant::now() + Duration::from_secs(30);
        while host.root.frozen(&zone).exists() {
            assert!(Instant::now() < end, "the mark stays");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_zone_without_an_agent_is_not_frozen() {
        let (_dir, host, zone) = zone();
        std::fs::create_dir_all(host.root.run()).unwrap();
        let (frozen, count) = Frozen::freeze(&host, &zone);
        assert!(matches!(count, Err(FreezeError::Connect(_))), "{count:?}");
        // No thread must go on after the test.
        std::fs::remove_file(&frozen.mark).unwrap();
        assert!(frozen.thaw().is_err());
    }
}
