//! Carries the messages of both QEMUs over the wire during a live migration, and tells each side
//! about the progress of the other side: the source's part.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::channels::{self, Out};
use crate::wire::{Frame, Wire, plain, receive};
use control::protocol::{Left, MAX_PACKET, Word};
use host::fault::Fault;

/// Maximum number of rounds in which QEMU sends changed memory. QEMU slows a guest down that
/// changes memory faster than QEMU can send it, in the end to a hundredth of its speed. A guest
/// that needs more rounds than this number never becomes ready.
const MAX_MEMORY_ROUNDS: u64 = 40;

/// Maximum amount of disk data that is sent, as a multiple of the amount in zoneadmd's first
/// report.
const MAX_DISK_FACTOR: u64 = 4;

/// Timeout for an answer of the target or of zoneadmd while the guest is paused.
const STOPPED_REPLY_TIMEOUT: Duration = Duration::from_secs(180);

/// Timeout of a read from zoneadmd's socket, after which the thread checks whether it must end.
const ZONEADMD_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of messages from the target that are not channel data. The target has only three
/// answers to give, and each message stays in memory until it is read.
const MAX_TARGET_MESSAGES: usize = 16;

/// A message or event that a thread reports while channels are carried.
enum Heard {
    Zoneadmd(Left),
    ZoneadmdIsGone,
    Target(Frame, Vec<u8>),
    TargetIsGone(io::Error),
    /// All data of a disk is on the wire.
    DiskIsSent,
    /// All data of the memory is on the wire.
    MemoryIsSent,
}

/// The result of carrying a guest's data to the target.
pub(super) enum Carried {
    /// The target has all data, and the guest is paused since this time.
    Whole(Instant),
    /// The live migration was cancelled for this reason, and both sides are in the state before it.
    Undone(String),
    /// The connection to the target or to zoneadmd was lost, with the reason.
    Lost(String),
}

pub(super) fn word(socket: &OwnedFd, word: Word) {
    // Serialization cannot fail, because a word contains only plain data.
    let packet = serde_json::to_vec(&word).unwrap_or_default();
    // An error is ignored: if zoneadmd has ended, the missing answer shows it.
    let _ = send(socket, &packet, SendFlags::NOSIGNAL);
}

/// Returns the next message of zoneadmd; `None` if zoneadmd has ended.
pub(super) fn hear(socket: &OwnedFd) -> Option<Left> {
    let mut packet = [0; MAX_PACKET];
    let received = rustix::io::retry_on_intr(|| recv(socket, &mut packet, RecvFlags::empty()));
    match received {
        Ok((length @ 1.., _)) => serde_json::from_slice(&packet[..length]).ok(),
        _ => None,
    }
}

/// Returns true if the guest writes to a disk faster than the disk can be sent.
const fn is_hopeless(first: u64, total: u64) -> bool {
    // The limit has 4 GiB more, because small disks may be sent many times in a short time.
    total
        > first
            .saturating_mul(MAX_DISK_FACTOR)
            .saturating_add(4 << 30)
}

pub(super) struct Carrying<'a> {
    pub(super) socket: &'a OwnedFd,
    /// A connection for each disk, and as the last one the connection for the memory.
    pub(super) channels: &'a [UnixStream],
    pub(super) fault: &'a mut Fault,
    pub(super) progress: &'a mut dyn FnMut(&str),
}

type Pipes = Wire<io::BufReader<ChildStdout>, io::BufWriter<ChildStdin>>;

