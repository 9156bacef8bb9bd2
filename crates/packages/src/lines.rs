//! Reads the lines of a text file, with limits.

use std::io::{self, BufRead};

/// Maximum length of a line in bytes. Lists of dependencies with some kilobytes are common.
pub const MAX_LINE: usize = 1 << 20;

/// Maximum size of one file, in bytes.
pub const MAX_FILE: u64 = 256 << 20;

/// The reason why a file cannot be read as lines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A read of the file failed.
    #[error("line {line}")]
    Io {
        /// The number of the line that could not be read; the first is 1.
        line: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The text of a line is invalid.
    #[error("line {line}: {problem}")]
    Syntax {
        /// The number of the line; the first is 1.
        line: u64,
        /// The description of the problem.
        problem: &'static str,
    },
}

/// Reads a file line by line into one buffer.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    line: u64,
    total: u64,
}

impl<R: BufRead> Lines<R> {
    pub const fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            line: 0,
            total: 0,
        }
    }

    /// Returns the next line without its line feed, or `None` at the end of the file.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, ParseError> {
        self.buffer.clear();
        self.line += 1;
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    let line = self.line;
                    return Err(ParseError::Io { line, source });
                }
            };
            if available.is_empty() {
                let ended = self.buffer.is_empty();
                return Ok((!ended).then_some(&self.buffer));
            }
            let feed = available.iter().position(|&byte| byte == b'\n');
            let taken = feed.unwrap_or(available.len());
            if self.buffer.len() + taken > MAX_LINE {
                return Err(self.wrong("the line is too long"));
            }
            self.buffer.extend_from_slice(&available[..taken]);
            let used = taken + usize::from(feed.is_some());
            self.reader.consume(used);
            self.total += used as u64;
            if self.total > MAX_FILE {
                return Err(self.wrong("the file is too large"));
            }
            if feed.is_some() {
                return Ok(Some(&self.buffer));
            }
        }
    }

    /// Returns an error about the line that was read last.
    pub const fn wrong(&self, problem: &'static str) -> ParseError {
        ParseError::Syntax {
            line: self.line,
            problem,
        }
    }
}
