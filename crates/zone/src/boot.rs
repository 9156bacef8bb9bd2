//! `zoneadm boot` and `zoneadm ready`: the virtual platform, with or without init.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use brand::{BootRequest, BootSpec};
use limits::Base;
use model::plan::{BootPlan, DeviceNode};
use model::{Config, State, Verb, ZoneName};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, openat};
use storage::{BadName, Dataset, Name, Stack, driver_at};
use store::lock::ZoneLock;
use store::{Root, runtime, xml};

use crate::executor::Outcome;
use crate::{environments, export, room, root_view, suspend, verify};
use control::client;
use control::protocol::Request;
use host::undo::UndoStack;
use host::{Error, Host, devices, spawn};
use kernelzone::disks::{self, Added};
use kernelzone::facts::{self, Facts};
use kernelzone::image;
use kernelzone::uefi;
use platform::controls;
use platform::plan::boot::{BootInputs, MachineInputs, plan};
use platform::plan::guest::{machine, words_of_boot};
use subject::{Start, Subject};
use subject::{away, names, network};

pub use host::spawn::{AGAIN, LOCK_OF_AGAIN};

/// The options of a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootOptions {
    /// Another init (`-i`), a path in the zone.
    pub init: Option<String>,
    /// Words for init.
    pub arguments: Vec<String>,
    /// The boot environment to boot this once (`-Z`).
    pub environment: Option<Name>,
    /// True to throw away the image of a suspended zone.
    pub discard: bool,
    /// True to have all memory of a suspended zone before it runs.
    pub eager: bool,
    /// True when the command line had boot options: `bootargs` then does not count.
    pub given: bool,
    /// Count of the reboots in quick succession by which the zone came to this boot.
    pub reboots: u32,
}

impl BootOptions {
    /// Returns what is told init, as the console shows it.
    fn words(&self) -> String {
        let init = self.init.iter().flat_map(|path| ["-i", path]);
        let words = init.chain(self.arguments.iter().map(String::as_str));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Reads boot options as they stand behind `--` or in the property bootargs:
    /// `-i PATH`, `-s`, `-m OPTIONS`, `-Z NAME`, `--discard-suspend`, `--eager`; other
    /// words that begin with `-` are unknown and returned to be warned of.
    ///
    /// # Errors
    /// [`Error::Usage`] for an option without its value.
    pub fn parse(words: &[String]) -> Result<(Self, Vec<String>), Error> {
        let mut options = Self {
            given: !words.is_empty(),
            ..Self::default()
        };
        let mut unknown = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-i" => {
                    let path = words.next().ok_or_else(|| {
                        Error::Usage("boot option -i needs the path of an init".to_owned())
                    })?;
                    options.init = Some(path.clone());
                }
                "-Z" => {
                    let name = words.next().ok_or_else(|| {
                        Error::Usage("boot option -Z needs a boot environment".to_owned())
                    })?;
                    let name = name.parse();
                    options.environment =
                        Some(name.map_err(|error: BadName| Error::Usage(error.to_string()))?);
                }
                "-m" => {
                    let value = words
                        .next()
                        .ok_or_else(|| Error::Usage("boot option -m needs a value".to_owned()))?;
                    options.arguments.extend(["-m".to_owned(), value.clone()]);
                }
                "--discard-suspend" => options.discard = true,
                "--eager" => options.eager = true,
                // Every Linux init knows it by this name.
                "-s" => options.arguments.push("-s".to_owned()),
                other if other.starts_with('-') => unknown.push(other.to_owned()),
                other => options.arguments.push(other.to_owned()),
            }
        }
        Ok((options, unknown))
    }
}

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

/// Returns the plan of a boot; changes nothing.
pub fn make_plan(
    host: &Host,
    subject: &Subject,
    config: &Config,
    nodes: &[DeviceNode],
    facts: Option<&Facts>,
    verb: Verb,
    options: &BootOptions,
) -> Result<BootPlan, Error> {
    let stack = driver_at(&subject.zonepath)?.stack(&subject.zonepath)?;
    let linked = Linked::Yes;
    plan_on(
        host, subject, config, &stack, nodes, facts, verb, options, linked,
    )
}

/// The zone's network links: made or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    /// Those of its configuration.
    Yes,
    /// None but loopback.
    No,
}

