//! `zoneadm verify`: checks that a zone could run on this host, and changes nothing.

mod compared;
pub(crate) mod labels;
mod sources;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use brand::Brand;
use model::{Config, State, Verb, ZoneName, privilege};
use store::index::{Entry, Index, Pending};
use store::{Root, xml};

use crate::executor::Outcome;
use crate::exported;
use host::{Error, Host, devices};
use platform::kind;
use subject::network;
use subject::{DETACHED, Start, Subject};

/// Verifies a zone with its present configuration.
///
/// # Errors
/// Fails with [`Error::Verify`], which lists all problems.
pub fn verify(host: &Host, zone: &ZoneName) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Verify)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let config = subject.config(host)?;
    before(host, &subject, &config, Verb::Verify)?;
    Ok(Outcome::Done)
}

/// Returns a warning for each setting that is legal but has no effect on this host, or may be a
/// mistake.
#[must_use]
pub fn warnings(host: &Host, config: &Config) -> Vec<String> {
    let mut lines = model::verify::without_effect(config);
    if let Ok(index) = Index::load(&host.root) {
        let entry = index.find(config.name());
        lines.extend(entry.and_then(|entry| unmade_zonepath(host, entry)));
        lines.extend(sources::shared(host, &index, config));
    }
    let patterns = kind::of(config).device_patterns(config);
    for pattern in &patterns {
        if devices::nodes(std::iter::once(pattern.clone())).is_empty() {
            lines.push(format!(
                "device match={pattern}: nothing on this host matches"
            ));
        }
    }
    lines.extend(devices::find(patterns.into_iter()).too_many);
    lines
}

/// Returns the brand of a configuration.
pub(crate) fn brand_of(config: &Config) -> Result<&'static dyn Brand, Error> {
    brand::by_name(config.brand()).ok_or_else(|| {
        // This error is not expected, because every brand that can be configured is known by name.
        let brand = config.brand();
        Error::Refused(format!("zones of brand {brand} cannot be installed yet."))
    })
}

/// Checks the preconditions of `verb`. Fails with a list of all problems.
pub fn before(host: &Host, subject: &Subject, config: &Config, verb: Verb) -> Result<(), Error> {
    let mut problems: Vec<String> = model::verify::config(config)
        .iter()
        .map(ToString::to_string)
        .collect();
    let brand = brand_of(config)?;
    problems.extend(brand.verify(config, &host.facts()));
    let privileges = brand.platform().privileges(config);
    if let Err(error) = privilege::capabilities(privileges, config.ip_type()) {
        problems.push(error.to_string());
    } else if privilege::is_unfiltered(privileges, config.ip_type()) == Ok(true) {
        problems.extend(open_to_users(Path::new("/proc/sys/kernel")));
    }
    if config.zonepath() != subject.entry.zonepath {
        // zonecfg writes the configuration before the index. If it was interrupted, the next commit
        // completes the change.
        problems.push(format!(
            "a change of its zonepath from {} to {} was cut off: complete it with zonecfg -z {} commit",
            subject.entry.zonepath.display(),
            config.zonepath().display(),
            subject.entry.name
        ));
    }
    problems.extend(kind::of(config).problems(host, subject, config, verb)?);
    problems.extend(crate::label::problems(host, config, verb)?);
    problems.extend(zonepath_problems(host, subject, verb)?);
    check_file_systems(host, &subject.index, config, &mut problems);
    for dataset in config.datasets() {
        let why = storage::why_not_delegated(&dataset).or_else(|| {
            taken_by(host, subject, &dataset).map(|zone| format!("zone {zone} has it"))
        });
        if let Some(why) = why {
            problems.push(format!("could not verify zfs dataset {dataset}: {why}"));
        }
    }
    if verb == Verb::Verify {
        problems.extend(network::problems(
            host,
            config,
            &subject.entry,
            &subject.index,
        )?);
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::Verify(problems))
    }
}

