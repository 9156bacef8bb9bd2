//! Makes the disks and the firmware variables of a new kernel zone, and removes them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use brand::kz::{Firmware, Options, Source};
use model::Config;
use model::plan::Recipe;
use rustix::fs::OFlags;
use vm::{Format, Model};

use crate::disks::{self, DEFAULT_DISK_BYTES, Place, is_own};
use crate::new_file::create;
use crate::record::{Disk, FILE, Record, Start};
use crate::{image, loader, ports, uefi};
use host::Host;
use host::undo::UndoStack;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Name of the folder in the zonepath in which the files of a guest's root are collected before
/// they are written to a disk.
const WORK: &str = ".machine-work";

/// Makes the disks of a new kernel zone and returns its record.
pub fn make(
    host: &Host,
    config: &Config,
    zonepath: &Path,
    options: &[String],
    progress: &mut dyn FnMut(&str),
) -> Result<Record, AnyError> {
    let options = Options::parse(options)?;
    let qemu = crate::facts::qemu(host)?;
    let model = Model::of_version(&qemu.version);
    let places = disks::places(host, config);
    let first = places.iter().min_by_key(|place| place.order());
    let first = first.ok_or("the zone has no disk")?;
    progress(&format!("Machine: {}, QEMU {}.", model.machine, model.qemu));
    let uefi = firmware(config, &options)?;
    let mut made = Vec::new();
    let mut start = Start::Firmware;
    for place in &places {
        let disk = if place == first {
            let job = Job {
                zonepath,
                place,
                size: wanted_size(&options, place)?,
                number: places.iter().position(|one| one == place).unwrap_or(0),
            };
            let (disk, with) = job.carry_out(options.source.as_ref(), progress)?;
            start = with;
            disk
        } else {
            further(place, zonepath)?
        };
        made.push(disk);
    }
    let direct = matches!(start, Start::Kernel { .. });
    if direct && uefi.is_some() {
        return Err("-x firmware and verified-boot apply to disks and CDs that firmware starts; the kernel of a root is started directly".into());
    }
    let nvram = match !direct && uefi.unwrap_or_else(|| for_uefi(options.source.as_ref())) {
        false => None,
        true => {
            progress("Firmware: UEFI.");
            Some(uefi::make(config, &model, zonepath)?)
        }
    };
    let mut record = Record::before_first_boot(model, start, made, nvram);
    ports::first(&mut record);
    Ok(record)
}

/// Returns the size of the disk that is installed: from `-x install-size`, or from the configuration
/// of the disk; `None` for no request. The configured size is not below the size of the option,
/// because a disk cannot shrink.
fn wanted_size(options: &Options, place: &Place) -> Result<Option<u64>, AnyError> {
    match (options.size, place.size) {
        (Some(option), Some(size)) if option > size => Err(format!(
            "-x install-size: device id={} has size={}, which is less, and a disk never shrinks",
            place.id,
            model::table::short_size(size)
        )
        .into()),
        (option, size) => Ok(option.or(size)),
    }
}

/// Returns the firmware that the user or verified-boot requests: true for UEFI, false for a BIOS,
/// `None` for no request.
fn firmware(config: &Config, options: &Options) -> Result<Option<bool>, AnyError> {
    let said = options.firmware.map(|one| one == Firmware::Uefi);
    match (config.verified_boot().is_some_and(|one| one.enforced), said) {
        (true, Some(false)) => {
            Err("-x firmware=bios: no BIOS checks signatures, as verified-boot wants it".into())
        }
        (true, _) => Ok(Some(true)),
        (false, said) => Ok(said),
    }
}

/// Returns true if the source of an install starts with UEFI firmware only.
fn for_uefi(source: Option<&Source>) -> bool {
    let Some(Source::File(path)) = source else {
        return false;
    };
    let ways = File::open(path)
        .ok()
        .and_then(|file| loader::ways(&file).ok());
    ways.is_some_and(|ways| ways.uefi && !ways.bios)
}

/// Makes an empty disk in the zonepath, or measures an existing disk outside the zonepath. Nothing
/// is installed on this disk.
pub(crate) fn further(place: &Place, zonepath: &Path) -> Result<Disk, AnyError> {
    let size = if is_own(place, zonepath) {
        create(&place.path)?.set_len(place.new_size())?;
        place.new_size()
    } else {
        length(&place.path)?
    };
    Ok(disk(place, zonepath, size, Format::Raw))
}

