//! `zoneadm boot` and `zoneadm ready`: make a zone's virtual platform. Boot also starts init.

mod hand_over;
mod options;
mod plan;

use std::fs::File;

use model::immutable::{Access, Profile};
use model::plan::BootPlan;
use model::{Config, State, Verb, ZoneName};
use storage::{Dataset, driver_at};
use store::lock::ZoneLock;
use store::xml;

use crate::executor::Outcome;
use crate::{environments, export, room, suspend, verify};
use control::{audit, client};
use host::{Error, Host};
use kernelzone::disks::Added;
use platform::controls;
use platform::kind::{self, BootFacts, ResumeOptions};
use platform::views;
use subject::{Start, Subject};
use subject::{assembled, away, identity};

pub use hand_over::give_root;
pub use host::spawn::{AGAIN, LOCK_OF_AGAIN};
pub use options::BootOptions;
pub(crate) use plan::{Linked, plan_on};
pub use plan::{as_file, make_plan};

/// Boots a zone, or starts init in a ready zone.
///
/// # Errors
/// Fails with [`Error::Verify`], [`Error::Daemon`] or another error. After an error the zone is
/// installed as before.
pub fn boot(
    host: &Host,
    zone: &ZoneName,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    start(host, zone, Verb::Boot, options, dry_run)
}

/// Makes a zone's virtual platform and starts no process in it.
///
/// # Errors
/// Fails as [`boot`] does.
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
            // A zone that is active already may have lost its zoneadmd. This starts a new one.
            if !dry_run {
                client::attend(host, zone)?;
            }
            Ok(Outcome::Already(notice))
        }
    }
}

/// Boots a zone that has rebooted itself, `reboots` times in quick succession. `lock` is the zone's
/// lock, which the zone's former zoneadmd held and passes to this process. Errors are also written
/// to the zone's log.
///
/// # Errors
/// Fails as [`boot`] does.
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

