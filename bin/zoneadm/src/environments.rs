//! `zoneadm beadm`: the boot environments of zones.

use std::fmt::Write as _;
use std::path::PathBuf;

use cli::table::Column;
use host::{Error, Host};
use lexopt::prelude::*;
use model::ZoneName;
use zone::environments::{self, By, Row, When};
use zone::executor::Outcome;
use zone::snapshot::{BadName, Name};

use crate::call::Call;
use crate::listing::{self, Form};
use crate::{act, inside, many, outcome, report, usage};

/// The task that the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    List(Form, Option<Name>),
    Create {
        name: Name,
        from: Option<Name>,
        activate: bool,
    },
    Activate(Name, When),
    Destroy {
        name: Name,
        force: bool,
    },
    Rename(Name, Name),
    Mount(Name, Option<PathBuf>),
    Unmount(Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    task: Task,
    dry_run: bool,
}

pub fn run(call: &Call) -> u8 {
    let verb = call.verb.as_str();
    let (by, words) = match call.rest.split_first() {
        Some((word, words)) if word == control::beadm_socket::INSIDE => (By::Zone, words),
        _ => (By::Host, call.rest.as_slice()),
    };
    let options = match parse(words) {
        Ok(Some(options)) => options,
        Ok(None) => return usage::print(Some(verb)),
        Err(text) => return usage::complain(&text, Some(verb)),
    };
    let asks = call.zones.is_empty() && call.uuid.is_none();
    let from_within = asks && cli::current_zone().is_some();
    if from_within || by == By::Zone {
        if let Some(what) = options.refused_inside() {
            eprintln!("beadm: {what} is for the global zone.");
            return cli::status::ERROR;
        }
    }
    if from_within {
        return match options.is_meant() {
            Ok(()) => inside::ask(
                words,
                matches!(options.task, Task::Destroy { force: false, .. }),
            ),
            Err(status) => status,
        };
    }
    let has_question = matches!(options.task, Task::Destroy { force: false, .. });
    let (mut host, zones) = match act::admitted(call, has_question && !options.dry_run) {
        Ok(admitted) => admitted,
        Err(status) => return status,
    };
    host.plan_only = options.dry_run;
    if by == By::Zone {
        return of_zone(&host, &zones, &options);
    }
    if let Task::List(form, only) = &options.task {
        cli::output::only_prints();
        let (mut rows, mut status) = (Vec::new(), cli::status::OK);
        for zone in &zones {
            match environments::list(&host, zone).and_then(|rows| chosen(rows, only.as_ref())) {
                Ok(more) => rows.extend(more),
                Err(error) => status = status.max(report::error(zone.as_str(), &error)),
            }
        }
        if !rows.is_empty() || (*form == Form::Json && status == cli::status::OK) {
            print!("{}", render(&rows, *form, zones.len() > 1));
        }
        return status;
    }
    if let Err(status) = options.is_meant() {
        return status;
    }
    many::for_each(verb, &zones, |zone, progress| {
        carry_out(&host, zone, &options, by, progress)
    })
}

/// Carries out every task except listing.
fn carry_out(
    host: &Host,
    zone: &ZoneName,
    options: &Options,
    by: By,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let dry_run = options.dry_run;
    match &options.task {
        Task::List(..) => Ok(Outcome::Done),
        Task::Create {
            name,
            from,
            activate,
        } => {
            let from = from.as_ref();
            let made = environments::create(host, zone, name, from, by, dry_run, progress)?;
            match *activate && !dry_run {
                true => environments::activate(host, zone, name, When::NextBoot, false),
                false => Ok(made),
            }
        }
        Task::Activate(name, when) => {
            environments::refuse_automatic(host, zone, name, by)?;
            environments::activate(host, zone, name, *when, dry_run)
        }
        Task::Destroy { name, .. } => environments::destroy(host, zone, name, by, dry_run),
        Task::Rename(from, to) => environments::rename(host, zone, from, to, by, dry_run),
        Task::Mount(name, at) => environments::mount(host, zone, name, at.as_deref(), progress),
        Task::Unmount(name) => environments::unmount(host, zone, name),
    }
}

/// Carries out a request that came from inside a zone. The answer contains no path of the host.
fn of_zone(host: &Host, zones: &[ZoneName], options: &Options) -> u8 {
    let [zone] = zones else {
        return usage::complain("one zone asks for itself", None);
    };
    let done = match &options.task {
        Task::List(form, only) => environments::list(host, zone)
            .and_then(|rows| chosen(rows, only.as_ref()))
            .map(|mut rows| {
                for row in rows.iter_mut().filter(|row| !row.active_now) {
                    row.mountpoint = None;
                }
                print!("{}", render(&rows, *form, false));
                Outcome::Done
            }),
        _ => environments::refuse_immutable(host, zone).and_then(|()| {
            carry_out(host, zone, options, By::Zone, &mut |line| {
                println!("{line}");
            })
        }),
    };
    match done {
        Ok(outcome) => outcome::show(zone, &Ok(outcome)),
        Err(error) => inside::tell(host, zone, &error),
    }
}

