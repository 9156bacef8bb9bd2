//! Network cards of a machine: a tap device on each link of its zone.
//!
//! The link in the zone's namespace is as that of any zone, with its guard on the
//! host's side. Whatever arrives on it goes to the tap before anything of the namespace
//! sees it, and the other way round: the guest is the link's only user.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::ends::within;
use crate::guard;
use crate::netlink::Netlink;
use crate::request;

/// Begin of the names of taps.
const PREFIX: &str = "tap";

/// Makes the card of a link in the namespace, and joins the two.
///
/// # Errors
/// Fails with the step that failed, in a sentence.
pub fn make(namespace: BorrowedFd<'_>, link: &str) -> Result<OwnedFd, String> {
    let made = within(namespace, || in_namespace(link));
    match made {
        Ok(done) => done,
        Err(error) => Err(format!("enter the zone's network: {error}")),
    }
}

fn in_namespace(link: &str) -> Result<OwnedFd, String> {
    let fail = |what: &'static str| move |error: io::Error| format!("{what} {link}: {error}");
    let kernel = Netlink::open().map_err(fail("look at"))?;
    let find = |name: &str| {
        let found = kernel.link(name).map_err(fail("look at"))?;
        found.ok_or_else(|| format!("the zone has no link {name}"))
    };
    let own = find(link)?;
    let name = format!("{PREFIX}{}", own.index);
    let tap = sys::tap::make(&name).map_err(fail("make a network card for"))?;
    let card = find(&name)?;
    for (from, to) in [(card.index, own.index), (own.index, card.index)] {
        let program = guard::load_inbound(None, to).map_err(fail("lead packets of"))?;
        let requests = request::filter(from, program.as_fd());
        kernel
            .change(requests.into())
            .map_err(|error| format!("{error}: {}", error.source))?;
    }
    kernel
        .change(request::ready(&name, request::Ready::default()))
        .map_err(|error| format!("{error}: {}", error.source))?;
    Ok(tap)
}
