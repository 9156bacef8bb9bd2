//! Starts the programs of this project in the background.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use limits::Base;
use model::ZoneName;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::os::fd::AsFd;
use store::lock::ZoneLock;
use sys::process::{Child, Executable, Program};

use crate::{Error, Host};

/// The option of `zoneadm beadm` that marks a request from inside the zone.
pub const INSIDE: &str = "--inside";

/// Maximum number of attempts to start zoneadmd while other commands remove its control group.
const MAX_ATTEMPTS: usize = 10;

/// Starts programs of this project in the background. Tests have an implementation that starts no
/// process.
pub trait Starter: std::fmt::Debug + Send + Sync {
    /// Starts a program of this project.
    ///
    /// # Errors
    /// Fails if the program does not exist or cannot be started.
    fn start(&self, host: &Host, wanted: &Wanted<'_>) -> Result<Child, Error>;
}

/// A program to start.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The name of the program.
    pub name: &'a str,
    /// The arguments of the program.
    pub arguments: &'a [&'a str],
    /// The control group in which the program starts.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// The standard output of the program.
    pub output: Option<&'a File>,
    /// The standard error of the program.
    pub errors: Option<&'a File>,
    /// The descriptors 3, 4, ... of the program.
    pub pass: &'a [BorrowedFd<'a>],
}

/// Starts real programs: those in the folder of the calling program, or installed ones.
#[derive(Clone, Copy, Debug)]
pub struct Programs;

