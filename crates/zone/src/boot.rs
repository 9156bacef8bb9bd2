//! `zoneadm boot` and `zoneadm ready`: the virtual platform, with or without init.

mod options;
mod plan;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;

use model::plan::BootPlan;
use model::{State, Verb, ZoneName};
use storage::{Dataset, driver_at};
use store::lock::ZoneLock;
use store::{Root, runtime, xml};

use crate::executor::Outcome;
use crate::{environments, export, room, suspend, verify};
use control::client;
use control::protocol::Request;
use host::undo::UndoStack;
use host::{Error, Host, devices, spawn};
use kernelzone::disks::{self, Added};
use kernelzone::facts::{self, Facts};
use kernelzone::image;
use kernelzone::uefi;
use platform::controls;
use platform::plan::guest::words_of_boot;
use subject::away;
use subject::{Start, Subject};

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

/// Boots a zone that rebooted itself, `reboots` times in quick succession. Its lock was held by
/// its zoneadmd, which has handed it on. What goes wrong is in the zone's log.
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

fn start_admitted(
    host: &Host,
    subject: &Subject,
    verb: Verb,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let reboots = options.reboots;
    let zone = &subject.entry.name;
    let is_ready = subject.state == State::Ready;
    // What is there already is as it was configured when it was made.
    let config = match is_ready {
        true => xml::load_running(&host.root, zone)?,
        false => subject.config(host)?,
    };
    let options = match options.given {
        true => options.clone(),
        false => {
            let words: Vec<String> = config
                .bootargs()
                .split_whitespace()
                .map(str::to_owned)
                .collect();
            BootOptions {
                given: false,
                ..BootOptions::parse(&words)?.0
            }
        }
    };
    // First: what died without its zoneadmd may still have links that the zone needs.
    if !dry_run && !is_ready {
        subject::settle(host, zone)?;
        room::check(host, subject)?;
    }
    verify::before(host, subject, &config, verb)?;
    if away::is_away(&subject.zonepath) {
        return Err(Error::Refused(
            "may already be on another host: give its zoneadm migrate command again.".to_owned(),
        ));
    }
    if is_ready && options.environment.is_some() {
        return Err(Error::Refused(
            "is ready with the root that it has; halt it to boot another boot environment."
                .to_owned(),
        ));
    }
    let mut gone = None;
    if !dry_run && subject.state == State::Installed {
        let once = options.environment.as_ref();
        gone = environments::switch::take_next(&subject.zonepath, once)?;
        export::clear(host, &subject.zonepath)?;
        shorten(host, subject)?;
    }
    let is_machine = verify::brand_of(&config)?.is_machine();
    let (mut added, mut prepared) = (Vec::new(), None);
    // What its firmware keeps belongs to the image of a suspended zone, as its disks do.
    let starts_anew = options.discard || !suspend::is_suspended(host, &subject.entry, &config);
    if is_machine && !dry_run && subject.state == State::Installed && starts_anew {
        added = disks::make_added(host, &config, &subject.zonepath)?;
        prepared = uefi::prepare(&config, &subject.zonepath)?;
    }
    let facts = match is_machine {
        true => Some(facts::find(host, subject, &config, Added::Planned)?),
        false => None,
    };
    // What is a device in other zones is a disk of the machine.
    let mut devices = match &facts {
        None => devices::find(config.device_patterns()),
        Some(_) => devices::Found::default(),
    };
    devices
        .nodes
        .extend(facts.iter().flat_map(|facts| facts.nodes.clone()));
    let facts = facts.as_ref();
    let mut plan = make_plan(
        host,
        subject,
        &config,
        &devices.nodes,
        facts,
        verb,
        &options,
    )?;
    let suspended = match facts {
        Some(facts) if subject.state == State::Installed => {
            suspend::resume::prepare(host, subject, &config, facts, &mut plan, &options, dry_run)?
        }
        _ => Vec::new(),
    };
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    if is_ready {
        let init = match is_machine {
            true => words_of_boot(&plan.init),
            false => plan.init,
        };
        let socket = client::connect_or_adopt(host, zone)?;
        client::ask(&socket, &Request::Boot(init))?
            .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))?;
        return Ok(Outcome::Done);
    }
    // Here, as zoneadmd leaves the host's mounts.
    for dataset in config.datasets() {
        storage::set_apart(&dataset, plan.first_id)?;
    }
    let given = give_root(subject, plan.first_id)?;
    plan.id = runtime::next_id(&host.root)?;
    plan.reboots = reboots;
    plan.words = options.words();
    // What is running is what is configured now, whatever is configured later; it goes
    // when the zone does.
    let mut undo = UndoStack::default();
    xml::save_running(&host.root, &config)?;
    let (root, name) = (host.root.clone(), zone.clone());
    undo.push("keep the configuration that runs", move || {
        forget_running(&root, &name).map_err(|error| host::flatten(&error))
    });
    let handed = hand_over(host, subject, facts, &plan);
    let (mut remarks, uncounted) = match handed {
        Ok(told) => told,
        Err(error) => {
            // The reason counts; the next boot writes the file again.
            let _ = undo.run();
            return Err(error);
        }
    };
    undo.disarm();
    remarks.extend(given);
    remarks.extend(gone);
    remarks.extend(suspended);
    remarks.extend(added);
    remarks.extend(prepared);
    remarks.extend(uncounted);
    remarks.extend(devices.too_many);
    remarks.extend(facts.and_then(|facts| facts.slow.clone()));
    // Most hosts configure nothing of the global zone, and there is nothing to look for.
    let configured = host.root.xml(&ZoneName::global()).exists();
    if let Err(error) = configured.then(|| controls::balance(host)).transpose() {
        remarks.push(format!(
            "the shares of the global zone: {}",
            host::flatten(&error)
        ));
    }
    if remarks.is_empty() {
        return Ok(Outcome::Done);
    }
    Ok(Outcome::Remarks(remarks))
}

