//! `zlogin -C`: connects to the zone's console, and stays connected while the zone halts and boots.

use std::os::fd::OwnedFd;
use std::time::Duration;

use control::client;
use control::protocol::{ConsolePacket, Request};
use host::{Error, Host, flatten};
use model::{State, ZoneName};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::Timespec;
use store::index::Index;
use sys::signals::{self, Taken};

use crate::buffer::Buffer;
use crate::call::Call;
use crate::keyboard::Keyboard;
use crate::sink::Sink;
use crate::terminal::{self, Raw};

/// Maximum number of bytes that are sent at a time.
const MAX_SENT_BYTES: usize = 4096;

/// Interval between checks whether a halted zone has booted, and between checks of the window's
/// size.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Why the connection ended.
enum End {
    /// The user left.
    Left,
    /// The zone has halted or reboots.
    Gone,
    /// This signal ends zlogin.
    Signal(i32),
}

pub fn attach(host: &Host, call: &Call, leave_on_halt: bool) -> Result<u8, String> {
    let unknown = || format!("zone '{}' unknown", call.zone);
    let zone: ZoneName = call.zone.parse().map_err(|_| unknown())?;
    let state = state_of(host, &zone)?.ok_or_else(unknown)?;
    if state < State::Installed {
        return Err(format!("cannot login to a zone which is '{state}'"));
    }
    let mut connection = connect(host, &zone)?;
    if !call.quiet {
        println!("[Connected to zone '{zone}' console]");
    }
    let mut user = User::new(call)?;
    let raw = Raw::enter();
    loop {
        let end = match &connection {
            Some(socket) => pump(socket, &mut user)?,
            // While the zone is halted, the user may leave, and zlogin polls for a new console.
            None => user.wait(None)?.unwrap_or(End::Gone),
        };
        match end {
            End::Left => break,
            End::Signal(number) => {
                drop(raw);
                signals::die_by(number);
            }
            End::Gone if leave_on_halt => break,
            End::Gone => {
                // Input that was not sent yet was meant for the system that has halted.
                user.keyboard.clear();
                connection = connect(host, &zone).unwrap_or(None);
            }
        }
    }
    drop(raw);
    if !call.quiet {
        println!("\n[Connection to zone '{zone}' console closed]");
    }
    Ok(cli::status::OK)
}

fn state_of(host: &Host, zone: &ZoneName) -> Result<Option<State>, String> {
    let index = Index::load(&host.root).map_err(|error| flatten(&error))?;
    let Some(entry) = index.find(zone) else {
        return Ok(None);
    };
    let (state, _) = subject::state(host, entry).map_err(|error| flatten(&error))?;
    Ok(Some(state))
}

/// Connects to the console of an active zone. Returns `None` while the zone is halted.
fn connect(host: &Host, zone: &ZoneName) -> Result<Option<OwnedFd>, String> {
    if !state_of(host, zone)?.is_some_and(State::is_active) {
        return Ok(None);
    }
    let socket = client::connect_or_adopt(host, zone).map_err(|error| flatten(&error))?;
    match client::ask(&socket, &Request::Console) {
        Ok(Some(())) => {
            tell_size(&socket);
            Ok(Some(socket))
        }
        Ok(None) => Ok(None),
        Err(Error::Daemon(text)) => Err(text),
        Err(error) => Err(flatten(&error)),
    }
}

fn tell_size(socket: &OwnedFd) {
    if let Some(size) = terminal::size() {
        let packet = ConsolePacket::Size {
            rows: size.ws_row,
            columns: size.ws_col,
        };
        let _ = send(socket, &packet.write(), SendFlags::NOSIGNAL);
    }
}

/// Moves bytes in both directions until one side closes. This loop never waits for zoneadmd or for
/// the caller's terminal, so that the user can leave at any time.
fn pump(socket: &OwnedFd, user: &mut User) -> Result<End, String> {
    let mut size = terminal::size();
    loop {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, user.shown.is_empty());
        wanted.set(PollFlags::OUT, user.keyboard.has_more());
        if let Some(end) = user.wait(Some(PollFd::new(socket, wanted)))? {
            return Ok(end);
        }
        let sent = user.keyboard.send(|bytes| {
            let piece = &bytes[..bytes.len().min(MAX_SENT_BYTES)];
            let packet = ConsolePacket::Input(piece).write();
            send(socket, &packet, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map(|_| piece.len())
        });
        if user.keyboard.left() {
            return Ok(End::Left);
        }
        if sent.is_err() {
            return Ok(End::Gone);
        }
        if user.shown.is_empty() {
            let receive = |space: &mut [u8]| {
                recv(socket, space, RecvFlags::DONTWAIT).map(|(length, _)| length)
            };
            match user.shown.fill(u64::MAX, receive) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Ok(0) | Err(_) => return Ok(End::Gone),
                Ok(_) => {}
            }
        }
        let now = terminal::size();
        if let (Some(before), Some(after)) = (&size, &now) {
            if !terminal::same_size(before, after) {
                tell_size(socket);
            }
        }
        size = now;
    }
}

/// The caller's terminal and the state of the user's input.
struct User {
    keyboard: Keyboard,
    taken: Taken,
    screen: Sink,
    shown: Buffer,
}

impl User {
    fn new(call: &Call) -> Result<Self, String> {
        Ok(Self {
            keyboard: Keyboard::new(call.escape),
            taken: terminal::take_signals()?,
            screen: Sink::new(rustix::stdio::stdout()),
            shown: Buffer::default(),
        })
    }

    /// Waits for input, output, a signal or the next poll. Shows output of the zone, and reads
    /// input of the user.
    fn wait(&mut self, zone: Option<PollFd<'_>>) -> Result<Option<End>, String> {
        let timeout = Timespec::try_from(POLL_INTERVAL).ok();
        let mut watched = vec![PollFd::new(&self.taken, PollFlags::IN)];
        if !self.shown.is_empty() {
            watched.push(PollFd::from_borrowed_fd(
                self.screen.stream(),
                PollFlags::OUT,
            ));
        }
        watched.extend(zone);
        let from_user = watched.len();
        if self.keyboard.listens() && !terminal::in_background() {
            watched.push(PollFd::from_borrowed_fd(terminal::stdin(), PollFlags::IN));
        }
        let waited = match poll(&mut watched, timeout.as_ref()) {
            Ok(_) => true,
            Err(Errno::INTR) => false,
            Err(errno) => return Err(format!("could not wait: {errno}")),
        };
        let typed = watched
            .get(from_user)
            .is_some_and(|one| waited && !one.revents().is_empty());
        if let Some(number) = self.taken.next() {
            return Ok(Some(End::Signal(number)));
        }
        if typed {
            self.keyboard.read();
        }
        let Self { shown, screen, .. } = self;
        let shown = shown.drain(|bytes| screen.write(bytes));
        let over = self.keyboard.left() || (self.keyboard.is_closed() && !self.keyboard.has_more());
        Ok((shown.is_err() || over).then_some(End::Left))
    }
}
