//! Builds the text of `help` from the tables.

use model::table::{self, Effect, GLOBAL, Kind, PropertySpec, RESOURCES, ResourceSpec};

use crate::command::{Scope, VERBS, Verb};

/// The synopsis of zonecfg.
pub const USAGE: &str = "usage:\n\
    \tzonecfg help\n\
    \tzonecfg [-R <root>] {-z <zone> | -u <uuid>} [-r]\t\t(interactive)\n\
    \tzonecfg [-R <root>] {-z <zone> | -u <uuid>} [-r] [--atomic] [--expect <digest>] <command>\n\
    \tzonecfg [-R <root>] {-z <zone> | -u <uuid>} [-r] [--atomic] [--expect <digest>] -f <command-file>\n\
    \tzonecfg [-R <root>] {-z <zone> | -u <uuid>} --digest\n";

/// Returns the help text on a subject, or `None` if the subject is unknown.
#[must_use]
pub fn subject(subject: &str) -> Option<String> {
    match subject {
        "usage" => return Some(USAGE.to_owned()),
        "commands" => return Some(commands(None)),
        "syntax" => return Some(syntax()),
        _ => {}
    }
    if let Some(verb) = Verb::find(subject) {
        return Some(command(verb));
    }
    let mut out = String::new();
    if let Some(spec) = table::resource(subject) {
        resource(&mut out, spec);
    }
    if let Some(spec) = table::global(subject) {
        out.push_str(&format!("{}: a property of the zone.\n", spec.name));
        property(&mut out, spec);
    }
    for spec in RESOURCES {
        if let Some(one) = spec.property(subject) {
            out.push_str(&format!("{}: a property of {}.\n", one.name, spec.name));
            property(&mut out, one);
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Returns the list of commands of a scope, or of all commands.
#[must_use]
pub fn commands(scope: Option<Scope>) -> String {
    let mut out = String::from("The commands are:\n");
    for row in VERBS {
        if scope.is_none() || row.scope == Scope::Both || Some(row.scope) == scope {
            beside(&mut out, row.name, first_sentence(row.help));
        }
    }
    out.push_str(
        "\"help <command>\" shows the usage of a command, \"help syntax\" lists properties,\n\
         \"help <name>\" explains a resource or property.\n",
    );
    out
}

/// Returns the usage lines of a command, which are printed after a syntax error.
#[must_use]
pub fn usage(verb: Verb) -> String {
    format!("usage:\n{}\n", verb.spec().usage)
}

fn command(verb: Verb) -> String {
    let mut out = usage(verb);
    wrap(&mut out, "", verb.spec().help);
    let examples = examples(verb.spec().name);
    if !examples.is_empty() {
        out.push_str("examples:\n");
        examples
            .lines()
            .for_each(|line| out.push_str(&format!("    {line}\n")));
    }
    out
}

/// Returns examples of a command or resource, if examples are more useful than a description.
fn examples(name: &str) -> &'static str {
    match name {
        "add" => "add fs\nadd options ro          (in the resource fs)",
        "clear" => "clear bootargs",
        "create" => {
            "create\ncreate -b\ncreate -t SYSsmall            (the host's software, the small init zinit)\ncreate -t SYSsystemd          (a root of its own, systemd as on a machine)\ncreate -t SUNWlx              (another distribution)"
        }
        "export" => "export -f /root/web1.cfg",
        "info" => "info\ninfo autoboot\ninfo fs dir=/data",
        "remove" => "remove fs dir=/data\nremove options ro       (in the resource fs)",
        "select" => "select fs dir=/data",
        "set" => {
            "set autoboot=true\nset bootargs=\"-m verbose\"\nset options=[ro,nodev]  (in the resource fs)"
        }
        "fs" => "add fs; set dir=/data; set special=/srv/data; set type=lofs; end",
        "net" => "add net; set physical=eth0; set address=192.0.2.7/24; end",
        "capped-memory" => "add capped-memory; set physical=512m; end",
        "capped-cpu" => "add capped-cpu; set ncpus=1.5; end",
        "rctl" => {
            "add rctl; set name=zone.max-lwps\nadd value (priv=privileged,limit=500,action=deny); end"
        }
        "snapshots" => "add snapshots; set hourly=48; set max-size=2g; end",
        "attr" => "add attr; set name=owner; set type=string; set value=\"the web team\"; end",
        "admin" => "add admin; set user=alice; set auths=login,manage; end",
        _ => "",
    }
}

fn syntax() -> String {
    let mut out = String::from(
        "A command is a word, its object and its values. \";\" or a new line ends it,\n\
         \"#\" begins a comment.\n\
         <zone> := [A-Za-z0-9][A-Za-z0-9_.-]*\n\
         <property-value> := <simple> | <complex> | <list>\n\
         <simple> := a word, or any text in double quotes\n\
         <complex> := (<name>=<simple>[,<name>=<simple>]*)\n\
         <list> := [<simple or complex>[,<simple or complex>]*]\n\n\
         Properties of the zone, for set, clear and info:\n",
    );
    let names: Vec<&str> = GLOBAL.iter().map(|spec| spec.name).collect();
    wrap(&mut out, INDENT, &names.join(" "));
    out.push_str("\nResource types, for add, select, remove and info, with their properties:\n");
    for spec in RESOURCES {
        let names: Vec<&str> = spec.properties.iter().map(|one| one.name).collect();
        beside(&mut out, spec.name, &names.join(" "));
    }
    out.push_str("\n\"help <name>\" explains each of them.\n");
    out
}

fn resource(out: &mut String, spec: &ResourceSpec) {
    let mut text = format!("{}: {}", spec.name, spec.help);
    if spec.singleton {
        text.push_str(" A zone has at most one.");
    }
    if spec.fixed {
        text.push_str(" Cannot be changed once the zone is installed.");
    }
    text.push_str(effect(spec.effect));
    wrap(out, "", &text);
    for one in spec.properties {
        property(out, one);
    }
    let examples = examples(spec.name);
    if !examples.is_empty() {
        out.push_str("example:\n");
        examples
            .lines()
            .for_each(|line| out.push_str(&format!("    {line}\n")));
    }
}

fn property(out: &mut String, spec: &PropertySpec) {
    let mut text = spec.help.to_owned();
    match spec.kind {
        Kind::Int { min, max } if max < u64::from(u32::MAX) => {
            text.push_str(&format!(" {min} to {max}."));
        }
        Kind::Int { min, .. } => text.push_str(&format!(" {min} or more.")),
        // The choices are listed only if the help sentence does not already name all of them.
        Kind::Enum(words) if words.iter().any(|word| !spec.help.contains(word)) => {
            text.push_str(&format!(" One of {}.", words.join(", ")));
        }
        _ => {}
    }
    if spec.required {
        text.push_str(" Required.");
    }
    if spec.fixed {
        text.push_str(" Fixed once the zone is installed.");
    }
    if !spec.default.is_empty() {
        text.push_str(&format!(" Default: {}.", spec.default));
    }
    text.push_str(effect(spec.effect));
    beside(out, spec.name, &text);
}

const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Honoured => "",
        Effect::NotYet => " No effect yet.",
        Effect::None => " Kept, without effect here.",
    }
}

