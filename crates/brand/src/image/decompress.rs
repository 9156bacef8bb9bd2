//! Archives as plain tar streams, whatever they are compressed with.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use flate2::bufread::MultiGzDecoder;

/// Where helpers are looked for; the caller's PATH is not asked.
const HELPER_DIRS: &[&str] = &["/usr/bin", "/bin", "/usr/local/bin"];

/// Formats by their first bytes, and the program that reads them; none for gzip,
/// which is read here.
const FORMATS: &[(&[u8], Option<&str>)] = &[
    (b"\x1f\x8b", None),
    (b"\xfd7zXZ\0", Some("xz")),
    (b"\x28\xb5\x2f\xfd", Some("zstd")),
    (b"BZh", Some("bzip2")),
];

/// A stream of tar data.
#[derive(Debug)]
pub enum Stream {
    Plain(BufReader<File>),
    Gzip(Box<MultiGzDecoder<BufReader<File>>>),
    Helper(Helper),
}

impl Stream {
    /// Opens an archive by what it is, not by what it is called.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut magic = [0; 6];
        let mut have = 0;
        while have < magic.len() {
            match file.read(&mut magic[have..])? {
                0 => break,
                read => have += read,
            }
        }
        file.rewind()?;
        let format = FORMATS
            .iter()
            .find(|(begin, _)| magic[..have].starts_with(begin));
        match format {
            None => Ok(Self::Plain(BufReader::with_capacity(128 << 10, file))),
            Some((_, None)) => {
                let reader = BufReader::with_capacity(128 << 10, file);
                Ok(Self::Gzip(Box::new(MultiGzDecoder::new(reader))))
            }
            Some((_, Some(program))) => Helper::start(program, file).map(Self::Helper),
        }
    }

    /// Reads what is left, at most `limit` bytes, and checks that the stream ended well.
    pub fn finish(mut self, limit: u64) -> io::Result<()> {
        let rest = io::copy(&mut (&mut self).take(limit + 1), &mut io::sink())?;
        if rest > limit {
            return Err(io::Error::other("too much data after the end"));
        }
        match self {
            Self::Helper(helper) => helper.finish(),
            Self::Plain(_) | Self::Gzip(_) => Ok(()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            Self::Gzip(reader) => reader.read(buffer),
            Self::Helper(helper) => helper.output.read(buffer),
        }
    }
}

/// A running decompressor; killed when it is dropped unfinished.
#[derive(Debug)]
pub struct Helper {
    child: Child,
    output: ChildStdout,
    program: PathBuf,
}

impl Helper {
    fn start(name: &str, input: File) -> io::Result<Self> {
        let program = HELPER_DIRS
            .iter()
            .map(|dir| Path::new(dir).join(name))
            .find(|program| program.is_file());
        let Some(program) = program else {
            let dirs = HELPER_DIRS.join(", ");
            return Err(io::Error::other(format!(
                "compressed with {name}, which is not installed (looked in {dirs})"
            )));
        };
        let mut child = command(&program, input).spawn()?;
        match child.stdout.take() {
            Some(output) => Ok(Self {
                child,
                output,
                program,
            }),
            None => Err(io::Error::other("no pipe from the decompressor")),
        }
    }

    fn finish(mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            let program = self.program.display();
            Err(io::Error::other(format!(
                "{program}: {status}: damaged data"
            )))
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Both fail only for a child that was waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(program: &Path, input: File) -> Command {
    let mut command = Command::new(program);
    command
        .arg("-dc")
        .env_clear()
        .current_dir("/")
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}
