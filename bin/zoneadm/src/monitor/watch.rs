//! Watches the folders whose files tell the events of zones.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use store::Root;

/// A folder that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The index and the configurations.
    Etc,
    /// The states of active zones.
    Run,
    /// The messages of zones.
    Log,
}

/// The changes since the last call.
#[derive(Debug, Default)]
pub struct News {
    /// The files that were replaced, removed or written.
    pub files: Vec<(Place, String)>,
    /// True if changes may have been missed, so that the caller must look at all files.
    pub missed: bool,
}

/// A watched folder. If the folder does not exist, its nearest ancestor is watched instead.
#[derive(Debug)]
struct Folder {
    place: Place,
    path: PathBuf,
    /// The number of the kernel's watch.
    watch: i32,
    /// True if `watch` is that of the folder itself.
    is_there: bool,
}

/// The watched folders.
#[derive(Debug)]
pub struct Watch {
    events: OwnedFd,
    folders: Vec<Folder>,
}

impl Watch {
    /// Starts to watch the folders below a root. `has_messages` is true if the caller can read the
    /// messages.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn new(root: &Root, has_messages: bool) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut places = vec![(Place::Etc, root.etc()), (Place::Run, root.run())];
        places.extend(has_messages.then(|| (Place::Log, root.log())));
        let folder = |(place, path)| Folder {
            place,
            path,
            watch: -1,
            is_there: false,
        };
        let mut watch = Self {
            events,
            folders: places.into_iter().map(folder).collect(),
        };
        for folder in &mut watch.folders {
            folder.attach(&watch.events)?;
        }
        Ok(watch)
    }

    /// Returns the changes since the last call.
    pub fn news(&mut self) -> News {
        let mut news = News::default();
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.events, &mut buffer);
        let mut moved = false;
        while let Ok(event) = reader.next() {
            let flags = event.events();
            news.missed |= flags.contains(ReadFlags::QUEUE_OVERFLOW);
            let gone = ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF;
            for folder in &mut self.folders {
                if folder.watch != event.wd() {
                    continue;
                }
                if flags.intersects(gone) {
                    folder.is_there = false;
                }
                moved |= !folder.is_there;
                let name = event.file_name().and_then(|name| name.to_str().ok());
                if let (true, Some(name)) = (folder.is_there, name) {
                    let file = (folder.place, name.to_owned());
                    if !news.files.contains(&file) {
                        news.files.push(file);
                    }
                }
            }
        }
        if moved {
            news.missed |= self.attach_all();
        }
        news
    }

    /// Watches the folders that did not exist. Returns true if one exists now.
    fn attach_all(&mut self) -> bool {
        let mut has_come = false;
        for folder in self.folders.iter_mut().filter(|one| !one.is_there) {
            // The folder may be removed at this moment; then the next event tries again.
            has_come |= folder.attach(&self.events).is_ok() && folder.is_there;
        }
        has_come
    }
}

impl Folder {
    /// Watches the folder, or its nearest ancestor that exists.
    fn attach(&mut self, events: &OwnedFd) -> io::Result<()> {
        let own = WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let of_ancestor = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        // A folder on the path may be made while this loop walks up. So the loop runs again until
        // the ancestor that it watches lacks the next folder of the path.
        loop {
            let mut missing: Option<&Path> = None;
            for path in self.path.ancestors() {
                let is_own = path == self.path;
                let flags = if is_own { own } else { of_ancestor };
                match inotify::add_watch(events, path, flags) {
                    Ok(watch) => {
                        (self.watch, self.is_there) = (watch, is_own);
                        break;
                    }
                    Err(Errno::NOENT | Errno::NOTDIR) => missing = Some(path),
                    Err(error) => return Err(error.into()),
                }
            }
            if !missing.is_some_and(Path::exists) {
                return Ok(());
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn folders_that_come_and_go_are_watched() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let mut watch = Watch::new(&root, true).unwrap();
        assert!(!watch.news().missed);
        fs::create_dir_all(root.run()).unwrap();
        // /run and /run/zones come one after the other, perhaps between two calls.
        let mut missed = watch.news().missed;
        missed |= watch.news().missed;
        assert!(missed);
        fs::write(root.run().join("new"), "").unwrap();
        fs::rename(root.run().join("new"), root.run().join("web.state")).unwrap();
        let has = |watch: &mut Watch, place, name: &str| {
            let files = watch.news().files;
            assert!(files.contains(&(place, name.to_owned())), "{files:?}");
        };
        has(&mut watch, Place::Run, "web.state");
        fs::remove_file(root.run().join("web.state")).unwrap();
        has(&mut watch, Place::Run, "web.state");
        fs::remove_dir_all(root.run()).unwrap();
        watch.news();
        fs::create_dir_all(root.run()).unwrap();
        assert!(watch.news().missed);
        fs::write(root.run().join("db.state"), "{}").unwrap();
        has(&mut watch, Place::Run, "db.state");
    }

    #[test]
    fn messages_are_watched_only_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        fs::create_dir_all(root.log()).unwrap();
        let (mut with, mut without) = (
            Watch::new(&root, true).unwrap(),
            Watch::new(&root, false).unwrap(),
        );
        fs::write(root.log().join("web.messages"), "line\n").unwrap();
        assert_eq!(with.news().files, [(Place::Log, "web.messages".to_owned())]);
        assert!(without.news().files.is_empty());
    }
}
