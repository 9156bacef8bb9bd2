//! The zones of one case, each as a real zone and as a plain folder.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::CWD;
use rustix::mount::MountAttrFlags;
use storage::Dataset;

use crate::ops::{Op, Tree};
use crate::worker::Worker;

/// A step of a case. A zone is named by a number, modulo the number of existing zones.
#[derive(Debug, Clone)]
pub enum Step {
    /// Makes calls in a mounted zone.
    Work(usize, Vec<Op>),
    /// Seals the zone's top.
    Seal(usize),
    /// Merges the zone's topmost layers until this number of layers is left.
    Shorten(usize, usize),
    /// Merges the zone's topmost layers between two lists of calls in a mounted zone.
    Beside(usize, usize, Vec<Op>, Vec<Op>),
    /// Clones a zone.
    Clone(usize),
    /// Destroys a zone, except the last zone.
    Destroy(usize),
}

/// Maximum number of zones that exist at the same time.
const ZONES: usize = 4;
const BASES: [u32; 2] = [200_000, 300_000];
const WIDTH: u32 = 65_536;

struct Zone {
    name: String,
    dataset: Dataset,
    model: PathBuf,
}

/// The storage of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The folder of the world, on disk.
    Disk,
    /// A tmpfs, so that no unmount waits for a disk.
    Memory,
}

/// The workers, the scratch folder and the counters.
pub struct World {
    dir: tempfile::TempDir,
    userns: Vec<OwnedFd>,
    guests: Vec<Worker>,
    host: Worker,
    zones: Vec<Zone>,
    made: usize,
    pub calls: usize,
    pub succeeded: usize,
    pub mounts: usize,
    pub merges: usize,
}

type Outcome<T> = Result<T, String>;

fn text(e: impl std::error::Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(e) = source {
        text = format!("{text}: {e}");
        source = e.source();
    }
    text
}

/// Limits the space of a zone without a limit, and removes the limit of another, if the environment
/// variable `ZONES_TEST_QUOTA` is set. No test writes as much.
fn limit(dataset: &Dataset) -> Outcome<()> {
    if std::env::var_os("ZONES_TEST_QUOTA").is_none() {
        return Ok(());
    }
    let next = match dataset.quota().map_err(text)? {
        None => Some(1 << 34),
        Some(_) => None,
    };
    dataset.set_quota(next).map_err(text)
}

