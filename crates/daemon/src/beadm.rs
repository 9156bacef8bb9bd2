//! Answers a zone's requests about its own boot environments, and about the other nodes of its zone
//! cluster.
//!
//! The zone's root user may be hostile. zoneadmd handles one request at a time. After each answer
//! it pauses for as long as the answer took, so that the requests of a zone use at most half of one
//! processor. If a zone sends many requests, they wait in the socket's short queue. A separate
//! `zoneadm beadm --inside` or `clzonecluster --fence` does the work; zoneadmd only waits for its end.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use model::ZoneName;
use rustix::fs::MemfdFlags;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use sys::process::Child;

use crate::error::BeadmError;
use control::beadm_socket::{Answer, FENCE, MAX_ANSWER, MAX_REQUEST, read_request};
use host::{Host, flatten, spawn};

/// Minimum interval between two requests, which allows five requests a second.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_millis(200);

/// Pause after a fence request. Such a request waits for another host most of the time, so a pause as
/// long as the request would only delay the fencing of a second node.
const FENCE_PAUSE: Duration = Duration::from_secs(1);

/// Timeout for a connection to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of bytes of each stream in an answer: more than a list of boot environments
/// needs, and less than the buffer of a socket whose peer does not read.
const MAX_OUTPUT: u64 = 48 << 10;

/// Answers the requests of the beadm command inside a zone.
#[derive(Debug)]
pub(super) struct Requests {
    listener: OwnedFd,
    /// User id on the host that is mapped to the zone's root.
    owner: u32,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// zoneadmd waits, and reads no request before this time.
    Idle(Instant),
    /// A client is connected; this is the deadline for its request.
    Asked(OwnedFd, Instant),
    /// The command `zoneadm beadm --inside` has been working since this time.
    Works(OwnedFd, Work, Instant),
}

#[derive(Debug)]
struct Work {
    kind: Kind,
    child: Child,
    output: File,
    errors: File,
}

/// The subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The zone's own boot environments.
    Environments,
    /// The other nodes of the zone's cluster.
    Fence,
}

impl Kind {
    /// Returns the kind of a request, and the words for the command that does the work.
    fn of(words: &[String]) -> (Self, &[String]) {
        match words.split_first() {
            Some((word, rest)) if word == FENCE => (Self::Fence, rest),
            _ => (Self::Environments, words),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Environments => "beadm",
            Self::Fence => FENCE,
        }
    }

    /// Returns the pause after a request that took this time.
    fn pause(self, took: Duration) -> Duration {
        match self {
            Self::Environments => MIN_REQUEST_INTERVAL.max(took),
            Self::Fence => FENCE_PAUSE,
        }
    }
}

impl Requests {
    pub(super) fn new(listener: OwnedFd, owner: u32) -> Self {
        let stage = Stage::Idle(Instant::now());
        Self {
            listener,
            owner,
            stage,
        }
    }

