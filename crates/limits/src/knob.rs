//! The files of control groups that hold a limit: what is written and read there.

use std::path::PathBuf;

use model::controls::Control;

use crate::{ZoneCgroups, shares};

/// CPU time is portioned out in spans of this many microseconds, the kernel's default.
const PERIOD: u64 = 100_000;

/// What an access to disks counts when nothing is set, in `io.weight`.
const IO_DEFAULT: u64 = 100;

/// Largest number of threads that a kernel can have.
const PIDS: u64 = 4_194_304;

/// A v1 group without a memory limit shows the largest number of whole pages.
const UNLIMITED: u64 = 1 << 62;

/// A file that holds a limit. Values are in the unit of the control, bytes for
/// memory; none is no limit, or the default of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knob {
    CpuMax,
    CpuWeight,
    MemoryMax,
    SwapMax,
    PidsMax,
    IoWeight,
    IoBfqWeight,
    V1Quota,
    V1Shares,
    V1Memory,
    V1MemorySwap,
    V1Pids,
    V1BfqWeight,
    V1BlkioWeight,
}

impl Knob {
    /// Those that cap CPU time. In this list and the others v2 comes first.
    pub const CAP: &[Self] = &[Self::CpuMax, Self::V1Quota];
    /// Those that share CPU time out.
    pub const SHARES: &[Self] = &[Self::CpuWeight, Self::V1Shares];
    /// Those that limit memory.
    pub const MEMORY: &[Self] = &[Self::MemoryMax, Self::V1Memory];
    /// Those that limit swap space: alone in v2, together with memory in v1.
    pub const SWAP: &[Self] = &[Self::SwapMax, Self::V1MemorySwap];
    /// Those that limit the number of threads.
    pub const PIDS: &[Self] = &[Self::PidsMax, Self::V1Pids];
    /// Those that share access to disks out.
    pub const IO: &[Self] = &[
        Self::IoWeight,
        Self::IoBfqWeight,
        Self::V1BfqWeight,
        Self::V1BlkioWeight,
    ];

    /// The name of the file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::CpuMax => "cpu.max",
            Self::CpuWeight => "cpu.weight",
            Self::MemoryMax => "memory.max",
            Self::SwapMax => "memory.swap.max",
            Self::PidsMax | Self::V1Pids => "pids.max",
            Self::IoWeight => "io.weight",
            Self::IoBfqWeight => "io.bfq.weight",
            Self::V1Quota => "cpu.cfs_quota_us",
            Self::V1Shares => "cpu.shares",
            Self::V1Memory => "memory.limit_in_bytes",
            Self::V1MemorySwap => "memory.memsw.limit_in_bytes",
            Self::V1BfqWeight => "blkio.bfq.weight",
            Self::V1BlkioWeight => "blkio.weight",
        }
    }

    /// Whether the file is one of v2.
    pub const fn is_v2(self) -> bool {
        matches!(
            self,
            Self::CpuMax
                | Self::CpuWeight
                | Self::MemoryMax
                | Self::SwapMax
                | Self::PidsMax
                | Self::IoWeight
                | Self::IoBfqWeight
        )
    }

    /// What to write for a value. Numbers beyond what the kernel takes become the
    /// nearest one that it does. `unit` is what a share weighs.
    pub fn text(self, value: Option<u64>, unit: u64) -> String {
        let or = |none: &str| value.map_or_else(|| none.to_owned(), |value| value.to_string());
        let weight = |value: Option<u64>, most| {
            let weight = value.unwrap_or(1).saturating_mul(IO_DEFAULT);
            weight.clamp(1, most).to_string()
        };
        let quota = |cap: u64| cap.saturating_mul(PERIOD / 100);
        match self {
            Self::CpuMax => match value {
                Some(cap) => format!("{} {PERIOD}", quota(cap)),
                None => format!("max {PERIOD}"),
            },
            Self::V1Quota => value.map_or_else(|| "-1".to_owned(), |cap| quota(cap).to_string()),
            Self::CpuWeight | Self::V1Shares => shares::weight(self, unit, value).to_string(),
            Self::MemoryMax | Self::SwapMax => or("max"),
            Self::PidsMax | Self::V1Pids => {
                value.map_or_else(|| "max".to_owned(), |pids| pids.min(PIDS).to_string())
            }
            Self::V1Memory | Self::V1MemorySwap => or("-1"),
            Self::IoWeight => weight(value, 10_000),
            Self::IoBfqWeight | Self::V1BfqWeight | Self::V1BlkioWeight => weight(value, 1_000),
        }
    }

    /// The value in what the kernel shows.
    pub fn value(self, text: &str, unit: u64) -> Option<u64> {
        let mut words = text.lines().next()?.split_ascii_whitespace();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
        match self {
            Self::CpuMax => {
                let quota = number(words.next())?;
                let period = number(words.next()).filter(|period| *period > 0)?;
                Some(quota.saturating_mul(100) / period)
            }
            Self::V1Quota => Some(number(words.next())? * 100 / PERIOD),
            Self::CpuWeight | Self::V1Shares => Some((number(words.next())? + unit / 2) / unit),
            Self::V1Memory | Self::V1MemorySwap => {
                number(words.next()).filter(|bytes| *bytes < UNLIMITED)
            }
            // "default 100", or the number alone.
            Self::IoWeight | Self::IoBfqWeight | Self::V1BfqWeight | Self::V1BlkioWeight => {
                Some(number(words.next_back())? / IO_DEFAULT)
            }
            Self::MemoryMax | Self::SwapMax | Self::PidsMax | Self::V1Pids => number(words.next()),
        }
    }
}

