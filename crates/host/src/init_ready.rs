//! Asks the kernel if a process is ready for a signal.
//!
//! The kernel drops a signal to the first process of a pid namespace, unless that process catches
//! or blocks the signal.

use std::fs;

/// Returns true if a process catches or blocks a signal, or waits for signals. Returns false if the
/// process does not exist.
pub fn is_ready_for(pid: i32, signal: i32) -> bool {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let status = read("status");
    is_in(&status, "SigBlk:", signal)
        || is_in(&status, "SigCgt:", signal)
        || read("wchan").starts_with(WAITING_FOR_SIGNALS)
}

/// The kernel function in which a process that called sigtimedwait(2) sleeps. During
/// sigtimedwait(2), /proc does not show the awaited signals as blocked.
const WAITING_FOR_SIGNALS: &str = "do_sigtimedwait";

/// Returns true if a signal is in the named set of /proc/PID/status.
fn is_in(status: &str, set: &str, signal: i32) -> bool {
    let bits = status
        .lines()
        .find_map(|line| line.strip_prefix(set))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    let bit = u32::try_from(signal - 1)
        .ok()
        .and_then(|number| 1_u64.checked_shl(number));
    matches!((bits, bit), (Some(bits), Some(bit)) if bits & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_count_from_one() {
        // In this text SIGINT is number 2, and SIGRTMIN+4 of systemd is number 38.
        let status = "Name:\tinit\nSigQ:\t0/1\nSigBlk:\t0000002000000000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000002\n";
        assert!(is_in(status, "SigBlk:", 38) && is_in(status, "SigCgt:", 2));
        for signal in [1, 2, 37, 39, 0, -1, 64, 65, 1000] {
            assert!(!is_in(status, "SigBlk:", signal), "{signal}");
        }
        assert!(!is_in("", "SigBlk:", 1));
        assert!(!is_in("SigBlk:\tnonsense\n", "SigBlk:", 1));
    }

    #[test]
    fn a_process_that_is_not_there_is_ready_for_nothing() {
        assert!(!is_ready_for(-1, 15));
        let own = i32::try_from(std::process::id()).unwrap();
        // The Rust runtime catches signal 11 to report stack overflows.
        assert!(is_ready_for(own, 11));
    }
}