const INDENT: &str = "    ";

/// Width of the column of names, in columns.
const NAMES: usize = 16;

/// Maximum length of a line, in columns. Every terminal has at least this width.
const MAX_LINE_COLUMNS: usize = 79;

/// Adds a name, and beside it a column with the text.
fn beside(out: &mut String, name: &str, text: &str) {
    let column = " ".repeat(INDENT.len() + NAMES);
    let mut lines = String::new();
    wrap(&mut lines, &column, text);
    let label = format!("{INDENT}{name:<width$} ", width = NAMES - 1);
    if label.len() <= column.len() {
        lines.replace_range(..column.len(), &label);
    } else {
        out.push_str(label.trim_end());
        out.push('\n');
    }
    out.push_str(&lines);
}

/// Adds a text in lines of at most [`MAX_LINE_COLUMNS`] columns, each with `indent` at its start.
fn wrap(out: &mut String, indent: &str, text: &str) {
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        if line.len() > indent.len() && line.len() + 1 + word.len() > MAX_LINE_COLUMNS {
            out.push_str(&line);
            out.push('\n');
            indent.clone_into(&mut line);
        } else if line.len() > indent.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

fn first_sentence(text: &str) -> &str {
    text.split_inclusive(". ").next().unwrap_or(text).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the text contains the help sentence. Line breaks count as blanks.
    fn holds(text: &str, help: &str) -> bool {
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        plain(text).contains(&plain(help))
    }

    #[test]
    fn every_name_of_the_tables_is_a_subject() {
        let tells = |name: &str, help: &str| subject(name).is_some_and(|text| holds(&text, help));
        for row in VERBS {
            assert!(tells(row.name, row.help), "{}", row.name);
        }
        for spec in GLOBAL {
            assert!(tells(spec.name, spec.help), "{}", spec.name);
        }
        for spec in RESOURCES {
            assert!(tells(spec.name, spec.help), "{}", spec.name);
            for one in spec.properties {
                assert!(tells(one.name, one.help), "{}", one.name);
            }
        }
        assert_eq!(subject("colour"), None);
    }

    #[test]
    fn help_fits_a_terminal() {
        let names = VERBS.iter().map(|row| row.name);
        let names = names.chain(GLOBAL.iter().map(|spec| spec.name));
        let names = names.chain(RESOURCES.iter().map(|spec| spec.name));
        for name in names.chain(["commands", "syntax"]) {
            let text = subject(name).unwrap();
            // The forms of a command are not wrapped, so their lines may be longer.
            let text = text.lines().filter(|line| !line.contains('<'));
            for line in text {
                assert!(line.len() <= MAX_LINE_COLUMNS, "{name}: {line}");
            }
        }
    }

    #[test]
    fn scopes_have_their_commands() {
        let global = commands(Some(Scope::Global));
        let resource = commands(Some(Scope::Resource));
        assert!(global.contains("    create ") && !resource.contains("    create "));
        assert!(resource.contains("    end ") && !global.contains("    end "));
        assert!(global.contains("    set ") && resource.contains("    set "));
    }

    #[test]
    fn examples_are_of_the_language() {
        let names = VERBS.iter().map(|row| row.name);
        for name in names.chain(RESOURCES.iter().map(|spec| spec.name)) {
            for line in examples(name).lines() {
                let line = line.split("  (").next().unwrap_or_default();
                let parsed = crate::parse::parse_line(line);
                assert!(parsed.iter().all(Result::is_ok), "{line}: {parsed:?}");
            }
        }
    }
}
