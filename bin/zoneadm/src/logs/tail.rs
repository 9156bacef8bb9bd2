//! The last lines of a log file, and those that are appended later.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number of bytes from the end of a file in which the last lines are searched.
const MAX_START_BYTES: u64 = 1 << 20;

/// Maximum number of bytes that one call reads: a zone may write faster than a terminal prints.
const MAX_READ_BYTES: u64 = 1 << 20;

/// Maximum length of a line, in bytes. A longer line is split.
const MAX_LINE_BYTES: usize = 8192;

/// A log file that is read to its end. zoneadmd renames a large log and starts a new file.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// The device and the inode of the file.
    identity: (u64, u64),
    /// The bytes after the last newline.
    rest: Vec<u8>,
}

impl Tail {
    /// Opens a file, and returns its last `count` lines. A file that does not exist has no lines.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read.
    pub fn open(path: &Path, count: usize) -> io::Result<(Self, Vec<String>)> {
        let mut tail = Self {
            path: path.to_owned(),
            file: None,
            identity: (0, 0),
            rest: Vec::new(),
        };
        tail.reopen()?;
        let Some(file) = &mut tail.file else {
            return Ok((tail, Vec::new()));
        };
        let length = file.metadata()?.len();
        let skipped = length.saturating_sub(MAX_START_BYTES);
        file.seek(SeekFrom::Start(skipped))?;
        let mut lines = tail.read(MAX_START_BYTES)?;
        if skipped > 0 && !lines.is_empty() {
            // The first line may be the second half of a line.
            lines.remove(0);
        }
        lines.drain(..lines.len().saturating_sub(count));
        Ok((tail, lines))
    }

    /// Opens a file whose first `offset` bytes are known. Without new lines, `more` returns none.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read.
    pub fn open_at(path: &Path, offset: u64) -> io::Result<Self> {
        let mut tail = Self {
            path: path.to_owned(),
            file: None,
            identity: (0, 0),
            rest: Vec::new(),
        };
        tail.reopen()?;
        if let Some(file) = &mut tail.file {
            file.seek(SeekFrom::Start(offset))?;
        }
        Ok(tail)
    }

    /// Returns the lines that were appended since the last call.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn more(&mut self) -> io::Result<Vec<String>> {
        if let Some(file) = &mut self.file {
            // The file was truncated.
            if file.metadata()?.len() < file.stream_position()? {
                file.seek(SeekFrom::Start(0))?;
            }
        }
        let mut lines = self.read(MAX_READ_BYTES)?;
        if lines.is_empty() && self.is_replaced() {
            lines.extend(self.end());
            self.reopen()?;
            lines.extend(self.read(MAX_READ_BYTES)?);
        }
        Ok(lines)
    }

    /// Returns the text after the last newline, if there is any.
    pub fn end(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then(|| printable(&rest))
    }

    fn is_replaced(&self) -> bool {
        std::fs::metadata(&self.path)
            .is_ok_and(|now| self.file.is_none() || (now.dev(), now.ino()) != self.identity)
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = match File::open(&self.path) {
            Ok(file) => {
                let now = file.metadata()?;
                self.identity = (now.dev(), now.ino());
                Some(file)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(())
    }

    fn read(&mut self, most: u64) -> io::Result<Vec<String>> {
        let Some(file) = &mut self.file else {
            return Ok(Vec::new());
        };
        file.take(most).read_to_end(&mut self.rest)?;
        Ok(take_lines(&mut self.rest))
    }
}

/// Takes the complete lines out of a buffer. Splits a line that is longer than [`MAX_LINE_BYTES`].
pub fn take_lines(buffer: &mut Vec<u8>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut from = 0;
    while let Some(length) = buffer[from..].iter().position(|byte| *byte == b'\n') {
        let line = &buffer[from..from + length];
        lines.extend(line.chunks(MAX_LINE_BYTES).map(printable));
        if line.is_empty() {
            lines.push(String::new());
        }
        from += length + 1;
    }
    buffer.drain(..from);
    while buffer.len() >= MAX_LINE_BYTES {
        let line: Vec<u8> = buffer.drain(..MAX_LINE_BYTES).collect();
        lines.push(printable(&line));
    }
    lines
}

/// Returns a line of a zone as text for a terminal: without colours and carriage returns, and with
/// all other control characters and characters that change the direction of writing escaped. A zone
/// can write any bytes to its console.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' => {}
            '\x1b' if rest.peek() == Some(&'[') => {
                rest.next();
                // A control sequence ends with a character from `@` to `~`.
                let _ = rest.find(|c| ('@'..='~').contains(c));
            }
            '\t' => out.push(c),
            c if c.is_control() || is_bidi(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Returns true for a character that changes the direction of writing (Unicode Bidi_Control).
const fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn append(path: &Path, text: &str) {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn the_last_lines_come_first_and_then_the_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.console");
        append(&path, "one\ntwo\nthree\nfo");
        let (mut tail, lines) = Tail::open(&path, 2).unwrap();
        assert_eq!(lines, ["two", "three"]);
        assert!(tail.more().unwrap().is_empty());
        append(&path, "ur\nfive\n");
        assert_eq!(tail.more().unwrap(), ["four", "five"]);
        append(&path, "half");
        assert!(tail.more().unwrap().is_empty());
        assert_eq!(tail.end().unwrap(), "half");
    }

    #[test]
    fn a_replaced_or_truncated_file_is_read_from_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.console");
        let (mut tail, lines) = Tail::open(&path, 9).unwrap();
        assert!(lines.is_empty());
        append(&path, "first\n");
        assert_eq!(tail.more().unwrap(), ["first"]);
        append(&path, "last of the old file");
        assert!(tail.more().unwrap().is_empty());
        std::fs::rename(&path, folder.path().join("web.console.0")).unwrap();
        append(&path, "new\n");
        assert_eq!(tail.more().unwrap(), ["last of the old file", "new"]);
        std::fs::write(&path, "x\n").unwrap();
        assert_eq!(tail.more().unwrap(), ["x"]);
    }

    #[test]
    fn a_long_file_and_a_long_line_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.console");
        let many: String = (0..300_000).map(|n| format!("{n}\n")).collect();
        append(&path, &many);
        let (_, lines) = Tail::open(&path, usize::MAX).unwrap();
        assert_eq!(lines.last().unwrap(), "299999");
        assert!(lines.len() < 200_000 && lines[0].parse::<u32>().is_ok());
        let mut buffer = vec![b'a'; MAX_LINE_BYTES + 5];
        assert_eq!(take_lines(&mut buffer)[0].len(), MAX_LINE_BYTES);
        assert_eq!(buffer.len(), 5);
    }

    #[test]
    fn a_zone_cannot_control_the_terminal() {
        let of = |text: &str| printable(text.as_bytes());
        assert_eq!(of("\x1b[0;32m  OK  \x1b[0m done\r"), "  OK   done");
        assert_eq!(of("\x1b]0;title\x07"), "\\u{1b}]0;title\\u{7}");
        assert_eq!(of("a\u{202e}b\u{9b}c"), "a\\u{202e}b\\u{9b}c");
        assert_eq!(of("\x1b["), "");
        assert_eq!(printable(b"\xff"), "\u{fffd}");
    }
}
