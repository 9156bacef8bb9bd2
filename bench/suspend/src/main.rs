//! Measures suspend, resume and clone of a kernel zone, and writes the figures together with those
//! that `zonesuspend bench` measured: a page, a JSON file, and a plot. bench/suspend/run calls this
//! program.

mod figures;
mod incoming;
mod page;
mod plot;
mod zones;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use lexopt::prelude::*;

use figures::{Engine, Figures};

#[derive(Default)]
struct Options {
    rounds: usize,
    programs: PathBuf,
    guest: Option<PathBuf>,
    scratch: PathBuf,
    out: PathBuf,
    host: String,
    engines: Vec<PathBuf>,
    left_out: Vec<String>,
}

fn main() -> Result<()> {
    let options = parse()?;
    let mut figures = Figures {
        host: options.host,
        left_out: options.left_out,
        ..Figures::default()
    };
    for path in &options.engines {
        let text = fs::read(path).with_context(|| path.display().to_string())?;
        let engine: Engine =
            serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
        figures.engines.push(engine);
    }
    if let Some(guest) = &options.guest {
        let place = zones::Place {
            programs: options.programs,
            root: options.scratch.join("zones"),
            cgroup: format!("/zones-suspend.{}", std::process::id()),
        };
        figures.zone = zones::measure(&place, guest, options.rounds)?;
    }
    fs::create_dir_all(&options.out)?;
    let put = |name: &str, text: String| fs::write(options.out.join(name), text);
    put(
        "suspend.json",
        serde_json::to_string_pretty(&figures)? + "\n",
    )?;
    put("suspend.svg", plot::draw(&figures))?;
    put("suspend.tables", page::tables(&figures))?;
    Ok(())
}

fn parse() -> Result<Options> {
    let mut options = Options {
        rounds: 5,
        ..Options::default()
    };
    let mut words = lexopt::Parser::from_env();
    let text = |value: OsString| {
        value
            .into_string()
            .map_err(|_| lexopt::Error::from("no UTF-8"))
    };
    while let Some(word) = words.next()? {
        let Long(name) = word else {
            return Err(word.unexpected().into());
        };
        let name = name.to_owned();
        let value = words.value()?;
        match name.as_str() {
            "rounds" => options.rounds = value.parse()?,
            "programs" => options.programs = value.into(),
            "guest" => options.guest = Some(value.into()),
            "scratch" => options.scratch = value.into(),
            "out" => options.out = value.into(),
            "host" => options.host = text(value)?,
            "engine" => options.engines.push(value.into()),
            "left-out" => options.left_out.push(text(value)?),
            _ => bail!("unknown option --{name}"),
        }
    }
    Ok(options)
}
