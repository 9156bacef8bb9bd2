//! Packs files and folders of a root into a stream.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CString, OsStr};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::header::{Kind, Member};
use crate::unpack::Existing;
use crate::write::Writer;
use crate::{Attributes, Done, Error, MAX_DEPTH, Problem, Rules, name, sparse};

/// Maximum number of files with several names that are remembered at a time. The names of further
/// ones become files of their own.
const MAX_LINKED_FILES: usize = 200_000;

/// Maximum size of an attribute, and of the list of the names of attributes, in bytes
/// (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const MAX_XATTR_BYTES: usize = 65_536;

/// Maximum size of all attributes of a file that are copied, in bytes: less than a reader accepts.
const MAX_XATTRS_BYTES: usize = 512 << 10;

/// Size of a piece of content that is copied at once, in bytes.
const COPY_BYTES: usize = 128 << 10;

/// Packs `sources`, absolute paths in `root`, into a stream. Passes each file that cannot be copied
/// to `report`, and continues. Also ends the stream in order after a path of the caller that does
/// not exist.
///
/// # Errors
/// Fails with [`Error::Closed`] if the reader of the stream has ended.
pub fn pack<W: Write>(
    root: BorrowedFd<'_>,
    sources: &[PathBuf],
    to: W,
    report: &mut dyn FnMut(&Problem),
) -> Result<Done, Error> {
    let mut pack = Pack::new(to, Attributes::User, report);
    for source in sources {
        pack.source(root, source)?;
    }
    pack.finish()
}

/// Packs the paths of a restoration as [`pack`] does, but with their whole names. The folders above
/// them are members, too. No link in a path is followed.
///
/// # Errors
/// Fails with [`Error::Closed`] if the reader of the stream has ended.
pub fn pack_for<W: Write>(
    rules: &Rules,
    root: BorrowedFd<'_>,
    to: W,
    report: &mut dyn FnMut(&Problem),
) -> Result<Done, Error> {
    let mut pack = Pack::new(to, Attributes::Own, report);
    let restore = rules.restore.as_ref();
    // A name that exists may be kept, and is then another file.
    pack.has_links = restore.is_none_or(|restore| restore.existing == Existing::Replace);
    let mut above = BTreeSet::new();
    let paths = restore.map_or(&[][..], |restore| &restore.paths);
    for (n, path) in paths.iter().enumerate() {
        // A file that came twice would lose its other names.
        let mut others = paths.iter().enumerate();
        if !others.any(|(m, other)| path.starts_with(other) && (m < n || other != path)) {
            pack.whole(root, path, &mut above)?;
        }
    }
    pack.finish()
}

struct Pack<'a, W> {
    to: Writer<W>,
    /// The first name of each file with several names, and the number of names that are left.
    links: HashMap<(u64, u64), (Vec<u8>, u64)>,
    /// True if further names of a file refer to the first one.
    has_links: bool,
    attributes: Attributes,
    done: Done,
    report: &'a mut dyn FnMut(&Problem),
    buffer: Vec<u8>,
}

/// A folder that is being packed.
struct Level {
    entries: Dir,
    name: Vec<u8>,
}

impl<'a, W: Write> Pack<'a, W> {
    fn new(to: W, attributes: Attributes, report: &'a mut dyn FnMut(&Problem)) -> Self {
        Self {
            to: Writer::new(to),
            links: HashMap::new(),
            has_links: true,
            attributes,
            done: Done::default(),
            report,
            buffer: vec![0; COPY_BYTES],
        }
    }

    fn finish(self) -> Result<Done, Error> {
        self.to.finish().map_err(closed)?;
        Ok(self.done)
    }

