//! `zoneadm apply` and `zonecfg -r`: change a running zone.
//!
//! The running configuration of a zone is in `/run/zones/<zone>.xml` from the boot of the zone to
//! its end. [`model::live`] plans the differences to the wanted configuration. They are applied
//! step by step under the zone's lock. After each step the file contains the present configuration,
//! so that the next command after a crash continues from this step. If a step fails, the earlier
//! steps are undone.
//!
//! Only zoneadmd changes the resource controls, because it watches them. If zoneadmd died, a new
//! one is started. zoneadmd has no part in the other changes.

mod change;
mod machine;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use model::config::Resource;
use model::live::{self, Act, LivePlan, Places};
use model::{Config, State, Verb, ZoneName};
use store::runtime::Mounted;
use store::xml;

use crate::executor::Outcome;
use crate::verify;
use change::Running;
use host::fault::Fault;
use host::undo::UndoStack;
use host::{Error, Host, devices, flatten};
use kernelzone::{disk_size, ports};
use platform::kind;
use subject::{Start, Subject};

/// The options of a change of a running zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// True if nothing is changed.
    pub dry_run: bool,
    /// True if only warnings and errors are reported.
    pub quiet: bool,
}

/// A message to the user during a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A progress message.
    Progress(String),
    /// A warning that the result differs from the requested change.
    Warning(String),
}

/// A function that receives the messages of a change for the user.
pub type Tell<'a> = &'a mut dyn FnMut(Told);

/// Changes a running zone so that it matches its stored configuration.
///
/// The calling process must have only one thread.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone does not run, with [`Error::Verify`], or with
/// [`Error::Step`] if a step failed. After an error the zone is unchanged, unless the error says
/// otherwise.
pub fn apply(
    host: &Host,
    zone: &ZoneName,
    options: Options,
    tell: Tell<'_>,
) -> Result<Outcome, Error> {
    match Subject::admit(host, zone, Verb::Apply)? {
        Start::Go(subject) => {
            let wanted = subject.config(host)?;
            change(host, &subject, &wanted, options, tell)
        }
        Start::Already(notice) => Ok(Outcome::Already(notice)),
    }
}

/// Returns the running configuration of a zone.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone does not run.
pub fn running(host: &Host, zone: &ZoneName) -> Result<Config, Error> {
    let index = store::index::Index::load(&host.root)?;
    match subject::state(host, index.get(zone)?)?.0 {
        State::Running => load(host, zone),
        _ => Err(Error::Refused("not running".to_owned())),
    }
}

/// Changes the running configuration of a zone from `base` to `wanted`. `base` is the running
/// configuration that the caller has read before. The change is lost at the next boot.
///
/// # Errors
/// Fails as [`apply`] does. Also fails with [`Error::Refused`] if another command has changed the
/// running configuration meanwhile, or if a property cannot be changed in a running zone.
pub fn commit(
    host: &Host,
    zone: &ZoneName,
    base: Option<&Config>,
    wanted: &Config,
    options: Options,
    tell: Tell<'_>,
) -> Result<Outcome, Error> {
    match Subject::admit(host, zone, Verb::Apply)? {
        Start::Go(subject) => {
            let running = load(host, zone)?;
            if Some(&running) != base {
                return Err(Error::Refused(
                    "another session changed the running configuration meanwhile: use revert, and make the change again".to_owned(),
                ));
            }
            check_live(&running, wanted, &places(host, &subject, &running)?)?;
            change(host, &subject, wanted, options, tell)
        }
        Start::Already(notice) => Ok(Outcome::Already(notice)),
    }
}

fn load(host: &Host, zone: &ZoneName) -> Result<Config, Error> {
    match xml::load_running(&host.root, zone) {
        Err(store::Error::NoSuchZone(_)) => Err(Error::Refused(
            "its running configuration is not known: reboot it once, then it can be changed while it runs"
                .to_owned(),
        )),
        other => Ok(other?),
    }
}

