//! The part of this host: its file of a zone cluster, and its zone. Other hosts call it by `--local`.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clzc::{Document, HostReport, Outcome, Version, ZoneCluster};
use model::{Config, ZoneName};
use store::Root;

use crate::{fence, spawn};

/// Maximum size of a file of a zone cluster, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Time for a program that only reads or changes a configuration.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the zone to tell of its ring. The root of the zone is not trusted.
const RING_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for an installation, and for a move to another file system.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// The files of zone clusters on this host.
pub struct Files(PathBuf);

impl Files {
    /// Returns those of the root that the environment names.
    pub fn new() -> anyhow::Result<Self> {
        let root: Root = cli::root(None)?;
        Ok(Self(root.etc().join("clusters")))
    }

    fn path(&self, name: &ZoneName) -> PathBuf {
        self.0.join(format!("{name}.cfg"))
    }

    /// Returns the path of the mark of a configuration that the zone has not taken yet.
    fn mark(&self, name: &ZoneName) -> PathBuf {
        self.0.join(format!("{name}.pending"))
    }

    /// Returns true if the zone has not taken the stored configuration yet.
    pub fn is_pending(&self, name: &ZoneName) -> bool {
        self.mark(name).exists()
    }

    /// Notes that the zone has taken the configuration of this version. The mark stays if another version was stored
    /// meanwhile: a move takes up to hours.
    pub fn taken(&self, name: &ZoneName, version: &Version) -> anyhow::Result<()> {
        let _lock = self.lock()?;
        let stored = self.read(name)?.map(|document| document.version());
        match stored.as_ref() == Some(version) {
            true => Ok(store::atomic::remove(&self.mark(name))?),
            false => Ok(()),
        }
    }

    /// Keeps other processes from changes of the files until the value is dropped.
    fn lock(&self) -> anyhow::Result<File> {
        fs::create_dir_all(&self.0)
            .with_context(|| format!("{}: cannot be made", self.0.display()))?;
        Ok(store::lock::exclusive(&self.0.join(".lock"))?)
    }

    /// Returns the text of the file, or `None` if there is none.
    pub fn text(&self, name: &ZoneName) -> anyhow::Result<Option<String>> {
        let path = self.path(name);
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.with_context(|| format!("{}: cannot be opened", path.display()))?,
        };
        let mut text = String::new();
        file.take(MAX_BYTES + 1)
            .read_to_string(&mut text)
            .with_context(|| format!("{}: cannot be read", path.display()))?;
        Ok(Some(text))
    }

    /// Returns the configuration, or `None` if this host has none.
    pub fn read(&self, name: &ZoneName) -> anyhow::Result<Option<Document>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let document = Document::read(name, &text);
        Ok(Some(document.with_context(|| {
            format!("{}: damaged", self.path(name).display())
        })?))
    }

    /// Stores a configuration, unless this host has a newer or a different one of the same generation.
    pub fn store(&self, name: &ZoneName, document: &Document) -> anyhow::Result<()> {
        let _lock = self.lock()?;
        if let Some(old) = self.read(name)? {
            let (old, new) = (old.version(), document.version());
            ensure!(
                new.generation > old.generation || new == old,
                "zone cluster {name}: this host has generation {}, and generation {} is not newer: another \
                 administrator has changed it; try again",
                old.generation,
                new.generation
            );
        }
        // Before the file: if this host dies before its zone has taken the configuration, the next command finds the mark.
        store::atomic::write(&self.mark(name), b"", 0o600)?;
        Ok(store::atomic::write(
            &self.path(name),
            document.text().as_bytes(),
            0o600,
        )?)
    }

    /// Removes the file of a deleted zone cluster.
    pub fn forget(&self, name: &ZoneName) -> anyhow::Result<()> {
        let _lock = self.lock()?;
        if let Some(document) = self.read(name)? {
            ensure!(
                document.cluster.is_none(),
                "zone cluster {name}: it is not deleted"
            );
        }
        store::atomic::remove(&self.mark(name))?;
        Ok(store::atomic::remove(&self.path(name))?)
    }

    /// Returns the names of the zone clusters that this host knows.
    pub fn names(&self) -> anyhow::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.with_context(|| format!("{}: cannot be read", self.0.display()))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let file = entry?.file_name();
            let name = file.to_str().and_then(|file| file.strip_suffix(".cfg"));
            let Some(name) = name.and_then(|name| name.parse::<ZoneName>().ok()) else {
                continue;
            };
            if self
                .read(&name)?
                .is_some_and(|document| document.cluster.is_some())
            {
                names.push(name.to_string());
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Runs an action of `--local`. Returns its exit status.
pub fn act(action: &str, name: &ZoneName, rest: &[String]) -> anyhow::Result<i32> {
    let files = Files::new()?;
    match (action, rest) {
        ("report", []) => println!("{}", report(&files, name)?.text()),
        ("show", []) => print!(
            "{}",
            files
                .text(name)?
                .context("no such zone cluster on this host")?
        ),
        ("store", []) => {
            let mut text = String::new();
            std::io::stdin()
                .take(MAX_BYTES + 1)
                .read_to_string(&mut text)?;
            files.store(name, &Document::read(name, &text)?)?;
        }
        ("forget", []) => files.forget(name)?,
        ("apply", [host]) => apply(&files, name, host)?,
        ("fence", [host, hostname, action, from]) => {
            println!(
                "{}",
                fence::here(&files, name, host, hostname, action, from)?.word()
            );
        }
        ("install" | "clone", [host, words @ ..]) => {
            return install(&files, name, host, action, words);
        }
        _ => bail!("--local {action}: not as expected"),
    }
    Ok(0)
}

/// Runs a program of this project or of the system. Returns its exit status, output and errors.
pub fn call(
    program: &str,
    words: &[&str],
    input: &str,
    limit: Duration,
) -> anyhow::Result<(i32, String, String)> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|own| Some(own.parent()?.join(program)));
    let found = beside.filter(|path| path.is_file());
    let mut command = Command::new(found.unwrap_or_else(|| PathBuf::from(program)));
    command.args(words);
    match spawn::run(command, input, limit, &|_, _| {}) {
        Outcome::Ended {
            status,
            output,
            errors,
        } => Ok((status, output, errors)),
        Outcome::Unreachable(why) => bail!(why),
        Outcome::Late(limit) => bail!(
            "{program} {}: not done after {} s",
            words.join(" "),
            limit.as_secs()
        ),
    }
}

