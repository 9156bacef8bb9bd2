//! The life of a fleet of one tool: created, booted three times, measured, removed.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use lifecycle::lane::{Call, Lane};
use lifecycle::options::Options;
use lifecycle::root;
use lifecycle::tools::{Step, Tool};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::disk::{Image, Space};
use crate::measure::{Family, Keeper, Kernel, median};
use crate::results::{FleetRow, Singles};

/// Number of zones at each end of a fleet that get a command for each zone.
pub const SOME: usize = 100;

/// Number of boots of a fleet before its disk is measured again.
const BOOTS: usize = 3;

/// Makes a command that runs a program in a zone.
pub type Inside = Box<dyn Fn(&str, &str) -> Call>;

/// A tool, and the data that are needed to measure its fleets.
pub struct Contestant {
    pub title: String,
    tool: Box<dyn Tool>,
    /// True if one command acts on a whole range of zones.
    bulk: bool,
    pub inside: Option<Inside>,
    keeper: Option<Keeper>,
    space: Space,
    logs: PathBuf,
    /// The file system of the tool, which is kept mounted during the measurement.
    _disk: Option<Image>,
}

impl Contestant {
    pub fn ours(tool: Box<dyn Tool>, options: &Options) -> Self {
        let scratch = &options.scratch;
        let (bin, own_root) = (scratch.join("bin"), root::zones_root(options));
        let inside = move |zone: &str, program: &str| {
            root::zones_call(&bin, &own_root, "zlogin").args([zone, program])
        };
        Self {
            bulk: true,
            ..Self::new(
                tool,
                scratch,
                Some(Box::new(inside)),
                Space::Tree(root::zones_root(options)),
                None,
            )
        }
    }

    pub fn new(
        tool: Box<dyn Tool>,
        scratch: &std::path::Path,
        inside: Option<Inside>,
        space: Space,
        disk: Option<Image>,
    ) -> Self {
        Self {
            title: tool.title(),
            keeper: tool.keeper().map(|(program, word)| Keeper {
                program: program.to_owned(),
                word,
            }),
            tool,
            bulk: false,
            inside,
            space,
            logs: scratch.join("logs"),
            _disk: disk,
        }
    }

    /// Returns the threads that run the tool's commands: as many as there are processors, but one
    /// if one command does the whole work.
    fn lanes(&self) -> Result<Vec<Lane>> {
        let count = match self.bulk {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, usize::from),
        };
        std::fs::create_dir_all(&self.logs)?;
        let name: String = self
            .title
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let log = |i: usize| self.logs.join(format!("{name}.{i}"));
        (0..count)
            .map(|i| Lane::start(self.tool.setup(), &log(i)))
            .collect()
    }
}

/// The zones PREFIX1 to PREFIXn of a contestant.
pub struct Fleet<'a> {
    contestant: &'a Contestant,
    prefix: &'a str,
    zones: usize,
    window: Duration,
}

impl<'a> Fleet<'a> {
    pub fn new(
        contestant: &'a Contestant,
        prefix: &'a str,
        zones: usize,
        window: Duration,
    ) -> Self {
        Self {
            contestant,
            prefix,
            zones,
            window,
        }
    }

    fn name(&self, i: usize) -> String {
        format!("{}{i}", self.prefix)
    }

    /// Prepares the tool, creates the fleet and boots it once, for another measurement.
    pub fn start(&self) -> Result<Vec<Lane>> {
        let mut lanes = self.contestant.lanes()?;
        for i in 1..=self.zones {
            self.contestant.tool.prepare_zone(&self.name(i))?;
        }
        self.step(&mut lanes, Step::Clone)?;
        self.step(&mut lanes, Step::Boot)?;
        Ok(lanes)
    }

    pub fn stop(&self, lanes: &mut [Lane]) -> Result<()> {
        self.step(lanes, Step::Halt)?;
        self.step(lanes, Step::Remove)?;
        Ok(())
    }

    /// Runs a program in every zone, one after another.
    pub fn run_inside(&self, lanes: &[Lane], program: &str) -> Result<()> {
        let inside = self.contestant.inside.as_ref().context("no way in")?;
        for i in 1..=self.zones {
            lanes[0].run(&inside(&self.name(i), program))?;
        }
        Ok(())
    }

