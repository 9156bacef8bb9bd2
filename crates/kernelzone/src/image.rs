//! Finds, opens and removes the image of a suspended guest, and checks whether the present guest
//! may resume from the image.

mod error;
pub mod place;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::Config;
use model::config::machine::KeySource;
use rustix::fs::OFlags;
use serde_json::{Map, Value, json};
use suspend::{Image, Key};

pub use error::ImageError;

use crate::record::Record;
use host::{Error, Host, flatten};

/// Name of the key file in the zonepath. Only root can enter the zonepath.
pub(crate) const KEY: &str = "suspend.key";

/// Name of the stream with the guest's memory in an image.
pub const MEMORY: &str = "memory";
/// Name of the stream with the state of the guest's devices in an image.
pub const DEVICES: &str = "devices";
/// Name of the stream that lists the memory chunks at the start of the [`MEMORY`] stream: one
/// little-endian number of four bytes for each chunk.
pub const HOT: &str = "hot";

/// The command that discards an image, for use in messages.
pub const DISCARD: &str = "boot -- --discard-suspend throws the image away and boots cold";

/// Returns the path of a zone's image; `None` for a zone that cannot be suspended.
pub fn path(host: &Host, config: &Config) -> Option<PathBuf> {
    let path = config.suspend_path()?;
    Some(match path.starts_with(config.zonepath()) {
        true => host.root.path(&path),
        false => path,
    })
}

/// Returns true if a file exists at the path of an image.
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns the path of the key file that a zone makes if its configuration names no key.
pub fn own_key_path(zonepath: &Path) -> PathBuf {
    zonepath.join(KEY)
}

/// Returns the source of a zone's key: the configured key, or the zone's own key file.
pub fn key_source(config: &Config, zonepath: &Path) -> KeySource {
    let own = || KeySource::Own(own_key_path(zonepath));
    config.keysource().unwrap_or_else(own)
}

/// Returns the problem with the configured key; `None` if the key is usable or the configuration
/// names no key.
pub fn why_no_key(config: &Config) -> Option<String> {
    let source = config.keysource()?;
    let error = read_key(&source).err()?;
    Some(format!("could not verify keysource: {}", flatten(&error)))
}

/// Makes the zone's own key file if the file is missing. A configured key needs no file.
///
/// # Errors
/// Fails if the key cannot be made or written.
pub fn make_key(source: &KeySource) -> Result<(), Error> {
    let KeySource::Own(path) = source else {
        return Ok(());
    };
    if exists(path) {
        return Ok(());
    }
    let key = Key::random().map_err(|error| Error::Refused(flatten(&error)))?;
    // If two processes make the key at the same time, the first key is kept.
    store::atomic::create(path, key.bytes(), 0o600)?;
    Ok(())
}

/// Reads the key of an image from its source.
pub fn read_key(source: &KeySource) -> Result<Key, ImageError> {
    Ok(match source {
        KeySource::Raw(text) => Key::parse(text.as_bytes()).map_err(ImageError::RawKey)?,
        KeySource::Own(path) | KeySource::File(path) => Key::read(path)?,
    })
}

/// Opens an image, and compares the guest of the image with the present guest.
///
/// # Errors
/// Fails with the reason why the image cannot be used. The image stays unchanged.
pub fn open(image: &Path, key: &KeySource, now: &Value) -> Result<Image, ImageError> {
    let image = Image::open(image, &read_key(key)?)?;
    fits(&image, now)?;
    Ok(image)
}

/// Checks that an image was made with the same guest and disks as `now` describes.
///
/// # Errors
/// Fails with the differences between the image and `now`.
pub fn fits(image: &Image, now: &Value) -> Result<(), ImageError> {
    let differences = suspend::differences(&comparable(image.identity()), now);
    if differences.is_empty() {
        return Ok(());
    }
    let path = image.path().to_owned();
    Err(match differences.iter().any(|one| one.what == BOOTS) {
        true => ImageError::StartedSince { path },
        false => suspend::Error::Differs { path, differences }.into(),
    })
}

