//! Lists the options of the programs, for completion.

use model::{State, Verb};
use syntax::help;

// The table of zoneadm, which is pure data.
#[allow(dead_code, reason = "examples are for its own help")]
#[path = "../../../bin/zoneadm/src/subcommands.rs"]
mod subcommands;

// The table of zoneimg.
#[allow(dead_code, reason = "examples are for its own help")]
#[path = "../../../bin/zoneimg/src/subcommands.rs"]
mod images;

// The table of zonesuspend.
#[allow(dead_code, reason = "examples are for its own help")]
#[path = "../../../bin/zonesuspend/src/subcommands.rs"]
mod suspend;

pub use cli::command::Subcommand;
pub use images::SUBCOMMANDS as IMAGE_SUBCOMMANDS;
pub use subcommands::SUBCOMMANDS;
pub use suspend::SUBCOMMANDS as SUSPEND_SUBCOMMANDS;

/// The kind of value that an option has as its argument, or that an operand has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A zone in one of these states; in any state if the list is empty.
    Zone(Vec<State>),
    /// The uuid of a zone.
    Uuid,
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A user of the host.
    User,
    /// An image, by its name.
    Image,
    /// One word of this list.
    Words(&'static [&'static str]),
    /// Any text.
    Text,
}

/// An option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The name with its dash or dashes.
    pub name: String,
    /// The kind of the option's argument; `None` if it has none.
    pub argument: Option<Argument>,
    /// The description in a few words.
    pub help: String,
}

/// A program that has options and no subcommands.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: &'static str,
    pub flags: Vec<Flag>,
    /// The kind of its first operand.
    pub operand: Option<Argument>,
    /// If this option is given, the first operand is a zone in one of these states.
    pub other: Option<(&'static str, Vec<State>)>,
}

fn flag(name: &str, argument: Option<Argument>, help: &str) -> Flag {
    Flag {
        name: name.to_owned(),
        argument,
        help: help.to_owned(),
    }
}

