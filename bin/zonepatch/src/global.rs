//! `-g`: the host itself, by its own package manager, before any zone.

use std::path::Path;
use std::process::{Command, Stdio};

use host::{Error, Host};
use patch::Order;
use patch::manager::{self, Mood, SHOWN};

/// Updates the host, or the system below an alternate root; package files of the order lie in the
/// folder that zones see. With `quiet` the output of the package manager does not go to standard
/// output.
pub fn apply(host: &Host, order: &Order, staged: Option<&Path>, quiet: bool) -> Result<(), Error> {
    let root = host.root.dir();
    let refused = |text: String| Error::Refused(format!("zone 'global': {text}"));
    let manager = manager::of(root)
        .ok_or_else(|| refused("has no package manager that is known.".to_owned()))?;
    let work = manager
        .work(order, Mood::Host)
        .map_err(|error| refused(error.to_string()))?;
    let shown = staged.map(|folder| host.root.shown(folder));
    let words = work.words.iter().map(|word| {
        let file = word
            .strip_prefix(SHOWN)
            .and_then(|rest| rest.strip_prefix('/'));
        match (file, &shown) {
            (Some(file), Some(folder)) => folder.join(file).display().to_string(),
            _ => word.clone(),
        }
    });
    let mut command = match root == Path::new("/") {
        true => Command::new("/bin/sh"),
        false => {
            let mut command = Command::new("chroot");
            command.arg(root).arg("/bin/sh");
            command
        }
    };
    command
        .args(["-c", work.script, "sh"])
        .args(words)
        .stdin(Stdio::null());
    if quiet {
        command.stdout(std::io::stderr());
    }
    let ended = command.status().map_err(Error::io("run /bin/sh"))?;
    match ended.success() {
        true => Ok(()),
        false => Err(refused(format!(
            "{} could not update it ({ended}); no other zone was touched.",
            manager.name()
        ))),
    }
}
