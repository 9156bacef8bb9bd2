//! The second rule: the reviewed list of generated files.
//!
//! | file | where from | how it is made safe |
//! |---|---|---|
//! | passwd, group, shadow, gshadow | the host's | [`accounts`](super::accounts) |
//! | profile, motd, root's dot files, nsswitch.conf, inputrc, sshd_config | the packaged copy in /usr/share | not from /etc at all |
//! | networks, fstab, environment, subuid, subgid | constants below | - |
//! | pam.d/common-* | the packaged templates | [`pam`] |
//! | shells, default/locale, locale.conf, timezone | the host's | line by line against a pattern |
//! | localtime | the host's link | only into the zoneinfo directory |
//! | ld.so.cache | the host's | [`loader`]: written anew |
//! | alternatives | the host's links | [`links`]: only into inherited directories |
//! | ssl/certs, ca-certificates.conf | the packaged certificates the host trusts | [`certificates`] |
//! | the package database | the host's | [`database`](super::database) |
//!
//! A file that is not in this list, and is not an unchanged configuration file, is not copied.

use std::path::Path;

use crate::install::Error;
use crate::native::fill::Fill;
use crate::native::{certificates, links, loader, pam};
use crate::tree::Meta;

/// Maximum size of a small text file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Maximum length of a line in a small text file, in bytes.
const MAX_LINE: usize = 256;

/// A file that a maintainer script makes from a packaged file.
struct Pristine {
    name: &'static str,
    mode: u32,
    copies: &'static [&'static str],
    otherwise: Option<&'static str>,
}

