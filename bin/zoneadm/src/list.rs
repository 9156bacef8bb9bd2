//! `zoneadm list`.

mod caller;

use cli::table::{Column, Table};
use host::flatten;
use lexopt::prelude::*;
use model::ZoneName;
use model::config::IpType;
use serde::Serialize;
use store::index::Index;
use zone::list::{Depth, Listing, Row, Selection, list};

use caller::Caller;

use crate::call::Call;
use crate::{choose, listing, report, usage};

#[derive(Debug, Default)]
struct Options {
    installed: bool,
    all: bool,
    no_global: bool,
    verbose: bool,
    parseable: bool,
    auxiliary: bool,
    json: bool,
}

pub fn run(call: &Call) -> u8 {
    let options = match parse(&call.rest) {
        Ok(Some(options)) => options,
        Ok(None) => return usage::print(Some("list")),
        Err(text) => return usage::complain(&text, Some("list")),
    };
    if options.parseable && (options.verbose || options.auxiliary) {
        let other = if options.verbose { "-v" } else { "-s" };
        eprintln!("zoneadm: list -p and {other} are mutually exclusive.");
        return cli::status::ERROR;
    }
    let named = !call.zones.is_empty() || call.uuid.is_some();
    if named && (options.installed || options.all || options.no_global) {
        return usage::complain("-i, -c and -n do not go with -z or -u", Some("list"));
    }
    if let Some(zone) = cli::current_zone() {
        print!("{}", render(&[inside(zone)], &options));
        return cli::status::OK;
    }
    match listing(call, &options) {
        Ok(listing) => {
            print!("{}", render(&listing.rows, &options));
            for (zone, error) in &listing.damaged {
                eprintln!("zoneadm: {zone}: could not be listed: {}", flatten(error));
            }
            if listing.damaged.is_empty() {
                cli::status::OK
            } else {
                cli::status::ERROR
            }
        }
        Err(Failed::NoSuchZone(zone)) => report::error(
            zone.as_str(),
            &store::Error::NoSuchZone(zone.clone()).into(),
        ),
        Err(Failed::Text(text)) => {
            eprintln!("zoneadm: {text}");
            cli::status::ERROR
        }
    }
}

/// The reason why `zoneadm list` lists no zones.
#[derive(Debug, PartialEq)]
enum Failed {
    NoSuchZone(ZoneName),
    Text(String),
}

impl From<String> for Failed {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Returns the only row that a zone can see: that of the zone itself.
fn inside(zone: cli::CurrentZone) -> Row {
    Row {
        id: zone.id,
        name: zone.name,
        state: model::State::Running,
        zonepath: "/".into(),
        uuid: zone.uuid,
        brand: zone.brand,
        ip_type: zone.ip_type,
        auxiliary: String::new(),
        read_only: Some(zone.read_only),
        file_mac_profile: zone.profile,
        label: None,
        details: None,
    }
}

fn parse(words: &[String]) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('i') => options.installed = true,
            Short('c') => options.all = true,
            Short('n') => options.no_global = true,
            Short('v') => options.verbose = true,
            Short('p') => options.parseable = true,
            Short('s') => options.auxiliary = true,
            // Debug ids are of newer releases; ours has none to show.
            Short('d') => {}
            Short('j') | Long("json") => options.json = true,
            Short('?' | 'h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected().to_string()),
        }
    }
    Ok(Some(options))
}

fn listing(call: &Call, options: &Options) -> Result<Listing, Failed> {
    let host = cli::host(call.root.as_deref()).map_err(|error| error.to_string())?;
    let (selection, global) = if call.zones.is_empty() && call.uuid.is_none() {
        let selection = match (options.all, options.installed) {
            (true, _) => Selection::All,
            (false, true) => Selection::Installed,
            (false, false) => Selection::Active,
        };
        (selection, !options.no_global)
    } else {
        let index = Index::load(&host.root).map_err(|error| flatten(&error))?;
        named(call, &index)?
    };
    let depth = match options.json {
        true => Depth::Full,
        false => Depth::Plain,
    };
    Ok(list(&host, &selection, global, depth).map_err(|error| flatten(&error))?)
}

/// Returns the zones that -u or -z select, and whether the global zone is selected. The global zone
/// always exists and is not in the index.
fn named(call: &Call, index: &Index) -> Result<(Selection, bool), Failed> {
    let mut call = call.clone();
    let uuid = call.uuid.as_deref().map(str::parse::<model::Uuid>);
    let uuid = uuid.transpose().map_err(|error| error.to_string())?;
    let by_uuid = uuid.is_some_and(|uuid| index.by_uuid(uuid).is_some());
    let before = call.zones.len();
    call.zones.retain(|zone| zone != cli::GLOBAL);
    let global = call.zones.len() < before && !by_uuid;
    if global && call.zones.is_empty() {
        return Ok((Selection::Named(Vec::new()), true));
    }
    let names = choose::chosen(&call, index)?;
    if let Some(missing) = names.iter().find(|name| index.find(name).is_none()) {
        return Err(Failed::NoSuchZone(missing.clone()));
    }
    Ok((Selection::Named(names), global))
}

/// A zone in JSON.
#[derive(Serialize)]
struct Full<'a> {
    #[serde(flatten)]
    row: &'a Row,
    may: Vec<&'static str>,
}

fn json(rows: &[Row]) -> String {
    let caller = Caller::find();
    let full = |row| Full {
        row,
        may: caller.may(row),
    };
    listing::json(&rows.iter().map(full).collect::<Vec<_>>())
}

