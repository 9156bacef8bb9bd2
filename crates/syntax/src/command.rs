//! The commands of the language and the table of their words.

use std::fmt;

use model::config::Value;

/// `property=value` pairs that select resources.
pub type Filters = Vec<(String, Value)>;

/// A command, parsed but not yet looked at in its scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `add <resource>`, or in the resource scope `add <property> <value>`.
    Add {
        /// The resource or property.
        what: String,
        /// The value to add to a list.
        value: Option<Value>,
    },
    /// `cancel`
    Cancel,
    /// `clear <property>`
    Clear {
        /// The property.
        property: String,
    },
    /// `commit [-n] [-q]`
    Commit(How),
    /// `create [-F] [-b | -t <template> | -a <path> | -X]`
    Create {
        /// Overwrite a configured zone without asking.
        force: bool,
        /// The configuration that the new one starts from.
        template: Template,
    },
    /// `delete [-F]`
    Delete {
        /// Do not ask, and not only in state configured.
        force: bool,
    },
    /// `end`
    End,
    /// `exit [-F]`
    Exit {
        /// Do not ask.
        force: bool,
    },
    /// `export [-j] [-f <file>]`
    Export {
        /// As JSON.
        json: bool,
        /// The file to write instead of standard output.
        file: Option<String>,
    },
    /// `help [<subject>]`
    Help {
        /// A command, resource, property, or one of help's own subjects.
        subject: Option<String>,
    },
    /// `info [-j] [<resource or property> [<filters>]]`
    Info {
        /// As JSON.
        json: bool,
        /// The resource or property to print; everything when absent.
        what: Option<String>,
        /// The properties that select among the resources.
        filters: Filters,
    },
    /// `remove [-F] <resource> [<filters>]`, or `remove <property> <value>`.
    Remove {
        /// Do not ask.
        force: bool,
        /// The resource or property.
        what: String,
        /// The property or resource that the command acts on.
        argument: Argument,
    },
    /// `revert [-F]`
    Revert {
        /// Do not ask.
        force: bool,
    },
    /// `select <resource> <filters>`
    Select {
        /// The resource.
        what: String,
        /// The properties that select the resource.
        filters: Filters,
    },
    /// `set [-F] <property>=<value>`
    Set {
        /// Allow changes that are allowed only in an alternate root.
        force: bool,
        /// The property.
        property: String,
        /// Its new value.
        value: Value,
    },
    /// `verify`
    Verify,
}

/// The options of `commit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// `-n`: nothing is changed.
    pub dry_run: bool,
    /// `-q`: nothing is told but warnings and errors.
    pub quiet: bool,
}

/// The configuration that `create` starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Template {
    /// The system's default.
    Default,
    /// `-b`: blank.
    Blank,
    /// `-t`: this template or zone.
    Named(String),
    /// `-a`: the configuration that a detached zone left in its zonepath.
    Detached(String),
    /// `-X`: the file that is there for the zone already.
    Existing,
}

/// The argument after the name in `remove`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Filters, perhaps none.
    Filters(Filters),
    /// A value.
    Value(Value),
}

/// The scopes in which a command is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Outside a resource.
    Global,
    /// Between `add` or `select` and `end`.
    Resource,
    /// Everywhere.
    Both,
}

/// The first word of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the names are the words; see VERBS for what they do"
)]
pub enum Verb {
    Add,
    Cancel,
    Clear,
    Commit,
    Create,
    Delete,
    End,
    Exit,
    Export,
    Help,
    Info,
    Remove,
    Revert,
    Select,
    Set,
    Verify,
}

/// A row of [`VERBS`].
#[derive(Clone, Copy, Debug)]
pub struct VerbSpec {
    /// The command.
    pub verb: Verb,
    /// Its word.
    pub name: &'static str,
    /// Its forms, each on a line.
    pub usage: &'static str,
    /// The scopes in which the command is allowed.
    pub scope: Scope,
    /// True when it changes the configuration: refused in read-only mode.
    pub changes: bool,
    /// A sentence for `help`.
    pub help: &'static str,
}

