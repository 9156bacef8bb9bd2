//! The files of control groups that hold a limit, and the format of their values.

/// Period of the CPU bandwidth limit in microseconds: the kernel's default.
const CPU_PERIOD_MICROSECONDS: u64 = 100_000;

/// The default weight of an access to disks, in `io.weight`.
const IO_DEFAULT: u64 = 100;

/// Maximum number of threads of any kernel.
const PIDS: u64 = 4_194_304;

/// The value of a v1 group without a memory limit: the largest number of whole pages.
const UNLIMITED: u64 = 1 << 62;

/// A file that holds a limit. Values are in the unit of the control, bytes for memory. `None` means
/// no limit, or the default value of a share.
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
    /// The files that limit CPU time. In this list and the next ones, the file of v2 is first.
    pub const CAP: &[Self] = &[Self::CpuMax, Self::V1Quota];
    /// The files of CPU shares.
    pub const SHARES: &[Self] = &[Self::CpuWeight, Self::V1Shares];
    /// The files that limit memory.
    pub const MEMORY: &[Self] = &[Self::MemoryMax, Self::V1Memory];
    /// The files that limit swap space: swap alone in v2, the sum of memory and swap in v1.
    pub const SWAP: &[Self] = &[Self::SwapMax, Self::V1MemorySwap];
    /// The files that limit the number of threads.
    pub const PIDS: &[Self] = &[Self::PidsMax, Self::V1Pids];
    /// The files of shares of disk access.
    pub const IO: &[Self] = &[
        Self::IoWeight,
        Self::IoBfqWeight,
        Self::V1BfqWeight,
        Self::V1BlkioWeight,
    ];

    /// Returns the name of the file.
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

    /// Returns true if the file belongs to v2.
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

    /// Returns the text to write for a value. A number outside the kernel's range becomes the
    /// nearest number in this range. `unit` is the weight of one share.
    pub fn text(self, value: Option<u64>, unit: u64) -> String {
        let or = |none: &str| value.map_or_else(|| none.to_owned(), |value| value.to_string());
        let of_io = |value: Option<u64>, most| {
            let weight = value.unwrap_or(1).saturating_mul(IO_DEFAULT);
            weight.clamp(1, most).to_string()
        };
        let quota = |cap: u64| cap.saturating_mul(CPU_PERIOD_MICROSECONDS / 100);
        match self {
            Self::CpuMax => match value {
                Some(cap) => format!("{} {CPU_PERIOD_MICROSECONDS}", quota(cap)),
                None => format!("max {CPU_PERIOD_MICROSECONDS}"),
            },
            Self::V1Quota => value.map_or_else(|| "-1".to_owned(), |cap| quota(cap).to_string()),
            Self::CpuWeight | Self::V1Shares => weight(self, unit, value).to_string(),
            Self::MemoryMax | Self::SwapMax => or("max"),
            Self::PidsMax | Self::V1Pids => {
                value.map_or_else(|| "max".to_owned(), |pids| pids.min(PIDS).to_string())
            }
            Self::V1Memory | Self::V1MemorySwap => or("-1"),
            Self::IoWeight => of_io(value, 10_000),
            Self::IoBfqWeight | Self::V1BfqWeight | Self::V1BlkioWeight => of_io(value, 1_000),
        }
    }

    /// Returns the value in the kernel's text.
    pub fn value(self, text: &str, unit: u64) -> Option<u64> {
        let mut words = text.lines().next()?.split_ascii_whitespace();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
        match self {
            Self::CpuMax => {
                let quota = number(words.next())?;
                let period = number(words.next()).filter(|period| *period > 0)?;
                Some(quota.saturating_mul(100) / period)
            }
            Self::V1Quota => Some(number(words.next())? * 100 / CPU_PERIOD_MICROSECONDS),
            Self::CpuWeight | Self::V1Shares => Some((number(words.next())? + unit / 2) / unit),
            Self::V1Memory | Self::V1MemorySwap => {
                number(words.next()).filter(|bytes| *bytes < UNLIMITED)
            }
            // The text is "default 100", or only the number.
            Self::IoWeight | Self::IoBfqWeight | Self::V1BfqWeight | Self::V1BlkioWeight => {
                Some(number(words.next_back())? / IO_DEFAULT)
            }
            Self::MemoryMax | Self::SwapMax | Self::PidsMax | Self::V1Pids => number(words.next()),
        }
    }
}

/// Returns the maximum and minimum weight of one share, and the maximum weight of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) usual: u64,
    least: u64,
    most: u64,
}

impl Scale {
    pub(crate) const fn of(knob: Knob) -> Option<Self> {
        let (usual, least, most) = match knob {
            Knob::CpuWeight => (100, 1, 10_000),
            // A weight of 10 in v1 is about a weight of 1 in v2.
            Knob::V1Shares => (1024, 10, 262_144),
            _ => return None,
        };
        Some(Self { usual, least, most })
    }

    /// Returns the weight of one share if a zone has this number of shares.
    pub(crate) fn unit(self, shares: u64) -> u64 {
        (self.most / shares.max(1)).clamp(self.least, self.usual)
    }
}

/// Returns the weight of one share if no zone has many shares; 1 for files that do not count in
/// shares.
pub(crate) const fn usual(knob: Knob) -> u64 {
    match Scale::of(knob) {
        Some(scale) => scale.usual,
        None => 1,
    }
}

/// Returns the weight of a group of the host, and the maximum weight.
pub(crate) const fn of_the_host(knob: Knob) -> (u64, u64) {
    match Scale::of(knob) {
        Some(scale) => (scale.usual, scale.most),
        None => (1, 1),
    }
}

/// Returns the weight of this number of shares. A zone that sets no shares has one share.
pub(crate) fn weight(knob: Knob, unit: u64, shares: Option<u64>) -> u64 {
    let weight = shares.unwrap_or(1).saturating_mul(unit);
    Scale::of(knob).map_or(weight, |scale| weight.min(scale.most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_as_written() {
        for knobs in [
            Knob::CAP,
            Knob::SHARES,
            Knob::MEMORY,
            Knob::SWAP,
            Knob::PIDS,
            Knob::IO,
        ] {
            for knob in knobs {
                let unit = usual(*knob);
                for value in [1, 7, 10] {
                    let text = knob.text(Some(value), unit);
                    assert_eq!(knob.value(&text, unit), Some(value), "{knob:?} {text}");
                }
            }
        }
    }

    #[test]
    fn absent_limits_are_written_as_the_kernel_writes_them() {
        let none = |knob: Knob| {
            let unit = usual(knob);
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
        // A zone without shares has one share.
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
