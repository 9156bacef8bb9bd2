//! Starts zoneadm on the other host, over ssh.

use std::io::Read as _;
use std::process::{Child, Stdio};

use model::ZoneName;
use zone::export::start as start_program;

use crate::options::Options;
use crate::wire::Fate;
use host::Error;

/// Asks the target whether a migration succeeded.
pub(super) fn ask(zone: &ZoneName, options: &Options, id: &str) -> Result<Fate, Error> {
    let mut child = ssh(zone, options, &["receive", "--status", id])?;
    let mut text = Vec::new();
    let read = child
        .stdout
        .take()
        .map_or(Ok(0), |out| out.take(4096).read_to_end(&mut text));
    let status = child.wait();
    read.map_err(Error::io(format!("hear from {}", options.host)))?;
    match (status, serde_json::from_slice(&text)) {
        (Ok(status), Ok(fate)) if status.success() => Ok(fate),
        _ => Err(Error::Refused(format!(
            "{} does not say whether it has the zone.",
            options.host
        ))),
    }
}

/// Starts zoneadm on the other host through ssh.
pub(super) fn ssh(zone: &ZoneName, options: &Options, words: &[&str]) -> Result<Child, Error> {
    let command = format!(
        "PATH=\"$PATH:/usr/sbin:/sbin\" exec zoneadm -z {zone} {}",
        words.join(" ")
    );
    let mut all = vec!["-T", "-o", "BatchMode=yes"];
    for option in &options.ssh {
        all.extend(["-o", option]);
    }
    if let Some(cipher) = &options.cipher {
        all.extend(["-c", cipher]);
    }
    // ssh must notice a dead connection, because a guest may be paused until then. The user's
    // options come first, and ssh uses the first value of an option.
    for option in ["ServerAliveInterval=10", "ServerAliveCountMax=3"] {
        all.extend(["-o", option]);
    }
    all.extend(["--", &options.host, &command]);
    start_program("ssh", &all, Stdio::piped(), Stdio::piped())
}