/// Changes a zone whose lock is held.
fn change(
    host: &Host,
    subject: &Subject,
    wanted: &Config,
    options: Options,
    tell: Tell<'_>,
) -> Result<Outcome, Error> {
    let zone = subject.entry.name.clone();
    if wanted.name() != &zone {
        return Err(Error::Refused("a running zone keeps its name".to_owned()));
    }
    let stored = load(host, &zone)?;
    let known = subject.runtime.as_ref();
    let known = known.ok_or_else(|| Error::Refused("not running".to_owned()))?;
    let mut running = Running::open(host, subject, known)?;
    let found = match kind::of(&stored).has_mounts() {
        true => look(&mut running, &stored)?,
        false => Found {
            config: disk_size::present(host, &stored, &subject.zonepath)?,
            left: Vec::new(),
        },
    };
    let plan = live::plan(&found.config, wanted, &places(host, subject, &stored)?);
    let same = plan.steps.is_empty() && plan.at_boot.is_empty();
    // A zone of another label must not boot between the check and the new running configuration.
    let _labels = match same || options.dry_run {
        true => None,
        false => store::labels::lock(&host.root, wanted.label())?,
    };
    if !same {
        check(host, subject, wanted)?;
    }
    if !options.quiet {
        checking(&plan, tell);
    }
    if !options.dry_run {
        for left in &found.left {
            running.forget(left)?;
        }
        if !plan.steps.is_empty() {
            if !options.quiet {
                tell(Told::Progress("Applying the changes".to_owned()));
            }
            carry_out(host, running, &stored, &plan, tell)?;
        }
    }
    if same && !options.quiet {
        return Ok(Outcome::Already(
            "runs as it is configured: nothing to apply",
        ));
    }
    Ok(Outcome::Done)
}

/// Returns the places of a kernel zone's machine for disks that come and go; other zones have none.
fn places(host: &Host, subject: &Subject, running: &Config) -> Result<Places, Error> {
    match kind::of(running).has_mounts() {
        true => Ok(Places::default()),
        false => {
            let init = subject.runtime.as_ref().map(|known| known.init.pid);
            ports::places(host, running, &subject.zonepath, init)
        }
    }
}

/// Refuses changes that need a reboot, because a change of the running configuration is lost at the
/// next boot.
fn check_live(running: &Config, wanted: &Config, places: &Places) -> Result<(), Error> {
    let plan = live::plan(running, wanted, places);
    let mut fixed: Vec<String> = plan
        .at_boot
        .iter()
        .map(|(difference, why)| format!("{difference}: {why}"))
        .collect();
    if running.admins().ne(wanted.admins()) {
        fixed.push("admin".to_owned());
    }
    if fixed.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "not possible while the zone runs: {}",
        fixed.join(", ")
    )))
}

fn check(host: &Host, subject: &Subject, wanted: &Config) -> Result<(), Error> {
    let problems = model::verify::config(wanted);
    let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    verify::check_file_systems(host, &subject.index, wanted, &mut problems);
    problems.extend(kind::of(wanted).problems(host, subject, wanted, Verb::Apply)?);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Error::Verify(problems))
}

fn checking(plan: &LivePlan, tell: Tell<'_>) {
    for difference in &plan.now {
        tell(Told::Progress(format!("Checking: {difference}")));
    }
    for (difference, why) in &plan.at_boot {
        let text = format!("Checking: {difference}: needs a reboot: {why}");
        tell(Told::Progress(text));
    }
}

/// The actual state of a running zone.
struct Found {
    /// The running configuration without the file systems and devices that are no longer mounted.
    config: Config,
    /// The mounts that a killed command has made without a change of the running configuration.
    left: Vec<Mounted>,
}

