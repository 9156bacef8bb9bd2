//! Fetches images from registries with the separate program zonefetch. The other programs need no
//! HTTP and TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
        let program = host.program(PROGRAM).ok_or_else(|| {
            Error::Refused(format!(
                "could not find the program {PROGRAM} beside zoneadm or in /usr/lib/zones"
            ))
        })?;
        let own = host.root.path(Path::new(CREDENTIALS));
        Ok(Self {
            program,
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
        let fail = Error::io(format!("run {}", self.program.display()));
        let mut command = Command::new(&self.program);
        command.args(words).arg("--into").arg(&self.into);
        if let Some(path) = &self.credentials {
            command.arg("--credentials").arg(path);
        }
        command
            .arg("--")
            .arg(self.reference.to_string())
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
            .map_err(Error::io(format!("wait for {}", self.program.display())))?;
        if status.success() {
            return Ok(());
        }
        let last = text.lines().last().unwrap_or_default();
        let last = last.strip_prefix("zonefetch: ").unwrap_or(last);
        Err(Error::Refused(match last {
            "" => format!("{}: {PROGRAM}: {status}", self.reference),
            text => text.to_owned(),
        }))
    }
}
