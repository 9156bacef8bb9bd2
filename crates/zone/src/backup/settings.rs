//! The settings of backups: the repository, its key, and options for ssh.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use host::{Error, Host};
use store::atomic;

/// The name of the settings file in `/etc/zones`.
const FILE: &str = "backup";

/// The name of the key file in `/etc/zones` if the settings name none.
const KEY_FILE: &str = "backup.key";

/// The format of settings files that this program writes.
const FORMAT: &str = "1";

/// Maximum size of the settings file, in bytes.
const MAX_SETTINGS_BYTES: u64 = 64 << 10;

/// Maximum size of a key file, in bytes. The key is one line of text.
const MAX_KEY_BYTES: u64 = 4096;

/// Number of random bytes of a new key: 256 bits, as many as the engine's cipher uses.
const KEY_BYTES: usize = 32;

/// The place of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repository {
    /// A folder of this host.
    Folder(PathBuf),
    /// A folder of another host, which is reached over ssh.
    Ssh {
        /// The host, or `user@host`.
        to: String,
        /// The absolute path on that host.
        path: String,
    },
}

impl FromStr for Repository {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            Err(format!(
                "{text}: not a repository: expected an absolute path, or sftp:[user@]host:/path"
            ))
        };
        if text
            .chars()
            .any(|c| c.is_control() || c == '"' || c == '\'' || c == '\\')
        {
            return bad();
        }
        if text.starts_with('/') {
            return Ok(Self::Folder(text.into()));
        }
        let Some((to, path)) = text
            .strip_prefix("sftp:")
            .and_then(|rest| rest.split_once(":/"))
        else {
            return bad();
        };
        // A name with a dash in front would be an option of ssh.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        if to.is_empty() || to.starts_with('-') || !to.chars().all(plain) {
            return bad();
        }
        Ok(Self::Ssh {
            to: to.to_owned(),
            path: format!("/{path}"),
        })
    }
}

impl std::fmt::Display for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Ssh { to, path } => write!(f, "sftp:{to}:{path}"),
        }
    }
}

/// The settings that a command line names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The repository (`-r`).
    pub repository: Option<Repository>,
    /// The file of the key (`-k`).
    pub key: Option<PathBuf>,
}

/// The settings of backups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) repository: Repository,
    /// The file of the key, as a path of the host.
    pub(super) key: PathBuf,
    /// Options for ssh, each as `Name=value`.
    pub(super) ssh_options: Vec<String>,
}

impl Settings {
    /// Returns the settings of the command line, completed by those of the settings file.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if no repository is named, and if a user without root could
    /// have written the settings file: an option of ssh can name a program.
    pub(super) fn of(host: &Host, named: &Named) -> Result<Self, Error> {
        let path = host.root.etc().join(FILE);
        let stored = load(&path)?;
        let own_key = host.root.etc().join(KEY_FILE);
        let (repository, key, ssh_options) = match stored {
            Some(found) => (
                Some(found.repository),
                found.key.unwrap_or(own_key),
                found.ssh_options,
            ),
            None => (None, own_key, Vec::new()),
        };
        let repository = named.repository.clone().or(repository).ok_or_else(|| {
            Error::Refused(format!(
                "no repository for backups is known: name one with -r, or in {}",
                host.root.shown(&path).display()
            ))
        })?;
        Ok(Self {
            repository,
            key: named.key.clone().unwrap_or(key),
            ssh_options,
        })
    }

    /// Stores these settings for later commands if there is no settings file. Returns true if the
    /// file was written.
    pub(super) fn keep(&self, host: &Host) -> Result<bool, Error> {
        let path = host.root.etc().join(FILE);
        fs::create_dir_all(host.root.etc())
            .map_err(Error::io(format!("make {}", host.root.etc().display())))?;
        Ok(atomic::create(&path, self.text().as_bytes(), 0o600)?)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# The repository of zoneadm backup, see zoneadm(8).\nformat={FORMAT}\nrepository={}\nkey={}\n",
            self.repository,
            self.key.display()
        );
        for option in &self.ssh_options {
            text.push_str(&format!("ssh-option={option}\n"));
        }
        text
    }
}

/// The content of a settings file.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    repository: Repository,
    key: Option<PathBuf>,
    ssh_options: Vec<String>,
}

fn load(path: &Path) -> Result<Option<Stored>, Error> {
    let shown = path.display();
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(Error::io(format!("open {shown}")))?,
    };
    let meta = file
        .metadata()
        .map_err(Error::io(format!("look at {shown}")))?;
    if meta.uid() != 0 || meta.mode() & 0o022 != 0 {
        return Err(Error::Refused(format!(
            "{shown}: users other than root can write it: chown root it and chmod 600 it"
        )));
    }
    let mut text = String::new();
    file.take(MAX_SETTINGS_BYTES)
        .read_to_string(&mut text)
        .map_err(Error::io(format!("read {shown}")))?;
    let stored = parse(&text).map_err(|why| Error::Refused(format!("{shown}: {why}")))?;
    Ok(Some(stored))
}