impl Carrying<'_> {
    pub(super) fn carry(mut self, child: &mut Child, wire: &mut Pipes) -> Carried {
        let (from, out) = wire.halves();
        let (tell, heard) = channel();
        let all: Vec<&UnixStream> = self.channels.iter().collect();
        let memory = all.len() - 1;
        let socket = self.socket;
        let over = AtomicBool::new(false);
        // The timeout lets the thread that listens to zoneadmd notice the end of this function's
        // work.
        let _ = set_socket_timeout(socket, Timeout::Recv, Some(ZONEADMD_POLL_INTERVAL));
        let ended = std::thread::scope(|scope| {
            for (number, one) in (0_u8..).zip(&all) {
                let (out, tell) = (&out, tell.clone());
                scope.spawn(move || {
                    if channels::carry(number, one, out).is_ok() {
                        let _ = tell.send(match usize::from(number) == memory {
                            true => Heard::MemoryIsSent,
                            false => Heard::DiskIsSent,
                        });
                    }
                });
            }
            let (tell_too, over) = (tell.clone(), &over);
            scope.spawn(move || listen_to_zoneadmd(socket, &tell_too, over));
            let disks = &all[..memory];
            scope.spawn(move || listen_to_target(from, disks, &tell));
            let ended = self.converse(&heard, &out, child);
            channels::end(&all);
            over.store(true, Ordering::Relaxed);
            ended
        });
        let _ = set_socket_timeout(socket, Timeout::Recv, None);
        ended
    }

    /// Tells each side about the progress of the other side, up to the end or the cancellation.
    fn converse<W: Write>(
        &mut self,
        heard: &Receiver<Heard>,
        out: &Out<'_, W>,
        child: &mut Child,
    ) -> Carried {
        match self.lead(heard, out) {
            Ok(since) => Carried::Whole(since),
            Err(Stop::Lost(why)) => {
                // The end of the ssh child also ends the threads that read from it or wait to write
                // to it.
                let _ = child.kill();
                Carried::Lost(why)
            }
            Err(Stop::Undo { why, told }) => {
                if !told {
                    word(self.socket, Word::Stay);
                }
                match undo(heard, out, told) {
                    Ok(()) => Carried::Undone(why),
                    Err(also) => {
                        let _ = child.kill();
                        Carried::Lost(format!("{why}; {also}"))
                    }
                }
            }
        }
    }

    /// Leads both sides to the point where the guest is paused and the target has all its data.
    /// Returns the time at which the guest was paused.
    fn lead<W: Write>(
        &mut self,
        heard: &Receiver<Heard>,
        out: &Out<'_, W>,
    ) -> Result<Instant, Stop> {
        let mut stage = Stage::new(self.channels.len().saturating_sub(1));
        loop {
            let next = stage.next(heard)?;
            let is_over = match next {
                Heard::Zoneadmd(left) => self.hear_zoneadmd(left, &mut stage).map(|()| false),
                Heard::Target(frame, body) => self.hear_target(frame, &body, &mut stage),
                Heard::DiskIsSent => {
                    stage.disks = stage.disks.saturating_sub(1);
                    Ok(false)
                }
                Heard::MemoryIsSent => {
                    stage.carried = true;
                    Ok(false)
                }
                Heard::TargetIsGone(error) => Err(Stop::Lost(error.to_string())),
                Heard::ZoneadmdIsGone => Err(zoneadmd_is_gone()),
            };
            if let (true, Some(since)) = (is_over?, stage.stands) {
                return Ok(since);
            }
            self.tell_target(out, &mut stage)?;
        }
    }

    /// Handles a message of zoneadmd.
    fn hear_zoneadmd(&mut self, left: Left, stage: &mut Stage) -> Result<(), Stop> {
        match left {
            Left::Disks { done, total } => {
                let first = *stage.first_total.get_or_insert(total);
                if is_hopeless(first, total) {
                    return Err(undone(
                        "its disks are written to faster than they can be sent",
                    ));
                }
                let (done, total) = (done / 1_000_000, total / 1_000_000);
                self.report(stage, || format!("Disks: {done} of {total} MB sent."));
            }
            Left::Memory { left, sent, rounds } => {
                if rounds > MAX_MEMORY_ROUNDS {
                    return Err(undone(
                        "its memory is written to faster than it can be sent",
                    ));
                }
                let (sent, left) = (sent / 1_000_000, left / 1_000_000);
                self.report(stage, || {
                    format!("Memory: {sent} MB sent, {left} MB left in round {rounds}.")
                });
            }
            Left::Stands => {
                stage.stands = Some(Instant::now());
                self.strike()?;
            }
            Left::Sent => stage.sent = true,
            Left::Failed(why) => return Err(Stop::Undo { why, told: true }),
            Left::Done => return Err(zoneadmd_is_gone()),
        }
        Ok(())
    }

    /// Handles a message of the target. Returns true if the target reports that it has all data of
    /// the guest.
    fn hear_target(&self, frame: Frame, body: &[u8], stage: &mut Stage) -> Result<bool, Stop> {
        match frame {
            Frame::Done if stage.closed && !stage.went => {
                stage.went = true;
                word(self.socket, Word::Go);
                Ok(false)
            }
            Frame::Over if stage.asked && stage.stands.is_some() => Ok(true),
            Frame::Over => Err(Stop::Lost(
                "the target says that it has all before it was asked".to_owned(),
            )),
            Frame::Refused => Err(undone(&plain(body))),
            Frame::Failed => Err(Stop::Lost(plain(body))),
            _ => Err(Stop::Lost(
                "the target sent an unexpected message; its programs may be of another version"
                    .to_owned(),
            )),
        }
    }

    /// Tells the target that all data of the disks, or of the memory, was sent, once the data is on
    /// the wire.
    fn tell_target<W: Write>(&mut self, out: &Out<'_, W>, stage: &mut Stage) -> Result<(), Stop> {
        let lost = |error: io::Error| Stop::Lost(error.to_string());
        if stage.stands.is_some() && stage.disks == 0 && !stage.closed {
            stage.closed = true;
            out.say(Frame::DisksSent, &[]).map_err(lost)?;
        }
        if stage.sent && stage.carried && !stage.asked {
            stage.asked = true;
            self.strike()?;
            out.say(Frame::MemorySent, &[]).map_err(lost)?;
        }
        Ok(())
    }

    /// Reports progress, at most once in [`PROGRESS_INTERVAL`].
    fn report(&mut self, stage: &mut Stage, text: impl FnOnce() -> String) {
        if stage.reported.elapsed() >= PROGRESS_INTERVAL {
            stage.reported = Instant::now();
            (self.progress)(&text());
        }
    }

    fn strike(&mut self) -> Result<(), Stop> {
        match self.fault.strikes("live") {
            true => Err(undone("a fault was asked for")),
            false => Ok(()),
        }
    }
}

