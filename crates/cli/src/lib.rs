//! The command line syntax and the exit statuses that all commands share.
//!
//! The libraries below never read the environment and never print; the programs do, and this crate
//! holds the code that several of them need.

pub mod command;
mod current;
pub mod delegate;
pub mod output;
pub mod prompt;
pub mod report;
pub mod select;
pub mod table;
pub mod units;

use std::env;
use std::path::{Path, PathBuf};

use host::{Fault, Host};
use store::Root;

pub use current::{CurrentZone, current_zone};
pub use model::name::GLOBAL;

/// The alternate root when `-R` is not given.
pub const ROOT_VARIABLE: &str = "ZONES_ROOT";
/// The control group that all of ours lie below; see `limits::Base::find`.
pub const CGROUP_VARIABLE: &str = "ZONES_CGROUP";
/// A fault to inject, `verb:step:fail` or `verb:step:kill`, for tests.
pub const FAULT_VARIABLE: &str = "ZONES_FAULT";

/// Asks zoneadm for distinct exit statuses if its value is `distinct`. Scripts of Solaris rely on 1
/// for every error, so they are not the default.
pub const EXIT_STATUS_VARIABLE: &str = "ZONES_EXIT_STATUS";

/// The control group base of a host that says nothing else.
const DEFAULT_CGROUP: &str = "/zones";

/// The number of characters of a root's folder that are in the name of its control group.
const MAX_CGROUP_NAME: usize = 64;

/// musl's allocator asks the kernel for memory again and again, which is most of the work of a
/// command that lives for a millisecond.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Exit statuses of zoneadm(8).
pub mod status {
    /// Done.
    pub const OK: u8 = 0;
    /// Not done.
    pub const ERROR: u8 = 1;
    /// Not understood.
    pub const USAGE: u8 = 2;
    /// No zone of this name is configured. This one and the next only if
    /// [`super::EXIT_STATUS_VARIABLE`] asks for them.
    pub const NO_SUCH_ZONE: u8 = 3;
    /// The state of the zone does not allow the subcommand.
    pub const WRONG_STATE: u8 = 4;
    /// Another command has the lock of the zone.
    pub const LOCKED: u8 = 5;
    /// The zone could not run on this host as it is configured.
    pub const NOT_VERIFIED: u8 = 6;
    /// The packages of the zone do not match those of this host.
    pub const PACKAGES: u8 = 7;
    /// The root of the zone is not there, or belongs to another host.
    pub const NO_ROOT: u8 = 8;
}

/// Why there is no working below an alternate root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRoot {
    /// It would depend on where the command is called.
    #[error("root path must be absolute: {}", .0.display())]
    Relative(PathBuf),
    /// There is nothing of that name.
    #[error(
        "root path must be a directory: {path} does not exist: make it with mkdir -p {path}, \
         or name another with -R or {ROOT_VARIABLE}",
        path = .0.display()
    )]
    Missing(PathBuf),
    /// It is something else.
    #[error("root path must be a directory: {}", .0.display())]
    NoFolder(PathBuf),
}

impl BadRoot {
    /// Returns the exit status of a program that was called with it.
    #[must_use]
    pub const fn status(&self) -> u8 {
        match self {
            Self::Relative(_) => status::USAGE,
            Self::Missing(_) | Self::NoFolder(_) => status::ERROR,
        }
    }
}

/// The alternate root: the argument of `-R`, else the environment, else `/`.
///
/// # Errors
/// [`BadRoot`] for a path that cannot be one.
pub fn root(option: Option<&Path>) -> Result<Root, BadRoot> {
    let named = option
        .map(Path::to_owned)
        .or_else(|| variable(ROOT_VARIABLE).map(PathBuf::from));
    named.map_or_else(|| Ok(Root::new(Path::new("/"))), checked_root)
}

