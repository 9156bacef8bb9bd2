//! `zoneadm backup`, `backups` and `restore`: moments of zones in a repository.

use std::path::PathBuf;

use cli::table::Column;
use host::{Error, Host, flatten};
use lexopt::prelude::*;
use model::ZoneName;
use zone::attach::Update;
use zone::backup::{self, Backups, Keep, Moment, Named, Wanted};

use crate::call::Call;
use crate::{act, attach, choose, listing, many, outcome, usage};

/// The task of `backups`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Task {
    #[default]
    List,
    Check,
    Keep(Keep),
}

/// The options of the three subcommands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Options {
    dry_run: bool,
    json: bool,
    /// True if a backup reads every file again.
    whole: bool,
    named: Named,
    task: Task,
    restore: backup::Options,
    wanted: Wanted,
}

pub fn run(call: &Call) -> u8 {
    let verb = call.verb.as_str();
    let options = match parse(verb, &call.rest) {
        Ok(Some(options)) => options,
        Ok(None) => return usage::print(Some(verb)),
        Err(text) => return usage::complain(&text, Some(verb)),
    };
    if verb == "backups" {
        return upkeep(call, &options).unwrap_or_else(|text| {
            eprintln!("zoneadm: {text}");
            cli::status::ERROR
        });
    }
    let (mut host, zones) = match act::admitted(call, false) {
        Ok(admitted) => admitted,
        Err(status) => return status,
    };
    host.plan_only = options.dry_run;
    match (verb, zones.as_slice()) {
        ("backup", zones) => store(&host, zones, &options),
        (_, [zone]) => restore(&host, zone, &options),
        _ => usage::complain("restore takes one zone", Some(verb)),
    }
}

fn store(host: &Host, zones: &[ZoneName], options: &Options) -> u8 {
    if options.dry_run {
        return many::for_each("backup", zones, |zone, _| {
            backup::plan(host, zone, &options.named)
        });
    }
    // The repository is opened once, and made once, for all zones.
    let backups = Backups::open_or_make(host, &options.named, &mut |line| println!("{line}"));
    match backups {
        Ok(backups) => many::for_each("backup", zones, |zone, progress| {
            backup::backup(host, zone, &backups, options.whole, progress)
        }),
        Err(error) => {
            eprintln!("zoneadm: {}", flatten(&error));
            cli::status::ERROR
        }
    }
}

fn restore(host: &Host, zone: &ZoneName, options: &Options) -> u8 {
    let say = &mut |line: &str| println!("{line}");
    let done = Backups::open(host, &options.named).and_then(|backups| {
        if options.wanted.paths.is_empty() {
            let updater = &attach::updater;
            let wanted = &options.restore;
            backup::restore(host, &backups, zone, wanted, options.dry_run, updater, say)
        } else {
            backup::restore_files(host, &backups, zone, &options.wanted, options.dry_run, say)
        }
    });
    outcome::show(zone, &done)
}

/// Runs a task of `backups`, on the zones of the command line or on all zones of the repository.
fn upkeep(call: &Call, options: &Options) -> Result<u8, String> {
    if let Some(zone) = cli::current_zone() {
        return Err(format!("zone {zone} has no backups of its own"));
    }
    if !cli::is_root() {
        return Err("only a privileged user may read the repository of backups.".to_owned());
    }
    let mut host = cli::host(call.root.as_deref()).map_err(|error| error.to_string())?;
    host.plan_only = options.dry_run;
    let text = |error: Error| flatten(&error);
    let backups = Backups::open(&host, &options.named).map_err(text)?;
    let zones = match call.zones.is_empty() && call.uuid.is_none() {
        true => None,
        false => Some(choose::prepare(call)?.1),
    };
    match &options.task {
        Task::Check if zones.is_some() => {
            Err("backups --check takes no zone: it reads the whole repository".to_owned())
        }
        Task::Check => {
            let count = backups.check().map_err(text)?;
            println!("All data of the repository is whole: {count} backups.");
            Ok(cli::status::OK)
        }
        Task::List => {
            let moments = match &zones {
                None => backups.moments().map_err(text)?,
                Some(zones) => {
                    let of = |zone| backups.moments_of(&host, zone).map_err(text);
                    zones
                        .iter()
                        .map(of)
                        .collect::<Result<Vec<_>, _>>()?
                        .concat()
                }
            };
            cli::output::only_prints();
            print!("{}", render(&moments, options.json));
            Ok(cli::status::OK)
        }
        Task::Keep(keep) => {
            let zones = match zones {
                Some(zones) => zones,
                None => all_zones(&backups.moments().map_err(text)?),
            };
            remove(&backups, &zones, keep, options.dry_run).map_err(text)
        }
    }
}

/// Returns the names of all zones that have a moment.
fn all_zones(moments: &[Moment]) -> Vec<ZoneName> {
    let mut zones: Vec<ZoneName> = moments
        .iter()
        .filter_map(|moment| moment.zone.parse().ok())
        .collect();
    zones.sort();
    zones.dedup();
    zones
}

fn remove(backups: &Backups, zones: &[ZoneName], keep: &Keep, dry_run: bool) -> Result<u8, Error> {
    let mut count = 0;
    for zone in zones {
        for moment in backups.forget(zone, keep, dry_run)? {
            count += 1;
            let done = if dry_run { "remove" } else { "removed" };
            println!(
                "{done} {} of zone {zone}, {}",
                moment.short_id(),
                moment.time
            );
        }
    }
    if count > 0 && !dry_run {
        backups.prune()?;
    }
    Ok(cli::status::OK)
}

