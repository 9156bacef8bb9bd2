//! Parses the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::field::{self, Field};

/// The synopsis.
pub const USAGE: &str = "\
usage: zps [-AefMZwj] [-z zone[,zone]...] [-p pid[,pid]...] [-o format] [-R root]
       zps --help
";

/// The text of `--help`.
pub const HELP: &str = "\
usage: zps [-AefMZwj] [-z zone[,zone]...] [-p pid[,pid]...] [-o format] [-R root]

Lists the processes of all zones, with their zones. In a zone it lists only the
zone's own processes.

Processes:
    -z zones    of these zones: names, ids, globs ('web*') or ranges
                ('web[1-9]'), separated by commas; may be repeated. 'global' is
                the host without its zones
    -p pids     these processes, separated by commas; may be repeated. With -z:
                those of them that are in these zones
    -A, -e      all processes, which is the default

Columns:
    (none)      ZONE PID TTY TIME CMD; without ZONE when -z is given. LABEL after
                ZONE if a running zone has a label
    -f          more: UID PID PPID C ELAPSED TTY TIME CMD
    -Z          adds the column ZONE as the first
    -M          adds the column LABEL before the others, after ZONE
    -o format   these, separated by commas or blanks; may be repeated. 'name=text'
                sets the header to text and must be the last of its -o; 'name=' sets
                an empty header; if all headers are empty, no header line is printed
    -w          does not cut lines, also on a terminal
    -j, --json  all columns, as JSON

Columns for -o:
    zone zoneid     the zone by name and by id
    label           the zone's sensitivity label; '-' in zones without one, '?' if
                    it cannot be read
    pid ppid        process and its parent, as this zone numbers them
    zpid            the process id in its own zone
    pgid sid        process group, session
    user uid        the effective user, as in the process' zone
    ruser ruid      the real user, as in the process' zone
    group gid       the effective group, by number
    hostuid         the effective user's id on the host
    s               state: R S D T t Z I
    c pcpu          processor use over the process' life, in percent
    pmem            resident memory, in percent of the host's
    rss vsz         resident and virtual memory, in KiB
    nlwp            threads
    nice pri        nice value, kernel's priority
    tty             terminal
    time times      processor time used, [D-]HH:MM:SS and in seconds
    etime etimes    time since its start, [D-]HH:MM:SS and in seconds
    comm args       name and command line; also ucmd, fname, command, cmd
    cgroup          control group, version 2

Options:
    -R root     uses the zones below this directory (also ZONES_ROOT)

Exit status: 0 processes were listed, 1 no processes or an error, 2 usage.

Examples:
    zps -z web1                 the processes in the zone web1
    zps -fZ                     all processes, in full, with zones
    zps -z web1 -o pid=         process ids for kill(1) or a script
    zps -z 'web*' -o zone,user,pcpu,rss,args
    zps -p 4711 -o zone=        the zone of a process
    zps -z global -j            the host's own processes as JSON
";

/// The request on the command line.
#[derive(Debug)]
pub enum Input {
    /// Show the help.
    Help,
    /// Print a list.
    List(Args),
}

/// The options of a list.
#[derive(Debug, Default)]
pub struct Args {
    /// `-R`.
    pub root: Option<PathBuf>,
    /// `-z`, split at commas.
    pub zones: Vec<String>,
    /// `-p`; empty for all processes.
    pub pids: Vec<i32>,
    /// `-o`.
    format: Vec<Column>,
    full: bool,
    with_zone: bool,
    with_label: bool,
    /// `-w`.
    pub wide: bool,
    /// `-j`.
    pub json: bool,
}

/// A column and its header.
#[derive(Clone, Debug)]
pub struct Column {
    /// The field that is shown.
    pub field: &'static Field,
    /// The header above the column; may be empty.
    pub header: String,
}

impl Column {
    fn plain(field: &'static Field) -> Self {
        Self {
            field,
            header: field.header.to_owned(),
        }
    }
}

impl Args {
    /// Returns the columns in their order. `is_labeled` is true if a zone of the host has a label.
    pub fn columns(&self, is_labeled: bool) -> Vec<Column> {
        let mut columns = if !self.format.is_empty() {
            self.format.clone()
        } else if self.full {
            let headed = |(name, header): &(&str, &str)| {
                let field = field::find(name)?;
                let header = (*header).to_owned();
                Some(Column { field, header })
            };
            FULL.iter().filter_map(headed).collect()
        } else {
            let plain = |name: &&str| field::find(name).map(Column::plain);
            SHORT.iter().filter_map(plain).collect()
        };
        let by_default = self.format.is_empty() && self.zones.is_empty();
        let front = [
            ("zone", self.with_zone || by_default),
            ("label", self.with_label || (by_default && is_labeled)),
        ];
        let front = front.into_iter().filter(|(_, is_shown)| *is_shown);
        let front = front.filter_map(|(name, _)| field::find(name).map(Column::plain));
        columns.splice(0..0, front);
        columns
    }
}

const SHORT: [&str; 4] = ["pid", "tty", "time", "comm"];

/// The columns of -f and their headers.
const FULL: [(&str, &str); 8] = [
    ("user", "UID"),
    ("pid", "PID"),
    ("ppid", "PPID"),
    ("c", "C"),
    ("etime", "ELAPSED"),
    ("tty", "TTY"),
    ("time", "TIME"),
    ("args", "CMD"),
];

