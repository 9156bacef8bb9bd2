//! The first boot of a zone, as the administrator describes it with `install -c` or `clone -c`.
//!
//! The path that follows `-c` names one of these:
//!
//! | path | meaning |
//! |---|---|
//! | a file of XML, or a folder with nothing but files `*.xml` | profiles of Solaris ([`read`], [`apply`]) |
//! | a folder with a file `user-data` or `meta-data` | a seed for cloud-init ([`seed`]) |
//! | another folder | files for the root ([`crate::identity::lay`]) |
//!
//! A profile sets the host name, accounts, time zone, locale and resolver in the files of the root,
//! before the zone boots. Its commands run once, when the zone boots: see [`commands`].

mod accounts;
mod bundle;
mod commands;
mod profile;
pub mod seed;
mod values;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use model::Config;
use rustix::fs::OFlags;

use crate::Error;
use crate::identity::{Stack, hosts_for};
use crate::sparse;
use crate::tree::Meta;
use profile::Profile;

/// Maximum number of profiles in a folder.
const MAX_PROFILES: usize = 64;

/// Maximum number of entries of a folder that decide about its kind.
const MAX_ENTRIES: usize = 1000;

/// Maximum size of a file of the root that a profile changes, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The kind of settings at a path that the administrator gave with `-c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder with files that replace files of the root.
    Files,
    /// Profiles of Solaris.
    Profiles(Vec<PathBuf>),
    /// A seed for cloud-init.
    Seed,
}

/// Returns the kind of settings at `path`.
///
/// # Errors
/// Fails with [`Error::Source`] if the path is neither a folder nor a regular file, and with
/// [`Error::Io`].
pub fn kind_of(path: &Path) -> Result<Kind, Error> {
    let fail = |error| Error::io("look at", path, error);
    let meta = std::fs::metadata(path).map_err(fail)?;
    if meta.is_file() {
        return Ok(Kind::Profiles(vec![path.to_owned()]));
    }
    if !meta.is_dir() {
        return Err(refuse(path, "neither a profile nor a directory"));
    }
    let is_file = |name: &str| path.join(name).is_file();
    if is_file(seed::USER_DATA) || is_file(seed::META_DATA) {
        return Ok(Kind::Seed);
    }
    let mut profiles = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fail)?.take(MAX_ENTRIES) {
        let entry = entry.map_err(fail)?.path();
        let is_xml = entry
            .extension()
            .is_some_and(|extension| extension == "xml");
        if !is_xml || !entry.is_file() {
            return Ok(Kind::Files);
        }
        profiles.push(entry);
    }
    profiles.sort();
    match profiles.len() {
        0 => Ok(Kind::Files),
        1..=MAX_PROFILES => Ok(Kind::Profiles(profiles)),
        _ => Err(refuse(path, "more than 64 profiles")),
    }
}

/// The settings of one or more profiles.
#[derive(Debug)]
pub struct Settings {
    profile: Profile,
    /// A line, without values, for each part of the profiles that has no effect.
    pub remarks: Vec<String>,
}

/// Reads profiles. A later profile replaces the settings of an earlier one.
///
/// # Errors
/// Fails with [`Error::Source`], which names the file, its line or the property, and no value.
pub fn read(paths: &[PathBuf]) -> Result<Settings, Error> {
    let mut settings = Settings {
        profile: Profile::default(),
        remarks: Vec::new(),
    };
    for path in paths {
        let text = read_host_file(path, bundle::MAX_BYTES)?;
        let text = String::from_utf8(text)
            .map_err(|_| refuse(path, "expected a profile in XML and UTF-8"))?;
        let remarks = bundle::read(&text)
            .and_then(|bundle| profile::add(&mut settings.profile, &bundle))
            .map_err(|problem| refuse(path, &problem))?;
        let shown = path.display();
        let remarks = remarks.iter().map(|remark| format!("{shown}: {remark}"));
        settings.remarks.extend(remarks);
    }
    Ok(settings)
}

fn refuse(path: &Path, problem: &str) -> Error {
    Error::Source {
        origin: path.to_owned(),
        problem: problem.to_owned(),
    }
}

/// Reads a regular file of the host that the administrator named.
fn read_host_file(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let fail = |error| Error::io("read", path, error);
    // An open without this flag would wait for the writer of a pipe.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(fail)?;
    if !file.metadata().map_err(fail)?.is_file() {
        return Err(refuse(path, "not a regular file"));
    }
    let mut content = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut content)
        .map_err(fail)?;
    match content.len() as u64 > limit {
        true => Err(refuse(path, &format!("larger than {} KiB", limit >> 10))),
        false => Ok(content),
    }
}

