//! Makes the plan of a boot. Collects facts and changes nothing.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use brand::{BootRequest, BootSpec};
use limits::Base;
use model::immutable::{Immutable, Profile};
use model::plan::BootPlan;
use model::{Config, Verb};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, openat};
use storage::{Stack, driver_at};

use crate::boot::options::BootOptions;
use crate::{root_view, verify};
use host::{Error, Host};
use platform::controls;
use platform::kind::{self, BootFacts};
use platform::plan::boot::{BootInputs, MachineInputs, plan};
use platform::plan::guest::machine;
use subject::{Subject, names, network};

/// Returns the plan of a boot. Changes nothing.
pub fn make_plan(
    host: &Host,
    subject: &Subject,
    config: &Config,
    facts: &BootFacts,
    verb: Verb,
    options: &BootOptions,
) -> Result<BootPlan, Error> {
    let stack = driver_at(&subject.zonepath)?.stack(&subject.zonepath)?;
    let linked = Linked::Yes;
    plan_on(host, subject, config, &stack, facts, verb, options, linked)
}

/// Selects whether a plan makes the zone's network links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    /// The links of the zone's configuration are made.
    Yes,
    /// No links except loopback are made.
    No,
}

/// Returns the plan of a boot from the root that `stack` describes.
#[expect(clippy::too_many_arguments, reason = "what decides about a boot")]
pub(crate) fn plan_on(
    host: &Host,
    subject: &Subject,
    config: &Config,
    stack: &Stack,
    facts: &BootFacts,
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
    let spec = match kind::of(config).own_init(brand) {
        None => spec(brand, config, stack, inherited, &scratch, options)?,
        Some(own) => own,
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
    let machine = facts.machine.as_ref().map(|facts| {
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
        nodes: &facts.nodes,
        links,
        names,
        limit_files: &host.root.proc_files(&subject.entry.name),
        records: &host.root.network(),
        answerer: &host.root.kernel_socket(&subject.entry.name),
        machine,
        immutable: Profile::of(config).map(|profile| Immutable {
            profile,
            access: options.access,
        }),
        ready_only: verb == Verb::Ready,
    })
}

/// Asks the brand for the init of a zone. The brand searches the zone's root as the zone will see
/// it. Sparse zones run zinit and need no search.
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
    // The root is mounted in a temporary mount namespace, which ends with this call. Any existing
    // folder can be the mount point, so no folder is made.
    root_view::with_view(stack, inherited, root_view::any_folder(scratch), ask)
}

/// Returns the plan as a file in memory, for zoneadmd.
pub fn as_file(plan: &BootPlan) -> std::io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    file.write_all(&serde_json::to_vec(plan)?)?;
    file.rewind()?;
    Ok(file.into())
}
