//! Serves a connection until its program has ended. Each connection has a thread, so that no
//! connection waits for another.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use authority::reply::{HANGUP, signal_of};
use authority::{End, Reply, Task, request};
use host::Host;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use sys::peer::{Peer, peer};

use crate::decide::{Denied, What, decide};
use crate::doors::{Doors, MAX_PER_USER, Place, Tell};
use crate::listen::Listener;
use crate::log::{Event, Log};
use crate::users::User;
use crate::{program, streams};

/// Timeout for a client to send its request, and to read the reply.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay of each further refusal of a user who has had many refusals.
const REFUSAL_DELAY: Duration = Duration::from_millis(200);

/// Stack size of a connection's thread, in bytes. The small size is enough: the thread has no deep
/// calls and no large values on its stack.
const STACK_BYTES: usize = 256 * 1024;

struct Service {
    host: Host,
    log: Log,
    doors: Arc<Doors>,
    /// The user id that the kernel reports for users without an id in this user namespace; `None`
    /// if all users have one.
    nobody: Option<u32>,
}

/// Accepts and serves connections for ever.
pub fn serve(host: &Host, listener: &Listener) -> Result<(), String> {
    let service = Arc::new(Service {
        host: host.clone(),
        log: Log::new(&host.root),
        doors: Arc::default(),
        nobody: nobody(),
    });
    loop {
        match accept_with(&listener.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => welcome(&service, socket),
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                // Waits until a connection has ended.
                std::thread::sleep(REFUSAL_DELAY);
            }
            Err(errno) => return Err(format!("could not accept connections: {errno}")),
        }
    }
}

/// Returns the overflow user id, which stands for unmapped users; `None` if all ids are mapped in
/// this user namespace.
fn nobody() -> Option<u32> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let map = read("/proc/self/uid_map");
    let all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let overflow = read("/proc/sys/kernel/overflowuid");
    (!all).then(|| overflow.trim().parse().unwrap_or(65_534))
}

/// Starts a thread for a connection, or closes the connection.
fn welcome(service: &Arc<Service>, socket: OwnedFd) {
    let Ok(peer) = peer(socket.as_fd()) else {
        return;
    };
    let Some(place) = Doors::enter(&service.doors, peer.uid) else {
        let why = format!("{MAX_PER_USER} commands of one user at a time are the most");
        let denied = Denied {
            what: What::default(),
            told: why.clone(),
            why,
        };
        match service.doors.refused(peer.uid) {
            Tell::Count => {}
            tell => service.write_refusal(&User::of(peer.uid), peer, &denied, tell),
        }
        // The send never waits, because this thread accepts all connections.
        let _ = send(
            &socket,
            &Reply::Refused(denied.told).encode(),
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        );
        return;
    };
    let guest = Guest {
        service: Arc::clone(service),
        socket: Arc::new(socket),
        peer,
        _place: place,
    };
    // If no thread can be started, the connection is closed, and the client reports the closed
    // connection.
    let _ = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || guest.serve());
}

/// An accepted connection.
struct Guest {
    service: Arc<Service>,
    socket: Arc<OwnedFd>,
    peer: Peer,
    _place: Place,
}

impl Guest {
    fn serve(&self) {
        let service = &self.service;
        for timeout in [Timeout::Recv, Timeout::Send] {
            if set_socket_timeout(&self.socket, timeout, Some(CLIENT_TIMEOUT)).is_err() {
                return;
            }
        }
        service.doors.wait(&self.socket);
        let mut packet = vec![0; request::MAX_SIZE + 1];
        let received = recv(&self.socket, packet.as_mut_slice(), RecvFlags::empty());
        service.doors.spoke(&self.socket);
        let Ok((length @ 1.., _)) = received else {
            // The client sent no request.
            return;
        };
        packet.truncate(length);
        let user = User::of(self.peer.uid);
        let decided = self
            .is_somebody()
            .and_then(|()| decide(&service.host.root, &user, &packet));
        match decided {
            Ok((request, task)) => {
                service
                    .log
                    .add(&user, self.peer, &What::of(&task), Event::Granted);
                let ended = self.run(&user, &request, &task);
                let how = ended.map_or_else(|error| error, |status| status.to_string());
                service
                    .log
                    .add(&user, self.peer, &What::of(&task), Event::Ended(&how));
            }
            Err(denied) => {
                let tell = service.doors.refused(self.peer.uid);
                service.write_refusal(&user, self.peer, &denied, tell);
                if tell == Tell::Count {
                    std::thread::sleep(REFUSAL_DELAY);
                }
                self.say(&Reply::Refused(denied.told));
            }
        }
    }