fn disk(place: &Place, zonepath: &Path, size: u64, format: Format) -> Disk {
    Disk {
        id: place.id,
        size,
        file: disks::own_name(place, zonepath),
        format,
        bases: Vec::new(),
        port: None,
    }
}

/// An installation on the zone's first disk.
struct Job<'a> {
    zonepath: &'a Path,
    place: &'a Place,
    size: Option<u64>,
    /// Position of the disk in the guest: 0 is vda.
    number: usize,
}

impl Job<'_> {
    fn carry_out(
        &self,
        source: Option<&Source>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(Disk, Start), AnyError> {
        match source {
            Some(Source::Directory(root)) => self.install_root(root, progress),
            Some(Source::File(path)) => {
                let mut file = open_source(path)?;
                if is_cd(&file)? {
                    return self.install_from_cd(path, progress);
                }
                match is_archive(&mut file).map_err(|error| named(path, &error))? {
                    true => self.in_work(progress, |root, progress| {
                        let source = brand::ImageSource::Archive(path.clone());
                        brand::unpack_image(root, &source, progress)?;
                        Ok(())
                    }),
                    false => self.install_image(&file, path, progress),
                }
            }
            None => self.in_work(progress, bootstrap),
        }
    }

    /// Fills a work folder with a guest's root by `fill`, installs this root on the disk, and
    /// removes the folder.
    fn in_work(
        &self,
        progress: &mut dyn FnMut(&str),
        fill: impl FnOnce(&Path, &mut dyn FnMut(&str)) -> Result<(), AnyError>,
    ) -> Result<(Disk, Start), AnyError> {
        let work = self.zonepath.join(WORK);
        remove_work(&work)?;
        fs::create_dir(&work)?;
        fs::set_permissions(&work, fs::Permissions::from_mode(0o755))?;
        let done = fill(&work, progress).and_then(|()| self.install_root(&work, progress));
        let cleared = remove_work(&work);
        let done = done?;
        cleared?;
        Ok(done)
    }

    fn install_root(
        &self,
        root: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(Disk, Start), AnyError> {
        let found = brand::kz::find_kernel(root)?;
        progress(&format!("Kernel: {}.", found.name));
        let boot = self.zonepath.join(storage::ROOT);
        copy_kernel(found.kernel, &boot, brand::kz::KERNEL)?;
        let initrd = found.initrd.is_some();
        if let Some(file) = found.initrd {
            copy_kernel(file, &boot, brand::kz::INITRD)?;
        }
        let path = &self.place.path;
        let size = self.size.unwrap_or(DEFAULT_DISK_BYTES);
        if !is_own(self.place, self.zonepath) {
            return Err(format!(
                "{} is not in the zonepath: install on it from the image of a disk (-a)",
                path.display()
            )
            .into());
        }
        progress(&format!(
            "Disk: {} of {}.",
            path.display(),
            model::table::short_size(size)
        ));
        brand::kz::make_disk(root, path, size)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok((
            disk(self.place, self.zonepath, size, Format::Raw),
            Start::Kernel {
                initrd,
                command_line: format!("root=/dev/{} rw console=ttyS0", device(self.number)),
            },
        ))
    }

    fn install_image(
        &self,
        file: &File,
        path: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(Disk, Start), AnyError> {
        let image = vm::image::inspect(file, &path.display().to_string())?;
        if image.format == Format::Raw && !is_bootable(file)? {
            return Err(format!(
                "{}: neither the archive of a root nor a disk that can be started from",
                path.display()
            )
            .into());
        }
        let target = &self.place.path;
        let mut size = image.size;
        if is_own(self.place, self.zonepath) {
            progress(&format!(
                "Disk: {} from {} ({}).",
                target.display(),
                path.display(),
                image.format.as_str()
            ));
            let made = create(target)?;
            copy_or_share(file, &made)?;
            if let Some(wanted) = self.size {
                size = wanted;
                vm::image::grow(&made, wanted, &path.display().to_string())?;
            }
        } else {
            let there = length(target)?;
            if image.format != Format::Raw || there < image.size {
                return Err(format!(
                    "{}: takes a raw image of at most {there} bytes",
                    target.display()
                )
                .into());
            }
            size = there;
            progress(&format!(
                "Writing {} to {}.",
                path.display(),
                target.display()
            ));
            let device = fs::OpenOptions::new()
                .write(true)
                .custom_flags(nofollow(target))
                .open(target)?;
            copy_all(file, &device)?;
            device.sync_all()?;
        }
        let disk = disk(self.place, self.zonepath, size, image.format);
        Ok((disk, Start::Firmware))
    }
}

impl Job<'_> {
    /// Makes an empty disk and lets the guest start from the CD: the installer on the CD asks its
    /// questions on the console.
    fn install_from_cd(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(Disk, Start), AnyError> {
        let target = &self.place.path;
        let size = if is_own(self.place, self.zonepath) {
            let size = self.size.unwrap_or(DEFAULT_DISK_BYTES);
            create(target)?.set_len(size)?;
            size
        } else {
            let there = open_disk(target)?;
            if is_bootable(&there)? {
                return Err(format!(
                    "{}: it has a system, which would start in place of the CD: clear it first (wipefs -a)",
                    target.display()
                )
                .into());
            }
            length(target)?
        };
        let cd = fs::canonicalize(path).map_err(|error| named(path, &error))?;
        progress(&format!(
            "Disk: {}, empty. The zone starts from {} until there is a system on it.",
            target.display(),
            cd.display()
        ));
        let disk = disk(self.place, self.zonepath, size, Format::Raw);
        Ok((disk, Start::Installer { cd }))
    }
}

/// Returns the name that Linux gives to the virtio disk with this number.
fn device(number: usize) -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyz";
    let letter = letters.get(number).copied().unwrap_or(b'a');
    format!("vd{}", char::from(letter))
}

/// Returns a flag as the integer that open(2) takes.
fn flag(flag: OFlags) -> i32 {
    i32::try_from(flag.bits()).unwrap_or(0)
}

/// Returns the open(2) flag that refuses symbolic links. It is 0 for paths below /dev, where disk
/// names are symbolic links.
fn nofollow(path: &Path) -> i32 {
    match path.starts_with("/dev") {
        true => 0,
        false => flag(OFlags::NOFOLLOW),
    }
}

fn named(path: &Path, error: &io::Error) -> AnyError {
    format!("{}: {error}", path.display()).into()
}

fn open_source(path: &Path) -> Result<File, AnyError> {
    let file = fs::OpenOptions::new()
        .read(true)
        // An open without this flag would wait for the writer of a pipe.
        .custom_flags(flag(OFlags::NONBLOCK))
        .open(path)
        .map_err(|error| named(path, &error))?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(format!("{}: not a file", path.display()).into()),
    }
}