    /// Packs a file or folder with its whole name, after the folders above it, which `above` then
    /// contains.
    fn whole(
        &mut self,
        root: BorrowedFd<'_>,
        path: &Path,
        above: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), Error> {
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        let names: Vec<&OsStr> = names.collect();
        let Some((last, folders)) = names.split_last() else {
            self.fail(path, Errno::INVAL);
            return Ok(());
        };
        let mut parent = match root.try_clone_to_owned() {
            Ok(parent) => parent,
            Err(error) => return Err(Error::Io(error)),
        };
        let (mut name, mut shown) = (Vec::new(), PathBuf::from("/"));
        for folder in folders {
            push(&mut name, folder);
            shown.push(folder);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            parent = match openat(&parent, *folder, flags, Mode::empty()) {
                Ok(parent) => parent,
                Err(errno) => {
                    self.fail(&shown, errno);
                    return Ok(());
                }
            };
            if above.insert(name.clone()) {
                self.folder(parent.as_fd(), OsStr::new("."), name.clone(), &shown)?;
            }
        }
        push(&mut name, last);
        above.insert(name.clone());
        self.tree(parent.as_fd(), last, name, path)
    }

    fn source(&mut self, root: BorrowedFd<'_>, path: &Path) -> Result<(), Error> {
        let name = name::of_source(path).to_vec();
        let bytes = path.as_os_str().as_bytes();
        // A path that ends in a slash or dot names the folder behind a link.
        let opened = match name == b"." || bytes.ends_with(b"/") {
            true => sys::root::open(root, path, OFlags::PATH | OFlags::DIRECTORY)
                .map(|folder| (folder, OsStr::new("."))),
            false => {
                let parent = path.parent().unwrap_or(path);
                sys::root::open(root, parent, OFlags::PATH | OFlags::DIRECTORY)
                    .map(|folder| (folder, path.file_name().unwrap_or_default()))
            }
        };
        match opened {
            Ok((folder, entry)) => self.tree(folder.as_fd(), entry, name, path),
            Err(errno) => {
                self.fail(path, errno);
                Ok(())
            }
        }
    }

    /// Packs a file, or a folder with all of its content. `path` is for messages.
    fn tree(
        &mut self,
        parent: BorrowedFd<'_>,
        entry: &OsStr,
        name: Vec<u8>,
        path: &Path,
    ) -> Result<(), Error> {
        let (top, base) = (name.len(), path.to_owned());
        let shown = |name: &[u8]| match name.get(top + 1..) {
            Some(inner) => base.join(OsStr::from_bytes(inner)),
            None => base.clone(),
        };
        let mut levels: Vec<Level> = Vec::new();
        if let Some(level) = self.entry(parent, entry, name, &shown)? {
            levels.push(level);
        }
        while let Some(level) = levels.last_mut() {
            let next = match level.entries.read() {
                None => {
                    levels.pop();
                    continue;
                }
                Some(Err(errno)) => {
                    let path = shown(&level.name);
                    levels.pop();
                    self.fail(&path, errno);
                    continue;
                }
                Some(Ok(next)) => next,
            };
            let file = next.file_name().to_bytes();
            if matches!(file, b"." | b"..") {
                continue;
            }
            let name = [&level.name, file].join(&b'/');
            if levels.len() > MAX_DEPTH {
                self.tell(&shown(&name), "is too deep in folders: not copied");
                continue;
            }
            let Some(level) = levels.last() else { break };
            let parent = match level.entries.fd() {
                Ok(parent) => parent,
                Err(errno) => return Err(Error::Io(errno.into())),
            };
            if let Some(level) = self.entry(parent, OsStr::from_bytes(file), name, &shown)? {
                levels.push(level);
            }
        }
        Ok(())
    }

