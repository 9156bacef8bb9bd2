//! `zoneadm boot` and `zoneadm ready`: the virtual platform, with or without init.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use brand::{BootRequest, BootSpec};
use limits::Base;
use model::plan::BootPlan;
use model::{Config, State, Verb, ZoneName};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, openat};
use storage::{Dataset, Stack, driver_at};
use store::{runtime, xml};

use crate::apply::Outcome;
use crate::daemon::client;
use crate::daemon::protocol::Request;
use crate::plan::boot::{BootInputs, plan};
use crate::subject::{self, Start, Subject};
use crate::{Error, Host, devices, spawn, verify};

/// How a zone is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootOptions {
    /// Another init (`-i`), a path in the zone.
    pub init: Option<String>,
    /// Words for init.
    pub arguments: Vec<String>,
    /// True when the command line had boot options: `bootargs` then does not count.
    pub given: bool,
}

impl BootOptions {
    /// Reads boot options as they stand behind `--` or in the property bootargs:
    /// `-i PATH`, `-s`, `-m OPTIONS`; other words that begin with `-` are unknown
    /// and returned to be warned of.
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
                "-m" => {
                    let value = words
                        .next()
                        .ok_or_else(|| Error::Usage("boot option -m needs a value".to_owned()))?;
                    options.arguments.extend(["-m".to_owned(), value.clone()]);
                }
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
    match Subject::admit(host, zone, verb)? {
        Start::Go(subject) => start_locked(host, &subject, verb, options, dry_run),
        Start::Already(notice) => {
            // Not quite nothing: the zone may be without its zoneadmd.
            client::attend(host, zone)?;
            Ok(Outcome::Already(notice))
        }
    }
}

/// Boots a zone whose lock is held already.
pub(crate) fn start_locked(
    host: &Host,
    subject: &Subject,
    verb: Verb,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let zone = &subject.entry.name;
    let config = subject.config(host)?;
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
    verify::before(host, subject, &config, verb)?;
    if !dry_run && subject.state == State::Installed {
        shorten(host, subject)?;
    }
    let mut plan = make_plan(host, subject, &config, verb, &options)?;
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    if subject.state == State::Ready {
        let socket = client::connect_or_adopt(host, zone)?;
        client::ask(&socket, &Request::Boot(plan.init))?
            .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))?;
        return Ok(Outcome::Done);
    }
    subject::settle(host, zone)?;
    // Here, as zoneadmd leaves the host's mounts.
    for dataset in config.datasets() {
        storage::set_apart(&dataset, plan.first_id)?;
    }
    plan.id = runtime::next_id(&host.root)?;
    // What is running is what is configured now, whatever is configured later; it goes
    // when the zone does.
    xml::save_running(&host.root, &config)?;
    let (report, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::Io("make a pipe".to_owned(), errno.into()))?;
    let plan = as_file(&plan).map_err(Error::io("hand the plan to zoneadmd"))?;
    // zoneadmd goes on if this command is killed, and then the lock is still needed.
    let pass = [plan.as_fd(), theirs.as_fd(), subject.lock().as_fd()];
    spawn::zoneadmd(host, zone, &[], &pass)?;
    drop(theirs);
    let remarks = client::listen_to(report)?;
    if remarks.is_empty() {
        return Ok(Outcome::Done);
    }
    Ok(Outcome::Remarks(remarks))
}

/// Merges layers of a zone that stands on more than is good. Use does not lead there,
/// as what adds a layer merges; other hands may.
fn shorten(host: &Host, subject: &Subject) -> Result<(), Error> {
    if !driver_at(&subject.zonepath)?.has_layers() {
        return Ok(());
    }
    let dataset = Dataset::open(&subject.zonepath)?;
    if dataset.depth()? <= storage::DEEP {
        return Ok(());
    }
    // What was mounted on the old layers must be closed first.
    subject::settle(host, &subject.entry.name)?;
    dataset.tend()?;
    Ok(())
}

fn make_plan(
    host: &Host,
    subject: &Subject,
    config: &Config,
    verb: Verb,
    options: &BootOptions,
) -> Result<BootPlan, Error> {
    let brand = verify::brand_of(config)?;
    let stack = driver_at(&subject.zonepath)?.stack(&subject.zonepath)?;
    let layout = brand::sparse::of(config, Path::new("/"))
        .map_err(Error::io("look at the host's directories"))?;
    let scratch = host.root.run().join("mnt");
    std::fs::create_dir_all(&scratch).map_err(Error::io(format!("make {}", scratch.display())))?;
    let inherited = layout
        .as_ref()
        .map(|layout| layout.dirs.as_slice())
        .unwrap_or_default();
    let spec = spec(brand, config, &stack, inherited, &scratch, options)?;
    let first_id = subject.entry.first_id().ok_or_else(|| {
        Error::Refused("has no range of user ids; uninstall and install it again.".to_owned())
    })?;
    plan(&BootInputs {
        config,
        id: 0,
        uuid: subject.entry.uuid,
        first_id,
        stack: &stack,
        layout: layout.as_ref(),
        platform: brand.platform(),
        spec: &spec,
        base: &Base::find(&host.cgroup)?,
        scratch: &scratch,
        nodes: &devices::nodes(config.device_patterns()),
        ready_only: verb == Verb::Ready,
    })
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
    crate::mount::with_view(stack, inherited, scratch, ask)
}

fn as_file(plan: &BootPlan) -> std::io::Result<OwnedFd> {
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
        let (options, unknown) = parse("-s -i /bin/sh -m verbose extra -Z -L");
        assert_eq!(options.init.as_deref(), Some("/bin/sh"));
        assert_eq!(options.arguments, ["-s", "-m", "verbose", "extra"]);
        assert_eq!(unknown, ["-Z", "-L"]);
        assert!(options.given);
        assert!(!parse("").0.given);
        assert!(BootOptions::parse(&["-i".to_owned()]).is_err());
    }
}
