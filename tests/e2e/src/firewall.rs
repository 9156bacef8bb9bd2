//! Programs of the host that make rules beside those of zones.

use std::process::{Child, Command, Stdio};

use crate::lan::is_installed;
use crate::run::{Ran, run, start};
use crate::unpacked::{SYSTEM_PATH, Unpacked};
use crate::{Host, cgroup, skip, wait_for};

/// Returns false, with a message, if this machine does not have a program.
#[must_use]
pub fn has(program: &str) -> bool {
    let there = is_installed(program);
    if !there {
        skip(&format!("there is no program {program}"));
    }
    there
}

/// Runs the commands of a shell in the network namespace of the calling thread.
#[track_caller]
pub fn type_in(commands: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]);
    shell.env("PATH", SYSTEM_PATH);
    let _ = run(&mut shell, b"").ok();
}

/// Returns the command of the remark that contains `text`, which ends the line after `: `.
///
/// # Panics
/// Panics if there is no such remark.
#[must_use]
#[track_caller]
pub fn advice(said: &str, text: &str) -> String {
    let line = said.lines().find(|line| line.contains(text));
    let line = line.unwrap_or_else(|| panic!("no {text:?} in {said}"));
    let (_, command) = line.split_once("the host's firewall").expect("a firewall");
    let (_, command) = command.split_once(": ").expect("a command");
    command.to_owned()
}

/// Returns whether a zone reaches the client behind the router.
#[must_use]
pub fn reaches(host: &Host, zone: &str) -> bool {
    let words = [zone, "timeout 3 perl - ask 203.0.113.7 4321"];
    let said = host.zlogin_with(&words, include_bytes!("peer.pl"));
    said.out.contains("client sees 10.0.0.9")
}

/// Docker's daemon in the network namespace of the calling thread, with mounts, process ids, files
/// and control groups of its own. It ends, with its containers, when this value is dropped.
#[derive(Debug)]
pub struct Docker {
    daemon: Child,
    folder: String,
    /// The control group of its containers, below that of a host.
    group: String,
    variables: Variables,
}

/// Names and values of variables of a program.
type Variables = Vec<(&'static str, String)>;

impl Docker {
    /// Starts a daemon whose files are in `docker` below the host's root. Returns `None`, with a
    /// message, if this machine neither has the package docker.io nor its unpacked programs.
    #[must_use]
    pub fn start(host: &Host) -> Option<Self> {
        let variables = if is_installed("dockerd") {
            vec![("PATH", SYSTEM_PATH.to_owned())]
        } else {
            Unpacked::find("docker")?.variables().into()
        };
        let folder = host.path("/docker").display().to_string();
        let group = format!("/{}/docker", host.cgroup());
        let daemon = Self::daemon(&folder, &group, &variables);
        let docker = Self {
            daemon,
            folder,
            group,
            variables,
        };
        docker.wait();
        Some(docker)
    }

    fn daemon(folder: &str, group: &str, variables: &Variables) -> Child {
        let mut command = Command::new("/usr/bin/unshare");
        let namespaces = "--mount --propagation private --pid --fork --kill-child --mount-proc";
        command.args(namespaces.split(' '));
        // The process that wrote the former file is gone, and its number is in use again.
        let script = format!(
            "mkdir -p {folder} && rm -f {folder}/pid && \
             exec dockerd --data-root {folder}/data --exec-root {folder}/run --pidfile {folder}/pid \
             -H unix://{folder}/socket --cgroup-parent {group} >>{folder}/log 2>&1"
        );
        command.args(["sh", "-c", &script]);
        command.envs(variables.iter().cloned()).stdin(Stdio::null());
        start(&mut command)
    }

    fn wait(&self) {
        wait_for("Docker's daemon", || {
            (self.client(&["version"], b"").code() == Some(0)).then_some(())
        });
    }

    fn client(&self, words: &[&str], input: &[u8]) -> Ran {
        let mut command = Command::new("/bin/sh");
        let script = format!("exec docker -H unix://{}/socket \"$@\"", self.folder);
        command.args(["-c", &script, "docker"]).args(words);
        run(command.envs(self.variables.iter().cloned()), input)
    }

    /// Runs a command of Docker's client, which must succeed.
    #[track_caller]
    pub fn run(&self, words: &[&str], input: &[u8]) {
        let _ = self.client(words, input).ok();
    }

    /// Ends the daemon and starts it again, as an administrator does for its rules.
    pub fn restart(&mut self) {
        self.end();
        self.daemon = Self::daemon(&self.folder, &self.group, &self.variables);
        self.wait();
    }

    /// Ends the daemon. All processes of its process namespace end with it.
    fn end(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        self.end();
        let name = self.group.trim_start_matches('/');
        let (host, _) = name.split_once('/').unwrap_or((name, ""));
        let mine = || -> Vec<_> {
            let groups = cgroup::below(host).into_iter();
            groups
                .filter(|path| path.components().any(|part| part.as_os_str() == "docker"))
                .collect()
        };
        // A group can be removed when its last process has ended.
        for _ in 0..100 {
            for group in mine() {
                let _ = std::fs::remove_dir(group);
            }
            if mine().is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
