//! Runs the guard of a link in the kernel on test frames, and compares its verdicts with a plain
//! description of its rules. The tests need root; without root they are skipped.

mod frames;
mod labels;
mod random;
mod reference;
mod rules;
mod wire;

use std::os::fd::AsFd;

use net::guard::{Guard, Loaded, Reason, Verdict, counts, load};
use reference::Outcome;

const MAC: [u8; 6] = [0x02, 0x08, 0x20, 0xaa, 0xbb, 0xcc];
const OTHER_MAC: [u8; 6] = [0x02, 0x08, 0x20, 0, 0, 1];

/// The names of the kernel's verdicts in its headers.
const TC_ACT_OK: i32 = 0;
const TC_ACT_SHOT: i32 = 2;
const TC_ACT_REDIRECT: i32 = 7;

/// Returns true if the kernel can run a program on a test frame: an IP packet must have a complete
/// header.
fn can_be_tried(frame: &[u8]) -> bool {
    let header = match frame[12..14] {
        [0x08, 0x00] => 20,
        [0x86, 0xdd] => 40,
        _ => 1,
    };
    frame.len() >= 14 + header
}

/// A guard that is loaded into the kernel.
struct Subject {
    guard: Guard,
    loaded: Loaded,
}

impl Subject {
    /// Returns `None` if no program can be loaded, and prints "skipped", which ./check counts.
    fn new(guard: Guard) -> Option<Self> {
        match load(&guard) {
            Ok(loaded) => Some(Self { guard, loaded }),
            Err(error) if error.raw_os_error() == Some(1) => {
                println!("skipped: bpf(2): {error}");
                None
            }
            Err(error) => panic!("{guard:?}: {error}"),
        }
    }

    fn counts(&self) -> Vec<(Reason, u64)> {
        counts(self.loaded.map_id).unwrap()
    }

    /// Runs the guard on a frame, and reads the counters.
    fn outcome(&self, frame: &[u8]) -> Outcome {
        let before = self.counts();
        let ran = sys::bpf::run_classifier(self.loaded.program.as_fd(), frame, 1).unwrap();
        let counted: Vec<Reason> = before
            .into_iter()
            .zip(self.counts())
            .flat_map(|((reason, before), (_, after))| {
                std::iter::repeat_n(reason, usize::try_from(after - before).unwrap())
            })
            .collect();
        let passes = match self.guard.to {
            Verdict::Host => TC_ACT_OK,
            Verdict::Device(_) => TC_ACT_REDIRECT,
        };
        match (ran.verdict, counted[..].as_ref()) {
            (TC_ACT_SHOT, []) => Outcome::Vanishes,
            (TC_ACT_SHOT, &[reason]) => Outcome::Dropped(reason),
            (verdict, []) if verdict == passes => Outcome::Passes,
            other => panic!("{other:?}"),
        }
    }
}