/// Parses the command line; `words` are the arguments after the program's name.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Input, String> {
    let mut args = Args::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('A' | 'e') => {}
            Short('f') => args.full = true,
            Short('M') => args.with_label = true,
            Short('Z') => args.with_zone = true,
            Short('w') => args.wide = true,
            Short('j') | Long("json") => args.json = true,
            Short('R') => args.root = Some(words.value().map_err(|e| e.to_string())?.into()),
            Short('z') => args.zones.extend(zones(&text(&mut words)?)?),
            Short('p') => {
                for pid in text(&mut words)?.split([',', ' ']) {
                    let number: Result<i32, _> = pid.parse();
                    let number = number.ok().filter(|number| *number > 0);
                    args.pids
                        .push(number.ok_or_else(|| format!("'{pid}' is no process id"))?);
                }
            }
            Short('o') => args.format.extend(format(&text(&mut words)?)?),
            Short('?' | 'h') | Long("help") => return Ok(Input::Help),
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Input::List(args))
}

fn text(words: &mut lexopt::Parser) -> Result<String, String> {
    let word = words.value().map_err(|error| error.to_string())?;
    word.string().map_err(|error| error.to_string())
}

/// Splits `web1,db` at its commas; a comma inside brackets belongs to a range.
fn zones(list: &str) -> Result<Vec<String>, String> {
    let mut zones = vec![String::new()];
    let mut in_range = false;
    for character in list.chars() {
        in_range = (in_range || character == '[') && character != ']';
        match zones.last_mut() {
            Some(last) if in_range || !matches!(character, ',' | ' ') => last.push(character),
            _ => zones.push(String::new()),
        }
    }
    if zones.iter().any(String::is_empty) {
        return Err(format!("'{list}' is no list of zones"));
    }
    Ok(zones)
}

/// Parses one argument of -o.
fn format(mut list: &str) -> Result<Vec<Column>, String> {
    let mut columns = Vec::new();
    loop {
        let end = list.find([',', ' ', '=']).unwrap_or(list.len());
        let (name, rest) = list.split_at(end);
        let field = field::find(name).ok_or_else(|| format!("there is no column '{name}'"))?;
        let mut column = Column::plain(field);
        let rest = match rest.strip_prefix('=') {
            None => rest,
            Some(empty) if empty.is_empty() || empty.starts_with([',', ' ']) => {
                column.header.clear();
                empty
            }
            Some(header) => {
                header.clone_into(&mut column.header);
                ""
            }
        };
        columns.push(column);
        match rest.get(1..) {
            None => return Ok(columns),
            Some(more) => list = more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(line: &str) -> Result<Args, String> {
        match parse(line.split('|').map(OsString::from))? {
            Input::List(args) => Ok(args),
            Input::Help => Err("help".to_owned()),
        }
    }

    fn headers(line: &str) -> Vec<String> {
        headers_on(false, line)
    }

    fn headers_on(is_labeled: bool, line: &str) -> Vec<String> {
        let columns = list(line).unwrap().columns(is_labeled);
        columns.into_iter().map(|column| column.header).collect()
    }

    #[test]
    fn columns() {
        assert_eq!(headers("-e"), ["ZONE", "PID", "TTY", "TIME", "CMD"]);
        assert_eq!(headers("-z|web"), ["PID", "TTY", "TIME", "CMD"]);
        assert_eq!(headers("-Zz|web")[0], "ZONE");
        assert_eq!(headers("-ef")[..2], ["ZONE", "UID"]);
        assert_eq!(
            headers("-fz|web").join(" "),
            "UID PID PPID C ELAPSED TTY TIME CMD"
        );
        assert_eq!(headers("-o|pid,args"), ["PID", "COMMAND"]);
        assert_eq!(headers("-o|pid= args="), ["", ""]);
        assert_eq!(headers("-o|pid=,args="), ["", ""]);
        assert_eq!(headers("-opid|-o|args=a, b"), ["PID", "a, b"]);
        assert_eq!(headers("-Z|-o|pid"), ["ZONE", "PID"]);
    }

    #[test]
    fn a_label_of_a_zone_adds_a_column_to_the_default_list_only() {
        let labeled = |line| headers_on(true, line).join(" ");
        assert_eq!(labeled("-e"), "ZONE LABEL PID TTY TIME CMD");
        assert!(labeled("-f").starts_with("ZONE LABEL UID "));
        // Scripts read the other lists by position.
        for line in ["-z|web", "-fz|web", "-Zz|web", "-o|pid", "-Z|-o|pid"] {
            assert_eq!(labeled(line), headers(line).join(" "), "{line}");
        }
        for is_labeled in [true, false] {
            let on = |line| headers_on(is_labeled, line).join(" ");
            assert_eq!(on("-M"), "ZONE LABEL PID TTY TIME CMD");
            assert_eq!(on("-Mz|web"), "LABEL PID TTY TIME CMD");
            assert_eq!(on("-ZM|-o|pid"), "ZONE LABEL PID");
            assert_eq!(on("-o|pid,label=L"), "PID L");
        }
    }

    #[test]
    fn lists_of_zones_and_processes() {
        let args = list("-z|web[1-3,5],db|-z|0|-p|1,2|-p|3").unwrap();
        assert_eq!(args.zones, ["web[1-3,5]", "db", "0"]);
        assert_eq!(args.pids, [1, 2, 3]);
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for bad in [
            "-z|", "-z|a,,b", "-p|x", "-p|-1", "-p|0", "-o|", "-o|pid,", "-o|size!", "-Q", "aux",
            "-z",
        ] {
            assert!(list(bad).is_err(), "{bad}");
        }
    }
}