impl World {
    /// Creates a world in a new folder of `parent`, in this mount namespace.
    pub fn new(parent: &Path, place: Place) -> Outcome<Self> {
        let dir = tempfile::tempdir_in(parent).map_err(text)?;
        if place == Place::Memory {
            sys::mount::new_fs("tmpfs", &[], MountAttrFlags::empty())
                .and_then(|mount| sys::mount::attach(mount, CWD, dir.path()))
                .map_err(text)?;
        }
        let mut userns = Vec::new();
        let mut guests = Vec::new();
        for base in BASES {
            let fd = sys::idmap::user_namespace(base, WIDTH).map_err(text)?;
            guests.push(Worker::start(Some(fd.as_fd())).map_err(text)?);
            userns.push(fd);
        }
        Ok(Self {
            dir,
            userns,
            guests,
            host: Worker::start(None).map_err(text)?,
            zones: Vec::new(),
            made: 0,
            calls: 0,
            succeeded: 0,
            mounts: 0,
            merges: 0,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs one case, which begins and ends without zones.
    pub fn run(&mut self, steps: &[Step]) -> Outcome<()> {
        let done = self.run_steps(steps);
        let cleared = self.clear();
        done.and(cleared)
    }

    fn run_steps(&mut self, steps: &[Step]) -> Outcome<()> {
        for name in ["zones", "models", "scratch"] {
            fs::create_dir_all(self.path(name)).map_err(text)?;
        }
        let (name, model) = self.next();
        let dataset = Dataset::create(&self.path("zones").join(&name)).map_err(text)?;
        limit(&dataset)?;
        fs::create_dir(&model).map_err(text)?;
        self.zones.push(Zone {
            name,
            dataset,
            model,
        });
        for (n, step) in steps.iter().enumerate() {
            self.step(step)
                .map_err(|e| format!("step {n} ({step:?}): {e}"))?;
        }
        for zone in 0..self.zones.len() {
            self.work(zone, &[])
                .map_err(|e| format!("at the end: {e}"))?;
        }
        Ok(())
    }

    fn next(&mut self) -> (String, PathBuf) {
        self.made += 1;
        let name = format!("z{}", self.made);
        let model = self.path("models").join(&name);
        (name, model)
    }

    fn step(&mut self, step: &Step) -> Outcome<()> {
        let pick = |n: &usize| n % self.zones.len();
        match step {
            Step::Work(n, ops) => self.work(pick(n), ops),
            Step::Seal(n) => {
                let zone = &self.zones[pick(n)];
                zone.dataset.seal().map_err(text)?;
                split_links(&zone.model)
            }
            Step::Shorten(n, most) => {
                let dataset = &self.zones[pick(n)].dataset;
                limit(dataset)?;
                let before = dataset.stack().map_err(text)?.lowers.len();
                let after = dataset.shorten(*most).map_err(text)?;
                if before > after {
                    self.merges += 1;
                }
                if after != before.min(*most) {
                    return Err(format!("{after} of {before} layers are left"));
                }
                Ok(())
            }
            Step::Beside(n, most, first, then) => self.beside(pick(n), *most, first, then),
            Step::Clone(n) => {
                let origin = pick(n);
                if self.zones.len() >= ZONES {
                    return Ok(());
                }
                let (name, model) = self.next();
                let path = self.path("zones").join(&name);
                let origin = &self.zones[origin];
                let dataset = origin.dataset.clone_to(&path).map_err(text)?;
                split_links(&origin.model)?;
                copy(&origin.model, &model, &[])?;
                self.zones.push(Zone {
                    name,
                    dataset,
                    model,
                });
                Ok(())
            }
            Step::Destroy(n) => {
                if self.zones.len() < 2 {
                    return Ok(());
                }
                let zone = self.zones.remove(n % self.zones.len());
                Dataset::destroy(zone.dataset.zonepath()).map_err(text)?;
                fs::remove_dir_all(zone.model).map_err(text)
            }
        }
    }

    /// Makes the calls in the zone and in the plain folder, and compares the results.
    fn work(&mut self, n: usize, ops: &[Op]) -> Outcome<()> {
        let (root, range) = self.mount(n)?;
        self.work_on(n, root, range, ops)
    }

    /// Merges layers of a mounted zone, which continues to run.
    fn beside(&mut self, n: usize, most: usize, first: &[Op], then: &[Op]) -> Outcome<()> {
        let (root, range) = self.mount(n)?;
        self.work_on(n, root.try_clone().map_err(text)?, range, first)?;
        let before = self.zones[n].dataset.depth().map_err(text)?;
        // A second merge changes nothing, because it waits for the next mount.
        for _ in 0..2 {
            let after = self.zones[n].dataset.shorten_beside(most).map_err(text)?;
            if after != before.min(most) {
                return Err(format!("{after} of {before} layers are left"));
            }
        }
        self.merges += usize::from(before > most);
        let mounted = self.zones[n].dataset.mounted_depth().map_err(text)?;
        if mounted != (before > most).then_some(before) {
            return Err(format!(
                "{mounted:?} of {before} layers are said to be mounted"
            ));
        }
        storage::collect(&self.path("zones/.layers"), storage::Lost::Keep).map_err(text)?;
        self.work_on(n, root, range, then)
    }

    /// Mounts a zone as a boot does. Returns the root and the number of the id range.
    fn mount(&mut self, n: usize) -> Outcome<(OwnedFd, usize)> {
        let zone = &self.zones[n];
        self.mounts += 1;
        // Each mount uses another id range, because the files on disk must not depend on the range.
        let range = self.mounts % BASES.len();
        zone.dataset.let_go().map_err(text)?;
        let stack = zone.dataset.stack().map_err(text)?;
        let root = storage::assemble(
            &stack,
            Some(self.userns[range].as_fd()),
            BASES[range],
            &self.dir.path().join("scratch"),
        )
        .map_err(text)?;
        Ok((root, range))
    }

    fn work_on(&mut self, n: usize, root: OwnedFd, range: usize, ops: &[Op]) -> Outcome<()> {
        let zone = &self.zones[n];
        let (results, tree) = self.guests[range].work(root, ops).map_err(text)??;
        // The plain folder is mounted in the same user namespace, so that effects of the namespace
        // alone (set-id bits, capabilities) do not appear as differences of layers.
        let plain = storage::Stack {
            volatile: false,
            zonepath: zone.model.clone(),
            top: zone.model.clone(),
            work: PathBuf::new(),
            lowers: Vec::new(),
        };
        let plain = storage::assemble(
            &plain,
            Some(self.userns[range].as_fd()),
            BASES[range],
            Path::new(""),
        )
        .map_err(text)?;
        let (expected, model) = self.guests[range].work(plain, ops).map_err(text)??;
        self.calls += ops.len();
        self.succeeded += results.iter().filter(|e| **e == 0).count();
        for (op, (got, want)) in ops.iter().zip(results.iter().zip(&expected)) {
            if got != want {
                return Err(format!(
                    "{op:?}: error {got} in zone {}, {want} in a plain folder",
                    zone.name
                ));
            }
        }
        compare(&tree, &model).map_err(|e| format!("zone {}: {e}", zone.name))?;
        // On disk, the owners must be the zone's own numbers.
        let folder = fs::File::open(&zone.model).map_err(text)?;
        let (_, on_disk) = self.host.work(folder.into(), &[]).map_err(text)??;
        compare(&tree, &on_disk).map_err(|e| format!("zone {} against the disk: {e}", zone.name))
    }

    /// Checks that a zone with a mount in its root is not destroyed. The mount is a bind mount of a
    /// folder of the same file system, as the host's /usr may be.
    pub fn keeps_what_is_mounted(&self) -> Outcome<()> {
        let (precious, zone) = (self.path("precious"), self.path("bound"));
        fs::create_dir(&precious).map_err(text)?;
        fs::write(precious.join("file"), "text").map_err(text)?;
        let stack = Dataset::create(&zone)
            .and_then(|d| d.stack())
            .map_err(text)?;
        let at = stack.top.join("usr");
        fs::create_dir(&at).map_err(text)?;
        let bind = sys::mount::open_tree(CWD, &precious, sys::mount::Extent::One).map_err(text)?;
        sys::mount::attach(&bind, CWD, &at).map_err(text)?;
        match Dataset::destroy(&zone) {
            Err(storage::Error::Busy { mounted, .. }) if mounted == at => {}
            other => return Err(format!("destroy with a mount in the root: {other:?}")),
        }
        sys::mount::detach(&at).map_err(text)?;
        Dataset::destroy(&zone).map_err(text)?;
        if precious.join("file").exists() && !stack.top.exists() {
            return fs::remove_dir_all(&precious).map_err(text);
        }
        Err("what was mounted is gone, or the zone is not".to_owned())
    }

    fn clear(&mut self) -> Outcome<()> {
        for zone in self.zones.drain(..) {
            Dataset::destroy(zone.dataset.zonepath()).map_err(text)?;
        }
        let zones = self.path("zones");
        let left = fs::read_dir(&zones)
            .and_then(|entries| {
                entries
                    .map(|e| e.map(|e| e.file_name()))
                    .collect::<Result<Vec<_>, _>>()
            })
            .map_err(text)?;
        for name in ["zones", "models"] {
            fs::remove_dir_all(self.path(name)).map_err(text)?;
        }
        if left.iter().any(|name| name == ".layers") {
            return Err("layers are left after all zones were destroyed".to_owned());
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Without this unmount, the folder cannot be removed. The call fails, without harm, if
        // nothing is mounted.
        let _ = sys::mount::detach(self.dir.path());
    }
}

fn compare(zone: &Tree, model: &Tree) -> Outcome<()> {
    for (path, want) in model {
        match zone.get(path) {
            Some(got) if got == want => {}
            Some(got) => return Err(format!("{path} is {got:?}, in a plain folder {want:?}")),
            None => return Err(format!("{path} is missing, in a plain folder {want:?}")),
        }
    }
    match zone.keys().find(|path| !model.contains_key(*path)) {
        Some(path) => Err(format!("{path} is there, not in a plain folder")),
        None => Ok(()),
    }
}

/// Replaces each name of a file with a separate file: after a write to one name of a file in a
/// sealed layer, the names no longer lead to the same file.
fn split_links(model: &Path) -> Outcome<()> {
    let aside = model.with_extension("split");
    copy(model, &aside, &["--no-preserve=links"])?;
    fs::remove_dir_all(model).map_err(text)?;
    fs::rename(aside, model).map_err(text)
}

fn copy(from: &Path, to: &Path, options: &[&str]) -> Outcome<()> {
    let status = Command::new("/bin/cp")
        .arg("-a")
        .args(options)
        .arg("--")
        .args([from, to])
        .status()
        .map_err(text)?;
    if status.success() {
        return Ok(());
    }
    Err(format!("cp -a {}: {status}", from.display()))
}