    pub fn life(&self) -> Result<FleetRow> {
        let mut lanes = self.contestant.lanes()?;
        for i in 1..=self.zones {
            self.contestant.tool.prepare_zone(&self.name(i))?;
        }
        let empty = self.contestant.space.used()?;
        let clone = self.step(&mut lanes, Step::Clone)?;
        let disk = self.contestant.space.used()? - empty;

        let kernel = Kernel::now()?;
        let mut boots = vec![self.step(&mut lanes, Step::Boot)?];
        let now = Kernel::now()?;
        let (mut processes, mut idle) = (0.0, 0.0);
        if let Some(keeper) = &self.contestant.keeper {
            let family = Family::of(keeper)?;
            if family.len() < 2 * self.zones {
                bail!(
                    "{}: {} processes of {} zones",
                    self.contestant.title,
                    family.len(),
                    self.zones
                );
            }
            processes = family.pss();
            let (began, before) = (Instant::now(), family.ran());
            std::thread::sleep(self.window);
            let ran = Duration::from_nanos(family.ran().saturating_sub(before));
            idle = 100.0 * ran.as_secs_f64() / began.elapsed().as_secs_f64();
        }
        let mut halts = vec![self.step(&mut lanes, Step::Halt)?];
        for _ in 1..BOOTS {
            boots.push(self.step(&mut lanes, Step::Boot)?);
            halts.push(self.step(&mut lanes, Step::Halt)?);
        }
        let disk_after = self.contestant.space.used()? - empty;
        let remove = self.step(&mut lanes, Step::Remove)?;

        let zones = self.zones as f64;
        let each = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3 / zones);
        let middle = |times: Vec<Option<Duration>>| {
            let times: Vec<f64> = times.into_iter().filter_map(each).collect();
            (!times.is_empty()).then(|| median(times))
        };
        Ok(FleetRow {
            tool: self.contestant.title.clone(),
            zones: self.zones,
            given: match self.contestant.bulk {
                true => "one command".to_owned(),
                false => format!("a command each, {} at a time", lanes.len()),
            },
            clone: each(clone),
            boot: middle(boots),
            halt: middle(halts),
            remove: each(remove),
            disk: disk / zones,
            disk_after_boots: disk_after / zones,
            processes: processes / zones,
            slab: (now.slab - kernel.slab) / zones,
            stacks: (now.stacks - kernel.stacks) / zones,
            page_tables: (now.page_tables - kernel.page_tables) / zones,
            percpu: (now.percpu - kernel.percpu) / zones,
            files: (now.files - kernel.files) / zones,
            idle_cpu_percent: idle,
            singles: None,
        })
    }

    /// Runs a step for the whole fleet. Returns its elapsed time, or nothing if the tool has no
    /// such step.
    fn step(&self, lanes: &mut [Lane], step: Step) -> Result<Option<Duration>> {
        let began = Instant::now();
        if self.contestant.bulk {
            let (tool, lane) = (self.contestant.tool.as_ref(), &lanes[0]);
            range(tool, lane, step, self.prefix, 1, self.zones)?;
        } else if self.contestant.tool.calls(step, &self.name(1)).is_empty() {
            return Ok(None);
        } else {
            let failed = Mutex::new(None);
            // Each zone stays in its thread: some threads have their own mount namespace.
            let calls: Vec<Vec<Call>> = (0..lanes.len())
                .map(|lane| {
                    (1..=self.zones)
                        .filter(|i| i % lanes.len() == lane)
                        .flat_map(|i| self.contestant.tool.calls(step, &self.name(i)))
                        .collect()
                })
                .collect();
            std::thread::scope(|scope| {
                for (lane, calls) in lanes.iter_mut().zip(&calls) {
                    let failed = &failed;
                    scope.spawn(move || {
                        for call in calls {
                            if let Err(error) = lane.run(call) {
                                if let Ok(mut failed) = failed.lock() {
                                    failed.get_or_insert(error);
                                }
                                return;
                            }
                        }
                    });
                }
            });
            if let Ok(Some(error)) = failed.into_inner() {
                return Err(error.context(format!("{} of {}", step.name(), self.contestant.title)));
            }
        }
        let took = began.elapsed();
        reap();
        Ok(Some(took))
    }
}

/// Runs a step of our zones for a range of zones.
fn range(
    tool: &dyn Tool,
    lane: &Lane,
    step: Step,
    prefix: &str,
    first: usize,
    last: usize,
) -> Result<()> {
    for call in &tool.calls(step, &format!("{prefix}[{first}-{last}]")) {
        lane.run(call)?;
    }
    Ok(())
}

/// Measures the first and the last hundred of our zones with a command for each, and those between
/// with one command for all.
pub fn singles(contestant: &Contestant, zones: usize) -> Result<Singles> {
    let lanes = contestant.lanes()?;
    let (lane, tool) = (&lanes[0], contestant.tool.as_ref());
    let one_by_one = |step: Step, from: usize| -> Result<f64> {
        let mut times = Vec::new();
        for i in from..from + SOME {
            let mut took = 0.0;
            for call in tool.calls(step, &format!("one{i}")) {
                took += lane.run(&call)?.as_secs_f64() * 1e3;
                reap();
            }
            times.push(took);
        }
        Ok(median(times))
    };
    let ends = |step: Step| -> Result<[f64; 2]> {
        let first = one_by_one(step, 1)?;
        if zones > 2 * SOME {
            range(tool, lane, step, "one", SOME + 1, zones - SOME)?;
        }
        Ok([first, one_by_one(step, zones - SOME + 1)?])
    };
    let singles = Singles {
        clone: ends(Step::Clone)?,
        boot: ends(Step::Boot)?,
        halt: ends(Step::Halt)?,
        remove: ends(Step::Remove)?,
    };
    reap();
    Ok(singles)
}

/// Reaps daemons that have ended and whose parent has died, so that they became children of this
/// process. Must be called only while no command runs.
pub fn reap() {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    while let Ok(Some(_)) = waitid(WaitId::All, options) {}
}
