//! Roots that come from outside: an archive, a directory, the layers of an image.
//!
//! The source is hostile. Every member is made by its own name below the root
//! ([`Tree`](crate::tree::Tree): no `..`, no link is ever followed), device
//! nodes and sockets are not made, and of the extended attributes only those
//! pass that mean the same in a zone.
//!
//! | file | holds |
//! |---|---|
//! | [`decompress`] | files as plain streams |
//! | [`archive`], [`cpio`], [`squashfs`] | the formats: what a member is |
//! | [`btrfs`] | streams of `btrfs send` |
//! | [`zfs`] | streams of `zfs send`, which are received elsewhere |
//! | [`member`] | what becomes of it |
//! | [`layer`] | what is different where layers lie below |
//! | [`directory`] | a directory of the host instead, or a container of LXC |
//! | [`container`] | archives that hold container images |
//! | [`init`] | what such an image runs, as the zone's init has it |

mod archive;
mod btrfs;
pub mod container;
mod cpio;
mod decompress;
mod directory;
pub mod init;
mod layer;
mod member;
pub mod pack;
mod squashfs;
mod zfs;

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use oci::Digest;
use rustix::fs::{FileType, XattrFlags};
use rustix::io::Errno;

use crate::install::{Error, InstallRequest, Installed, check_empty};
use crate::tree::{Meta, Tree, is};

pub use archive::first_member;
use decompress::Stream;
pub use zfs::ZfsStream;

/// What a source may not exceed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Members, of all kinds.
    pub members: u64,
    /// Bytes in regular files.
    pub bytes: u64,
    /// Bytes in the name of a member.
    pub path: usize,
}

/// Far above any distribution, far below what would fill a file system's inodes
/// or run for days.
pub const LIMITS: Limits = Limits {
    members: 20_000_000,
    bytes: 1 << 40,
    path: 4096,
};

/// Owner ids above this have no place in a zone's range.
const MAX_ID: u32 = 65_535;

/// Where a root comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A tar archive, plain or compressed.
    Archive(PathBuf),
    /// A directory of the host.
    Directory(PathBuf),
}

/// The brand options of an install.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-a` or `-d`.
    pub source: Option<Source>,
}

impl Options {
    /// Reads the options. `-u`, `-s` and `-v` are taken for the sake of Solaris'
    /// scripts: the identity is always made anew, and what is printed is the
    /// caller's business.
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let (flag, attached) = match word.split_at_checked(2) {
                Some((flag, rest)) if flag.starts_with('-') && !flag.starts_with("--") => {
                    (flag, Some(rest).filter(|rest| !rest.is_empty()))
                }
                _ => return Err(Error::Usage(format!("invalid option: {word}"))),
            };
            let make = match flag {
                "-a" => Source::Archive,
                "-d" => Source::Directory,
                "-u" | "-s" | "-v" if attached.is_none() => continue,
                "-p" => {
                    return Err(Error::Usage(
                        "-p: a zone does not take over the identity of its source".to_owned(),
                    ));
                }
                _ => return Err(Error::Usage(format!("invalid option: {word}"))),
            };
            let path = attached
                .or_else(|| words.next())
                .ok_or_else(|| Error::Usage(format!("option requires an argument: {flag}")))?;
            if !Path::new(path).is_absolute() {
                return Err(Error::Usage(format!("{flag} {path}: not an absolute path")));
            }
            if options.source.replace(make(path.into())).is_some() {
                return Err(Error::Usage("give one of -a and -d, once".to_owned()));
            }
        }
        Ok(options)
    }
}

/// How often those who wait are told how far it is.
const TICK: Duration = Duration::from_secs(2);

/// Populates the root from a source.
pub fn install(request: &mut InstallRequest<'_>, source: &Source) -> Result<Installed, Error> {
    install_within(request.root, source, LIMITS, request.progress)
}

/// Populates an empty folder from a source, as an install does a zone's root.
///
/// # Errors
/// [`Error::Member`] and [`Error::Source`] for what is not acceptable; the folder then
/// holds an unfinished tree.
pub fn unpack(
    root: &Path,
    source: &Source,
    progress: &mut dyn FnMut(&str),
) -> Result<Installed, Error> {
    install_within(root, source, LIMITS, progress)
}

