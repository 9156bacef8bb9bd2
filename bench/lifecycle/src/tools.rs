//! The tools that are measured, behind one trait.

pub mod crun;
pub mod floor;
pub mod lxc;
mod tool;
pub mod zones;

use anyhow::{Result, bail};

use crate::options::Options;
use crate::root::Roots;

pub use tool::{FLOOR, Step, Tool, version};

/// The tools that the options name.
///
/// # Errors
/// Fails if the name of a tool is not known.
pub fn make(options: &Options, roots: &Roots) -> Result<Vec<Box<dyn Tool>>> {
    let mut tools: Vec<Box<dyn Tool>> = Vec::new();
    for name in &options.tools {
        tools.push(match name.as_str() {
            "zones" => Box::new(zones::Zones::new(options, zones::Removal::OneCommand)),
            "zones-two-commands" => {
                Box::new(zones::Zones::new(options, zones::Removal::TwoCommands))
            }
            "lxc" => Box::new(lxc::Lxc::new(options, roots)),
            "crun" => Box::new(crun::Crun::new(options, roots)),
            "floor" => Box::new(floor::Floor::new(options, roots)?),
            other => bail!("no such tool: {other}"),
        });
    }
    Ok(tools)
}
