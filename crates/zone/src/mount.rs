//! `zoneadm mount` and `unmount`: the whole root of a halted zone, on the host.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use model::plan::{Step, ZonePlan};
use model::{Verb, ZoneName};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::MountAttrFlags;
use storage::{Dataset, Stack};
use sys::process::ns;

use crate::apply::{self, Outcome, Work};
use crate::subject::{self, SHOWN, Start, Subject};
use crate::{Error, Host};

/// Shows the root of an installed zone at `<zonepath>/lu`.
///
/// # Errors
/// [`Error::Step`]; nothing is then mounted.
pub fn mount(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    act(host, zone, Verb::Mount, dry_run, |subject| Step::ShowRoot {
        path: subject.zonepath.clone(),
        at: subject.zonepath.join(SHOWN),
    })
}

/// Takes that view away.
///
/// # Errors
/// [`Error::Step`] while something uses it.
pub fn unmount(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    act(host, zone, Verb::Unmount, dry_run, |subject| {
        Step::HideRoot {
            at: subject.zonepath.join(SHOWN),
        }
    })
}

fn act(
    host: &Host,
    zone: &ZoneName,
    verb: Verb,
    dry_run: bool,
    step: impl FnOnce(&Subject) -> Step,
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, verb)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let plan = ZonePlan {
        zone: zone.clone(),
        verb,
        steps: vec![step(&subject)],
    };
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    subject::wait_until_closed(host, zone)?;
    let config = subject.config(host)?;
    let mut work = Work {
        host,
        config: &config,
        entry: subject.entry.clone(),
        record: &mut |entry| apply::record_now(host, entry),
        progress: &mut |_| {},
    };
    apply::run(&mut work, &plan, &mut host.fault.clone())?;
    Ok(Outcome::Done)
}

pub(crate) fn show(zonepath: &Path, at: &Path) -> Result<(), Error> {
    match fs::create_dir(at) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(Error::Io(format!("make {}", at.display()), error));
        }
        _ => {}
    }
    let stack = Dataset::open(zonepath)?.stack()?;
    let root = assembled(&stack, zonepath)?;
    let attr = sys::mount::Attr {
        set: MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID,
        private: true,
        ..sys::mount::Attr::default()
    };
    let mounted = sys::mount::set_attr(&root, &attr, sys::mount::Extent::One, at)
        .and_then(|()| sys::mount::attach(&root, CWD, at));
    mounted.map_err(|error| {
        let _ = fs::remove_dir(at);
        Error::Refused(crate::platform::flatten(&error))
    })
}

pub(crate) fn hide(at: &Path) -> Result<(), Error> {
    sys::mount::unmount(at).map_err(|error| Error::Refused(crate::platform::flatten(&error)))?;
    fs::remove_dir(at).map_err(Error::io(format!("remove {}", at.display())))
}

/// The whole root of a halted zone as a mount that nobody else sees. `scratch`
/// is any folder.
pub(crate) fn view(stack: &Stack, scratch: &Path) -> Result<OwnedFd, Error> {
    assembled(stack, scratch)
}

/// Assembles a root in a mount namespace that ends with this call: the layers
/// are mounted on their own for a moment, and the host must not see that.
fn assembled(stack: &Stack, scratch: &Path) -> Result<OwnedFd, Error> {
    let work = || -> Result<OwnedFd, Error> {
        let sys_error = |error: sys::mount::Error| Error::Refused(crate::platform::flatten(&error));
        sys::namespace::unshare(ns::MOUNT).map_err(Error::io("leave the host's mounts"))?;
        sys::mount::make_private_recursive().map_err(sys_error)?;
        let tmpfs = sys::mount::new_fs("tmpfs", &[], MountAttrFlags::MOUNT_ATTR_NODEV)
            .map_err(sys_error)?;
        // Only for short names of mounts; the zonepath keeps its own descriptor.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let place = openat(CWD, scratch, flags, Mode::empty())
            .map_err(|errno| Error::Io(format!("open {}", scratch.display()), errno.into()))?;
        let _ = place.as_fd();
        let mount_point = Path::new("/tmp");
        sys::mount::attach(&tmpfs, CWD, mount_point).map_err(sys_error)?;
        Ok(storage::assemble(stack, None, 0, mount_point)?)
    };
    // Namespaces belong to threads: this one goes into its own and ends there.
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(Error::Refused("could not assemble the root".to_owned())))
}
