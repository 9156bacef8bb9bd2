//! Boots a suspended kernel zone: the guest resumes from its image.

use std::path::PathBuf;

use model::Config;
use model::plan::{BootPlan, PlatformStep, Resume};

use crate::kind::hooks::ResumeOptions;
use host::{Error, Host, flatten};
use kernelzone::facts::Facts;
use kernelzone::image;
use subject::Subject;

/// Makes the boot of a suspended zone resume from its image, or discards the image. Returns
/// messages for the user.
///
/// # Errors
/// Fails with [`Error::Refused`] and the reason why the image cannot be used. The image stays.
pub(super) fn prepare(
    host: &Host,
    subject: &Subject,
    config: &Config,
    facts: &Facts,
    plan: &mut BootPlan,
    options: ResumeOptions,
) -> Result<Vec<String>, Error> {
    let Some(path) = image::path(host, config).filter(|path| image::exists(path)) else {
        return Ok(Vec::new());
    };
    if plan.ready_only {
        return Err(Error::Refused(format!(
            "zone is suspended: boot goes on from {}; {}.",
            path.display(),
            image::DISCARD
        )));
    }
    if options.discard {
        if !options.dry_run {
            image::remove(&path)?;
        }
        return Ok(vec![format!(
            "the image {} was thrown away",
            path.display()
        )]);
    }
    let key = image::key_source(config, &subject.zonepath);
    let disks: Vec<PathBuf> = plan
        .platform
        .iter()
        .filter_map(writable)
        .flatten()
        .collect();
    let words = plan.init.arguments.iter().map(String::as_str);
    let now = image::identity(
        &facts.qemu.version.to_string(),
        words,
        &disks,
        &subject.zonepath,
        facts.record.boots,
    );
    let fits = now.and_then(|now| image::open(&path, &key, &now));
    if let Err(why) = fits {
        return Err(Error::Refused(format!(
            "cannot go on from where it was suspended: {}; {}.",
            flatten(&why),
            image::DISCARD
        )));
    }
    let wait = ["-incoming", "defer"].map(str::to_owned);
    plan.init.arguments.extend(wait);
    for step in &mut plan.platform {
        if let PlatformStep::Machine(parts) = step {
            parts.faults = !options.eager;
        }
    }
    plan.resume = Some(Resume {
        image: path,
        key,
        zonepath: subject.zonepath.clone(),
        disks,
        lazy: !options.eager,
    });
    Ok(Vec::new())
}

/// Returns the files of disks that a step opens for writing.
fn writable(step: &PlatformStep) -> Option<Vec<PathBuf>> {
    let PlatformStep::Machine(parts) = step else {
        return None;
    };
    let files = parts.files.iter().filter(|file| !file.read_only);
    Some(files.map(|file| file.path.clone()).collect())
}
