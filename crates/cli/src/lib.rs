//! What our commands share: how they are called and how they answer.
//!
//! The libraries below never read the environment and never print; the programs
//! do, and what more than one of them does stands here.

pub mod command;
mod current;
pub mod delegate;
pub mod prompt;
pub mod report;
pub mod select;
pub mod units;

use std::env;
use std::path::{Path, PathBuf};

use store::Root;
use zone::{Fault, Host};

pub use current::{CurrentZone, current_zone};
pub use model::name::GLOBAL;

/// The alternate root when `-R` is not given.
pub const ROOT_VARIABLE: &str = "ZONES_ROOT";
/// The control group that all of ours lie below; see `limits::Base::find`.
pub const CGROUP_VARIABLE: &str = "ZONES_CGROUP";
/// A fault to inject, `verb:step:fail` or `verb:step:kill`, for tests.
pub const FAULT_VARIABLE: &str = "ZONES_FAULT";

/// The control group base of a host that says nothing else.
const DEFAULT_CGROUP: &str = "/zones";

/// musl's allocator asks the kernel for memory again and again, which is most of
/// what a command that lives for a millisecond does.
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
}

/// Why there is no working below an alternate root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRoot {
    /// It would depend on where the command is called.
    #[error("root path must be absolute: {}", .0.display())]
    Relative(PathBuf),
    /// There is no such folder.
    #[error("root path must be a directory: {}", .0.display())]
    NoFolder(PathBuf),
}

/// The alternate root: what `-R` said, else the environment, else `/`.
///
/// # Errors
/// [`BadRoot`] for what cannot be one.
pub fn root(option: Option<&Path>) -> Result<Root, BadRoot> {
    let named = option
        .map(Path::to_owned)
        .or_else(|| variable(ROOT_VARIABLE).map(PathBuf::from));
    named.map_or_else(|| Ok(Root::new(Path::new("/"))), checked_root)
}

fn checked_root(path: PathBuf) -> Result<Root, BadRoot> {
    if !path.is_absolute() {
        return Err(BadRoot::Relative(path));
    }
    if !path.is_dir() {
        return Err(BadRoot::NoFolder(path));
    }
    Ok(Root::new(&path))
}

/// The host as this process was told to see it. Our programs are looked for in
/// the folder of the running one first.
///
/// # Errors
/// A text for a root that cannot be one or a malformed [`FAULT_VARIABLE`].
pub fn host(root_option: Option<&Path>) -> Result<Host, String> {
    let cgroup = variable(CGROUP_VARIABLE).unwrap_or_else(|| DEFAULT_CGROUP.into());
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent);
    let root = root(root_option).map_err(|error| error.to_string())?;
    let mut host = Host::new(root, PathBuf::from(cgroup), beside);
    if let Some(text) = variable(FAULT_VARIABLE) {
        let fault: Result<Fault, _> = text.to_string_lossy().parse();
        host.fault = fault.map_err(|error| format!("{FAULT_VARIABLE}: {error}"))?;
    }
    Ok(host)
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether the caller is the host's root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_an_absolute_path_to_a_folder() {
        let text = |path: &str| checked_root(path.into()).map_err(|error| error.to_string());
        assert_eq!(text("/usr").unwrap().dir(), Path::new("/usr"));
        for (bad, why) in [
            ("usr", "root path must be absolute: usr"),
            (".", "root path must be absolute: ."),
            ("/nowhere", "root path must be a directory: /nowhere"),
            ("/etc/passwd", "root path must be a directory: /etc/passwd"),
        ] {
            assert_eq!(text(bad), Err(why.to_owned()));
        }
    }
}
