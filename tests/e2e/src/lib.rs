//! End-to-end tests: the built programs, on this machine, as root.
//!
//! | file | holds |
//! |---|---|
//! | [`Host`] | an alternate root with control groups of its own, cleaned up when dropped |
//! | [`run`] | a program run to its end, in bounded time |
//! | [`Terminal`] | a program on a pseudo-terminal |
//! | [`delegation`] | users who are not root, and the service that acts for them |
//! | [`cgroup`] | what lies in the control groups of a host |
//! | [`inside`] | small programs to run in a zone |
//! | [`debian`], [`patching`] | a small system in which apt-get works, and zones that are patched |
//! | [`foreign`] | package systems of other distributions |
//! | [`guest`] | a kernel zone that is suspended and goes on |
//! | [`ssh`] | another host, reached over a real sshd |
//! | [`database`] | a database in a zone that is written to all the time |
//! | [`tree`] | trees that are compared |
//! | [`container`], [`registry`] | container images, and who gives them out |
//! | [`mirror`] | a server of images by name, with signed catalogues |
//! | [`World`] | a host in a network of namespaces, see [`Lan`] |
//! | [`machine`] | guests of kernel zones |
//! | [`efi`] | programs that UEFI firmware starts |
//! | [`frames`] | what a program in a zone may send there |
//!
//! A test begins with `let Some(host) = Host::new() else { return };`. If the test cannot run, this
//! call has printed `skipped: NAME: reason`, which ./check counts. The programs are in the folder
//! that `ZONES_BIN` names, else in target/release.

pub mod beats;
pub mod cgroup;
mod chance;
mod clean;
pub mod container;
pub mod database;
pub mod debian;
pub mod delegation;
pub mod efi;
pub mod firewall;
pub mod foreign;
pub mod frames;
pub mod guest;
mod host;
pub mod inside;
pub mod lan;
pub mod machine;
pub mod mirror;
pub mod patching;
pub mod peer;
mod place;
mod pool;
pub mod registry;
pub mod roots;
pub mod run;
pub mod ssh;
mod terminal;
pub mod tree;
pub mod unpacked;

use std::time::{Duration, Instant};

pub use chance::{Random, still_runs_after};
pub use host::{Host, Row, left_to_long_runs, skip};
pub use lan::Lan;
pub use peer::{At, Helper, World};
pub use run::{Ran, between_starts, copy_program, start};
pub use terminal::Terminal;

/// Timeout of every wait in a test: a generous limit for a busy machine, not a measurement.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(300);

/// Returns the value of `look` when it is the same twice in a row: a zone may still change after
/// the command has ended, for example its console.
#[track_caller]
pub fn settled<T: PartialEq>(mut look: impl FnMut() -> T) -> T {
    let mut last = look();
    wait_for("rest", || {
        std::thread::sleep(Duration::from_millis(150));
        let now = look();
        let same = now == last;
        last = now;
        same.then_some(())
    });
    last
}

/// Calls `seen` until it returns a value; `what` is the message if it never does.
///
/// # Panics
/// Fails after [`WAIT_TIMEOUT`].
pub fn wait_for<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(found) = seen() {
            return found;
        }
        assert!(
            Instant::now() < end,
            "no {what} after {} s",
            WAIT_TIMEOUT.as_secs()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true in the long runs (`ZONES_TEST_LONG`, set by ./check --long).
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("ZONES_TEST_LONG").is_some_and(|value| !value.is_empty())
}

/// Returns the number of rounds of a test that can fail by chance: `few`, or twenty times as many
/// in the long runs.
#[must_use]
pub fn rounds(few: u64) -> std::ops::Range<u64> {
    0..if is_long() { 20 * few } else { few }
}
