//! `zoneadm files ls`.

use std::borrow::Cow;

use copy::name::shown;
use diff::Kind;
use host::Host;
use model::ZoneName;
use serde::Serialize;
use zone::moments::files::{Item, list};

use super::parse::Parsed;
use crate::lines::{Lines, Text, path_of};
use crate::report;

pub fn run(host: &Host, zone: &ZoneName, parsed: &Parsed) -> u8 {
    let mut lines = Lines::default();
    let listed = list(
        host,
        zone,
        &parsed.snapshot,
        &parsed.paths[0],
        &mut |item| match parsed.json {
            true => lines.json(&Row::of(item)),
            false => lines.text(&text(item)),
        },
    );
    lines.flush();
    match listed {
        Ok(()) => cli::status::OK,
        Err(error) => report::error(zone.as_str(), &error),
    }
}

/// Returns the line of an object: mode, owner, size, time, name.
fn text(item: &Item) -> String {
    let letter = match item.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::BlockDevice => 'b',
        Kind::CharacterDevice => 'c',
    };
    let target = item.target.as_deref().map(|target| shown(path_of(target)));
    let target = target.map(|target| format!(" -> {target}"));
    format!(
        "{letter}{:04o} {:>5}:{:<5} {:>10} {} {}{}\n",
        item.mode,
        item.owner.0,
        item.owner.1,
        item.size,
        cli::units::utc(u64::try_from(item.modified).unwrap_or(0)),
        shown(path_of(&item.name)),
        target.unwrap_or_default()
    )
}

/// A line of `files ls -j`.
#[derive(Debug, Serialize)]
struct Row<'a> {
    /// The name; escaped if it is not UTF-8.
    name: Cow<'a, str>,
    /// The bytes of a name that is not UTF-8, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_bytes: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The permissions, in octal digits.
    mode: String,
    uid: u32,
    gid: u32,
    size: u64,
    /// Seconds since 1970.
    modified: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<String>,
}

impl<'a> Row<'a> {
    fn of(item: &'a Item) -> Self {
        let name = Text::of(&item.name);
        let target = item.target.as_deref().map(Text::of);
        let (target, target_bytes) = match target {
            Some(Text { path, path_bytes }) => (Some(path), path_bytes),
            None => (None, None),
        };
        Self {
            name: name.path,
            name_bytes: name.path_bytes,
            kind: item.kind.as_str(),
            mode: format!("{:04o}", item.mode),
            uid: item.owner.0,
            gid: item.owner.1,
            size: item.size,
            modified: item.modified,
            target,
            target_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_targets_stay_on_their_line() {
        let item = Item {
            name: b"a\n\xff".to_vec(),
            kind: Kind::Symlink,
            mode: 0o777,
            owner: (0, 33),
            size: 5,
            modified: 1_763_674_377,
            target: Some(b"/etc\x1b".to_vec()),
        };
        assert_eq!(
            text(&item),
            "l0777     0:33             5 2025-11-20T21:32:57Z a\\n\\xff -> /etc\\u{1b}\n"
        );
        assert_eq!(
            serde_json::to_string(&Row::of(&item)).unwrap(),
            r#"{"name":"a\\n\\xff","name_bytes":"YQr/","type":"symlink","mode":"0777","uid":0,"gid":33,"size":5,"modified":1763674377,"target":"/etc\u001b"}"#
        );
    }
}
