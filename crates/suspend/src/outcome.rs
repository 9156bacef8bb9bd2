//! The result and the speed of an operation.

use std::time::Duration;

use serde::Serialize;

use crate::Io;

/// The result of saving an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Bytes of memory in pages that are not zeros.
    pub raw: u64,
    /// Size of all streams in bytes.
    pub size: u64,
    /// Size of the image in bytes.
    pub stored: u64,
    /// Time until all data was written.
    pub written: Duration,
    /// Time until the image was on stable storage under its final name.
    pub total: Duration,
    /// Number of chunks for each codec: raw, lz4, zstd.
    pub chunks: [u64; 3],
    /// Number of threads that saved the image.
    pub threads: usize,
    /// The system calls that wrote the image.
    pub io: Io,
    /// True if the image was written with O_DIRECT, past the page cache.
    pub direct: bool,
}

impl Saved {
    /// Returns the lines for the log: the speed of the uncompressed and the compressed data, each
    /// with and without the sync.
    #[must_use]
    pub fn log_lines(&self) -> [String; 4] {
        let line = |what: &str, bytes: u64, took: Duration| {
            format!(
                "suspend: {what}: {} MB in {:.2} s, {} MB/s",
                bytes / 1_000_000,
                took.as_secs_f64(),
                rate(bytes, took)
            )
        };
        [
            line("raw", self.raw, self.total),
            line("compressed", self.stored, self.total),
            line("raw without sync", self.raw, self.written),
            line("compressed without sync", self.stored, self.written),
        ]
    }
}

/// The result of a restore or a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Bytes of memory in pages that are not zeros.
    pub raw: u64,
    /// Bytes that were read from the image.
    pub stored: u64,
    /// The duration of the operation.
    pub took: Duration,
}

impl Restored {
    /// Returns the line for the log.
    #[must_use]
    pub fn log_line(&self) -> String {
        format!(
            "resume: {} MB in {:.2} s, {} MB/s",
            self.raw / 1_000_000,
            self.took.as_secs_f64(),
            rate(self.raw, self.took)
        )
    }
}

/// Returns the speed in megabytes (10^6 bytes) per second.
fn rate(bytes: u64, took: Duration) -> u64 {
    let micros = took.as_micros().max(1);
    u64::try_from(u128::from(bytes) / micros).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_lines_with_mb_seconds_and_mb_a_second() {
        let saved = Saved {
            raw: 1_043_000_000,
            size: 2 << 30,
            stored: 501_500_000,
            written: Duration::from_millis(3500),
            total: Duration::from_millis(5900),
            chunks: [1, 2, 3],
            threads: 2,
            io: Io::Uring,
            direct: true,
        };
        assert_eq!(
            saved.log_lines(),
            [
                "suspend: raw: 1043 MB in 5.90 s, 176 MB/s",
                "suspend: compressed: 501 MB in 5.90 s, 85 MB/s",
                "suspend: raw without sync: 1043 MB in 3.50 s, 298 MB/s",
                "suspend: compressed without sync: 501 MB in 3.50 s, 143 MB/s",
            ]
        );
        let restored = Restored {
            raw: 1_000_000,
            stored: 1,
            took: Duration::ZERO,
        };
        assert_eq!(restored.log_line(), "resume: 1 MB in 0.00 s, 1000000 MB/s");
    }
}
