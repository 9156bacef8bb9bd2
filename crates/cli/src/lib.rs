//! What our commands share: how they are called and how they answer.
//!
//! The libraries below never read the environment and never print; the programs
//! do, and what more than one of them does stands here.

pub mod prompt;
pub mod select;

use std::env;
use std::path::{Path, PathBuf};

use store::Root;
use zone::{Fault, Host};

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

/// The alternate root: what `-R` said, else the environment, else `/`.
#[must_use]
pub fn root(option: Option<&Path>) -> Root {
    let named = option
        .map(Path::to_owned)
        .or_else(|| variable(ROOT_VARIABLE).map(PathBuf::from));
    Root::new(&named.unwrap_or_else(|| PathBuf::from("/")))
}

/// The host as this process was told to see it. Our programs are looked for in
/// the folder of the running one first.
///
/// # Errors
/// A text for a malformed [`FAULT_VARIABLE`].
pub fn host(root_option: Option<&Path>) -> Result<Host, String> {
    let cgroup = variable(CGROUP_VARIABLE).unwrap_or_else(|| DEFAULT_CGROUP.into());
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent);
    let mut host = Host::new(root(root_option), PathBuf::from(cgroup), beside);
    if let Some(text) = variable(FAULT_VARIABLE) {
        let fault: Result<Fault, _> = text.to_string_lossy().parse();
        host.fault = fault.map_err(|error| format!("{FAULT_VARIABLE}: {error}"))?;
    }
    Ok(host)
}

/// The zone this process is in; `None` in the global zone.
#[must_use]
pub fn current_zone() -> Option<String> {
    let text = std::fs::read_to_string(zone::platform::NAME_FILE).ok()?;
    let name = text.trim();
    model::name::is_well_formed(name).then(|| name.to_owned())
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
