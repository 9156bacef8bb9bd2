//! Compares moments of real overlays, and checks the output with the mounted trees.
//!
//! The test makes random calls in a mounted overlay. Between the calls it keeps moments as the
//! programs do: it turns the top into a layer, or copies it. Each pair of moments is compared. The
//! output must turn the tree that the kernel shows for one moment into the tree of the other.
//!
//! The test needs root. `ZONES_TEST_CASES=N` sets the number of cases, and `ZONES_TEST_DIR` the
//! folder to work in (default: a tmpfs).

mod check;
mod random;
mod tree;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use check::{Seen, Tree, check, is_sorted};
use diff::{Action, Event, Moment, Proof};
use random::Random;
use rustix::fs::CWD;
use rustix::mount::MountAttrFlags;
use storage::Stack;

/// This number of cases takes a few seconds.
const CASES: u64 = 60;

/// The number of calls between two moments.
const CALLS: u64 = 12;

fn main() {
    if !rustix::process::geteuid().is_root() {
        println!("overlay: skipped: mounting needs root");
        return;
    }
    sys::namespace::unshare(sys::process::ns::MOUNT).expect("root may leave its mount namespace");
    sys::mount::make_private_recursive().expect("root may change its own mounts");
    let given = std::env::var_os("ZONES_TEST_DIR").map(PathBuf::from);
    let parent = given
        .clone()
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    let dir = tempfile::tempdir_in(parent).unwrap();
    if given.is_none() {
        // The mount ends with the namespace, so nothing is left in the folder.
        sys::mount::new_fs("tmpfs", &[], MountAttrFlags::empty())
            .and_then(|mount| sys::mount::attach(&mount, CWD, dir.path()))
            .unwrap();
    }
    let cases = std::env::var("ZONES_TEST_CASES").ok();
    let cases = cases.and_then(|text| text.parse().ok()).unwrap_or(CASES);
    let (mut pairs, mut changes, mut renamed) = (0, 0, 0);
    for case in 0..cases {
        let place = dir.path().join(format!("case{case}"));
        let mut world = World::new(&place, case + 1);
        match world.run() {
            Ok(()) => {}
            Err(text) => panic!("case {case}: {text}"),
        }
        pairs += world.pairs;
        changes += world.changes;
        renamed += world.renamed;
        fs::remove_dir_all(&place).unwrap();
    }
    assert!(renamed > 0, "no case renamed a folder");
    println!(
        "overlay: {cases} random cases, {pairs} pairs, {changes} changes, {renamed} renamed folders ... ok"
    );
    if given.is_none() {
        sys::mount::detach(dir.path()).unwrap();
    }
}

/// A zone.
struct World {
    place: PathBuf,
    random: Random,
    /// The layers below the top, topmost first.
    lowers: Vec<PathBuf>,
    count: usize,
    /// The moments that were kept, with their trees.
    moments: Vec<(Moment, Tree)>,
    pairs: u64,
    changes: u64,
    renamed: u64,
}

impl World {
    fn new(place: &Path, seed: u64) -> Self {
        fs::create_dir(place).unwrap();
        for name in ["zone", "zone/root", "zone/work", "scratch", "at"] {
            fs::create_dir(place.join(name)).unwrap();
        }
        Self {
            place: place.to_owned(),
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            lowers: Vec::new(),
            count: 0,
            moments: Vec::new(),
            pairs: 0,
            changes: 0,
            renamed: 0,
        }
    }

    fn run(&mut self) -> Result<(), String> {
        // A base that is never mounted alone.
        let root = self.place.join("zone/root");
        for _ in 0..2 * CALLS {
            random::call(&mut self.random, &root);
        }
        self.seal();
        for _ in 0..5 {
            self.work();
            match self.random.below(3) {
                0 => self.seal(),
                1 => self.copy(),
                // The zone goes on without a moment.
                _ => {}
            }
        }
        let present = self.present();
        let tree = self.tree(&present);
        self.moments.push((present, tree));
        let moments = std::mem::take(&mut self.moments);
        for (one, before) in &moments {
            for (other, after) in &moments {
                self.compare((one, before), (other, after))?;
            }
        }
        Ok(())
    }