    /// Refuses clients without a user id in this namespace. Also refuses root, who does not need
    /// zoneauthd.
    fn is_somebody(&self) -> Result<(), Denied> {
        let why = match self.peer.uid {
            0 => "root does it itself",
            uid if Some(uid) == self.service.nobody => "a user that this host does not have",
            _ => return Ok(()),
        };
        Err(Denied {
            what: What::default(),
            why: why.to_owned(),
            told: why.to_owned(),
        })
    }

    fn say(&self, reply: &Reply) -> bool {
        send(&self.socket, &reply.encode(), SendFlags::NOSIGNAL).is_ok()
    }

    /// Runs the program of a request until the program ends.
    fn run(
        &self,
        user: &User,
        request: &authority::Request,
        task: &Task,
    ) -> Result<ExitStatus, String> {
        let streams = streams::make(request).map_err(|error| {
            let text = format!("no streams: {error}");
            self.say(&Reply::Refused(text.clone()));
            text
        })?;
        let sent = self.say(&Reply::Granted)
            && streams
                .user
                .iter()
                .all(|end| sys::passing::send(self.socket.as_fd(), end.as_fd(), "-").is_ok());
        if !sent {
            return Err("the client has gone".to_owned());
        }
        drop(streams.user);
        let started = program::start(&self.service.host, user, request, task, streams.program);
        let mut child = started.map_err(|error| {
            self.say(&Reply::Refused(error.to_string()));
            error.to_string()
        })?;
        let status = match self.attend(&mut child) {
            Ok(status) => status,
            // The program still runs. zoneauthd can no longer pass signals to the program, but
            // waits for its end.
            Err(_) => child.wait().map_err(|error| error.to_string())?,
        };
        let end = match (status.code(), status.signal()) {
            (Some(code), _) => End::Status(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, signal) => End::Signal(signal.and_then(|n| u8::try_from(n).ok()).unwrap_or(0)),
        };
        self.say(&Reply::Ended(end));
        Ok(status)
    }

    /// Passes signals of the user to the program until the program has ended.
    fn attend(&self, child: &mut Child) -> Result<ExitStatus, String> {
        let text = |error: std::io::Error| error.to_string();
        let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
        let pidfd = pidfd.map_err(|errno| text(errno.into()))?;
        let mut client = true;
        loop {
            let mut watched = vec![PollFd::new(&pidfd, PollFlags::IN)];
            if client {
                watched.push(PollFd::new(&*self.socket, PollFlags::IN));
            }
            match poll(&mut watched, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(text(errno.into())),
            }
            let came = |at: usize| watched.get(at).is_some_and(|one| !one.revents().is_empty());
            if came(0) {
                return child.wait().map_err(text);
            }
            if came(1) {
                let mut packet = [0; 64];
                match recv(&self.socket, &mut packet, RecvFlags::DONTWAIT) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Ok((length @ 1.., _)) => {
                        if let Some(number) = signal_of(&packet[..length]) {
                            pass_on(child, number);
                        }
                    }
                    Ok((0, _)) | Err(_) => {
                        client = false;
                        pass_on(child, HANGUP);
                    }
                }
            }
        }
    }
}

/// Sends a signal to the program's process group.
fn pass_on(child: &Child, number: i32) {
    let Some(signal) = Signal::from_named_raw(number) else {
        return;
    };
    // The program is not reaped, so the ids of its process and process group are still valid.
    let pid = Pid::from_child(child);
    if kill_process_group(pid, signal).is_err() {
        // The program is not yet the leader of a session.
        let _ = kill_process(pid, signal);
    }
}

impl Service {
    fn write_refusal(&self, user: &User, peer: Peer, denied: &Denied, tell: Tell) {
        let why = match tell {
            Tell::Count => return,
            Tell::Log { before: 0 } => denied.why.clone(),
            Tell::Log { before } => {
                format!("{} ({before} more before were not logged)", denied.why)
            }
        };
        self.log.add(user, peer, &denied.what, Event::Refused(&why));
    }
}
