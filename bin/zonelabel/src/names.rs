//! Labels as text.

use label::{Encodings, Label};
use store::{Root, labels};

use crate::command::{Args, Command};

/// The names of labels, and the form in which labels are printed.
pub struct Names {
    encodings: Result<Encodings, labels::Error>,
    short: bool,
}

impl Names {
    /// Reads the names of the host; -s and -S choose the form.
    pub fn read(root: &Root, args: &Args) -> Self {
        Self {
            encodings: labels::encodings(root),
            short: args.last_of('s', 'S') == Some('s'),
        }
    }

    /// Returns a label as text. `ADMIN_LOW` and `ADMIN_HIGH` need no names.
    pub fn text(&self, label: Label) -> Result<String, String> {
        let none = Encodings::default();
        let encodings = match &self.encodings {
            Ok(encodings) => encodings,
            Err(_) if label.is_administrative() => &none,
            Err(error) => return Err(format!("label {label} has no text: {error}")),
        };
        encodings
            .check(label)
            .map_err(|error| format!("no text: {error}"))?;
        Ok(if self.short {
            encodings.short_text(label)
        } else {
            encodings.text(label)
        })
    }
}

/// Returns the alternate root, or prints an error and returns the exit status. Zones are only seen
/// from the global zone.
pub fn root_of_host(command: &Command, args: &Args) -> Result<Root, u8> {
    if let Some(zone) = cli::current_zone() {
        let why = format!("zone {zone} does not see labels: run this in the global zone");
        return Err(command.complain(&why));
    }
    cli::root(args.root.as_deref()).map_err(|error| command.fail(&error))
}

/// Reads the names of sensitivity labels, or of clearances with -c.
pub fn of(command: &Command, args: &Args) -> Result<Encodings, u8> {
    let root = cli::root(args.root.as_deref()).map_err(|error| command.fail(&error))?;
    let names = match args.last_of('s', 'c') {
        Some('c') => labels::clearances(&root),
        _ => labels::encodings(&root),
    };
    names.map_err(|error| command.fail(&error))
}
