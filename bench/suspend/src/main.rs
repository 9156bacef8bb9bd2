//! Measures suspend, resume and clone of a kernel zone, and writes the figures together with those
//! that `zonesuspend bench` measured: a page, a JSON file, and a plot. With --live it measures live
//! migration instead. bench/suspend/run and bench/live/run call this program.

mod figures;
mod incoming;
mod live;
mod page;
mod place;
mod plot;
mod qemu;
mod zones;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use lexopt::prelude::*;

use figures::{Engine, Figures};
use place::Place;

#[derive(Default)]
struct Options {
    /// The folder with the options of ssh for both hosts, in the files `here` and `there`.
    live: Option<PathBuf>,
    rounds: usize,
    programs: PathBuf,
    guest: Option<PathBuf>,
    /// The control groups of the zones that migrate live begin with this name.
    cgroup: Option<String>,
    scratch: PathBuf,
    out: PathBuf,
    host: String,
    engines: Vec<PathBuf>,
    left_out: Vec<String>,
}

fn main() -> Result<()> {
    let options = parse()?;
    if let Some(ssh) = &options.live {
        return live(&options, ssh);
    }
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
        let place = Place {
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

/// Measures live migration, and prints a table.
fn live(options: &Options, ssh: &Path) -> Result<()> {
    let guest = options.guest.as_deref().context("--live needs --guest")?;
    let cgroup = options.cgroup.as_deref();
    let cgroup = cgroup.context("--live needs --cgroup")?;
    let names = ["here", "there"];
    let sides = live::Sides {
        hosts: names.map(|name| Place {
            programs: options.programs.clone(),
            root: options.scratch.join(name),
            cgroup: format!("{cgroup}.{name}"),
        }),
        ssh: [lines(&ssh.join(names[0]))?, lines(&ssh.join(names[1]))?],
    };
    let measured = live::measure(&sides, guest, options.rounds)?;
    fs::create_dir_all(&options.out)?;
    let text = serde_json::to_string_pretty(&measured.rows)? + "\n";
    fs::write(options.out.join("live.json"), text)?;
    fs::write(options.out.join("live.md"), live::table(&measured))?;
    Ok(())
}

fn lines(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(text.lines().map(str::to_owned).collect())
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
            "cgroup" => options.cgroup = Some(text(value)?),
            "live" => options.live = Some(value.into()),
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