/// Starts the zoneadmd of a zone, in the control group of all zoneadmds. `pass` become the
/// descriptors 3, 4, ... of zoneadmd.
pub fn zoneadmd(
    host: &Host,
    zone: &ZoneName,
    options: &[&str],
    pass: &[BorrowedFd<'_>],
) -> Result<Child, Error> {
    let base = Base::find(&host.cgroup)?;
    let arguments = [&["-z", zone.as_str()], options].concat();
    let mut tries = MAX_ATTEMPTS;
    loop {
        let group = limits::zone::open_daemons(&base)?;
        let group = Some(group.as_fd());
        match start(host, "zoneadmd", &arguments, group, None, None, pass) {
            // Another command removed the control group, because it was empty at that moment.
            Err(Error::Io(_, error)) if limits::is_gone(&error) && tries > 0 => tries -= 1,
            other => return other,
        }
    }
}

/// Starts a program that tests if the processor runs the kernel of a guest. Exit status 0 means
/// that the processor runs the kernel of a guest. The test program may hang.
pub fn kvm_probe(host: &Host) -> Result<Child, Error> {
    start(host, "zoneadmd", &["--probe-kvm"], None, None, None, &[])
}

/// The subcommand that boots a zone again after the zone rebooted itself. Only zoneadmd calls
/// `boot-again`, and passes the zone's lock as the descriptor [`LOCK_OF_AGAIN`].
pub const AGAIN: &str = "boot-again";

/// The descriptor that holds the zone's lock in `zoneadm boot-again`.
pub const LOCK_OF_AGAIN: i32 = 3;

/// Starts `zoneadm -z zone boot-again` and passes the zone's lock to it. `reboots` is the number of
/// times that the zone rebooted itself in quick succession. The messages of the command are written
/// to `log`.
pub fn boot_again(
    host: &Host,
    zone: &ZoneName,
    reboots: u32,
    held: &ZoneLock,
    log: Option<&File>,
) -> Result<Child, Error> {
    let reboots = reboots.to_string();
    let words = ["-z", zone.as_str(), AGAIN, &reboots];
    start(host, "zoneadm", &words, None, None, log, &[held.as_fd()])
}

/// The subcommand that ends the writable first boot of an immutable zone. Only zoneadmd calls it.
pub const ASSEMBLE: &str = "assemble";

/// Starts `zoneadm -z zone assemble id`. The messages of the command are written to `log`.
pub fn assemble(host: &Host, zone: &ZoneName, id: u32, log: Option<&File>) -> Result<Child, Error> {
    let id = id.to_string();
    let words = ["-z", zone.as_str(), ASSEMBLE, &id];
    start(host, "zoneadm", &words, None, None, log, &[])
}

/// Starts a program in the zone that writes the state of systemd to `output`.
pub fn ask_systemd(host: &Host, zone: &ZoneName, output: &File) -> Result<Child, Error> {
    let command = "systemctl is-system-running";
    let words = ["-Q", "-n", "-S", zone.as_str(), command];
    start(host, "zlogin", &words, None, Some(output), None, &[])
}

/// Starts `zoneadm -z zone beadm --inside words`, for a request from inside the zone.
pub fn beadm(
    host: &Host,
    zone: &ZoneName,
    words: &[String],
    output: &File,
    errors: &File,
) -> Result<Child, Error> {
    let options = ["-z", zone.as_str(), "beadm", INSIDE];
    for_a_zone(host, "zoneadm", &options, words, output, errors)
}

/// The option of `clzonecluster` for a fence request of a zone. Only zoneadmd calls it.
pub const FENCE: &str = "--fence";

/// Starts `clzonecluster --fence zone words`, for a fence request from inside the zone.
pub fn fence(
    host: &Host,
    zone: &ZoneName,
    words: &[String],
    output: &File,
    errors: &File,
) -> Result<Child, Error> {
    let options = [FENCE, zone.as_str()];
    for_a_zone(host, "clzonecluster", &options, words, output, errors)
}

/// Starts a program with `options`, and then the words of a request from inside a zone.
fn for_a_zone(
    host: &Host,
    program: &str,
    options: &[&str],
    words: &[String],
    output: &File,
    errors: &File,
) -> Result<Child, Error> {
    let mut arguments = options.to_vec();
    arguments.extend(words.iter().map(String::as_str));
    let (output, errors) = (Some(output), Some(errors));
    start(host, program, &arguments, None, output, errors, &[])
}

fn start(
    host: &Host,
    name: &str,
    arguments: &[&str],
    cgroup: Option<BorrowedFd<'_>>,
    output: Option<&File>,
    errors: Option<&File>,
    pass: &[BorrowedFd<'_>],
) -> Result<Child, Error> {
    let wanted = Wanted {
        name,
        arguments,
        cgroup,
        output,
        errors,
        pass,
    };
    host.starter.start(host, &wanted)
}

impl Starter for Programs {
    fn start(&self, host: &Host, wanted: &Wanted<'_>) -> Result<Child, Error> {
        start_program(host, wanted)
    }
}

fn start_program(host: &Host, wanted: &Wanted<'_>) -> Result<Child, Error> {
    let Wanted {
        name,
        arguments,
        cgroup,
        output,
        errors,
        pass,
    } = *wanted;
    let path = host.program(name).ok_or_else(|| {
        Error::Refused(format!(
            "could not find the program {name} beside zoneadm or in /usr/lib/zones"
        ))
    })?;
    let fail = |error: std::io::Error| Error::Io(format!("start {}", path.display()), error);
    let executable = openat(CWD, &path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| fail(errno.into()))?;
    let text = |text: &[u8]| CString::new(text).map_err(|error| fail(error.into()));
    let variable = |name: &str, value: &Path| {
        text(&[name.as_bytes(), b"=", value.as_os_str().as_bytes()].concat())
    };
    let mut environment = vec![
        variable("ZONES_ROOT", host.root.dir())?,
        variable("ZONES_CGROUP", &host.cgroup)?,
        text(b"PATH=/usr/sbin:/usr/bin:/sbin:/bin")?,
    ];
    if let Some(fault) = host.fault.text() {
        environment.push(text(format!("ZONES_FAULT={fault}").as_bytes())?);
    }
    let program = Program {
        executable: Executable::Open(executable),
        // The first argument is the whole path, because programs look for each other in their own
        // folder.
        arguments: [text(path.as_os_str().as_bytes())]
            .into_iter()
            .chain(arguments.iter().map(|one| text(one.as_bytes())))
            .collect::<Result<_, _>>()?,
        environment,
    };
    program
        .spawn_daemon(
            cgroup,
            output.map(AsFd::as_fd),
            errors.map(AsFd::as_fd),
            pass,
        )
        .map_err(fail)
}
