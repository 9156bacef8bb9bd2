//! `zoneadm import`: makes a zone from a file that `zoneadm export` wrote on any host.
//!
//! The file may come from an untrusted person. Its root is unpacked as safely as any archive, see
//! [`crate::attach`]. A configuration that gives the zone parts of this host is accepted only if
//! the user requests this.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use model::{Config, State, ZoneName};
use rustix::fs::{Mode, OFlags};
use store::index::{self, Entry, Index};
use store::lock;
use store::xml::{self, manifest::Manifest};

use crate::attach::{self, Update};
use crate::executor::{self, Outcome};
use crate::export::start;
use host::{Error, Host};

/// The options of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The path of the archive.
    pub path: PathBuf,
    /// The file with the age key that decrypts the archive.
    pub identity: Option<PathBuf>,
    /// True if a configuration is accepted that gives the zone parts of this host.
    pub trust: bool,
    /// True if packages are not compared, as for attach.
    pub force: bool,
    /// The packages to update, as for attach.
    pub update: Update,
}

/// The first bytes of encrypted files, and the programs that decrypt these files.
const CIPHERS: &[(&[u8], &str)] = &[
    (b"age-encryption.org/", "age"),
    (b"-----BEGIN AGE", "age"),
    // These bytes begin a GnuPG packet with an encrypted session key, in the old or new format.
    (b"\x84", "gpg"),
    (b"\x85", "gpg"),
    (b"\xc1", "gpg"),
    (b"-----BEGIN PGP", "gpg"),
];

/// Imports a zone. The zone need not be configured.
///
/// # Errors
/// Fails as attach does. A configuration that was taken from the archive is then removed again.
pub fn import(
    host: &Host,
    zone: &ZoneName,
    options: &Options,
    dry_run: bool,
    updater: attach::Updater<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let (_opened, path) = open(host, options)?;
    let manifest = brand::first_member(&path, xml::manifest::DETACHED, xml::MAX_SIZE)?;
    let manifest = match manifest {
        Some(text) => Manifest::from_stream(text.as_slice(), &options.path)?,
        None => {
            return Err(Error::Refused(format!(
                "{}: not a zone that zoneadm export wrote; attach -a takes other archives.",
                options.path.display()
            )));
        }
    };
    let (config, known) = accepted(host, zone, &manifest, options.trust, "import")?;
    crate::label::admit_source(host, &config, &options.path)?;
    if dry_run {
        let text = format!(
            "import zone {zone}:\n  {}unpack {} into {}/root\n  attach it\n",
            if known { "" } else { "configure it\n  " },
            options.path.display(),
            config.zonepath().display()
        );
        return Ok(Outcome::Planned(text));
    }
    if !known {
        configure(host, &config)?;
    }
    let attaching = attach::Options {
        take_over: false,
        force: options.force,
        update: options.update,
        source: Some(["-a".to_owned(), path.to_string_lossy().into_owned()]),
    };
    let attached = attach::attach(host, zone, &attaching, updater, progress);
    if attached.is_err() && !known && !attach::is_stored(host, zone) {
        // An error of this removal is ignored, because the first error is reported.
        let _ = forget(host, zone);
    }
    attached
}

/// Returns the configuration with which a zone is made from a manifest, and true if this host has
/// it already. `verb` is the subcommand in messages.
///
/// # Errors
/// Fails with [`Error::Refused`] if the configuration is new, gives the zone parts of this host, and
/// is not trusted.
pub(crate) fn accepted(
    host: &Host,
    zone: &ZoneName,
    manifest: &Manifest,
    trust: bool,
    verb: &str,
) -> Result<(Config, bool), Error> {
    if Index::load(&host.root)?.find(zone).is_some() {
        return Ok((xml::load(&host.root, zone)?, true));
    }
    let config = configuration(manifest, zone)?;
    let mut reaches = reaches(&config);
    reaches.extend(occupied(host, &config));
    if trust || reaches.is_empty() {
        return Ok((config, false));
    }
    let from = match verb {
        "import" => "archive",
        _ => "backup",
    };
    Err(Error::Refused(format!(
        "the configuration in the {from} reaches into this host: {}; configure the zone first, or use {verb} -t.",
        reaches.join(", ")
    )))
}

/// Timeout for another command that makes or removes a zone of the same name.
const NAME_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Stores a configuration as that of a new zone.
///
/// # Errors
/// Fails with [`Error::Refused`] if another command has configured the zone since the caller looked
/// for it.
pub fn configure(host: &Host, config: &Config) -> Result<(), Error> {
    let zone = config.name();
    let held = lock::zone_within(&host.root, zone, NAME_LOCK_TIMEOUT)?;
    if Index::load(&host.root)?.find(zone).is_some() {
        return Err(Error::Refused(
            "was configured by another command at this moment; run this command again.".to_owned(),
        ));
    }
    let entry = Entry::configured(zone.clone(), config.zonepath());
    let stored = xml::save_before_index(&host.root, config)
        .map_err(Error::from)
        .and_then(|()| Ok(executor::record_now(host, entry)?));
    if stored.is_err() {
        lock::forget(&host.root, zone, &held)?;
    }
    stored
}

/// Removes the configuration that [`configure`] has stored, unless another command uses the zone or
/// has installed it.
///
/// # Errors
/// Fails with [`store::Error::Locked`] if another command uses the zone.
pub fn forget(host: &Host, zone: &ZoneName) -> Result<(), store::Error> {
    let held = lock::zone_within(&host.root, zone, NAME_LOCK_TIMEOUT)?;
    let is_unknown = index::update(&host.root, |index| {
        let entry = index.find(zone);
        if entry.is_some_and(|entry| entry.state == State::Configured) {
            index.remove(zone);
        }
        Ok::<_, store::Error>(index.find(zone).is_none())
    })?;
    if is_unknown {
        xml::remove(&host.root, zone)?;
        lock::forget(&host.root, zone, &held)?;
    }
    Ok(())
}