/// The progress of a live migration.
struct Stage {
    /// The time at which the guest was paused; `None` while it runs.
    stands: Option<Instant>,
    /// Number of disks with data that is not on the wire yet. Data of a disk after the order to
    /// close the disk would have no reader.
    disks: usize,
    /// True after the target was told that all disks are sent.
    closed: bool,
    /// True after zoneadmd was told to send the rest of the memory.
    went: bool,
    /// True after zoneadmd has sent all memory.
    sent: bool,
    /// True after all memory is on the wire.
    carried: bool,
    /// True after the target was asked whether it has all data.
    asked: bool,
    /// Bytes of disk data in the first report of zoneadmd.
    first_total: Option<u64>,
    /// The time of the last progress report.
    reported: Instant,
}

impl Stage {
    fn new(disks: usize) -> Self {
        Self {
            stands: None,
            disks,
            closed: false,
            went: false,
            sent: false,
            carried: false,
            asked: false,
            first_total: None,
            reported: Instant::now(),
        }
    }

    /// Waits for the next message. While the guest is paused, the wait has a timeout.
    fn next(&self, heard: &Receiver<Heard>) -> Result<Heard, Stop> {
        let next = match self.stands {
            None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => heard.recv_timeout(STOPPED_REPLY_TIMEOUT),
        };
        next.map_err(|error| match error {
            RecvTimeoutError::Timeout => undone(&format!(
                "no answer within {} s while it stands still",
                STOPPED_REPLY_TIMEOUT.as_secs()
            )),
            RecvTimeoutError::Disconnected => {
                Stop::Lost("zoneadmd and the target have both closed their connections".to_owned())
            }
        })
    }
}