/// Complains of an alternate root that is a relative path, wherever it was given, and returns
/// the exit status then: that of a wrong command line. Inside a zone no root is used.
#[must_use]
pub fn refuse_relative_root(program: &str, option: Option<&Path>) -> Option<u8> {
    if current_zone().is_some() {
        return None;
    }
    let error = root(option).err()?;
    if !matches!(error, BadRoot::Relative(_)) {
        return None;
    }
    eprintln!("{program}: {error}");
    Some(error.status())
}

fn checked_root(path: PathBuf) -> Result<Root, BadRoot> {
    if !path.is_absolute() {
        return Err(BadRoot::Relative(path));
    }
    if !path.is_dir() {
        // A link that leads nowhere is there.
        return Err(match path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BadRoot::Missing(path),
            _ => BadRoot::NoFolder(path),
        });
    }
    Ok(Root::new(&path))
}

/// The reason why this process cannot see the host as it was told to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    /// The root cannot be one.
    #[error(transparent)]
    Root(#[from] BadRoot),
    /// [`FAULT_VARIABLE`] is malformed.
    #[error("{FAULT_VARIABLE}: {0}")]
    Fault(host::fault::BadFault),
}

/// The host as this process was told to see it. Our programs are looked for in
/// the folder of the running one first.
///
/// # Errors
/// [`BadHost`].
pub fn host(root_option: Option<&Path>) -> Result<Host, BadHost> {
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent);
    let root = root(root_option)?;
    let cgroup = variable(CGROUP_VARIABLE).map(PathBuf::from);
    let cgroup = cgroup.unwrap_or_else(|| default_cgroup(root.dir()));
    let mut host = Host::new(root, cgroup, beside);
    if let Some(text) = variable(FAULT_VARIABLE) {
        let fault: Result<Fault, _> = text.to_string_lossy().parse();
        host.fault = fault.map_err(BadHost::Fault)?;
    }
    Ok(host)
}

/// Returns the control group of the zones of a root. Each alternate root has one of its
/// own: in one group a zone of the same name would be ended together with the other.
fn default_cgroup(root: &Path) -> PathBuf {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let Some(name) = root.file_name() else {
        return PathBuf::from(DEFAULT_CGROUP);
    };
    let name: String = name
        .to_string_lossy()
        .chars()
        .map(|one| {
            if one.is_ascii_alphanumeric() {
                one
            } else {
                '-'
            }
        })
        .take(MAX_CGROUP_NAME)
        .collect();
    // FNV-1a, 64 bits: folders of one name in different places differ by it.
    let bytes = root.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    PathBuf::from(format!("{DEFAULT_CGROUP}-{name}-{hash:016x}"))
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns whether zoneadm is to have an exit status of its own for some kinds of errors.
#[must_use]
pub fn wants_distinct_statuses() -> bool {
    variable(EXIT_STATUS_VARIABLE).is_some_and(|value| value == "distinct")
}

/// Returns whether the caller is the host's root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_root_has_a_control_group_of_its_own() {
        let of = |root: &str| super::default_cgroup(std::path::Path::new(root));
        assert_eq!(of("/").to_str(), Some("/zones"));
        let (one, other) = (of("/nowhere/a/my zones"), of("/nowhere/b/my zones"));
        assert_ne!(one, other);
        for group in [one, other] {
            let name = group.to_str().unwrap().strip_prefix("/zones-my-zones-");
            assert_eq!(name.map(str::len), Some(16), "{group:?}");
        }
    }

    use super::*;

    #[test]
    fn a_root_is_an_absolute_path_to_a_folder() {
        let text = |path: &str| checked_root(path.into()).map_err(|error| error.to_string());
        assert_eq!(text("/usr").unwrap().dir(), Path::new("/usr"));
        for (bad, why) in [
            ("usr", "root path must be absolute: usr"),
            (".", "root path must be absolute: ."),
            (
                "/nowhere",
                "root path must be a directory: /nowhere does not exist: make it with \
                 mkdir -p /nowhere, or name another with -R or ZONES_ROOT",
            ),
            ("/etc/passwd", "root path must be a directory: /etc/passwd"),
        ] {
            assert_eq!(text(bad), Err(why.to_owned()));
        }
    }
}