impl Settings {
    /// Fails if a zone of this configuration cannot have these settings.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`].
    pub fn check(&self, config: &Config) -> Result<(), Error> {
        match !self.profile.packages.is_empty() && sparse::is_sparse(config) {
            true => Err(Error::Refused(
                "site/first-boot run/packages: a zone with inherit-pkg-dir has the programs of the host; install the packages on the host".to_owned(),
            )),
            false => Ok(()),
        }
    }
}

/// Applies the settings to a new root. `top` and `layers` are those of
/// [`crate::identity::apply`].
///
/// # Errors
/// Fails with [`Error::Refused`] if the root cannot have a setting, and if the top cannot be
/// written.
pub fn apply(
    settings: &Settings,
    config: &Config,
    top: &Path,
    layers: &[PathBuf],
) -> Result<(), Error> {
    settings.check(config)?;
    let profile = &settings.profile;
    let mut stack = Stack::open(top, layers)?;
    let stack = &mut stack;
    if let Some(name) = &profile.host_name {
        let hosts = stack.read(Path::new("etc/hosts"), MAX_FILE_BYTES)?;
        put(stack, "etc/hostname", &format!("{name}\n"))?;
        let hosts = hosts_for(hosts.as_deref(), name);
        stack.replace(Path::new("etc/hosts"), Meta::root(0o644), &hosts)?;
    }
    accounts::set_root(stack, &profile.root)?;
    if let Some(login) = &profile.user.login {
        accounts::set_user(stack, login, &profile.user)?;
    }
    if let Some(zone) = &profile.timezone {
        let target = Path::new("/usr/share/zoneinfo").join(zone);
        stack.link(Path::new("etc/localtime"), &target)?;
        if stack.has_any(&["etc/timezone", "etc/debian_version"])? {
            put(stack, "etc/timezone", &format!("{zone}\n"))?;
        }
    }
    locale(stack, profile)?;
    resolver(stack, profile)?;
    let mut commands = Vec::new();
    if !profile.packages.is_empty() {
        commands.push(commands::install(&profile.packages));
    }
    commands.extend(profile.commands.iter().cloned());
    if commands.is_empty() {
        return Ok(());
    }
    if !starts_commands(config, stack)? {
        return Err(Error::Refused(
            "site/first-boot run: expected zinit, systemd or sysvinit (/etc/rc2.d) in the root to start the commands; set the attribute init=zinit"
                .to_owned(),
        ));
    }
    commands::write(stack, &commands)
}

/// Returns true if the init of the zone starts the commands of the first boot.
fn starts_commands(config: &Config, stack: &Stack) -> Result<bool, Error> {
    match config.attr("init") {
        Some("zinit") => return Ok(true),
        None if sparse::is_sparse(config) => return Ok(true),
        // The programs of a sparse zone are those of the host.
        Some(_) if sparse::is_sparse(config) => return Ok(true),
        _ => {}
    }
    stack.has_any(&[
        "usr/lib/systemd/systemd",
        "lib/systemd/systemd",
        "etc/rc2.d",
    ])
}

fn put(stack: &mut Stack, name: &str, text: &str) -> Result<(), Error> {
    stack.replace(Path::new(name), Meta::root(0o644), text.as_bytes())
}

fn locale(stack: &mut Stack, profile: &Profile) -> Result<(), Error> {
    if profile.locale.is_empty() {
        return Ok(());
    }
    let lines = profile.locale.iter();
    let text: String = lines
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    put(stack, "etc/locale.conf", &text)?;
    // PAM of Debian reads this file.
    match stack.has_any(&["etc/default"])? {
        true => put(stack, "etc/default/locale", &text),
        false => Ok(()),
    }
}

fn resolver(stack: &mut Stack, profile: &Profile) -> Result<(), Error> {
    let mut text = String::new();
    if let Some(domain) = &profile.domain {
        let _ = writeln!(text, "domain {domain}");
    }
    if !profile.search.is_empty() {
        let _ = writeln!(text, "search {}", profile.search.join(" "));
    }
    for address in &profile.name_servers {
        let _ = writeln!(text, "nameserver {address}");
    }
    if !text.is_empty() {
        put(stack, "etc/resolv.conf", &text)?;
    }
    let Some(sources) = &profile.host_sources else {
        return Ok(());
    };
    let name = Path::new("etc/nsswitch.conf");
    let old = stack.read(name, MAX_FILE_BYTES)?.unwrap_or_default();
    let old = String::from_utf8_lossy(&old);
    let kept = old
        .lines()
        .filter(|line| !line.trim_start().starts_with("hosts:"));
    let mut text: String = kept.map(|line| format!("{line}\n")).collect();
    let _ = writeln!(text, "hosts:          {sources}");
    put(stack, "etc/nsswitch.conf", &text)
}

#[cfg(test)]
mod tests;
