//! The command line.

use anyhow::{Context as _, bail};
use lexopt::prelude::*;
use model::ZoneName;

/// The help.
pub const USAGE: &str = "\
usage: clzonecluster configure [-f FILE] NAME
       clzonecluster verify | ready | halt | reboot [-n HOST,...] {+ | NAME...}
       clzonecluster boot [-w | -W] [-n HOST,...] {+ | NAME...}
       clzonecluster install [-n HOST,...] [-a ARCHIVE | -d FOLDER | -i IMAGE] [-x OPTION] NAME
       clzonecluster clone -Z TARGET [-n HOST,...] [-m copy] SOURCE
       clzonecluster set -p NAME=VALUE... [-n HOST,...] {+ | NAME...}
       clzonecluster move -f ZONEPATH [-n HOST,...] NAME
       clzonecluster apply [-n HOST,...] [-d] [--from HOST] {+ | NAME...}
       clzonecluster uninstall [-F] [-n HOST,...] {+ | NAME...}
       clzonecluster delete [-F] NAME
       clzonecluster status [-j] [+ | NAME...]
       clzonecluster list | show [+ | NAME...]
       clzonecluster export [-f FILE] NAME
       clzonecluster show-rev [-v]

Zone clusters: one zone of the same name on each of several hosts, which form a cluster of their own.
Runs on any host that knows the zone cluster, and acts on all of its hosts by ssh. + means all zone
clusters. The command clzc is the same.

  configure  change the configuration with a shell, or from FILE (- is standard input), and give it
             to every host: 'create', 'add node', 'commit'; see zonecfg(8)
  set        set properties of all nodes, or with -n of these nodes (hostname, physical-host): all of
             them in one commit, or none
  move       change the zonepath, and move the files of each halted zone there. A host that is down
             moves its zone when it is back, at the next command
    -n       only these hosts now, and the others at the next command
  verify     check on each host that the zone can run there
  install    install the zone of each node; FOLDER, ARCHIVE and IMAGE are on each host
  clone      install the configured zone cluster TARGET as a copy of the halted SOURCE
  ready, boot, halt, reboot
             the zone of each node; a zone that is in this state already stays
    -w, -W   boot an immutable zone writable, until its next boot, or until it is set up
  apply      give each host the newest configuration, and running zones, too
    -d       only show the changes of running zones
    --from   take the configuration of HOST, where hosts have different ones of one generation
  uninstall  remove the files of each zone
  delete     remove the configuration from every host; the zones must be uninstalled
    -F       uninstall: do not ask. delete: also if a host does not answer
  status     the state of each node; -j as JSON
  list       the names; show: the configuration
  export     the commands that recreate the configuration
  show-rev   the release of the programs on each host; -v: also of corosync and pacemaker
  -n         only on these hosts

Exit status: 0 done, 3 wrong command line or configuration, 6 not root, 35 a host does not answer (the
others are done), 36 no such zone cluster or node, 37 failed or refused on a host, 39 exists already.

example: clzonecluster configure pg
         clzonecluster install pg && clzonecluster boot pg
         clzonecluster halt -n host2 pg
         clzonecluster set -p autoboot=true -p cpu-shares=20 pg
";

/// Verbs of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `configure`.
    Configure,
    /// `verify`.
    Verify,
    /// `install`.
    Install,
    /// `clone`.
    Clone,
    /// `ready`.
    Ready,
    /// `boot`.
    Boot,
    /// `halt`.
    Halt,
    /// `reboot`.
    Reboot,
    /// `apply`.
    Apply,
    /// `uninstall`.
    Uninstall,
    /// `delete`.
    Delete,
    /// `status`.
    Status,
    /// `list`.
    List,
    /// `show`.
    Show,
    /// `export`.
    Export,
    /// `set`.
    Set,
    /// `move`.
    Move,
    /// `show-rev`.
    ShowRev,
}

