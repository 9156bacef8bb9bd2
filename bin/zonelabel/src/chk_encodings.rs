//! chk_encodings(8): checks a file with names of labels.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use label::{BadEncodings, Encodings, MAX_FILE_BYTES};

use crate::command::{Args, Command};

pub const COMMAND: Command = Command {
    name: "chk_encodings",
    help: HELP,
    letters: "a",
    with_argument: Some('c'),
    run,
};

const HELP: &str = "\
usage: chk_encodings [-a] [-c maxclass] [-R root] [file]

Checks a file with names of labels; without an operand, the one of this host:
/etc/zones/label_encodings. Prints that there is no error, or the first error with
its line. zoneadm boots no zone with a label if the file has an error outside the
section CLEARANCES.

Options:
    -a           prints the classifications, their labels for zones, the words, and
                 remarks on parts that are valid and have no effect
    -c maxclass  refuses classifications with a value above this; the default is 255
    -R root      uses the zones below this directory (also ZONES_ROOT)

Exit status: 0 no error, 1 an error, or the file cannot be read, 2 usage.

Examples:
    chk_encodings
    chk_encodings -a ./label_encodings
    chk_encodings ./new && cp ./new /etc/zones/label_encodings
";

/// The highest value of a classification.
const HIGHEST: u16 = 255;

fn run(args: &Args) -> u8 {
    if let Some(surplus) = args.operands.get(1) {
        let surplus = surplus.to_string_lossy();
        COMMAND.complain(&format!("'{surplus}' is one file too many"));
        return cli::status::USAGE;
    }
    let maximum = match args.argument.as_deref().map(|text| text.to_string_lossy()) {
        None => HIGHEST,
        Some(text) => match text.parse().ok().filter(|one| (1..=HIGHEST).contains(one)) {
            Some(maximum) => maximum,
            None => {
                COMMAND.complain(&format!("-c '{text}' is no number from 1 to {HIGHEST}"));
                return cli::status::USAGE;
            }
        },
    };
    let (path, shown) = match args.operands.first() {
        Some(file) => (PathBuf::from(file), PathBuf::from(file)),
        None => match cli::root(args.root.as_deref()) {
            Ok(root) => {
                let path = root.label_encodings();
                let shown = root.shown(&path);
                (path, shown)
            }
            Err(error) => return COMMAND.fail(&error),
        },
    };
    let text = match read(&path) {
        Ok(text) => text,
        Err(error) => return COMMAND.complain(&format!("{}: {error}", shown.display())),
    };
    let report = check(&text, &shown.display().to_string(), args.has('a'), maximum);
    for line in report.lines {
        println!("{line}");
    }
    if report.valid {
        cli::status::OK
    } else {
        cli::status::ERROR
    }
}

/// Reads a file, up to one byte more than an encodings file may have.
fn read(path: &Path) -> std::io::Result<String> {
    let most = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    // The reader refuses the character for bytes that are not UTF-8 if it is in a name.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// The output.
    pub lines: Vec<String>,
    /// True if the file has no error.
    pub valid: bool,
}

/// Checks the text of a file, whose name is `shown`.
pub fn check(text: &str, shown: &str, with_analysis: bool, maximum: u16) -> Report {
    let failed = |error: String| Report {
        lines: vec![error],
        valid: false,
    };
    let at_line =
        |error: BadEncodings| failed(format!("{shown}: line {}: {}", error.line, error.problem));
    let encodings = match Encodings::read(text) {
        Ok(encodings) => encodings,
        Err(error) => return at_line(error),
    };
    let mut lines = Vec::new();
    if with_analysis {
        lines.extend(encodings.describe());
        let remarks = encodings.remarks();
        lines.extend(remarks.iter().map(|remark| format!("remark: {remark}")));
    }
    let too_high = encodings
        .classifications()
        .find(|(_, value)| *value > maximum);
    let rest = match (too_high, Encodings::read_clearances(text)) {
        (Some((name, value)), _) => failed(format!(
            "{shown}: classification {name} has the value {value}, and the highest is {maximum} (-c)"
        )),
        (None, Err(error)) => at_line(error),
        (None, Ok(_)) => Report {
            lines: vec![format!("No errors found in {shown}")],
            valid: true,
        },
    };
    lines.extend(rest.lines);
    Report {
        lines,
        valid: rest.valid,
    }
}
