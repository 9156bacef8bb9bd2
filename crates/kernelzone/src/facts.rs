//! Collects the facts of this host that the boot of a kernel zone needs.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::plan::DeviceNode;
use model::{Config, ZoneName};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use rustix::time::Timespec;
use store::atomic::Durability;
use vm::Accelerator;
use vm::model::Version;
use vm::program::Qemu;

use crate::USER;
use crate::disks::{self, Added, Files};
use crate::record::{Record, Start};
use crate::seed;
use crate::uefi::{self, Flash};
use host::{Error, Host, devices, spawn};
use subject::Subject;

/// All facts of this host that the boot of a kernel zone needs.
#[derive(Debug)]
pub struct Facts {
    /// The record of the kernel zone, which the install wrote.
    pub record: Record,
    /// The QEMU program of this host.
    pub qemu: Qemu,
    /// The files of the host that QEMU sees in addition to its program.
    pub qemu_files: Vec<PathBuf>,
    /// The accelerator: KVM, or emulation.
    pub accelerator: Accelerator,
    /// The reason why the guest is emulated; `None` if the processor runs the guest with KVM.
    pub slow: Option<String>,
    /// The disks with their files.
    pub disks: Vec<Files>,
    /// The UEFI firmware; `None` for a guest with a BIOS or a guest whose kernel is started
    /// directly.
    pub flash: Option<Flash>,
    /// The device file of the accelerator, /dev/kvm; empty for emulation.
    pub nodes: Vec<DeviceNode>,
    /// The paths of the guest's sockets: monitor, console, agent.
    pub sockets: [PathBuf; 3],
}

/// Collects the facts of this host for the boot of a zone.
///
/// # Errors
/// Fails with [`Error::Verify`] or [`Error::Refused`] and the reason why the guest cannot start.
pub fn find(host: &Host, subject: &Subject, config: &Config, added: Added) -> Result<Facts, Error> {
    let record = Record::load(&subject.zonepath)?;
    let mut qemu = qemu(host).map_err(|error| refused(&error))?;
    // The zone shows QEMU its own program file under this path, so the path must not contain
    // symbolic links.
    qemu.path = fs::canonicalize(&qemu.path).map_err(Error::io("find QEMU"))?;
    if let Some(why) = record.model.why_not(&qemu.version) {
        return Err(Error::Refused(format!("{why}.")));
    }
    let (accelerator, slow) = accelerator(host);
    let kvm = matches!(accelerator, Accelerator::Kvm).then(|| "/dev/kvm".to_owned());
    let places = disks::places(host, config);
    let mut found = disks::files(&places, &record, &subject.zonepath, added)?;
    if let Start::Installer { cd } = &record.start {
        disks::add_cd(&mut found, cd)?;
    }
    seed::add(&mut found, &subject.zonepath)?;
    let files = found.iter().map(|disk| disk.paths.len()).sum();
    if let Some(why) = disks::why_too_many(files, config) {
        return Err(Error::Refused(format!("{why}.")));
    }
    Ok(Facts {
        disks: found,
        flash: uefi::of(config, &record, &subject.zonepath)?,
        record,
        qemu_files: vm::program::files(Path::new("/"))
            .iter()
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect(),
        qemu,
        accelerator,
        slow,
        nodes: devices::nodes(kvm.into_iter())
            .into_iter()
            .map(own)
            .collect(),
        sockets: sockets(host, &subject.entry.name),
    })
}

/// Makes QEMU's user the owner of a device file. On the host only root and a group can open the
/// file, and QEMU is not in this group.
fn own(node: DeviceNode) -> DeviceNode {
    DeviceNode {
        mode: 0o600,
        uid: USER,
        gid: USER,
        ..node
    }
}

/// Returns the QEMU of this host. The version is cached with the identity of the program file,
/// because asking the program takes too much of the time in which a suspended zone must boot.
pub fn qemu(host: &Host) -> Result<Qemu, vm::Error> {
    let memo = host.root.run().join("qemu");
    let mut told_by = None;
    let qemu = vm::program::find(|path| {
        told_by = identity(path);
        let text = fs::read_to_string(&memo).ok()?;
        let (version, file) = text.trim_end().split_once(' ')?;
        (Some(file) == told_by.as_deref()).then(|| Version::parse(version))?
    })?;
    if let Some(file) = told_by {
        let text = format!("{} {file}\n", qemu.version);
        // If this file is missing, the next boot asks the program again.
        if fs::read_to_string(&memo).ok().as_ref() != Some(&text) {
            let _ = store::atomic::replace(&memo, text.as_bytes(), 0o600, Durability::Volatile);
        }
    }
    Ok(qemu)
}

