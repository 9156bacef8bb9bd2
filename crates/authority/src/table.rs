//! The only table of commands that can be delegated.
//!
//! A row is a command and all options and arguments that a user may give it. Commands that have no
//! row cannot be delegated: a new subcommand or option is refused until its row is added. The table
//! has no option that takes a path of the host, an alternate root or a uuid.

use std::fmt;

use crate::Auth;
use crate::Auth::{Clonefrom, Config, Liveconfig, Login, Manage};

/// A program that zoneauthd starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// zoneadm(8)
    Zoneadm,
    /// zlogin(1)
    Zlogin,
    /// zonecfg(8)
    Zonecfg,
}

impl Program {
    /// All programs that zoneauthd starts.
    pub const ALL: [Self; 3] = [Self::Zoneadm, Self::Zlogin, Self::Zonecfg];

    /// Returns the name of the program, which is also the name of its file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zoneadm => "zoneadm",
            Self::Zlogin => "zlogin",
            Self::Zonecfg => "zonecfg",
        }
    }

    /// Returns the program with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An option of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt {
    /// The letter of the option; `None` if it has only a long form.
    pub letter: Option<char>,
    /// The long form of the option, without the dashes.
    pub long: Option<&'static str>,
    /// The kind of value that the option takes.
    pub value: Value,
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The option takes no value.
    None,
    /// The option takes this value only.
    Only(&'static str),
    /// The name of a snapshot, or a digest.
    Name,
    /// Any text; the program checks it.
    Text,
}

/// The arguments that may follow the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// No arguments.
    Nothing,
    /// Words after `--`, for the init of the zone.
    Boot,
    /// The name of a zone, for which the user needs an authorization of [`SOURCE_NEEDS`].
    Source,
    /// The name of a snapshot.
    Name,
    /// Plain words, the given number of them or fewer, but at least the first number.
    Words(usize, usize),
    /// The name of a snapshot, and at least one path in it, but at most this number.
    Moment(usize),
    /// `-` and an absolute path in the zone.
    Push,
    /// Absolute paths in the zone, and `-`.
    Pull,
}

/// A subcommand of zoneadm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verb {
    pub name: &'static str,
    pub options: &'static [Opt],
    pub rest: Rest,
    /// The authorizations for this subcommand; the user needs at least one of them, on each zone.
    pub needs: &'static [Auth],
}

const fn flag(letter: char) -> Opt {
    Opt {
        letter: Some(letter),
        long: None,
        value: Value::None,
    }
}

const fn text(letter: char) -> Opt {
    Opt {
        value: Value::Text,
        ..flag(letter)
    }
}

const fn long(name: &'static str, value: Value) -> Opt {
    Opt {
        letter: None,
        long: Some(name),
        value,
    }
}

/// The option that shows the plan and changes nothing.
const DRY_RUN: Opt = Opt {
    long: Some("dry-run"),
    ..flag('n')
};

const fn manage(name: &'static str, options: &'static [Opt], rest: Rest) -> Verb {
    Verb {
        name,
        options,
        rest,
        needs: &[Manage],
    }
}

const fn view(name: &'static str, needs: &'static [Auth]) -> Verb {
    Verb {
        name,
        options: LIST,
        rest: Rest::Nothing,
        needs,
    }
}

/// The options of the subcommands that print a list.
const LIST: &[Opt] = &[
    flag('p'),
    Opt {
        long: Some("json"),
        ..flag('j')
    },
];

/// The authorizations of users who see the use of the zone: everybody who can change the zone or
/// enter it.
const SEES_USE: &[Auth] = &[Login, Manage, Config, Liveconfig];

/// The authorizations of users who see the content or history of the zone.
const SEES_CONTENT: &[Auth] = &[Login, Manage];