/// Returns the programs without subcommands. tests/completion compares them with `--help`.
pub fn plain() -> Vec<Program> {
    use Argument::{Text, User, Words, Zone};
    let installed = State::ALL
        .into_iter()
        .filter(|state| *state >= State::Installed);
    let active = State::ALL.into_iter().filter(|state| state.is_active());
    vec![
        Program {
            name: "zlogin",
            flags: vec![
                flag("-C", None, "the zone's console"),
                flag("-d", None, "with -C: leave when the zone halts"),
                flag("-E", None, "no escape character"),
                flag("-e", Some(Text), "this escape character"),
                flag("-i", None, "a terminal for the command, too"),
                flag("-l", Some(User), "as this user"),
                flag("-n", None, "standard input is empty"),
                flag("-Q", None, "without messages of zlogin's own"),
                flag("-S", None, "a plain shell, without login"),
                flag("-T", None, "the trusted path into an immutable zone"),
                flag(
                    "-U",
                    None,
                    "as -T, with the folders that the zone can write to",
                ),
                flag("--cwd", Some(Text), "the folder in which the command runs"),
                flag(
                    "--env",
                    Some(Text),
                    "a variable for the command, NAME=VALUE",
                ),
            ],
            operand: Some(Zone(vec![State::Running])),
            other: Some(("-C", installed.clone().collect())),
        },
        Program {
            name: "zps",
            flags: vec![
                flag("-A", None, "all processes (the default)"),
                flag("-e", None, "all processes (the default)"),
                flag("-f", None, "more columns"),
                flag("-j", None, "as JSON"),
                flag("--json", None, "as JSON"),
                flag("-M", None, "the label of the zone"),
                flag("-o", Some(Text), "these columns"),
                flag("-p", Some(Text), "these processes"),
                flag("-R", Some(Argument::Folder), "alternate root"),
                flag("-w", None, "lines as long as they are"),
                flag("-Z", None, "the zone first"),
                flag("-z", Some(Zone(active.collect())), "processes of this zone"),
            ],
            operand: None,
            other: None,
        },
        Program {
            name: "zonecluster",
            flags: vec![
                flag("-n", None, "add: print, and change nothing"),
                flag("-d", Some(Text), "add: the device of the zonepath"),
                flag(
                    "-s",
                    Some(Text),
                    "add: the resource that provides the storage",
                ),
                flag("-t", Some(Text), "add: the type of its file system"),
                flag("-o", Some(Text), "add: options of the mount"),
                flag("-p", Some(Text), "add: the command of the health check"),
                flag("-H", Some(Text), "add: hosts, the preferred first"),
                flag(
                    "--guest",
                    Some(Text),
                    "add: the guest node that the zone is",
                ),
                flag("--guest-address", Some(Text), "add: its address"),
                flag(
                    "--shared-disks",
                    None,
                    "add: a kernel zone whose disks every host has",
                ),
            ],
            operand: Some(Words(&[
                "add", "update", "remove", "status", "move", "evacuate", "return",
            ])),
            other: None,
        },
        Program {
            name: "clzonecluster",
            flags: vec![
                flag("-n", Some(Text), "only on these hosts"),
                flag(
                    "-f",
                    Some(Argument::File),
                    "configure, export: the file; move: the zonepath",
                ),
                flag("-p", Some(Text), "set: a property and its value"),
                flag("-v", None, "show-rev: also corosync and pacemaker"),
                flag(
                    "-F",
                    None,
                    "uninstall: do not ask; delete: also without hosts that do not answer",
                ),
                flag(
                    "-Z",
                    Some(Text),
                    "clone: the zone cluster that is installed",
                ),
                flag("-w", None, "boot: writable until the next boot"),
                flag("-W", None, "boot: writable until the zone is set up"),
                flag("-j", None, "status: as JSON"),
                flag("-a", Some(Argument::File), "install: the archive"),
                flag(
                    "-d",
                    Some(Argument::Folder),
                    "install: the folder; apply: only show the changes",
                ),
                flag("-i", Some(Text), "install: the image"),
                flag("-x", Some(Text), "install: an option of the brand"),
                flag("-m", Some(Words(&["copy"])), "clone: copy the files"),
                flag(
                    "--from",
                    Some(Text),
                    "apply: the host whose configuration all take",
                ),
            ],
            operand: Some(Words(&[
                "apply",
                "boot",
                "clone",
                "configure",
                "delete",
                "export",
                "halt",
                "install",
                "list",
                "move",
                "ready",
                "reboot",
                "set",
                "show",
                "show-rev",
                "status",
                "uninstall",
                "verify",
            ])),
            other: None,
        },
        Program {
            name: "fence_zone",
            flags: vec![
                flag(
                    "-o",
                    Some(Words(&[
                        "off",
                        "on",
                        "reboot",
                        "status",
                        "list",
                        "monitor",
                        "metadata",
                        "validate-all",
                    ])),
                    "the action",
                ),
                flag("-n", Some(Text), "the host name of the node's zone"),
                flag("-v", None, "print each request"),
            ],
            operand: None,
            other: None,
        },
        Program {
            name: "zonep2vchk",
            flags: vec![
                flag("-b", None, "basic checks"),
                flag("-c", None, "commands for zonecfg"),
                flag(
                    "-f",
                    Some(Argument::File),
                    "the configuration of a container",
                ),
                flag("-j", None, "as JSON"),
                flag("--json", None, "as JSON"),
                flag("-P", None, "for programs"),
                flag(
                    "-R",
                    Some(Argument::Folder),
                    "the system below this directory",
                ),
                flag(
                    "-S",
                    Some(Argument::File),
                    "programs at the paths in this file",
                ),
                flag(
                    "-s",
                    Some(Argument::File),
                    "programs at this path and below",
                ),
                flag(
                    "-T",
                    Some(Argument::Words(&["S10", "S11"])),
                    "zones as there",
                ),
                flag("-V", None, "the version"),
            ],
            operand: None,
            other: None,
        },
        Program {
            name: "zonestat",
            flags: zonestat(),
            operand: None,
            other: None,
        },
        Program {
            name: "zonepatch",
            flags: vec![
                flag(
                    "--activate",
                    Some(Argument::Words(&["next", "now"])),
                    "running zones, too",
                ),
                flag(
                    "--dist-upgrade",
                    None,
                    "with packages installed and removed",
                ),
                flag("-g", None, "the global zone first"),
                flag("--health", Some(Text), "succeeds in zones that are well"),
                flag("-j", None, "as JSON"),
                flag("--live", None, "running zones, too, in place"),
                flag("-n", None, "show what would be done"),
                flag("--no-share", None, "each zone by its own package manager"),
                flag(
                    "--time-limit",
                    Some(Text),
                    "seconds for the package manager of a zone",
                ),
                flag("-P", Some(Text), "so many zones at a time"),
                flag(
                    "--progress",
                    Some(Argument::Words(&["json"])),
                    "progress and errors as lines of JSON",
                ),
                flag("-R", Some(Argument::Folder), "alternate root"),
                flag("--security", None, "what a security archive has"),
                flag("-t", Some(Text), "behind this patch"),
                flag("-z", Some(Zone(installed.collect())), "zone, glob or range"),
            ],
            operand: Some(Argument::Words(&[
                "apply", "help", "history", "plan", "recover", "remove", "rollback", "status",
            ])),
            other: None,
        },
        Program {
            name: "zones-service",
            flags: vec![
                flag("-j", None, "as JSON"),
                flag("--json", None, "as JSON"),
                flag("-n", None, "show what would be done"),
                flag("--dry-run", None, "show what would be done"),
                flag("-R", Some(Argument::Folder), "alternate root"),
                flag("-t", Some(Text), "so many seconds for stop"),
                flag("--timeout", Some(Text), "so many seconds for stop"),
                flag("--now", Some(Text), "this time for slide"),
            ],
            operand: Some(Argument::Words(&["slide", "start", "stop"])),
            other: None,
        },
        Program {
            name: "tncfg",
            flags: vec![
                flag("-f", Some(Argument::File), "the commands in this file"),
                flag("-R", Some(Argument::Folder), "alternate root"),
                flag("-t", Some(Text), "this template of hosts"),
                flag("-z", Some(Zone(Vec::new())), "the ports of this zone"),
            ],
            operand: Some(Argument::Words(&[
                "add", "clear", "commit", "create", "delete", "export", "get", "help", "info",
                "list", "remove", "select", "set", "verify",
            ])),
            other: None,
        },
        Program {
            name: "zonename",
            flags: Vec::new(),
            operand: None,
            other: None,
        },
    ]
    .into_iter()
    .chain(labels())
    .collect()
}