/// A knob of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub knob: Knob,
    pub path: PathBuf,
    /// What a share weighs.
    pub unit: u64,
    /// The base of the zones in v2.
    pub v2: Option<PathBuf>,
}

impl Place {
    /// The first of these knobs that a zone has.
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
                .map_or_else(|| shares::usual(knob), |v2| shares::unit(v2, knob));
            Some(Self {
                knob,
                path,
                unit,
                v2,
            })
        })
    }

    /// What to write for a value.
    pub fn text(&self, value: Option<u64>) -> String {
        self.knob.text(value, self.unit)
    }

    /// The value in what the kernel shows.
    pub fn value(&self, text: &str) -> Option<u64> {
        self.knob.value(text, self.unit)
    }
}

/// Where each kind of control of a zone is; none where this host has no place for it.
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
    /// Looks which files there are in a zone's groups.
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

/// The controller that a control belongs to, as v2 names it; none for what is not
/// set in control groups.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for knobs in [
            Knob::CAP,
            Knob::SHARES,
            Knob::MEMORY,
            Knob::SWAP,
            Knob::PIDS,
            Knob::IO,
        ] {
            for knob in knobs {
                let unit = shares::usual(*knob);
                for value in [1, 7, 10] {
                    let text = knob.text(Some(value), unit);
                    assert_eq!(knob.value(&text, unit), Some(value), "{knob:?} {text}");
                }
            }
        }
    }

    #[test]
    fn no_limit_is_what_the_kernel_calls_it() {
        let none = |knob: Knob| {
            let unit = shares::usual(knob);
            let text = knob.text(None, unit);
            let value = knob.value(&text, unit);
            (text, value)
        };
        assert_eq!(none(Knob::CpuMax), ("max 100000".to_owned(), None));
        assert_eq!(none(Knob::V1Quota), ("-1".to_owned(), None));
        assert_eq!(none(Knob::MemoryMax), ("max".to_owned(), None));
        assert_eq!(none(Knob::V1Pids), ("max".to_owned(), None));
        assert_eq!(none(Knob::V1Memory), ("-1".to_owned(), None));
        assert_eq!(Knob::V1Memory.value("9223372036854771712\n", 1), None);
        // Who has no shares has one.
        assert_eq!(none(Knob::CpuWeight), ("100".to_owned(), Some(1)));
        assert_eq!(none(Knob::V1Shares), ("1024".to_owned(), Some(1)));
        assert_eq!(none(Knob::IoWeight), ("100".to_owned(), Some(1)));
    }

    #[test]
    fn takes_the_forms_of_the_kernel() {
        assert_eq!(Knob::CpuMax.text(Some(25), 1), "25000 100000");
        assert_eq!(Knob::CpuMax.value("12500 50000\n", 1), Some(25));
        assert_eq!(Knob::IoWeight.value("default 300\n8:0 50\n", 1), Some(3));
        assert_eq!(Knob::CpuWeight.text(Some(50_000), 1), "10000");
        assert_eq!(Knob::PidsMax.text(Some(u64::MAX), 1), "4194304");
        assert_eq!(Knob::CpuMax.value("0 0", 1), None);
        assert_eq!(Knob::V1Quota.value("", 1), None);
    }
}
