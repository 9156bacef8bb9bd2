//! Runs a command in a kernel zone: the agent of the guest runs the command and returns all output
//! when the command has ended.

use std::io::{IsTerminal, Read, Write};

use host::flatten;
use host::{Error, Host};
use kernelzone::login;
use model::{State, ZoneName};
use platform::kind::{self, Entrance};
use store::index::Index;
use store::xml;

use crate::call::{Call, Mode};

/// Maximum number of bytes of standard input that zlogin sends with the command.
const MAX_INPUT_BYTES: u64 = 1 << 20;

/// Runs the command if the zone is a kernel zone. Returns `None` for other zones.
pub fn run(host: &Host, zone: &ZoneName, call: &Call) -> Result<Option<u8>, String> {
    let entrance = entrance(host, zone).map_err(|error| flatten(&error))?;
    let words = match (entrance, &call.mode) {
        (Entrance::Namespaces, _) => return Ok(None),
        (Entrance::Agent, Mode::Command { words, terminal }) if !terminal => words.join(" "),
        (Entrance::Agent, _) => {
            return Err(format!(
                "a session in a kernel zone is on its console: zlogin -C {zone}. Commands without a terminal run by its agent: zlogin {zone} 'command'"
            ));
        }
    };
    let user = call.user.as_str();
    let shell = match call.failsafe || user == "root" {
        true => vec!["/bin/sh", "-c", words.as_str()],
        false => vec!["/bin/su", "-", user, "-c", words.as_str()],
    };
    let input = input(call)?;
    let ended =
        login::run(host, zone, &shell, input.as_deref()).map_err(|error| flatten(&error))?;
    let shown = std::io::stdout()
        .write_all(&ended.output)
        .and_then(|()| std::io::stdout().flush())
        .and_then(|()| std::io::stderr().write_all(&ended.errors));
    shown.map_err(|error| format!("could not write the output of the command: {error}"))?;
    if ended.cut && !call.quiet {
        eprintln!("zlogin: the agent of zone '{zone}' has cut off the output of the command");
    }
    Ok(Some(ended.status))
}

/// Returns how a command enters the zone. A zone that is not running is entered by its namespaces,
/// because opening the namespaces reports the zone's state.
fn entrance(host: &Host, zone: &ZoneName) -> Result<Entrance, Error> {
    let index = Index::load(&host.root)?;
    let Some(entry) = index.find(zone) else {
        return Ok(Entrance::Namespaces);
    };
    let entrance = kind::of(&xml::load(&host.root, zone)?).entrance();
    if entrance == Entrance::Namespaces {
        return Ok(entrance);
    }
    Ok(match subject::state(host, entry)?.0 {
        State::Running => entrance,
        _ => Entrance::Namespaces,
    })
}

/// Returns all of standard input: the agent takes no further input after the start of the command.
fn input(call: &Call) -> Result<Option<Vec<u8>>, String> {
    if call.no_input || std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(MAX_INPUT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("could not read standard input: {error}"))?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        return Err(format!(
            "standard input is longer than {MAX_INPUT_BYTES} bytes, the most that a kernel zone's agent takes"
        ));
    }
    Ok((!bytes.is_empty()).then_some(bytes))
}
