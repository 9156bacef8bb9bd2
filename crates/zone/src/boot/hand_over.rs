//! Carries a boot out: prepares the parts of the zone that zoneadmd needs, and passes the plan to
//! zoneadmd.

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

/// The remarks about a boot that was carried out, for the user.
#[derive(Debug, Default)]
pub(super) struct Started {
    /// The remarks of zoneadmd.
    pub remarks: Vec<String>,
    /// A warning that the start of a kernel zone could not be counted.
    pub uncounted: Option<String>,
}

/// Starts init in a ready zone.
pub(super) fn start_init(host: &Host, zone: &ZoneName, init: Init) -> Result<(), Error> {
    let socket = client::connect_or_adopt(host, zone)?;
    client::ask(&socket, &Request::Boot(init))?
        .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}

/// Boots a halted zone according to its plan.
///
/// The owners of the zone's files, and its delegated datasets, are changed first, because zoneadmd
/// leaves the host's mount namespace. A failed boot does not undo this. The range of ids stays
/// reserved for the zone, and the next boot has nothing to change.
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
    // The running configuration is a copy of the present configuration. It does not follow later
    // changes, and it is removed when the zone halts.
    let mut undo = UndoStack::default();
    xml::save_running(&host.root, config)?;
    let (root, name) = (host.root.clone(), zone.clone());
    undo.push("keep the configuration that runs", move || {
        forget_running(&root, &name).map_err(Into::into)
    });
    let mut started = match hand_over(host, subject, config, facts, plan) {
        Ok(started) => started,
        Err(error) => {
            // The first error is reported. An error of the undo is ignored, because the next boot
            // writes the file again.
            let _ = undo.run();
            return Err(error);
        }
    };
    undo.disarm();
    started.remarks.extend(given);
    Ok(started)
}

/// Starts a zoneadmd that boots the zone according to the plan.
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
    // zoneadmd also gets the zone's lock, because it continues if this command is killed.
    let pass = [plan.as_fd(), theirs.as_fd(), subject.lock().as_fd()];
    spawn::zoneadmd(host, &subject.entry.name, &[], &pass)?;
    drop(theirs);
    Ok(Started {
        remarks: client::listen_to(report)?,
        uncounted,
    })
}

/// Removes the running configuration of a zone that did not boot. If a part of the zone is still
/// active, the file stays and is removed when the zone halts.
fn forget_running(root: &Root, zone: &ZoneName) -> Result<(), store::Error> {
    match runtime::load_any(root, zone)? {
        Some(_) => Ok(()),
        None => store::atomic::remove(&root.running(zone)),
    }
}

/// Changes the owners of all files in a zone's root to the zone's ids, if the file system stores
/// owners as ids of the host. Returns a remark with the number of changed files and the time, or
/// `None` if no file changed.
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
