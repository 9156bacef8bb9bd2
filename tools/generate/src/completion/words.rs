//! Generates the texts that replace the names in templates, in the syntax of each shell.

use model::brands::BRANDS;
use model::table::{GLOBAL, Kind, PropertySpec, RESOURCES};
use model::verb::Admission;
use model::{State, Verb};
use store::template;
use syntax::command::{Scope, VERBS};

use crate::programs::{self, Flag, IMAGE_SUBCOMMANDS, SUBCOMMANDS, SUSPEND_SUBCOMMANDS};

/// Returns the lines for a name; `None` if there is no such name.
pub fn lines(name: &str, shell: &str) -> Option<Vec<String>> {
    Some(match name {
        "zoneadm-options" => flags(&programs::zoneadm(), shell),
        "zonecfg-options" => flags(&programs::zonecfg(), shell),
        "zoneimg-options" => flags(&programs::zoneimg(), shell),
        "zoneimg-subcommands" => {
            let help = std::iter::once(("help", "Prints usage".to_owned()));
            let named = IMAGE_SUBCOMMANDS
                .iter()
                .map(|one| (one.name, first_sentence(one.help)));
            described(help.chain(named), shell)
        }
        "zoneimg-suboptions" => IMAGE_SUBCOMMANDS
            .iter()
            .flat_map(|one| suboptions(one.name, &programs::told(one.form, one.help), shell))
            .collect(),
        "zonesuspend-subcommands" => {
            let help = std::iter::once(("help", "Prints usage".to_owned()));
            let named = SUSPEND_SUBCOMMANDS
                .iter()
                .map(|one| (one.name, first_sentence(one.help)));
            described(help.chain(named), shell)
        }
        "zonesuspend-suboptions" => SUSPEND_SUBCOMMANDS
            .iter()
            .flat_map(|one| suboptions(one.name, &programs::told(one.form, one.help), shell))
            .collect(),
        "zoneadm-subcommands" => {
            let named = SUBCOMMANDS
                .iter()
                .map(|one| (one.name, first_sentence(one.help)));
            described(named, shell)
        }
        "zoneadm-states" => SUBCOMMANDS
            .iter()
            .filter_map(|one| Some((one.name, states(programs::verb(one.name)?))))
            .map(|(name, states)| case(name, &states, shell))
            .collect(),
        "zoneadm-suboptions" => SUBCOMMANDS
            .iter()
            .flat_map(|one| suboptions(one.name, &programs::flags(one), shell))
            .collect(),
        "zonecfg-commands" => {
            // Each subcommand with the scopes in which it is valid: g, r or both.
            let named = VERBS.iter().map(|row| (row.name, first_sentence(row.help)));
            described(named, shell)
        }
        "zonecfg-command-options" => VERBS
            .iter()
            .map(|row| (row.name, programs::forms(row.usage)))
            .filter(|(_, flags)| !flags.is_empty())
            .map(|(name, flags)| {
                let names: Vec<&str> = flags.iter().map(|flag| flag.name.as_str()).collect();
                case(name, &names.join(" "), shell)
            })
            .collect(),
        "zonecfg-resource-commands" => vec![words(
            VERBS
                .iter()
                .filter(|row| row.scope != Scope::Global)
                .map(|row| row.name),
            shell,
        )],
        "zonecfg-global-commands" => vec![words(
            VERBS
                .iter()
                .filter(|row| row.scope != Scope::Resource)
                .map(|row| row.name),
            shell,
        )],
        "zonecfg-resources" => {
            let named = RESOURCES
                .iter()
                .map(|spec| (spec.name, first_sentence(spec.help)));
            described(named, shell)
        }
        "zonecfg-properties" => properties(shell, |_| true),
        "zonecfg-clearable" => properties(shell, |spec| spec.clearable),
        "zonecfg-lists" => properties(shell, PropertySpec::is_list),
        "zonecfg-values" => values(shell),
        "zonecfg-templates" => vec![words(template::built_in(), shell)],
        _ => return None,
    })
}

/// Returns the states in which a verb is permitted.
fn states(verb: Verb) -> String {
    let states = State::ALL.into_iter();
    let names: Vec<&str> = states
        .filter(|state| verb.admission(*state) == Admission::Go)
        .map(State::as_str)
        .collect();
    names.join(" ")
}

/// Returns the names of properties: those of the zone, and those of each resource.
fn properties(shell: &str, which: impl Fn(&PropertySpec) -> bool) -> Vec<String> {
    let names = |specs: &[PropertySpec]| {
        let names: Vec<&str> = specs
            .iter()
            .filter(|one| which(one))
            .map(|one| one.name)
            .collect();
        names.join(" ")
    };
    let resources = RESOURCES
        .iter()
        .map(|spec| (spec.name, names(spec.properties)));
    std::iter::once(("global", names(GLOBAL)))
        .chain(resources)
        .filter(|(_, names)| !names.is_empty())
        .map(|(scope, names)| case(scope, &names, shell))
        .collect()
}