/// Returns the state and the brand of the zone; empty texts if this host does not have it.
pub fn zone(name: &ZoneName) -> anyhow::Result<(String, String)> {
    let (status, output, errors) = call("zoneadm", &["list", "-cp"], "", CONFIG_TIMEOUT)?;
    ensure!(status == 0, "zoneadm list: {}", errors.trim());
    Ok(state_of(&output, name.as_str()).unwrap_or_default())
}

/// Finds a zone in the output of `zoneadm list -cp`: id, name, state, zonepath, uuid, brand, and more. Colons in the
/// zonepath have a backslash in front.
fn state_of(listed: &str, name: &str) -> Option<(String, String)> {
    let mut lines = listed.lines().map(|line| line.replace("\\:", "\u{1}"));
    lines.find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let found = fields.get(1) == Some(&name);
        found.then(|| {
            let field = |place: usize| {
                fields
                    .get(place)
                    .map(|text| (*text).to_owned())
                    .unwrap_or_default()
            };
            (field(2), field(5))
        })
    })
}

fn report(files: &Files, name: &ZoneName) -> anyhow::Result<HostReport> {
    let (state, brand) = zone(name)?;
    let quorate = match state.as_str() {
        "running" => quorate(name),
        _ => None,
    };
    let document = files.read(name)?;
    Ok(HostReport {
        version: document.map(|document| document.version()),
        state,
        brand,
        quorate,
        pending: files.is_pending(name),
    })
}

/// Asks the zone if its ring has a majority. Returns `None` if no corosync runs in it.
fn quorate(name: &ZoneName) -> Option<bool> {
    let words = [name.as_str(), "corosync-quorumtool", "-s"];
    let (_, output, _) = call("zlogin", &words, "", RING_TIMEOUT).ok()?;
    let mut lines = output
        .lines()
        .filter_map(|line| line.strip_prefix("Quorate:"));
    lines.next().map(|answer| answer.trim() == "Yes")
}

