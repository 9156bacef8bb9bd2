//! Selects the zones of a command line.

use host::{Host, flatten};
use model::ZoneName;
use store::index::Index;

use crate::call::Call;

/// Returns the host, and the zones that the command line selects.
pub fn prepare(call: &Call) -> Result<(Host, Vec<ZoneName>), String> {
    let host = cli::host(call.root.as_deref()).map_err(|error| error.to_string())?;
    let plain = call.uuid.is_none() && !call.zones.iter().any(|zone| cli::select::is_pattern(zone));
    // A plain name needs no index: the verb checks whether the zone exists.
    let index = match plain {
        true => Index::default(),
        false => Index::load(&host.root).map_err(|error| flatten(&error))?,
    };
    let zones = chosen(call, &index)?;
    Ok((host, zones))
}

/// Returns the zones that -u or -z select. If -u matches a zone, -z is ignored.
pub fn chosen(call: &Call, index: &Index) -> Result<Vec<ZoneName>, String> {
    if let Some(text) = &call.uuid {
        let uuid = text.parse().map_err(|error| format!("{error}"))?;
        match index.by_uuid(uuid) {
            Some(entry) => return Ok(vec![entry.name.clone()]),
            None if call.zones.is_empty() => {
                return Err(format!("{text}: No such zone configured"));
            }
            None => {}
        }
    }
    let known: Vec<ZoneName> = index
        .entries()
        .iter()
        .map(|entry| entry.name.clone())
        .collect();
    let words = call.zones.iter().map(String::as_str);
    cli::select::resolve(words, &known).map_err(|error| match error {
        // No zone can have a malformed name, so the error is that of an unknown zone.
        cli::select::Error::Name(bad) => format!("{}: No such zone configured", bad.0),
        other => other.to_string(),
    })
}
