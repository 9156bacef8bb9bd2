//! The virtual serial port to the host.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of checks for the port: at boot its driver may still be loading.
const MAX_PORT_POLLS: u32 = 600;

/// Interval between checks for the port.
const PORT_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between checks whether a program of the host has connected to the port again.
const RECONNECT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The byte that makes the reader drop all bytes received before it.
const SEPARATOR: u8 = 0xff;

/// The open serial port.
#[derive(Debug)]
pub struct Port {
    file: File,
    read: Vec<u8>,
}

impl Port {
    /// Opens `device`, or waits until the port of the agent appears and opens it.
    pub fn open(device: Option<String>) -> Result<Self, String> {
        let path = match device {
            Some(device) => PathBuf::from(device),
            None => (0..MAX_PORT_POLLS)
                .find_map(|look| {
                    if look > 0 {
                        std::thread::sleep(PORT_POLL_INTERVAL);
                    }
                    find()
                })
                .ok_or("this machine has no port for an agent")?,
        };
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            file,
            read: Vec::new(),
        })
    }

    /// Returns the next line. A line longer than `longest` is dropped.
    pub fn line(&mut self, longest: usize) -> io::Result<Vec<u8>> {
        let mut piece = [0; 4096];
        loop {
            if let Some(end) = self.read.iter().position(|&byte| byte == b'\n') {
                let mut line: Vec<u8> = self.read.drain(..=end).collect();
                line.pop();
                return Ok(line);
            }
            if self.read.len() > longest {
                self.read.clear();
            }
            match self.file.read(&mut piece) {
                // No program of the host is connected to the port.
                Ok(0) => std::thread::sleep(RECONNECT_POLL_INTERVAL),
                Ok(length) => self.take(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, piece: &[u8]) {
        match piece.iter().rposition(|&byte| byte == SEPARATOR) {
            Some(at) => {
                self.read.clear();
                self.read.extend_from_slice(&piece[at + 1..]);
            }
            None => self.read.extend_from_slice(piece),
        }
    }
}

impl Write for Port {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn find() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    ports.flatten().find_map(|port| {
        let name = fs::read_to_string(port.path().join("name")).ok()?;
        let device = PathBuf::from("/dev").join(port.file_name());
        (name.trim_end() == vm::machine::AGENT_PORT && device.exists()).then_some(device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_what_is_forgotten() {
        let dir = std::env::temp_dir().join(format!("zoneagent-{}", std::process::id()));
        fs::write(&dir, b"old\xffone\ntwo\nxxxxxxxxxxxx\n").unwrap();
        let mut port = Port::open(Some(dir.display().to_string())).unwrap();
        assert_eq!(port.line(100).unwrap(), b"one");
        assert_eq!(port.line(100).unwrap(), b"two");
        fs::remove_file(&dir).unwrap();
    }
}
