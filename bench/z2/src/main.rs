//! Measures fleets of clones: the time to create, boot, halt and remove them; the disk, memory and
//! idle processor time of a zone; the shared memory; and the cost of the first write after a
//! snapshot. Other tools are measured in the same run.
//!
//! Run it with `bench/z2/run`, which installs the other tools, writes the results into docs/ and
//! removes everything afterwards, also if this program fails.

mod addressed;
mod containers;
mod copyup;
mod disk;
mod fleet;
mod lxd;
mod measure;
mod options;
mod plots;
mod report;
mod results;
mod share;

use std::fs;

use anyhow::{Context, Result};
use lifecycle::root;
use lifecycle::tools::Tool;
use lifecycle::tools::floor::Floor;
use lifecycle::tools::zones::{Removal, Zones};

use addressed::Addressed;
use disk::Space;
use fleet::{Contestant, Fleet};
use results::{Results, Skipped};

/// Returns the program that makes the kernel calls of a zone alone, as many at a time as there are
/// processors.
fn kernel_floor(options: &lifecycle::options::Options, roots: &root::Roots) -> Result<Contestant> {
    let tool = Floor::new(options, roots)?;
    tool.prepare()?;
    let folder = options.scratch.join("floor");
    let space = Space::Tree(folder);
    Ok(Contestant::new(
        Box::new(tool),
        &options.scratch,
        None,
        space,
        None,
    ))
}

fn main() -> Result<()> {
    let Some(options) = options::parse()? else {
        println!("{}", options::USAGE);
        return Ok(());
    };
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let common = options.common();
    let roots = root::prepare(&common)?;
    share::put_program(&common.scratch, &roots)?;
    let mut results = Results {
        host: options.host.clone(),
        ..Results::default()
    };

    let ours = Contestant::ours(Box::new(Zones::new(&common, Removal::OneCommand)), &common);
    // One run without a measurement: it seals the master, and reads the programs into the page
    // cache.
    Fleet::new(&ours, "warm", 2, options.window()).life()?;
    let floor = kernel_floor(&common, &roots)?;
    for &count in &options.counts {
        eprintln!("z2: {count} zones");
        let mut row = Fleet::new(&ours, "web", count, options.window()).life()?;
        if count >= 2 * fleet::SOME {
            row.singles = Some(fleet::singles(&ours, count)?);
        }
        results.fleets.push(row);
        eprintln!("z2: {count} of the {}", floor.title);
        let row = Fleet::new(&floor, "web", count, options.window()).life()?;
        results.fleets.push(row);
    }
    let addressed = Contestant::ours(Box::new(Addressed::new(&common)), &common);
    for &count in options.counts.iter().filter(|&&count| count >= 50) {
        eprintln!("z2: {count} {}", addressed.title);
        let row = Fleet::new(&addressed, "net", count, options.window()).life()?;
        results.fleets.push(row);
    }
    eprintln!("z2: one program in many zones");
    results
        .shared
        .push(share::measure(&ours, options.sharing(100))?);

    for maker in containers::MAKERS {
        let made = maker(&common, &roots);
        let (contestant, count) = match made {
            Ok(made) => made,
            Err(skipped) => {
                eprintln!("z2: skipped: {}: {}", skipped.what, skipped.why);
                results.skipped.push(skipped);
                continue;
            }
        };
        let count = options.bearable(count);
        eprintln!("z2: {count} of {}", contestant.title);
        let measured = Fleet::new(&contestant, "web", count, options.window())
            .life()
            .and_then(|row| {
                results.fleets.push(row);
                if contestant.inside.is_some() {
                    results
                        .shared
                        .push(share::measure(&contestant, options.sharing(20))?);
                }
                Ok(())
            });
        if let Err(error) = measured {
            eprintln!("z2: skipped: {}: {error:#}", contestant.title);
            results.skipped.push(Skipped {
                what: contestant.title.clone(),
                why: format!("{error:#}"),
            });
        }
    }

    for kind in ["ext4", "xfs", "btrfs"] {
        eprintln!("z2: a file on {kind}, after a snapshot");
        match copyup::measure(&common, kind, options.file_mib()) {
            Ok(row) => results.copy_up.push(row),
            Err(error) => results.skipped.push(Skipped {
                what: format!("copy-up on {kind}"),
                why: format!("{error:#}"),
            }),
        }
    }

    let out = &options.out;
    fs::create_dir_all(out)?;
    let json = serde_json::to_string_pretty(&results)?;
    fs::write(out.join("z2.json"), json + "\n").context("z2.json")?;
    fs::write(out.join("z2.tables"), report::markdown(&results)).context("z2.tables")?;
    for (name, svg) in plots::all(&results) {
        fs::write(out.join(name), svg).context(name)?;
    }
    Ok(())
}
