//! restic, the program that stores backups.
//!
//! The program is found in fixed folders. It runs without the caller's environment, dies with the
//! thread that started it, and its answers are bounded.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host::{Error, Host};
use rustix::fs::MemfdFlags;

use super::settings::{Repository, Settings};

/// Folders in which restic is searched.
const FOLDERS: &[&str] = &["/usr/bin", "/bin", "/usr/local/bin"];

/// The program of util-linux that ends a process together with its starter.
const SETPRIV: &str = "/usr/bin/setpriv";

/// Maximum number of bytes of an answer. A list of 100,000 moments has about 40 MB.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Maximum number of bytes that are read from the end of the messages.
const MAX_MESSAGE_BYTES: u64 = 8 << 10;

/// Maximum number of characters of a message that is shown.
const MAX_SHOWN: usize = 300;

/// The reports of progress per second. They are not read, and would use up the limit of an answer.
const REPORTS_PER_SECOND: &str = "0.1";

/// The reason why the engine failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The repository does not exist.
    NoRepository,
    /// The key opens no part of the repository.
    WrongKey,
    /// Another process uses the repository alone.
    Locked(String),
    /// Any other reason, with the engine's last message.
    Other(String),
    /// The engine could not be run.
    Run(Error),
}

/// The engine with its repository and key.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    program: PathBuf,
    settings: Settings,
    /// The folder of the engine's cache.
    pub(super) cache: PathBuf,
    /// True if a command only shows its plan: it then leaves no cache and no lock.
    plan_only: bool,
}