/// Returns an [`identity`] without the options that do not matter. An earlier release put them in.
#[must_use]
pub fn comparable(identity: &Value) -> Value {
    let mut identity = identity.clone();
    if let Some(Value::Object(machine)) = identity.get_mut("machine") {
        machine.retain(|name, value| {
            if let Value::String(text) = value {
                *text = without_fd(text);
            }
            !is_of_host(name.split(' ').next().unwrap_or_default())
        });
    }
    identity
}

/// Returns true for options that tell QEMU only which files of the host it opens. The guest sees the
/// disks by their devices. A snapshot of a running guest puts one more file on a disk, and the QEMU
/// that resumes the guest has this file on its command line.
fn is_of_host(option: &str) -> bool {
    matches!(option, "add-fd" | "blockdev")
}

/// Returns the value of an option without the number of a descriptor, which depends on the number of
/// the files of all disks.
fn without_fd(value: &str) -> String {
    let is_kept = |part: &&str| {
        let number = part.strip_prefix("fd=");
        !number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let parts: Vec<&str> = value.split(',').filter(is_kept).collect();
    parts.join(",")
}

/// Name of the recorded number of starts in the identity of an image.
const BOOTS: &str = "boots";

/// Returns the facts that must be equal when a guest resumes: the QEMU, its arguments, the
/// processor if KVM runs the guest, and the sizes and times of the last write of the disks. `words`
/// are QEMU's own arguments. `boots` is the number of starts in the zone's record, or 0 if it does
/// not matter. Disks in the zonepath are named relative to the zonepath, because a zone may be
/// moved.
///
/// # Errors
/// Fails if the metadata of a disk cannot be read.
pub fn identity<'a>(
    qemu: &str,
    words: impl IntoIterator<Item = &'a str>,
    disks: &[PathBuf],
    zonepath: &Path,
    boots: u64,
) -> Result<Value, ImageError> {
    let disks = disks.iter().map(|path| disk(path, zonepath));
    let disks = disks.collect::<Result<Vec<Value>, _>>()?;
    let machine = options(words);
    let direct = machine.get("accel").is_some_and(|accel| accel == "kvm");
    let mut found = json!({ "qemu": qemu, "machine": machine, "disks": disks });
    if boots > 0 {
        found[BOOTS] = json!(boots);
    }
    if let Some(processor) = direct.then(processor).flatten() {
        found["processor"] = processor;
    }
    Ok(found)
}

/// Returns the features of this host's processor, which a guest under KVM sees unchanged.
#[cfg(target_arch = "x86_64")]
fn processor() -> Option<Value> {
    Some(described(&sys::processor::find()))
}

#[cfg(not(target_arch = "x86_64"))]
const fn processor() -> Option<Value> {
    None
}

#[cfg(target_arch = "x86_64")]
fn described(found: &sys::processor::Processor) -> Value {
    let hex = |bits: u32| json!(format!("{bits:08x}"));
    let features = found.features.iter();
    let features: Map<String, Value> = features
        .map(|(name, bits)| ((*name).to_owned(), hex(*bits)))
        .collect();
    json!({
        "vendor": found.vendor,
        "signature": hex(found.signature),
        "features": features,
    })
}

/// Returns true if a disk is a block device, where later writes cannot be detected. For such disks
/// the number of starts matters.
pub fn are_unseen(disks: &[PathBuf]) -> bool {
    let is_device =
        |path: &PathBuf| fs::metadata(path).map_or(true, |meta| meta.file_type().is_block_device());
    disks.iter().any(is_device)
}

/// Returns the arguments that QEMU was started with. A QEMU that its guest has taken over may
/// change these arguments; the only effect is that the image is refused.
pub fn words_of(pid: i32) -> Result<Vec<String>, ImageError> {
    let path = PathBuf::from(format!("/proc/{pid}/cmdline"));
    let line = fs::read(&path).map_err(|source| ImageError::Arguments { path, source })?;
    let words = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    Ok(words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect())
}

