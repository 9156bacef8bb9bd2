//! Fetching images from registries: zonefetch does it, a program of its own, so that
//! nothing else has to speak HTTP and TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use oci::{Layer, Reference};

use host::{Error, Host};

/// The program.
const PROGRAM: &str = "zonefetch";

/// The default file of credentials, below the alternate root.
const CREDENTIALS: &str = "/etc/zones/registries.json";

/// Maximum size of its kept error messages, in bytes.
const MAX_ERROR: u64 = 4096;

/// An image that is fetched in parts into a folder.
#[derive(Debug)]
pub struct Fetch<'a> {
    program: PathBuf,
    reference: &'a Reference,
    into: PathBuf,
    credentials: Option<PathBuf>,
}

impl<'a> Fetch<'a> {
    /// Gets ready. `credentials` is a file as Docker and Podman write it; without one,
    /// that of the host is used if there is one.
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

    /// Fetches the documents of the image for a kind of machine.
    pub fn documents(&self, platform: &str, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.run(&["documents", "--platform", platform], "", progress)
    }

    /// Fetches layers.
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
            // It may have died already; its status says so.
            let _ = stdin.write_all(input.as_bytes());
        }
        // Its messages are short; it never waits for us to read its errors first.
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