/// Returns a text that changes whenever the file at `path` is replaced or changed.
fn identity(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    Some(format!(
        "{} {} {} {} {}.{:09}",
        path.display(),
        meta.dev(),
        meta.ino(),
        meta.size(),
        meta.ctime(),
        meta.ctime_nsec()
    ))
}

/// Returns the paths of the sockets of a zone's guest: monitor, console, agent.
pub fn sockets(host: &Host, zone: &ZoneName) -> [PathBuf; 3] {
    ["monitor", "console", "agent"].map(|what| host.root.machine(zone, what))
}

fn refused(error: &vm::Error) -> Error {
    Error::Refused(format!("{}.", host::flatten(error)))
}

/// Timeout for the processor to run the tiny guest that tests KVM. The test usually takes a
/// thousandth of this time.
const KVM_PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the accelerator that runs guests on this host, and the reason if the accelerator is not
/// KVM.
pub(crate) fn accelerator(host: &Host) -> (Accelerator, Option<String>) {
    match try_kvm(host) {
        Ok(()) => (Accelerator::Kvm, None),
        Err(why) => (
            Accelerator::Tcg,
            Some(format!(
                "the processor of this host cannot run kernel zones ({}): they run in emulation, many times slower",
                host::flatten(&why)
            )),
        ),
    }
}

/// The reason why KVM cannot run kernel zones on this host.
#[derive(Debug, thiserror::Error)]
enum NoKvm {
    #[error("there is no /dev/kvm")]
    NoDevice,
    #[error("its KVM does not run the kernel of a guest")]
    NoKernels,
    #[error("its KVM interprets instructions one by one")]
    Interprets,
    /// The child process that tests KVM could not be started.
    #[error(transparent)]
    Probe(#[from] Error),
}

/// Tests whether KVM can run a guest. A result is cached until the host boots again, because a test
/// takes too much of the time in which a suspended zone must boot.
fn try_kvm(host: &Host) -> Result<(), NoKvm> {
    let device = fs::metadata("/dev/kvm").map_err(|_| NoKvm::NoDevice)?;
    let memo = host.root.run().join("kvm");
    // The device file changes when another KVM module is loaded.
    let started = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let now = format!(
        "{} {} {}.{:09}",
        started.trim(),
        device.ino(),
        device.ctime(),
        device.ctime_nsec()
    );
    let text = fs::read_to_string(&memo).unwrap_or_default();
    match text.trim_end().split_once(' ') {
        Some(("yes", tried)) if tried == now => return Ok(()),
        Some(("no", tried)) if tried == now => return Err(NoKvm::NoKernels),
        _ => {}
    }
    let runs = ask_kvm(host)?;
    let text = format!("{} {now}\n", if runs { "yes" } else { "no" });
    // If this file is missing, the next boot tests KVM again.
    let _ = store::atomic::replace(&memo, text.as_bytes(), 0o600, Durability::Volatile);
    match runs {
        true => Ok(()),
        false => Err(NoKvm::NoKernels),
    }
}

/// Tests KVM in a child process, because the test may hang or be very slow. A timeout is not
/// cached, because the host may only be busy.
fn ask_kvm(host: &Host) -> Result<bool, NoKvm> {
    let child = spawn::kvm_probe(host)?;
    let mut watched = [PollFd::new(&child.pidfd, PollFlags::IN)];
    let patience = Timespec::try_from(KVM_PROBE_TIMEOUT).ok();
    let ended = matches!(poll(&mut watched, patience.as_ref()), Ok(1));
    if !ended {
        let _ = pidfd_send_signal(&child.pidfd, Signal::KILL);
    }
    let status = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED);
    if !ended {
        return Err(NoKvm::Interprets);
    }
    let status = status.ok().flatten();
    // A child that was killed by a signal has no exit status. This result is not cached.
    let status = status.and_then(|status| status.exit_status());
    status.map(|status| status == 0).ok_or(NoKvm::NoKernels)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn qemu_may_open_its_devices_with_any_mode_on_the_host() {
        const FIRST: u32 = 1_000_000;
        // The mode and group are those that /dev/kvm has on most hosts. The device is /dev/null,
        // which every host has.
        let node = DeviceNode {
            path: "/dev/kvm".into(),
            block: false,
            major: 1,
            minor: 3,
            mode: 0o660,
            uid: 0,
            gid: 104,
        };
        let opens = |node: DeviceNode| {
            let mount = host::volumes::device_nodes(&[node], FIRST).ok()?;
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", ": <> /proc/self/fd/0/kvm"]);
            shell.uid(FIRST + USER).gid(FIRST + USER);
            shell.stdin(Stdio::from(mount)).stderr(Stdio::null());
            Some(shell.status().unwrap().success())
        };
        let Some(before) = opens(node.clone()) else {
            println!("skipped: no device nodes can be made here");
            return;
        };
        assert!(!before);
        assert_eq!(opens(own(node)), Some(true));
    }
}