/// Returns a problem for each setting of this host that allows ordinary users a call that the
/// zone's seccomp filter would refuse. In a zone without the filter, the kernel must refuse these
/// calls.
fn open_to_users(settings: &Path) -> Vec<String> {
    let needed = [
        ("unprivileged_bpf_disabled", "bpf(2)"),
        ("dmesg_restrict", "the messages of the kernel"),
    ];
    let is_open = |name: &str| {
        // A kernel without this setting does not have the interface that the setting protects.
        let text = fs::read_to_string(settings.join(name));
        text.is_ok_and(|text| text.trim() == "0")
    };
    let open = needed.into_iter().filter(|(name, _)| is_open(name));
    open.map(|(name, what)| {
        format!(
            "could not verify limitpriv sys_unfiltered: {what} is open to everybody on this host: set kernel.{name} to 1"
        )
    })
    .collect()
}

/// Returns the running zone that administers a dataset, or a dataset above or below it.
fn taken_by(host: &Host, subject: &Subject, dataset: &str) -> Option<ZoneName> {
    let below = |low: &str, high: &str| {
        low.strip_prefix(high)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let others = subject.index.entries().iter().map(|entry| &entry.name);
    let mut others = others.filter(|name| **name != subject.entry.name);
    let holder = others.find(|name| {
        // The running configuration of a zone exists while the zone runs.
        xml::load_running(&host.root, name).is_ok_and(|config| {
            let mut theirs = config.datasets();
            theirs.any(|theirs| below(&theirs, dataset) || below(dataset, &theirs))
        })
    });
    holder.cloned()
}

/// Returns the problems of the zonepath, in the wording of zoneadm(8) of illumos.
fn zonepath_problems(host: &Host, subject: &Subject, verb: Verb) -> Result<Vec<String>, Error> {
    let mut problems = Vec::new();
    let place = Place::of(subject);
    check_zonepath(host, &place, &mut problems);
    if matches!(
        verb,
        Verb::Install | Verb::Clone | Verb::Attach | Verb::Verify
    ) {
        check_overlap(host, &place, &mut problems)?;
    }
    if matches!(verb, Verb::Install | Verb::Clone) {
        check_no_root(subject, verb, &mut problems);
        problems.extend(exported::problem_of_new(host, &subject.zonepath));
    }
    if !problems.is_empty() {
        problems.push(format!(
            "could not verify zonepath {} because of the above errors.",
            subject.entry.zonepath.display()
        ));
    }
    Ok(problems)
}

/// A zonepath that a zone has or will have.
struct Place<'a> {
    zone: &'a ZoneName,
    state: State,
    index: &'a Index,
    /// The path as users name it.
    shown: &'a Path,
    /// The path below the alternate root.
    real: &'a Path,
}

impl<'a> Place<'a> {
    fn of(subject: &'a Subject) -> Self {
        Self {
            zone: &subject.entry.name,
            state: subject.state,
            index: &subject.index,
            shown: &subject.entry.zonepath,
            real: &subject.zonepath,
        }
    }
}

/// Checks that a zone can be moved to a zonepath: the checks of a configured zone's zonepath, and
/// that its parent exists, that the folder is missing or empty, and that no other zone has it.
pub(crate) fn new_zonepath(host: &Host, subject: &Subject, to: &Path) -> Result<(), Error> {
    let real = host.root.path(to);
    let place = Place {
        state: State::Configured,
        shown: to,
        real: &real,
        ..Place::of(subject)
    };
    let (mut problems, shown) = (Vec::new(), to.display());
    check_zonepath(host, &place, &mut problems);
    check_overlap(host, &place, &mut problems)?;
    let parent = to.parent().unwrap_or(Path::new("/"));
    if !host.root.path(parent).is_dir() {
        let parent = parent.display();
        problems.push(format!("{parent} is not a directory: make it first."));
    }
    // A new file system is not empty.
    let ours = ["lost+found", ".zfs"];
    let mut entries = fs::read_dir(&real).into_iter().flatten().flatten();
    if entries.any(|entry| ours.iter().all(|name| entry.file_name() != *name)) {
        problems.push(format!("{shown} is not empty."));
    }
    let (from, mut others) = (&subject.entry.zonepath, subject.index.entries().iter());
    if to.starts_with(from) || from.starts_with(to) {
        let from = from.display();
        problems.push(format!("{shown} and the present zonepath {from} overlap."));
    }
    if let Some(other) = others.find(|other| other.zonepath == to && other.name != *place.zone) {
        problems.push(format!("zone {} has the zonepath {shown}.", other.name));
    }
    if problems.is_empty() {
        return Ok(());
    }
    problems.push(format!(
        "could not verify zonepath {shown} because of the above errors."
    ));
    Err(Error::Verify(problems))
}