const VERBS: &[(&str, Verb)] = &[
    ("configure", Verb::Configure),
    ("verify", Verb::Verify),
    ("install", Verb::Install),
    ("clone", Verb::Clone),
    ("ready", Verb::Ready),
    ("boot", Verb::Boot),
    ("halt", Verb::Halt),
    ("reboot", Verb::Reboot),
    ("apply", Verb::Apply),
    ("uninstall", Verb::Uninstall),
    ("delete", Verb::Delete),
    ("status", Verb::Status),
    ("list", Verb::List),
    ("show", Verb::Show),
    ("export", Verb::Export),
    ("set", Verb::Set),
    ("move", Verb::Move),
    ("show-rev", Verb::ShowRev),
];

/// The zone clusters of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// All that this host knows.
    All,
    /// These.
    These(Vec<ZoneName>),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A command for all hosts.
    Cluster(Request),
    /// A command for this host: the action, the zone cluster, and more words.
    Local(String, ZoneName, Vec<String>),
    /// A fence request of the zone of this host: the zone cluster, and the words that the zone sent.
    Fence(ZoneName, Vec<String>),
}

/// A command for all hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The verb.
    pub verb: Verb,
    /// The zone clusters.
    pub names: Names,
    /// The hosts of `-n`; empty for all.
    pub hosts: Vec<String>,
    /// The file of `-f`; the zonepath of `move`.
    pub file: Option<String>,
    /// The properties of `-p`, with their values.
    pub values: Vec<(String, String)>,
    /// `-v` of `show-rev`.
    pub verbose: bool,
    /// `-F`.
    pub force: bool,
    /// `-d` of `apply`.
    pub dry: bool,
    /// `-j` of `status`.
    pub json: bool,
    /// The host of `--from`.
    pub from: Option<String>,
    /// The zone cluster of `-Z`.
    pub target: Option<ZoneName>,
    /// Options that zoneadm gets.
    pub passed: Vec<String>,
}

