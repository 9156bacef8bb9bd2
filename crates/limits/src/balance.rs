//! Sets the weight of the global zone's CPU time against the weight of the zones.
//!
//! For the host, all zones are one group, the base. If the global zone has shares, the weight of
//! the base is (shares of all running zones / shares of the global zone) times the weight of one
//! group of the host. Example: three zones with 2 shares each, beside a global zone with 3 shares,
//! get two thirds of scarce CPU time. The division is exact if one group of the host is busy, for
//! example `system.slice`. Each further busy group of the host counts as another global zone.

use std::fs;
use std::path::PathBuf;

use rustix::fs::XattrFlags;

use crate::groups::{lock, zones};
use crate::knob::Knob;
use crate::place::unit;
use crate::{Base, Error, ZoneCgroups, knob, place};

/// The name of the attribute of the base that holds the shares of the global zone.
const SHARES: &str = "user.zones.global-shares";

/// Sets the shares of the global zone. With `None`, all zones together get the weight of one group
/// of the host. Does nothing if no zone is active.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn set_global_shares(base: &Base, shares: Option<u64>) -> Result<(), Error> {
    if !base.v2.exists() || (shares.is_none() && global_shares(base).is_none()) {
        return Ok(());
    }
    let bases: Vec<PathBuf> = [&base.v2].into_iter().chain(&base.v1).cloned().collect();
    let mark = |result: rustix::io::Result<()>| {
        result.map_err(|errno| Error::file("mark the shares of", &base.v2)(errno.into()))
    };
    match shares {
        Some(shares) => {
            let text = shares.to_string();
            mark(rustix::fs::setxattr(
                &base.v2,
                SHARES,
                text.as_bytes(),
                XattrFlags::empty(),
            ))?;
            balance(&bases)
        }
        None => {
            mark(rustix::fs::removexattr(&base.v2, SHARES))?;
            weigh(&bases, |usual, _| usual)
        }
    }
}

/// Returns the shares of the global zone, if it has any.
#[must_use]
pub fn global_shares(base: &Base) -> Option<u64> {
    read(&base.v2)
}

/// Adjusts the weight of the base after a zone started, ended, or got other shares.
pub(crate) fn rebalance(groups: &ZoneCgroups) -> Result<(), Error> {
    let parents = [&groups.v2].into_iter().chain(&groups.v1);
    let bases: Vec<PathBuf> = parents
        .filter_map(|path| Some(path.parent()?.to_owned()))
        .collect();
    balance(&bases)
}

fn read(base: &std::path::Path) -> Option<u64> {
    place::number(base, SHARES)
}

fn balance(bases: &[PathBuf]) -> Result<(), Error> {
    let Some(shares) = bases.first().and_then(|base| read(base)) else {
        return Ok(());
    };
    weigh(bases, |usual, sum| usual.saturating_mul(sum) / shares)
}

/// Writes the weight of the base in each hierarchy that divides CPU time. `weight` computes it from
/// the default weight and the shares of all zones.
fn weigh(bases: &[PathBuf], weight: impl FnOnce(u64, u64) -> u64) -> Result<(), Error> {
    let find = |knob: &Knob| {
        let mut bases = bases.iter().filter(|base| base.join(knob.file()).exists());
        Some((bases.next()?, *knob))
    };
    let (Some(v2), Some((base, knob))) = (bases.first(), Knob::SHARES.iter().find_map(find)) else {
        return Ok(());
    };
    let _lock = lock(v2)?;
    let unit = unit(v2, knob);
    let shares = zones(base).into_iter().filter_map(|zone| {
        let text = fs::read_to_string(zone.join(knob.file())).ok()?;
        knob.value(&text, unit)
    });
    let sum = shares.fold(0, u64::saturating_add);
    let (usual, most) = knob::of_the_host(knob);
    let path = base.join(knob.file());
    // The smallest weight that v1 accepts is 2.
    let text = weight(usual, sum).clamp(2, most).to_string();
    fs::write(&path, text).map_err(Error::file("write", &path))
}
