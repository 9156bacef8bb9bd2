//! The measurement: every tool does a step before any does the next one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};

use crate::lane::Lane;
use crate::memory::{Weight, weigh};
use crate::options::Options;
use crate::root;
use crate::tools::{self, Step, Tool};

/// The wall times of a step, summed over its commands, by tool and zone.
pub type Times = BTreeMap<(Step, usize), Vec<Duration>>;

/// The measured figures. Tools are numbered as in `titles`.
#[derive(Debug, Default)]
pub struct Results {
    pub titles: Vec<String>,
    /// A zone at a time, `rounds` times.
    pub single: Times,
    /// A row of zones: all are cloned, then all booted, then all halted.
    pub row: Times,
    /// By tool: the weight of its keeper beside one zone and beside a row.
    pub weights: BTreeMap<usize, [Weight; 2]>,
}

/// A tool and the thread that runs its commands.
struct Runner {
    tool: Box<dyn Tool>,
    lane: Lane,
}

impl Runner {
    fn step(&self, step: Step, zone: &str) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        for call in self.tool.calls(step, zone) {
            times.push(self.lane.run(&call)?);
            reap();
        }
        Ok(times)
    }
}

pub fn all(options: &Options) -> Result<Results> {
    // The daemons that tools leave behind become our children: reaped by us, so
    // that no init of the machine has a part in the times.
    set_child_subreaper(Some(getpid()))?;
    let roots = root::prepare(options)?;
    let mut runners = Vec::new();
    for tool in tools::make(options, &roots)? {
        tool.prepare().with_context(|| tool.title())?;
        let log = options.scratch.join(format!("stderr.{}", runners.len()));
        let lane = Lane::start(tool.setup(), &log)?;
        runners.push(Runner { tool, lane });
    }
    let mut results = Results {
        titles: runners.iter().map(|r| r.tool.title()).collect(),
        ..Results::default()
    };

    // Once unmeasured: programs and libraries get into the page cache.
    life(
        &runners,
        &["warm".to_owned()],
        &mut Times::new(),
        |_| Ok(()),
    )?;
    for round in 0..options.rounds {
        let zone = [format!("one{round}")];
        life(&runners, &zone, &mut results.single, |_| Ok(()))?;
    }
    let mut weights: BTreeMap<usize, [Weight; 2]> = BTreeMap::new();
    for (slot, zones) in [1, options.row].into_iter().enumerate() {
        let names: Vec<_> = (0..zones).map(|i| format!("row{zones}x{i}")).collect();
        // The row of one is only weighed; single zones were timed above.
        let times = if zones == 1 {
            &mut Times::new()
        } else {
            &mut results.row
        };
        life(&runners, &names, times, |runners| {
            for (number, runner) in runners.iter().enumerate() {
                let Some((program, word)) = runner.tool.keeper() else {
                    continue;
                };
                let weight = weigh(program, &word)?;
                if weight.processes < zones {
                    bail!(
                        "{}: {} keepers of {zones}",
                        runner.tool.title(),
                        weight.processes
                    );
                }
                weights.entry(number).or_default()[slot] = weight;
            }
            Ok(())
        })?;
    }
    results.weights = weights;
    Ok(results)
}

/// Takes zones of every tool through their life, the tools in turn; `running` is
/// called while all of them run.
fn life(
    runners: &[Runner],
    zones: &[String],
    times: &mut Times,
    mut running: impl FnMut(&[Runner]) -> Result<()>,
) -> Result<()> {
    for runner in runners {
        for zone in zones {
            runner.tool.prepare_zone(zone)?;
        }
    }
    let inits_before = count_inits()?;
    for step in Step::ALL {
        for zone in zones {
            for (number, runner) in runners.iter().enumerate() {
                let took = runner.step(step, zone).with_context(|| {
                    format!("{}: {} of {zone}", runner.tool.title(), step.name())
                })?;
                if took.is_empty() {
                    continue;
                }
                times
                    .entry((step, number))
                    .or_default()
                    .push(took.iter().sum());
            }
        }
        if step == Step::Boot {
            await_inits(inits_before + zones.len() * runners.len())?;
            running(runners)?;
        }
    }
    await_inits(inits_before)
}

/// Waits, for a second at most, until as many zones run: some tools return a
/// moment before init has been loaded.
fn await_inits(wanted: usize) -> Result<()> {
    let began = Instant::now();
    loop {
        let inits = count_inits()?;
        if inits == wanted {
            return Ok(());
        }
        if began.elapsed() > Duration::from_secs(1) {
            bail!("{inits} zones run instead of {wanted}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the number of processes that run zinit, whatever tool started them.
fn count_inits() -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc")? {
        let status = std::fs::read_to_string(entry?.path().join("status")).unwrap_or_default();
        let mut lines = status.lines();
        let name = lines.next().unwrap_or_default();
        let alive = !status.contains("State:\tZ");
        // "NSpid: 4711 1": process 1 of a namespace below ours.
        let first = status.lines().any(|line| {
            line.starts_with("NSpid:") && line.split('\t').count() == 3 && line.ends_with("\t1")
        });
        if alive && first && (name.ends_with("\tzinit") || name.ends_with("\tinit")) {
            count += 1;
        }
    }
    Ok(count)
}

/// Reaps what has ended and became ours. Only called while no command runs.
fn reap() {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    while let Ok(Some(_)) = waitid(WaitId::All, options) {}
}
