//! Creates roots of Debian with mmdebstrap, from the package sources of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Timeout of a download, on a busy machine.
pub const DOWNLOAD: Duration = Duration::from_secs(1500);

/// Returns a root of a release with some packages; creates it, or reuses that of an earlier run.
///
/// # Errors
/// Fails with the reason if it cannot be created; in most cases, no mirror can be reached.
///
/// # Panics
/// Fails if no folder can be created for it.
pub fn root(name: &str, release: &str, packages: &str) -> Result<PathBuf, String> {
    if !Path::new("/usr/bin/mmdebstrap").is_file() {
        return Err("no mmdebstrap".to_owned());
    }
    let cache = std::env::temp_dir().join("zones-test-roots");
    let made = cache.join(format!("{name}.tar"));
    let half = cache.join(format!("{name}.half.tar"));
    if made.exists() {
        return Ok(made);
    }
    std::fs::create_dir_all(&cache).expect("a folder for roots");
    let list = Command::new("apt-get")
        .args([
            "indextargets",
            "--format",
            "$(REPO_URI) $(CODENAME)",
            "Created-By: Packages",
        ])
        .output()
        .map_err(|error| error.to_string())?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let own = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let own = own.ok_or("this is no Debian")?;
    let mut lines = list.lines().filter_map(|line| line.split_once(' '));
    let (mirror, _) = lines.find(|(_, name)| *name == own).ok_or("no mirror")?;
    let source = format!(
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {release} main"
    );
    let mut tool = Command::new("mmdebstrap");
    tool.args(["--mode=root", "--variant=minbase"])
        .arg(format!("--include={packages}"))
        .args(["--aptopt=APT::Install-Recommends \"false\"", release])
        .arg(&half)
        .arg(source);
    let ran = crate::run::run_within(DOWNLOAD, &mut tool, b"");
    match ran.code() {
        Some(0) => std::fs::rename(&half, &made).map_err(|error| error.to_string())?,
        _ => return Err(ran.err.lines().last().unwrap_or_default().to_owned()),
    }
    Ok(made)
}
