//! How much weight one CPU share is.
//!
//! Only the ratio between zones counts, so far as Solaris goes. To the kernel the numbers
//! matter too: it divides a group's weight among the CPUs and keeps loads as whole numbers,
//! and with a weight of a hundredth of the usual one it cannot tell loads apart any more.
//! Zones that weighed so little got half of the CPU time that was theirs beside other busy
//! groups, and what they did took a quarter more of it (`docs/brands-bench.md`).
//!
//! So a share is what the kernel gives a group by itself, 1024 in v1 and 100 in v2. A zone
//! with more shares than fit then (256, or 100) makes the share of all zones smaller. The
//! base of the zones in v2 remembers that, until it goes.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::XattrFlags;

use crate::arrange::{lock, zones};
use crate::knob::{Knob, Place};
use crate::{Error, ZoneCgroups};

/// The attribute of the base that holds the most shares that any zone had.
const MOST: &str = "user.zones.most-shares";

/// What a share weighs at most and at least, and the largest weight there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    usual: u64,
    least: u64,
    most: u64,
}

impl Scale {
    const fn of(knob: Knob) -> Option<Self> {
        let (usual, least, most) = match knob {
            Knob::CpuWeight => (100, 1, 10_000),
            // Ten of v1 are about one of v2.
            Knob::V1Shares => (1024, 10, 262_144),
            _ => return None,
        };
        Some(Self { usual, least, most })
    }

    /// What a share weighs when a zone has so many.
    fn unit(self, shares: u64) -> u64 {
        (self.most / shares.max(1)).clamp(self.least, self.usual)
    }
}

/// What a share weighs when no zone has many; 1 for what is not counted in shares.
pub(crate) const fn usual(knob: Knob) -> u64 {
    match Scale::of(knob) {
        Some(scale) => scale.usual,
        None => 1,
    }
}

/// What a group of the host weighs, and the most that one can.
pub(crate) const fn of_the_host(knob: Knob) -> (u64, u64) {
    match Scale::of(knob) {
        Some(scale) => (scale.usual, scale.most),
        None => (1, 1),
    }
}

/// What a share weighs now, below the base of the zones in v2.
pub(crate) fn unit(v2: &Path, knob: Knob) -> u64 {
    Scale::of(knob).map_or(1, |scale| scale.unit(most(v2)))
}

/// The weight of so many shares: a zone that has none set has one.
pub(crate) fn weight(knob: Knob, unit: u64, shares: Option<u64>) -> u64 {
    let weight = shares.unwrap_or(1).saturating_mul(unit);
    Scale::of(knob).map_or(weight, |scale| weight.min(scale.most))
}

fn most(v2: &Path) -> u64 {
    number(v2, MOST).unwrap_or(1)
}

/// The number in an attribute of a group, unless it is 0.
pub(crate) fn number(group: &Path, attribute: &str) -> Option<u64> {
    let mut text = [0; 32];
    let length = rustix::fs::getxattr(group, attribute, &mut text[..]).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    text.parse().ok().filter(|number| *number > 0)
}

/// Writes one share for a zone that was just made.
pub(crate) fn begin(zone: &ZoneCgroups) -> Result<(), Error> {
    let Some(place) = Place::find(zone, Knob::SHARES) else {
        return Ok(());
    };
    let (place, _lock) = place.settled()?;
    fs::write(&place.path, place.text(None)).map_err(Error::file("write", &place.path))
}

/// Makes the share of all zones as small as it must be for a zone with so many.
pub(crate) fn make_room(zone: &ZoneCgroups, shares: u64) -> Result<(), Error> {
    let (Some(v2), Some(place)) = (zone.v2.parent(), Place::find(zone, Knob::SHARES)) else {
        return Ok(());
    };
    let (Some(scale), Some(base)) = (
        Scale::of(place.knob),
        place.path.parent().and_then(Path::parent),
    ) else {
        return Ok(());
    };
    let _lock = lock(v2)?;
    let (before, after) = (unit(v2, place.knob), scale.unit(shares));
    if after >= before {
        return Ok(());
    }
    let text = shares.to_string();
    rustix::fs::setxattr(v2, MOST, text.as_bytes(), XattrFlags::empty())
        .map_err(|errno| Error::file("mark the shares of", v2)(errno.into()))?;
    for zone in zones(base) {
        let path = zone.join(place.knob.file());
        let in_units = |unit| Place {
            knob: place.knob,
            path: path.clone(),
            unit,
            v2: None,
        };
        // A zone that goes meanwhile needs none.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let held = in_units(before).value(&text);
        let _ = fs::write(&path, in_units(after).text(held));
    }
    Ok(())
}

impl Place {
    /// The place with what a share weighs now, which stays so as long as the lock is held.
    pub(crate) fn settled(&self) -> Result<(Self, Option<OwnedFd>), Error> {
        let (true, Some(v2)) = (Scale::of(self.knob).is_some(), &self.v2) else {
            return Ok((self.clone(), None));
        };
        let lock = lock(v2)?;
        let mut place = self.clone();
        place.unit = unit(v2, self.knob);
        Ok((place, Some(lock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_shares_weigh_what_the_kernel_gives_and_many_keep_their_ratio() {
        let v1 = Scale::of(Knob::V1Shares).unwrap();
        assert_eq!(
            [1, 256, 300, 60_000].map(|most| v1.unit(most)),
            [1024, 1024, 873, 10]
        );
        let v2 = Scale::of(Knob::CpuWeight).unwrap();
        assert_eq!(
            [1, 100, 300, 10_000].map(|most| v2.unit(most)),
            [100, 100, 33, 1]
        );
        let both = [300, 100].map(|shares| weight(Knob::CpuWeight, 33, Some(shares)));
        assert_eq!(both, [9900, 3300]);
        assert_eq!(weight(Knob::V1Shares, 10, Some(60_000)), 262_144);
    }
}
