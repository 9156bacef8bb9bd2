//! Worker processes that change trees, as the host's root or as the root of a zone.
//!
//! Only a process with one thread can join a user namespace. Therefore each worker is this program
//! started again, and the test talks to the worker through a socket.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::fs::{Gid, Mode, Uid};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::thread::LinkNameSpaceType;

use crate::ops::{Op, Tree, apply, snapshot};

/// The argument that makes this program a worker.
pub const ARGUMENT: &str = "--worker";

/// The answer to a list of calls: their error numbers and the tree after them.
pub type Answer = Result<(Vec<i32>, Tree), String>;

/// A worker process. Dropping this value ends the process.
pub struct Worker {
    child: Child,
    socket: UnixStream,
}

impl Worker {
    /// Starts a worker, inside a user namespace if one is given.
    pub fn start(userns: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let child = Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let mut worker = Self { child, socket };
        // A descriptor must be sent in any case. The flag tells whether it is a namespace.
        let own = worker.socket.try_clone()?;
        let fd = userns.unwrap_or(own.as_fd());
        worker.send(&[u8::from(userns.is_some())], fd)?;
        Ok(worker)
    }

    /// Carries out `ops` in the tree at `root`. The worker has closed `root` when this call
    /// returns.
    pub fn work(&mut self, root: OwnedFd, ops: &[Op]) -> io::Result<Answer> {
        let text = serde_json::to_vec(ops)?;
        self.send(
            &u32::try_from(text.len()).unwrap().to_ne_bytes(),
            root.as_fd(),
        )?;
        drop(root);
        self.socket.write_all(&text)?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut text = vec![0; u32::from_ne_bytes(length) as usize];
        self.socket.read_exact(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn send(&mut self, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
        let fds = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let sent = rustix::net::sendmsg(
            &self.socket,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::empty(),
        )?;
        assert_eq!(sent, bytes.len());
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The worker ends when its socket is closed.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// Runs a worker process.
pub fn serve() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut flag = [0];
    let Some(fd) = receive(&socket, &mut flag)? else {
        return Ok(());
    };
    rustix::process::umask(Mode::from_raw_mode(0o022));
    if flag[0] == 1 {
        rustix::thread::move_into_link_name_space(fd.as_fd(), Some(LinkNameSpaceType::User))?;
        let (uid, gid) = (Uid::ROOT, Gid::ROOT);
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    drop(fd);
    let mut length = [0; 4];
    while let Some(root) = receive(&socket, &mut length)? {
        let mut text = vec![0; u32::from_ne_bytes(length) as usize];
        (&socket).read_exact(&mut text)?;
        let ops: Vec<Op> = serde_json::from_slice(&text)?;
        rustix::process::fchdir(&root)?;
        drop(root);
        let results = ops.iter().map(apply).collect::<Vec<_>>();
        let answer: Answer = snapshot()
            .map(|tree| (results, tree))
            .map_err(|e| e.to_string());
        std::env::set_current_dir("/")?;
        let text = serde_json::to_vec(&answer)?;
        (&socket).write_all(&u32::try_from(text.len()).unwrap().to_ne_bytes())?;
        (&socket).write_all(&text)?;
    }
    Ok(())
}

fn receive(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if message.bytes == 0 {
        return Ok(None);
    }
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            return Ok(fds.next());
        }
    }
    Err(io::Error::other("a message without descriptor"))
}