impl Options {
    /// Returns the option if a zone must not use it. `-n` is refused because a plan contains paths
    /// of the host.
    fn refused_inside(&self) -> Option<&'static str> {
        match self.task {
            Task::Mount(..) => Some("mount"),
            Task::Unmount(_) => Some("unmount"),
            Task::Activate(_, When::Now) => Some("activate --now"),
            _ => self.dry_run.then_some("-n"),
        }
    }

    /// Asks for confirmation before a boot environment is destroyed. Fails with the exit status if
    /// the user does not confirm.
    fn is_meant(&self) -> Result<(), u8> {
        let Task::Destroy { name, force: false } = &self.task else {
            return Ok(());
        };
        if self.dry_run {
            return Ok(());
        }
        if !cli::prompt::can_ask() {
            eprintln!("zoneadm: Input not from terminal and -F not specified: destroy not done.");
            return Err(cli::status::ERROR);
        }
        let question =
            format!("Are you sure you want to destroy {name}? This action cannot be undone");
        match cli::prompt::confirm(&question) {
            true => Ok(()),
            false => Err(cli::status::OK),
        }
    }
}

/// Returns the rows that the command line asks for.
fn chosen(mut rows: Vec<Row>, only: Option<&Name>) -> Result<Vec<Row>, Error> {
    if let Some(name) = only {
        rows.retain(|row| row.name == name.as_str());
        if rows.is_empty() {
            return Err(Error::Refused(format!("has no boot environment {name}.")));
        }
    }
    Ok(rows)
}

/// The subcommands of beadm, for the message about an unknown subcommand.
const VERBS: [&str; 7] = [
    "beadm list",
    "beadm create",
    "beadm activate",
    "beadm destroy",
    "beadm rename",
    "beadm mount",
    "beadm unmount",
];

