//! The zone's console: its history file and its client, of which there is at most one.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use model::ZoneName;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::termios::{Winsize, tcsetwinsize};
use store::Root;

use crate::connection::is_there;
use crate::error::Error;
use control::protocol::ConsolePacket;

/// Maximum size in bytes of each of the two history files.
const MAX_HISTORY: u64 = 1 << 20;

/// Maximum number of bytes that one read or write of the console moves.
const MAX_MOVED_BYTES: usize = 4096;

/// History and client of a console.
#[derive(Debug)]
pub(super) struct Console {
    path: PathBuf,
    history: File,
    size: u64,
    client: Option<Client>,
}

#[derive(Debug)]
struct Client {
    socket: OwnedFd,
    pid: i32,
}

impl Console {
    pub(super) fn open(root: &Root, zone: &ZoneName) -> Result<Self, Error> {
        let path = root.console(zone);
        let fail = |source| Error::Console {
            path: path.clone(),
            source,
        };
        let open = || {
            OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .open(&path)
        };
        let history = match open() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(root.log()).map_err(fail)?;
                open()
            }
            other => other,
        }
        .map_err(fail)?;
        let size = history.metadata().map_err(fail)?.len();
        Ok(Self {
            path,
            history,
            size,
            client: None,
        })
    }

    /// Returns the client's socket, to wait for its input.
    pub(super) fn client(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().map(|client| client.socket.as_fd())
    }

    /// Admits a client. Fails if another client is already connected.
    pub(super) fn admit(&mut self, socket: OwnedFd, pid: i32) -> Result<(), (OwnedFd, i32)> {
        match &self.client {
            Some(there) => Err((socket, there.pid)),
            None => {
                self.client = Some(Client { socket, pid });
                Ok(())
            }
        }
    }

    /// Forgets a client that has disconnected, so that another client can connect.
    pub(super) fn forget_gone_client(&mut self) {
        self.client.take_if(|client| !is_there(&client.socket));
    }

    /// Moves output of the zone to the history and the client. Returns false at the end of the
    /// output; only the serial line of a guest has an end.
    pub(super) fn show_zone_output(&mut self, controller: &OwnedFd) -> bool {
        let mut piece = [0; MAX_MOVED_BYTES];
        match rustix::io::read(controller, &mut piece) {
            Ok(0) | Err(rustix::io::Errno::CONNRESET) => false,
            Ok(length) => {
                self.show(&piece[..length]);
                true
            }
            Err(_) => true,
        }
    }

    /// Writes a notice of zoneadmd to the console, in the format of a Solaris console.
    pub(super) fn notice(&mut self, text: &str) {
        self.show(format!("\r\n[NOTICE: {text}]\r\n").as_bytes());
    }

    /// Writes the notice of a boot, with the arguments of init.
    pub(super) fn booting(&mut self, words: &str) {
        let words: String = words.chars().filter(|c| !c.is_control()).collect();
        self.notice(&match words.is_empty() {
            true => "Zone booting up".to_owned(),
            false => format!("Zone booting up with arguments: {words}"),
        });
    }

    fn show(&mut self, piece: &[u8]) {
        if self.size > MAX_HISTORY {
            self.turn_over();
        }
        // A full disk on the host must not stop the zone; then only the history is lost.
        if self.history.write_all(piece).is_ok() {
            self.size += piece.len() as u64;
        }
        if let Some(client) = &self.client {
            // A client that does not read loses output; the zone never waits for it.
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&client.socket, piece, flags) {
                Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
                Err(_) => self.client = None,
            }
        }
    }

    fn turn_over(&mut self) {
        let mut old = self.path.clone().into_os_string();
        old.push(".0");
        let _ = std::fs::rename(&self.path, old);
        let fresh = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path);
        if let Ok(fresh) = fresh {
            self.history = fresh;
            self.size = 0;
        }
    }

    /// Moves input of the client to the zone.
    pub(super) fn take_client_input(&mut self, controller: &OwnedFd) {
        let Some(client) = &self.client else { return };
        let mut packet = [0; MAX_MOVED_BYTES];
        let received = recv(&client.socket, packet.as_mut_slice(), RecvFlags::DONTWAIT);
        let length = match received {
            Ok((length, _)) if length > 0 => length,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
            _ => {
                self.client = None;
                return;
            }
        };
        match ConsolePacket::read(&packet[..length]) {
            Some(ConsolePacket::Input(typed)) => {
                let _ = rustix::io::write(controller, typed);
            }
            Some(ConsolePacket::Size { rows, columns }) => {
                let size = Winsize {
                    ws_row: rows,
                    ws_col: columns,
                    ws_xpixel: 0,
                    ws_ypixel: 0,
                };
                let _ = tcsetwinsize(controller, size);
            }
            None => {}
        }
    }
}