/// Returns the options of QEMU by name, so that a message can name the options that differ.
fn options<'a>(words: impl IntoIterator<Item = &'a str>) -> Map<String, Value> {
    let mut found = Map::new();
    let mut words = words.into_iter().skip(1).peekable();
    while let Some(name) = words.next() {
        let value = words.next_if(|next| !next.starts_with('-'));
        // These options do not change the guest's state: -incoming and -S tell QEMU how to start,
        // and a kernel reads the command line of -append only once.
        if matches!(name, "-incoming" | "-append" | "-S") {
            continue;
        }
        let name = name.trim_start_matches('-');
        if is_of_host(name) {
            continue;
        }
        let value = value.map(without_fd);
        let mut key = name.to_owned();
        let mut number = 1;
        while found.contains_key(&key) {
            number += 1;
            key = format!("{name} {number}");
        }
        found.insert(key, json!(value));
    }
    found
}

fn disk(path: &Path, zonepath: &Path) -> Result<Value, ImageError> {
    // An open asks the server of a network file system for the present attributes; a stat of the path
    // may return those that this host remembers.
    let mut options = fs::OpenOptions::new();
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let opened = options.read(true).custom_flags(flags).open(path);
    let opened = opened.and_then(|file| file.metadata());
    let meta = opened.map_err(|source| ImageError::Disk {
        path: path.to_owned(),
        source,
    })?;
    let path = path.strip_prefix(zonepath).unwrap_or(path);
    Ok(match meta.file_type().is_block_device() {
        // The time of the last write to a block device is unknown.
        true => json!({ "path": path }),
        false => json!({
            "path": path,
            "size": meta.len(),
            "written": meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()),
        }),
    })
}

/// Counts one more start of the zone at `zonepath`, which has these disks. If the count cannot be
/// written (the disk may be full) but all disks are files, the times of the files still show the
/// start. Then the function succeeds and returns a warning.
///
/// # Errors
/// Fails if the count cannot be written and a disk is a block device.
pub fn count_boot(zonepath: &Path, disks: &[PathBuf]) -> Result<Option<String>, Error> {
    match Record::count_boot(zonepath) {
        Ok(()) => Ok(None),
        Err(error) if are_unseen(disks) => Err(error),
        Err(error) => Ok(Some(format!(
            "that it was started was not written down: {}",
            flatten(&error)
        ))),
    }
}

/// Removes an image and the remains of an unfinished image.
///
/// # Errors
/// Fails if the image exists and cannot be removed.
pub fn remove(path: &Path) -> Result<(), ImageError> {
    // An error is ignored: an unfinished file is no image, and the next image replaces the file.
    let _ = suspend::remove_remains(path);
    let folder = match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        // A read-only file system refuses to remove a file before it checks that the file exists.
        Err(_) if is_nothing(path) => return Ok(()),
        Err(source) => {
            return Err(ImageError::Remove {
                path: path.to_owned(),
                source,
            });
        }
        Ok(()) => path.parent().unwrap_or(Path::new("/")),
    };
    // After a power failure the image must not exist again, because the guest has run since.
    fs::File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|source| ImageError::Sync {
            path: folder.to_owned(),
            source,
        })
}