/// [`unpack`] for the own part of a sparse zone, which need not look like a whole root.
///
/// # Errors
/// See [`unpack`].
pub fn unpack_part(
    root: &Path,
    source: &Source,
    progress: &mut dyn FnMut(&str),
) -> Result<Installed, Error> {
    install_as(root, source, LIMITS, Extent::Part, progress)
}

/// What a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A root, from anybody.
    Root,
    /// A layer or top of a zone, from another host's root: with the whiteouts, and the
    /// marks of overlay that say which folders hide or move what is below.
    Layer,
}

impl Content {
    /// Whether an extended attribute is part of it.
    #[must_use]
    pub fn keeps(self, name: &str, value: &[u8]) -> bool {
        match self {
            Self::Root => is_allowed_attribute(name),
            Self::Layer => match name {
                "trusted.overlay.opaque" => matches!(value, b"y" | b"x"),
                "trusted.overlay.redirect" => is_redirect(value),
                "system.posix_acl_access" | "system.posix_acl_default" => true,
                name => is_allowed_attribute(name),
            },
        }
    }
}

/// The former place of a folder: a path from the root of the layers, or a name.
fn is_redirect(value: &[u8]) -> bool {
    let path = value.strip_suffix(b"\0").unwrap_or(value);
    let (path, whole) = match path.strip_prefix(b"/") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let mut parts = path.split(|&byte| byte == b'/');
    let legal = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
    let count = path.split(|&byte| byte == b'/').count();
    value.len() <= 4096 && parts.all(legal) && (whole || count == 1)
}

/// Puts what a stream of [`pack::Pack`] holds into a folder, over what is there: a file
/// takes the place of one of the same name.
///
/// # Errors
/// [`Error::Member`] and [`Error::Source`] for what is not acceptable.
pub fn unpack_stream(
    root: &Path,
    stream: impl std::io::Read,
    content: Content,
    origin: &Path,
) -> Result<Installed, Error> {
    let mut quiet = |_: &str| {};
    let mut unpack = Unpack::over(Tree::open(root)?, root, origin, LIMITS, &mut quiet)?;
    unpack.content = content;
    archive::unpack_stream(&mut unpack, stream)?;
    unpack.settle()?;
    Ok(unpack.done)
}

/// Removes names from a folder that streams are unpacked into, those in a folder before
/// the folder.
///
/// # Errors
/// [`Error::Member`] for a name that leads out, or cannot be removed.
pub fn remove_from(
    root: &Path,
    names: impl Iterator<Item = PathBuf>,
    origin: &Path,
) -> Result<(), Error> {
    let tree = Tree::open(root)?;
    for name in names {
        let plain = name
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !plain || name.as_os_str().is_empty() {
            return Err(Error::Member {
                origin: origin.to_owned(),
                member: shown(&name),
                problem: "not a name in the root".to_owned(),
            });
        }
        tree.remove_any(&name)?;
    }
    Ok(())
}

/// How much of a root a source holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Whole,
    Part,
}

