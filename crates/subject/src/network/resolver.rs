//! The resolver for the names of zones: one dnsmasq(8) for all zones of a host.
//!
//! Each zone for which the host routes has a file in the folder `hosts` of the shared state.
//! dnsmasq reads a file when the file appears, and forgets its names when the file is removed, so no
//! zone restarts dnsmasq. The processes of dnsmasq are the processes of one control group, to which
//! the symbolic link `resolver` leads. No pid is stored.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use limits::Base;
use model::plan::network::{Published, Transport};
use net::Record;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use store::atomic::{self, Durability};
use sys::process::{Executable, Program};

use crate::network::common::{Common, folder_here, key, root_of};
use crate::network::error::AnyError;

/// The domain of the zones of `/`. ICANN reserves `internal` for private networks.
pub const DOMAIN: &str = "zones.internal";

/// The folder with a file of names for each zone, in the shared state.
const HOSTS: &str = "hosts";

/// The symbolic link to the control group of dnsmasq, in the shared state.
const GROUP: &str = "resolver";

/// The paths at which distributions install dnsmasq.
const PROGRAMS: [&str; 2] = ["/usr/sbin/dnsmasq", "/usr/bin/dnsmasq"];

/// The account that the package of dnsmasq makes.
const ACCOUNT: &str = "dnsmasq";

/// Maximum number of queries that dnsmasq forwards at once for all zones. The default of dnsmasq is
/// 150, which one zone could use up.
const MAX_FORWARDED: u32 = 1000;

/// Maximum length of a DNS label in bytes (RFC 1035).
const MAX_LABEL: usize = 63;

/// Maximum length of the part of a domain that comes from the name of a root's folder.
const MAX_ROOT_NAME: usize = 40;

/// The state of the resolver in a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// dnsmasq runs as this process.
    Up(i32),
    /// dnsmasq was started, and has ended.
    Lost,
    /// dnsmasq was not started.
    Down,
}

/// Returns the state of the resolver whose shared state is in `folder`.
pub(super) fn state(folder: &Path) -> State {
    let Ok(group) = fs::read_link(folder.join(GROUP)) else {
        return State::Down;
    };
    main_process(&group).map_or(State::Lost, State::Up)
}

/// Returns the process in a group whose parent is not in the group. dnsmasq has child processes
/// that answer clients over TCP.
fn main_process(group: &Path) -> Option<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).ok()?;
    let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let is_main = |pid: &&i32| {
        let parent = parent_of(**pid);
        parent.is_some_and(|parent| !pids.contains(&parent))
    };
    pids.iter().find(is_main).copied()
}

fn parent_of(pid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// The resolver in a network namespace, for a process that waits for its end.
#[derive(Debug)]
pub enum Watched {
    /// A pidfd of the resolver.
    Up(OwnedFd),
    /// The resolver has ended.
    Lost,
    /// The resolver was not started, or cannot be watched.
    Down,
}

/// Returns the resolver of the calling thread's network namespace.
#[must_use]
pub fn watch() -> Watched {
    let state = folder_here().map_or(State::Down, |folder| state(&folder));
    let pid = match state {
        State::Up(pid) => Pid::from_raw(pid),
        State::Lost => return Watched::Lost,
        State::Down => None,
    };
    match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
        Some(Ok(resolver)) => Watched::Up(resolver),
        // The resolver has ended since it was found.
        Some(Err(Errno::SRCH)) => Watched::Lost,
        Some(Err(_)) | None => Watched::Down,
    }
}

/// Returns the addresses at which a zone asks the resolver, IPv4 first, if the resolver runs or the
/// next boot can start it. Must be called in the host's network namespace.
#[must_use]
pub fn server() -> Option<IpAddr> {
    let folder = folder_here().ok()?;
    let is_offered = matches!(state(&folder), State::Up(_)) || obstacle().is_none();
    is_offered.then(|| net::pool::of_host()[0].ip)
}

/// Returns the reason why this host cannot run the resolver; `None` if it can.
pub(super) fn obstacle() -> Option<String> {
    if program().is_none() {
        return Some(
            "zones have no names: install dnsmasq (package dnsmasq-base of Debian), then run \
             zoneadm network -r"
                .to_owned(),
        );
    }
    let [own, _] = net::pool::of_host();
    let port = Published {
        protocol: Transport::Udp,
        address: Some(own.ip),
        first: 53,
        last: 53,
        inside: 53,
    };
    // An unreadable file is no obstacle: dnsmasq reports a port that it cannot have.
    let (_, owner) = net::listeners::on(&port).ok()??;
    Some(format!(
        "zones have no names: {owner} listens on port 53 of {}: let it listen on other addresses \
         only, then run zoneadm network -r",
        own.ip
    ))
}

