//! The subcommands for catalogues: search, refresh, remote.

use catalogue::{Protocol, Remote, Trust};
use cli::table::{Column, Table};
use cli::units;
use host::{Error, Host};
use serde::Serialize;
use zone::images::by_name::{self, Age, remotes};

use crate::{Options, absolute, complain, show};

/// Number of digits of a fingerprint that a list shows.
const SHORT_FINGERPRINT: usize = 12;

/// An image of a catalogue, as JSON.
#[derive(Debug, Serialize)]
struct Found<'a> {
    name: &'a str,
    remote: &'a str,
    product: &'a str,
    aliases: &'a [String],
    architecture: &'a str,
    os: &'a str,
    release: &'a str,
    variant: &'a str,
    version: &'a str,
    /// Size of the download, in bytes.
    bytes: u64,
    fingerprint: &'a str,
}

/// A remote, as JSON.
#[derive(Debug, Serialize)]
struct Configured<'a> {
    name: &'a str,
    protocol: &'a str,
    url: String,
    trust: String,
    architecture: Option<&'a str>,
}

pub fn act(host: &Host, verb: &str, options: &Options) -> Result<u8, Error> {
    match verb {
        "search" => search(host, options),
        "refresh" => refresh(host, options),
        _ => remote(host, options),
    }
}

fn search(host: &Host, options: &Options) -> Result<u8, Error> {
    let pattern = options.operands.first().map_or("", String::as_str);
    let rows = by_name::search(host, pattern, &mut |line| eprintln!("{line}"))?;
    let rows: Vec<Found<'_>> = rows.iter().map(found).collect();
    if options.json {
        print!("{}", show::to_json(&rows));
        return Ok(cli::status::OK);
    }
    let mut table = Table::new([
        Column::left("NAME", 24),
        Column::left("REMOTE", 10),
        Column::left("VERSION", 14),
        Column::right("SIZE", 8),
        Column::left("FINGERPRINT", 0),
    ]);
    for row in rows {
        table.row(vec![
            row.name.to_owned(),
            row.remote.to_owned(),
            row.version.to_owned(),
            units::bytes(row.bytes),
            row.fingerprint.chars().take(SHORT_FINGERPRINT).collect(),
        ]);
    }
    print!("{}", table.render());
    Ok(cli::status::OK)
}

fn found(row: &by_name::Row) -> Found<'_> {
    let product = &row.product;
    let root = product.roots.first();
    let metadata = product.metadata.as_ref().map_or(0, |file| file.size);
    Found {
        name: product.called(),
        remote: &row.remote,
        product: &product.name,
        aliases: &product.aliases,
        architecture: &product.architecture,
        os: &product.os,
        release: &product.release,
        variant: &product.variant,
        version: &product.version,
        bytes: root.map_or(0, |root| root.file.size.saturating_add(metadata)),
        fingerprint: root.map_or("", |root| &root.fingerprint),
    }
}

/// Refreshes the catalogues of the named remotes, or of all; an error stops no other.
fn refresh(host: &Host, options: &Options) -> Result<u8, Error> {
    let all = remotes::list(host)?;
    let age = match options.allow_older {
        true => Age::AllowOlder,
        false => Age::RefuseOlder,
    };
    let mut chosen: Vec<&Remote> = Vec::new();
    for name in &options.operands {
        let remote = all.iter().find(|remote| remote.name == *name);
        chosen.push(remote.ok_or_else(|| Error::Refused(remotes::unknown_of(name, &all)))?);
    }
    if options.operands.is_empty() {
        let with_catalogue =
            |remote: &&Remote| matches!(remote.protocol, Protocol::SimpleStreams(_));
        chosen.extend(all.iter().filter(with_catalogue));
    }
    if chosen.is_empty() {
        return Err(Error::Refused(by_name::NONE_CONFIGURED.to_owned()));
    }
    let mut status = cli::status::OK;
    for remote in chosen {
        match by_name::refresh(host, remote, age, &mut |line| eprintln!("{line}")) {
            Ok(1) => println!("{}: 1 image", remote.name),
            Ok(count) => println!("{}: {count} images", remote.name),
            Err(error) => status = status.max(complain(&error)),
        }
    }
    Ok(status)
}

fn remote(host: &Host, options: &Options) -> Result<u8, Error> {
    let words: Vec<&str> = options.operands.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["add", name, url] => {
            let trust = match (&options.keyring, options.tls_only) {
                (Some(path), false) => Trust::Keyring(absolute(&path.to_string_lossy())?),
                (None, true) => Trust::TlsOnly,
                _ => {
                    return Err(Error::Usage(
                        "expected one of --keyring FILE and --tls-only: how should images of this remote be trusted?"
                            .to_owned(),
                    ));
                }
            };
            let protocol = Protocol::new(options.protocol.as_deref(), url);
            let remote = protocol.and_then(|protocol| {
                Remote::new(name, protocol, trust, options.architecture.as_deref())
            });
            remotes::add(
                host,
                &remote.map_err(|error| Error::Usage(error.to_string()))?,
            )?;
        }
        ["list"] => print!("{}", list(&remotes::list(host)?, options.json)),
        ["remove", names @ ..] if !names.is_empty() => {
            for name in names {
                remotes::remove(host, name)?;
            }
        }
        _ => {
            return Err(Error::Usage(
                "expected remote add NAME URL, remote list, or remote remove NAME".to_owned(),
            ));
        }
    }
    Ok(cli::status::OK)
}

fn list(remotes: &[Remote], json: bool) -> String {
    let rows: Vec<Configured<'_>> = remotes
        .iter()
        .map(|remote| Configured {
            name: &remote.name,
            protocol: remote.protocol.name(),
            url: remote.protocol.url(),
            trust: remote.trust.to_string(),
            architecture: remote.architecture.as_deref(),
        })
        .collect();
    if json {
        return show::to_json(&rows);
    }
    let mut table = Table::new([
        Column::left("NAME", 12),
        Column::left("PROTOCOL", 14),
        Column::left("URL", 40),
        Column::left("TRUST", 0),
    ]);
    for row in rows {
        table.row(vec![
            row.name.to_owned(),
            row.protocol.to_owned(),
            row.url,
            row.trust,
        ]);
    }
    table.render()
}
