//! Reads the index again only after a change of the file, because a command that acts on a thousand
//! zones needs the index a thousand times.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Index, too_large};
use crate::{Error, Root};

/// Reads the zone index of one root.
#[derive(Debug, Default)]
pub struct Reader(Mutex<Option<Known>>);

/// The index that was read last, with its file.
#[derive(Debug)]
struct Known {
    /// The file stays open, so that no other file gets its inode number.
    _file: File,
    stamp: Stamp,
    index: Arc<Index>,
}

/// The file attributes that change when a file is replaced or written.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            file: (meta.dev(), meta.ino()),
            size: meta.len(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl Reader {
    /// Returns the present index; see [`Index::load`].
    ///
    /// # Errors
    /// Fails like [`Index::load`].
    pub fn load(&self, root: &Root) -> Result<Arc<Index>, Error> {
        let path = root.index();
        // A thread that panicked while it held the mutex leaves a consistent value.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(known), Ok(meta)) = (known.as_ref(), fs::metadata(&path)) {
            if known.stamp == Stamp::of(&meta) {
                return Ok(Arc::clone(&known.index));
            }
        }
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Arc::default()),
            other => other.map_err(Error::file("read", &path))?,
        };
        // The attributes are read before the content, so that a later write leads to different
        // attributes.
        let meta = file.metadata().map_err(Error::file("read", &path))?;
        too_large(&meta, &path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(Error::file("read", &path))?;
        let index = Arc::new(Index::parse(&text, &path)?);
        *known = Some(Known {
            _file: file,
            stamp: Stamp::of(&meta),
            index: Arc::clone(&index),
        });
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, update};
    use super::*;

    fn add(root: &Root, name: &str) {
        let entry = Entry::configured(name.parse().unwrap(), format!("/zones/{name}").into());
        update(root, |index| {
            index.put(entry);
            Ok::<(), Error>(())
        })
        .unwrap();
    }

    #[test]
    fn the_index_is_read_again_only_after_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let reader = Reader::default();
        assert!(reader.load(&root).unwrap().entries().is_empty());
        for n in 1..=20 {
            add(&root, &format!("web{n}"));
            let index = reader.load(&root).unwrap();
            assert_eq!(index.entries().len(), n);
            assert_eq!(*index, Index::load(&root).unwrap());
            assert!(Arc::ptr_eq(&index, &reader.load(&root).unwrap()));
        }
        // This write changes the file in place, as an editor may do.
        fs::write(root.index(), "web1:configured:/zones/web1:\n").unwrap();
        assert_eq!(reader.load(&root).unwrap().entries().len(), 1);
        fs::write(root.index(), "nonsense").unwrap();
        assert!(reader.load(&root).is_err());
        fs::remove_file(root.index()).unwrap();
        assert!(reader.load(&root).unwrap().entries().is_empty());
    }
}