/// Gives the zone of this host the configuration of its node; deletes it if the host has no node.
fn apply(files: &Files, name: &ZoneName, host: &str) -> anyhow::Result<()> {
    let document = files
        .read(name)?
        .context("no such zone cluster on this host")?;
    let version = document.version();
    let (state, _) = zone(name)?;
    let node = document
        .cluster
        .as_ref()
        .and_then(|cluster| Some((cluster, cluster.node(host)?)));
    let Some((cluster, node)) = node else {
        match state.as_str() {
            "" => {}
            "configured" => zonecfg(name, &["delete", "-F"], "")?,
            state => bail!(
                "zone {name}: it is {state}, and the zone cluster no longer has it: 'zoneadm -z {name} uninstall' and \
                 'zonecfg -z {name} delete' remove it"
            ),
        }
        return files.taken(name, &version);
    };
    let mut wanted = cluster.zone_of(node)?;
    let mut found = match state.is_empty() {
        true => None,
        false => Some(present(name)?),
    };
    let mut waits = false;
    if let Some(old) = &found {
        match place(old, &wanted, &state) {
            Place::Same => {}
            Place::Kept => wanted.set_zonepath(old.get("zonepath"))?,
            Place::Moves => {
                relocate(name, &wanted)?;
                found = Some(present(name)?);
            }
            Place::Waits => {
                wanted.relocate(&old.zonepath())?;
                waits = true;
            }
        }
    }
    let script = clzc::edit(found.as_ref(), &wanted);
    if !script.is_empty() {
        zonecfg(name, &["--atomic", "-f", "-"], &script)?;
    }
    match waits {
        true => Ok(()),
        false => files.taken(name, &version),
    }
}

/// The place of the zone's files, compared with the configuration.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// zonecfg can give the zone its zonepath, if it has another one: it has no files.
    Same,
    /// The files are at their path, which is written in another way.
    Kept,
    /// The files must be moved first.
    Moves,
    /// The files must be moved when the zone is halted.
    Waits,
}

fn place(found: &Config, wanted: &Config, state: &str) -> Place {
    match (found.zonepath() == wanted.zonepath(), state) {
        (_, "configured") => Place::Same,
        (true, _) if found.get("zonepath") == wanted.get("zonepath") => Place::Same,
        (true, _) => Place::Kept,
        (false, "installed") => Place::Moves,
        (false, _) => Place::Waits,
    }
}

/// Moves the files of the zone. If this host dies meanwhile, they are whole at one of the paths.
fn relocate(name: &ZoneName, wanted: &Config) -> anyhow::Result<()> {
    let path = wanted.zonepath().to_string_lossy().into_owned();
    let words = ["-z", name.as_str(), "move", &path];
    let (status, _, errors) = call("zoneadm", &words, "", INSTALL_TIMEOUT)?;
    ensure!(
        status == 0,
        "zone {name}: its files cannot be moved to {path}: {}",
        errors.trim()
    );
    Ok(())
}

fn present(name: &ZoneName) -> anyhow::Result<Config> {
    let (status, output, errors) = call(
        "zonecfg",
        &["-z", name.as_str(), "export"],
        "",
        CONFIG_TIMEOUT,
    )?;
    ensure!(status == 0, "zonecfg export: {}", errors.trim());
    clzc::read_script(name, None, &output)
        .map_err(|error| anyhow::anyhow!("zonecfg export: {error}"))
}

fn zonecfg(name: &ZoneName, words: &[&str], input: &str) -> anyhow::Result<()> {
    let words = [&["-z", name.as_str()], words].concat();
    let (status, _, errors) = call("zonecfg", &words, input, CONFIG_TIMEOUT)?;
    ensure!(
        status == 0,
        "zone {name}: zonecfg refuses the configuration: {}",
        errors.trim()
    );
    Ok(())
}

// ---- installation ----

/// Runs `zoneadm install` or `clone` with a profile: the host name, and the files of the ring.
fn install(
    files: &Files,
    name: &ZoneName,
    host: &str,
    verb: &str,
    words: &[String],
) -> anyhow::Result<i32> {
    let document = files
        .read(name)?
        .context("no such zone cluster on this host")?;
    let cluster = document
        .cluster
        .as_ref()
        .context("the zone cluster is deleted")?;
    let node = cluster
        .node(host)
        .with_context(|| format!("zone cluster {name}: it has no node on {host}"))?;
    let profile = Profile::new(name)?;
    profile.put("etc/hostname", format!("{}\n", node.hostname), 0o644)?;
    profile.put_ring(cluster, &document.key)?;
    let folder = profile.0.to_string_lossy().into_owned();
    let mut all = vec!["-z", name.as_str(), verb, "-c", &folder];
    all.extend(words.iter().map(String::as_str));
    let mut command = Command::new(beside("zoneadm"));
    command.args(all);
    let outcome = spawn::run(command, "", INSTALL_TIMEOUT, &|stream, line| match stream {
        clzc::Stream::Output => println!("{line}"),
        clzc::Stream::Errors => eprintln!("{line}"),
    });
    match outcome {
        Outcome::Ended { status, .. } => Ok(status),
        Outcome::Unreachable(why) => bail!(why),
        Outcome::Late(limit) => bail!("zoneadm {verb}: not done after {} s", limit.as_secs()),
    }
}

