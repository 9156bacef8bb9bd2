//! Starts zoneadm on the other host, over ssh.

use std::io::Read as _;
use std::process::{Child, Stdio};

use model::ZoneName;
use zone::export::start as start_program;

use crate::options::Options;
use crate::wire::Fate;
use host::Error;

/// Asks the target for the result of a migration.
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

/// Starts zoneadm on the other host.
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
    // A line that is dead is noticed: a guest may stand still for it. The user's option
    // comes first, and ssh uses the first value.
    for option in ["ServerAliveInterval=10", "ServerAliveCountMax=3"] {
        all.extend(["-o", option]);
    }
    all.extend(["--", &options.host, &command]);
    start_program("ssh", &all, Stdio::piped(), Stdio::piped())
}