/// The subcommands of zoneadm that act on zones. A name of two words is a subcommand of a
/// subcommand.
pub(crate) const ZONEADM: &[Verb] = &[
    // `boot -w` and `-W` make an immutable zone writable, which only root may do.
    manage("boot", &[DRY_RUN], Rest::Boot),
    manage("halt", &[DRY_RUN], Rest::Nothing),
    manage("ready", &[DRY_RUN], Rest::Nothing),
    manage("reboot", &[DRY_RUN], Rest::Boot),
    manage("shutdown", &[DRY_RUN, flag('r')], Rest::Boot),
    manage("suspend", &[DRY_RUN], Rest::Nothing),
    manage("verify", &[DRY_RUN], Rest::Nothing),
    // `install` takes no options of the brand, because these name archives and folders of the host.
    manage("install", &[DRY_RUN], Rest::Nothing),
    // `uninstall` does not take --delete, because only root deletes configurations.
    manage("uninstall", &[DRY_RUN, flag('F')], Rest::Nothing),
    manage(
        "clone",
        // `clone` does not take --create, which configures zones.
        &[
            DRY_RUN,
            Opt {
                value: Value::Only("copy"),
                ..flag('m')
            },
            Opt {
                value: Value::Name,
                ..flag('s')
            },
        ],
        Rest::Source,
    ),
    manage("snapshot", &[DRY_RUN], Rest::Name),
    manage("rollback", &[DRY_RUN, flag('F')], Rest::Name),
    manage("destroy-snapshot", &[DRY_RUN], Rest::Name),
    manage("merge", &[DRY_RUN], Rest::Nothing),
    Verb {
        needs: &[Liveconfig, Manage],
        ..manage("apply", &[DRY_RUN, flag('q')], Rest::Nothing)
    },
    Verb {
        options: &[
            flag('p'),
            Opt {
                long: Some("json"),
                ..flag('j')
            },
            long("no-size", Value::None),
        ],
        ..view("snapshots", SEES_CONTENT)
    },
    Verb {
        name: "diff",
        options: &[Opt {
            long: Some("json"),
            ..flag('j')
        }],
        rest: Rest::Words(1, 2),
        needs: SEES_CONTENT,
    },
    // A user with `manage` can bring the whole root back, so also single files. Their content is for
    // users who can enter the zone.
    Verb {
        name: "files ls",
        options: &[
            flag('b'),
            Opt {
                long: Some("json"),
                ..flag('j')
            },
        ],
        rest: Rest::Moment(1),
        needs: SEES_CONTENT,
    },
    Verb {
        name: "files cat",
        options: &[flag('b'), flag('e')],
        rest: Rest::Moment(1),
        needs: &[Login],
    },
    Verb {
        name: "files restore",
        options: &[DRY_RUN, flag('b'), flag('k')],
        rest: Rest::Moment(usize::MAX),
        needs: SEES_CONTENT,
    },
    view("storage", SEES_USE),
    view("links", SEES_USE),
    view("rctl", SEES_USE),
    Verb {
        name: "logs",
        options: &[
            flag('f'),
            Opt {
                long: Some("json"),
                ..flag('j')
            },
            text('n'),
        ],
        rest: Rest::Words(0, 3),
        needs: SEES_CONTENT,
    },
    // Boot environments are snapshots and rollbacks. `mount` and `unmount` name folders of the
    // host.
    Verb {
        name: "beadm list",
        options: &[
            flag('H'),
            Opt {
                long: Some("json"),
                ..flag('j')
            },
        ],
        rest: Rest::Words(0, 1),
        needs: SEES_CONTENT,
    },
    manage(
        "beadm create",
        &[
            DRY_RUN,
            flag('a'),
            Opt {
                value: Value::Name,
                ..flag('e')
            },
        ],
        Rest::Words(1, 1),
    ),
    manage(
        "beadm activate",
        &[DRY_RUN, long("now", Value::None)],
        Rest::Words(1, 1),
    ),
    manage("beadm rename", &[DRY_RUN], Rest::Words(2, 2)),
    manage("beadm destroy", &[DRY_RUN, flag('F')], Rest::Words(1, 1)),
    // Files of the host are read and written by the user's own process, which sends or receives a
    // tar stream. The copies belong to users of the zone, so the user must be able to be its root.
    Verb {
        name: "push",
        options: &[DRY_RUN, flag('a'), text('o'), flag('S'), flag('r')],
        rest: Rest::Push,
        needs: &[Login],
    },
    Verb {
        name: "pull",
        options: &[DRY_RUN, flag('a'), flag('S')],
        rest: Rest::Pull,
        needs: &[Login],
    },
];

/// The authorizations for the source of a clone; the user needs at least one of them.
pub(crate) const SOURCE_NEEDS: &[Auth] = &[Clonefrom];

/// The options of zlogin.
pub(crate) const ZLOGIN: &[Opt] = &[
    flag('C'),
    flag('d'),
    flag('E'),
    Opt {
        value: Value::Text,
        ..flag('e')
    },
    flag('i'),
    Opt {
        value: Value::Text,
        ..flag('l')
    },
    flag('n'),
    flag('Q'),
    flag('S'),
    // A folder and variables of the command, which runs in the zone.
    long("cwd", Value::Text),
    long("env", Value::Text),
];

/// The authorizations for zlogin, also for the console: root of the zone controls the console of
/// the zone, too.
pub(crate) const ZLOGIN_NEEDS: &[Auth] = &[Login];

/// The options of zonecfg, except `-z`. `-r`, which needs [`Liveconfig`], can be added when the
/// applied configuration passes the same check as a stored one.
pub(crate) const ZONECFG: &[Opt] = &[
    Opt {
        // `-f` takes only `-`, which is standard input: root would open any other file.
        value: Value::Only("-"),
        ..flag('f')
    },
    long("atomic", Value::None),
    long("expect", Value::Name),
];

/// The authorizations for zonecfg; the user needs at least one of them.
pub(crate) const ZONECFG_NEEDS: &[Auth] = &[Config];
