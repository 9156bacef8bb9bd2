//! The connections of commands that wait for an answer.

use std::error::Error;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, send};
use rustix::time::Timespec;

use control::protocol::Reply;
use host::flatten;

/// Returns the reply to a command that only reports success or an error.
pub(crate) fn done_or(result: &Result<(), impl Error>) -> Reply {
    match result {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Error(flatten(error)),
    }
}

/// Returns true if the client still holds its side of the connection.
pub(crate) fn is_there(client: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(client, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut watched, Some(&now)), Ok(0))
}

/// Sends a reply to a command, and ignores an error, because the command may have ended.
pub(crate) fn reply(client: &impl AsFd, reply: &Reply) {
    // A reply is plain data: it always has a JSON form.
    let packet = serde_json::to_vec(reply).unwrap_or_default();
    // The client may have ended.
    let _ = send(client, &packet, SendFlags::NOSIGNAL);
}
