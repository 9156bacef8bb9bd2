//! Carries a boot out: the parts of the zone that zoneadmd needs, and the order to zoneadmd.

use std::os::fd::AsFd;
use std::time::Instant;

use model::plan::{BootPlan, Init};
use model::{Config, ZoneName};
use storage::driver_at;
use store::{Root, runtime, xml};

use super::options::BootOptions;
use super::plan::as_file;
use control::client;
use control::protocol::Request;
use host::undo::UndoStack;
use host::{Error, Host, spawn};
use platform::kind::{self, BootFacts};
use subject::Subject;

/// The remarks about a boot that was carried out.
#[derive(Debug, Default)]
pub(super) struct Started {
    /// Those of zoneadmd.
    pub remarks: Vec<String>,
    /// About a start that could not be counted.
    pub uncounted: Option<String>,
}

/// Starts init in a zone that is ready.
pub(super) fn start_init(host: &Host, zone: &ZoneName, init: Init) -> Result<(), Error> {
    let socket = client::connect_or_adopt(host, zone)?;
    client::ask(&socket, &Request::Boot(init))?
        .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}

/// Boots a halted zone by its plan.
///
/// The owners of files and the datasets are given to the zone first, as zoneadmd leaves the mounts
/// of the host. A boot that fails does not take that back: the range of ids stays the zone's, and
/// the next boot finds it done.
pub(super) fn carry_out(
    host: &Host,
    subject: &Subject,
    config: &Config,
    facts: &BootFacts,
    plan: &mut BootPlan,
    options: &BootOptions,
) -> Result<Started, Error> {
    let zone = &subject.entry.name;
    for dataset in config.datasets() {
        storage::set_apart(&dataset, plan.first_id)?;
    }
    let given = give_root(subject, plan.first_id)?;
    plan.id = runtime::next_id(&host.root)?;
    plan.reboots = options.reboots;
    plan.words = options.words();
    // The running configuration is a copy of the present one, and does not follow later changes; it
    // is removed when the zone halts.
    let mut undo = UndoStack::default();
    xml::save_running(&host.root, config)?;
    let (root, name) = (host.root.clone(), zone.clone());
    undo.push("keep the configuration that runs", move || {
        forget_running(&root, &name).map_err(Into::into)
    });
    let mut started = match hand_over(host, subject, config, facts, plan) {
        Ok(started) => started,
        Err(error) => {
            // The reason counts; the next boot writes the file again.
            let _ = undo.run();
            return Err(error);
        }
    };
    undo.disarm();
    started.remarks.extend(given);
    Ok(started)
}

/// Has a zoneadmd boot the zone by the plan.
fn hand_over(
    host: &Host,
    subject: &Subject,
    config: &Config,
    facts: &BootFacts,
    plan: &BootPlan,
) -> Result<Started, Error> {
    let uncounted = kind::of(config).count_boot(subject, facts, plan)?;
    let (report, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::Io("make a pipe".to_owned(), errno.into()))?;
    let plan = as_file(plan).map_err(Error::io("hand the plan to zoneadmd"))?;
    // zoneadmd goes on if this command is killed, and then the lock is still needed.
    let pass = [plan.as_fd(), theirs.as_fd(), subject.lock().as_fd()];
    spawn::zoneadmd(host, &subject.entry.name, &[], &pass)?;
    drop(theirs);
    Ok(Started {
        remarks: client::listen_to(report)?,
        uncounted,
    })
}

/// Removes the configuration that a zone was to run with. Where something of the zone is active
/// it stays: it goes with the zone.
fn forget_running(root: &Root, zone: &ZoneName) -> Result<(), store::Error> {
    match runtime::load_any(root, zone)? {
        Some(_) => Ok(()),
        None => store::atomic::remove(&root.running(zone)),
    }
}

/// Gives all files of a zone's root to the zone if the file system stores owners as ids of the
/// host. Returns a remark with the number of files and the time, if there were any.
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
