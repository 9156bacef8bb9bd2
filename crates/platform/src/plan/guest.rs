//! The plan of a guest: makes QEMU's command line and the list of its descriptors from a
//! configuration and facts of the host.

use std::path::PathBuf;

use model::config::machine::MEMORY_UNIT;
use model::plan::network::Link;
use model::plan::{Init, MachineFile, MachineParts, PlatformStep};
use model::{Config, Uuid};
use vm::{Accelerator, Boot, Machine, Nic};

use kernelzone::USER;
use kernelzone::facts::Facts;
use kernelzone::record::Start;

/// The environment variables of QEMU.
const ENVIRONMENT: &[&str] = &["PATH=/usr/bin", "HOME=/", "LC_ALL=C"];

/// Returns the guest that a configuration describes.
pub fn machine(
    config: &Config,
    uuid: Option<Uuid>,
    facts: &Facts,
    links: &[Link],
    words: &[String],
) -> Machine {
    Machine {
        name: config.name().to_string(),
        uuid: uuid.map(|uuid| uuid.to_string()),
        accelerator: facts.accelerator,
        model: facts.record.model.clone(),
        cpus: config.machine_cpus(),
        memory: config.machine_memory() / MEMORY_UNIT * MEMORY_UNIT,
        boot: boot(facts, words),
        uefi: facts.flash.as_ref().map(|flash| flash.uefi),
        disks: facts.disks.iter().map(|files| files.disk.clone()).collect(),
        nics: links
            .iter()
            .filter_map(|link| {
                Some(Nic {
                    mac: link.mac?.to_string(),
                    port: facts.record.card_port(&link.name),
                })
            })
            .collect(),
        room: facts.record.room,
        ports: facts.record.ports,
        incoming: false,
    }
}

fn boot(facts: &Facts, words: &[String]) -> Boot {
    match &facts.record.start {
        Start::Firmware | Start::Installer { .. } => Boot::Firmware,
        Start::Kernel {
            initrd,
            command_line,
        } => {
            let mut line = command_line.clone();
            // If the guest is emulated and the host is busy, the guest's kernel cannot measure one
            // clock by another. The HPET states its own frequency.
            if facts.accelerator == Accelerator::Tcg {
                line.push_str(" clocksource=hpet no_timer_check");
            }
            for word in words {
                line.push(' ');
                line.push_str(match word.as_str() {
                    // Every Linux init knows single-user mode by this name.
                    "-s" => "single",
                    other => other,
                });
            }
            Boot::Kernel {
                kernel: brand::kz::KERNEL.to_owned(),
                initrd: initrd.then(|| brand::kz::INITRD.to_owned()),
                command_line: line,
            }
        }
    }
}

/// Returns QEMU as the zone's only process.
pub(crate) fn init(machine: &Machine, facts: &Facts) -> Init {
    let path = facts.qemu.path.clone();
    let mut arguments = vec![path.display().to_string()];
    arguments.extend(machine.command_line());
    Init {
        bound: false,
        path: Some(path),
        arguments,
        environment: ENVIRONMENT.iter().map(|&one| one.to_owned()).collect(),
        user: USER,
    }
}

/// QEMU's option with the command line of the guest's kernel.
const APPEND: &str = "-append";

/// Returns those of QEMU's arguments that a boot can change.
pub fn words_of_boot(init: &Init) -> Init {
    let line = append(init).map(|line| [APPEND.to_owned(), line.to_owned()]);
    Init {
        arguments: line.into_iter().flatten().collect(),
        ..init.clone()
    }
}

fn append(init: &Init) -> Option<&str> {
    let words = &init.arguments;
    let at = words.iter().position(|word| word == APPEND)?;
    words.get(at + 1).map(String::as_str)
}

/// Returns QEMU's command line from the time when the zone became ready, which fits the open
/// descriptors, with the [`words_of_boot`] of this boot.
pub fn made_ready(made: &Init, asked: &Init) -> Init {
    let mut init = made.clone();
    let place = init.arguments.iter().position(|word| word == APPEND);
    let place = place.and_then(|at| init.arguments.get_mut(at + 1));
    if let (Some(place), Some(line)) = (place, append(asked)) {
        line.clone_into(place);
    }
    init
}

/// Returns the step that opens the guest's files, in the order of [`vm::Descriptors`].
pub(crate) fn step(
    config: &Config,
    machine: &Machine,
    facts: &Facts,
    links: &[Link],
) -> PlatformStep {
    let [monitor, console, agent] = facts.sockets.clone();
    let disks = facts.disks.iter().flat_map(|files| {
        let parts = files.disk.parts.iter().zip(&files.paths).enumerate();
        parts.map(|(place, (part, path))| MachineFile {
            path: path.clone(),
            read_only: files.disk.read_only || place > 0,
            direct: part.direct,
        })
    });
    let flash = facts.flash.iter().flat_map(|flash| {
        let parts = [(&flash.code, true), (&flash.vars, false)];
        parts.map(|(path, read_only)| MachineFile {
            path: path.clone(),
            read_only,
            direct: false,
        })
    });
    PlatformStep::Machine(Box::new(MachineParts {
        faults: false,
        memory: machine.memory,
        large_pages: config.machine_large_pages(),
        monitor,
        console,
        agent,
        files: disks.chain(flash).collect(),
        cards: links
            .iter()
            .filter(|link| link.mac.is_some())
            .map(|link| link.name.clone())
            .collect(),
        user: USER,
    }))
}

/// Returns the files of the host that QEMU sees, in the order in which they are held.
pub(crate) fn shown(facts: &Facts) -> Vec<PathBuf> {
    let mut paths = facts.qemu_files.clone();
    // A folder that QEMU sees already includes the files in the folder.
    if !paths.iter().any(|dir| facts.qemu.path.starts_with(dir)) {
        paths.push(facts.qemu.path.clone());
    }
    paths.sort();
    paths.dedup();
    let all = paths.clone();
    paths.retain(|path| !all.iter().any(|dir| dir != path && path.starts_with(dir)));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(words: &str) -> Init {
        Init {
            bound: false,
            path: Some("/usr/bin/qemu".into()),
            arguments: words.split(' ').map(str::to_owned).collect(),
            environment: Vec::new(),
            user: USER,
        }
    }

    #[test]
    fn a_machine_that_is_ready_is_started_as_it_was_made() {
        let made = init("qemu -m 512M -append root=/dev/vda -blockdev fd3");
        let asked = init("qemu -m 1024M -append single -blockdev fd3 -blockdev fd4");
        let few = words_of_boot(&asked);
        assert_eq!(few.arguments, ["-append", "single"]);
        let line = "qemu -m 512M -append single -blockdev fd3";
        assert_eq!(made_ready(&made, &few), init(line));
        // A guest that boots from its disk gets no kernel command line.
        let firmware = init("qemu -m 512M");
        assert_eq!(words_of_boot(&firmware).arguments, [""; 0]);
        assert_eq!(made_ready(&firmware, &words_of_boot(&firmware)), firmware);
    }
}
