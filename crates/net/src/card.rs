//! Makes the network cards of a guest: a tap device for each link of its zone.
//!
//! The link in the zone's namespace is like that of any zone, and its guard is on the host's side.
//! The kernel passes each frame from the link to the tap before the namespace's own network handles
//! the frame, and from the tap to the link in the same way. So the guest is the link's only user.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::ends::within;
use crate::guard;
use crate::netlink::{Netlink, Refused};
use crate::request;

/// The prefix of the names of taps.
const PREFIX: &str = "tap";

/// The reason why a card could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The network of the zone cannot be entered.
    #[error("enter the zone's network")]
    Enter(#[source] io::Error),
    /// A system call on a link failed.
    #[error("{action} {link}")]
    Link {
        /// The action that failed.
        action: &'static str,
        /// The link in the zone.
        link: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The zone has no link with this name.
    #[error("the zone has no link {0}")]
    NoLink(String),
    /// The kernel refused a change.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Makes the tap for a link in the zone's namespace, and connects the tap and the link.
///
/// # Errors
/// Fails with the error of the step that failed.
pub fn make(namespace: BorrowedFd<'_>, link: &str) -> Result<OwnedFd, Error> {
    within(namespace, || in_namespace(link)).map_err(Error::Enter)?
}

fn in_namespace(link: &str) -> Result<OwnedFd, Error> {
    let fail = |action: &'static str| {
        move |source: io::Error| Error::Link {
            action,
            link: link.to_owned(),
            source,
        }
    };
    let kernel = Netlink::open().map_err(fail("look at"))?;
    let find = |name: &str| {
        let found = kernel.link(name).map_err(fail("look at"))?;
        found.ok_or_else(|| Error::NoLink(name.to_owned()))
    };
    let own = find(link)?;
    let name = format!("{PREFIX}{}", own.index);
    let tap = sys::tap::make(&name).map_err(fail("make a network card for"))?;
    let card = find(&name)?;
    for (from, to) in [(card.index, own.index), (own.index, card.index)] {
        let program = guard::load_inbound(None, to).map_err(fail("lead packets of"))?;
        let requests = request::filter(from, program.as_fd());
        kernel.change(requests.into())?;
    }
    kernel.change(request::ready(&name, request::Ready::default()))?;
    Ok(tap)
}