/// Returns the values of properties that have only a few possible values.
fn values(shell: &str) -> Vec<String> {
    let of = |scope: &str, specs: &[PropertySpec]| -> Vec<String> {
        let known = specs.iter().filter_map(|spec| {
            let values: Vec<&str> = match spec.kind {
                Kind::Words(words) | Kind::OneOf(words, _) => words.to_vec(),
                Kind::Bool => vec!["true", "false"],
                Kind::Enum(words) => words.to_vec(),
                Kind::Brand => BRANDS.iter().map(|brand| brand.name).collect(),
                Kind::FsType => vec!["lofs", "tmpfs", "ext4", "btrfs", "xfs", "zfs"],
                _ => return None,
            };
            Some(case(
                &format!("{scope}:{}", spec.name),
                &values.join(" "),
                shell,
            ))
        });
        known.collect()
    };
    let mut lines = of("global", GLOBAL);
    for spec in RESOURCES {
        lines.extend(of(spec.name, spec.properties));
    }
    lines
}

/// Returns an arm of a `case` (`switch` in fish) that prints words.
fn case(pattern: &str, words: &str, shell: &str) -> String {
    match shell {
        "fish" => {
            let lines = words.replace(' ', "\\n");
            format!("case {pattern}; printf '{lines}\\n'")
        }
        _ => format!("{pattern}) echo '{words}' ;;"),
    }
}

fn words<'a>(words: impl Iterator<Item = &'a str>, shell: &str) -> String {
    let words: Vec<&str> = words.collect();
    match shell {
        "fish" => format!("printf '{}\\n'", words.join("\\n")),
        _ => format!("echo '{}'", words.join(" ")),
    }
}

/// Returns words with their descriptions, if the shell shows them.
fn described<'a>(named: impl Iterator<Item = (&'a str, String)>, shell: &str) -> Vec<String> {
    match shell {
        "bash" => vec![words(named.map(|(name, _)| name), shell)],
        "zsh" => named
            // In zsh, a colon ends the described word.
            .map(|(name, help)| format!("'{name}:{}'", in_quotes(&help, shell).replace(':', "\\:")))
            .collect(),
        _ => named
            .map(|(name, help)| format!("printf '%s\\t%s\\n' {name} '{}'", in_quotes(&help, shell)))
            .collect(),
    }
}

fn flags(flags: &[Flag], shell: &str) -> Vec<String> {
    described(
        flags
            .iter()
            .map(|flag| (flag.name.as_str(), flag.help.clone())),
        shell,
    )
}

/// Returns the options of one subcommand.
fn suboptions(name: &str, flags: &[Flag], shell: &str) -> Vec<String> {
    if flags.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = flags.iter().map(|flag| flag.name.as_str()).collect();
    match shell {
        "fish" => {
            let mut lines = vec![format!("case {name}")];
            lines.extend(
                self::flags(flags, shell)
                    .into_iter()
                    .map(|line| format!("    {line}")),
            );
            lines
        }
        "zsh" => {
            let words = described(
                flags
                    .iter()
                    .map(|flag| (flag.name.as_str(), flag.help.clone())),
                shell,
            );
            vec![format!("{name}) options=({}) ;;", words.join(" "))]
        }
        _ => vec![case(name, &names.join(" "), shell)],
    }
}

/// Returns the text up to the first colon or full stop: the part that fits beside a word.
fn first_sentence(text: &str) -> String {
    let text = text.replace('\n', " ");
    let ends = [text.find(". "), text.find(": ")];
    let end = ends.into_iter().flatten().min().unwrap_or(text.len());
    text[..end].trim_end_matches(['.', ',', ':']).to_owned()
}

/// Escapes a text for single quotes.
pub fn in_quotes(text: &str, shell: &str) -> String {
    let quote = if shell == "fish" { "\\'" } else { "'\\''" };
    text.replace('\'', quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_of_the_shell() {
        assert_eq!(case("a:b", "x y", "bash"), "a:b) echo 'x y' ;;");
        assert_eq!(case("a:b", "x y", "fish"), "case a:b; printf 'x\\ny\\n'");
    }

    #[test]
    fn states_are_those_of_the_table_of_verbs() {
        assert_eq!(states(Verb::Boot), "installed ready");
        assert_eq!(states(Verb::Unmount), "mounted");
    }

    #[test]
    fn descriptions_are_short() {
        assert_eq!(first_sentence("Lists zones: one.\nTwo."), "Lists zones");
        assert_eq!(first_sentence("Halts it. Boots it."), "Halts it");
        assert_eq!(first_sentence("Ends."), "Ends");
    }
}