/// Returns true if a file is the archive of a root: a tar file, plain or compressed.
fn is_archive(file: &mut File) -> io::Result<bool> {
    let mut head = [0; 512];
    let mut read = 0;
    while let length @ 1.. = file.read(&mut head[read..])? {
        read += length;
    }
    file.seek(SeekFrom::Start(0))?;
    let packed: [&[u8]; 4] = [b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"BZh"];
    Ok(&head[257..262] == b"ustar" || packed.iter().any(|magic| head.starts_with(magic)))
}

/// Returns true if a file is the image of a CD (ISO 9660). Many images of CDs also begin like a
/// disk.
fn is_cd(file: &File) -> io::Result<bool> {
    let mut name = [0; 5];
    match file.read_exact_at(&mut name, 0x8001) {
        Ok(()) => Ok(&name == b"CD001"),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns true if a raw disk has a boot sector or a partition table, from which firmware could
/// start.
fn is_bootable(file: &File) -> io::Result<bool> {
    let mut head = [0; 520];
    match file.read_exact_at(&mut head, 0) {
        Ok(()) => Ok(head[510..512] == [0x55, 0xaa] || &head[512..520] == b"EFI PART"),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn open_disk(path: &Path) -> Result<File, AnyError> {
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(nofollow(path))
        .open(path)
        .map_err(|error| named(path, &error))
}

fn length(path: &Path) -> Result<u64, AnyError> {
    let mut file = open_disk(path)?;
    // A seek also finds the size of a block device.
    Ok(file.seek(SeekFrom::End(0))?)
}

fn copy_kernel(from: File, root: &Path, name: &str) -> Result<(), AnyError> {
    let path = root.join(name.trim_start_matches('/'));
    let mut to = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&path)
        .map_err(|error| named(&path, &error))?;
    io::copy(&mut from.take(brand::kz::MAX_KERNEL_BYTES), &mut to)?;
    Ok(to.set_permissions(fs::Permissions::from_mode(0o644))?)
}

/// Copies the content of `from` to `to`. The files share their blocks if the file system can do
/// this.
pub(crate) fn copy_or_share(from: &File, to: &File) -> Result<(), AnyError> {
    match rustix::fs::ioctl_ficlone(to, from) {
        Ok(()) => Ok(()),
        Err(_) => {
            copy_all(from, to)?;
            Ok(to.set_len(from.metadata()?.len())?)
        }
    }
}

/// Number of bytes that one read copies.
const COPY_BYTES: usize = 1 << 20;

/// Copies a file. Zeros are left out if `to` is a regular file, where they become holes.
fn copy_all(from: &File, to: &File) -> Result<(), AnyError> {
    let length = from.metadata()?.len();
    let fresh = to.metadata()?.is_file();
    let mut piece = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < length {
        if fresh {
            match rustix::fs::seek(from, rustix::fs::SeekFrom::Data(at)) {
                Ok(data) => at = data,
                // The rest of the file is a hole.
                Err(rustix::io::Errno::NXIO) => break,
                Err(_) => {}
            }
        }
        let wanted = usize::try_from(length - at).map_or(COPY_BYTES, |left| left.min(COPY_BYTES));
        let read = from.read_at(&mut piece[..wanted], at)?;
        if read == 0 {
            break;
        }
        if !fresh || piece[..read].iter().any(|&byte| byte != 0) {
            to.write_all_at(&piece[..read], at)?;
        }
        at += read as u64;
    }
    Ok(())
}

/// Packages of a guest that is made from the distribution of the host.
const PACKAGES: &str = "linux-image-cloud-amd64,systemd-sysv,udev,dbus,kmod,iproute2,ifupdown,isc-dhcp-client,qemu-guest-agent";

/// Makes the root of a guest with mmdebstrap or debootstrap. The mounts and processes of the tool end
/// with this command.
fn bootstrap(root: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), AnyError> {
    let release = release().ok_or(
        "this host is no Debian: give the root of a system (-d), its archive, or the image of a disk (-a)",
    )?;
    let tools = ["/usr/bin/mmdebstrap", "/usr/sbin/debootstrap"];
    let tool = tools.into_iter().find(|tool| Path::new(tool).exists());
    let tool = tool.ok_or(
        "neither mmdebstrap nor debootstrap is installed: install one, or give the root of a system (-d), its archive, or the image of a disk (-a)",
    )?;
    progress(&format!("Installing Debian {release} with {tool}."));
    let recipe = Recipe {
        image: String::new(),
        program: tool.into(),
        arguments: vec![
            "--variant=minbase".to_owned(),
            format!("--include={PACKAGES}"),
            release,
            Recipe::ROOT.to_owned(),
        ],
        files: Vec::new(),
    };
    Ok(brand::bootstrap::run(
        &recipe,
        root,
        &mut std::io::sink(),
        progress,
    )?)
}

/// Returns the code name of the host's Debian release; `None` if the host is not Debian.
fn release() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let value = |name: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name))?;
        Some(value.trim_matches('"').to_owned())
    };
    (value("ID=")? == "debian").then(|| value("VERSION_CODENAME="))?
}