fn render(rows: &[Row], options: &Options) -> String {
    if options.json {
        return json(rows);
    }
    if options.parseable {
        return rows.iter().map(|row| parseable(row) + "\n").collect();
    }
    if options.auxiliary {
        let mut table = Table::new([
            Column::left("NAME", 16),
            Column::left("STATUS", 10),
            Column::left("AUXILIARY STATE", 0),
        ]);
        for row in rows {
            table.row(vec![
                row.name.clone(),
                row.state.to_string(),
                row.auxiliary.clone(),
            ]);
        }
        return table.render();
    }
    if !options.verbose {
        return rows.iter().map(|row| format!("{}\n", row.name)).collect();
    }
    let mut columns = vec![
        Column::right("ID", 4),
        Column::left("NAME", 16),
        Column::left("STATUS", 10),
        Column::left("PATH", 30),
        Column::left("BRAND", 8),
        Column::left("IP", 6),
    ];
    let labels = rows.iter().any(|row| row.label.is_some());
    columns.extend(labels.then(|| Column::left("LABEL", 0)));
    let mut table = Table::new(columns);
    for row in rows {
        let mut cells = vec![
            id(row),
            row.name.clone(),
            row.state.to_string(),
            row.zonepath.display().to_string(),
            row.brand.clone(),
            ip(row).to_owned(),
        ];
        let label = row.label.clone().unwrap_or_else(|| "-".to_owned());
        cells.extend(labels.then_some(label));
        table.row(cells);
    }
    table.render()
}

fn id(row: &Row) -> String {
    row.id.map_or_else(|| "-".to_owned(), |id| id.to_string())
}

fn ip(row: &Row) -> &'static str {
    match row.ip_type {
        IpType::Shared => "shared",
        IpType::Exclusive => "excl",
    }
}

/// Returns R for a zone whose root is read-only, W for another active zone.
fn access(row: &Row) -> char {
    match row.read_only {
        Some(true) => 'R',
        Some(false) => 'W',
        None => '-',
    }
}

/// `zoneid:zonename:state:zonepath:uuid:brand:ip-type:r/w:file-mac-profile`, colons in the path
/// escaped.
fn parseable(row: &Row) -> String {
    let path = listing::field(&row.zonepath.display().to_string());
    let uuid = row.uuid.map(|uuid| uuid.to_string()).unwrap_or_default();
    format!(
        "{}:{}:{}:{path}:{uuid}:{}:{}:{}:{}",
        id(row),
        row.name,
        row.state,
        row.brand,
        ip(row),
        access(row),
        row.file_mac_profile
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::State;

    fn index() -> Index {
        let mut index = Index::default();
        for name in ["web", "db"] {
            let mut entry =
                store::index::Entry::configured(name.parse().unwrap(), format!("/{name}").into());
            entry.uuid = (name == "web").then(|| UUID.parse().unwrap());
            index.put(entry);
        }
        index
    }

    const UUID: &str = "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff";

    fn named_by(words: &str) -> Result<(Vec<String>, bool), Failed> {
        let words = words.split_whitespace().map(Into::into).collect();
        let call = crate::call::parse(words).unwrap();
        match named(&call, &index())? {
            (Selection::Named(names), global) => {
                Ok((names.iter().map(ToString::to_string).collect(), global))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_global_zone_can_be_named() {
        let other = "00000000-0000-4000-8000-000000000000";
        for (words, zones, global) in [
            ("-z global list", &[][..], true),
            ("-z global -z db list", &["db"], true),
            ("-z db list", &["db"], false),
            ("-z * list", &["web", "db"], false),
            (&format!("-u {UUID} -z global list"), &["web"], false),
            (&format!("-u {other} -z global list"), &[], true),
        ] {
            let zones: Vec<String> = zones.iter().map(ToString::to_string).collect();
            assert_eq!(named_by(words), Ok((zones, global)), "{words}");
        }
        for words in ["-u junk -z global list", "-z global -z nobody list"] {
            assert!(named_by(words).is_err(), "{words}");
        }
        assert!(named_by(&format!("-u {other} list")).is_err());
    }

    pub(super) fn row() -> Row {
        Row {
            id: None,
            name: "web1".into(),
            state: State::Installed,
            zonepath: "/zones/a:b".into(),
            uuid: Some("0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff".parse().unwrap()),
            brand: "native".into(),
            ip_type: IpType::Exclusive,
            auxiliary: String::new(),
            read_only: None,
            file_mac_profile: "strict".into(),
            label: None,
            details: None,
        }
    }

    #[test]
    fn columns_and_fields_are_those_of_illumos() {
        let with = |options: Options| render(&[row()], &options);
        assert_eq!(with(Options::default()), "web1\n");
        assert_eq!(
            with(Options {
                parseable: true,
                ..Options::default()
            }),
            "-:web1:installed:/zones/a\\:b:0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff:native:excl:-:strict\n"
        );
        assert_eq!(
            with(Options {
                verbose: true,
                ..Options::default()
            }),
            "  ID NAME             STATUS     PATH                           BRAND    IP    \n   - web1             installed  /zones/a:b                     native   excl  \n"
        );
        assert_eq!(
            with(Options {
                auxiliary: true,
                ..Options::default()
            }),
            "NAME             STATUS     AUXILIARY STATE\nweb1             installed\n"
        );
        let mut long = row();
        long.name = "a-zone-of-a-long-name".to_owned();
        let verbose = Options {
            verbose: true,
            ..Options::default()
        };
        assert_eq!(
            render(&[long, row()], &verbose),
            "  ID NAME                  STATUS     PATH                           BRAND    IP    \n   - a-zone-of-a-long-name installed  /zones/a:b                     native   excl  \n   - web1                  installed  /zones/a:b                     native   excl  \n"
        );
        assert!(
            with(Options {
                json: true,
                ..Options::default()
            })
            .contains("\"ip_type\": \"exclusive\"")
        );
    }
}