fn parse(text: &str) -> Result<Stored, String> {
    let (mut repository, mut key, mut ssh_options) = (None, None, Vec::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = number + 1;
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("line {at}: expected name=value"));
        };
        match (name.trim(), value.trim()) {
            ("format", FORMAT) => {}
            ("format", other) => {
                return Err(format!(
                    "line {at}: format {other} is newer than this program, which knows {FORMAT}"
                ));
            }
            ("repository", value) => repository = Some(value.parse()?),
            ("key", value) if value.starts_with('/') => key = Some(value.into()),
            ("key", value) => return Err(format!("line {at}: {value}: not an absolute path")),
            ("ssh-option", value) => ssh_options.push(ssh_option(value)?),
            (other, _) => {
                return Err(format!(
                    "line {at}: {other}: expected repository, key or ssh-option"
                ));
            }
        }
    }
    Ok(Stored {
        repository: repository.ok_or("it names no repository")?,
        key,
        ssh_options,
    })
}

/// Checks an option of ssh. The engine splits its command at spaces and quotes.
fn ssh_option(value: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_graphic() && !"\"'\\".contains(c);
    match value.split_once('=') {
        Some((name, _))
            if name.starts_with(|c: char| c.is_ascii_alphabetic()) && value.chars().all(plain) =>
        {
            Ok(value.to_owned())
        }
        _ => Err(format!(
            "ssh-option {value}: expected Name=value without spaces and quotes; put others into ~/.ssh/config"
        )),
    }
}

/// Fails if the key file is missing, or if a user other than root can read or change it.
pub(super) fn check_key(path: &Path) -> Result<(), Error> {
    let shown = path.display();
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::Refused(format!(
                "{shown}: no such key: put the key of the repository there, or name its file with -k"
            )));
        }
        meta => meta.map_err(Error::io(format!("look at {shown}")))?,
    };
    let wrong = if !meta.is_file() || meta.len() == 0 || meta.len() > MAX_KEY_BYTES {
        format!("expected a file with a key of at most {MAX_KEY_BYTES} bytes")
    } else if meta.uid() != 0 {
        format!("user {} owns the key: chown root it", meta.uid())
    } else if meta.mode() & 0o077 != 0 {
        "users other than root can read the key: chmod 600 it".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Refused(format!("{shown}: {wrong}")))
}

/// Makes a new random key if the file does not exist. Returns true if the file was made.
pub(super) fn make_key(path: &Path) -> Result<bool, Error> {
    let mut bytes = [0; KEY_BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| Error::Io("get random bytes".to_owned(), errno.into()))?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io(format!("make {}", folder.display())))?;
    }
    Ok(atomic::create(path, format!("{text}\n").as_bytes(), 0o600)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_a_folder_or_a_folder_of_another_host() {
        let read = |text: &str| text.parse::<Repository>();
        assert_eq!(read("/srv/b"), Ok(Repository::Folder("/srv/b".into())));
        let ssh = read("sftp:root@nas:/srv/b").unwrap();
        assert_eq!(ssh.to_string(), "sftp:root@nas:/srv/b");
        for wrong in [
            "",
            "srv",
            "sftp:nas",
            "sftp::/srv",
            "sftp:-oProxyCommand=x:/srv",
            "sftp:a b:/srv",
            "s3:host/bucket",
            "/srv/\"b",
            "/srv/\n",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        let settings = Settings {
            repository: Repository::Folder("/srv/b".into()),
            key: "/etc/zones/backup.key".into(),
            ssh_options: vec!["Port=22".into()],
        };
        let read = parse(&settings.text()).unwrap();
        assert_eq!(read.repository, settings.repository);
        assert_eq!(read.key, Some(settings.key));
        assert_eq!(read.ssh_options, settings.ssh_options);
    }

    #[test]
    fn refuses_settings_that_it_does_not_know() {
        for wrong in [
            "key=/k",
            "repository=/srv\nformat=2",
            "repository=/srv\nkey=k",
            "repository=/srv\nssh-option=Port 22",
            "repository=/srv\nssh-option=-x=1",
            "repository=/srv\npassword=x",
            "repository",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_new_key_is_long_and_only_for_its_owner_and_replaces_no_other_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert!(
            check_key(&path)
                .unwrap_err()
                .to_string()
                .contains("no such key")
        );
        assert!(make_key(&path).unwrap());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim().len(), 2 * KEY_BYTES);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!make_key(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        fs::write(&path, "").unwrap();
        assert!(check_key(&path).is_err());
    }
}
