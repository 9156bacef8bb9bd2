//! What `help` prints, made from the tables.

use model::table::{self, GLOBAL, Kind, PropertySpec, RESOURCES, ResourceSpec};

use crate::command::{Scope, VERBS, Verb};

/// How the program is called.
pub const USAGE: &str = "usage:\n\
    \tzonecfg help\n\
    \tzonecfg [-R <root>] {-z <zone> | -u <uuid>}\t\t\t(interactive)\n\
    \tzonecfg [-R <root>] {-z <zone> | -u <uuid>} <command>\n\
    \tzonecfg [-R <root>] {-z <zone> | -u <uuid>} -f <command-file>\n";

/// Help on a subject; `None` when there is no such subject.
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

/// The commands of a scope, or all of them.
#[must_use]
pub fn commands(scope: Option<Scope>) -> String {
    let mut out = String::from("The commands are:\n");
    for row in VERBS {
        if scope.is_none() || row.scope == Scope::Both || Some(row.scope) == scope {
            for line in row.usage.lines().filter(|line| !line.starts_with('\t')) {
                out.push_str(&format!("\t{line}\n"));
            }
        }
    }
    out.push_str("Type \"help <command-name>\" or \"help syntax\" for more.\n");
    out
}

/// The forms of a command, as after an error in it.
#[must_use]
pub fn usage(verb: Verb) -> String {
    format!("usage:\n{}\n", verb.spec().usage)
}

fn command(verb: Verb) -> String {
    format!("{}\t{}\n", usage(verb), verb.spec().help)
}

fn syntax() -> String {
    let mut out = String::from(
        "<zone> := [A-Za-z0-9][A-Za-z0-9_.-]*\n\
         <property-value> := <simple> | <complex> | <list>\n\
         <simple> := a word, or any text in double quotes\n\
         <complex> := (<name>=<simple>[,<name>=<simple>]*)\n\
         <list> := [<simple or complex>[,<simple or complex>]*]\n\
         \";\" or a new line ends a command, \"#\" begins a comment.\n\n\
         Properties of the zone:\n",
    );
    for spec in GLOBAL {
        property(&mut out, spec);
    }
    for spec in RESOURCES {
        out.push('\n');
        resource(&mut out, spec);
    }
    out
}

fn resource(out: &mut String, spec: &ResourceSpec) {
    out.push_str(&format!("{}: {}\n", spec.name, spec.help));
    if spec.fixed {
        out.push_str("Cannot be changed once the zone is installed.\n");
    }
    for one in spec.properties {
        property(out, one);
    }
}

fn property(out: &mut String, spec: &PropertySpec) {
    out.push_str(&format!("\t{}\t{}", spec.name, spec.help));
    if let Kind::Int { min, max } = spec.kind {
        out.push_str(&format!(" {min} to {max}."));
    }
    if spec.required {
        out.push_str(" Required.");
    }
    if spec.fixed {
        out.push_str(" Fixed once the zone is installed.");
    }
    if !spec.default.is_empty() {
        out.push_str(&format!(" Default: {}.", spec.default));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_tables_is_a_subject() {
        for row in VERBS {
            assert!(subject(row.name).is_some_and(|text| text.contains(row.help)));
        }
        for spec in GLOBAL {
            assert!(subject(spec.name).is_some_and(|text| text.contains(spec.help)));
        }
        for spec in RESOURCES {
            assert!(subject(spec.name).is_some_and(|text| text.contains(spec.help)));
            for one in spec.properties {
                assert!(subject(one.name).is_some_and(|text| text.contains(one.help)));
            }
        }
        assert_eq!(subject("colour"), None);
    }

    #[test]
    fn scopes_have_their_commands() {
        let global = commands(Some(Scope::Global));
        let resource = commands(Some(Scope::Resource));
        assert!(global.contains("\tcreate ") && !resource.contains("\tcreate "));
        assert!(resource.contains("\tend\n") && !global.contains("\tend\n"));
        assert!(global.contains("\tset ") && resource.contains("\tset "));
    }
}
