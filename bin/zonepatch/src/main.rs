//! zonepatch(8): updates the packages of zones.

#[macro_use(eprint, eprintln, print)]
extern crate cli;

mod args;
mod global;
mod progress;
mod render;
mod subcommands;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use host::{Error, Host, flatten};
use model::ZoneName;
use model::name::GLOBAL;
use patch::health::Health;
use patch::remains::STAGED;
use patch::report::Event;
use patch::transaction::{Patch, Running};
use patch::{Options, Order, Outcome, Report, conf, record, rollback, run, status};
use rustix::event::{PollFd, PollFlags, poll};
use store::index::Index;
use sys::signals::Taken;
use zone::environments::When;

use args::{Call, Problem};
use progress::Progress;

fn main() -> ExitCode {
    if let Some(status) = cli::output::version("zonepatch") {
        return status;
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let status = match args::parse(words) {
        Ok(call) => {
            // Zones are patched to the end, even if the reader of the output closes the pipe.
            if matches!(call.verb, "status" | "history") {
                cli::output::only_prints();
            }
            start(&call)
        }
        Err(Problem::Help(verb)) => {
            return cli::output::help("zonepatch", &subcommands::help(verb));
        }
        Err(Problem::Nothing) => {
            eprintln!("zonepatch: {}", cli::command::NOTHING);
            eprint!("{}", subcommands::usage(None));
            cli::status::USAGE
        }
        Err(Problem::Usage(text, verb)) => {
            eprintln!("zonepatch: {text}");
            match verb {
                Some(_) => eprint!("{}", subcommands::usage(verb)),
                None => eprint!("{}", cli::command::hint("zonepatch")),
            }
            cli::status::USAGE
        }
    };
    cli::output::end("zonepatch", status)
}

/// Prints on standard output.
pub fn say(text: &str) {
    print!("{text}");
}

/// Prints on standard error.
pub fn complain(text: &str) {
    eprintln!("zonepatch: {text}");
}

fn start(call: &Call) -> u8 {
    let verb = call.verb;
    if call.json_progress {
        let zone = match call.zones.as_slice() {
            [zone] if zone.parse::<ZoneName>().is_ok() => Some(zone.as_str()),
            _ => None,
        };
        cli::progress::as_json(verb, zone, false);
    }
    if let Some(zone) = cli::current_zone() {
        eprintln!("zonepatch: zone '{zone}': must be in the global zone to {verb} patches.");
        return cli::status::ERROR;
    }
    if !cli::is_root() {
        eprintln!("zonepatch: only a privileged user may {verb} patches.");
        return cli::status::ERROR;
    }
    if let Some(status) = cli::refuse_relative_root("zonepatch", call.root.as_deref()) {
        return status;
    }
    let done = cli::host(call.root.as_deref())
        .map_err(|error| Error::Refused(error.to_string()))
        .and_then(|host| {
            let zones = chosen(&host, call)?;
            act(&host, call, &zones)
        });
    done.unwrap_or_else(|error| {
        complain(&flatten(&error));
        if error.is_usage() {
            cli::status::USAGE
        } else {
            cli::status::ERROR
        }
    })
}

/// Returns the selected zones by name; without a selection all zones except the global zone.
fn chosen(host: &Host, call: &Call) -> Result<Vec<ZoneName>, Error> {
    let index = Index::load(&host.root)?;
    let entries = index.entries().iter().map(|entry| entry.name.clone());
    let known: Vec<ZoneName> = entries.filter(|name| name.as_str() != GLOBAL).collect();
    if call.zones.is_empty() {
        return Ok(known);
    }
    let words = call.zones.iter().map(String::as_str);
    let zones =
        cli::select::resolve(words, &known).map_err(|error| Error::Refused(error.to_string()))?;
    match zones.iter().find(|zone| zone.as_str() == GLOBAL) {
        Some(_) => Err(Error::Usage(
            "the global zone is patched with apply -g, before the others".to_owned(),
        )),
        None => Ok(zones),
    }
}

fn act(host: &Host, call: &Call, zones: &[ZoneName]) -> Result<u8, Error> {
    match call.verb {
        "status" => {
            let row = |zone: &ZoneName| status::of(host, zone).map(|row| vec![row]);
            list(zones, call, row, render::status)
        }
        "history" => {
            let rows = |zone: &ZoneName| status::history(host, zone);
            list(zones, call, rows, render::history)
        }
        "rollback" => roll_back(host, call, zones),
        "recover" => {
            let (_held, left) = run::begin(host, Some(zones))?;
            warn(&left);
            Ok(match left.is_empty() {
                true => cli::status::OK,
                false => cli::status::ERROR,
            })
        }
        _ => change(host, call, zones),
    }
}

/// Takes the lock that keeps other zonepatch commands out; dropping the file releases the lock.
fn begin(host: &Host, zones: &[ZoneName]) -> Result<fs::File, Error> {
    let (held, left) = run::begin(host, Some(zones))?;
    warn(&left);
    Ok(held)
}

fn warn(left: &[String]) {
    for text in left {
        complain(text);
    }
}

/// Lists the findings of each zone.
fn list<R: serde::Serialize>(
    zones: &[ZoneName],
    call: &Call,
    find: impl Fn(&ZoneName) -> Result<Vec<R>, Error>,
    render: impl FnOnce(&[R]) -> String,
) -> Result<u8, Error> {
    let (mut rows, mut status) = (Vec::new(), cli::status::OK);
    for zone in zones {
        match find(zone) {
            Ok(found) => rows.extend(found),
            Err(error) => {
                complain(&format!("zone '{zone}': {}", flatten(&error)));
                status = cli::status::ERROR;
            }
        }
    }
    match call.json {
        true => say(&render::json(&rows)),
        false => say(&render(&rows)),
    }
    Ok(status)
}

fn roll_back(host: &Host, call: &Call, zones: &[ZoneName]) -> Result<u8, Error> {
    let _held = begin(host, zones)?;
    let (mut rows, mut status) = (Vec::new(), cli::status::OK);
    for zone in zones {
        // If no zone is named, only zones that have the patch are selected.
        if call.zones.is_empty() && !has_patch(host, zone, call.patch.as_deref()) {
            continue;
        }
        match rollback::zone(host, zone, call.patch.as_deref(), call.activate) {
            Ok(patch) if call.json => rows.push((zone.to_string(), patch)),
            Ok(patch) if call.activate == Some(When::NextBoot) => {
                say(&format!(
                    "{zone}: as before patch {patch} at its next boot\n"
                ));
            }
            Ok(patch) => say(&format!("{zone}: as before patch {patch}\n")),
            Err(error) => {
                complain(&format!("zone '{zone}': {}", flatten(&error)));
                status = cli::status::ERROR;
            }
        }
    }
    if call.json {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(zone, patch)| serde_json::json!({"zone": zone, "patch": patch}))
            .collect();
        say(&render::json(&rows));
    }
    Ok(status)
}