/// Compares the running configuration with the actual mounts. They may differ because root in the
/// zone unmounted a file system, or because zoneadm was killed during a change.
fn look(running: &mut Running, stored: &Config) -> Result<Found, Error> {
    let records = running.mounts.clone();
    let there = running.way.look(&records)?;
    let there: Vec<Mounted> = records
        .into_iter()
        .zip(there)
        .filter_map(|(record, there)| there.then_some(record))
        .collect();
    running.mounts.clone_from(&there);
    let places: BTreeSet<&Path> = there.iter().map(|one| one.at.as_path()).collect();
    let mut config = stored.clone();
    let file_systems: Vec<(PathBuf, Resource)> = stored
        .filesystems()
        .map(|fs| fs.dir)
        .zip(stored.resources_of("fs").cloned())
        .collect();
    for (dir, resource) in &file_systems {
        if !places.contains(dir.as_path()) {
            config.remove(resource);
        }
    }
    let devices = stored.resources_of("device").filter(|one| one.has("match"));
    let devices: Vec<(String, Resource)> = stored.device_patterns().zip(devices.cloned()).collect();
    for (pattern, resource) in &devices {
        let nodes = devices::nodes(std::iter::once(pattern.clone()));
        if nodes
            .iter()
            .any(|node| !places.contains(node.path.as_path()))
        {
            config.remove(resource);
        }
    }
    let known = |at: &Path| {
        file_systems.iter().any(|(dir, _)| dir == at)
            || devices
                .iter()
                .any(|(pattern, _)| devices::matches(pattern, at))
    };
    let left = there
        .iter()
        .filter(|one| !known(&one.at))
        .cloned()
        .collect();
    Ok(Found { config, left })
}

/// Carries out the plan. If a step fails, the steps before it are undone.
fn carry_out(
    host: &Host,
    running: Running,
    before: &Config,
    plan: &LivePlan,
    tell: Tell<'_>,
) -> Result<(), Error> {
    let running = Rc::new(RefCell::new(running));
    let mut fault = host.fault.clone();
    let mut undo = UndoStack::default();
    for step in &plan.steps {
        let done = match fault.strikes(Verb::Apply.as_str()) {
            true => Err(Fault::error().to_string()),
            false => change::carry_out(&running, step, &mut undo, tell)
                .and_then(|()| Ok(xml::save_running(&host.root, &step.after)?))
                .map_err(|error| flatten(&error)),
        };
        if let Err(why) = done {
            let mut left = undo.run();
            let kept = running.borrow().keeps_memory;
            // The next change must know the memory that the guest has.
            let now = match kept {
                true => live::with_memory_of(before, &step.after),
                false => before.clone(),
            };
            if let Err(error) = xml::save_running(&host.root, &now) {
                left.push(flatten(&error));
            }
            return Err(Error::Step {
                step: step.act.to_string(),
                why,
                left: (!left.is_empty()).then(|| left.join("; ")),
            });
        }
    }
    undo.disarm();
    // The guest keeps what it uses, so it learns of its new parts when nothing is undone any more.
    let is_part = |step: &live::Step| matches!(step.act, Act::Processors(_) | Act::Memory(_));
    if plan.steps.iter().any(is_part) {
        machine::switch_on(&running.borrow(), tell);
    }
    // This is one more point at which a crash must do no harm: the work is complete, but the user
    // has no message yet.
    let _ = fault.strikes(Verb::Apply.as_str());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_need_a_reboot_are_refused() {
        let running = Config::new("web".parse().unwrap());
        let mut wanted = running.clone();
        wanted.set("max-lwps", "100").unwrap();
        assert!(check_live(&running, &wanted, &Places::default()).is_ok());
        wanted.set("bootargs", "-v").unwrap();
        let mut admin = Resource::new(model::table::resource("admin").unwrap());
        admin.set("user", "joe").unwrap();
        admin.set("auths", "login").unwrap();
        wanted.add(admin).unwrap();
        let refused = check_live(&running, &wanted, &Places::default()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "not possible while the zone runs: Adding bootargs=-v: it takes effect when the zone boots, admin"
        );
    }
}
