//! The table of subcommands, and the help that is made from it.

use cli::command::{self, Subcommand};

/// Every subcommand, in the order of help.
pub const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "plan",
        form: "plan [-j] [-z zone]... [-P n] [--time-limit seconds] [--security | --dist-upgrade] [package | file]...",
        help: "Shows what apply would change in each zone. Nothing is changed.\n\
               \t-P n  number of zones at a time\n\
               \t--time-limit seconds  for the package manager of a zone, as for apply\n\
               \t-z zone  a zone, glob or range; without it all installed zones\n\
               \t--security  only packages from a security archive\n\
               \t--dist-upgrade  may also install and remove packages\n\
               \t-j  as JSON",
        examples: &["zonepatch plan --security"],
    },
    Subcommand {
        name: "apply",
        form: "apply [-gjn] [-z zone]... [-P n] [--activate next|now | --live] [--health command] [--no-share] [--time-limit seconds] [--security | --dist-upgrade] [package | file]...",
        help: "Updates the packages of zones, several zones at a time. Each zone is updated in a\n\
               private copy, which replaces the zone's root only if it passes verification.\n\
               If zones have the same packages, two are patched and the others share the result.\n\
               Updates all packages, the named packages, or those in local package files. A\n\
               running zone is patched in a new boot environment, with --activate; files that\n\
               it writes to its root until it boots that stay in the old one. Sparse zones\n\
               always follow the host.\n\
               \t-P n  number of zones at a time, at most 1.5 times the CPUs; by default\n\
               \t      num_proc of /etc/patch/pdo.conf, or the CPUs\n\
               \t-g, --global  the global zone first; if that fails no other is touched\n\
               \t-n  shows the planned changes, as plan does\n\
               \t-z zone  a zone, glob or range; without it all installed zones\n\
               \t--activate when  also running zones, at the next boot or with a reboot now\n\
               \t--live  also running zones, in place; a reboot undoes a failed patch\n\
               \t--health command  runs in each patched zone that is up; if it does not succeed\n\
               \t      in time the patch of the zone is undone\n\
               \t--no-share  runs the package manager of each zone\n\
               \t--time-limit seconds  leaves a zone unchanged if its package manager takes\n\
               \t      longer; by default time_limit of /etc/patch/pdo.conf, or 7200; 0 is no limit\n\
               \t--security  only packages from a security archive\n\
               \t--dist-upgrade  may also install and remove packages\n\
               \t-j  as JSON",
        examples: &[
            "zonepatch apply",
            "zonepatch apply -z 'web*' -P 4 --security",
            "zonepatch apply -z web /tmp/fix_1.2_all.deb",
            "zonepatch apply -z web --activate=now",
        ],
    },
    Subcommand {
        name: "remove",
        form: "remove [-j] [-z zone]... [-P n] [--time-limit seconds] patch",
        help: "Returns the packages of a patch to their former versions, which must still be\n\
               in an archive; other changes in the zone stay.\n\
               \t-P n  number of zones at a time\n\
               \t--time-limit seconds  for the package manager of a zone, as for apply\n\
               \t-z zone  a zone, glob or range; without it all that have the patch\n\
               \t-j  as JSON",
        examples: &["zonepatch remove -z web 20261120T213257-412"],
    },
    Subcommand {
        name: "status",
        form: "status [-j] [-z zone]...",
        help: "Shows for each zone its packages, its last patch, and its problems. Zones with\n\
               the same letters under KIND have the same packages.\n\
               \t-z zone  a zone, glob or range; without it all zones\n\
               \t-j  as JSON",
        examples: &["zonepatch status"],
    },
    Subcommand {
        name: "rollback",
        form: "rollback [-j] [-z zone]... [-t patch] [--activate next|now]",
        help: "Returns zones to their state before a patch, byte for byte. Files written to a\n\
               zone since are lost, unless the patch came with a boot environment, which is\n\
               kept. A patch that waits for the zone's next boot is discarded.\n\
               \t-t patch  this patch, as history shows it; without it the last one\n\
               \t--activate when  also running zones, at the next boot or with a reboot now\n\
               \t-z zone  a zone, glob or range; without it all that have the patch\n\
               \t-j  as JSON",
        examples: &["zonepatch rollback -z web"],
    },
    Subcommand {
        name: "history",
        form: "history [-j] [-z zone]...",
        help: "Lists the patches of zones, the oldest first.\n\
               \t-z zone  a zone, glob or range; without it all zones\n\
               \t-j  as JSON, with the packages",
        examples: &["zonepatch history -z web"],
    },
    Subcommand {
        name: "recover",
        form: "recover",
        help: "Removes the leftovers of a killed command, as plan, apply, remove and rollback do\n\
               first. Every zone has either its old or its new root.",
        examples: &["zonepatch recover"],
    },
];

/// The subcommand of that name.
pub fn find(name: &str) -> Option<&'static Subcommand> {
    SUBCOMMANDS.iter().find(|one| one.name == name)
}

/// The complaint about a word that is no subcommand.
pub fn unknown(word: &str) -> String {
    command::unknown(word, SUBCOMMANDS.iter().map(|one| one.name))
}

/// Returns the usage of all subcommands, or of one subcommand.
pub fn usage(verb: Option<&str>) -> String {
    let mut text = String::new();
    let mut head = "usage:";
    for one in SUBCOMMANDS {
        if verb.is_none_or(|verb| verb == one.name) {
            text.push_str(&format!("{head} zonepatch {}\n", one.form));
            head = "      ";
        }
    }
    text
}

/// Returns the help on all subcommands, or on one subcommand.
pub fn help(verb: Option<&str>) -> String {
    let Some(one) = verb.and_then(find) else {
        let mut text = usage(None);
        text.push_str("\nUpdates the packages of many zones with one command.\n\n");
        text.push_str("zonepatch plan              shows the planned changes of each zone\n");
        text.push_str(
            "zonepatch apply -z 'web*'   patches zones, as many at a time as CPUs (-P)\n",
        );
        text.push_str("zonepatch rollback          undoes the last patch\n\n");
        text.push_str("zonepatch [-R root] ... works below an alternate root.\n");
        text.push_str(
            "zonepatch --progress=json ... prints progress and errors as lines of JSON.\n",
        );
        text.push_str("See also zonepatch help SUBCOMMAND and zonepatch(8).\n");
        return text;
    };
    let mut text = format!("usage: zonepatch {}\n\n{}\n", one.form, one.help);
    for (number, example) in one.examples.iter().enumerate() {
        let head = if number == 0 {
            "\nexample: "
        } else {
            "         "
        };
        text.push_str(&format!("{head}{example}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_form() {
        let apply = find("apply").unwrap();
        for option in ["-g", "-P", "-z", "-n", "--no-share", "--security"] {
            assert!(apply.has(option), "{option}");
        }
        assert!(!find("status").unwrap().has("-P"));
        assert!(!find("plan").unwrap().has("-g"));
        assert!(!find("plan").unwrap().has("--no-share"));
    }

    #[test]
    fn help_is_of_all_or_of_one() {
        assert!(help(None).contains("zonepatch apply"));
        assert!(help(Some("rollback")).contains("example: zonepatch rollback -z web"));
        assert_eq!(
            usage(Some("status")),
            "usage: zonepatch status [-j] [-z zone]...\n"
        );
    }
}