fn beside(program: &str) -> PathBuf {
    let path = std::env::current_exe()
        .ok()
        .and_then(|own| Some(own.parent()?.join(program)));
    path.filter(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from(program))
}

/// A folder of files for the root of a zone, removed with the value.
struct Profile(PathBuf);

impl Profile {
    fn new(name: &ZoneName) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = Path::new("/run/zones/clusters").join(format!("{name}.{}", std::process::id()));
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&path);
        made.with_context(|| format!("{}: cannot be made", path.display()))?;
        Ok(Self(path))
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>, mode: u32) -> anyhow::Result<()> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)?;
        Ok(file.write_all(text.as_ref())?)
    }

    fn put_ring(&self, cluster: &ZoneCluster, key: &[u8]) -> anyhow::Result<()> {
        let Some(ring) = clzc::ring(cluster) else {
            return Ok(());
        };
        self.put(clzc::CONFIG_FILE.trim_start_matches('/'), ring, 0o644)?;
        self.put(clzc::KEY_FILE.trim_start_matches('/'), key, 0o400)
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // A folder in /run that this process has made; no mount is in it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_state_of_a_zone() {
        let listed = "0:global:running:/::native:shared:-:none\n3:pg:running:/z\\:1/pg:u-u:native:excl:-:none\n";
        assert_eq!(
            state_of(listed, "pg"),
            Some(("running".to_owned(), "native".to_owned()))
        );
        assert_eq!(state_of(listed, "g"), None);
    }

    #[test]
    fn only_the_files_of_a_halted_zone_are_moved() {
        let config = |zonepath: &str| {
            let mut config = Config::new("pg".parse().unwrap());
            config.set_zonepath(zonepath).unwrap();
            config
        };
        let here = config("/zones/pg");
        for (zonepath, state, expected) in [
            ("/zones/pg", "running", Place::Same),
            ("/zones/%{zonename}", "installed", Place::Kept),
            ("/tank/pg", "configured", Place::Same),
            ("/tank/pg", "installed", Place::Moves),
            ("/tank/pg", "running", Place::Waits),
            ("/tank/pg", "incomplete", Place::Waits),
        ] {
            assert_eq!(
                place(&here, &config(zonepath), state),
                expected,
                "{zonepath} {state}"
            );
        }
    }

    #[test]
    fn a_host_refuses_a_configuration_that_is_not_newer() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files(folder.path().join("clusters"));
        let name: ZoneName = "pg".parse().unwrap();
        let document = |generation, byte| Document {
            generation,
            key: vec![byte; clzc::KEY_BYTES],
            cluster: None,
        };
        files.store(&name, &document(2, 0)).unwrap();
        files.store(&name, &document(2, 0)).unwrap();
        assert!(files.store(&name, &document(2, 1)).is_err());
        assert!(files.store(&name, &document(1, 0)).is_err());
        files.store(&name, &document(3, 1)).unwrap();
        // The mark stays until the zone has taken the configuration.
        assert!(files.is_pending(&name));
        // An apply that began before this generation was stored leaves the mark.
        files.taken(&name, &document(2, 0).version()).unwrap();
        assert!(files.is_pending(&name));
        files.taken(&name, &document(3, 1).version()).unwrap();
        files.taken(&name, &document(3, 1).version()).unwrap();
        assert!(!files.is_pending(&name));
        assert_eq!(files.read(&name).unwrap(), Some(document(3, 1)));
        // A deleted zone cluster is not listed, and its file can go.
        assert_eq!(files.names().unwrap(), Vec::<String>::new());
        files.forget(&name).unwrap();
        assert_eq!(files.read(&name).unwrap(), None);
    }
}