const fn pristine(name: &'static str, copies: &'static [&'static str]) -> Pristine {
    Pristine {
        name,
        mode: 0o644,
        copies,
        otherwise: None,
    }
}

const PRISTINE: &[Pristine] = &[
    pristine("etc/profile", &["usr/share/base-files/profile"]),
    pristine("etc/motd", &["usr/share/base-files/motd"]),
    pristine("root/.bashrc", &["usr/share/base-files/dot.bashrc"]),
    pristine("root/.profile", &["usr/share/base-files/dot.profile"]),
    pristine("etc/inputrc", &["usr/share/readline/inputrc"]),
    pristine("etc/ssh/sshd_config", &["usr/share/openssh/sshd_config"]),
    Pristine {
        name: "etc/nsswitch.conf",
        mode: 0o644,
        copies: &[
            "usr/share/libc-bin/nsswitch.conf",
            "usr/share/base-files/nsswitch.conf",
        ],
        otherwise: Some("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"),
    },
];

const CONSTANT: &[(&str, &str)] = &[
    ("etc/environment", ""),
    (
        "etc/fstab",
        "# File systems of a zone are resources of its configuration.\n",
    ),
    (
        "etc/networks",
        "default\t0.0.0.0\nloopback\t127.0.0.0\nlink-local\t169.254.0.0\n",
    ),
    ("etc/subgid", ""),
    ("etc/subuid", ""),
];

/// A file that is copied line by line.
struct Filtered {
    name: &'static str,
    accept: fn(&Fill<'_>, &str) -> bool,
}

const FILTERED: &[Filtered] = &[
    Filtered {
        name: "etc/shells",
        accept: |fill, line| {
            is_plain(line, b"/_-.+") && !line.contains("..") && {
                let path = Path::new(line);
                path.is_absolute() && fill.layout.covers(path)
            }
        },
    },
    Filtered {
        name: "etc/default/locale",
        accept: is_locale,
    },
    Filtered {
        name: "etc/locale.conf",
        accept: is_locale,
    },
    Filtered {
        name: "etc/timezone",
        accept: |fill, line| is_zone_name(line) && has_zone(fill, line),
    },
];

/// The folder of time zone files, on the host and in the zone.
const ZONEINFO: &str = "usr/share/zoneinfo";

/// Makes every file on the list except accounts and the package database.
pub fn make(fill: &mut Fill<'_>) -> Result<(), Error> {
    for file in PRISTINE {
        make_pristine(fill, file)?;
    }
    for (name, content) in CONSTANT {
        put(fill, name, content.as_bytes())?;
    }
    for file in FILTERED {
        make_filtered(fill, file)?;
    }
    make_locale_link(fill)?;
    make_localtime(fill)?;
    pam::make(fill)?;
    loader::make(fill)?;
    links::make_alternatives(fill)?;
    certificates::make(fill)
}

/// Updates the generated files of a used root after the host's packages have changed.
pub fn follow(fill: &mut Fill<'_>) -> Result<(), Error> {
    for file in PRISTINE {
        make_pristine(fill, file)?;
    }
    fill.root.remove(Path::new(loader::NAME))?;
    loader::make(fill)?;
    links::make_alternatives(fill)
}

/// Writes a file to the root, unless the file of a package is there already.
pub fn put(fill: &mut Fill<'_>, name: &str, content: &[u8]) -> Result<(), Error> {
    let name = Path::new(name);
    if fill.is_inherited(name) || fill.has(name)? {
        return Ok(());
    }
    fill.file(name, Meta::root(0o644), content)
}

fn make_pristine(fill: &mut Fill<'_>, file: &Pristine) -> Result<(), Error> {
    let name = Path::new(file.name);
    if fill.is_inherited(name) || fill.has(name)? {
        return Ok(());
    }
    for copy in file.copies {
        if let Some((content, _)) = fill.host.read(Path::new(copy), MAX_FILE)? {
            let content = fill_in_os(&content);
            return fill.file(name, Meta::root(file.mode), &content);
        }
    }
    file.otherwise.map_or(Ok(()), |content| {
        fill.file(name, Meta::root(file.mode), content.as_bytes())
    })
}

/// Replaces the placeholder in motd, as the maintainer script of base-files does.
fn fill_in_os(content: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(content) {
        Ok(text) => text.replace("#OSNAME#", "GNU/Linux").into_bytes(),
        Err(_) => content.to_vec(),
    }
}

fn make_filtered(fill: &mut Fill<'_>, file: &Filtered) -> Result<(), Error> {
    let name = Path::new(file.name);
    let Some((content, _)) = fill.host.read(name, MAX_FILE)? else {
        return Ok(());
    };
    let mut kept = String::new();
    for line in content.split(|&byte| byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else {
            continue;
        };
        let line = line.trim();
        if !line.is_empty() && line.len() <= MAX_LINE && (file.accept)(fill, line) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    if kept.is_empty() {
        return Ok(());
    }
    put(fill, file.name, kept.as_bytes())
}

/// Copies lines like `LANG=en_GB.UTF-8`, `LC_TIME="C"` and `LANGUAGE=de:en`, with names of locales
/// only.
fn is_locale(_: &Fill<'_>, line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, value)| {
        let known = matches!(name, "LANG" | "LANGUAGE") || name.starts_with("LC_");
        let name_is_plain = name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        known
            && name_is_plain
            && value
                .split(':')
                .all(|one| is_locale_name(one.trim_matches('"')))
    })
}

/// Returns true for the name of a locale: language, territory, code set, modifier, of limited
/// length.
fn is_locale_name(name: &str) -> bool {
    name.len() <= 32 && is_plain(name, b"_.@-")
}

fn is_zone_name(name: &str) -> bool {
    is_plain(name, b"/_+-") && !name.starts_with('/')
}

fn has_zone(fill: &Fill<'_>, name: &str) -> bool {
    let path = Path::new(ZONEINFO).join(name);
    fill.is_inherited(&path) && fill.host.stat(&path).is_ok_and(|stat| stat.is_some())
}

/// Returns true if `text` contains only letters, digits and these other characters.
fn is_plain(text: &str, others: &[u8]) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
}

/// Newer releases store the locale in locale.conf, and keep the old name as a link.
fn make_locale_link(fill: &mut Fill<'_>) -> Result<(), Error> {
    let (name, target) = (Path::new("etc/default/locale"), Path::new("../locale.conf"));
    let linked = fill
        .host
        .read_link(name)?
        .is_some_and(|link| link == target);
    if linked && fill.has(Path::new("etc/locale.conf"))? && !fill.has(name)? {
        fill.link(name, target)?;
    }
    Ok(())
}

/// Writes the time zone of the host, or UTC.
fn make_localtime(fill: &mut Fill<'_>) -> Result<(), Error> {
    let name = Path::new("etc/localtime");
    let target = fill.host.read_link(name)?;
    let zone = target.and_then(|target| {
        let leads_to = fill.leads_to(name, &target);
        let zone = leads_to.strip_prefix(Path::new("/").join(ZONEINFO)).ok()?;
        let zone = zone.to_str()?.to_owned();
        (is_zone_name(&zone) && has_zone(fill, &zone)).then_some(zone)
    });
    let zone = zone.unwrap_or_else(|| "Etc/UTC".to_owned());
    if fill.has(name)? || !has_zone(fill, &zone) {
        return Ok(());
    }
    fill.link(name, &Path::new("/").join(ZONEINFO).join(zone))
}
