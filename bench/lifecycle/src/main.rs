//! Measures clone, boot and halt of zones beside lxc, crun and the kernel's own
//! cost, interleaved in one run, and prints tables in Markdown.
//!
//! Run it by `bench/lifecycle/run`, which installs the other tools and takes
//! everything away afterwards, also when this program fails.

mod lane;
mod memory;
mod options;
mod report;
mod root;
mod run;
mod tools;

use anyhow::Result;

fn main() -> Result<()> {
    let Some(options) = options::parse()? else {
        println!("{}", options::USAGE);
        return Ok(());
    };
    let results = run::all(&options)?;
    print!("{}", report::markdown(&options, &results));
    Ok(())
}