    /// Packs one entry. Returns the folder to continue with if the entry is a folder.
    fn entry(
        &mut self,
        parent: BorrowedFd<'_>,
        entry: &OsStr,
        name: Vec<u8>,
        shown: &dyn Fn(&[u8]) -> PathBuf,
    ) -> Result<Option<Level>, Error> {
        let path = shown(&name);
        let stat = match statat(parent, entry, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(errno) => {
                self.fail(&path, errno);
                return Ok(None);
            }
        };
        let word = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                self.regular(parent, entry, name, &stat, &path)?;
                return Ok(None);
            }
            FileType::Directory => return self.folder(parent, entry, name, &path),
            FileType::Symlink => {
                match readlinkat(parent, entry, Vec::new()) {
                    Ok(target) => {
                        let kind = Kind::Symlink(CString::into_bytes(target));
                        self.header(&member(name, kind, &stat))?;
                    }
                    Err(errno) => self.fail(&path, errno),
                }
                return Ok(None);
            }
            FileType::Fifo => "a FIFO",
            FileType::Socket => "a socket",
            _ => "a device node",
        };
        self.tell(&path, &format!("is {word}: not copied"));
        Ok(None)
    }

    fn folder(
        &mut self,
        parent: BorrowedFd<'_>,
        entry: &OsStr,
        name: Vec<u8>,
        path: &Path,
    ) -> Result<Option<Level>, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(parent, entry, flags, Mode::empty()).and_then(|folder| {
            let stat = fstat(&folder)?;
            let mut member = member(name.clone(), Kind::Folder, &stat);
            member.xattrs = xattrs(&folder, self.attributes)?;
            Ok((Dir::new(folder)?, member))
        });
        match opened {
            Ok((entries, member)) => {
                self.header(&member)?;
                Ok(Some(Level { entries, name }))
            }
            Err(errno) => {
                self.fail(path, errno);
                Ok(None)
            }
        }
    }

    fn regular(
        &mut self,
        parent: BorrowedFd<'_>,
        entry: &OsStr,
        name: Vec<u8>,
        listed: &Stat,
        path: &Path,
    ) -> Result<(), Error> {
        if let Some(first) = self.first_name(listed) {
            return self.header(&member(name, Kind::HardLink(first), listed));
        }
        let opened = open_listed(parent, entry, listed).and_then(|opened| match opened {
            Some((file, stat)) => {
                let mut member = member(name.clone(), Kind::File, &stat);
                member.xattrs = xattrs(&file, self.attributes)?;
                member.size = u64::try_from(stat.st_size).unwrap_or(0);
                member.pieces = sparse::pieces(&file, &stat)?;
                Ok(Some((file, member)))
            }
            None => Ok(None),
        });
        let (file, member) = match opened {
            Ok(Some(opened)) => opened,
            Ok(None) => {
                self.tell(path, "was replaced during the copy: not copied");
                return Ok(());
            }
            Err(errno) => {
                self.fail(path, errno);
                return Ok(());
            }
        };
        let map = self.to.member(&member).map_err(closed)?;
        self.done.members += 1;
        let whole = [(0, member.size)];
        let mut sum = map;
        for &(offset, length) in member.pieces.as_deref().unwrap_or(&whole) {
            self.content(&file, offset, length, path)?;
            sum += length;
        }
        self.to.pad(sum).map_err(closed)?;
        if self.has_links && listed.st_nlink > 1 && self.links.len() < MAX_LINKED_FILES {
            let number = (listed.st_dev, listed.st_ino);
            // The type of the count depends on the processor.
            #[allow(clippy::useless_conversion)]
            let others = u64::from(listed.st_nlink) - 1;
            self.links.insert(number, (name, others));
        }
        Ok(())
    }

    /// Returns the name under which a file is in the stream already.
    fn first_name(&mut self, stat: &Stat) -> Option<Vec<u8>> {
        if stat.st_nlink < 2 || !self.has_links {
            return None;
        }
        let number = (stat.st_dev, stat.st_ino);
        let (first, left) = self.links.get_mut(&number)?;
        let first = first.clone();
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.links.remove(&number);
        }
        Some(first)
    }

    /// Writes exactly `length` bytes of a file, which may grow or shrink meanwhile.
    fn content(
        &mut self,
        file: &OwnedFd,
        offset: u64,
        length: u64,
        path: &Path,
    ) -> Result<(), Error> {
        let (mut at, end) = (offset, offset.saturating_add(length));
        let mut problem = None;
        while at < end {
            let most = usize::try_from(end - at)
                .unwrap_or(usize::MAX)
                .min(COPY_BYTES);
            let read = match problem {
                None => rustix::io::retry_on_intr(|| {
                    rustix::io::pread(file, &mut self.buffer[..most], at)
                }),
                Some(_) => Ok(0),
            };
            let filled = match read {
                Ok(0) => {
                    problem.get_or_insert_with(|| {
                        "shrank during the copy: its end is zeros".to_owned()
                    });
                    self.buffer[..most].fill(0);
                    most
                }
                Ok(filled) => filled,
                Err(errno) => {
                    let why = io::Error::from(errno);
                    problem = Some(format!("{why}: its rest is zeros"));
                    continue;
                }
            };
            self.to.content(&self.buffer[..filled]).map_err(closed)?;
            at += filled as u64;
        }
        if let Some(why) = problem {
            self.tell(path, &why);
        }
        Ok(())
    }

    fn header(&mut self, member: &Member) -> Result<(), Error> {
        self.to.member(member).map_err(closed)?;
        self.done.members += 1;
        Ok(())
    }

    fn fail(&mut self, path: &Path, errno: Errno) {
        self.tell(path, &io::Error::from(errno).to_string());
    }

    fn tell(&mut self, path: &Path, why: &str) {
        self.done.problems += 1;
        (self.report)(&Problem {
            name: name::shown(path),
            why: why.to_owned(),
        });
    }
}

