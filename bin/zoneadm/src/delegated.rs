//! Subcommands for users who are not root: zoneauthd runs a subcommand for a user whom the zone's
//! configuration names.

use std::ffi::OsString;

use authority::Program;
use cli::delegate::{self, Input};

use crate::call::Call;
use crate::choose;

/// Asks zoneauthd to run the subcommand. `asks` is true if the subcommand asks the user a question.
/// It gets no keyboard if the output is lines of JSON, and then refuses to act without an answer.
pub fn run(call: &Call, asks: bool) -> u8 {
    // The request lists each zone by name, so this program expands globs and uuids.
    let zones = match choose::prepare(call) {
        Ok((_, zones)) => zones,
        Err(text) => {
            eprintln!("zoneadm: {text}");
            return cli::status::ERROR;
        }
    };
    let mut words: Vec<OsString> = Vec::new();
    if let Some(root) = &call.root {
        words.extend(["-R".into(), root.into()]);
    }
    for zone in &zones {
        words.extend(["-z".into(), zone.as_str().into()]);
    }
    words.push(call.verb.clone().into());
    words.extend(call.rest.iter().map(OsString::from));
    let input = match asks && !cli::progress::is_json() {
        true => Input::Standard,
        false => Input::Nothing,
    };
    let outcome = delegate::run(Program::Zoneadm, &words, input);
    let zone = zones.first().map_or("", |zone| zone.as_str());
    let act = match call.verb.as_str() {
        "files" => "use files of snapshots of",
        verb => verb,
    };
    let classic = format!("zone '{zone}': only a privileged user may {act} a zone.");
    delegate::refused(Program::Zoneadm, &outcome, &classic)
}