    fn stack(&self) -> Stack {
        Stack {
            zonepath: self.place.join("zone"),
            top: self.place.join("zone/root"),
            work: self.place.join("zone/work"),
            lowers: self.lowers.clone(),
            volatile: false,
        }
    }

    fn present(&self) -> Moment {
        let layers = std::iter::once(self.stack().top).chain(self.lowers.clone());
        Moment {
            layers: layers.collect(),
        }
    }

    /// Makes random calls in the mounted zone.
    fn work(&mut self) {
        let at = self.place.join("at");
        let root = storage::assemble(&self.stack(), None, 0, &self.place.join("scratch")).unwrap();
        sys::mount::attach(&root, CWD, &at).unwrap();
        for _ in 0..CALLS {
            random::call(&mut self.random, &at);
        }
        drop(root);
        sys::mount::unmount(&at).unwrap();
    }

    fn next(&mut self) -> PathBuf {
        self.count += 1;
        self.place.join(format!("layer{}", self.count))
    }

    /// Turns the top into a layer, and keeps it as a moment.
    fn seal(&mut self) {
        let layer = self.next();
        let top = self.stack().top;
        fs::rename(&top, &layer).unwrap();
        fs::create_dir(&top).unwrap();
        tree::copy_look(&layer, &top);
        self.lowers.insert(0, layer);
        let moment = Moment {
            layers: self.lowers.clone(),
        };
        let tree = self.tree(&moment);
        self.moments.push((moment, tree));
    }

    /// Keeps a copy of the top as a moment.
    fn copy(&mut self) {
        let layer = self.next();
        let copied = Command::new("cp")
            .arg("-a")
            .args([&self.stack().top, &layer])
            .status();
        assert!(copied.unwrap().success());
        let moment = Moment {
            layers: std::iter::once(layer).chain(self.lowers.clone()).collect(),
        };
        let tree = self.tree(&moment);
        self.moments.push((moment, tree));
    }

    /// Returns the tree that the kernel shows for a moment.
    fn tree(&self, moment: &Moment) -> Tree {
        let stack = Stack {
            top: moment.layers[0].clone(),
            lowers: moment.layers[1..].to_vec(),
            ..self.stack()
        };
        let at = self.place.join("at");
        let root = storage::view(&stack, &self.place.join("scratch")).unwrap();
        sys::mount::attach(&root, CWD, &at).unwrap();
        let tree = tree::of(&at);
        drop(root);
        sys::mount::unmount(&at).unwrap();
        tree
    }

    fn compare(&mut self, before: (&Moment, &Tree), after: (&Moment, &Tree)) -> Result<(), String> {
        let (mut seen, mut problems) = (Vec::new(), Vec::new());
        let done = diff::compare(before.0, after.0, Proof::Bytes, &mut |event| {
            match event {
                Event::Change(change) => seen.push(Seen {
                    action: match change.action {
                        Action::Removed => '-',
                        Action::Added => '+',
                        Action::Modified => 'M',
                        Action::Renamed => 'R',
                    },
                    path: change.path.to_vec(),
                    from: change.from.map(<[u8]>::to_vec),
                    differs: !change.what.is_nothing(),
                }),
                Event::Problem { path, why } => {
                    problems.push(format!("{}: {why}", path.escape_ascii()));
                }
            }
            ControlFlow::Continue(())
        });
        done.map_err(|error| error.to_string())?;
        self.pairs += 1;
        self.changes += seen.len() as u64;
        self.renamed += seen.iter().filter(|one| one.action == 'R').count() as u64;
        if !problems.is_empty() {
            return Err(problems.join("\n"));
        }
        if seen.iter().all(|one| one.action != 'R') && !is_sorted(&seen) {
            return Err(format!("the output is not sorted: {seen:?}"));
        }
        check(before.1, after.1, &seen).map_err(|text| {
            let lines: Vec<String> = seen.iter().map(|one| format!("{one:?}")).collect();
            format!(
                "{text}\n{:?}\n{:?}\n{}",
                before.0,
                after.0,
                lines.join("\n")
            )
        })
    }
}