/// Returns the commands of labels, which are links to zonelabel.
fn labels() -> Vec<Program> {
    let root = || flag("-R", Some(Argument::Folder), "alternate root");
    let short = || flag("-s", None, "short names");
    let long = || flag("-S", None, "long names (the default)");
    let sensitivity = || flag("-s", None, "sensitivity labels (the default)");
    let clearance = || flag("-c", None, "clearances");
    let program = |name, flags, operand| Program {
        name,
        flags,
        operand,
        other: None,
    };
    vec![
        program(
            "chk_encodings",
            vec![
                flag("-a", None, "what the file says, and remarks"),
                flag("-c", Some(Argument::Text), "the highest classification"),
                root(),
            ],
            Some(Argument::File),
        ),
        program(
            "atohexlabel",
            vec![clearance(), root(), sensitivity()],
            None,
        ),
        program(
            "hextoalabel",
            vec![clearance(), root(), sensitivity()],
            None,
        ),
        program("plabel", vec![root(), long(), short()], None),
        program(
            "getlabel",
            vec![root(), long(), short()],
            Some(Argument::File),
        ),
    ]
}

/// Returns the options of zonestat: those of Solaris 11, those of the dashboard, and those that
/// only this zonestat has.
fn zonestat() -> Vec<Flag> {
    use Argument::{Folder, Text, Words, Zone};
    vec![
        flag("--dashboard", None, "the dashboard of 2009"),
        flag("-j", None, "as JSON"),
        flag("--json", None, "as JSON"),
        flag("-l", None, "the dashboard with limits"),
        flag("-N", None, "the dashboard with names in full"),
        flag("-n", Some(Text), "resources of these names"),
        flag("--openmetrics", None, "for Prometheus"),
        flag("-P", None, "lines with -p, else the dashboard with colons"),
        flag("-p", None, "for programs"),
        flag("-q", None, "reports only"),
        flag(
            "-R",
            Some(Words(&["total", "average", "high"])),
            "reports over all intervals",
        ),
        flag("-r", Some(Words(RESOURCES)), "these resources"),
        flag("--root", Some(Folder), "alternate root"),
        flag("-S", Some(Words(SORTS)), "sorted by"),
        flag("--serve", None, "serve figures for Prometheus"),
        flag("-T", Some(Words(&["u", "d", "i"])), "with the time"),
        flag("--tui", None, "full screen"),
        flag(
            "-z",
            Some(Zone(
                State::ALL
                    .into_iter()
                    .filter(|state| state.is_active())
                    .collect(),
            )),
            "this zone",
        ),
    ]
}

