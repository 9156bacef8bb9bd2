//! Fills roots from outside sources: an archive, a directory, or the layers of an image.
//!
//! The source is hostile. Every member is created by its own name below the root
//! ([`Tree`]: no `..`, and no link is ever followed). Device nodes and sockets
//! are not created. Only those extended attributes are kept that have the same meaning in a zone.
//!
//! | file | holds |
//! |---|---|
//! | [`decompress`] | files as plain streams |
//! | [`archive`], [`cpio`], [`squashfs`] | the formats: reading members |
//! | [`btrfs`] | streams of `btrfs send` |
//! | [`zfs`] | streams of `zfs send`, which are received elsewhere |
//! | [`member`] | the handling of a member |
//! | [`content`] | which extended attributes a root or a layer may have |
//! | [`limits`] | how much a source may hold |
//! | [`printable`] | names and messages of a source, fit to be printed |
//! | [`layer`] | the differences where layers lie below |
//! | [`directory`] | a directory of the host instead, or a container of LXC |
//! | [`container`] | archives that hold container images |
//! | [`init`] | the command of such an image, for the zone's init |
//! | [`screen`] | the same rules for a tree that another program has written |
//! | [`source`] | the options that name one |
//! | [`unpack()`] | a root that is being populated: limits, and skipped members |

mod archive;
mod btrfs;
pub mod container;
mod content;
mod cpio;
mod decompress;
mod directory;
pub mod init;
mod layer;
mod limits;
mod member;
pub mod pack;
mod printable;
mod screen;
mod source;
mod squashfs;
mod unpack;
mod zfs;

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use oci::Digest;

use crate::install::{Error, InstallRequest, Installed};
use crate::tree::Tree;

pub use archive::first_member;
pub use content::Content;
use decompress::Stream;
pub use limits::{LIMITS, Limits};
use printable::shown;
pub use screen::{Screened, screen};
pub use source::{Options, Source};
pub use squashfs::is_supported as is_supported_squashfs;
use unpack::{Extent, Unpack};
pub use zfs::ZfsStream;

/// Populates the root from a source.
pub fn install(request: &mut InstallRequest<'_>, source: &Source) -> Result<Installed, Error> {
    install_within(request.root, source, LIMITS, request.progress)
}

/// Fills an empty folder from a source, as an install fills a zone's root.
///
/// # Errors
/// Fails with [`Error::Member`] or [`Error::Source`] if the content is not acceptable. The folder
/// then holds an unfinished tree.
pub fn unpack(
    root: &Path,
    source: &Source,
    progress: &mut dyn FnMut(&str),
) -> Result<Installed, Error> {
    install_within(root, source, LIMITS, progress)
}

/// Fills an empty folder as [`unpack()`] does, from a source that may not exceed these limits.
///
/// # Errors
/// Fails like [`unpack()`].
pub fn unpack_within(root: &Path, source: &Source, limits: Limits) -> Result<Installed, Error> {
    install_within(root, source, limits, &mut |_| {})
}

/// Does the same as [`unpack()`] for the own part of a sparse zone, which need not look like a
/// complete root.
///
/// # Errors
/// Fails like [`unpack()`].
pub fn unpack_part(
    root: &Path,
    source: &Source,
    progress: &mut dyn FnMut(&str),
) -> Result<Installed, Error> {
    install_as(root, source, LIMITS, Extent::Part, progress)
}

/// Unpacks a stream of [`pack::Pack`] into a folder that may have content. A file replaces a file
/// of the same name.
///
/// # Errors
/// Fails with [`Error::Member`] or [`Error::Source`] if the content is not acceptable.
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

/// Removes names from a folder into which streams are unpacked. The files in a folder are removed
/// before the folder.
///
/// # Errors
/// Fails with [`Error::Member`] for a name that leads outside the folder or cannot be removed.
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

/// Fills an empty folder with a layer of a container image, for an overlay on `lowers`, the
/// uppermost first. The layer is a tar archive at the beginning of `file`. Returns the digest of
/// the uncompressed archive.
///
/// # Errors
/// Fails like [`unpack()`].
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

/// Unpacks an archive. Recognises its format by its content, not by its name.
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

/// Formats that are often mistaken for archives of files: the offset of their mark, the mark, and
/// the remedy.
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

#[cfg(test)]
mod tests;