/// Reads the command line. Returns `None` if it asks for help.
///
/// # Errors
/// Fails if it is not as the help says.
pub fn parse(mut parser: lexopt::Parser) -> anyhow::Result<Option<Command>> {
    let mut words: Vec<String> = Vec::new();
    let mut options: Vec<(&str, String)> = Vec::new();
    while let Some(argument) = parser.next()? {
        let takes = |letter: char| "nfadixZmp".contains(letter);
        match argument {
            Short('?' | 'h') | Long("help") => return Ok(None),
            Long(option @ ("local" | "fence")) if words.is_empty() && options.is_empty() => {
                let is_local = option == "local";
                let rest: Result<Vec<String>, _> =
                    parser.raw_args()?.map(|word| word.into_string()).collect();
                let rest = rest.ok().context("expected plain words")?;
                return match is_local {
                    true => local(&rest).map(Some),
                    false => fence(&rest).map(Some),
                };
            }
            Long("from") => options.push(("from", parser.value()?.string()?)),
            Short('F') => options.push(("F", String::new())),
            Short('v') => options.push(("v", String::new())),
            Short('j') => options.push(("j", String::new())),
            Short('w') => options.push(("-w", String::new())),
            Short('W') => options.push(("-W", String::new())),
            Short('d') if words.first().is_some_and(|verb| verb == "apply") => {
                options.push(("dry", String::new()));
            }
            Short(letter) if takes(letter) => {
                let name = match letter {
                    'n' => "n",
                    'f' => "f",
                    'p' => "p",
                    'a' => "-a",
                    'd' => "-d",
                    'i' => "-i",
                    'x' => "-x",
                    'Z' => "Z",
                    _ => "-m",
                };
                options.push((name, parser.value()?.string()?));
            }
            Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let mut words = words.into_iter();
    let word = words.next().context("expected a command, found none")?;
    let verb = VERBS.iter().find(|(name, _)| *name == word);
    let (_, verb) = verb.with_context(|| format!("{word}: no such command"))?;
    let allowed: &[&str] = match verb {
        Verb::Configure | Verb::Export => &["f"],
        Verb::Boot => &["n", "-w", "-W"],
        Verb::Verify | Verb::Ready | Verb::Halt | Verb::Reboot => &["n"],
        Verb::Install => &["n", "-a", "-d", "-i", "-x"],
        Verb::Clone => &["n", "Z", "-m"],
        Verb::Apply => &["n", "dry", "from"],
        Verb::Uninstall => &["n", "F"],
        Verb::Delete => &["F"],
        Verb::Status => &["j"],
        Verb::List | Verb::Show => &[],
        Verb::Set => &["n", "p"],
        Verb::Move => &["n", "f"],
        Verb::ShowRev => &["v"],
    };
    if let Some((option, _)) = options.iter().find(|(option, _)| !allowed.contains(option)) {
        bail!("{word}: takes no option {}", option.trim_start_matches('-'));
    }
    let of = |wanted: &str| {
        let mut found = options.iter().filter(|(option, _)| *option == wanted);
        found.next_back().map(|(_, value)| value.clone())
    };
    let passed = options.iter().filter(|(option, _)| option.starts_with('-'));
    let request = Request {
        verb: *verb,
        names: names(*verb, &word, &words.collect::<Vec<_>>())?,
        hosts: of("n")
            .map(|text| text.split(',').map(host).collect())
            .transpose()?
            .unwrap_or_default(),
        file: of("f"),
        values: options
            .iter()
            .filter(|(option, _)| *option == "p")
            .map(|(_, text)| value(text))
            .collect::<anyhow::Result<_>>()?,
        verbose: of("v").is_some(),
        force: of("F").is_some(),
        dry: of("dry").is_some(),
        json: of("j").is_some(),
        from: of("from").map(|name| host(&name)).transpose()?,
        target: of("Z").map(|name| name.parse()).transpose()?,
        passed: passed
            .flat_map(|(option, value)| [(*option).to_owned(), value.clone()])
            // -w and -W have no value.
            .filter(|word| !word.is_empty())
            .collect(),
    };
    if *verb == Verb::Boot && request.passed.len() > 1 {
        bail!("boot: expected only one of -w and -W");
    }
    if *verb == Verb::Set && request.values.is_empty() {
        bail!("set: expected -p NAME=VALUE");
    }
    if *verb == Verb::Move && request.file.is_none() {
        bail!("move: expected -f ZONEPATH: the new zonepath");
    }
    if *verb == Verb::Clone && request.target.is_none() {
        bail!("clone: expected -Z TARGET: the zone cluster that is installed");
    }
    Ok(Some(Command::Cluster(request)))
}

fn names(verb: Verb, word: &str, words: &[String]) -> anyhow::Result<Names> {
    let one = matches!(
        verb,
        Verb::Configure | Verb::Install | Verb::Clone | Verb::Delete | Verb::Export | Verb::Move
    );
    let may_be_none = matches!(verb, Verb::Status | Verb::List | Verb::Show | Verb::ShowRev);
    match words {
        [_, ..] if verb == Verb::ShowRev => bail!("{word}: takes no zone cluster"),
        [] if may_be_none => return Ok(Names::All),
        [all] if all == "+" && !one => return Ok(Names::All),
        [] => bail!("{word}: expected the name of a zone cluster"),
        [_, _, ..] if one => bail!("{word}: expected one zone cluster"),
        _ => {}
    }
    let names: Result<_, _> = words.iter().map(|name| name.parse()).collect();
    Ok(Names::These(names?))
}

/// Reads NAME=VALUE.
fn value(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .with_context(|| format!("-p {text}: expected NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn host(name: &str) -> anyhow::Result<String> {
    if !clzc::is_host_name(name) {
        bail!("'{name}': expected the name of a host");
    }
    Ok(name.to_owned())
}

fn local(words: &[String]) -> anyhow::Result<Command> {
    let [action, name, rest @ ..] = words else {
        bail!("--local: expected an action and the name of a zone cluster");
    };
    Ok(Command::Local(action.clone(), name.parse()?, rest.to_vec()))
}

fn fence(words: &[String]) -> anyhow::Result<Command> {
    let [name, rest @ ..] = words else {
        bail!("--fence: expected the name of a zone cluster");
    };
    Ok(Command::Fence(name.parse()?, rest.to_vec()))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> anyhow::Result<Option<Command>> {
        parse(lexopt::Parser::from_args(words))
    }

    pub fn request(words: &[&str]) -> Request {
        match parsed(words).unwrap() {
            Some(Command::Cluster(request)) => request,
            other => panic!("expected a request, found {other:?}"),
        }
    }

    #[test]
    fn reads_hosts_and_options() {
        let found = request(&["install", "-n", "host1,host2", "-i", "debian", "pg"]);
        assert_eq!(found.hosts, ["host1", "host2"]);
        assert_eq!(found.passed, ["-i", "debian"]);
        assert_eq!(request(&["boot", "+"]).names, Names::All);
        assert!(request(&["apply", "-d", "pg"]).dry);
        assert!(request(&["status", "-j"]).json && !request(&["status"]).json);
        assert_eq!(request(&["boot", "-w", "pg"]).passed, ["-w"]);
        assert_eq!(request(&["boot", "pg", "-W"]).passed, ["-W"]);
        assert_eq!(
            request(&["install", "-d", "/srv/root", "pg"]).passed,
            ["-d", "/srv/root"]
        );
    }

    #[test]
    fn reads_several_properties() {
        let found = request(&[
            "set",
            "-p",
            "autoboot=true",
            "-p",
            "bootargs=a=b",
            "pg",
            "db",
        ]);
        let values = [("autoboot", "true"), ("bootargs", "a=b")];
        assert_eq!(
            found.values,
            values.map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
        let found = request(&["move", "-f", "/tank/pg", "-n", "host1", "pg"]);
        assert_eq!(
            (found.file.as_deref(), found.hosts.len()),
            (Some("/tank/pg"), 1)
        );
        assert!(request(&["show-rev", "-v"]).verbose && !request(&["show-rev"]).verbose);
    }

    #[test]
    fn reads_local_words_as_they_are() {
        let words = ["--local", "install", "pg", "host1", "-i", "debian"];
        let rest = ["host1", "-i", "debian"].map(str::to_owned).to_vec();
        let expected = Command::Local("install".to_owned(), "pg".parse().unwrap(), rest);
        assert_eq!(parsed(&words).unwrap(), Some(expected));
    }

    #[test]
    fn words_of_a_fence_request_are_no_options() {
        let rest = ["off", "-F", "--local"].map(str::to_owned).to_vec();
        let expected = Command::Fence("pg".parse().unwrap(), rest);
        let words = ["--fence", "pg", "off", "-F", "--local"];
        assert_eq!(parsed(&words).unwrap(), Some(expected));
    }

    #[test]
    fn refuses_wrong_command_lines() {
        let wrong: [&[&str]; 23] = [
            &["set", "pg"],
            &["set", "-p", "autoboot", "pg"],
            &["set", "-p", "=true", "pg"],
            &["set", "-p", "autoboot=true"],
            &["move", "pg"],
            &["move", "-f", "/tank/pg", "+"],
            &["show-rev", "pg"],
            &["boot", "-w", "-W", "pg"],
            &["ready", "-w", "pg"],
            &["list", "-j"],
            &["--fence"],
            &["--fence", "../pg", "off"],
            &[],
            &["fly", "pg"],
            &["boot"],
            &["boot", "-F", "pg"],
            &["boot", "-n", "-oProxyCommand=x", "pg"],
            &["delete", "+"],
            &["configure", "a", "b"],
            &["clone", "pg"],
            &["boot", "../x"],
            &["status", "-n", "a"],
            &["--local", "report"],
        ];
        for words in wrong {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }
}
