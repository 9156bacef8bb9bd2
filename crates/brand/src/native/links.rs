//! Symbolic links of the host that a zone gets: alternatives, and links that a package contains. A
//! link is only a name. It is copied if its target is in the zone, inherited or its own.

use std::path::{Path, PathBuf};

use crate::install::Error;
use crate::native::fill::Fill;

const ALTERNATIVES: &str = "etc/alternatives";

/// Copies the alternatives whose chosen file is in the inherited directories.
pub fn make_alternatives(fill: &mut Fill<'_>) -> Result<(), Error> {
    for name in fill.host.names(Path::new(ALTERNATIVES))? {
        let link = Path::new(ALTERNATIVES).join(name);
        let Some(target) = fill.host.read_link(&link)? else {
            continue;
        };
        let leads_to = fill.leads_to(&link, &target);
        if !fill.layout.covers(&leads_to) {
            fill.leave_out(&link, "leads outside the inherited directories");
        } else if !fill.has(&link)? {
            fill.link(&link, &target)?;
        }
    }
    Ok(())
}

/// Copies links that packages contain, after everything else is in place.
pub fn make_packaged(fill: &mut Fill<'_>, links: &[PathBuf]) -> Result<(), Error> {
    for link in links {
        let Some(target) = fill.host.read_link(link)? else {
            continue;
        };
        if !fill.has(link)? && is_harmless(fill, &fill.leads_to(link, &target))? {
            fill.link(link, &target)?;
        }
    }
    Ok(())
}

fn is_harmless(fill: &Fill<'_>, leads_to: &Path) -> Result<bool, Error> {
    if fill.layout.covers(leads_to) || leads_to.starts_with("/run") || leads_to.starts_with("/proc")
    {
        return Ok(true);
    }
    match crate::native::fill::relative(leads_to) {
        Some(name) => fill.has(name),
        None => Ok(false),
    }
}
