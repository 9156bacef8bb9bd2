//! `zlogin -C`: the zone's console, over halts and boots.

use std::os::fd::OwnedFd;
use std::time::Duration;

use model::{State, ZoneName};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::Timespec;
use store::index::Index;
use zone::daemon::client;
use zone::daemon::protocol::{ConsolePacket, Request};
use zone::platform::flatten;
use zone::{Error, Host, subject};

use crate::call::Call;
use crate::escape::Escape;
use crate::terminal::{self, Raw};

/// Longest piece moved at a time.
const PIECE: usize = 4096;

/// How often a halted zone is looked at, and how often the size of the window.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Why the connection ended.
enum End {
    /// The user left.
    Left,
    /// The zone halted, or reboots.
    Gone,
}

pub fn attach(host: &Host, call: &Call, leave_on_halt: bool) -> Result<u8, String> {
    let unknown = || format!("zone '{}' unknown", call.zone);
    let zone: ZoneName = call.zone.parse().map_err(|_| unknown())?;
    let state = state_of(host, &zone)?.ok_or_else(unknown)?;
    if state < State::Installed {
        return Err(format!("cannot login to a zone which is '{state}'"));
    }
    let mut escape = Escape::new(call.escape);
    let mut connection = connect(host, &zone)?;
    if !call.quiet {
        println!("[Connected to zone '{zone}' console]");
    }
    let raw = Raw::enter();
    loop {
        let end = match &connection {
            Some(socket) => pump(socket, &mut escape)?,
            None => wait(&mut escape)?,
        };
        match end {
            End::Left => break,
            End::Gone if leave_on_halt => break,
            End::Gone => connection = connect(host, &zone).unwrap_or(None),
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

/// Joins the console of an active zone; `None` while it is halted.
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
        let mut packet = vec![ConsolePacket::Size.tag()];
        packet.extend(size.ws_row.to_le_bytes());
        packet.extend(size.ws_col.to_le_bytes());
        let _ = send(socket, &packet, SendFlags::NOSIGNAL);
    }
}

fn pump(socket: &OwnedFd, escape: &mut Escape) -> Result<End, String> {
    let mut size = terminal::size();
    loop {
        let [from_user, from_zone] = ready(Some(socket))?;
        if from_zone {
            let mut piece = [0; PIECE];
            match recv(socket, piece.as_mut_slice(), RecvFlags::empty()) {
                Ok((length, _)) if length > 0 => {
                    if !terminal::show(&piece[..length]) {
                        return Ok(End::Left);
                    }
                }
                _ => return Ok(End::Gone),
            }
        }
        if from_user {
            let Some(typed) = read_typed(escape)? else {
                return Ok(End::Left);
            };
            if !typed.send.is_empty() {
                let packet = [&[ConsolePacket::Input.tag()], typed.send.as_slice()].concat();
                if send(socket, &packet, SendFlags::NOSIGNAL).is_err() {
                    return Ok(End::Gone);
                }
            }
            if typed.leave {
                return Ok(End::Left);
            }
        }
        let now = terminal::size();
        let changed = |a: &rustix::termios::Winsize, b: &rustix::termios::Winsize| {
            (a.ws_row, a.ws_col) != (b.ws_row, b.ws_col)
        };
        if let (Some(before), Some(after)) = (&size, &now) {
            if changed(before, after) {
                tell_size(socket);
            }
        }
        size = now;
    }
}

/// While the zone is halted: the user may leave, and now and then we look again.
fn wait(escape: &mut Escape) -> Result<End, String> {
    let [from_user, _] = ready(None)?;
    if !from_user {
        return Ok(End::Gone);
    }
    Ok(match read_typed(escape)? {
        Some(typed) if !typed.leave => End::Gone,
        _ => End::Left,
    })
}

/// `None` at the end of input.
fn read_typed(escape: &mut Escape) -> Result<Option<crate::escape::Typed>, String> {
    let mut piece = [0; PIECE - 1];
    match rustix::io::read(terminal::stdin(), &mut piece) {
        Ok(0) => Ok(None),
        Ok(length) => Ok(Some(escape.typed(&piece[..length]))),
        Err(errno) => Err(format!("could not read standard input: {errno}")),
    }
}

fn ready(socket: Option<&OwnedFd>) -> Result<[bool; 2], String> {
    let stdin = terminal::stdin();
    let timeout = Timespec::try_from(LOOK_EVERY).ok();
    let mut watched = vec![PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
    watched.extend(socket.map(|socket| PollFd::new(socket, PollFlags::IN)));
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(format!("could not wait: {errno}")),
    }
    let spoke = |i: usize| watched.get(i).is_some_and(|one| !one.revents().is_empty());
    Ok([spoke(0), spoke(1)])
}