/// Every command, in alphabetical order.
pub static VERBS: &[VerbSpec] = &[
    row(
        Verb::Add,
        "add",
        "add <resource-type>\n\t(global scope)\nadd <property-name> <property-value>\n\t(resource scope)",
        Scope::Both,
        true,
        "Begins a new resource; end completes it. In the resource scope: adds a value to a list.",
    ),
    row(
        Verb::Cancel,
        "cancel",
        "cancel",
        Scope::Resource,
        false,
        "Discards the changes to the resource and returns to the global scope.",
    ),
    row(
        Verb::Clear,
        "clear",
        "clear <property-name>",
        Scope::Both,
        true,
        "Resets a property to its default.",
    ),
    row(
        Verb::Commit,
        "commit",
        "commit [-n] [-q]",
        Scope::Both,
        true,
        "Verifies the configuration and saves it, or with zonecfg -r changes the running zone. Leaving zonecfg also commits. -n only prints the planned changes, -q prints only warnings and errors.",
    ),
    row(
        Verb::Create,
        "create",
        "create [-F] [-b | -t <template> | -a <path> | -X]",
        Scope::Global,
        true,
        "Begins a configuration: from the system's default, with -b blank (a whole root), with -t from a template or a zone, with -a from the zonepath of a detached zone, with -X from the XML file that is already in the zones directory. -F overwrites a configured zone.",
    ),
    row(
        Verb::Delete,
        "delete",
        "delete [-F]",
        Scope::Global,
        true,
        "Deletes the configuration at once. -F does not ask, and deletes in every state except those of an active zone.",
    ),
    row(
        Verb::End,
        "end",
        "end",
        Scope::Resource,
        true,
        "Completes the resource.",
    ),
    row(
        Verb::Exit,
        "exit",
        "exit [-F]",
        Scope::Both,
        false,
        "Commits the changes and leaves zonecfg. -F does not ask about an incomplete resource.",
    ),
    row(
        Verb::Export,
        "export",
        "export [-j] [-f <output-file>]",
        Scope::Both,
        false,
        "Prints the commands that make this configuration, for zonecfg -f; with -j JSON.",
    ),
    row(
        Verb::Help,
        "help",
        "help [usage | commands | syntax | <command-name> | <resource-type> | <property-name>]",
        Scope::Both,
        false,
        "Prints help.",
    ),
    row(
        Verb::Info,
        "info",
        "info [-j] [<resource-type> [<property-name>=<property-value>]* | <property-name>]",
        Scope::Both,
        false,
        "Prints the configuration, one property, or the resources that match; with -j as JSON.",
    ),
    row(
        Verb::Remove,
        "remove",
        "remove [-F] <resource-type> [<property-name>=<property-value>]*\n\t(global scope)\nremove <property-name> <property-value>\n\t(resource scope)",
        Scope::Both,
        true,
        "Removes the resource that matches; without properties, all of the type. In the resource scope: removes a value from a list.",
    ),
    row(
        Verb::Revert,
        "revert",
        "revert [-F]",
        Scope::Global,
        true,
        "Discards all changes since the last commit.",
    ),
    row(
        Verb::Select,
        "select",
        "select <resource-type> [<property-name>=<property-value>]*",
        Scope::Global,
        true,
        "Opens the resource that matches, to change it until end.",
    ),
    row(
        Verb::Set,
        "set",
        "set [-F] <property-name>=<property-value>",
        Scope::Both,
        true,
        "Sets a property.",
    ),
    row(
        Verb::Verify,
        "verify",
        "verify",
        Scope::Both,
        false,
        "Checks the configuration and prints all problems.",
    ),
];

const fn row(
    verb: Verb,
    name: &'static str,
    usage: &'static str,
    scope: Scope,
    changes: bool,
    help: &'static str,
) -> VerbSpec {
    VerbSpec {
        verb,
        name,
        usage,
        scope,
        changes,
        help,
    }
}

impl Verb {
    /// Finds a command by its word. Words are exact: no abbreviations. `?` is help.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        let word = if word == "?" { "help" } else { word };
        let row = VERBS.iter().find(|row| row.name == word);
        row.map(|row| row.verb)
    }

    /// Its row in [`VERBS`].
    #[must_use]
    pub fn spec(self) -> &'static VerbSpec {
        // The rows stand in the order of the enum (tested below).
        &VERBS[self as usize]
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.spec().name)
    }
}

impl Command {
    /// Its first word.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Add { .. } => Verb::Add,
            Self::Cancel => Verb::Cancel,
            Self::Clear { .. } => Verb::Clear,
            Self::Commit(_) => Verb::Commit,
            Self::Create { .. } => Verb::Create,
            Self::Delete { .. } => Verb::Delete,
            Self::End => Verb::End,
            Self::Exit { .. } => Verb::Exit,
            Self::Export { .. } => Verb::Export,
            Self::Help { .. } => Verb::Help,
            Self::Info { .. } => Verb::Info,
            Self::Remove { .. } => Verb::Remove,
            Self::Revert { .. } => Verb::Revert,
            Self::Select { .. } => Verb::Select,
            Self::Set { .. } => Verb::Set,
            Self::Verify => Verb::Verify,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_enum() {
        for (place, row) in VERBS.iter().enumerate() {
            assert_eq!(row.verb as usize, place, "{}", row.name);
            assert_eq!(Verb::find(row.name), Some(row.verb));
            assert!(row.usage.starts_with(row.name) && !row.help.is_empty());
        }
        assert_eq!(Verb::Verify as usize + 1, VERBS.len());
        assert_eq!(Verb::find("?"), Some(Verb::Help));
        assert_eq!(Verb::find("creat"), None);
    }
}
