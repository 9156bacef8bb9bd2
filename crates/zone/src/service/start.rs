//! Boots zones when the host boots.

use model::ZoneName;
use model::config::BootPriority;
use store::lock::Wait;
use store::runtime;

use crate::boot::{BootOptions, boot};
use crate::executor::Outcome;
use crate::layer_folders;
use crate::service::plan::{Deed, Job};
use crate::service::{End, Tell, told};
use control::client;
use host::{Error, Host, flatten, parallel};
use platform::controls;

/// Carries out jobs, several at the same time. Jobs of a lower priority begin after all jobs of a
/// higher priority have ended, even if some of those failed.
pub fn start(host: &Host, jobs: &[Job], tell: Tell<'_>) {
    for priority in BootPriority::ALL {
        let wave: Vec<&Job> = jobs.iter().filter(|job| job.wave == priority).collect();
        parallel::for_each(&wave, |job| told(job, tell, || one(host, job)));
    }
}

fn one(host: &Host, job: &Job) -> End {
    let zone = &job.zone;
    let result = match job.deed {
        Deed::Boot | Deed::Resume => boot(host, zone, &BootOptions::default(), false),
        Deed::Adopt => client::adopt(host, zone).map(|()| Outcome::Done),
        Deed::Clear => clear(host, zone).map(|()| Outcome::Done),
        Deed::Complain => Err(Error::Refused(
            "zone is incomplete; uninstall required.".to_owned(),
        )),
        // A plan for the start of the host contains no such job.
        Deed::Shutdown | Deed::Suspend | Deed::Halt => Ok(Outcome::Done),
    };
    match result {
        Ok(Outcome::Done | Outcome::Planned(_)) => End::Well(Vec::new()),
        Ok(Outcome::Remarks(remarks)) => End::Well(remarks),
        Ok(Outcome::Already(_)) => End::Already,
        Err(error) => End::Failed(error),
    }
}

/// Removes the remains of a zone that died together with its zoneadmd: control groups, network
/// objects on the host, and records.
fn clear(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    let (_lock, _, _) = subject::lock_known(host, zone, Wait::No)?;
    // Another command may have booted the zone meanwhile, and a running zone must not be cleaned
    // up.
    if runtime::load(&host.root, zone)?.is_some() {
        return Ok(());
    }
    crate::settle::settle(host, zone)
}

/// Undoes interrupted installs, clones and uninstalls, and sets the CPU shares of the global zone.
/// Returns remarks for the user.
#[must_use]
pub fn tidy(host: &Host) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Err(error) = controls::balance(host) {
        remarks.push(format!(
            "the shares of the global zone: {}",
            flatten(&error)
        ));
    }
    for layers in layer_folders::of_zones(host) {
        match storage::collect(&layers, storage::Lost::Keep) {
            Ok(collected) if collected.removed > 0 => remarks.push(format!(
                "removed {} unused trees from {}",
                collected.removed,
                host.root.shown(&layers).display()
            )),
            Ok(_) => {}
            Err(error) => remarks.push(format!(
                "could not tidy {}: {}",
                host.root.shown(&layers).display(),
                flatten(&error)
            )),
        }
    }
    remarks
}
