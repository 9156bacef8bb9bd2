//! Lines of a text file, with bounds.

use std::io::{self, BufRead};

/// Longest line in bytes. Dependency lists of some kilobytes are common.
pub const MAX_LINE: usize = 1 << 20;

/// Most bytes in one file.
pub const MAX_FILE: u64 = 256 << 20;

/// A file has invalid content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Reading failed.
    #[error("line {line}")]
    Io {
        /// The line that could not be read, from 1.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// The text is wrong.
    #[error("line {line}: {problem}")]
    Syntax {
        /// The line, from 1.
        line: u64,
        /// The description of the problem.
        problem: &'static str,
    },
}

/// Reads line by line into one buffer.
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

    /// The next line without its line feed; `None` at the end.
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

    /// Complains about the line last read.
    pub const fn wrong(&self, problem: &'static str) -> ParseError {
        ParseError::Syntax {
            line: self.line,
            problem,
        }
    }
}
