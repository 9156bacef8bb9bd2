//! Runs a program on a pseudo-terminal, as a person would use it.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::run::{ends, shown, start};
use crate::{WAIT_TIMEOUT, wait_for};

/// A running program and its terminal.
#[derive(Debug)]
pub struct Terminal {
    line: String,
    child: Child,
    keyboard: File,
    screen: Arc<Screen>,
    /// The length of the output that `expect` has consumed.
    seen: usize,
}

#[derive(Debug, Default)]
struct Screen {
    text: Mutex<Vec<u8>>,
    changed: Condvar,
}

impl Terminal {
    /// Starts the program with a new terminal as all three standard streams.
    ///
    /// # Panics
    /// Fails if there is no terminal or no such program.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).expect("a pseudo-terminal");
        grantpt(&controller).expect("a pseudo-terminal of ours");
        unlockpt(&controller).expect("a pseudo-terminal of ours");
        let theirs = File::from(ioctl_tiocgptpeer(&controller, flags).expect("its other side"));
        let stream = || Stdio::from(theirs.try_clone().expect("one more descriptor"));
        command.stdin(stream()).stdout(stream()).stderr(stream());
        let line = shown(&command);
        let child = start(&mut command);
        // The command holds copies of the terminal's descriptors, which would hide the end of the
        // output.
        drop(command);
        drop(theirs);
        let keyboard = File::from(controller);
        let screen = Arc::new(Screen::default());
        let mut reader = keyboard.try_clone().expect("one more descriptor");
        let shared = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // EIO: the last process that used the terminal has ended.
            while let Ok(length) = reader.read(&mut piece) {
                if length == 0 {
                    break;
                }
                if let Ok(mut text) = shared.text.lock() {
                    text.extend_from_slice(&piece[..length]);
                }
                shared.changed.notify_all();
            }
        });
        Self {
            line,
            child,
            keyboard,
            screen,
            seen: 0,
        }
    }

    /// Writes a text to the terminal, as a person who types it.
    ///
    /// # Panics
    /// Fails if no process reads the terminal.
    pub fn types(&mut self, text: &str) {
        self.keyboard
            .write_all(text.as_bytes())
            .unwrap_or_else(|error| panic!("{}: {error}", self.line));
    }

    /// Waits until `text` appears in the output that was not consumed yet. Returns the output
    /// before it.
    ///
    /// # Panics
    /// Fails if the text does not appear.
    pub fn expect(&mut self, text: &str) -> String {
        let end = Instant::now() + WAIT_TIMEOUT;
        let mut shown = self.screen.text.lock().expect("the reader does not panic");
        loop {
            let fresh = &shown[self.seen..];
            let hit = fresh
                .windows(text.len())
                .position(|window| window == text.as_bytes());
            if let Some(at) = hit {
                let before = String::from_utf8_lossy(&fresh[..at]).into_owned();
                self.seen += at + text.len();
                return before;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "{}: no {text:?} on the screen, but:\n{}",
                self.line,
                String::from_utf8_lossy(&shown)
            );
            let waited = self.screen.changed.wait_timeout(shown, left);
            shown = waited.expect("the reader does not panic").0;
        }
    }

    /// Waits until a program has put the terminal into raw mode.
    ///
    /// # Panics
    /// Fails if none does.
    pub fn wait_until_raw(&self) {
        use rustix::termios::{LocalModes, tcgetattr};
        wait_for("raw terminal", || {
            let modes = tcgetattr(&self.keyboard).expect("a terminal").local_modes;
            (!modes.contains(LocalModes::ICANON)).then_some(())
        });
    }

    /// Returns the process id of the program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the program's end and returns its exit status.
    ///
    /// # Panics
    /// Fails if the program does not end, or if a signal ends it.
    pub fn status(&mut self) -> i32 {
        let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty());
        let in_time = ends(&pidfd.expect("a child has a pidfd"), WAIT_TIMEOUT);
        assert!(in_time, "{}: no end. {}", self.line, self.all());
        let status = self.child.wait().expect("an ended child has a status");
        status
            .code()
            .unwrap_or_else(|| panic!("{}: {status}. {}", self.line, self.all()))
    }

    fn all(&self) -> String {
        let text = self.screen.text.lock().expect("the reader does not panic");
        format!("On the screen:\n{}", String::from_utf8_lossy(&text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