/// Checks that only root can access the zonepath, because it contains passwords and set-id programs
/// of other systems.
fn check_zonepath(host: &Host, place: &Place<'_>, problems: &mut Vec<String>) {
    let path = place.real;
    let shown = place.shown.display();
    let stat = match fs::symlink_metadata(path) {
        Ok(stat) => stat,
        // The zonepath of a configured zone may be missing, because install makes it.
        Err(_) if place.state == State::Configured => {
            check_parent(host, place, problems);
            return;
        }
        Err(error) => {
            problems.push(format!("{shown}: {error}"));
            return;
        }
    };
    if !stat.is_dir() {
        problems.push(format!("{shown} is not a directory."));
        return;
    }
    if stat.uid() != 0 {
        problems.push(format!("{shown} is not owned by root."));
    }
    let mode = stat.mode();
    for (bit, who, what) in [
        (0o040, "group", "readable"),
        (0o020, "group", "writable"),
        (0o010, "group", "executable"),
        (0o004, "world", "readable"),
        (0o002, "world", "writable"),
        (0o001, "world", "executable"),
    ] {
        // Install and clone close the zonepath, so it must be closed only for a zone that is no
        // longer configured.
        if place.state != State::Configured && mode & bit != 0 {
            problems.push(format!("{shown} must not be {who} {what}."));
        }
    }
    check_parent(host, place, problems);
}

/// Returns a warning if the zonepath of a configured zone does not exist or is not closed. Install
/// makes or closes it.
fn unmade_zonepath(host: &Host, entry: &Entry) -> Option<String> {
    if entry.state != State::Configured {
        return None;
    }
    let shown = entry.zonepath.display();
    match fs::symlink_metadata(host.root.path(&entry.zonepath)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Some(format!(
            "{shown} does not exist, so it could not be verified: 'install' makes it and verifies it again."
        )),
        Ok(stat) if stat.is_dir() && stat.mode() & 0o077 != 0 => Some(format!(
            "{shown} has mode {:04o}, and users other than root must not reach it: 'install' changes the mode to 0700.",
            stat.mode() & 0o7777
        )),
        _ => None,
    }
}

fn check_parent(host: &Host, place: &Place<'_>, problems: &mut Vec<String>) {
    let shown = place.shown.display();
    let parent = place.real.parent().unwrap_or(Path::new("/"));
    if let (Ok(real), Ok(root)) = (parent.canonicalize(), host.root.dir().canonicalize()) {
        // A symbolic link may lead to the alternate root. Below the alternate root the path must
        // not contain symbolic links.
        if real != Root::new(&root).path(&host.root.shown(parent)) {
            problems.push(format!(
                "zonepath {shown} must not contain a symbolic link."
            ));
        }
    }
    if let Ok(stat) = fs::metadata(parent) {
        let shown = host.root.shown(parent);
        let shown = shown.display();
        if stat.uid() != 0 {
            problems.push(format!("{shown} is not owned by root."));
        }
        for (bit, who) in [(0o020, "group"), (0o002, "world")] {
            if stat.mode() & bit != 0 {
                problems.push(format!("{shown} must not be {who} writable."));
            }
        }
    }
}

/// Checks that the zonepath does not overlap with the zonepath of another zone.
fn check_overlap(host: &Host, place: &Place<'_>, problems: &mut Vec<String>) -> Result<(), Error> {
    let ours = place.shown;
    for other in place.index.entries() {
        if other.name == *place.zone {
            continue;
        }
        let theirs = other.zonepath.as_path();
        if !may_overlap(ours, theirs) {
            continue;
        }
        let overlap = ours.starts_with(theirs) || theirs.starts_with(ours);
        // The state of a zone is read only here, because reading it needs several file accesses.
        if overlap && subject::state(host, other)?.0 > State::Configured {
            problems.push(format!(
                "{} zonepath ({}) and {} zonepath ({}) overlap.",
                other.name,
                theirs.display(),
                place.zone,
                ours.display()
            ));
        }
    }
    for pending in place.index.pending() {
        let Pending::Move { zone, other, .. } = pending else {
            continue;
        };
        if zone != place.zone && (ours.starts_with(other) || other.starts_with(ours)) {
            problems.push(format!(
                "zone {zone} is being moved, and {} and {} overlap.",
                other.display(),
                ours.display()
            ));
        }
    }
    Ok(())
}

