//! The commands of the zonecfg language, and the table of their words.

use std::fmt;

use model::config::Value;

/// `property=value` pairs that select resources.
pub type Filters = Vec<(String, Value)>;

/// A parsed command, whose resource and properties are not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The command `add <resource>`, or `add <property> <value>` in the resource scope.
    Add {
        /// The name of the resource or property.
        what: String,
        /// The value to add to a list property.
        value: Option<Value>,
    },
    /// The command `cancel`.
    Cancel,
    /// The command `clear <property>`.
    Clear {
        /// The name of the property.
        property: String,
    },
    /// The command `commit [-n] [-q]`.
    Commit(How),
    /// The command `create [-F] [-b | -t <template> | -a <path> | -X]`.
    Create {
        /// True to overwrite a configured zone without a question.
        force: bool,
        /// The configuration from which the new zone starts.
        template: Template,
    },
    /// The command `delete [-F]`.
    Delete {
        /// True to delete without a question, and in any state that is not active.
        force: bool,
    },
    /// The command `end`.
    End,
    /// The command `exit [-F]`.
    Exit {
        /// True to exit without a question.
        force: bool,
    },
    /// The command `export [-j] [-f <file>]`.
    Export {
        /// True to print JSON.
        json: bool,
        /// The file to which the export is written, instead of standard output.
        file: Option<String>,
    },
    /// The command `help [<subject>]`.
    Help {
        /// The subject: a command, resource, property, or a topic of help itself.
        subject: Option<String>,
    },
    /// The command `info [-j] [<resource or property> [<filters>]]`.
    Info {
        /// True to print JSON.
        json: bool,
        /// The resource or property to print; `None` means the whole configuration.
        what: Option<String>,
        /// The properties that select the resources to print.
        filters: Filters,
    },
    /// The command `remove [-F] <resource> [<filters>]`, or `remove <property> <value>`.
    Remove {
        /// True to remove without a question.
        force: bool,
        /// The name of the resource or property.
        what: String,
        /// The filters of the resource, or the value to remove.
        argument: Argument,
    },
    /// The command `revert [-F]`.
    Revert {
        /// True to revert without a question.
        force: bool,
    },
    /// The command `select <resource> <filters>`.
    Select {
        /// The name of the resource type.
        what: String,
        /// The properties that select the resource.
        filters: Filters,
    },
    /// The command `set [-F] <property>=<value>`.
    Set {
        /// True to allow changes that are allowed only in an alternate root.
        force: bool,
        /// The name of the property.
        property: String,
        /// The new value of the property.
        value: Value,
    },
    /// The command `verify`.
    Verify,
}

/// The options of `commit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// The option `-n`: print the changes, but change nothing.
    pub dry_run: bool,
    /// The option `-q`: print only warnings and errors.
    pub quiet: bool,
}

/// The configuration from which `create` starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Template {
    /// The default template of the system.
    Default,
    /// The option `-b`: the blank template.
    Blank,
    /// The option `-t`: the template or zone of this name.
    Named(String),
    /// The option `-a`: the configuration that a detached zone left in its zonepath.
    Detached(String),
    /// The option `-X`: the configuration file that already exists for the zone.
    Existing,
}

/// The argument that follows the name in `remove`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Filters that select resources, perhaps none.
    Filters(Filters),
    /// A value to remove from a list property.
    Value(Value),
}

/// The scopes in which a command is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The command is allowed only outside a resource.
    Global,
    /// The command is allowed only in a resource: between `add` or `select` and `end`.
    Resource,
    /// The command is allowed outside and in a resource.
    Both,
}

/// The word with which a command begins.
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

/// A row of [`VERBS`]: the description of one command.
#[derive(Clone, Copy, Debug)]
pub struct VerbSpec {
    /// The command that the row describes.
    pub verb: Verb,
    /// The word of the command.
    pub name: &'static str,
    /// The forms of the command, one per line.
    pub usage: &'static str,
    /// The scopes in which the command is allowed.
    pub scope: Scope,
    /// True if the command changes the configuration. In read-only mode a command that changes the
    /// configuration is refused.
    pub changes: bool,
    /// A sentence about the command for `help`.
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
    /// Finds a command by its full word, without abbreviations. The word `?` means help.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        let word = if word == "?" { "help" } else { word };
        let row = VERBS.iter().find(|row| row.name == word);
        row.map(|row| row.verb)
    }

    /// Returns the row of the command in [`VERBS`].
    #[must_use]
    pub fn spec(self) -> &'static VerbSpec {
        // The rows of the table are in the order of the enum, as a test below checks.
        &VERBS[self as usize]
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.spec().name)
    }
}

impl Command {
    /// Returns the word with which the command begins.
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