/// Returns the configuration of an archive, renamed for `zone`.
pub fn configuration(manifest: &Manifest, zone: &ZoneName) -> Result<Config, Error> {
    let mut config = manifest.config.clone();
    let former = config.zonepath();
    let was = config.name().clone();
    if was == *zone {
        return Ok(config);
    }
    config.rename(zone.clone());
    if config.zonepath() == former {
        if former.file_name() != Some(was.as_str().as_ref()) {
            return Err(Error::Refused(format!(
                "the zonepath in the archive, {}, does not end with the name {was}: configure the zone first.",
                former.display()
            )));
        }
        let path = former.with_file_name(zone.as_str());
        config
            .set_zonepath(&path.to_string_lossy())
            .map_err(|error| Error::Refused(error.to_string()))?;
    }
    Ok(config)
}

/// Returns descriptions of the parts of the host that a configuration gives to a zone.
pub(crate) fn reaches(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    let system = [
        "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libo32", "/opt",
    ];
    for dir in config.inherited_dirs() {
        if !system.iter().any(|known| dir == Path::new(known)) {
            found.push(format!("inherit-pkg-dir {}", dir.display()));
        }
    }
    for fs in config.filesystems() {
        if fs.fstype != "tmpfs" {
            found.push(format!("fs {} of {}", fs.dir.display(), fs.special));
        }
    }
    found.extend(config.device_patterns().map(|one| format!("device {one}")));
    found.extend(config.datasets().map(|one| format!("dataset {one}")));
    found.extend(config.admins().map(|one| format!("admin {}", one.user)));
    if !matches!(config.limitpriv(), "" | "default") {
        found.push(format!("limitpriv {}", config.limitpriv()));
    }
    for kind in ["net", "anet"] {
        for net in config.resources_of(kind) {
            let on = ["physical", "lower-link"]
                .iter()
                .map(|property| net.get(property))
                .find(|value| !matches!(*value, "" | "auto"));
            if let Some(on) = on {
                found.push(format!("{kind} on {on}"));
            }
        }
    }
    found
}

/// Returns a description of the zonepath if it is a folder that is not empty.
fn occupied(host: &Host, config: &Config) -> Option<String> {
    let path = config.zonepath();
    let mut entries = std::fs::read_dir(host.root.path(&path)).ok()?;
    let files = entries.next().is_some();
    files.then(|| format!("zonepath {}, which has files in it", path.display()))
}

/// Opens the archive. An encrypted archive is decrypted to a file without a name. Returns this
/// file, and the path under which the plain archive can be read.
fn open(host: &Host, options: &Options) -> Result<(Option<File>, PathBuf), Error> {
    let path = &options.path;
    let shown = path.display();
    let file = File::open(path).map_err(Error::io(format!("open {shown}")))?;
    let mut begin = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(&file, 64), &mut begin)
        .map_err(Error::io(format!("read {shown}")))?;
    let cipher = CIPHERS.iter().find(|(magic, _)| begin.starts_with(magic));
    let Some((_, program)) = cipher else {
        return Ok((None, path.clone()));
    };
    let folder = host.root.lib();
    std::fs::create_dir_all(&folder).map_err(Error::io(format!("make {}", folder.display())))?;
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let plain = rustix::fs::open(&folder, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| Error::Io(format!("write in {}", folder.display()), errno.into()))?;
    let plain = File::from(plain);
    let out = plain
        .try_clone()
        .map_err(Error::io("write a file".to_owned()))?;
    let identity = options.identity.as_ref().map(|one| one.to_string_lossy());
    let shown_path = path.to_string_lossy();
    let words: Vec<&str> = match (*program, &identity) {
        ("age", Some(identity)) => vec!["-d", "-i", identity, &shown_path],
        ("age", None) => {
            return Err(Error::Usage(
                "the archive is encrypted with age: -i names the file of the key".to_owned(),
            ));
        }
        _ => vec!["--batch", "--quiet", "--decrypt", &shown_path],
    };
    let mut child = start(program, &words, Stdio::null(), out.into())?;
    let status = child
        .wait()
        .map_err(Error::io(format!("wait for {program}")))?;
    if !status.success() {
        return Err(Error::Refused(format!(
            "{shown}: {program}: {status}: it cannot be decrypted"
        )));
    }
    let path = PathBuf::from(format!("/proc/self/fd/{}", plain.as_raw_fd()));
    Ok((Some(plain), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(text: &str) -> Manifest {
        let text = format!("<zone name='web' zonepath='/zones/web'>{text}</zone>");
        Manifest::parse(&text, Path::new("m")).unwrap()
    }

    #[test]
    fn import_names_properties_that_reach_the_host() {
        let plain = manifest("<inherited-pkg-dir directory='/usr'/>");
        assert!(reaches(&plain.config).is_empty());
        let reaching = manifest(
            "<inherited-pkg-dir directory='/home'/>\
             <filesystem special='/' directory='/host' type='lofs'/>\
             <device match='/dev/sda'/>",
        );
        let found = reaches(&reaching.config).join(", ");
        assert_eq!(
            found,
            "inherit-pkg-dir /home, fs /host of /, device /dev/sda"
        );
    }

    #[test]
    fn a_zone_may_get_another_name() {
        let found = configuration(&manifest(""), &"web2".parse().unwrap()).unwrap();
        assert_eq!(found.zonepath(), Path::new("/zones/web2"));
        let same = configuration(&manifest(""), &"web".parse().unwrap()).unwrap();
        assert_eq!(same.zonepath(), Path::new("/zones/web"));
    }
}
