//! Formats data rates for the log.

use std::time::Duration;

/// Returns a text with megabytes, seconds, and megabytes per second.
pub(super) fn rate(bytes: u64, took: Duration) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let megabytes = bytes as f64 / 1e6;
    let seconds = took.as_secs_f64().max(1e-9);
    format!(
        "{megabytes:.1} MB in {seconds:.3} s, {:.1} MB/s",
        megabytes / seconds
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_megabytes_and_seconds() {
        assert_eq!(
            rate(810_000_000, Duration::from_millis(500)),
            "810.0 MB in 0.500 s, 1620.0 MB/s"
        );
    }
}
