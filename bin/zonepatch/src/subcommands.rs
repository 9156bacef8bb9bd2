//! The table of subcommands, and the help that is made from it.

use cli::command::{self, Subcommand};

/// Every subcommand, in the order of help.
pub const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "plan",
        form: "plan [-j] [-z zone]... [-P n] [--time-limit seconds] [--security | --dist-upgrade] [package | file]...",
        help: "Shows what apply would change in each zone. Nothing is changed.\n\
               \t-P n  so many zones at a time\n\
               \t--time-limit seconds  for the package manager of a zone, as for apply\n\
               \t-z zone  a zone, glob or range; without it all installed zones\n\
               \t--security  only what a security archive has\n\
               \t--dist-upgrade  with packages installed and removed\n\
               \t-j  as JSON",
        examples: &["zonepatch plan --security"],
    },
    Subcommand {
        name: "apply",
        form: "apply [-gjn] [-z zone]... [-P n] [--activate next|now | --live] [--health command] [--no-share] [--time-limit seconds] [--security | --dist-upgrade] [package | file]...",
        help: "Updates the packages of zones, several at a time, each as one transaction:\n\
               in a private copy that is verified and then taken over, or not at all. Zones\n\
               that are alike share the result of two of them. What is updated is everything,\n\
               or the named packages, or what local package files have. A zone that runs is\n\
               patched in a new boot environment, if --activate says when it takes that; what\n\
               it writes to its root until then stays in the former one. Sparse zones follow\n\
               the host, whatever is asked for.\n\
               \t-P n  so many zones at a time, at most 1.5 times the CPUs; otherwise num_proc\n\
               \t      of /etc/patch/pdo.conf, or the CPUs\n\
               \t-g, --global  the global zone first; if that fails no other is touched\n\
               \t-n  shows what would be done, as plan does\n\
               \t-z zone  a zone, glob or range; without it all installed zones\n\
               \t--activate when  running zones, too, for the next boot or with a reboot now\n\
               \t--live  running zones, too, in place; a reboot takes back what fails\n\
               \t--health command  in each zone that runs with its patch; where it does not\n\
               \t      succeed in time the zone is taken back\n\
               \t--no-share  each zone by its own package manager\n\
               \t--time-limit seconds  a zone whose package manager takes longer is left as it\n\
               \t      was; otherwise time_limit of /etc/patch/pdo.conf, or 7200; 0 is no limit\n\
               \t--security  only what a security archive has\n\
               \t--dist-upgrade  with packages installed and removed\n\
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
        help: "Takes the packages of one patch back to their former versions, which must still\n\
               be in an archive; what else was done to the zone since stays.\n\
               \t-P n  so many zones at a time\n\
               \t--time-limit seconds  for the package manager of a zone, as for apply\n\
               \t-z zone  a zone, glob or range; without it all that have the patch\n\
               \t-j  as JSON",
        examples: &["zonepatch remove -z web 20261120T213257-412"],
    },
    Subcommand {
        name: "status",
        form: "status [-j] [-z zone]...",
        help: "Shows for each zone its packages, its last patch, and what is wrong. Zones with\n\
               the same letters under KIND have the same packages.\n\
               \t-z zone  a zone, glob or range; without it all zones\n\
               \t-j  as JSON",
        examples: &["zonepatch status"],
    },
    Subcommand {
        name: "rollback",
        form: "rollback [-j] [-z zone]... [-t patch] [--activate next|now]",
        help: "Takes zones back to what they were before a patch, byte for byte. What was\n\
               written to a zone since is lost, unless the patch came with a boot environment,\n\
               which stays. What a zone was to get with its next boot is thrown away.\n\
               \t-t patch  behind this patch, as history shows it; otherwise the last one\n\
               \t--activate when  a running zone, too, with its next boot or a reboot now\n\
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
        help: "Clears up after a command that was killed, as plan, apply, remove and rollback do\n\
               before anything else. Every zone is the old one or the new one.",
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

/// All forms, or that of one subcommand.
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

/// Help on all, or on one subcommand.
pub fn help(verb: Option<&str>) -> String {
    let Some(one) = verb.and_then(find) else {
        let mut text = usage(None);
        text.push_str("\nUpdates the packages of zones, all of them in one go.\n\n");
        text.push_str("zonepatch plan              shows what would change in each zone\n");
        text.push_str(
            "zonepatch apply -z 'web*'   changes it, as many zones at a time as CPUs (-P)\n",
        );
        text.push_str("zonepatch rollback          takes the last patch back\n\n");
        text.push_str("zonepatch [-R root] ... works below an alternate root.\n");
        text.push_str("zonepatch help SUBCOMMAND tells more; so does zonepatch(8).\n");
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
