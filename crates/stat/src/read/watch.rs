//! Watches for zones that start and end.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use model::ZoneName;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// The suffix of the names of state files.
const SUFFIX: &str = ".state";

/// A watch over the state files of zones.
#[derive(Debug)]
pub(super) struct Watch(OwnedFd);

/// The changes since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Zones whose state file was replaced or removed.
    pub zones: Vec<ZoneName>,
    /// The kernel lost events, so the caller must read all state files.
    pub missed: bool,
}

impl Watch {
    /// Starts to watch a folder. Returns `None` if the folder does not exist or the kernel refuses.
    pub(super) fn new(folder: &Path) -> Option<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let flags = WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&events, folder, flags).ok()?;
        Some(Self(events))
    }

    /// Returns a descriptor that is readable when there are changes.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Returns the changes since the last call; `None` if the folder itself was removed.
    pub(super) fn news(&self) -> Option<News> {
        let mut news = News::default();
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(&self.0, &mut buffer);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                news.missed = true;
            }
            let gone = ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF;
            if flags.intersects(gone) {
                return None;
            }
            let name = event.file_name().and_then(|name| name.to_str().ok());
            if let Some(zone) = name.and_then(of_state_file) {
                if !news.zones.contains(&zone) {
                    news.zones.push(zone);
                }
            }
        }
        Some(news)
    }
}

/// Returns the name of the zone to which a state file belongs.
pub(super) fn of_state_file(file: &str) -> Option<ZoneName> {
    file.strip_suffix(SUFFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn state_files_that_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("run");
        assert!(Watch::new(&folder).is_none());
        fs::create_dir(&folder).unwrap();
        let watch = Watch::new(&folder).unwrap();
        assert_eq!(watch.news(), Some(News::default()));
        fs::write(folder.join("new"), "").unwrap();
        fs::rename(folder.join("new"), folder.join("web.state")).unwrap();
        fs::write(folder.join("new"), "").unwrap();
        fs::rename(folder.join("new"), folder.join("web.xml")).unwrap();
        let names = |news: Option<News>| -> Vec<String> {
            let zones = news.unwrap().zones;
            zones.iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(watch.news()), ["web"]);
        fs::remove_file(folder.join("web.state")).unwrap();
        assert_eq!(names(watch.news()), ["web"]);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(watch.news(), None);
    }

    #[test]
    fn names() {
        assert_eq!(of_state_file("web.state").unwrap().as_str(), "web");
        assert_eq!(of_state_file("web.xml"), None);
        assert_eq!(of_state_file(".state"), None);
    }
}
