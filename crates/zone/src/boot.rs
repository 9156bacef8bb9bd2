//! `zoneadm boot` and `zoneadm ready`: the virtual platform, with or without init.

mod hand_over;
mod options;
mod plan;

use std::fs::File;

use model::plan::BootPlan;
use model::{Config, State, Verb, ZoneName};
use storage::{Dataset, driver_at};
use store::lock::ZoneLock;
use store::xml;

use crate::executor::Outcome;
use crate::{environments, export, room, suspend, verify};
use control::client;
use host::{Error, Host};
use kernelzone::disks::Added;
use platform::controls;
use platform::kind::{self, BootFacts, ResumeOptions};
use subject::away;
use subject::{Start, Subject};

pub use hand_over::give_root;
pub use host::spawn::{AGAIN, LOCK_OF_AGAIN};
pub use options::BootOptions;
pub(crate) use plan::{Linked, plan_on};
pub use plan::{as_file, make_plan};

/// Boots a zone, or starts init in one that is ready.
///
/// # Errors
/// [`Error::Verify`], [`Error::Daemon`]; the zone is then installed as before.
pub fn boot(
    host: &Host,
    zone: &ZoneName,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    start(host, zone, Verb::Boot, options, dry_run)
}

/// Makes a zone's virtual platform and starts nothing in it.
///
/// # Errors
/// See [`boot`].
pub fn ready(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    start(host, zone, Verb::Ready, &BootOptions::default(), dry_run)
}

fn start(
    host: &Host,
    zone: &ZoneName,
    verb: Verb,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let admitted = match dry_run {
        true => Subject::admit(host, zone, verb)?,
        false => Subject::admit_cutting(host, zone, verb)?.0,
    };
    match admitted {
        Start::Go(subject) => start_locked(host, &subject, verb, options, dry_run),
        Start::Already(notice) => {
            // Not quite nothing: the zone may be without its zoneadmd.
            if !dry_run {
                client::attend(host, zone)?;
            }
            Ok(Outcome::Already(notice))
        }
    }
}

/// Boots a zone that rebooted itself, `reboots` times in quick succession. Its lock was held by its
/// zoneadmd, which has handed it on. Errors are in the zone's log.
///
/// # Errors
/// See [`boot`].
pub fn boot_again(host: &Host, zone: &ZoneName, lock: File, reboots: u32) -> Result<(), Error> {
    let options = BootOptions {
        reboots,
        ..BootOptions::default()
    };
    let held = ZoneLock::handed_on(&host.root, zone, lock)?;
    let subject = match Subject::admit_with(host, zone, Verb::Boot, held)? {
        Start::Go(subject) => subject,
        Start::Already(_) => return Ok(()),
    };
    if let Outcome::Remarks(remarks) = start_locked(host, &subject, Verb::Boot, &options, false)? {
        for remark in remarks {
            control::log::note(host, zone, &remark);
        }
    }
    Ok(())
}

/// Boots a zone whose lock is held already. Why it does not boot is in the zone's log, too.
pub fn start_locked(
    host: &Host,
    subject: &Subject,
    verb: Verb,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let started = start_admitted(host, subject, verb, options, dry_run);
    started.inspect_err(|error| {
        if !dry_run {
            let why = host::flatten(error).replace('\n', "; ");
            control::log::note(
                host,
                &subject.entry.name,
                &format!("could not {verb}: {why}"),
            );
        }
    })
}

/// Collects the facts about the zone and the host, and refuses a zone that cannot boot. Then the
/// plan, and then its execution.
fn start_admitted(
    host: &Host,
    subject: &Subject,
    verb: Verb,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let zone = &subject.entry.name;
    let is_ready = subject.state == State::Ready;
    // A platform that stands is as it was configured when it was made.
    let config = match is_ready {
        true => xml::load_running(&host.root, zone)?,
        false => subject.config(host)?,
    };
    let options = options.or_configured(&config)?;
    // First, because a zone that died together with its zoneadmd may still have links that this
    // zone needs.
    if !dry_run && !is_ready {
        subject::settle(host, zone)?;
        room::check(host, subject)?;
    }
    refuse(host, subject, &config, verb, &options)?;
    let prepared = match !dry_run && subject.state == State::Installed {
        true => prepare(host, subject, &config, &options)?,
        false => Prepared::default(),
    };
    let kind = kind::of(&config);
    let facts = kind.boot_facts(host, subject, &config, Added::Planned)?;
    let (mut plan, resumed) = plan_boot(host, subject, &config, &facts, verb, &options, dry_run)?;
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    if is_ready {
        hand_over::start_init(host, zone, kind.init_of_ready(plan.init))?;
        return Ok(Outcome::Done);
    }
    let started = hand_over::carry_out(host, subject, &config, &facts, &mut plan, &options)?;
    let mut remarks = started.remarks;
    remarks.extend(prepared.gone);
    remarks.extend(resumed);
    remarks.extend(prepared.made);
    remarks.extend(started.uncounted);
    remarks.extend(facts.too_many);
    remarks.extend(facts.machine.and_then(|machine| machine.slow));
    remarks.extend(balance(host));
    match remarks.is_empty() {
        true => Ok(Outcome::Done),
        false => Ok(Outcome::Remarks(remarks)),
    }
}