/// Removes the folder in which a guest's root was collected. No file system may be mounted in this
/// folder: an earlier release let mmdebstrap and debootstrap mount /proc there.
fn remove_work(work: &Path) -> Result<(), AnyError> {
    match storage::remove_tree(work) {
        Err(storage::Error::Busy { mounted, .. }) => Err(format!(
            "{} is mounted: unmount it and uninstall the zone",
            mounted.display()
        )
        .into()),
        other => Ok(other?),
    }
}

/// Refuses disk files that exist already in the zonepath. This install did not make these files, so
/// an undo must not delete them.
pub fn refuse_there(host: &Host, config: &Config, zonepath: &Path) -> Result<(), AnyError> {
    let own = disks::places(host, config).into_iter();
    let there = own
        .filter(|place| is_own(place, zonepath))
        .map(|place| place.path)
        .find(|path| path.symlink_metadata().is_ok());
    match there {
        None => Ok(()),
        Some(path) => Err(format!(
            "{} is there already: move it away, or give it to install (-a)",
            path.display()
        )
        .into()),
    }
}

/// Adds an undo step that removes all files that [`make`] or the making of a clone has written.
pub fn undo(host: &Host, config: &Config, zonepath: &Path, undo: &mut UndoStack) {
    let (host, config, path) = (host.clone(), config.clone(), zonepath.to_owned());
    undo.push("make the machine", move || remove(&host, &config, &path));
}