/// Has a zoneadmd boot the zone by the plan. Returns its remarks, and one if the start of a
/// machine could not be counted.
fn hand_over(
    host: &Host,
    subject: &Subject,
    facts: Option<&Facts>,
    plan: &BootPlan,
) -> Result<(Vec<String>, Option<String>), Error> {
    let mut uncounted = None;
    if let (Some(facts), None) = (facts, &plan.resume) {
        // No image of before fits what its disks will be.
        let disks = facts.disks.iter().filter_map(|files| files.paths.first());
        let disks: Vec<PathBuf> = disks.cloned().collect();
        uncounted = image::count_boot(&subject.zonepath, &disks)?;
    }
    let (report, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::Io("make a pipe".to_owned(), errno.into()))?;
    let plan = as_file(plan).map_err(Error::io("hand the plan to zoneadmd"))?;
    // zoneadmd goes on if this command is killed, and then the lock is still needed.
    let pass = [plan.as_fd(), theirs.as_fd(), subject.lock().as_fd()];
    spawn::zoneadmd(host, &subject.entry.name, &[], &pass)?;
    drop(theirs);
    Ok((client::listen_to(report)?, uncounted))
}

/// Removes the configuration that a zone was to run with. Where something of the zone is active
/// it stays: it goes with the zone.
fn forget_running(root: &Root, zone: &ZoneName) -> Result<(), store::Error> {
    match runtime::load_any(root, zone)? {
        Some(_) => Ok(()),
        None => store::atomic::remove(&root.running(zone)),
    }
}

/// Makes all files of a zone's root its own where the file system stores whose they
/// are for the host; says what that took.
pub fn give_root(subject: &Subject, first_id: u32) -> Result<Option<String>, Error> {
    let began = Instant::now();
    let given = driver_at(&subject.zonepath)?.give_to(&subject.zonepath, first_id)?;
    Ok((given > 0).then(|| {
        format!(
            "{given} files were stored under other ids and are the zone's now; that took {:.1} s",
            began.elapsed().as_secs_f32()
        )
    }))
}

/// Merges layers of a zone that stands on more than is good. Use does not lead there,
/// as what adds a layer merges; other hands may.
fn shorten(host: &Host, subject: &Subject) -> Result<(), Error> {
    if !driver_at(&subject.zonepath)?.has_layers() {
        return Ok(());
    }
    let dataset = Dataset::open(&subject.zonepath)?;
    let deep = dataset.depth()? > storage::MERGE_DEPTH;
    if !deep && !dataset.keeps_mounted()? {
        return Ok(());
    }
    // What was mounted on the old layers must be closed first.
    subject::settle(host, &subject.entry.name)?;
    if deep {
        dataset.tend()?;
    }
    Ok(dataset.let_go()?)
}