fn program() -> Option<&'static Path> {
    let is_program = |path: &&Path| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    PROGRAMS.into_iter().map(Path::new).find(is_program)
}

/// Starts the resolver if it does not run. Returns the reason if the host cannot run it: zones work
/// without names of other zones.
pub(super) fn keep(common: &Common) -> Option<String> {
    let folder = common.folder();
    if matches!(state(folder), State::Up(_)) {
        return None;
    }
    if let Some(why) = obstacle() {
        // The resolver is not lost: this host cannot run it. The first zone says so for all.
        let _ = end(folder);
        return (common.records().len() <= 1).then_some(why);
    }
    common.forget_names_of_the_dead();
    let failed = start(folder).err()?;
    let _ = end(folder);
    Some(format!(
        "zones have no names: could not start dnsmasq: {failed}"
    ))
}

fn start(folder: &Path) -> Result<(), AnyError> {
    let program = program().ok_or("there is no program dnsmasq")?;
    let number = folder.file_name().unwrap_or_default().to_string_lossy();
    let group = Base::find(Path::new(&format!("/zones-resolver-{number}")))?.v2;
    let link = folder.join(GROUP);
    end(folder)?;
    symlink(&group, &link)?;
    let opened = limits::zone::open_group(&group)?;
    let complaints = rustix::fs::memfd_create("dnsmasq", MemfdFlags::CLOEXEC)?;
    let text = |bytes: &[u8]| CString::new(bytes);
    let arguments = arguments(&folder.join(HOSTS), has_account());
    let program = Program {
        executable: Executable::Path(text(program.as_os_str().as_bytes())?),
        arguments: [text(b"dnsmasq")]
            .into_iter()
            .chain(arguments.iter().map(|one| text(one.as_bytes())))
            .collect::<Result<_, _>>()?,
        environment: vec![text(b"PATH=/usr/sbin:/usr/bin:/sbin:/bin")?],
    };
    let child = program.spawn_daemon(Some(opened.as_fd()), None, Some(complaints.as_fd()), &[])?;
    // This first process ends when dnsmasq listens, or when it could not.
    let ended = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)?;
    let status = ended.and_then(|one| one.exit_status());
    if status == Some(0) {
        return Ok(());
    }
    let mut complaints = File::from(complaints);
    let mut said = String::new();
    complaints.rewind()?;
    complaints.take(4096).read_to_string(&mut said)?;
    let said = said
        .lines()
        .find(|line| !line.is_empty())
        .unwrap_or("it ended at once");
    Err(said.trim().into())
}

/// Returns the options of dnsmasq: it reads no file of the host's own dnsmasq, listens on the
/// host's addresses of the pool only, and forwards other names to the host's name servers.
fn arguments(hosts: &Path, has_account: bool) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "--conf-file=/dev/null",
        "--no-hosts",
        "--resolv-file=/etc/resolv.conf",
        "--bind-dynamic",
        "--domain-needed",
        "--cache-size=1000",
        "--pid-file",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--dns-forward-max={MAX_FORWARDED}"));
    arguments.push(format!("--hostsdir={}", hosts.display()));
    let own = net::pool::of_host();
    arguments.extend(own.iter().map(|one| format!("--listen-address={}", one.ip)));
    let domains = std::iter::once(DOMAIN.to_owned()).chain(net::pool::reverse_domains());
    arguments.extend(domains.map(|domain| format!("--local=/{domain}/")));
    if has_account {
        arguments.push(format!("--user={ACCOUNT}"));
    }
    arguments
}

/// Returns true if the host has the account of dnsmasq. Otherwise dnsmasq runs as nobody.
fn has_account() -> bool {
    let prefix = format!("{ACCOUNT}:");
    fs::read_to_string("/etc/passwd")
        .is_ok_and(|text| text.lines().any(|line| line.starts_with(&prefix)))
}

/// Ends the resolver whose shared state is in `folder`.
pub(super) fn end(folder: &Path) -> Result<(), AnyError> {
    let link = folder.join(GROUP);
    let group = match fs::read_link(&link) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    limits::zone::end_group(&group)?;
    Ok(fs::remove_file(&link)?)
}