fn has_patch(host: &Host, zone: &ZoneName, patch: Option<&str>) -> bool {
    status::history(host, zone).is_ok_and(|past| {
        past.iter().any(|one| {
            use record::Standing::{Applied, Pending};
            matches!(one.entry.standing, Applied | Pending)
                && patch.is_none_or(|name| one.entry.patch == name)
        })
    })
}

/// Set by the first signal that asks for an end.
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// SIGHUP, SIGINT and SIGTERM.
const ENDINGS: [i32; 3] = [1, 2, 15];

/// Makes the first signal that asks for an end cancel the run in order, and the second signal end
/// this program by its default action. Must be called while the process has one thread.
fn take_signals() -> Result<(), Error> {
    let signals = Taken::take(&ENDINGS).map_err(Error::io("take signals"))?;
    std::thread::spawn(move || {
        loop {
            let mut watched = [PollFd::new(&signals, PollFlags::IN)];
            let _ = poll(&mut watched, None);
            match signals.next() {
                None => {}
                Some(number) if CANCELLED.swap(true, Ordering::Relaxed) => {
                    sys::signals::die_by(number);
                }
                Some(_) => complain(
                    "cancelled: no more zones are begun, and those at work are left as they were, but for those that are patched in place; a second signal ends zonepatch at once",
                ),
            }
        }
    });
    Ok(())
}

