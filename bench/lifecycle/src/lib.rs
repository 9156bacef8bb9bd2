//! Measures clone, boot and halt of zones beside lxc, crun and the kernel's own
//! cost, interleaved in one run. What other benchmarks need of it is public: the
//! thread that runs commands, the root that every tool gets, the tools.

pub mod lane;
mod memory;
pub mod options;
mod report;
pub mod root;
mod run;
pub mod tools;

/// Measures what the command line asks for, and prints tables in Markdown.
///
/// # Errors
/// When a tool cannot be prepared, or one of its commands fails.
pub fn run() -> anyhow::Result<()> {
    let Some(options) = options::parse()? else {
        println!("{}", options::USAGE);
        return Ok(());
    };
    let results = run::all(&options)?;
    print!("{}", report::markdown(&options, &results));
    Ok(())
}
