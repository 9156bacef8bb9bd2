//! plabel(1): prints the labels of processes.

use label::Label;
use store::groups::{self, Groups};
use store::{Root, labels};

use crate::command::{Args, Command};
use crate::names::{self, Names};

pub const COMMAND: Command = Command {
    name: "plabel",
    help: HELP,
    letters: "sS",
    with_argument: None,
    run,
};

const HELP: &str = "\
usage: plabel [-s | -S] [-R root] [pid]...

Prints the label of each process: the label of its zone. Processes of the global
zone have ADMIN_LOW. Without operands, prints the label of plabel itself, without
a process id before it.

Options:
    -s       short names
    -S       long names, which is the default
    -R root  uses the zones below this directory (also ZONES_ROOT)

Exit status: 0 all labels were printed, 1 a process has no label or does not exist,
2 usage.

Examples:
    plabel $$
    plabel -s 4711 4712
    plabel $(zps -z web -o pid=)
";

fn run(args: &Args) -> u8 {
    let root = match names::root_of_host(&COMMAND, args) {
        Ok(root) => root,
        Err(status) => return status,
    };
    let mut pids = Vec::new();
    for operand in &args.operands {
        let number: Option<i32> = operand.to_str().and_then(|text| text.parse().ok());
        let Some(pid) = number.filter(|pid| *pid > 0) else {
            let text = operand.to_string_lossy();
            COMMAND.complain(&format!("'{text}' is no process id"));
            return cli::status::USAGE;
        };
        pids.push(pid);
    }
    let active = match groups::of_host(&root) {
        Ok((active, unreadable)) => {
            // A process of such a zone would be taken for one of the global zone.
            if let Some((zone, error)) = unreadable.first() {
                return COMMAND.complain(&format!("zone {zone}: {error}"));
            }
            active
        }
        Err(error) => return COMMAND.complain(&format!("/proc/self/mountinfo: {error}")),
    };
    let names = Names::read(&root, args);
    if pids.is_empty() {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        return match of(&root, &active, own).and_then(|label| names.text(label)) {
            Ok(text) => {
                println!("{text}");
                cli::status::OK
            }
            Err(why) => COMMAND.complain(&why),
        };
    }
    let mut status = cli::status::OK;
    for pid in pids {
        match of(&root, &active, pid).and_then(|label| names.text(label)) {
            Ok(text) => println!("{pid}: {text}"),
            Err(why) => status = COMMAND.complain(&format!("process {pid}: {why}")),
        }
    }
    status
}

/// Returns the label of a process.
fn of(root: &Root, active: &Groups, pid: i32) -> Result<Label, String> {
    let group = groups::of_process(pid).ok_or("there is no such process")?;
    of_group(root, active, &group)
}

/// Returns the label of the processes in a cgroup.
pub fn of_group(root: &Root, active: &Groups, group: &str) -> Result<Label, String> {
    let Some(zone) = groups::nearest(active, group) else {
        return Ok(Label::ADMIN_LOW);
    };
    match labels::of_zone(root, &zone.name) {
        Ok(Some(label)) => Ok(label),
        Ok(None) => Err(format!("its zone {} has no label", zone.name)),
        Err(error) => Err(format!("zone {}: {error}", zone.name)),
    }
}
