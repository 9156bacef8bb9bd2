//! Finds the files of a zone's limits in its control groups.

use std::path::{Path, PathBuf};

use model::controls::Control;

use crate::knob::{Knob, Scale};
use crate::{ZoneCgroups, knob};

/// A file of one zone's control groups that holds a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub knob: Knob,
    pub path: PathBuf,
    /// The weight of one share.
    pub unit: u64,
    /// The base group of the zones in v2.
    pub v2: Option<PathBuf>,
}

impl Place {
    /// Returns the first of these files that exists for the zone.
    pub fn find(cgroups: &ZoneCgroups, knobs: &[Knob]) -> Option<Self> {
        knobs.iter().find_map(|&knob| {
            let groups = if knob.is_v2() {
                std::slice::from_ref(&cgroups.v2)
            } else {
                &cgroups.v1
            };
            let mut paths = groups.iter().map(|group| group.join(knob.file()));
            let path = paths.find(|path| path.exists())?;
            let v2 = cgroups.v2.parent().map(PathBuf::from);
            let unit = v2
                .as_ref()
                .map_or_else(|| knob::usual(knob), |v2| unit(v2, knob));
            Some(Self {
                knob,
                path,
                unit,
                v2,
            })
        })
    }

    /// Returns the text to write for a value.
    pub fn text(&self, value: Option<u64>) -> String {
        self.knob.text(value, self.unit)
    }

    /// Returns the value in the kernel's text.
    pub fn value(&self, text: &str) -> Option<u64> {
        self.knob.value(text, self.unit)
    }
}

/// The file for each kind of control of a zone; `None` if this host has no such file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub cap: Option<Place>,
    pub shares: Option<Place>,
    pub memory: Option<Place>,
    pub swap: Option<Place>,
    pub pids: Option<Place>,
    pub io: Option<Place>,
}

impl Places {
    /// Finds the files of the limits in a zone's groups.
    pub fn find(cgroups: &ZoneCgroups) -> Self {
        let find = |knobs: &[Knob]| Place::find(cgroups, knobs);
        Self {
            cap: find(Knob::CAP),
            shares: find(Knob::SHARES),
            memory: find(Knob::MEMORY),
            swap: find(Knob::SWAP),
            pids: find(Knob::PIDS),
            io: find(Knob::IO),
        }
    }
}

/// Returns the controller of a control, by its name in v2; `None` for a control that is not set in
/// control groups.
pub(crate) const fn controller(control: Control) -> Option<&'static str> {
    match control {
        Control::CpuCap | Control::CpuShares => Some("cpu"),
        Control::DedicatedCpu | Control::Pool => Some("cpuset"),
        Control::MaxPhysicalMemory | Control::MaxSwap => Some("memory"),
        Control::MaxLwps | Control::MaxProcesses => Some("pids"),
        Control::IoPriority => Some("io"),
        Control::MaxLockedMemory
        | Control::MaxShmMemory
        | Control::MaxShmIds
        | Control::MaxMsgIds
        | Control::MaxSemIds => None,
    }
}

/// The name of the attribute of the base that holds the maximum number of shares that any zone had.
pub(crate) const MOST_SHARES_ATTRIBUTE: &str = "user.zones.most-shares";

/// Returns the present weight of one share below the base of the zones in v2.
pub(crate) fn unit(v2: &Path, knob: Knob) -> u64 {
    Scale::of(knob).map_or(1, |scale| scale.unit(most(v2)))
}

pub(crate) fn most(v2: &Path) -> u64 {
    number(v2, MOST_SHARES_ATTRIBUTE).unwrap_or(1)
}

/// Returns the number in an attribute of a group, unless the number is 0.
pub(crate) fn number(group: &Path, attribute: &str) -> Option<u64> {
    let mut text = [0; 32];
    let length = rustix::fs::getxattr(group, attribute, &mut text[..]).ok()?;
    let text = std::str::from_utf8(text.get(..length)?).ok()?;
    text.parse().ok().filter(|number| *number > 0)
}
