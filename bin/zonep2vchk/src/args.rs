//! The command line of zonep2vchk.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

/// The synopsis.
pub const USAGE: &str = "\
usage: zonep2vchk [-b] [-s path[,path]...] [-S file] [-T release] [-P | -j] [-R root]
       zonep2vchk -c [-T release] [-R root]
       zonep2vchk -c -f file
       zonep2vchk -V
";

/// The text of `--help`.
pub const HELP: &str = "\
usage: zonep2vchk [-b] [-s path[,path]...] [-S file] [-T release] [-P | -j] [-R root]
       zonep2vchk -c [-T release] [-R root]
       zonep2vchk -c -f file
       zonep2vchk -V

Reports the parts of this system that will not work if the system runs as a zone, or
prints zonecfg commands for such a zone. It only reads files.

Checks:
    -b          basic (the default): services, kernel modules and parameters, devices
                and file systems, network configuration
    -s paths    the programs at these paths and below: reports those that use functions
                that zones may not use. Separated by commas; may be repeated
    -S file     as -s, with a path on each line of the file

The zone:
    -T release  the kind of zone of that release: S10 shares the host's network
                (ip-type=shared), S11 has its own network (exclusive, the default)

Output:
    -c          prints commands for zonecfg -f instead of checks. Unknown values, such
                as directories of the new host, are 'change-me'
    -P          for programs: a line 'check:section:subject:advice' for each issue,
                colons in them escaped
    -j, --json  as JSON
    -f file     with -c: reads the configuration of another tool's container: LXC's
                config, a .nspawn file of systemd, or Incus' backup.yaml. Settings
                without an equivalent become comments
    -V          the version
    -R root     checks the system below this directory, for example a mounted disk

Run-time checks (-r, -x, -e, -E) need DTrace and are not available.

Exit status: 0 no issue, 1 an error, 2 usage, 3 issues were found.

Examples:
    zonep2vchk                          run the basic checks
    zonep2vchk -b -s /opt,/usr/local    also check local software
    zonep2vchk -T S10 -P                for a zone with the host's network
    zonep2vchk -c > web.cfg             then, on the new host:
    zonecfg -z web -f web.cfg
    zonep2vchk -R /mnt/disk -c          for a system on a disk
    zonep2vchk -c -f /var/lib/lxc/web/config
";

/// The request on the command line.
#[derive(Debug)]
pub enum Input {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Run the checks, or print a template.
    Run(Args),
}

/// The options.
#[derive(Debug)]
pub struct Args {
    /// The root folder of the system to check.
    pub root: PathBuf,
    /// `-c`: print zonecfg commands for a zone like the system.
    pub template: bool,
    /// `-f`.
    pub container: Option<PathBuf>,
    /// `-b`, or nothing else.
    pub basic: bool,
    /// `-s` and `-S`.
    pub paths: Vec<PathBuf>,
    /// `-T`.
    pub target: Target,
    /// The form of the report.
    pub form: Form,
}

/// The Solaris release whose default kind of zone is assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Solaris 10: zones share the host's network.
    S10,
    /// Solaris 11: zones have a network of their own.
    S11,
}

impl Target {
    /// Returns the zone's ip-type.
    pub const fn ip_type(self) -> &'static str {
        match self {
            Self::S10 => "shared",
            Self::S11 => "exclusive",
        }
    }
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for a person to read.
    Text,
    /// `-P`
    Parseable,
    /// `-j`
    Json,
}

/// Parses the command line; `words` are the arguments after the program's name.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Input, String> {
    let mut args = Args {
        root: "/".into(),
        template: false,
        container: None,
        basic: false,
        paths: Vec::new(),
        target: Target::S11,
        form: Form::Text,
    };
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('V') => return Ok(Input::Version),
            Short('?' | 'h') | Long("help") => return Ok(Input::Help),
            Short('b') => args.basic = true,
            Short('c') => args.template = true,
            Short('P') => args.form = Form::Parseable,
            Short('j') | Long("json") => args.form = Form::Json,
            Short('s') => {
                let list = text(&mut words)?;
                args.paths.extend(list.split(',').map(PathBuf::from));
            }
            Short('S') => {
                let file = text(&mut words)?;
                let list = std::fs::read_to_string(&file)
                    .map_err(|error| format!("cannot read {file}: {error}"))?;
                let paths = list.lines().map(str::trim).filter(|line| !line.is_empty());
                args.paths.extend(paths.map(PathBuf::from));
            }
            Short('T') => {
                args.target = match text(&mut words)?.as_str() {
                    "S10" => Target::S10,
                    "S11" => Target::S11,
                    other => return Err(format!("'{other}' is no release: S10 or S11")),
                }
            }
            Short('f') => {
                let path = words.value().map_err(|error| error.to_string())?;
                args.container = Some(path.into());
            }
            Short('R') => args.root = words.value().map_err(|error| error.to_string())?.into(),
            Short(letter @ ('r' | 'x' | 'e' | 'E')) => {
                return Err(format!(
                    "-{letter}: run-time checks need DTrace and are not there"
                ));
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    if let Some(path) = args.paths.iter().find(|path| !path.is_absolute()) {
        return Err(format!("'{}' is no absolute path", path.display()));
    }
    if args.template && (args.basic || !args.paths.is_empty() || args.form != Form::Text) {
        return Err("-c goes with -T and -R only".to_owned());
    }
    if args.container.is_some() && !args.template {
        return Err("-f goes with -c".to_owned());
    }
    args.basic |= args.paths.is_empty();
    Ok(Input::Run(args))
}

fn text(words: &mut lexopt::Parser) -> Result<String, String> {
    let word = words.value().map_err(|error| error.to_string())?;
    word.string().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Args, String> {
        match parse(line.split_whitespace().map(OsString::from))? {
            Input::Run(args) => Ok(args),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn options_select_the_checks() {
        let paths = |line: &str| run(line).unwrap().paths.len();
        assert!(run("").unwrap().basic);
        assert!(!run("-s /opt").unwrap().basic);
        assert!(run("-b -s /opt").unwrap().basic);
        assert_eq!(paths("-s /opt,/usr/local -s /srv"), 3);
        assert_eq!(run("-T S10").unwrap().target.ip_type(), "shared");
        assert_eq!(run("-P").unwrap().form, Form::Parseable);
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for bad in [
            "-q",
            "x",
            "-s opt",
            "-T S12",
            "-c -b",
            "-c -P",
            "-f /x",
            "-r 1h",
            "-x",
            "-S /nowhere",
            "-R",
        ] {
            assert!(run(bad).is_err(), "{bad}");
        }
    }
}
