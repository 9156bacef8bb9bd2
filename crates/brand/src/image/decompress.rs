//! Reads archives of any compression as plain streams.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use flate2::bufread::MultiGzDecoder;
use oci::{Digest, Hasher};

/// The folders in which decompressors are searched. The caller's PATH is not used.
const HELPER_DIRS: &[&str] = &["/usr/bin", "/bin", "/usr/local/bin"];

/// The first bytes of each format, and the program that reads it; `None` for gzip, which this
/// module reads itself.
const FORMATS: &[(&[u8], Option<&str>)] = &[
    (b"\x1f\x8b", None),
    (b"\xfd7zXZ\0", Some("xz")),
    (b"\x28\xb5\x2f\xfd", Some("zstd")),
    (b"BZh", Some("bzip2")),
];

/// Number of bytes that are read to recognise the format of an archive.
const BEGIN: usize = 512;

/// The uncompressed content of an archive.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    /// The first bytes, which were read to recognise the format, and the number of them that the
    /// caller has read since.
    begin: Vec<u8>,
    read: usize,
    hasher: Option<Hasher>,
}

#[derive(Debug)]
enum Source {
    Plain(BufReader<File>),
    Gzip(Box<MultiGzDecoder<BufReader<File>>>),
    Helper(Helper),
}

impl Stream {
    /// Opens an archive. Recognises its compression by its content, not by its name.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?)
    }

    /// Opens an archive from an open file, from its beginning.
    pub fn of(mut file: File) -> io::Result<Self> {
        file.rewind()?;
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
        let source = match format {
            None => Source::Plain(BufReader::with_capacity(128 << 10, file)),
            Some((_, None)) => {
                let reader = BufReader::with_capacity(128 << 10, file);
                Source::Gzip(Box::new(MultiGzDecoder::new(reader)))
            }
            Some((_, Some(program))) => Source::Helper(Helper::start(program, file)?),
        };
        Ok(Self {
            source,
            begin: Vec::new(),
            read: 0,
            hasher: None,
        })
    }

    /// Starts a digest of all bytes that are read from here on.
    pub fn hashed(mut self) -> Self {
        self.hasher = Some(Hasher::default());
        self
    }

    /// Returns the first bytes. They are still part of the content that is read later.
    pub fn begin(&mut self) -> io::Result<&[u8]> {
        if self.begin.is_empty() {
            let mut begin = vec![0; BEGIN];
            let have = fill(&mut self.source, &mut begin)?;
            begin.truncate(have);
            self.begin = begin;
        }
        Ok(&self.begin)
    }

    /// Reads the rest, at most `limit` bytes, and checks the end of the stream. Returns the digest,
    /// if one was started.
    pub fn finish(mut self, limit: u64) -> io::Result<Option<Digest>> {
        let rest = io::copy(&mut (&mut self).take(limit + 1), &mut io::sink())?;
        if rest > limit {
            return Err(io::Error::other("too much data after the end"));
        }
        match self.source {
            Source::Helper(mut helper) => helper.check()?,
            Source::Plain(_) | Source::Gzip(_) => {}
        }
        Ok(self.hasher.map(Hasher::finish))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let looked_at = &self.begin[self.read..];
        let read = if looked_at.is_empty() {
            self.source.read(buffer)?
        } else {
            let read = looked_at.len().min(buffer.len());
            buffer[..read].copy_from_slice(&looked_at[..read]);
            self.read += read;
            read
        };
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..read]);
        }
        Ok(read)
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            Self::Gzip(reader) => reader.read(buffer),
            Self::Helper(helper) => helper.read(buffer),
        }
    }
}

/// A running decompressor. If it is dropped before its end, it is killed.
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

    /// Fails if the program has failed. Its output has ended before.
    fn check(&mut self) -> io::Result<()> {
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            let program = self.program.display();
            Err(io::Error::other(format!(
                "the compressed data is damaged or cut off here, or needs too much memory ({program}: {status}): copy or make the archive again"
            )))
        }
    }
}

impl Read for Helper {
    /// Damaged data also ends the output of the program. Only its exit status shows the damage.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.output.read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            self.check()?;
        }
        Ok(read)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Both calls fail only if the child was waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Maximum memory of xz. xz has no limit of its own, and an archive can require up to 4 GiB. The
/// output of `xz -9` needs 65 MiB. zstd itself refuses above 128 MiB, and bzip2 never needs more
/// than a few MiB.
///
/// The limit is set by an environment variable, because other programs with the name xz do not know
/// the option.
const XZ_LIMIT: (&str, &str) = ("XZ_DEFAULTS", "--memlimit-decompress=512MiB");

fn command(program: &Path, input: File) -> Command {
    let mut command = Command::new(program);
    command
        .arg("-dc")
        .env_clear()
        .env(XZ_LIMIT.0, XZ_LIMIT.1)
        .current_dir("/")
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// Reads until the buffer is full or the stream ends.
pub fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match from.read(&mut buffer[have..]) {
            Ok(0) => break,
            Ok(read) => have += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// This archive of one byte claims to need 1 GiB: `printf x | xz --lzma2=dict=1GiB`.
    const GREEDY: [u8; 52] = [
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x00, 0xff, 0x12, 0xd9, 0x41, 0x02, 0x00, 0x21,
        0x01, 0x24, 0x00, 0x00, 0x00, 0x5e, 0x1f, 0xc7, 0xf9, 0x01, 0x00, 0x00, 0x78, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x01, 0x11, 0x01, 0xad, 0xa6, 0x58, 0x04, 0x06, 0x72, 0x9e, 0x7a, 0x01,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x59, 0x5a,
    ];

    #[test]
    fn an_archive_does_not_say_how_much_memory_it_gets() {
        if !Path::new("/usr/bin/xz").exists() {
            eprintln!("skipped: no xz on this machine");
            return;
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&GREEDY).unwrap();
        let error = Stream::of(file).unwrap().finish(1 << 20).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }
}
