//! The commands of tncfg.

use anyhow::{Context as _, bail};

/// A template or a zone, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A template.
    Template(String),
    /// A zone.
    Zone(String),
}

/// A property and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The property.
    pub property: String,
    /// The value, without quotation marks.
    pub value: String,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins a template, and selects it.
    Create(String),
    /// Selects a template or zone.
    Select(Target),
    /// Removes a template or the ports of a zone; without a target the selected one.
    Delete(Option<Target>),
    /// Sets a property with one value.
    Set(Assignment),
    /// Clears a property.
    Clear(String),
    /// Adds a value.
    Add(Assignment),
    /// Removes a value.
    Remove(Assignment),
    /// Prints the template that decides about an address.
    Get(Assignment),
    /// Prints the selected template or zone, or all.
    Info,
    /// Prints one line for each template and zone.
    List,
    /// Prints commands that make all templates and ports again.
    Export,
    /// Prints problems.
    Verify,
    /// Stores the changes.
    Commit,
    /// Forgets the changes.
    Revert,
    /// Ends the program.
    Exit,
    /// Prints the commands.
    Help,
}

/// The form and the effect of each command, for help.
const FORMS: [(&str, &str); 16] = [
    ("create -t NAME", "begins a template"),
    ("select -t NAME | -z ZONE", "works on this template or zone"),
    (
        "delete [-t NAME | -z ZONE]",
        "removes the template, or the ports of the zone",
    ),
    ("set PROPERTY=VALUE", "sets a property"),
    ("clear PROPERTY", "clears a property"),
    ("add PROPERTY=VALUE", "adds a host or a port"),
    ("remove PROPERTY=VALUE", "removes a host or a port"),
    (
        "get host=ADDRESS",
        "prints the template that decides about the address",
    ),
    ("info", "prints the template or zone, or all"),
    ("list", "prints a line for each template and zone"),
    ("export", "prints commands that make all of them again"),
    ("verify", "prints problems"),
    ("commit", "stores the changes"),
    ("revert", "forgets the changes"),
    ("exit", "stores the changes and ends"),
    ("help", "prints the commands"),
];

impl Command {
    /// Returns the list of commands.
    #[must_use]
    pub fn help() -> String {
        let line = |(form, what): &(&str, &str)| format!("    {form:<28}{what}\n");
        FORMS.iter().map(line).collect()
    }

    /// Reads a command.
    ///
    /// # Errors
    /// Fails with the form of the command.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let form = || {
            let found = FORMS
                .iter()
                .find(|(form, _)| form.split(' ').next() == Some(verb));
            found.map_or_else(String::new, |(form, _)| format!("usage: {form}"))
        };
        let alone = |command| match rest {
            "" => Ok(command),
            _ => bail!("{}", form()),
        };
        match verb {
            "create" => match target(rest) {
                Some(Target::Template(name)) => Ok(Self::Create(name)),
                _ => bail!("{}", form()),
            },
            "select" => Ok(Self::Select(target(rest).with_context(form)?)),
            "delete" if rest.is_empty() => Ok(Self::Delete(None)),
            "delete" => Ok(Self::Delete(Some(target(rest).with_context(form)?))),
            "set" => Ok(Self::Set(assignment(rest).with_context(form)?)),
            "add" => Ok(Self::Add(assignment(rest).with_context(form)?)),
            "remove" => Ok(Self::Remove(assignment(rest).with_context(form)?)),
            "get" => Ok(Self::Get(assignment(rest).with_context(form)?)),
            "clear" if !rest.is_empty() => Ok(Self::Clear(rest.to_owned())),
            "clear" => bail!("{}", form()),
            "info" => alone(Self::Info),
            "list" => alone(Self::List),
            "export" => alone(Self::Export),
            "verify" => alone(Self::Verify),
            "commit" => alone(Self::Commit),
            "revert" => alone(Self::Revert),
            "exit" | "quit" => alone(Self::Exit),
            "help" | "?" => alone(Self::Help),
            other => bail!("unknown command '{}': see tncfg help", other.escape_debug()),
        }
    }
}

fn target(text: &str) -> Option<Target> {
    let (option, name) = text.split_once(char::is_whitespace)?;
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    match option {
        "-t" => Some(Target::Template(name.to_owned())),
        "-z" => Some(Target::Zone(name.to_owned())),
        _ => None,
    }
}

fn assignment(text: &str) -> Option<Assignment> {
    let (property, value) = text.split_once('=')?;
    let value = value.trim();
    let inner = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    Some(Assignment {
        property: property.trim().to_owned(),
        value: inner.unwrap_or(value).to_owned(),
    })
}

/// Splits a line at `;`, but not between quotation marks. `#` at its beginning makes a line a
/// comment.
pub fn split(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let is_comment = line.trim_start().starts_with('#');
    let parts = line.split(move |one| {
        quoted ^= one == '"';
        one == ';' && !quoted
    });
    parts
        .map(str::trim)
        .filter(move |part| !part.is_empty() && !is_comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_several_commands() {
        let parts = |line| split(line).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            parts("set def_label=\"A; B\" ; ;add host=::1;"),
            ["set def_label=\"A; B\"", "add host=::1"]
        );
        assert_eq!(parts(" # set a; b"), [""; 0]);
    }

    #[test]
    fn commands_are_read_and_a_wrong_one_names_its_form() {
        let set = |property: &str, value: &str| Assignment {
            property: property.to_owned(),
            value: value.to_owned(),
        };
        for (text, command) in [
            ("create -t lan", Command::Create("lan".to_owned())),
            ("delete", Command::Delete(None)),
            (
                "select  -z web",
                Command::Select(Target::Zone("web".to_owned())),
            ),
            (
                "set def_label = CNF : NTK",
                Command::Set(set("def_label", "CNF : NTK")),
            ),
            (
                "set def_label=\"A B\"",
                Command::Set(set("def_label", "A B")),
            ),
            (
                "add host=2001:db8::/32",
                Command::Add(set("host", "2001:db8::/32")),
            ),
            ("quit", Command::Exit),
        ] {
            assert_eq!(Command::read(text).unwrap(), command);
        }
        for (text, why) in [
            ("create lan", "usage: create -t NAME"),
            ("create -z web", "usage: create -t NAME"),
            ("add host", "usage: add PROPERTY=VALUE"),
            ("info all", "usage: info"),
            ("clear", "usage: clear PROPERTY"),
            ("ad\u{7} x", "unknown command 'ad\\u{7}'"),
        ] {
            let error = Command::read(text).unwrap_err().to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