impl Engine {
    /// Finds the engine.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if restic is not installed.
    pub(super) fn find(host: &Host, settings: Settings) -> Result<Self, Error> {
        let found = FOLDERS
            .iter()
            .map(|folder| Path::new(folder).join("restic"))
            .find(|path| path.is_file());
        let program = found.ok_or_else(|| {
            Error::Refused(format!(
                "restic is not installed (looked in {}): install the package restic",
                FOLDERS.join(", ")
            ))
        })?;
        Ok(Self {
            program,
            settings,
            cache: host.root.lib().join("backup-cache"),
            plan_only: host.plan_only,
        })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns true if the engine records the size of a backup in the list of moments. Older
    /// versions than 0.17 do not.
    pub(super) fn records_sizes(&self) -> bool {
        let version = Command::new(&self.program)
            .arg("version")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .output();
        version.is_ok_and(|output| records_sizes(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Runs a command of the engine in `folder`, and passes each line of its answer to `each`. If a
    /// dead process has left its lock in the repository, removes this lock and runs the command
    /// once more.
    pub(super) fn run(
        &self,
        words: &[&OsStr],
        folder: &Path,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Failure> {
        match self.run_once(words, folder, each) {
            Err(Failure::Locked(_)) => {
                self.run_once(&[OsStr::new("unlock")], folder, &mut |_| {})?;
                self.run_once(words, folder, each)
            }
            done => done,
        }
    }

    /// Runs a command and returns its whole answer.
    pub(super) fn answer(&self, words: &[&str], folder: &Path) -> Result<Vec<u8>, Failure> {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let mut answer = Vec::new();
        self.run(&words, folder, &mut |line| answer.extend_from_slice(line))?;
        Ok(answer)
    }

    fn run_once(
        &self,
        words: &[&OsStr],
        folder: &Path,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Failure> {
        let io = |what: &str| {
            let text = format!("{what} restic");
            move |error| Failure::Run(Error::Io(text, error))
        };
        if !self.plan_only {
            fs::create_dir_all(&self.cache).map_err(io("make the cache of"))?;
        }
        // A pipe could fill up while the answer is read.
        let messages = rustix::fs::memfd_create("messages", MemfdFlags::CLOEXEC)
            .map(File::from)
            .map_err(|errno| io("make a file for")(errno.into()))?;
        let stderr = messages.try_clone().map_err(io("make a file for"))?;
        let mut child = self
            .command(words)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(io("start"))?;
        let read = match child.stdout.take() {
            Some(stdout) => lines(stdout, MAX_ANSWER_BYTES, each),
            None => Ok(()),
        };
        if read.is_err() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(io("wait for"))?;
        read.map_err(io("read the answer of"))?;
        if status.success() {
            return Ok(());
        }
        let text = tail(messages).map_err(io("read the messages of"))?;
        Err(reason(&text, &status.to_string()))
    }

    /// Returns the command line, with a clean environment.
    fn command(&self, words: &[&OsStr]) -> Command {
        // Without setpriv, the engine continues after a killed command, and only writes data that
        // no moment uses.
        let mut command = if Path::new(SETPRIV).exists() {
            let mut command = Command::new(SETPRIV);
            command
                .args(["--pdeathsig", "KILL", "--"])
                .arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/root")
            .env("RESTIC_PROGRESS_FPS", REPORTS_PER_SECOND)
            .arg("--repo")
            .arg(self.settings.repository.to_string())
            .arg("--password-file")
            .arg(&self.settings.key);
        match self.plan_only {
            true => command.args(["--no-cache", "--no-lock"]),
            false => command.arg("--cache-dir").arg(&self.cache),
        };
        if let Some(ssh) = self.ssh() {
            command.arg("-o").arg(format!("sftp.command={ssh}"));
        }
        command.args(words);
        command
    }

    /// Returns the command with which the engine reaches a repository of another host.
    fn ssh(&self) -> Option<String> {
        let Repository::Ssh { to, .. } = &self.settings.repository else {
            return None;
        };
        // A command of a timer has no terminal on which ssh could ask.
        let mut text = "ssh -o BatchMode=yes -o ServerAliveInterval=30".to_owned();
        for option in &self.settings.ssh_options {
            text.push_str(" -o ");
            text.push_str(option);
        }
        text.push_str(&format!(" {to} -s sftp"));
        Some(text)
    }

    /// Returns the error of a failed command for the user.
    pub(super) fn error(&self, failure: Failure) -> Error {
        let Settings {
            repository, key, ..
        } = &self.settings;
        match failure {
            Failure::NoRepository => Error::Refused(format!(
                "{repository}: no repository of backups is there: check the path and its mount; backup -r makes one in an empty folder"
            )),
            Failure::WrongKey => Error::Refused(format!(
                "{} is not the key of the repository {repository}: name its file with -k",
                key.display()
            )),
            Failure::Locked(text) => Error::Refused(format!(
                "{repository}: another command uses the repository alone: wait for its end ({text})"
            )),
            Failure::Other(text) => Error::Refused(format!("{repository}: restic: {text}")),
            Failure::Run(error) => error,
        }
    }
}

/// Parses the text of `restic version`, such as `restic 0.14.0 compiled with go1.19.8`.
fn records_sizes(text: &str) -> bool {
    let version = text.strip_prefix("restic ").and_then(|rest| {
        let mut parts = rest.split(['.', ' ']);
        let mut next = || parts.next()?.parse::<u32>().ok();
        Some((next()?, next()?))
    });
    version.is_some_and(|version| version >= (0, 17))
}

/// Passes the lines of an answer on, up to `limit` bytes in total.
fn lines(answer: impl Read, limit: u64, each: &mut dyn FnMut(&[u8])) -> std::io::Result<()> {
    let mut answer = BufReader::new(answer.take(limit + 1));
    let (mut line, mut total) = (Vec::new(), 0);
    loop {
        line.clear();
        let read = answer.read_until(b'\n', &mut line)?;
        total += read as u64;
        if read == 0 {
            return Ok(());
        }
        if total > limit {
            return Err(std::io::Error::other(format!("more than {limit} bytes")));
        }
        each(&line);
    }
}

/// Returns the end of the messages.
fn tail(mut messages: File) -> std::io::Result<String> {
    let length = messages.metadata()?.len();
    messages.seek(SeekFrom::Start(length.saturating_sub(MAX_MESSAGE_BYTES)))?;
    let mut bytes = Vec::new();
    messages.take(MAX_MESSAGE_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Finds the reason of a failure in the engine's messages.
fn reason(text: &str, status: &str) -> Failure {
    let has = |words: &str| text.contains(words);
    if has("wrong password or no key found") {
        return Failure::WrongKey;
    }
    if has("Is there a repository at the following location") || has("repository does not exist") {
        return Failure::NoRepository;
    }
    let shown = shown(text, status);
    match has("already locked") {
        true => Failure::Locked(shown),
        false => Failure::Other(shown),
    }
}

/// Returns the last lines of a message in one line that a terminal can show. Names of files in it
/// come from zones.
fn shown(text: &str, status: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" | ");
    let last: String = last
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .take(MAX_SHOWN)
        .collect();
    match last.is_empty() {
        true => status.to_owned(),
        false => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(repository: &str, ssh_options: &[&str]) -> Engine {
        Engine {
            program: "/usr/bin/restic".into(),
            settings: Settings {
                repository: repository.parse().unwrap(),
                key: "/etc/zones/backup.key".into(),
                ssh_options: ssh_options.iter().map(|&one| one.to_owned()).collect(),
            },
            cache: "/var/lib/zones/backup-cache".into(),
            plan_only: false,
        }
    }

    #[test]
    fn the_command_line_has_no_secret_and_the_environment_is_clean() {
        let engine = engine("/srv/b", &[]);
        let command = engine.command(&[OsStr::new("snapshots"), OsStr::new("--json")]);
        let line: Vec<&str> = command.get_args().filter_map(OsStr::to_str).collect();
        let line = line.join(" ");
        let expected = "--repo /srv/b --password-file /etc/zones/backup.key \
                        --cache-dir /var/lib/zones/backup-cache snapshots --json";
        assert!(line.ends_with(expected), "{line}");
        let names: Vec<&str> = command
            .get_envs()
            .filter_map(|(name, _)| name.to_str())
            .collect();
        assert_eq!(names, ["HOME", "PATH", "RESTIC_PROGRESS_FPS"]);
    }

    #[test]
    fn another_host_is_reached_by_ssh_with_the_options_of_the_settings() {
        assert_eq!(engine("/srv/b", &[]).ssh(), None);
        let engine = engine("sftp:root@nas:/srv", &["Port=2222"]);
        assert_eq!(
            engine.ssh().unwrap(),
            "ssh -o BatchMode=yes -o ServerAliveInterval=30 -o Port=2222 root@nas -s sftp"
        );
    }

    #[test]
    fn messages_of_the_engine_have_reasons() {
        let is = |text: &str| reason(text, "exit status: 1");
        assert!(matches!(
            is("Fatal: wrong password or no key found\n"),
            Failure::WrongKey
        ));
        assert!(matches!(
            is(
                "Fatal: unable to open config file: stat x\nIs there a repository at the following location?\nx\n"
            ),
            Failure::NoRepository
        ));
        assert!(matches!(
            is("unable to create lock in backend: repository is already locked exclusively"),
            Failure::Locked(_)
        ));
        let Failure::Other(text) = is("error: a\u{1b}[2J\n") else {
            panic!("another reason");
        };
        assert_eq!(text, "error: a?[2J");
        let Failure::Other(text) = is("") else {
            panic!("another reason");
        };
        assert_eq!(text, "exit status: 1");
    }

    #[test]
    fn versions_since_0_17_record_sizes() {
        for new in ["restic 0.17.3 compiled with go1", "restic 1.0.0\n"] {
            assert!(records_sizes(new), "{new}");
        }
        for old in ["restic 0.14.0 compiled with go1.19.8", "restic x", ""] {
            assert!(!records_sizes(old), "{old}");
        }
    }

    #[test]
    fn an_answer_without_end_is_refused() {
        for byte in [b'\n', b'x'] {
            let mut total = 0;
            let read = lines(std::io::repeat(byte), 1000, &mut |line| total += line.len());
            assert!(read.is_err());
            assert!(total <= 1000);
        }
        let mut count = 0;
        lines(&b"one\ntwo"[..], 1000, &mut |_| count += 1).unwrap();
        assert_eq!(count, 2);
    }
}