/// Removes the files of a kernel zone from the zonepath. Missing files are no error.
pub fn remove(host: &Host, config: &Config, zonepath: &Path) -> Result<(), AnyError> {
    remove_work(&zonepath.join(WORK))?;
    crate::kept::destroy_all(zonepath)?;
    let mut paths: Vec<PathBuf> = disks::places(host, config)
        .into_iter()
        .filter(|place| is_own(place, zonepath))
        .map(|place| place.path)
        .collect();
    // This also removes files of disks that are no longer configured, and files of a clone whose
    // making was killed.
    for entry in fs::read_dir(zonepath).into_iter().flatten() {
        let name = entry?.file_name();
        if name.to_str().is_some_and(is_ours) {
            paths.push(zonepath.join(name));
        }
    }
    if let Ok(record) = Record::load(zonepath) {
        paths.extend(record.files().map(|name| zonepath.join(name)));
    }
    // An image outside the zonepath stays, but it cannot be opened without the key.
    if let Some(image) = image::path(host, config).filter(|path| path.starts_with(zonepath)) {
        image::remove(&image)?;
    }
    paths.push(image::own_key_path(zonepath));
    paths.push(zonepath.join(uefi::FILE));
    paths.push(zonepath.join(crate::seed::FILE));
    // The record is removed last, because it lists the files.
    paths.push(zonepath.join(FILE));
    for path in paths {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(named(&path, &error)),
            _ => {}
        }
    }
    Ok(())
}

/// Prefixes of file names in the zonepath: [`BASE`] for the base files of a disk, [`TOP`] for the
/// overlay that the guest writes to.
pub(crate) const BASE: &str = "base-";
pub(crate) const TOP: &str = "top-";

pub(crate) fn is_ours(name: &str) -> bool {
    let id = name.strip_prefix(BASE).or_else(|| name.strip_prefix(TOP));
    id.is_some_and(|id| id.parse::<model::Uuid>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_told_from_disks() {
        let dir = tempfile::tempdir().unwrap();
        let mut tar = [0; 1024];
        tar[257..262].copy_from_slice(b"ustar");
        let mut disk = [0; 1024];
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        for (name, content, archive, bootable) in [
            ("tar", &tar[..], true, false),
            ("gz", b"\x1f\x8b", true, false),
            ("disk", &disk, false, true),
            ("zeros", &[0; 1024], false, false),
            ("empty", b"", false, false),
        ] {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            let mut file = File::open(&path).unwrap();
            assert_eq!(is_archive(&mut file).unwrap(), archive, "{name}");
            assert_eq!(is_bootable(&file).unwrap(), bootable, "{name}");
        }
    }

    #[test]
    fn copies_keep_holes_and_content() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let source = create(&from).unwrap();
        source.set_len(64 << 20).unwrap();
        source.write_all_at(b"begin", 0).unwrap();
        source.write_all_at(b"middle", 33 << 20).unwrap();
        let target = create(&to).unwrap();
        copy_all(&source, &target).unwrap();
        target.set_len(64 << 20).unwrap();
        assert_eq!(fs::read(&from).unwrap(), fs::read(&to).unwrap());
        assert!(target.metadata().unwrap().blocks() * 512 < 8 << 20);
    }

    #[test]
    fn only_disk_files_of_zones_are_removed() {
        assert!(is_ours("base-5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10"));
        assert!(is_ours("top-5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10"));
        assert!(!is_ours("base-of-mine") && !is_ours("root") && !is_ours("top-"));
    }
}
