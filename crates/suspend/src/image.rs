//! An existing image: opens, claims, reads and consumes it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde_json::Value;
use sys::uring::Buffer;

use crate::format::{BLOCK, FormatError, HEADER, Header, TRAILER, Trailer};
use crate::index::{Entry, Gap, Index, StreamInfo};
use crate::key::{Cipher as _, Gcm, Purpose, nonce};
use crate::part::{is, is_still, sync_folder_of};
use crate::restore::Loading;
use crate::{Damage, Error, Key, differences, restore};

/// An image whose header, index and trailer are authentic. The chunks of the image are checked when
/// they are read.
pub struct Image {
    file: File,
    path: PathBuf,
    header: Header,
    trailer: Trailer,
    index: Index,
    order: Vec<u64>,
    cipher: Gcm,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image")
            .field("path", &self.path)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl AsFd for Image {
    /// The descriptor of the image's file, which holds the lock of [`claim`](Self::claim).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Image {
    /// Reads the header and the length of an image. This needs no key, and does not authenticate
    /// the image.
    ///
    /// # Errors
    /// Fails if the file is not an image, or is incomplete.
    pub fn look(path: &Path) -> Result<(Header, u64), Error> {
        let (_, header, trailer) = outside(path)?;
        Ok((header, trailer.file))
    }

    /// Opens an image, and authenticates its header, trailer and index with the key.
    ///
    /// # Errors
    /// Fails with an [`Error`]. [`Error::is_refusal`] returns true if the image is the reason.
    pub fn open(path: &Path, key: &Key) -> Result<Self, Error> {
        let (file, header, trailer) = outside(path)?;
        let refused = |_| Error::Key {
            path: path.to_owned(),
        };
        let own = header.unwrap_key(key).map_err(refused)?;
        let cipher = Gcm::new(&own).map_err(|_| Error::Crypto)?;
        let damaged = || Error::damaged(path, Damage::Index);
        trailer.check(&header, &cipher).map_err(|_| damaged())?;

        let length = usize::try_from(trailer.file - trailer.index).map_err(|_| damaged())?;
        let mut sealed = Buffer::new(length);
        read(&file, &mut sealed[..length], trailer.index).map_err(Error::file("read", path))?;
        let text = cipher
            .open(
                nonce(Purpose::Index, 0),
                &header.id,
                &mut sealed[..length - TRAILER],
            )
            .map_err(|_| damaged())?;
        let index = Index::parse(text, trailer.index).map_err(|_| damaged())?;
        let (order, gaps) = index.layout(trailer.index).map_err(|_| damaged())?;
        let image = Self {
            file,
            path: path.to_owned(),
            header,
            trailer,
            index,
            order,
            cipher,
        };
        gaps.iter().try_for_each(|gap| image.check_gap(gap))?;
        Ok(image)
    }

    /// Locks the image for the caller, until the caller drops the [`Image`].
    ///
    /// # Errors
    /// Fails with [`Error::Busy`] if another process has locked the image, or with [`Error::Gone`]
    /// if the image was consumed.
    pub fn claim(&self) -> Result<(), Error> {
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => self.must_be_there(),
            Err(Errno::WOULDBLOCK) => Err(Error::Busy {
                path: self.path.clone(),
            }),
            Err(error) => Err(Error::file("lock", &self.path)(error.into())),
        }
    }

    /// Removes the image. Afterwards no process can open the image again, not even after a power
    /// cut. Open images can still be read. Call this before the resumed guest runs.
    ///
    /// # Errors
    /// Fails with [`Error::Gone`] if the image no longer exists or was replaced. The guest must
    /// then not run.
    pub fn consume(&self) -> Result<(), Error> {
        self.must_be_there()?;
        fs::remove_file(&self.path).map_err(Error::file("remove", &self.path))?;
        sync_folder_of(&self.path)
    }

    fn must_be_there(&self) -> Result<(), Error> {
        match is_still(&self.file, &self.path) {
            true => Ok(()),
            false => Err(Error::Gone {
                path: self.path.clone(),
            }),
        }
    }

    /// Returns the facts stored in the image.
    #[must_use]
    pub const fn identity(&self) -> &Value {
        &self.index.identity
    }

    /// Compares the facts stored in the image with the present facts.
    ///
    /// # Errors
    /// Fails with [`Error::Differs`], which names each fact that changed.
    pub fn check_identity(&self, now: &Value) -> Result<(), Error> {
        let differences = differences(&self.index.identity, now);
        match differences.is_empty() {
            true => Ok(()),
            false => Err(Error::Differs {
                path: self.path.clone(),
                differences,
            }),
        }
    }