/// Returns false if two paths certainly do not overlap. This comparison is quick: on a host with a
/// thousand zones it excludes almost all other zonepaths.
fn may_overlap(a: &Path, b: &Path) -> bool {
    let (a, b) = (a.as_os_str().as_bytes(), b.as_os_str().as_bytes());
    // A path that contains `//` or `/.` must be parsed before it is compared.
    let odd = |path: &[u8]| path.windows(2).any(|two| two == b"//" || two == b"/.");
    let common = a.len().min(b.len());
    a[..common] == b[..common] || odd(a) || odd(b)
}

/// Checks that the zone has no root yet. Install and clone make the root, so an existing root
/// belongs to another zone or user.
fn check_no_root(subject: &Subject, verb: Verb, problems: &mut Vec<String>) {
    if !subject.zonepath.join(storage::ROOT).exists() {
        return;
    }
    let shown = subject.entry.zonepath.display();
    problems.push(if subject.zonepath.join(DETACHED).exists() {
        format!("Cannot {verb} detached zone.\nUse attach or remove {shown} directory.")
    } else {
        format!("{shown}/root is there already: move it away.")
    });
}

/// Returns true if a folder, or a folder above it, keeps all users of the host out except root.
/// Symbolic links in the path are resolved first.
fn is_closed_to_users(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    path.ancestors()
        .filter_map(|folder| fs::metadata(folder).ok())
        .any(|stat| {
            let open = if stat.gid() == 0 { 0o007 } else { 0o077 };
            stat.uid() == 0 && stat.mode() & open == 0
        })
}

/// Returns the real path of a file if it differs from the given path; `None` otherwise.
fn real_path(path: &Path) -> Option<PathBuf> {
    // The comparison is by components, so an additional slash is no difference.
    path.canonicalize().ok().filter(|real| real != path)
}

pub(crate) fn check_file_systems(
    host: &Host,
    index: &Index,
    config: &Config,
    problems: &mut Vec<String>,
) {
    problems.extend(sources::refused(host, index, config));
    problems.extend(labels::problems(host, index, config));
    // The boot mounts standard file systems on these folders of every zone, which would hide a
    // configured file system.
    let system = ["/dev", "/proc", "/sys"];
    for fs in config.filesystems() {
        if let Some(over) = system.iter().find(|place| fs.dir.starts_with(place)) {
            problems.push(format!(
                "could not verify fs {}: {over} of a zone is the system's: choose another dir",
                fs.dir.display()
            ));
        }
    }
    for fs in config.filesystems().filter(|fs| fs.fstype == "lofs") {
        let special = Path::new(&fs.special);
        if !special.is_absolute() || !special.exists() {
            problems.push(format!(
                "could not verify fs {}: could not access {}: no such directory on the host",
                fs.dir.display(),
                fs.special
            ));
        } else if let Some(real) = real_path(special) {
            // A zone that can write to the folder could change the target of a symbolic link.
            problems.push(format!(
                "could not verify fs {}: {} must not contain a symbolic link or '..': use {}",
                fs.dir.display(),
                fs.special,
                real.display()
            ));
        } else if !fs.options.iter().any(|option| option == "ro") && !is_closed_to_users(special) {
            // Files that root of the zone makes in this folder belong to root of the host. A user
            // of the host who can reach a set-id program in this folder would become root of the
            // host.
            problems.push(format!(
                "could not verify fs {}: {} can be written by the zone and reached by users of this host: close it or a folder above it (chmod go-rwx), or add options ro",
                fs.dir.display(),
                fs.special
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_without_a_filter_only_where_the_kernel_refuses_itself() {
        let folder = tempfile::tempdir().unwrap();
        let set = |name: &str, value: &str| fs::write(folder.path().join(name), value).unwrap();
        assert_eq!(open_to_users(folder.path()), [""; 0]);
        set("unprivileged_bpf_disabled", "2\n");
        set("dmesg_restrict", "1\n");
        assert_eq!(open_to_users(folder.path()), [""; 0]);
        set("dmesg_restrict", "0\n");
        let problems = open_to_users(folder.path());
        assert!(
            matches!(&problems[..], [one] if one.contains("set kernel.dmesg_restrict to 1")),
            "{problems:?}"
        );
    }
}