fn member(name: Vec<u8>, kind: Kind, stat: &Stat) -> Member {
    Member {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: (
            stat.st_mtime,
            u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        ),
        ..Member::new(name, kind)
    }
}

/// Opens the regular file that was listed. Returns `None` if another file has its name now. The
/// open never waits, and never opens a device: a device could get the name only from a process
/// that can make devices.
fn open_listed(
    parent: BorrowedFd<'_>,
    entry: &OsStr,
    listed: &Stat,
) -> Result<Option<(OwnedFd, Stat)>, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(parent, entry, flags, Mode::empty()) {
        // A link, or a socket.
        Err(Errno::LOOP | Errno::NXIO) => return Ok(None),
        other => other?,
    };
    let stat = fstat(&file)?;
    let same = (stat.st_dev, stat.st_ino) == (listed.st_dev, listed.st_ino);
    Ok((same && FileType::from_raw_mode(stat.st_mode).is_file()).then_some((file, stat)))
}

fn push(name: &mut Vec<u8>, part: &OsStr) {
    if !name.is_empty() {
        name.push(b'/');
    }
    name.extend(part.as_bytes());
}

/// Returns the attributes of a file that are copied.
fn xattrs(file: impl AsFd, attributes: Attributes) -> Result<Vec<(String, Vec<u8>)>, Errno> {
    let mut names = vec![0; MAX_XATTR_BYTES];
    let length = match rustix::fs::flistxattr(&file, names.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    };
    names.truncate(length);
    let (mut list, mut sum) = (Vec::new(), 0);
    for name in names.split(|&byte| byte == 0) {
        let Ok(text) = std::str::from_utf8(name) else {
            continue;
        };
        // A record of pax cannot hold a name with an equals sign.
        if !attributes.admits(text) || text.contains('=') {
            continue;
        }
        let mut value = vec![0; MAX_XATTR_BYTES];
        match rustix::fs::fgetxattr(&file, text, value.as_mut_slice()) {
            Ok(length) => value.truncate(length),
            // The attribute was removed after it was listed.
            Err(Errno::NODATA) => continue,
            Err(errno) => return Err(errno),
        }
        sum += text.len() + value.len();
        if sum > MAX_XATTRS_BYTES {
            return Err(Errno::TOOBIG);
        }
        list.push((text.to_owned(), value));
    }
    Ok(list)
}

fn closed(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Error::Closed,
        _ => Error::Io(error),
    }
}