fn is_nothing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Returns the reason why a path cannot be the path of a zone's image, as a text for messages.
pub fn why_not_there(path: &Path) -> Option<&'static str> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => None,
        Ok(_) => Some("it is no plain file"),
        Err(_) if path.starts_with("/dev") => Some("it would be a device"),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_a_missing_image_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        // This folder has the name of an unfinished image, so the removal of that image fails.
        fs::create_dir(dir.path().join(".image.part")).unwrap();
        remove(&path).unwrap();
        fs::write(&path, "x").unwrap();
        remove(&path).unwrap();
        assert!(is_nothing(&path));
        // /proc refuses to remove files. The call still succeeds, because the file does not exist.
        remove(Path::new("/proc/self/no-image")).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(remove(&path).is_err());
    }

    #[test]
    fn the_problem_of_a_key_file_has_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let mut config = Config::new("k1".parse().unwrap());
        config.set("brand", "solaris-kz").unwrap();
        let spec = model::table::resource("keysource").unwrap();
        let mut source = model::config::Resource::new(spec);
        source.set("file", path.to_str().unwrap()).unwrap();
        config.add(source).unwrap();
        let missing = why_no_key(&config).unwrap();
        assert!(missing.contains("No such file or directory"), "{missing}");
        fs::write(&path, "no key").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let wrong = why_no_key(&config).unwrap();
        assert!(wrong.contains("32 bytes"), "{wrong}");
    }

    #[test]
    fn an_image_is_a_plain_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        assert_eq!(why_not_there(&path), None);
        fs::write(&path, "x").unwrap();
        assert_eq!(why_not_there(&path), None);
        assert!(why_not_there(dir.path()).is_some());
        assert!(why_not_there(Path::new("/dev/null")).is_some());
        assert!(why_not_there(Path::new("/dev/zones-no-such-disk")).is_some());
        std::os::unix::fs::symlink("image", dir.path().join("link")).unwrap();
        assert!(why_not_there(&dir.path().join("link")).is_some());
    }

    #[test]
    fn errors_name_the_option_of_qemu_that_differs() {
        let line = "qemu -nodefaults -smp 2 -device a,b -device c -append root=/dev/vda x";
        let words = |line: &'static str| line.split(' ');
        let then = identity("7.2.22", words(line), &[], Path::new("/"), 0).unwrap();
        let same = "qemu -nodefaults -smp 2 -device a,b -device c -append other -incoming defer -S";
        assert_eq!(
            identity("7.2.22", words(same), &[], Path::new("/"), 0).unwrap()["machine"]["smp"],
            "2"
        );
        let now = identity(
            "7.2.23",
            words("qemu -nodefaults -smp 4 -device a,b"),
            &[],
            Path::new("/"),
            0,
        )
        .unwrap();
        let found = suspend::differences(&then, &now);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "machine.device 2 was \"c\" and is null",
                "machine.smp was \"2\" and is \"4\"",
                "qemu was \"7.2.22\" and is \"7.2.23\"",
            ]
        );
    }

    /// Returns the message that an image of `then` does not fit `now`.
    fn said(then: &Value, now: &Value) -> String {
        let dir = tempfile::tempdir().unwrap();
        let (path, key) = (dir.path().join("image"), Key::random().unwrap());
        suspend::save(&suspend::Request {
            path: &path,
            key: &key,
            identity: then,
            streams: &[],
            options: suspend::Options::default(),
        })
        .unwrap();
        let image = Image::open(&path, &key).unwrap();
        fits(&image, now).map_or_else(|why| flatten(&why), |()| String::new())
    }

    #[test]
    fn an_image_fits_a_guest_with_one_more_file_below_a_disk() {
        let words = |line: &'static str| line.split(' ');
        let of = |line| identity("7.2.22", words(line), &[], Path::new("/"), 0).unwrap();
        let before = "qemu -chardev socket,id=agent,fd=6 -add-fd fd=7,set=7 -blockdev {top} \
                      -device disk0 -netdev tap,id=net0,fd=8 -device card";
        let after = "qemu -chardev socket,id=agent,fd=6 -add-fd fd=8,set=8 -blockdev {base} \
                     -add-fd fd=7,set=7 -blockdev {top2} -device disk0 -netdev tap,id=net0,fd=9 \
                     -device card";
        assert_eq!(said(&of(before), &of(after)), "");
        // The image of an earlier release has all options.
        let mut old = of(before);
        old["machine"]["add-fd"] = json!("fd=7,set=7");
        old["machine"]["blockdev"] = json!("{top}");
        old["machine"]["netdev"] = json!("tap,id=net0,fd=8");
        assert_eq!(said(&old, &of(after)), "");
        let other = "qemu -chardev socket,id=agent,fd=6 -device disk0 -netdev tap,id=net1,fd=8 \
                     -device card";
        let why = said(&old, &of(other));
        assert!(why.contains("machine.netdev was "), "{why}");
    }

    #[test]
    fn an_image_is_of_one_start() {
        let of = |boots| identity("7.2.22", ["qemu"], &[], Path::new("/"), boots).unwrap();
        assert_eq!(said(&of(3), &of(3)), "");
        assert_eq!(said(&of(0), &of(0)), "");
        for (then, now) in [(3, 4), (0, 1), (4, 3)] {
            let why = said(&of(then), &of(now));
            assert!(why.contains("was started again since"), "{why}");
        }
    }

    #[test]
    fn a_start_that_cannot_be_counted_is_one_where_disks_tell() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk0");
        fs::write(&disk, "x").unwrap();
        // The zonepath has no record in which the boot could be counted.
        let told = count_boot(dir.path(), std::slice::from_ref(&disk)).unwrap();
        assert!(told.unwrap().contains("was not written down"));
        fs::remove_file(&disk).unwrap();
        assert!(count_boot(dir.path(), &[disk]).is_err());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn an_image_of_another_processor_is_refused() {
        let of = |accel| {
            let words = ["qemu", "-accel", accel, "-cpu", "max"];
            identity("7.2.22", words, &[], Path::new("/"), 0).unwrap()
        };
        // An emulated guest does not depend on the processor of the host.
        assert_eq!(of("tcg,thread=multi")["processor"], Value::Null);
        let then = of("kvm");
        assert_eq!(said(&then, &of("kvm")), "");
        let mut other = sys::processor::find();
        other.signature ^= 0x10;
        other.features[0].1 ^= 1;
        let mut now = then.clone();
        now["processor"] = described(&other);
        let why = said(&then, &now);
        for part in ["processor.signature was ", "processor.features.1.ecx was "] {
            assert!(why.contains(part), "{why}");
        }
        assert!(!why.contains("vendor"), "{why}");
    }

    #[test]
    fn a_disk_that_was_written_to_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk0");
        fs::write(&path, "one").unwrap();
        let disks = [path.clone()];
        let of = || identity("7.2.22", ["qemu"], &disks, dir.path(), 0).unwrap();
        let then = of();
        assert_eq!(of(), then);
        assert_eq!(then["disks"][0]["path"], "disk0");
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_ne!(of(), then);
        fs::remove_file(&path).unwrap();
        assert!(identity("7.2.22", ["qemu"], &disks, dir.path(), 0).is_err());
    }

    #[test]
    fn keys_are_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = own_key_path(dir.path());
        let own = KeySource::Own(path.clone());
        assert!(read_key(&own).is_err());
        make_key(&own).unwrap();
        let first = *read_key(&own).unwrap().bytes();
        make_key(&own).unwrap();
        assert_eq!(*read_key(&own).unwrap().bytes(), first);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn concurrent_creators_of_a_key_get_the_same_key() {
        let dir = tempfile::tempdir().unwrap();
        let own = KeySource::Own(own_key_path(dir.path()));
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let made = || {
                make_key(&own).unwrap();
                *read_key(&own).unwrap().bytes()
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(made)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn keys_that_are_named_are_read_and_never_made() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let file = KeySource::File(path.clone());
        make_key(&file).unwrap();
        let why = || flatten(&read_key(&file).unwrap_err());
        assert!(why().contains("cannot read the key"), "{}", why());
        let base64 = vm::base64::encode(&[7; 32]);
        let raw = KeySource::Raw(base64.clone());
        assert_eq!(read_key(&raw).unwrap().bytes(), &[7; 32]);
        assert!(!format!("{raw:?}").contains(&base64));
        let forms = [
            vec![7; 32],
            "07".repeat(32).into_bytes(),
            format!("{base64}\n").into(),
        ];
        for form in forms {
            fs::write(&path, form).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert_eq!(read_key(&file).unwrap().bytes(), &[7; 32]);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(why().contains("chmod 600"));
        fs::write(&path, "short").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(why().contains("a key is 32 bytes"));
    }
}
