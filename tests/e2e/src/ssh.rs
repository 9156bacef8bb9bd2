//! A second host that is reached over ssh: a real sshd, whose sessions use another ZONES_ROOT.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::run::run;
use crate::{Host, Ran, start, wait_for};

/// The server of sftp, from the package openssh-sftp-server.
pub const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// A host that is reached over ssh.
#[derive(Debug)]
pub struct Server {
    port: u16,
    folder: PathBuf,
    sshd: Child,
}

fn sshd() -> Option<PathBuf> {
    let named = std::env::var_os("SSHD").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("sshd"));
    let mut places = named
        .into_iter()
        .chain(on_path)
        .chain(["/usr/sbin/sshd".into()]);
    let found = places.find(|path| path.is_absolute() && path.exists());
    if found.is_none() || !Path::new("/usr/bin/ssh-keygen").exists() {
        crate::skip("no sshd");
        return None;
    }
    found
}

/// Returns a free port outside of the range from which the kernel gives ports to connections: such
/// a connection could take the port before sshd has it.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(std::process::id() % 200).expect("less than 200") * 100;
    loop {
        let port = 10_000 + own + NEXT.fetch_add(1, Ordering::Relaxed) % 100;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Returns two hosts, each with an ssh server to reach it.
///
/// # Panics
/// Fails if a server cannot be started.
#[must_use]
pub fn hosts() -> Option<[(Host, Server); 2]> {
    let (one, two) = (Host::new()?, Host::new()?);
    let (to_one, to_two) = (Server::new(&one)?, Server::new(&two)?);
    Some([(one, to_one), (two, to_two)])
}

/// Returns the state of a zone; `none` if the host has no such zone.
#[must_use]
pub fn state(host: &Host, zone: &str) -> String {
    let rows = host.rows();
    let row = rows.iter().find(|row| row.name == zone);
    row.map_or_else(|| "none".to_owned(), |row| row.state.clone())
}

impl Server {
    /// Starts an sshd on the loopback interface whose sessions see the zones of `there`.
    ///
    /// # Panics
    /// Fails if it cannot be started.
    #[must_use]
    pub fn new(there: &Host) -> Option<Self> {
        let sshd = sshd()?;
        let folder = there.path("ssh");
        fs::create_dir(&folder).unwrap();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.join(key));
            run(&mut keygen, b"").quiet();
        }
        fs::copy(folder.join("user.pub"), folder.join("authorized")).unwrap();
        let port = free_port();
        let real = there.command("zoneadm", &[]);
        let bin = Path::new(real.get_program())
            .parent()
            .unwrap()
            .display()
            .to_string();
        let session = folder.join("session");
        fs::write(
            &session,
            format!(
                "#!/bin/sh\nexport ZONES_ROOT={} ZONES_CGROUP={} PATH={bin}:/usr/sbin:/usr/bin:/sbin:/bin\n\
                 exec nsenter --mount=/proc/{}/ns/mnt sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
                there.root().display(),
                there.cgroup(),
                std::process::id()
            ),
        )
        .unwrap();
        let config = folder.join("config");
        let mut text = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {0}/host\nPidFile none\n\
             AuthorizedKeysFile {0}/authorized\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 100\n\
             ForceCommand sh {0}/session\nSubsystem sftp {SFTP_SERVER}\n",
            folder.display()
        );
        // Newer versions of sshd consist of several programs; these are their paths if the package
        // is not installed.
        for (word, name) in [
            ("SshdSessionPath", "sshd-session"),
            ("SshdAuthPath", "sshd-auth"),
        ] {
            let path = sshd.with_file_name(name);
            if path.exists() {
                text += &format!("{word} {}\n", path.display());
            }
        }
        fs::write(&config, text).unwrap();
        // sshd needs a user and a folder that only its own package creates, so it gets its own
        // mount namespace with both. The commands of its sessions run in the machine's mount
        // namespace again.
        let users = folder.join("passwd");
        let mut known = fs::read_to_string("/etc/passwd").unwrap();
        if !known.lines().any(|line| line.starts_with("sshd:")) {
            known += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n";
        }
        fs::write(&users, known).unwrap();
        let mut command = Command::new("unshare");
        command.args([
            "-m",
            "sh",
            "-c",
            "mount --bind \"$1\" /etc/passwd && mount -t tmpfs -o mode=755 none /run && \
             mkdir /run/sshd && shift && exec \"$@\"",
            "sh",
        ]);
        command.arg(&users).arg(&sshd);
        command.arg("-De").arg("-f").arg(&config);
        command.stderr(fs::File::create(folder.join("log")).unwrap());
        let child = start(&mut command);
        wait_for("sshd", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        Some(Self {
            port,
            folder,
            sshd: child,
        })
    }

    /// Returns `zoneadm migrate` of a zone of `here` to this server.
    #[must_use]
    pub fn command(&self, here: &Host, zone: &str, words: &[&str]) -> Command {
        self.command_to(here, zone, words, "root@127.0.0.1")
    }

    /// Returns the options with which ssh reaches this server.
    #[must_use]
    pub fn options(&self) -> [String; 5] {
        let folder = self.folder.display();
        [
            format!("Port={}", self.port),
            format!("IdentityFile={folder}/user"),
            format!("UserKnownHostsFile={folder}/known"),
            "StrictHostKeyChecking=no".to_owned(),
            "LogLevel=ERROR".to_owned(),
        ]
    }

    fn command_to(&self, here: &Host, zone: &str, words: &[&str], to: &str) -> Command {
        let options = self.options();
        let mut all = vec!["-z", zone, "migrate"];
        for option in &options {
            all.extend(["-o", option]);
        }
        all.extend(words);
        all.push(to);
        here.command("zoneadm", &all)
    }

    /// Runs [`command`](Self::command).
    #[must_use]
    pub fn migrate(&self, here: &Host, zone: &str, words: &[&str]) -> Ran {
        run(&mut self.command(here, zone, words), b"")
    }

    /// As [`migrate`](Self::migrate), to another address than the server's own.
    #[must_use]
    pub fn migrate_to(&self, here: &Host, zone: &str, to: &str) -> Ran {
        run(&mut self.command_to(here, zone, &[], to), b"")
    }

    /// As [`migrate`](Self::migrate), with a fault during the migration.
    #[must_use]
    pub fn migrate_with(&self, here: &Host, zone: &str, words: &[&str], fault: &str) -> Ran {
        run(
            self.command(here, zone, words).env("ZONES_FAULT", fault),
            b"",
        )
    }

    /// Ends every session, as a cut cable does.
    pub fn cut(&self) {
        let mut find = Command::new("pgrep");
        find.args(["-P", &self.sshd.id().to_string()]);
        for pid in run(&mut find, b"").out.split_whitespace() {
            let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.cut();
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}
