//! `zoneadm detach`: makes an installed zone configured and keeps its root.

use model::plan::{Step, ZonePlan};
use model::{Config, State, Verb, ZoneName};
use storage::driver_at;

use crate::executor::{self, Outcome};
use crate::{inventory, patch_files};
use host::{Error, Host};
use subject::network::Records;
use subject::{Start, Subject};
use subject::{arrived, identity};

/// Detaches a halted zone. A dry run returns the manifest instead. With `force` the zone's root
/// must be missing or belong to another host, because the zone's storage was moved to that host.
/// This host then forgets that the zone was installed, and keeps its configuration, uuid and ids.
///
/// # Errors
/// Fails with [`Error::Step`] if a step failed. The zone is then installed as before.
pub fn detach(
    host: &Host,
    zone: &ZoneName,
    dry_run: bool,
    force: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Detach)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let config = subject.config(host)?;
    if refuse_or_forget(host, &subject, force)? {
        return forget(host, &subject, dry_run);
    }
    if dry_run {
        return Ok(Outcome::Planned(manifest_text(host, &subject, &config)?));
    }
    // An interrupted patch is refused here, because a zone without its root on this host can be
    // returned neither to its old nor to its new root.
    if patch_files::journal_of(&host.root, &subject.entry).exists() {
        return Err(Error::Refused(
            "has an interrupted patch: run zonepatch recover first.".to_owned(),
        ));
    }
    crate::settle::settle(host, zone)?;
    Records::of(&host.root).let_go(zone)?;
    // The zone may have migrated to this host without the knowledge of the source. This record
    // stops the source from booting the zone again, wherever the detached zone is attached next.
    arrived::remember(&host.root, &subject.zonepath)?;
    let path = subject.zonepath.clone();
    let warning = inventory::of_zone(host, &path, &config)?.warning();
    let depth = driver_at(&path)?.stack(&path)?.lowers.len();
    let plan = ZonePlan {
        zone: zone.clone(),
        verb: Verb::Detach,
        steps: vec![
            Step::WriteManifest { path: path.clone() },
            Step::Sync { path: path.clone() },
            // A kill after this step leaves an installed zone without an owner: the next command of
            // this host owns it again, unless another host has attached it.
            Step::ReleaseZonepath { path },
            // The zone keeps its uuid and its ids, because no other zone may have them while its
            // root exists.
            Step::Record {
                state: State::Configured,
                uuid: subject.entry.uuid,
            },
        ],
    };
    executor::run_now(host, &config, &subject.entry, &plan, progress)?;
    if depth > 0 {
        progress(&format!(
            "Its root stands on {depth} layers beside the zonepath: a copy of the zonepath alone is not the zone. zoneadm export and migrate take all of it along."
        ));
    }
    Ok(Outcome::with_remarks(warning))
}

/// Returns true if the root of a zone is missing or belongs to another host, and `force` allows to
/// detach the zone nevertheless.
///
/// # Errors
/// Fails with [`Error::Refused`] if the root is here and `force` is set, or if the root is not here
/// and `force` is not set.
fn refuse_or_forget(host: &Host, subject: &Subject, force: bool) -> Result<bool, Error> {
    let owner = identity::other_owner(&host.root, &subject.zonepath)?;
    let is_elsewhere = owner.is_some() || subject::lacks_root(&subject.zonepath);
    match (force, is_elsewhere) {
        (true, true) => Ok(true),
        (true, false) => Err(Error::Refused(format!(
            "{}/root is here: detach it without --lost (-F).",
            subject.entry.zonepath.display()
        ))),
        (false, true) => {
            let entry = &subject.entry;
            Err(match owner {
                Some(owner) => Error::Owner(subject::identity::root_of_other(entry, &owner)),
                None => Error::Root(subject::no_root(entry)),
            })
        }
        (false, false) => Ok(false),
    }
}

/// Returns the manifest that a detach would write. A warning is appended as an XML comment, because
/// the output must be a valid manifest.
fn manifest_text(host: &Host, subject: &Subject, config: &Config) -> Result<String, Error> {
    let system = inventory::of_zone(host, &subject.zonepath, config)?;
    let warning = system.warning();
    let manifest = inventory::manifest(config, subject.entry.uuid, system);
    let mut text = manifest.text();
    if let Some(warning) = warning {
        text.push_str(&format!(
            "<!-- WARNING: {} -->\n",
            warning.replace("--", "- -")
        ));
    }
    Ok(text)
}

/// Stores a zone as configured whose root is missing or belongs to another host.
fn forget(host: &Host, subject: &Subject, dry_run: bool) -> Result<Outcome, Error> {
    let zone = &subject.entry.name;
    if dry_run {
        return Ok(Outcome::Planned(format!(
            "detach zone {zone}:\n  store state configured\n"
        )));
    }
    crate::settle::settle(host, zone)?;
    let mut entry = subject.entry.clone();
    entry.state = State::Configured;
    executor::record_now(host, entry)?;
    Ok(Outcome::Done)
}
