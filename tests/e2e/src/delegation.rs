//! Users who are not root, and the service that acts for them.
//!
//! The users are accounts of every Debian system. Each client runs in its own mount namespace, in
//! which the root of the test is /mnt and the programs are in /srv. So the permissions of the
//! folders above them do not matter.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::run::run;
use crate::{Host, Ran, wait_for};

/// The script in which a client runs. Its arguments are $1, the root; $2, the folder of programs;
/// $3, the user id.
pub const AS_USER: &str = "mount --bind \"$1\" /mnt && mount --bind \"$2\" /srv && user=$3 && shift 3 && \
     exec setpriv --reuid=$user --regid=$user --clear-groups -- \"$@\"";

/// A zoneauthd, which is ended with its test.
#[derive(Debug)]
pub struct Service {
    /// The process of zoneauthd.
    pub child: Child,
    /// The root of the test.
    pub root: PathBuf,
    /// The folder that clients see as /srv.
    pub programs: PathBuf,
}

impl Service {
    /// Starts zoneauthd and waits until it listens.
    pub fn start(host: &Host) -> Self {
        let command = host.command("zoneauthd", &[]);
        let programs = Path::new(command.get_program())
            .parent()
            .unwrap()
            .to_owned();
        Self::start_from(host, command, programs)
    }

    /// Starts this zoneauthd for clients whose programs are in `programs`.
    pub fn start_from(host: &Host, mut command: Command, programs: PathBuf) -> Self {
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let service = Self {
            child,
            root: host.root().to_owned(),
            programs,
        };
        wait_for("zoneauthd that listens", || {
            reach(host.root()).then_some(())
        });
        service
    }

    /// Returns a program as a user would start it. /mnt is the root of the test.
    pub fn command(&self, user: &str, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["-m", "--propagation", "private", "sh", "-c", AS_USER, "sh"])
            .arg(&self.root)
            .arg(&self.programs)
            .arg(uid(user).to_string())
            .arg(if program.contains('/') {
                program.to_owned()
            } else {
                format!("/srv/{program}")
            })
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("ZONES_ROOT", "/mnt");
        command
    }

    /// Runs a line of words, separated by blanks, as a user.
    pub fn run(&self, user: &str, line: &str) -> Ran {
        let mut words = line.split(' ');
        let program = words.next().unwrap();
        self.run_words(user, program, &words.collect::<Vec<_>>())
    }

    /// Runs a program as a user.
    pub fn run_words(&self, user: &str, program: &str, words: &[&str]) -> Ran {
        run(&mut self.command(user, program, words), b"")
    }

    /// Returns the lines of the log, without their times.
    pub fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.root.join("var/log/zones/authority.log"));
        let text = text.unwrap_or_default();
        text.lines()
            .map(|line| {
                let (time, rest) = line.split_once(' ').unwrap();
                assert!(time.ends_with('Z') && time.len() == 20, "{line}");
                rest.to_owned()
            })
            .collect()
    }

    /// Returns the log lines about refused requests of a user.
    pub fn refusals(&self, user: &str) -> Vec<String> {
        let mine = format!("uid={} user={user} ", uid(user));
        let mut lines = self.log();
        lines.retain(|line| line.starts_with(&mine) && line.contains(" refused: "));
        lines
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns true if a process listens on the socket below a root.
fn reach(root: &Path) -> bool {
    let Ok(folder) = fs::File::open(root.join("run/zones")) else {
        return false;
    };
    let path = format!("/proc/self/fd/{}/auth.sock", folder.as_raw_fd());
    let socket: OwnedFd = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).is_ok()
}

/// Returns the user id of an account.
pub fn uid(user: &str) -> u32 {
    let text = fs::read_to_string("/etc/passwd").unwrap();
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|line| line[0] == user);
    line.unwrap_or_else(|| panic!("no account {user}"))[2]
        .parse()
        .unwrap()
}

/// Returns the zonecfg commands that give a user authorizations.
pub fn admin(user: &str, auths: &str) -> String {
    format!("add admin; set user={user}; set auths={auths}; end")
}

/// Gives a user authorizations for an existing zone.
pub fn allow(host: &Host, zone: &str, user: &str, auths: &str) {
    host.zonecfg(&["-z", zone, &admin(user, auths)]).quiet();
}
