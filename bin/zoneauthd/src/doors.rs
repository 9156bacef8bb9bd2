//! Limits the number of connections, and the log entries about refused ones.
//!
//! Every user of the host can connect. No user may block other users, fill the log, or exhaust the
//! memory and descriptors of zoneauthd.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

/// Maximum number of connections of one user at a time; each connection may be a running program.
pub const MAX_PER_USER: usize = 32;

/// Maximum number of connections that have not sent a request yet. A client sends its request at
/// once. If more connections wait, the oldest waiting connection is closed.
const MAX_WAITING: usize = 128;

/// Maximum number of refusals of one user that are logged one by one; further refusals are only
/// counted.
const MAX_LOGGED_REFUSALS: u32 = 100;

/// Interval after which one more refusal is logged.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of remembered users. Above it, users without recent refusals are forgotten.
const MAX_REMEMBERED: usize = 1024;

/// The counters of connections and refusals.
#[derive(Debug, Default)]
pub struct Doors(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    inside: HashMap<u32, usize>,
    waiting: VecDeque<Weak<OwnedFd>>,
    refusals: HashMap<u32, Bucket>,
}

#[derive(Debug)]
struct Bucket {
    left: u32,
    since: Instant,
    /// Number of refusals that were not logged.
    uncounted: u64,
}

/// The permission for one connection; dropping it lowers the user's count.
#[derive(Debug)]
pub struct Place {
    doors: Arc<Doors>,
    uid: u32,
}

/// The decision whether a refusal is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Log the refusal, and the number of earlier refusals that were not logged.
    Log {
        /// The number of refusals that were not logged.
        before: u64,
    },
    /// Only count the refusal.
    Count,
}

impl Doors {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state consists of counters, which stay valid if a thread panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection of this user. Returns `None` if the user has too many connections
    /// already.
    pub fn enter(doors: &Arc<Self>, uid: u32) -> Option<Place> {
        let mut state = doors.state();
        let count = state.inside.entry(uid).or_default();
        if *count >= MAX_PER_USER {
            return None;
        }
        *count += 1;
        drop(state);
        Some(Place {
            doors: Arc::clone(doors),
            uid,
        })
    }

    /// Remembers a connection that has not sent a request yet.
    pub fn wait(&self, socket: &Arc<OwnedFd>) {
        let mut state = self.state();
        state.waiting.retain(|one| one.strong_count() > 0);
        state.waiting.push_back(Arc::downgrade(socket));
        if state.waiting.len() > MAX_WAITING {
            if let Some(oldest) = state.waiting.pop_front().and_then(|one| one.upgrade()) {
                // The thread of the closed connection reads the end of its input.
                let _ = shutdown(&oldest, Shutdown::Both);
            }
        }
    }

    /// Removes a connection that has sent its request from the waiting ones.
    pub fn spoke(&self, socket: &Arc<OwnedFd>) {
        let this = Arc::downgrade(socket);
        self.state().waiting.retain(|one| !one.ptr_eq(&this));
    }

    /// Counts a refusal and returns whether to log it.
    pub fn refused(&self, uid: u32) -> Tell {
        self.refused_at(uid, Instant::now())
    }

    fn refused_at(&self, uid: u32, now: Instant) -> Tell {
        let mut state = self.state();
        if state.refusals.len() >= MAX_REMEMBERED {
            state.refusals.retain(|_, bucket| {
                bucket.refill(now);
                bucket.left < MAX_LOGGED_REFUSALS || bucket.uncounted > 0
            });
        }
        let bucket = state.refusals.entry(uid).or_insert(Bucket {
            left: MAX_LOGGED_REFUSALS,
            since: now,
            uncounted: 0,
        });
        bucket.refill(now);
        if bucket.left == 0 {
            bucket.uncounted += 1;
            return Tell::Count;
        }
        bucket.left -= 1;
        Tell::Log {
            before: std::mem::take(&mut bucket.uncounted),
        }
    }
}

impl Bucket {
    fn refill(&mut self, now: Instant) {
        let passed =
            now.saturating_duration_since(self.since).as_secs() / REFUSAL_LOG_INTERVAL.as_secs();
        let more = u32::try_from(passed).unwrap_or(u32::MAX);
        if more > 0 {
            self.since = now;
            self.left = self.left.saturating_add(more).min(MAX_LOGGED_REFUSALS);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.doors.state();
        if let Some(count) = state.inside.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                state.inside.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_places_of_its_own() {
        let doors = Arc::new(Doors::default());
        let mut places: Vec<_> = (0..MAX_PER_USER)
            .map(|_| Doors::enter(&doors, 1).unwrap())
            .collect();
        assert!(Doors::enter(&doors, 1).is_none());
        assert!(Doors::enter(&doors, 2).is_some());
        places.pop();
        places.push(Doors::enter(&doors, 1).unwrap());
        assert!(Doors::enter(&doors, 1).is_none());
        drop(places);
        assert!(doors.state().inside.is_empty());
    }

    #[test]
    fn silent_connections_make_room_for_new_ones() {
        let doors = Doors::default();
        let sockets: Vec<_> = (0..=MAX_WAITING)
            .map(|_| std::os::unix::net::UnixStream::pair().unwrap())
            .map(|(ours, theirs)| (Arc::new(OwnedFd::from(ours)), theirs))
            .collect();
        let is_open = |theirs: &std::os::unix::net::UnixStream| {
            use std::io::Read;
            theirs.set_nonblocking(true).unwrap();
            let mut theirs = theirs;
            !matches!(theirs.read(&mut [0]), Ok(0))
        };
        doors.wait(&sockets[0].0);
        doors.spoke(&sockets[0].0);
        for (ours, _) in &sockets[1..] {
            doors.wait(ours);
        }
        assert!(sockets.iter().all(|(_, theirs)| is_open(theirs)));
        doors.wait(&sockets[0].0);
        assert!(!is_open(&sockets[1].1));
        assert!(is_open(&sockets[0].1) && is_open(&sockets[2].1));
    }

    #[test]
    fn a_flood_of_refusals_is_counted() {
        let doors = Doors::default();
        let start = Instant::now();
        for _ in 0..MAX_LOGGED_REFUSALS {
            assert_eq!(doors.refused_at(1, start), Tell::Log { before: 0 });
        }
        assert_eq!(doors.refused_at(1, start), Tell::Count);
        assert_eq!(doors.refused_at(1, start), Tell::Count);
        assert_eq!(doors.refused_at(2, start), Tell::Log { before: 0 });
        let later = start + REFUSAL_LOG_INTERVAL;
        assert_eq!(doors.refused_at(1, later), Tell::Log { before: 2 });
        assert_eq!(doors.refused_at(1, later), Tell::Count);
        let much_later = start + REFUSAL_LOG_INTERVAL * (2 * MAX_LOGGED_REFUSALS);
        for _ in 0..MAX_LOGGED_REFUSALS {
            assert!(matches!(doors.refused_at(1, much_later), Tell::Log { .. }));
        }
        assert_eq!(doors.refused_at(1, much_later), Tell::Count);
    }

    #[test]
    fn many_users_do_not_fill_the_memory() {
        let doors = Doors::default();
        let start = Instant::now();
        for uid in 0..5000 {
            let now = start + REFUSAL_LOG_INTERVAL * uid;
            doors.refused_at(uid, now);
        }
        assert!(doors.state().refusals.len() <= MAX_REMEMBERED);
    }
}
