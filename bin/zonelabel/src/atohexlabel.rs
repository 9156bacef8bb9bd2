//! atohexlabel(8): turns labels into hexadecimal.

use label::Encodings;

use crate::command::{Args, Command};
use crate::each;

pub const COMMAND: Command = Command {
    name: "atohexlabel",
    help: HELP,
    letters: "sc",
    with_argument: None,
    run,
};

const HELP: &str = "\
usage: atohexlabel [-s | -c] [-R root] [label]...

Turns labels into hexadecimal, one on a line. Each operand is one label; without
operands, each line of standard input is one. /etc/zones/label_encodings has the
names. A label outside the accreditation range is turned, too.

Options:
    -s       sensitivity labels, which is the default
    -c       clearances: the words are those of the section CLEARANCES
    -R root  uses the zones below this directory (also ZONES_ROOT)

Exit status: 0 all labels were turned, 1 a label or label_encodings is not valid,
2 usage.

Examples:
    atohexlabel PUBLIC
    atohexlabel 'CONFIDENTIAL : NEED TO KNOW' 'cnf int'
    atohexlabel <labels
";

fn run(args: &Args) -> u8 {
    each::turn(&COMMAND, args, turn)
}

/// Returns a label in hexadecimal.
pub fn turn(names: &Encodings, text: &str) -> Result<String, String> {
    let label = names.parse(text).map_err(|error| error.to_string())?;
    Ok(label.to_string())
}
