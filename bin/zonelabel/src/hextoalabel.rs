//! hextoalabel(8): turns labels in hexadecimal into text.

use label::{Encodings, Label};

use crate::command::{Args, Command};
use crate::each;

pub const COMMAND: Command = Command {
    name: "hextoalabel",
    help: HELP,
    letters: "sc",
    with_argument: None,
    run,
};

const HELP: &str = "\
usage: hextoalabel [-s | -c] [-R root] [label]...

Turns labels in hexadecimal into text with long names, one on a line. Without
operands, each line of standard input is a label. /etc/zones/label_encodings has
the names.

Options:
    -s       sensitivity labels, which is the default
    -c       clearances: the words are those of the section CLEARANCES
    -R root  uses the zones below this directory (also ZONES_ROOT)

Exit status: 0 all labels were turned, 1 a label or label_encodings is not valid,
2 usage.

Examples:
    hextoalabel 0x0004-08-68
    atohexlabel 'CNF : NTK' | hextoalabel
";

fn run(args: &Args) -> u8 {
    each::turn(&COMMAND, args, turn)
}

/// Returns the text of a label in hexadecimal.
pub fn turn(names: &Encodings, text: &str) -> Result<String, String> {
    let label: Label = text
        .parse()
        .map_err(|error: label::BadLabel| error.to_string())?;
    names.check(label).map_err(|error| error.to_string())?;
    Ok(names.text(label))
}