const RESOURCES: &[&str] = &[
    "summary",
    "physical-memory",
    "virtual-memory",
    "locked-memory",
    "memory",
    "processor-set",
    "psets",
    "default-pset",
    "processes",
    "lwps",
    "lofi",
    "limits",
    "shm-memory",
    "shm-ids",
    "sem-ids",
    "msg-ids",
    "sysv",
    "network",
    "disk",
    "pressure",
    "all",
];

const SORTS: &[&str] = &[
    "name",
    "used",
    "cap",
    "pcap",
    "shr",
    "pshru",
    "cpu",
    "physical-memory",
    "virtual-memory",
];

/// Returns the verb of a subcommand, if it acts on a zone.
pub fn verb(name: &str) -> Option<Verb> {
    serde_json::from_value(name.into()).ok()
}

/// Returns the options of zoneadm that precede its subcommand.
pub fn zoneadm() -> Vec<Flag> {
    vec![
        flag(
            "--progress=json",
            None,
            "progress and errors as lines of JSON",
        ),
        flag("-R", Some(Argument::Folder), "alternate root"),
        flag("-u", Some(Argument::Uuid), "the zone with this uuid"),
        flag(
            "-z",
            Some(Argument::Zone(Vec::new())),
            "zone, glob or range",
        ),
    ]
}

/// Returns the options of zoneimg that precede its subcommand.
pub fn zoneimg() -> Vec<Flag> {
    vec![flag("-R", Some(Argument::Folder), "alternate root")]
}

/// Returns the options of zonecfg that its usage shows.
pub fn zonecfg() -> Vec<Flag> {
    let mut flags = forms(help::USAGE);
    for one in &mut flags {
        let (argument, text) = match one.name.as_str() {
            "-z" => (Some(Argument::Zone(Vec::new())), "zone"),
            "-u" => (Some(Argument::Uuid), "the zone with this uuid"),
            "-f" => (Some(Argument::File), "commands from a file"),
            "-R" => (Some(Argument::Folder), "alternate root"),
            "-r" => (None, "the running configuration"),
            "--atomic" => (None, "save all changes or none"),
            "--digest" => (None, "print the digest of the configuration"),
            "--expect" => (Some(Argument::Text), "refuse another digest"),
            _ => continue,
        };
        one.argument = argument;
        one.help = text.to_owned();
    }
    flags
}