    /// Returns the bytes of a small stream.
    ///
    /// # Errors
    /// Fails like [`restore`](crate::restore()), or with [`Error::Request`] for a stream of more
    /// than 1 GiB.
    pub fn bytes_of(&self, name: &str) -> Result<Vec<u8>, Error> {
        let size = usize::try_from(self.stream(name)?.size).unwrap_or(usize::MAX);
        if size > 1 << 30 {
            return Err(Error::Request(
                "a stream of this size is not held in memory",
            ));
        }
        let target = Mutex::new(vec![0; size]);
        restore(self, name, &target, &Loading::default())?;
        Ok(target.into_inner().unwrap_or_default())
    }

    /// Returns the stream of this name.
    ///
    /// # Errors
    /// Fails with [`Error::NoStream`] if the image has no such stream.
    pub fn stream(&self, name: &str) -> Result<&StreamInfo, Error> {
        let mut streams = self.index.streams.iter();
        streams
            .find(|stream| stream.name == name)
            .ok_or_else(|| Error::NoStream {
                path: self.path.clone(),
                name: name.to_owned(),
            })
    }

    /// Returns the path at which the image was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the header of the image.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the index of the image.
    #[must_use]
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the size of the image's file in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.trailer.file
    }

    /// Returns the numbers of the stored chunks, in their order in the file.
    pub(crate) fn order(&self) -> &[u64] {
        &self.order
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    pub(crate) const fn cipher(&self) -> &Gcm {
        &self.cipher
    }

    pub(crate) fn entry(&self, chunk: u64) -> Option<&Entry> {
        self.index.entries.get(usize::try_from(chunk).ok()?)
    }

    /// Reads whole blocks of the image into aligned memory.
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        read(&self.file, bytes, offset).map_err(Error::file("read", &self.path))
    }

    pub(crate) fn damaged(&self, damage: Damage) -> Error {
        Error::damaged(&self.path, damage)
    }

    /// Fails if the bytes of a gap are not zeros, because no authentication tag covers them.
    fn check_gap(&self, gap: &Gap) -> Result<(), Error> {
        let block = BLOCK as u64;
        let start = gap.start - gap.start % block;
        let length = usize::try_from(gap.end.next_multiple_of(block) - start).unwrap_or(BLOCK);
        let mut bytes = Buffer::new(length);
        self.read(&mut bytes[..length], start)?;
        let place = |offset: u64| usize::try_from(offset - start).unwrap_or(length);
        match bytes[place(gap.start)..place(gap.end)]
            .iter()
            .all(|byte| *byte == 0)
        {
            true => Ok(()),
            false => Err(self.damaged(Damage::Gap(gap.start))),
        }
    }
}

/// Opens the file of an image, and reads its unencrypted parts.
fn outside(path: &Path) -> Result<(File, Header, Trailer), Error> {
    let open = |flags: OFlags| {
        OpenOptions::new()
            .read(true)
            .custom_flags(i32::from_ne_bytes(flags.bits().to_ne_bytes()))
            .open(path)
    };
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open(flags | OFlags::DIRECT) {
        Err(error) if is(&error, Errno::INVAL) => open(flags),
        opened => opened,
    };
    let file = file.map_err(Error::file("open", path))?;
    let found = file.metadata().map_err(Error::file("open", path))?;
    let not_one = || Error::NotAnImage {
        path: path.to_owned(),
    };
    let length = found.len();
    if !found.is_file() || length < HEADER as u64 {
        return Err(not_one());
    }
    let mut block = Buffer::new(BLOCK);
    read(&file, &mut block, 0).map_err(Error::file("read", path))?;
    let header = Header::parse(&block).map_err(|error| match error {
        FormatError::Magic => not_one(),
        FormatError::Version(found) => Error::Version {
            path: path.to_owned(),
            found,
        },
        FormatError::Field(_) => Error::damaged(path, Damage::Index),
    })?;
    let cut = || Error::damaged(path, Damage::End);
    let end = length.checked_sub(BLOCK as u64);
    let end = end.filter(|end| end % BLOCK as u64 == 0).ok_or_else(cut)?;
    read(&file, &mut block, end).map_err(Error::file("read", path))?;
    let trailer = Trailer::parse(&block[BLOCK - TRAILER..], length).map_err(|_| cut())?;
    match trailer.id == header.id {
        true => Ok((file, header, trailer)),
        false => Err(cut()),
    }
}

fn read(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    match file.read_exact_at(bytes, offset) {
        // The file system has larger blocks than an image, so O_DIRECT fails. Read through the page
        // cache instead.
        Err(error) if is(&error, Errno::INVAL) => {
            let flags = rustix::fs::fcntl_getfl(file)?;
            rustix::fs::fcntl_setfl(file, flags - OFlags::DIRECT)?;
            file.read_exact_at(bytes, offset)
        }
        done => done,
    }
}