/// Boots a zone whose lock the caller holds. An error is also written to the zone's log.
pub fn start_locked(
    host: &Host,
    subject: &Subject,
    verb: Verb,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let started = start_admitted(host, subject, verb, options, dry_run);
    if !dry_run {
        record(host, subject, started.as_ref().err());
    }
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

/// Writes the boot of a zone that has a label, or its refusal, to the audit record. On a host with
/// labels, the refusal of a zone without one is recorded, too.
fn record(host: &Host, subject: &Subject, error: Option<&Error>) {
    let zone = &subject.entry.name;
    let label = subject.config(host).ok().and_then(|config| config.label());
    let is_about_labels = || match error {
        Some(Error::Verify(problems)) => problems.iter().any(|one| crate::label::is_about(one)),
        _ => false,
    };
    if label.is_some() || is_about_labels() {
        let why = error.map(|error| host::flatten(error));
        audit::record(&host.root, audit::Event::Boot, zone, label, why.as_deref());
    }
}

/// Collects the facts about the zone and the host, refuses a zone that cannot boot, makes the plan,
/// and carries it out.
fn start_admitted(
    host: &Host,
    subject: &Subject,
    verb: Verb,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let zone = &subject.entry.name;
    let is_ready = subject.state == State::Ready;
    // The platform of a ready zone was made from the configuration at that time, which was kept.
    let config = match is_ready {
        true => xml::load_running(&host.root, zone)?,
        false => subject.config(host)?,
    };
    let options = options.or_configured(&config)?;
    let options = with_access(subject, &config, options)?;
    // This comes first, because a zone that died together with its zoneadmd may still have links
    // that this zone needs.
    if !dry_run && !is_ready {
        crate::settle::settle(host, zone)?;
        room::check(host, subject)?;
    }
    let _labels = match dry_run {
        true => None,
        false => store::labels::lock(&host.root, config.label())?,
    };
    refuse(host, subject, &config, verb, &options)?;
    // No other host takes the zonepath over until the zone runs.
    let _hold = match dry_run {
        true => None,
        false => Some(identity::hold_if_shared(&subject.zonepath)?),
    };
    if !dry_run && !is_ready {
        identity::refuse_other(&host.root, &subject.entry, &subject.zonepath)?;
        // A full disk must not prevent the boot. The next boot tries again.
        let _ = identity::store_configuration(&subject.entry, &subject.zonepath, &config);
    }
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
    remarks.extend(views_of(host, zone));
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

/// Returns the options of a boot. A zone that boots for the first time since its installation
/// assembles itself.
fn with_access(
    subject: &Subject,
    config: &Config,
    options: BootOptions,
) -> Result<BootOptions, Error> {
    if Profile::of(config).is_none() {
        return Ok(options);
    }
    if subject.state == State::Ready {
        return match options.access {
            Access::Sealed => Ok(options),
            Access::Writable | Access::Assembling => Err(Error::Refused(
                "is ready, and its root is read-only or writable already; halt it first."
                    .to_owned(),
            )),
        };
    }
    let is_new = || assembled::is_assembled(&subject.zonepath, subject.entry.uuid).map(|is| !is);
    let assembles = options.access == Access::Sealed && is_new()?;
    Ok(BootOptions {
        access: match assembles {
            true => Access::Assembling,
            false => options.access,
        },
        ..options
    })
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

/// The remarks about the work before a boot, for the user.
#[derive(Debug, Default)]
struct Prepared {
    /// A remark about the boot environment that was activated for this boot.
    gone: Option<String>,
    /// Remarks about files of the zone that were made.
    made: Vec<String>,
}

/// Prepares a halted zone for its boot. The facts and the plan of the boot depend on the result.
///
/// These changes have no undo, because the zone is still a valid installed zone after each of them.
/// A second boot can repeat them without harm:
///
/// - `take_next` switches to the boot environment that was activated. A second boot keeps this boot
///   environment. After a switch for one boot (`-Z`) the next boot without `-Z` switches back. If a
///   switch was interrupted, the next command completes the switch.
/// - `clear` removes the remains of exports, and `shorten` merges layers. A zone without remains
///   and with few layers is not changed.
/// - `prepare_boot` makes missing disks and writes keys to the firmware's variables. Existing disks
///   and keys are not changed.
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
    // A suspended zone keeps its firmware variables and disks unchanged, because they belong to its
    // suspend image.
    let starts_anew = options.discard || !suspend::is_suspended(host, &subject.entry, config);
    let made = match starts_anew {
        true => kind::of(config).prepare_boot(host, config, zonepath)?,
        false => Vec::new(),
    };
    Ok(Prepared { gone, made })
}

/// Makes the plan of a boot. A suspended zone resumes from its suspend image. Also returns the
/// remarks about the image.
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

/// Mounts the views of a zone with a label. Returns a remark about each that failed, because the
/// zone has already booted.
fn views_of(host: &Host, zone: &ZoneName) -> Vec<String> {
    views::appear(host, zone).unwrap_or_else(|error| {
        let why = host::flatten(&error);
        vec![format!(
            "the files of zones of lower labels do not appear: {why}"
        )]
    })
}

/// Sets the CPU shares of the global zone. Returns a remark if this fails, because the zone has
/// already booted.
fn balance(host: &Host) -> Option<String> {
    // Most hosts have no configuration of the global zone, and nothing needs to be set.
    if !host.root.xml(&ZoneName::global()).exists() {
        return None;
    }
    let failed = controls::balance(host).err()?;
    let why = host::flatten(&failed);
    Some(format!("the shares of the global zone: {why}"))
}

/// Merges layers of a zone that has too many layers. Commands that add a layer also merge layers,
/// so a zone has too many layers only after manual changes.
fn shorten(host: &Host, subject: &Subject) -> Result<(), Error> {
    if !driver_at(&subject.zonepath)?.has_layers() {
        return Ok(());
    }
    let dataset = Dataset::open(&subject.zonepath)?;
    let deep = dataset.depth()? > storage::MERGE_DEPTH;
    if !deep && !dataset.keeps_mounted()? {
        return Ok(());
    }
    // Mounts of the old layers must be unmounted first.
    crate::settle::settle(host, &subject.entry.name)?;
    if deep {
        dataset.tend()?;
    }
    Ok(dataset.let_go()?)
}