/// Carries out `plan`, `apply` and `remove`.
fn change(host: &Host, call: &Call, zones: &[ZoneName]) -> Result<u8, Error> {
    take_signals()?;
    let conf = conf::load(&host.root).map_err(|error| Error::Refused(flatten(&error)))?;
    let parallel = conf::effective(call.parallel.or(conf.num_proc), cpus(), zones.len());
    let _held = begin(host, zones)?;
    let mut zones = zones.to_vec();
    if call.verb == "remove" && call.zones.is_empty() {
        zones.retain(|zone| has_patch(host, zone, call.patch.as_deref()));
    }
    let mut patch = Patch {
        host,
        name: name(),
        order: call.order.clone(),
        files: None,
        keep: conf.keep,
        running: match (call.live, call.activate) {
            (true, _) => Running::Live,
            (false, Some(when)) => Running::Environment(when),
            (false, None) => Running::Refused,
        },
        health: Health {
            asked: call.health.clone(),
            otherwise: conf.health,
            within: conf.health_within,
        },
        within: match call.time_limit {
            Some(seconds) => conf::time_limit(seconds),
            None => conf.time_limit,
        },
        cancelled: &CANCELLED,
    };
    let staged = stage(host, &mut patch)?;
    let is_plan = call.verb == "plan" || call.dry_run;
    if call.global && !is_plan {
        let first = global::apply(host, &patch.order, patch.files.as_deref(), call.json);
        if let Err(error) = first {
            if let Some(folder) = staged {
                let _ = storage::remove_tree(&folder);
            }
            return Err(error);
        }
    }
    let logs = |zone: &ZoneName| patch.log(zone);
    let progress = Progress::new(&zones, is_plan, call.json, &logs);
    let tell = |event: &Event<'_>| progress.tell(event);
    let reports = progress.while_shown(|| match call.verb {
        "remove" => {
            let former = call.patch.as_deref().unwrap_or_default();
            run::remove(&patch, former, &zones, parallel, &tell)
        }
        _ if is_plan => run::plan(&patch, &zones, parallel, &tell),
        _ => {
            let share = call.share;
            run::apply(&patch, &zones, Options { parallel, share }, &tell)
        }
    });
    if let Some(folder) = staged {
        let _ = storage::remove_tree(&folder);
    }
    if call.json {
        say(&render::run(&patch.name, &call.order, parallel, &reports));
    } else {
        let text = render::summary(&patch.name, &reports, is_plan);
        say(&format!("{text}\n"));
    }
    let failed = reports
        .iter()
        .any(|one: &Report| one.outcome == Outcome::Failed);
    Ok(if failed {
        cli::status::ERROR
    } else {
        cli::status::OK
    })
}

/// Returns the number of CPUs. A benchmark sets a higher number of CPUs, because at most 1.5 zones
/// per CPU are patched at a time.
fn cpus() -> usize {
    let said = std::env::var("ZONES_CPUS").ok();
    said.and_then(|said| said.parse().ok())
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Returns a name for a patch: the current time, fine enough to be unique.
fn name() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let text = cli::units::utc(now.as_secs()).replace(['-', ':', 'Z'], "");
    format!("{text}-{:03}", now.subsec_millis())
}

/// Puts package files where zones can be shown them, whatever folder they are in.
fn stage(host: &Host, patch: &mut Patch<'_>) -> Result<Option<PathBuf>, Error> {
    use std::os::unix::fs::PermissionsExt;
    let Order::Files(files) = &mut patch.order else {
        return Ok(None);
    };
    let folder = record::folder(&host.root).join(format!("{STAGED}{}", patch.name));
    let fail = |path: &Path| Error::io(format!("copy {}", path.display()));
    fs::create_dir_all(&folder).map_err(fail(&folder))?;
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    open(&folder, 0o755).map_err(fail(&folder))?;
    for file in files.iter_mut() {
        let odd = || Error::Usage(format!("{}: not a package file", file.display()));
        let name = file.file_name().and_then(|name| name.to_str());
        let plain = |name: &&str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-._~%:".contains(&byte))
                && !name.starts_with('-')
        };
        let name = name.filter(plain).ok_or_else(odd)?;
        let copy = folder.join(name);
        let found = fs::metadata(&*file).map_err(Error::io(format!("read {}", file.display())))?;
        if !found.is_file() || copy.exists() {
            return Err(odd());
        }
        fs::copy(&*file, &copy)
            .and_then(|_| open(&copy, 0o644))
            .map_err(fail(file))?;
        *file = copy;
    }
    patch.files = Some(folder.clone());
    Ok(Some(folder))
}