/// Writes the names of a zone for the resolver, or removes them if the host routes to no address of
/// the zone.
pub(super) fn name(common: &Common, path: &Path, record: &Record) -> Result<(), AnyError> {
    let Some(name) = full_name(path) else {
        return Ok(());
    };
    let routed = record.links.iter().filter(|held| held.routed);
    let addresses = routed.flat_map(|held| held.addresses.iter());
    let text: String = addresses
        .map(|one| format!("{}\t{name}\n", one.ip))
        .collect();
    let file = common.folder().join(HOSTS).join(key(path));
    if text.is_empty() {
        return forget(&file);
    }
    Ok(atomic::replace(
        &file,
        text.as_bytes(),
        0o644,
        Durability::Volatile,
    )?)
}

fn forget(file: &Path) -> Result<(), AnyError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns the path of the file with the names of the zone that has this record.
pub(super) fn file_of(folder: &Path, record: &Path) -> PathBuf {
    folder.join(HOSTS).join(key(record))
}

/// Makes the folder of the names.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    super::common::make_folder(&folder.join(HOSTS))
}

/// Ends the resolver and removes its files.
pub(super) fn remove(folder: &Path) {
    // The next boot of a zone ends a process that could not be ended now.
    let _ = end(folder);
    let hosts = folder.join(HOSTS);
    for entry in fs::read_dir(&hosts).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_dir(hosts);
}

/// Returns the files of names in the shared state.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(HOSTS)).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Returns the full name of the zone that has this record; `None` if the zone's name is no label of
/// a host name.
fn full_name(record: &Path) -> Option<String> {
    let zone = record.file_stem()?.to_str()?;
    is_label(zone).then(|| format!("{zone}.{}", domain(root_of(record))))
}

/// Returns true if a zone of this name has a name in the DNS: lower-case letters, digits and
/// hyphens (RFC 1123). Names in the DNS ignore case, so `Web` would be another zone's `web`; a
/// name with a dot would be in the domain of another root.
fn is_label(name: &str) -> bool {
    let is_allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=MAX_LABEL).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Returns the domain of the zones of a root. Each alternate root has a domain of its own, so that
/// `web` of one root never has the name of `web` of another.
pub(super) fn domain(root: &Path) -> String {
    let Some(name) = root.file_name() else {
        return DOMAIN.to_owned();
    };
    let label: String = name
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .take(MAX_ROOT_NAME)
        .collect();
    let hash = super::common::hash(root.as_os_str().as_encoded_bytes());
    format!("root{label}-{hash:016x}.{DOMAIN}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_two_roots_have_different_names() {
        let name = |path: &str| full_name(Path::new(path));
        let of_host = name("/run/zones/network/web.json");
        assert_eq!(of_host.as_deref(), Some("web.zones.internal"));
        let one = name("/srv/A b/run/zones/network/web.json").unwrap();
        let other = name("/srv/c/A b/run/zones/network/web.json").unwrap();
        assert_ne!(one, other);
        assert!(one.starts_with("web.rootab-"), "{one}");
        assert!(one.split('.').all(is_label), "{one}");
    }

    #[test]
    fn only_labels_of_host_names_are_names() {
        for good in ["web", "a", "db-2", "0"] {
            assert!(is_label(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "Web", "a.b", "a_b", "-a", "a-", "a b", "a\n1", &long] {
            assert!(!is_label(bad), "{bad:?}");
        }
    }

    #[test]
    fn dnsmasq_reads_no_configuration_of_the_host() {
        let words = arguments(Path::new("/run/zones-network/7/hosts"), true);
        for word in [
            "--conf-file=/dev/null",
            "--no-hosts",
            "--listen-address=10.208.0.1",
            "--listen-address=fd7a:6f6e:6573::1",
            "--local=/zones.internal/",
            "--local=/208.10.in-addr.arpa/",
            "--local=/215.10.in-addr.arpa/",
            "--local=/0.0.0.0.3.7.5.6.e.6.f.6.a.7.d.f.ip6.arpa/",
            "--user=dnsmasq",
        ] {
            assert!(words.iter().any(|one| one == word), "{word}: {words:?}");
        }
    }

    #[test]
    fn a_group_without_processes_is_a_lost_resolver() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(state(folder.path()), State::Down);
        let group = folder.path().join("group");
        fs::create_dir(&group).unwrap();
        symlink(&group, folder.path().join(GROUP)).unwrap();
        fs::write(group.join("cgroup.procs"), "").unwrap();
        assert_eq!(state(folder.path()), State::Lost);
        let own = i32::try_from(std::process::id()).unwrap();
        fs::write(group.join("cgroup.procs"), format!("{own}\n")).unwrap();
        assert_eq!(state(folder.path()), State::Up(own));
    }
}