/// Refuses a boot that verify refuses, or that the zone's state or the options forbid.
fn refuse(
    host: &Host,
    subject: &Subject,
    config: &Config,
    verb: Verb,
    options: &BootOptions,
) -> Result<(), Error> {
    verify::before(host, subject, config, verb)?;
    if away::is_away(&subject.zonepath) {
        return Err(Error::Refused(
            "may already be on another host: give its zoneadm migrate command again.".to_owned(),
        ));
    }
    if subject.state == State::Ready && options.environment.is_some() {
        return Err(Error::Refused(
            "is ready with the root that it has; halt it to boot another boot environment."
                .to_owned(),
        ));
    }
    Ok(())
}

/// The remarks about the work before a boot.
#[derive(Debug, Default)]
struct Prepared {
    /// About the boot environment that was activated for this boot.
    gone: Option<String>,
    /// About files of the zone that were made.
    made: Vec<String>,
}

/// Makes a halted zone as a boot needs it. The facts and the plan depend on the result.
///
/// None of this has an undo, as a zone on which it was done is an installed zone as before. A
/// second boot repeats it without harm:
///
/// - `take_next` switches to the boot environment that was activated, and a second boot stays there.
///   After a switch for one boot (`-Z`) the next plain boot switches back. The next command
///   completes a switch that was cut off.
/// - `clear` and `shorten` remove remains of exports and merge layers; a zone without remains and
///   with few layers stays as it is.
/// - `prepare_boot` makes missing disks and puts keys into the firmware's variables; disks that
///   exist and keys that are in it stay as they are.
fn prepare(
    host: &Host,
    subject: &Subject,
    config: &Config,
    options: &BootOptions,
) -> Result<Prepared, Error> {
    let zonepath = &subject.zonepath;
    let gone = environments::switch::take_next(zonepath, options.environment.as_ref())?;
    export::clear(host, zonepath)?;
    shorten(host, subject)?;
    // The firmware's variables belong to the image of a suspended zone, as its disks do.
    let starts_anew = options.discard || !suspend::is_suspended(host, &subject.entry, config);
    let made = match starts_anew {
        true => kind::of(config).prepare_boot(host, config, zonepath)?,
        false => Vec::new(),
    };
    Ok(Prepared { gone, made })
}

/// Makes the plan of a boot, from the image of its memory if the zone is suspended. Returns the
/// remarks about the image, too.
fn plan_boot(
    host: &Host,
    subject: &Subject,
    config: &Config,
    facts: &BootFacts,
    verb: Verb,
    options: &BootOptions,
    dry_run: bool,
) -> Result<(BootPlan, Vec<String>), Error> {
    let mut plan = make_plan(host, subject, config, facts, verb, options)?;
    let image = ResumeOptions {
        discard: options.discard,
        eager: options.eager,
        dry_run,
    };
    let remarks = kind::of(config).resume(host, subject, config, facts, &mut plan, image)?;
    Ok((plan, remarks))
}

/// Gives the global zone its shares. Returns a remark if that fails: the zone has booted.
fn balance(host: &Host) -> Option<String> {
    // Most hosts configure nothing of the global zone, and there is nothing to look for.
    if !host.root.xml(&ZoneName::global()).exists() {
        return None;
    }
    let failed = controls::balance(host).err()?;
    let why = host::flatten(&failed);
    Some(format!("the shares of the global zone: {why}"))
}

/// Merges layers of a zone that stands on more than is good. Commands that add a layer also merge,
/// so only manual changes lead there.
fn shorten(host: &Host, subject: &Subject) -> Result<(), Error> {
    if !driver_at(&subject.zonepath)?.has_layers() {
        return Ok(());
    }
    let dataset = Dataset::open(&subject.zonepath)?;
    let deep = dataset.depth()? > storage::MERGE_DEPTH;
    if !deep && !dataset.keeps_mounted()? {
        return Ok(());
    }
    // Mounts of the old layers must be closed first.
    subject::settle(host, &subject.entry.name)?;
    if deep {
        dataset.tend()?;
    }
    Ok(dataset.let_go()?)
}
