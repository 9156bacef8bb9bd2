//! Commands that run once in a zone, at its first boot.
//!
//! Each command is a file in `/var/lib/zones/first-boot`, which only root of the zone can read:
//!
//! | name | state of the command |
//! |---|---|
//! | `001.todo` | it has not started |
//! | `001.started` | it runs, or the zone ended while it ran |
//! | `001.done`, `001.failed` | it has ended |
//! | `001.interrupted` | the zone ended while it ran; it does not run again |
//!
//! The file is renamed before its command starts, and the name is written to the disk. Therefore no
//! command runs twice, also if the zone is killed at any time. A command that was interrupted is
//! reported on the console, and the commands after it run. The init of the zone starts the script
//! `/etc/init.d/zone-first-boot`: zinit and sysvinit by a link for runlevel 2, systemd by a unit.
//! The script removes both after the last command.

use std::path::Path;

use crate::Error;
use crate::identity::Stack;
use crate::tree::Meta;

/// The script that runs the commands.
const SCRIPT: &str = "etc/init.d/zone-first-boot";

/// The unit of systemd that runs the script. The unit has priority over the script of the same name.
const UNIT: &str = "etc/systemd/system/zone-first-boot.service";

/// The links by which the inits find the script and the unit, with their targets.
const LINKS: [(&str, &str); 2] = [
    ("etc/rc2.d/S99zone-first-boot", "../init.d/zone-first-boot"),
    (
        "etc/systemd/system/multi-user.target.wants/zone-first-boot.service",
        "../zone-first-boot.service",
    ),
];

/// The folder with the commands.
const FOLDER: &str = "var/lib/zones/first-boot";

/// Writes the commands into a new root.
pub(super) fn write(stack: &mut Stack, commands: &[String]) -> Result<(), Error> {
    stack.folder(Path::new(FOLDER), Meta::root(0o700))?;
    for (place, command) in commands.iter().enumerate() {
        let name = format!("{FOLDER}/{:03}.todo", place + 1);
        let text = format!("{command}\n");
        stack.replace(Path::new(&name), Meta::root(0o600), text.as_bytes())?;
    }
    let script = include_str!("zone-first-boot.sh");
    stack.replace(Path::new(SCRIPT), Meta::root(0o755), script.as_bytes())?;
    let unit = include_str!("zone-first-boot.service");
    stack.replace(Path::new(UNIT), Meta::root(0o644), unit.as_bytes())?;
    for (link, target) in LINKS {
        stack.link(Path::new(link), Path::new(target))?;
    }
    Ok(())
}

/// Returns the command that installs packages with the package manager of the zone.
pub(super) fn install(packages: &[String]) -> String {
    let list = packages.join(" ");
    format!(
        "# Installs packages with the package manager of this system.\n\
         if command -v apt-get >/dev/null; then\n\
         \x20   export DEBIAN_FRONTEND=noninteractive\n\
         \x20   apt-get -q update && apt-get -q -y install {list}\n\
         elif command -v dnf >/dev/null; then dnf -y install {list}\n\
         elif command -v apk >/dev/null; then apk add {list}\n\
         elif command -v zypper >/dev/null; then zypper --non-interactive install {list}\n\
         elif command -v pacman >/dev/null; then pacman -Sy --noconfirm {list}\n\
         else echo 'no package manager for: {list}'; exit 1\n\
         fi"
    )
}
