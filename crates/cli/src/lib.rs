//! The command line syntax and the exit statuses that all commands share.
//!
//! The libraries that this crate uses never print and never read the environment. Only programs
//! print and read the environment, and this crate holds the code that several programs share.

pub mod command;
mod current;
pub mod delegate;
pub mod output;
pub mod progress;
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

/// The environment variable with the alternate root, for use if `-R` is not given.
pub const ROOT_VARIABLE: &str = "ZONES_ROOT";
/// The environment variable with the control group above the groups of all zones; see
/// `limits::Base::find`.
pub const CGROUP_VARIABLE: &str = "ZONES_CGROUP";
/// The environment variable with a fault to inject in tests: `verb:step:fail` or `verb:step:kill`.
pub const FAULT_VARIABLE: &str = "ZONES_FAULT";

/// If the value of this environment variable is `distinct`, zoneadm uses distinct exit statuses. By
/// default all errors have status 1, because scripts of Solaris rely on 1.
pub const EXIT_STATUS_VARIABLE: &str = "ZONES_EXIT_STATUS";

/// The control group above the groups of all zones if the environment names no other.
const DEFAULT_CGROUP: &str = "/zones";

/// Maximum number of characters of the root folder's name in the name of the control group.
const MAX_CGROUP_NAME: usize = 64;

/// musl's allocator calls the kernel so often that these calls are most of the work of a command
/// that runs for a millisecond.
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Exit statuses of zoneadm(8).
pub mod status {
    /// The command succeeded.
    pub const OK: u8 = 0;
    /// The command failed.
    pub const ERROR: u8 = 1;
    /// The command line is wrong.
    pub const USAGE: u8 = 2;
    /// No zone of this name is configured. The statuses from 3 up are used only if
    /// [`super::EXIT_STATUS_VARIABLE`] asks for them.
    pub const NO_SUCH_ZONE: u8 = 3;
    /// The state of the zone does not admit the subcommand.
    pub const WRONG_STATE: u8 = 4;
    /// Another command holds the lock of the zone.
    pub const LOCKED: u8 = 5;
    /// The configuration of the zone cannot run on this host.
    pub const NOT_VERIFIED: u8 = 6;
    /// The packages of the zone do not match those of this host.
    pub const PACKAGES: u8 = 7;
    /// The root of the zone is missing, or this host does not know it.
    pub const NO_ROOT: u8 = 8;
    /// Another host owns the zonepath.
    pub const OTHER_OWNER: u8 = 9;
}

/// The reason why a path cannot be the alternate root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRoot {
    /// The path is relative, so the root would depend on the current folder of the caller.
    #[error("root path must be absolute: {}", .0.display())]
    Relative(PathBuf),
    /// The path does not exist.
    #[error(
        "root path must be a directory: {path} does not exist: make it with mkdir -p {path}, \
         or name another with -R or {ROOT_VARIABLE}",
        path = .0.display()
    )]
    Missing(PathBuf),
    /// The path exists, but is not a folder.
    #[error("root path must be a directory: {}", .0.display())]
    NoFolder(PathBuf),
}

impl BadRoot {
    /// Returns the exit status of a program that got this bad root.
    #[must_use]
    pub const fn status(&self) -> u8 {
        match self {
            Self::Relative(_) => status::USAGE,
            Self::Missing(_) | Self::NoFolder(_) => status::ERROR,
        }
    }
}

/// Returns the alternate root: the argument of `-R`, otherwise the environment variable, otherwise
/// `/`.
///
/// # Errors
/// Fails with [`BadRoot`] if the path cannot be a root.
pub fn root(option: Option<&Path>) -> Result<Root, BadRoot> {
    let named = option
        .map(Path::to_owned)
        .or_else(|| variable(ROOT_VARIABLE).map(PathBuf::from));
    named.map_or_else(|| Ok(Root::new(Path::new("/"))), checked_root)
}

/// Prints an error if the alternate root is a relative path, and returns the exit status for a
/// wrong command line. Inside a zone, programs use no alternate root, so this function returns
/// `None`.
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
        // A dangling symbolic link exists, so it is not reported as missing.
        return Err(match path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BadRoot::Missing(path),
            _ => BadRoot::NoFolder(path),
        });
    }
    Ok(Root::new(&path))
}

/// The reason why the options and the environment do not describe a usable host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHost {
    /// The alternate root is not usable.
    #[error(transparent)]
    Root(#[from] BadRoot),
    /// [`FAULT_VARIABLE`] is malformed.
    #[error("{FAULT_VARIABLE}: {0}")]
    Fault(host::fault::BadFault),
}

/// Returns the host that `-R` and the environment describe. The folder of the running program is
/// the first in which programs look for each other.
///
/// # Errors
/// Fails with [`BadHost`] if the alternate root or the fault is not usable.
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

/// Returns the control group for the zones of a root. Each alternate root has its own control
/// group. In a shared group the end of one zone would kill the processes of a zone of the same name
/// in another root.
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
    // This FNV-1a hash of 64 bits distinguishes folders that have one name in different parents.
    let bytes = root.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    PathBuf::from(format!("{DEFAULT_CGROUP}-{name}-{hash:016x}"))
}

/// Returns the value of an environment variable that is set and not empty.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns true if the environment asks zoneadm for distinct exit statuses.
#[must_use]
pub fn wants_distinct_statuses() -> bool {
    variable(EXIT_STATUS_VARIABLE).is_some_and(|value| value == "distinct")
}

/// Returns true if the caller is root of the host.
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
