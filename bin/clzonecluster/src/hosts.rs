//! The hosts, by ssh.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use clzc::{Order, Outcome, Remote, Stream, quoted};

use crate::spawn;

/// The environment variable with another remote shell: a command and its options, separated by blanks. The name of the
/// host and the command follow.
pub const RSH_VARIABLE: &str = "ZONES_RSH";
/// Options of ssh: no questions; a dead host is noticed after 5 s, a lost connection after 15 s; one connection for
/// all commands of a minute.
const SSH: &[&str] = &[
    "ssh",
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=5",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oControlMaster=auto",
    "-oControlPersist=60",
    "-oControlPath=/run/zones/clusters/ssh-%C",
];
/// Options of ssh for fencing: a connection of its own, because one that was made before the host died would
/// take longer to fail.
const SSH_ALONE: &[&str] = &[
    "ssh",
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=5",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=2",
    "-oControlMaster=no",
    "-oControlPath=none",
];
/// Folder of the connections.
const CONTROL_FOLDER: &str = "/run/zones/clusters";
/// Status of ssh if the connection fails.
const SSH_FAILED: i32 = 255;

/// Runs commands on this host directly, and on others by ssh.
pub struct Ssh {
    own: String,
    shell: Vec<OsString>,
}

impl Ssh {
    /// Reads the name of this host and the environment.
    pub fn new() -> Self {
        let shell = std::env::var(RSH_VARIABLE).unwrap_or_default();
        let mut shell: Vec<OsString> = shell.split_whitespace().map(OsString::from).collect();
        if shell.is_empty() {
            shell = SSH.iter().map(OsString::from).collect();
            // Without the folder, ssh makes a connection for each command.
            use std::os::unix::fs::DirBuilderExt as _;
            let mut builder = std::fs::DirBuilder::new();
            let _ = builder.recursive(true).mode(0o700).create(CONTROL_FOLDER);
        }
        Self {
            own: own_name(),
            shell,
        }
    }

    /// Returns a way for one command, without a connection that others share.
    pub fn alone() -> Self {
        Self {
            own: own_name(),
            shell: SSH_ALONE.iter().map(OsString::from).collect(),
        }
    }

    /// Returns the name of this host.
    pub fn own(&self) -> &str {
        &self.own
    }

    fn command(&self, host: &str, words: &[String]) -> Option<Command> {
        if host == self.own {
            let (program, rest) = words.split_first()?;
            // The other programs are beside this one, or in the path.
            let beside = std::env::current_exe()
                .ok()
                .and_then(|own| Some(own.parent()?.join(program)));
            let found = beside.filter(|path| path.is_file());
            let mut command = Command::new(found.unwrap_or_else(|| PathBuf::from(program)));
            command.args(rest);
            return Some(command);
        }
        let (program, rest) = self.shell.split_first()?;
        let mut command = Command::new(program);
        // The name of a host begins with a letter or digit, so it is no option.
        command.args(rest).arg(host).arg(quoted(words));
        Some(command)
    }
}

impl Remote for Ssh {
    fn run(&self, host: &str, order: &Order, said: &(dyn Fn(Stream, &str) + Sync)) -> Outcome {
        let Some(command) = self.command(host, &order.words) else {
            return Outcome::Unreachable("no remote shell".to_owned());
        };
        match spawn::run(command, &order.input, order.limit, said) {
            Outcome::Ended {
                status: SSH_FAILED,
                errors,
                ..
            } if host != self.own => {
                let why = errors.lines().last().unwrap_or("the connection was lost");
                Outcome::Unreachable(why.trim().to_owned())
            }
            other => other,
        }
    }
}

/// Returns the name of this host, as `uname -n` prints it.
pub fn own_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
