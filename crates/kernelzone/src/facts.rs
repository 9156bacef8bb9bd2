//! Collects the facts of this host that the boot of a machine needs.

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
use crate::uefi::{self, Flash};
use host::{Error, Host, devices, spawn};
use subject::Subject;

/// All of it.
#[derive(Debug)]
pub struct Facts {
    /// The record of the machine, from its install.
    pub record: Record,
    /// The QEMU program of this host.
    pub qemu: Qemu,
    /// The files of the host that QEMU sees beside its program.
    pub qemu_files: Vec<PathBuf>,
    /// The accelerator: KVM, or emulation.
    pub accelerator: Accelerator,
    /// Why it is not the processor itself, if it is not.
    pub slow: Option<String>,
    /// The disks with their files.
    pub disks: Vec<Files>,
    /// The UEFI firmware, if it has one.
    pub flash: Option<Flash>,
    /// The device of the accelerator.
    pub nodes: Vec<DeviceNode>,
    /// The paths of the sockets: monitor, console, agent.
    pub sockets: [PathBuf; 3],
}

/// Looks.
///
/// # Errors
/// [`Error::Verify`] and [`Error::Refused`] with the reason that the machine cannot start.
pub fn find(host: &Host, subject: &Subject, config: &Config, added: Added) -> Result<Facts, Error> {
    let record = Record::load(&subject.zonepath)?;
    let mut qemu = qemu(host).map_err(|error| refused(&error))?;
    // Its file is shown to itself under this name: no link may lead there.
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

/// A device as QEMU gets it: on the host only a group may open it, in which QEMU is not.
fn own(node: DeviceNode) -> DeviceNode {
    DeviceNode {
        mode: 0o600,
        uid: USER,
        gid: USER,
        ..node
    }
}

/// The QEMU of this host. The version is cached with the identity of the program file: asking the
/// program again takes a large part of the time in which a suspended zone has to boot.
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
        // Without it the next boot asks again.
        if fs::read_to_string(&memo).ok().as_ref() != Some(&text) {
            let _ = store::atomic::replace(&memo, text.as_bytes(), 0o600, Durability::Volatile);
        }
    }
    Ok(qemu)
}

/// Returns text that is different for every other file of this name.
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

/// Returns the paths of a machine's sockets: monitor, console, agent.
pub fn sockets(host: &Host, zone: &ZoneName) -> [PathBuf; 3] {
    ["monitor", "console", "agent"].map(|what| host.root.machine(zone, what))
}

fn refused(error: &vm::Error) -> Error {
    Error::Refused(format!("{}.", host::flatten(error)))
}

/// Timeout for the processor to run the tiny guest; it usually takes a thousandth of this.
const KVM_PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the accelerator that runs the machine here, and if it is not the processor the reason.
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

/// The reason why the processor does not run kernel zones.
#[derive(Debug, thiserror::Error)]
enum NoKvm {
    #[error("there is no /dev/kvm")]
    NoDevice,
    #[error("its KVM does not run the kernel of a guest")]
    NoKernels,
    #[error("its KVM interprets instructions one by one")]
    Interprets,
    /// The child that tries it could not be started.
    #[error(transparent)]
    Probe(#[from] Error),
}

/// Tries KVM, unless a trial has succeeded since the host booted: a trial takes a large part of the
/// time in which a suspended zone has to boot.
fn try_kvm(host: &Host) -> Result<(), NoKvm> {
    let device = fs::metadata("/dev/kvm").map_err(|_| NoKvm::NoDevice)?;
    let memo = host.root.run().join("kvm");
    // Another module makes another device.
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
    // Without it the next boot tries again.
    let _ = store::atomic::replace(&memo, text.as_bytes(), 0o600, Durability::Volatile);
    match runs {
        true => Ok(()),
        false => Err(NoKvm::NoKernels),
    }
}

/// Has a child try: it may hang, or be slow beyond use. That it is late is no answer that
/// holds: the host may be busy.
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
    // Nor does a kill say anything.
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
        // As /dev/kvm is on most hosts, but one that everybody has.
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