fn render(moments: &[Moment], json: bool) -> String {
    if json {
        return listing::json(moments);
    }
    let columns = [
        Column::left("ZONE", 16),
        Column::left("BACKUP", 8),
        Column::left("TIME", 20),
        Column::right("ADDED", 8),
        Column::left("HOST", 0),
    ];
    let mut table = listing::table(false, &columns);
    for moment in moments {
        let added = moment.added_bytes.map(cli::units::bytes);
        table.row(vec![
            moment.zone.clone(),
            moment.short_id().to_owned(),
            moment.time.clone(),
            added.unwrap_or_else(|| "-".to_owned()),
            moment.host.clone(),
        ]);
    }
    table.render()
}

// Long because it is a table with one arm for each option.
fn parse(verb: &str, words: &[String]) -> Result<Option<Options>, String> {
    let (store, list, restore) = (verb == "backup", verb == "backups", verb == "restore");
    let mut options = Options::default();
    let mut moment = None;
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('?' | 'h') | Long("help") => return Ok(None),
            Short('n') | Long("dry-run") => options.dry_run = true,
            Short('r') => options.named.repository = Some(value(&mut words)?.parse()?),
            Short('k') => options.named.key = Some(path(&mut words)?),
            Short('f') if store => options.whole = true,
            Short('j') | Long("json") if list => options.json = true,
            Long("check") if list && options.task == Task::List => options.task = Task::Check,
            Long("keep") if list && options.task == Task::List => {
                options.task = Task::Keep(value(&mut words)?.parse()?);
            }
            Short('s') if restore => moment = Some(value(&mut words)?),
            Short('t') if restore => options.restore.trust = true,
            Short('F') if restore => options.restore.force = true,
            Short('u') if restore => options.restore.update = Update::Needed,
            Short('U') if restore => options.restore.update = Update::All,
            Short('d') if restore => options.wanted.folder = Some(path(&mut words)?),
            Value(word) if restore => options.wanted.paths.push(word.into()),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let Options {
        restore, wanted, ..
    } = &options;
    if wanted.folder.is_some() && wanted.paths.is_empty() {
        return Err("-d needs the paths of files; / cannot be one of them".to_owned());
    }
    if *restore != backup::Options::default() && !wanted.paths.is_empty() {
        return Err("-t, -F, -u and -U are for a whole zone, not for files".to_owned());
    }
    if list && options.dry_run && !matches!(options.task, Task::Keep(_)) {
        return Err("-n goes with --keep".to_owned());
    }
    options.restore.moment.clone_from(&moment);
    options.wanted.moment = moment;
    Ok(Some(options))
}

fn value(words: &mut lexopt::Parser) -> Result<String, String> {
    let value = words.value().and_then(|value| value.string());
    value.map_err(|error| error.to_string())
}

fn path(words: &mut lexopt::Parser) -> Result<PathBuf, String> {
    let path = PathBuf::from(value(words)?);
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!("{}: not an absolute path", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(verb: &str, line: &str) -> Result<Option<Options>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(verb, &words)
    }

    #[test]
    fn lines_are_read_as_they_are_described() {
        let options = read("backup", "-n -f -r /srv/b -k /key").unwrap().unwrap();
        assert!(options.dry_run && options.whole);
        assert_eq!(options.named.repository.unwrap().to_string(), "/srv/b");
        assert_eq!(options.named.key, Some("/key".into()));
        let options = read("backups", "-n --keep daily=7").unwrap().unwrap();
        assert!(matches!(options.task, Task::Keep(_)));
        let options = read("restore", "-s 1234abcd -t -u").unwrap().unwrap();
        assert_eq!(options.restore.moment.as_deref(), Some("1234abcd"));
        assert!(options.restore.trust && options.restore.update == Update::Needed);
        let options = read("restore", "-s 2026 -d /out /etc/a /b")
            .unwrap()
            .unwrap();
        assert_eq!(options.wanted.paths.len(), 2);
        assert_eq!(options.wanted.moment.as_deref(), Some("2026"));
        assert_eq!(read("restore", "--help"), Ok(None));
        for (verb, wrong) in [
            ("backup", "surplus"),
            ("backup", "-r s3:x"),
            ("backup", "-k key"),
            ("backup", "--check"),
            ("backups", "-n"),
            ("backups", "--keep 7"),
            ("backups", "--check --keep last=1"),
            ("restore", "-d /out"),
            ("restore", "-d out /etc/a"),
            ("restore", "-F /etc/a"),
            ("restore", "-f"),
        ] {
            assert!(read(verb, wrong).is_err(), "{verb} {wrong}");
        }
    }

    #[test]
    fn a_list_shows_zone_time_size_and_host() {
        let moment = Moment {
            zone: "web".into(),
            uuid: None,
            id: "298e665fd9fec3da".into(),
            time: "2026-11-25T03:40:56Z".into(),
            seconds: 1,
            host: "one".into(),
            added_bytes: Some(2048),
        };
        let unknown = Moment {
            added_bytes: None,
            ..moment.clone()
        };
        assert_eq!(
            render(&[moment.clone(), unknown], false),
            "ZONE             BACKUP   TIME                    ADDED HOST\n\
             web              298e665f 2026-11-25T03:40:56Z     2.0K one\n\
             web              298e665f 2026-11-25T03:40:56Z        - one\n"
        );
        let json: serde_json::Value = serde_json::from_str(&render(&[moment], true)).unwrap();
        assert_eq!(json[0]["added_bytes"], 2048);
    }
}