/// The plan of a boot from the root that `stack` says.
#[expect(clippy::too_many_arguments, reason = "what decides about a boot")]
pub(crate) fn plan_on(
    host: &Host,
    subject: &Subject,
    config: &Config,
    stack: &Stack,
    nodes: &[DeviceNode],
    facts: Option<&Facts>,
    verb: Verb,
    options: &BootOptions,
    linked: Linked,
) -> Result<BootPlan, Error> {
    let brand = verify::brand_of(config)?;
    let layout = brand::sparse::of(config, Path::new("/"))
        .map_err(Error::io("look at the host's directories"))?;
    let scratch = host.root.run().join("mnt");
    let inherited = layout
        .as_ref()
        .map(|layout| layout.dirs.as_slice())
        .unwrap_or_default();
    let spec = match facts {
        None => spec(brand, config, stack, inherited, &scratch, options)?,
        Some(_) => machine_spec(brand),
    };
    let first_id = subject.entry.first_id().ok_or_else(|| {
        Error::Refused("has no range of user ids; uninstall and install it again.".to_owned())
    })?;
    let (links, names) = match linked {
        Linked::No => (Vec::new(), None),
        Linked::Yes => {
            let links = network::links_to_make(host, config, &subject.entry)?;
            let names = names::plan(host, config, &links, &subject.index)?;
            (links, names)
        }
    };
    let machine = facts.map(|facts| {
        let mut words = options.arguments.clone();
        words.extend(options.init.as_ref().map(|init| format!("init={init}")));
        MachineInputs {
            machine: machine(config, subject.entry.uuid, facts, &links, &words),
            facts,
        }
    });
    plan(&BootInputs {
        config,
        controls: controls::configured(host, config)?,
        id: 0,
        uuid: subject.entry.uuid,
        first_id,
        stack,
        layout: layout.as_ref(),
        platform: brand.platform(),
        spec: &spec,
        base: &Base::find(&host.cgroup)?,
        scratch: &scratch,
        nodes,
        links,
        names,
        limit_files: &host.root.proc_files(&subject.entry.name),
        records: &host.root.network(),
        answerer: &host.root.kernel_socket(&subject.entry.name),
        machine,
        ready_only: verb == Verb::Ready,
    })
}

/// Returns the init that stands for QEMU: its command line comes with the plan, and its monitor
/// ends it. QEMU's command line comes with the plan, and it is told to end over its monitor.
fn machine_spec(brand: &dyn brand::Brand) -> BootSpec {
    const SIGTERM: i32 = 15;
    BootSpec {
        init: brand::InitProgram::Zinit,
        argv: Vec::new(),
        environment: Vec::new(),
        shutdown: brand::ShutdownSignals {
            poweroff: SIGTERM,
            reboot: SIGTERM,
        },
        mounts: brand.platform().mounts,
        kernel: None,
        interpreter: None,
    }
}

/// Asks the brand what runs as init. It looks into the zone's root as the zone
/// will see it; sparse zones run ours, and nothing needs to be looked at.
fn spec(
    brand: &'static dyn brand::Brand,
    config: &Config,
    stack: &Stack,
    inherited: &[PathBuf],
    scratch: &Path,
    options: &BootOptions,
) -> Result<BootSpec, Error> {
    let ask = |root: OwnedFd| -> Result<BootSpec, Error> {
        Ok(brand.boot(&BootRequest {
            config,
            root: root.as_fd(),
            init: options.init.as_deref(),
            arguments: &options.arguments,
        })?)
    };
    let named = options.init.is_some() || config.attr("init").is_some();
    let whole = stack.lowers.is_empty() && inherited.is_empty();
    if whole || (!named && !inherited.is_empty()) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, &stack.top, flags, Mode::empty())
            .map_err(|errno| Error::Io(format!("open {}", stack.top.display()), errno.into()))?;
        return ask(root);
    }
    // In a view of the mounts that ends with this: any folder will do, and none is made.
    root_view::with_view(stack, inherited, root_view::any_folder(scratch), ask)
}

/// Returns the plan as a file in memory, for zoneadmd.
pub fn as_file(plan: &BootPlan) -> std::io::Result<OwnedFd> {
    use std::io::Seek;
    let memory = rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    file.write_all(&serde_json::to_vec(plan)?)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (BootOptions, Vec<String>) {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        BootOptions::parse(&words).unwrap()
    }

    #[test]
    fn reads_the_options_of_solaris_and_names_others() {
        let (options, unknown) = parse("-s -i /bin/sh -m verbose extra -Z be -L");
        assert_eq!(options.init.as_deref(), Some("/bin/sh"));
        assert_eq!(options.arguments, ["-s", "-m", "verbose", "extra"]);
        assert_eq!(options.environment, Some("be".parse().unwrap()));
        assert_eq!(unknown, ["-L"]);
        assert!(options.given);
        assert!(!parse("").0.given);
        for alone in ["-i", "-Z", "-Z -L"] {
            let words: Vec<String> = alone.split(' ').map(str::to_owned).collect();
            assert!(BootOptions::parse(&words).is_err(), "{alone}");
        }
    }
}