fn parse(words: &[String]) -> Result<Option<Options>, String> {
    let Some((verb, words)) = words.split_first() else {
        return Err("beadm needs a subcommand".to_owned());
    };
    let (mut form, mut dry_run, mut force) = (Form::Columns, false, false);
    let (mut from, mut activate, mut now) = (None, false, false);
    let mut operands = Vec::new();
    let mut rest = lexopt::Parser::from_args(words);
    let verb = verb.as_str();
    while let Some(word) = rest.next().map_err(|error| error.to_string())? {
        match word {
            Short('?' | 'h') | Long("help") => return Ok(None),
            Short('H') if verb == "list" => form = Form::Parseable,
            Short('j') | Long("json") if verb == "list" => form = Form::Json,
            Short('n') | Long("dry-run")
                if !matches!(verb, "list" | "mount" | "unmount" | "umount") =>
            {
                dry_run = true;
            }
            Short('a') if verb == "create" => activate = true,
            Short('e') if verb == "create" => {
                let value = rest.value().and_then(|value| value.string());
                from = Some(name(&value.map_err(|error| error.to_string())?)?);
            }
            Long("now") if verb == "activate" => now = true,
            Short('F') if verb == "destroy" => force = true,
            Value(value) => operands.push(value.string().map_err(|error| error.to_string())?),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let mut operands = operands.into_iter();
    let mut next = || operands.next();
    let mut needed = |what: &str| next().ok_or_else(|| format!("beadm {verb} needs {what}"));
    const NAME: &str = "the name of a boot environment";
    let task = match verb {
        "list" => Task::List(form, next().map(|word| name(&word)).transpose()?),
        "create" => Task::Create {
            name: name(&needed(NAME)?)?,
            from,
            activate,
        },
        "activate" => {
            let when = if now { When::Now } else { When::NextBoot };
            Task::Activate(name(&needed(NAME)?)?, when)
        }
        "destroy" => Task::Destroy {
            name: name(&needed(NAME)?)?,
            force,
        },
        "rename" => Task::Rename(name(&needed(NAME)?)?, name(&needed("a new name")?)?),
        "mount" => {
            let name = name(&needed(NAME)?)?;
            let at = next().map(PathBuf::from);
            if at.as_ref().is_some_and(|at| !at.is_absolute()) {
                return Err("the mountpoint must be an absolute path".to_owned());
            }
            Task::Mount(name, at)
        }
        "unmount" | "umount" => Task::Unmount(name(&needed(NAME)?)?),
        "-?" | "-h" | "--help" | "help" => return Ok(None),
        other => return Err(cli::command::unknown(&format!("beadm {other}"), VERBS)),
    };
    match operands.next() {
        Some(more) => Err(format!("unexpected argument: {more}")),
        None => Ok(Some(Options { task, dry_run })),
    }
}

fn name(text: &str) -> Result<Name, String> {
    text.parse().map_err(|error: BadName| error.to_string())
}

fn flags(row: &Row) -> &'static str {
    match (row.active_now, row.active_on_reboot) {
        (true, true) => "NR",
        (true, false) => "N",
        (false, true) => "R",
        (false, false) => "-",
    }
}

/// Formats the list as Solaris' beadm does. With several zones, the first column is the zone.
fn render(rows: &[Row], form: Form, many: bool) -> String {
    if form == Form::Json {
        return listing::json(rows);
    }
    let mut text = String::new();
    let mountpoint = |row: &Row| row.mountpoint.clone().unwrap_or_else(|| "-".to_owned());
    // Writing to a string cannot fail.
    if form == Form::Parseable {
        for row in rows {
            let flags = flags(row).trim_matches('-');
            let mountpoint = row.mountpoint.clone().unwrap_or_default();
            if many {
                let _ = write!(text, "{};", row.zone);
            }
            let _ = writeln!(
                text,
                "{};;{flags};{mountpoint};{};{};{}",
                row.name, row.space_bytes, row.policy, row.created
            );
        }
        return text;
    }
    let columns = [
        Column::left("BE", 2),
        Column::left("Flags", 5),
        Column::left("Mountpoint", 10),
        Column::left("Space", 6),
        Column::left("Policy", 6),
        Column::left("Created", 0),
    ];
    let mut table = listing::table(many, &columns);
    let rule = ["--", "-----", "----------", "-----", "------", "-------"];
    let rule = rule.map(str::to_owned).to_vec();
    table.row(listing::row(many, "----", rule));
    for row in rows {
        let created = cli::units::utc(row.created);
        // The time of creation is shown to the minute, as in Solaris' beadm.
        let created = created.replace('T', " ");
        let created = created.get(..16).unwrap_or(&created);
        let cells = vec![
            row.name.clone(),
            flags(row).to_owned(),
            mountpoint(row),
            cli::units::bytes(row.space_bytes),
            row.policy.to_owned(),
            created.to_owned(),
        ];
        table.row(listing::row(many, &row.zone, cells));
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    fn task(line: &str) -> Task {
        read(line).unwrap().unwrap().task
    }

    #[test]
    fn lines_are_read_as_they_are_described() {
        let be = |text: &str| -> Name { text.parse().unwrap() };
        assert_eq!(task("list"), Task::List(Form::Columns, None));
        assert_eq!(
            task("list -H a"),
            Task::List(Form::Parseable, Some(be("a")))
        );
        assert_eq!(
            task("create -a -e a b"),
            Task::Create {
                name: be("b"),
                from: Some(be("a")),
                activate: true
            }
        );
        assert_eq!(task("activate --now a"), Task::Activate(be("a"), When::Now));
        assert_eq!(task("umount a"), Task::Unmount(be("a")));
        assert_eq!(
            task("mount a /mnt"),
            Task::Mount(be("a"), Some("/mnt".into()))
        );
        assert!(read("destroy -n a").unwrap().unwrap().dry_run);
        assert_eq!(read("list --help"), Ok(None));
        assert_eq!(read("help"), Ok(None));
        for wrong in [
            "",
            "lost",
            "list a b",
            "list -n",
            "create",
            "create ../x",
            "rename a",
            "mount a relative",
            "activate -F a",
            "destroy -H a",
            "create -e",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn columns_and_fields_are_those_of_solaris() {
        let row = |name: &str, active_now, active_on_reboot| Row {
            zone: "web".into(),
            name: name.into(),
            active_now,
            active_on_reboot,
            mountpoint: active_now.then(|| "/".to_owned()),
            space_bytes: 13_000_000,
            policy: "static",
            created: 1_763_674_377,
        };
        let rows = [row("initial", true, false), row("patched-1", false, true)];
        assert_eq!(
            render(&rows, Form::Columns, false),
            "BE        Flags Mountpoint Space  Policy Created\n\
             --        ----- ---------- -----  ------ -------\n\
             initial   N     /          12.3M  static 2025-11-20 21:32\n\
             patched-1 R     -          12.3M  static 2025-11-20 21:32\n"
        );
        assert_eq!(
            render(&rows, Form::Parseable, false),
            "initial;;N;/;13000000;static;1763674377\n\
             patched-1;;R;;13000000;static;1763674377\n"
        );
        assert!(render(&rows, Form::Columns, true).starts_with("ZONE             BE"));
        assert!(render(&rows, Form::Json, false).contains("\"active_on_reboot\": true"));
    }
}
