//! Fetches images from registries with the separate program zonefetch. The other programs need no
//! HTTP and TLS.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use oci::{Layer, Reference};

use host::{Error, Host};

/// Name of the program that fetches images.
const PROGRAM: &str = "zonefetch";

/// The default file with credentials, relative to the alternate root.
const CREDENTIALS: &str = "/etc/zones/registries.json";

/// Maximum number of bytes of zonefetch's error messages that are kept.
const MAX_ERROR: u64 = 4096;

/// An image that zonefetch fetches in parts into a folder.
#[derive(Debug)]
pub struct Fetch<'a> {
    program: PathBuf,
    reference: &'a Reference,
    into: PathBuf,
    credentials: Option<PathBuf>,
}

impl<'a> Fetch<'a> {
    /// Finds zonefetch and the credentials. `credentials` is a file in the format of Docker and
    /// Podman. Without it the host's own file is used, if it exists.
    pub fn new(
        host: &Host,
        reference: &'a Reference,
        into: &Path,
        credentials: Option<&Path>,
    ) -> Result<Self, Error> {
        let own = host.root.path(Path::new(CREDENTIALS));
        Ok(Self {
            program: program(host)?,
            reference,
            into: into.to_owned(),
            credentials: match credentials {
                Some(path) => Some(path.to_owned()),
                None => own.exists().then_some(own),
            },
        })
    }

    /// Fetches the manifest and configuration of the image for a platform.
    pub fn documents(&self, platform: &str, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.run(&["documents", "--platform", platform], "", progress)
    }

    /// Fetches the files of the given layers.
    pub fn layers(&self, layers: &[Layer], progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let mut list = String::new();
        for blob in layers.iter().filter_map(|layer| layer.blob.as_ref()) {
            list.push_str(&format!("{} {}\n", blob.digest, blob.size));
        }
        self.run(&["layers"], &list, progress)
    }

    fn run(
        &self,
        words: &[&str],
        input: &str,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let mut all: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        all.extend([OsStr::new("--into"), self.into.as_os_str()]);
        if let Some(path) = &self.credentials {
            all.extend([OsStr::new("--credentials"), path.as_os_str()]);
        }
        let reference = self.reference.to_string();
        all.extend([OsStr::new("--"), OsStr::new(&reference)]);
        match call(&self.program, &all, input, progress)? {
            Ok(()) => Ok(()),
            Err(ended) => Err(Error::Refused(match ended.text.as_str() {
                "" => format!("{reference}: {PROGRAM}: {}", ended.status),
                text => text.to_owned(),
            })),
        }
    }
}

/// The end of a zonefetch that failed.
#[derive(Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// The last line of its messages, without the name of the program.
    pub text: String,
}

/// Returns the path of zonefetch.
pub fn program(host: &Host) -> Result<PathBuf, Error> {
    host.program(PROGRAM).ok_or_else(|| {
        Error::Refused(format!(
            "could not find the program {PROGRAM} beside zoneadm or in /usr/lib/zones"
        ))
    })
}

/// Runs zonefetch to its end, and passes its lines on.
pub fn call(
    program: &Path,
    words: &[&OsStr],
    input: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<Result<(), Ended>, Error> {
    let fail = Error::io(format!("run {}", program.display()));
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(fail)?;
    if let Some(mut stdin) = child.stdin.take() {
        // zonefetch may have ended already. The error is ignored, because the exit status
        // reports it.
        let _ = stdin.write_all(input.as_bytes());
    }
    // Reading standard output first is safe: the error messages of zonefetch are short and fit
    // into the pipe.
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            progress(&line);
        }
    }
    let mut text = String::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(MAX_ERROR).read_to_string(&mut text);
    }
    let status = child
        .wait()
        .map_err(Error::io(format!("wait for {}", program.display())))?;
    if status.success() {
        return Ok(Ok(()));
    }
    let last = text.lines().last().unwrap_or_default();
    let last = last.strip_prefix("zonefetch: ").unwrap_or(last);
    Ok(Err(Ended {
        status,
        text: last.to_owned(),
    }))
}