/// Returns the options of a subcommand of zoneadm, parsed from its form and its help.
pub fn flags(one: &Subcommand) -> Vec<Flag> {
    let mut flags = told(one.form, one.help);
    if one.name == "install" {
        flags.push(flag("-a", Some(Argument::File), "from an archive"));
        flags.push(flag("-d", Some(Argument::Folder), "from a directory"));
        flags.push(flag("-i", Some(Argument::Image), "on an image"));
        let ours = Argument::Words(&["image-init", "arch=", "credentials="]);
        flags.push(flag("-x", Some(ours), "what of the image is taken"));
    }
    flags
}

/// Returns the options in the form of a subcommand, with their descriptions in its help.
pub fn told(form: &str, help: &str) -> Vec<Flag> {
    let mut flags = forms(form);
    for flag in &mut flags {
        let told = help.lines().find_map(|line| {
            let (name, text) = line.strip_prefix('\t')?.split_once("  ")?;
            let name = name.split_whitespace().next()?;
            (name == flag.name).then(|| text.trim().to_owned())
        });
        flag.help = match (told, flag.name.as_str()) {
            (Some(text), _) => text,
            (None, "-m") => "how the files are copied".to_owned(),
            (None, "-n") => "show what would be done".to_owned(),
            (None, "-F") => "do not ask".to_owned(),
            (None, "-j") => "as JSON".to_owned(),
            (None, "--") => "options for the zone's init".to_owned(),
            (None, _) => std::mem::take(&mut flag.help),
        };
    }
    flags
}

/// Returns the options in a form such as `list [-cins] [-p | -v] [-m copy] --create`.
pub fn forms(form: &str) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    let mut words = form.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let last = word.ends_with([']', '}']);
        let word = word.trim_matches(['[', ']', '{', '}', '|', ',', '.']);
        let mut names = Vec::new();
        if word.starts_with("--") {
            names.push(word.to_owned());
        } else if let Some(letters) = word.strip_prefix('-') {
            names.extend(letters.chars().map(|letter| format!("-{letter}")));
        }
        for name in names {
            if flags.iter().any(|flag| flag.name == name) {
                continue;
            }
            let next = words.peek().map(|next| next.trim_matches([']', '}', '|']));
            let argument = match next {
                Some("copy") => Some(Argument::Words(&["copy"])),
                Some(next)
                    if !last
                        && name != "--"
                        && !next.is_empty()
                        && !next.starts_with(['-', '[']) =>
                {
                    Some(Argument::Text)
                }
                _ => None,
            };
            flags.push(flag(&name, argument, ""));
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(flags: &[Flag]) -> Vec<&str> {
        flags.iter().map(|flag| flag.name.as_str()).collect()
    }

    #[test]
    fn options_are_read_off_forms() {
        let flags = forms("x [-cin] [-p | -v] [--create] [-m copy] [-f <file>] [-- words]");
        assert_eq!(
            names(&flags),
            ["-c", "-i", "-n", "-p", "-v", "--create", "-m", "-f", "--"]
        );
        let taking: Vec<&Flag> = flags
            .iter()
            .filter(|flag| flag.argument.is_some())
            .collect();
        assert_eq!(taking.len(), 2, "{taking:?}");
        for one in super::zonecfg() {
            assert!(
                !one.help.is_empty(),
                "zonecfg {}: say what it does",
                one.name
            );
        }
    }

    #[test]
    fn every_option_says_what_it_does() {
        for one in SUBCOMMANDS {
            for flag in flags(one) {
                assert!(!flag.help.is_empty(), "zoneadm {} {}", one.name, flag.name);
            }
        }
        for one in IMAGE_SUBCOMMANDS {
            for flag in told(one.form, one.help) {
                assert!(!flag.help.is_empty(), "zoneimg {} {}", one.name, flag.name);
            }
        }
        for one in SUSPEND_SUBCOMMANDS {
            for flag in told(one.form, one.help) {
                let name = &flag.name;
                assert!(!flag.help.is_empty(), "zonesuspend {} {name}", one.name);
            }
        }
        assert_eq!(verb("boot"), Some(Verb::Boot));
        assert_eq!(verb("list"), None);
    }
}