    /// Returns the descriptor to wait on. Returns `None` during the pause after a request.
    pub(super) fn descriptor(&self, now: Instant) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Idle(until) if *until > now => None,
            Stage::Idle(_) => Some(self.listener.as_fd()),
            Stage::Asked(client, _) => Some(client.as_fd()),
            Stage::Works(_, work, _) => Some(work.child.pidfd.as_fd()),
        }
    }

    /// Returns the time until the next pause or timeout ends. `now` must be the value that was
    /// passed to [`Self::descriptor`]: otherwise, a pause that ends between the two calls would
    /// never end.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        match &self.stage {
            Stage::Idle(until) if *until <= now => None,
            Stage::Idle(until) | Stage::Asked(_, until) => {
                // One millisecond is added, so that zoneadmd does not wake before the time is over.
                Some(until.saturating_duration_since(now) + Duration::from_millis(1))
            }
            Stage::Works(..) => None,
        }
    }

    /// Does the next step of a request. `spoke` is true if the descriptor that
    /// [`Requests::descriptor`] returned can be read.
    pub(super) fn go_on(&mut self, host: &Host, zone: &ZoneName, spoke: bool) {
        let now = Instant::now();
        let stage = std::mem::replace(&mut self.stage, Stage::Idle(now));
        self.stage = match stage {
            Stage::Idle(until) if spoke && until <= now => self.admit(now),
            Stage::Asked(client, _) if spoke => self.hear(host, zone, client, now),
            Stage::Asked(_, until) if until <= now => Stage::Idle(now + MIN_REQUEST_INTERVAL),
            Stage::Works(client, work, began) if spoke => {
                let pause = work.kind.pause(began.elapsed());
                work.answer(&client);
                Stage::Idle(now + pause)
            }
            other => other,
        };
    }

    fn admit(&self, now: Instant) -> Stage {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(client) = accept_with(&self.listener, flags) else {
            return Stage::Idle(now + MIN_REQUEST_INTERVAL);
        };
        Stage::Asked(client, now + REQUEST_TIMEOUT)
    }

    /// Reads the request and starts the command that answers it.
    fn hear(&self, host: &Host, zone: &ZoneName, client: OwnedFd, now: Instant) -> Stage {
        // The request is read first, whoever sent it: a client whose connection is closed with
        // unread data sees no answer.
        let mut packet = [0; MAX_REQUEST + 1];
        let Ok((length, _)) = recv(&client, packet.as_mut_slice(), RecvFlags::empty()) else {
            return Stage::Idle(now + MIN_REQUEST_INTERVAL);
        };
        // The socket's permissions also admit only the zone's root, but the zone's root can change
        // these permissions.
        if !sys::peer::peer(client.as_fd()).is_ok_and(|peer| peer.uid == self.owner) {
            return refuse(
                &client,
                Kind::Environments,
                "only root of the zone may do that",
                now,
            );
        }
        let words = match read_request(&packet[..length]) {
            Ok(words) => words,
            Err(why) => return refuse(&client, Kind::Environments, why, now),
        };
        let kind = Kind::of(&words).0;
        match Work::begin(host, zone, &words) {
            Ok(work) => Stage::Works(client, work, now),
            Err(why) => {
                let text = format!("{}: {}", kind.name(), flatten(&why));
                control::log::message(&host.root, zone, &text);
                refuse(
                    &client,
                    kind,
                    "could not be started; the zone's log says why",
                    now,
                )
            }
        }
    }
}

fn refuse(client: &OwnedFd, kind: Kind, why: &str, now: Instant) -> Stage {
    Answer::Errors(format!("{}: {why}.\n", kind.name()).into_bytes()).send(client);
    Answer::Exit(1).send(client);
    Stage::Idle(now + kind.pause(Duration::ZERO))
}

impl Work {
    fn begin(host: &Host, zone: &ZoneName, words: &[String]) -> Result<Self, BeadmError> {
        let file = |name| {
            let made = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC);
            made.map(File::from)
                .map_err(|errno| BeadmError::File(errno.into()))
        };
        let (output, errors) = (file("output")?, file("errors")?);
        let (kind, words) = Kind::of(words);
        let start = match kind {
            Kind::Environments => spawn::beadm,
            Kind::Fence => spawn::fence,
        };
        let child = start(host, zone, words, &output, &errors)?;
        Ok(Self {
            kind,
            child,
            output,
            errors,
        })
    }

    /// Sends the output of the ended command as the answer.
    fn answer(self, client: &OwnedFd) {
        let pidfd = WaitId::PidFd(self.child.pidfd.as_fd());
        let status = waitid(pidfd, WaitIdOptions::EXITED).ok().flatten();
        let status = status.and_then(|status| status.exit_status());
        let status = status.and_then(|status| u8::try_from(status).ok());
        for piece in pieces(self.output) {
            Answer::Output(piece).send(client);
        }
        for piece in pieces(self.errors) {
            Answer::Errors(piece).send(client);
        }
        Answer::Exit(status.unwrap_or(1)).send(client);
    }
}

/// Returns the output of the command in pieces, up to the maximum size of an answer.
fn pieces(mut file: File) -> Vec<Vec<u8>> {
    let mut text = Vec::new();
    let read = file.rewind().and_then(|()| {
        let mut most = file.take(MAX_OUTPUT);
        most.read_to_end(&mut text)
    });
    match read {
        Ok(_) => text.chunks(MAX_ANSWER - 1).map(<[u8]>::to_vec).collect(),
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_the_first_word_makes_a_fence_request() {
        assert_eq!(
            Kind::of(&words("fence off pg2")),
            (Kind::Fence, &words("off pg2")[..])
        );
        assert_eq!(Kind::of(&words("fence")), (Kind::Fence, &[][..]));
        let create = words("create fence");
        assert_eq!(Kind::of(&create), (Kind::Environments, &create[..]));
    }

    #[test]
    fn a_second_node_is_fenced_a_second_after_the_first() {
        let long = Duration::from_secs(50);
        assert_eq!(Kind::Fence.pause(long), FENCE_PAUSE);
        assert_eq!(Kind::Fence.pause(Duration::ZERO), FENCE_PAUSE);
        assert_eq!(Kind::Environments.pause(long), long);
    }
}