fn zoneadmd_is_gone() -> Stop {
    Stop::Lost("its zoneadmd went away".to_owned())
}

/// The reason why a live migration stops.
enum Stop {
    /// Both sides can be told to cancel. `told` is true if the source's zoneadmd knows already.
    Undo { why: String, told: bool },
    /// A connection is closed, or an answer makes no sense.
    Lost(String),
}

/// Returns the message that an answer did not arrive in time.
fn late() -> String {
    let seconds = STOPPED_REPLY_TIMEOUT.as_secs();
    format!("no answer within {seconds} s while the machine stands still")
}

fn undone(why: &str) -> Stop {
    Stop::Undo {
        why: why.to_owned(),
        told: false,
    }
}

/// The reason why it is unknown whether a side has returned to the state before the live migration.
#[derive(Debug, thiserror::Error)]
enum NotUndone {
    /// The connection to the target failed.
    #[error(transparent)]
    Connection(#[from] io::Error),
    /// The target reports that the cancellation failed.
    #[error("{0}")]
    Target(String),
    /// The source's zoneadmd ended before it reported the cancellation.
    #[error("its zoneadmd went away")]
    NoZoneadmd,
    /// The target or zoneadmd did not report the cancellation in time.
    #[error("{}", late())]
    Late,
}

/// Cancels the live migration, and waits until both sides report the cancellation.
///
/// # Errors
/// Fails with [`NotUndone`] if a side does not report the cancellation.
fn undo<W: Write>(heard: &Receiver<Heard>, out: &Out<'_, W>, told: bool) -> Result<(), NotUndone> {
    let (mut here, mut there) = (told, false);
    // The target is told now: zoneadmd already has the order to let the guest run again, and the
    // wait for the target's answer follows.
    out.say(Frame::Undo, &[])?;
    while !(here && there) {
        match heard.recv_timeout(STOPPED_REPLY_TIMEOUT) {
            Ok(Heard::Zoneadmd(Left::Failed(_))) => here = true,
            Ok(Heard::Target(Frame::Over, _)) => there = true,
            Ok(Heard::Target(Frame::Failed, why)) => return Err(NotUndone::Target(plain(&why))),
            Ok(Heard::TargetIsGone(error)) => return Err(error.into()),
            // zoneadmd closes its socket after it has reported the cancellation.
            Ok(Heard::ZoneadmdIsGone) if !here => return Err(NotUndone::NoZoneadmd),
            Ok(_) => {}
            Err(_) => return Err(NotUndone::Late),
        }
    }
    Ok(())
}

/// Reads messages of zoneadmd up to the end of the connection, or until the receiver of the
/// messages has ended.
fn listen_to_zoneadmd(socket: &OwnedFd, tell: &Sender<Heard>, over: &AtomicBool) {
    let mut reset = false;
    while !over.load(Ordering::Relaxed) {
        let mut packet = [0; MAX_PACKET];
        let heard = match recv(socket, &mut packet, RecvFlags::empty()) {
            // zoneadmd closed its socket before it had read all messages. Its own last messages can
            // still be read.
            Err(rustix::io::Errno::CONNRESET) if !reset => {
                reset = true;
                continue;
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
            Ok((length @ 1.., _)) => serde_json::from_slice(&packet[..length]).ok(),
            _ => None,
        };
        let last = heard.is_none();
        let heard = heard.map_or(Heard::ZoneadmdIsGone, Heard::Zoneadmd);
        if tell.send(heard).is_err() || last {
            return;
        }
    }
}

/// Reads messages of the target up to its last message about channels.
fn listen_to_target(from: &mut impl Read, disks: &[&UnixStream], tell: &Sender<Heard>) {
    let mut said = 0;
    loop {
        let heard = match receive(from, channels::MAX_FRAME_BYTES) {
            Ok(Some((Frame::Channel, body))) => {
                // An error is ignored, because QEMU itself notices missing data.
                let _ = channels::deliver(disks, &body);
                continue;
            }
            Ok(Some(_)) if said == MAX_TARGET_MESSAGES => {
                Heard::TargetIsGone(io::Error::other("it says too much"))
            }
            Ok(Some((kind, body))) => {
                said += 1;
                Heard::Target(kind, body)
            }
            Ok(None) => Heard::TargetIsGone(io::Error::other("the connection ended")),
            Err(error) => Heard::TargetIsGone(error),
        };
        let last = match &heard {
            Heard::Target(kind, _) => matches!(kind, Frame::Over | Frame::Failed),
            _ => true,
        };
        if tell.send(heard).is_err() || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sides {
        tell: Sender<Heard>,
        heard: Receiver<Heard>,
        ours: OwnedFd,
        zoneadmd: UnixStream,
    }

    fn sides() -> Sides {
        let (tell, heard) = channel();
        let (ours, zoneadmd) = UnixStream::pair().unwrap();
        Sides {
            tell,
            heard,
            ours: ours.into(),
            zoneadmd,
        }
    }

    fn lead(sides: &Sides, fault: &str, sent: &mut Vec<u8>) -> Result<Instant, Stop> {
        let mut fault = fault.parse().unwrap_or_default();
        Carrying {
            socket: &sides.ours,
            channels: &[],
            fault: &mut fault,
            progress: &mut |_| {},
        }
        .lead(&sides.heard, &Out::new(sent))
    }

    fn said(sides: Sides) -> String {
        let Sides {
            ours, mut zoneadmd, ..
        } = sides;
        drop(ours);
        let mut text = String::new();
        zoneadmd.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn each_side_is_told_in_turn() {
        let sides = sides();
        for heard in [
            Heard::Zoneadmd(Left::Disks { done: 1, total: 2 }),
            Heard::Zoneadmd(Left::Memory {
                left: 1,
                sent: 2,
                rounds: 3,
            }),
            Heard::Zoneadmd(Left::Stands),
            Heard::Target(Frame::Done, Vec::new()),
            Heard::MemoryIsSent,
            Heard::Zoneadmd(Left::Sent),
            Heard::Target(Frame::Over, Vec::new()),
        ] {
            sides.tell.send(heard).unwrap();
        }
        let mut sent = Vec::new();
        assert!(lead(&sides, "", &mut sent).is_ok());
        assert_eq!(sent, b"q\0\0\0\0g\0\0\0\0");
        assert_eq!(said(sides), "\"go\"");
    }

    #[test]
    fn disks_are_closed_when_all_of_them_is_on_the_wire() {
        let sides = sides();
        let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        let channels: Vec<UnixStream> = pairs.into_iter().map(|pair| pair.0).collect();
        for heard in [
            Heard::Zoneadmd(Left::Stands),
            Heard::Target(Frame::Done, vec![]),
        ] {
            sides.tell.send(heard).unwrap();
        }
        let mut sent = Vec::new();
        let mut fault = Fault::default();
        let led = Carrying {
            socket: &sides.ours,
            channels: &channels,
            fault: &mut fault,
            progress: &mut |_| {},
        }
        .lead(&sides.heard, &Out::new(&mut sent));
        // The disk's data is not on the wire yet, so this answer of the target belongs to no
        // question.
        assert!(matches!(led, Err(Stop::Lost(_))));
        assert!(sent.is_empty());
        for heard in [
            Heard::DiskIsSent,
            Heard::Zoneadmd(Left::Stands),
            Heard::Target(Frame::Refused, b"full".to_vec()),
        ] {
            sides.tell.send(heard).unwrap();
        }
        let mut told = Carrying {
            socket: &sides.ours,
            channels: &channels,
            fault: &mut fault,
            progress: &mut |_| {},
        };
        let led = told.lead(&sides.heard, &Out::new(&mut sent));
        assert!(matches!(led, Err(Stop::Undo { .. })));
        assert_eq!(sent, b"q\0\0\0\0");
    }

    #[test]
    fn a_migration_that_does_not_converge_is_given_up() {
        let rounds = |rounds| {
            Heard::Zoneadmd(Left::Memory {
                left: 1,
                sent: 2,
                rounds,
            })
        };
        let disks = |total| Heard::Zoneadmd(Left::Disks { done: 1, total });
        for (first, last, why) in [
            (
                rounds(MAX_MEMORY_ROUNDS),
                rounds(MAX_MEMORY_ROUNDS + 1),
                "its memory",
            ),
            (disks(1 << 30), disks(1 << 40), "its disks"),
            (
                disks(1),
                Heard::Target(Frame::Refused, b"no\x1b space".to_vec()),
                "no space",
            ),
        ] {
            let sides = sides();
            sides.tell.send(first).unwrap();
            sides.tell.send(last).unwrap();
            match lead(&sides, "", &mut Vec::new()) {
                Err(Stop::Undo { why: said, told }) => {
                    assert!(said.starts_with(why) && !told, "{said}");
                }
                _ => panic!("{why}"),
            }
        }
    }

    #[test]
    fn a_target_that_answers_before_the_machine_pauses_is_refused() {
        for odd in [
            Heard::Target(Frame::Done, Vec::new()),
            Heard::Target(Frame::Over, Vec::new()),
            Heard::Target(Frame::Commit, Vec::new()),
            Heard::ZoneadmdIsGone,
            Heard::TargetIsGone(io::Error::other("gone")),
        ] {
            let sides = sides();
            sides.tell.send(odd).unwrap();
            let mut sent = Vec::new();
            assert!(matches!(lead(&sides, "", &mut sent), Err(Stop::Lost(_))));
            assert!(sent.is_empty());
            assert_eq!(said(sides), "");
        }
    }

    #[test]
    fn a_target_that_talks_without_end_is_not_heard() {
        let (tell, heard) = channel();
        let many = b"k\0\0\0\0".repeat(10 * MAX_TARGET_MESSAGES);
        let said = [b"b\0\0\0\x01\x07".as_slice(), &many].concat();
        listen_to_target(&mut said.as_slice(), &[], &tell);
        drop(tell);
        let all: Vec<Heard> = heard.iter().collect();
        assert_eq!(all.len(), MAX_TARGET_MESSAGES + 1);
        assert!(matches!(all.last(), Some(Heard::TargetIsGone(_))));
    }

    #[test]
    fn both_sides_must_say_that_they_are_as_before() {
        let undone = |all: Vec<Heard>, told| {
            let (tell, heard) = channel();
            all.into_iter().for_each(|one| tell.send(one).unwrap());
            drop(tell);
            undo(&heard, &Out::new(&mut Vec::new()), told)
        };
        let here = || Heard::Zoneadmd(Left::Failed("x".to_owned()));
        let there = || Heard::Target(Frame::Over, Vec::new());
        assert!(undone(vec![Heard::MemoryIsSent, here(), there()], false).is_ok());
        assert!(undone(vec![there()], true).is_ok());
        assert!(undone(vec![there()], false).is_err());
        assert!(undone(vec![here()], false).is_err());
        let hangs_up = vec![here(), Heard::ZoneadmdIsGone, there()];
        assert!(undone(hangs_up, false).is_ok());
        assert!(undone(vec![Heard::ZoneadmdIsGone, there()], false).is_err());
    }
}
