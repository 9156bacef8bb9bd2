//! getlabel(1): prints the labels of files.

use std::error::Error;
use std::path::Path;

use store::{Root, labels};

use crate::command::{Args, Command};
use crate::names::{self, Names};

pub const COMMAND: Command = Command {
    name: "getlabel",
    help: HELP,
    letters: "sS",
    with_argument: None,
    run,
};

const HELP: &str = "\
usage: getlabel [-s | -S] [-R root] file...

Prints the label of each file or folder: the label of the zone whose zonepath has
it. Bind mounts of a zone's folders have the label of the zone. Other files of the
host have ADMIN_LOW. Symbolic links are followed.

Options:
    -s       short names
    -S       long names, which is the default
    -R root  uses the zones below this directory (also ZONES_ROOT)

Exit status: 0 all labels were printed, 1 a file cannot be read or its label has no
text, 2 usage.

Examples:
    getlabel /zones/web/export/root/report
    getlabel -s /zones/*
";

fn run(args: &Args) -> u8 {
    if args.operands.is_empty() {
        COMMAND.complain("no file was given: getlabel --help tells more");
        return cli::status::USAGE;
    }
    let root = match names::root_of_host(&COMMAND, args) {
        Ok(root) => root,
        Err(status) => return status,
    };
    let names = Names::read(&root, args);
    let mut status = cli::status::OK;
    for operand in &args.operands {
        match line(&root, &names, Path::new(operand)) {
            Ok(line) => println!("{line}"),
            Err(why) => status = COMMAND.complain(&why),
        }
    }
    status
}

/// Returns the line for a file.
pub fn line(root: &Root, names: &Names, file: &Path) -> Result<String, String> {
    // A name may hold any character, and must not end the line.
    let shown: String = file.to_string_lossy().chars().map(printable).collect();
    let label = labels::of_path(root, file).map_err(|error| {
        let source = error.source().map(|inner| format!(": {inner}"));
        format!("{error}{}", source.unwrap_or_default())
    })?;
    let text = names.text(label).map_err(|why| format!("{shown}: {why}"))?;
    Ok(format!("{shown}: {text}"))
}

fn printable(one: char) -> char {
    if one.is_control() { '?' } else { one }
}