/// Populates an empty folder with a layer of a container image, a tar archive at the
/// beginning of `file`, for an overlay on `lowers`, the uppermost first. Says what the
/// digest of the archive is, without its compression.
///
/// # Errors
/// As [`unpack`].
pub fn unpack_layer(
    root: &Path,
    lowers: &[PathBuf],
    file: File,
    origin: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<(Installed, Digest), Error> {
    layer_within(root, lowers, file, origin, LIMITS, progress)
}

fn layer_within(
    root: &Path,
    lowers: &[PathBuf],
    file: File,
    origin: &Path,
    limits: Limits,
    progress: &mut dyn FnMut(&str),
) -> Result<(Installed, Digest), Error> {
    let mut unpack = Unpack::new(root, origin, limits, progress)?;
    unpack.layer = true;
    let lowers = lowers.iter().map(|lower| Tree::open(lower));
    unpack.lowers = lowers.collect::<Result<_, _>>()?;
    let stream = Stream::of(file).map_err(|error| Error::io("read", origin, error))?;
    archive::unpack(&mut unpack, stream.hashed())?;
    unpack.settle()?;
    let digest = unpack.digest;
    let digest = digest.ok_or_else(|| unpack.refuse("the end of the archive is missing"))?;
    unpack.tell();
    Ok((unpack.done, digest))
}

fn install_within(
    root: &Path,
    source: &Source,
    limits: Limits,
    progress: &mut dyn FnMut(&str),
) -> Result<Installed, Error> {
    install_as(root, source, limits, Extent::Whole, progress)
}

fn install_as(
    root: &Path,
    source: &Source,
    limits: Limits,
    extent: Extent,
    progress: &mut dyn FnMut(&str),
) -> Result<Installed, Error> {
    let (Source::Archive(origin) | Source::Directory(origin)) = source;
    let mut unpack = Unpack::new(root, origin, limits, progress)?;
    let shown = origin.display();
    match source {
        Source::Archive(path) => {
            (unpack.progress)(&format!("Unpacking {shown}."));
            any_archive(&mut unpack, path)?;
        }
        Source::Directory(path) if directory::is_lxc(path) => {
            let root = path.join("rootfs");
            (unpack.progress)(&format!(
                "Copying {}, the root of an LXC container.",
                root.display()
            ));
            unpack.shift = directory::shift(path)?;
            directory::copy(&mut unpack, &root)?;
            (unpack.progress)(&format!(
                "zonep2vchk -c -f {} translates its configuration.",
                path.join("config").display()
            ));
        }
        Source::Directory(path) => {
            (unpack.progress)(&format!("Copying {shown}."));
            directory::copy(&mut unpack, path)?;
        }
    }
    unpack.settle()?;
    unpack.finish(extent)
}

/// Unpacks an archive by what it is, not by what it is called.
fn any_archive(unpack: &mut Unpack<'_>, path: &Path) -> Result<(), Error> {
    let fail = |error| Error::io("open", path, error);
    let mut stream = Stream::open(path).map_err(fail)?;
    let begin = stream.begin();
    let begin = begin.map_err(|error| unpack.refuse(error.to_string()))?;
    if begin.starts_with(squashfs::MAGIC) {
        return squashfs::unpack(unpack, path);
    }
    if cpio::is_cpio(begin) {
        return cpio::unpack(unpack, stream);
    }
    if begin.starts_with(btrfs::MAGIC) {
        return btrfs::unpack(unpack, stream);
    }
    let known = OTHERS
        .iter()
        .find(|(at, magic, _)| begin.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    if let Some((_, _, problem)) = known {
        return Err(unpack.refuse(*problem));
    }
    let first = begin.get(..100).unwrap_or_default();
    let first = first.split(|byte| *byte == 0).next().unwrap_or_default();
    unpack.prefix = match first {
        b"backup" | b"backup/" | b"backup/index.yaml" => Some("backup/container/rootfs"),
        b"metadata.yaml" => Some("rootfs"),
        _ => None,
    };
    if let Some(prefix) = unpack.prefix {
        (unpack.progress)(&format!(
            "An export of Incus: the root in {prefix} is taken; zonep2vchk -c -f translates its \
             backup.yaml."
        ));
    }
    archive::unpack(unpack, stream)
}

/// What is no archive of files but is often taken for one: where its mark stands, the
/// mark, and what to do.
const OTHERS: &[(usize, &[u8], &str)] = &[
    (
        0,
        b"PK\x03\x04",
        "a zip archive: it has no owners and no links; pack it with tar",
    ),
    (
        0,
        b"!<arch>",
        "a Debian package or an archive of ar, no root",
    ),
    (0, b"\xed\xab\xee\xdb", "an RPM package, no root"),
    (
        0,
        b"QFI\xfb",
        "the disk of a virtual machine (qcow2), no archive",
    ),
    (0, b"\x7fELF", "a program, no archive"),
    (
        0,
        b"7z\xbc\xaf",
        "a 7z archive: it has no owners and no links; pack it with tar",
    ),
    (zfs::AT, zfs::MAGIC[0], zfs::REFUSED),
    (zfs::AT, zfs::MAGIC[1], zfs::REFUSED),
];

/// What was not made, by reason.
#[derive(Debug, Default)]
struct Skipped {
    devices: u64,
    sockets: u64,
    other: u64,
    mounts: u64,
    /// Made, but with owners that no zone has.
    foreign_owners: u64,
}

/// A root being populated from outside.
struct Unpack<'p> {
    root: Tree,
    /// The layers below, the uppermost first.
    lowers: Vec<Tree>,
    /// Whether it is a layer, whose names may hide others.
    layer: bool,
    content: Content,
    /// Whether only plain files with plain names are made, and nobody's but root's.
    plain: bool,
    /// Where in the archive the root is, when it is an export of another tool.
    prefix: Option<&'static str>,
    /// Where the users and groups of the source begin, when they are not its own.
    shift: (u32, u32),
    origin: PathBuf,
    limits: Limits,
    /// What is free where the root is, in bytes.
    free: u64,
    /// What of that was used.
    used: u64,
    done: Installed,
    members: u64,
    skipped: Skipped,
    /// Folders and their times, which are set last: making their content changes them.
    dirs: Vec<(PathBuf, u64)>,
    /// The digest of the archive, where it was asked for.
    digest: Option<Digest>,
    progress: &'p mut dyn FnMut(&str),
    ticked: Instant,
}

impl<'p> Unpack<'p> {
    fn new(
        root: &Path,
        origin: &Path,
        limits: Limits,
        progress: &'p mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let tree = Tree::open(root)?;
        check_empty(&tree)?;
        Self::over(tree, root, origin, limits, progress)
    }

    /// The same for a root with something in it.
    fn over(
        tree: Tree,
        root: &Path,
        origin: &Path,
        limits: Limits,
        progress: &'p mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let room = rustix::fs::statvfs(root).map_err(|errno| Error::io("look at", root, errno))?;
        Ok(Self {
            root: tree,
            lowers: Vec::new(),
            layer: false,
            content: Content::Root,
            plain: false,
            prefix: None,
            shift: (0, 0),
            origin: origin.to_owned(),
            limits,
            free: room.f_bavail.saturating_mul(room.f_frsize),
            used: 0,
            done: Installed::default(),
            members: 0,
            skipped: Skipped::default(),
            dirs: Vec::new(),
            digest: None,
            progress,
            ticked: Instant::now(),
        })
    }

    /// Counts a member and checks its name; gives the name below the root, which
    /// is empty for the root itself.
    fn admit(&mut self, name: &Path) -> Result<PathBuf, Error> {
        self.members += 1;
        self.tick();
        if self.members > self.limits.members {
            let limit = self.limits.members;
            return Err(self.refuse(format!("more than {limit} members")));
        }
        self.check_name(name)
    }

    /// Checks a name; gives it below the root.
    fn check_name(&self, name: &Path) -> Result<PathBuf, Error> {
        if name.as_os_str().len() > self.limits.path {
            let limit = self.limits.path;
            return Err(self.bad(name, format!("a name of more than {limit} bytes")));
        }
        let mut clean = PathBuf::new();
        for component in name.components() {
            match component {
                Component::Normal(part) => clean.push(part),
                Component::CurDir => {}
                Component::ParentDir => return Err(self.bad(name, "a name with '..'")),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(self.bad(name, "an absolute name"));
                }
            }
        }
        Ok(clean)
    }

    /// Refuses a file of so many bytes if that is more than there may be.
    fn check_bytes(&self, bytes: u64) -> Result<(), Error> {
        if self.done.bytes.saturating_add(bytes) > self.limits.bytes {
            let limit = self.limits.bytes;
            return Err(self.refuse(format!("more than {limit} bytes in files")));
        }
        Ok(())
    }

    /// Counts bytes of a file, and those of them that take space.
    fn count_bytes(&mut self, bytes: u64, used: u64) -> Result<(), Error> {
        self.check_bytes(bytes)?;
        self.done.bytes = self.done.bytes.saturating_add(bytes);
        self.used = self.used.saturating_add(used);
        if self.used > self.free {
            let free = self.free;
            return Err(self.refuse(format!("more than the {free} bytes that are free")));
        }
        self.tick();
        Ok(())
    }

    /// Says how far it is, when nothing was said for a while.
    fn tick(&mut self) {
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            let Installed { files, bytes, .. } = self.done;
            (self.progress)(&format!("  {files} files, {} MiB", bytes >> 20));
        }
    }

    /// Refuses an owner that a zone cannot have: outside of it the number is that of
    /// somebody else.
    fn check_owner(&self, member: &Path, meta: Meta) -> Result<(), Error> {
        let (uid, gid) = (meta.uid, meta.gid);
        if self.content == Content::Root && (uid > MAX_ID || gid > MAX_ID) {
            return Err(self.bad(
                member,
                format!("owner {uid}:{gid}; a zone has ids up to {MAX_ID}"),
            ));
        }
        Ok(())
    }

    /// Sets the times of folders.
    fn settle(&mut self) -> Result<(), Error> {
        for (name, seconds) in self.dirs.iter().rev() {
            // A later layer mark or member may have replaced it.
            let stat = self.root.stat(name)?;
            if stat.is_some_and(|stat| is(&stat, FileType::Directory)) {
                self.root.set_mtime(name, *seconds)?;
            }
        }
        Ok(())
    }

    fn count_owner(&mut self, uid: u32, gid: u32) {
        self.skipped.foreign_owners += u64::from(uid > MAX_ID || gid > MAX_ID);
    }

    fn bad(&self, member: &Path, problem: impl Into<String>) -> Error {
        Error::Member {
            origin: self.origin.clone(),
            member: shown(member),
            problem: harmless(&problem.into()),
        }
    }

    /// Names the member in what went wrong with it.
    fn blame<'m>(&self, member: &'m Path) -> impl Fn(Error) -> Error + 'm {
        let origin = self.origin.clone();
        move |error| match error {
            Error::Io { action, source, .. } => {
                let looped = source.raw_os_error() == Some(Errno::LOOP.raw_os_error());
                Error::Member {
                    origin: origin.clone(),
                    member: shown(member),
                    problem: if looped {
                        "its name goes through a symbolic link".to_owned()
                    } else {
                        format!("cannot {action} it: {source}")
                    },
                }
            }
            other => other,
        }
    }

    fn refuse(&self, problem: impl Into<String>) -> Error {
        Error::Source {
            origin: self.origin.clone(),
            problem: harmless(&problem.into()),
        }
    }

    /// Says what was skipped.
    fn tell(&mut self) {
        let Skipped {
            devices,
            sockets,
            other,
            mounts,
            foreign_owners,
        } = self.skipped;
        for (count, what) in [
            (
                devices,
                "device nodes: a zone's devices are made when it boots",
            ),
            (sockets, "sockets"),
            (other, "members of unknown kind"),
            (
                mounts,
                "directories on which something else is mounted: their content",
            ),
        ] {
            if count > 0 {
                (self.progress)(&format!("Left out {count} {what}."));
                self.done.left_out += count;
            }
        }
        if foreign_owners > 0 {
            (self.progress)(&format!(
                "{foreign_owners} files have owners above {MAX_ID}: nobody in the zone owns them."
            ));
        }
    }

    /// Says what was skipped, and checks that the result looks like a root.
    fn finish(mut self, extent: Extent) -> Result<Installed, Error> {
        self.tell();
        let is_dir = |name: &str| -> Result<bool, Error> {
            let stat = self.root.stat(Path::new(name))?;
            Ok(stat.is_some_and(|stat| is(&stat, FileType::Directory)))
        };
        if extent == Extent::Part || is_dir("usr")? || is_dir("bin")? {
            Ok(self.done)
        } else {
            Err(self.refuse("no root file system: it has neither usr nor bin"))
        }
    }
}

/// What a library says of an archive may have bytes of it in it: short, and without
/// terminal tricks.
fn harmless(problem: &str) -> String {
    problem
        .chars()
        .take(500)
        .map(|char| if char.is_control() { '?' } else { char })
        .collect()
}

/// The name of a member for messages: short, and without terminal tricks.
fn shown(member: &Path) -> String {
    let name = member.as_os_str().as_bytes();
    name[..name.len().min(200)].escape_ascii().to_string()
}

/// True for attributes that mean the same in a zone. Those of overlay would
/// change what the layers show; `security.*` but capabilities is the host's
/// business; ACLs and the rest are not carried.
fn is_allowed_attribute(name: &str) -> bool {
    name == "security.capability"
        || name
            .strip_prefix("user.")
            .is_some_and(|rest| rest != "overlay" && !rest.starts_with("overlay."))
}

/// Sets an attribute; a file system without them is no reason to fail.
fn set_attribute(file: impl AsFd, name: &str, value: &[u8]) -> rustix::io::Result<()> {
    match rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
