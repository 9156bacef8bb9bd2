//! Lines of output with paths of a zone, which may have any bytes.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use copy::name::shown;
use serde::Serialize;

/// Size from which the collected output is written, in bytes.
const WRITE_BYTES: usize = 64 << 10;

/// Output that is collected and written in large pieces.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

impl Lines {
    pub fn text(&mut self, line: &str) -> ControlFlow<()> {
        self.0.extend(line.as_bytes());
        self.write(WRITE_BYTES)
    }

    /// Adds an object on a line of its own. It is plain data, which always has a JSON form.
    pub fn json(&mut self, row: &impl Serialize) -> ControlFlow<()> {
        let line = serde_json::to_string(row).unwrap_or_default();
        self.text(&(line + "\n"))
    }

    pub fn flush(&mut self) {
        let _ = self.write(1);
    }

    /// Writes the output if it has `least` bytes. Breaks if nothing more can be written.
    fn write(&mut self, least: usize) -> ControlFlow<()> {
        if self.0.len() < least {
            return ControlFlow::Continue(());
        }
        let written = cli::output::write(&self.0);
        self.0.clear();
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(errno) => {
                cli::output::lost(errno);
                ControlFlow::Break(())
            }
        }
    }
}

/// A path in JSON.
#[derive(Debug, Serialize)]
pub struct Text<'a> {
    /// The path; escaped as in messages if it is not UTF-8.
    pub path: Cow<'a, str>,
    /// The bytes of a path that is not UTF-8, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
}

impl<'a> Text<'a> {
    pub fn of(path: &'a [u8]) -> Self {
        match std::str::from_utf8(path) {
            Ok(text) => Self {
                path: text.into(),
                path_bytes: None,
            },
            Err(_) => Self {
                path: shown(path_of(path)).into(),
                path_bytes: Some(vm::base64::encode(path)),
            },
        }
    }
}

pub fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
