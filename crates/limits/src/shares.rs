//! Computes the weight of a CPU share.
//!
//! On Solaris only the ratio of the shares of zones matters. The Linux kernel also needs large
//! enough weights: it divides a group's weight among the CPUs and stores loads as whole numbers.
//! With a weight of one hundredth of the default, it can no longer tell loads apart. Zones with
//! such a small weight got half of their share of CPU time beside other busy groups, and needed a
//! quarter more CPU time for the same work (`docs/brands-bench.md`).
//!
//! Therefore a share is the kernel's default weight of a group, 1024 in v1 and 100 in v2. If a zone
//! has more shares than then fit (256, or 100), one share of every zone becomes smaller. The base
//! of the zones in v2 stores this size until the base is removed.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::XattrFlags;

use crate::groups::{lock, zones};
use crate::knob::{Knob, Scale};
use crate::place::{MOST_SHARES_ATTRIBUTE, Place, unit};
use crate::{Error, ZoneCgroups};

/// Writes the weight of one share for a new zone.
pub(crate) fn begin(zone: &ZoneCgroups) -> Result<(), Error> {
    let Some(place) = Place::find(zone, Knob::SHARES) else {
        return Ok(());
    };
    let (place, _lock) = place.settled()?;
    fs::write(&place.path, place.text(None)).map_err(Error::file("write", &place.path))
}

/// Makes one share of all zones small enough for a zone with this number of shares.
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
    rustix::fs::setxattr(
        v2,
        MOST_SHARES_ATTRIBUTE,
        text.as_bytes(),
        XattrFlags::empty(),
    )
    .map_err(|errno| Error::file("mark the shares of", v2)(errno.into()))?;
    for zone in zones(base) {
        let path = zone.join(place.knob.file());
        let in_units = |unit| Place {
            knob: place.knob,
            path: path.clone(),
            unit,
            v2: None,
        };
        // A zone that ends in the meantime needs no share.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let held = in_units(before).value(&text);
        let _ = fs::write(&path, in_units(after).text(held));
    }
    Ok(())
}

impl Place {
    /// Returns the file with the present weight of a share. The weight does not change while the
    /// lock is held.
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
