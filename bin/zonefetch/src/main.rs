//! zonefetch: fetches container images from registries into a folder, for zoneadm and
//! zoneimg.
//!
//! It is the only program that speaks HTTP and TLS. It writes only blobs whose digests it
//! has checked, and only into the folder of `--into`. The calling program reads this folder
//! as an OCI layout and checks all blobs again.
//!
//! ```text
//! zonefetch documents --platform linux/amd64 --into DIR [--credentials FILE] REFERENCE
//! zonefetch layers --into DIR [--credentials FILE] REFERENCE   (digests on standard input)
//! ```
//!
//! It reports its progress on standard output, in lines.

mod client;
mod probe;
mod pull;
mod tls;
mod trust;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use client::Client;
use lexopt::prelude::*;
use oci::{Platform, Reference, auth};
use pull::Pull;

const USAGE: &str = "\
usage:	zonefetch documents --platform linux/ARCH --into DIR [--credentials FILE] REFERENCE
	zonefetch layers --into DIR [--credentials FILE] REFERENCE

Downloads a container image from a registry, for zoneadm and zoneimg, which call
this program.
	documents  writes the index, manifest and configuration of the image into DIR
	layers     reads digests on standard input, one a line, and writes these layers
	           into DIR
REFERENCE is docker://host[:port]/name[:tag][@sha256:digest]. FILE has the users and
passwords of registries, as docker login writes them.

Exit status: 0 success, 1 error, 2 usage.
";

/// The request on the command line.
struct Call {
    verb: String,
    reference: Reference,
    into: PathBuf,
    platform: Option<String>,
    credentials: Option<PathBuf>,
}

fn main() -> ExitCode {
    let call = match parse() {
        Ok(Some(call)) => call,
        Ok(None) => {
            let asked = std::env::args_os().nth(1);
            let text = match asked.is_some_and(|word| word == "--version") {
                true => concat!("zonefetch ", env!("CARGO_PKG_VERSION"), "\n"),
                false => USAGE,
            };
            return match io::stdout().write_all(text.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    complain(&format!("could not write to standard output: {error}\n"));
                    ExitCode::FAILURE
                }
            };
        }
        Err(text) => {
            complain(&format!("{text}\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    // The caller removes the downloaded files. A killed caller cannot remove them, so this process
    // then dies, too.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    match run(&call) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            complain(&format!("{text}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Prints on standard error, without a panic if the stream cannot be written.
fn complain(text: &str) {
    let _ = io::stderr().write_all(format!("zonefetch: {text}").as_bytes());
}

fn parse() -> Result<Option<Call>, String> {
    let mut words = lexopt::Parser::from_env();
    let (mut verb, mut reference, mut into) = (None, None, None);
    let (mut platform, mut credentials) = (None, None);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('h' | '?') | Long("help" | "version") => return Ok(None),
            Long("into") => into = Some(PathBuf::from(value(&mut words)?)),
            Long("credentials") => credentials = Some(PathBuf::from(value(&mut words)?)),
            Long("platform") => platform = Some(value(&mut words)?.to_string_lossy().into_owned()),
            Value(word) if verb.is_none() => verb = Some(word.to_string_lossy().into_owned()),
            Value(word) if reference.is_none() => {
                let text = word.to_string_lossy().into_owned();
                reference = Some(
                    text.parse::<Reference>()
                        .map_err(|error| error.to_string())?,
                );
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    match (verb, reference, into) {
        (Some(verb), Some(reference), Some(into)) if verb == "documents" || verb == "layers" => {
            Ok(Some(Call {
                verb,
                reference,
                into,
                platform,
                credentials,
            }))
        }
        _ => Err("expected documents or layers, --into and a reference".to_owned()),
    }
}

fn value(words: &mut lexopt::Parser) -> Result<std::ffi::OsString, String> {
    words.value().map_err(|error| error.to_string())
}

fn run(call: &Call) -> Result<(), String> {
    let mut credentials = None;
    if let Some(path) = &call.credentials {
        let what = path.display().to_string();
        let fail = |error: std::io::Error| format!("cannot read {what}: {error}");
        let file = std::fs::File::open(path).map_err(fail)?;
        let mut text = Vec::new();
        file.take(auth::MAX_FILE)
            .read_to_end(&mut text)
            .map_err(fail)?;
        credentials =
            auth::find(&what, &text, &call.reference).map_err(|error| error.to_string())?;
    }
    let wire = probe::wire(&call.reference)?;
    let client = Client::new(call.reference.clone(), wire, credentials)?;
    let pull = Pull::new(client, call.into.clone());
    if call.verb == "documents" {
        let name = call.platform.as_deref().unwrap_or_default();
        let name = name.strip_prefix("linux/").unwrap_or(name);
        return pull.documents(&Platform::linux(name));
    }
    let mut list = String::new();
    let read = std::io::stdin().take(1 << 20).read_to_string(&mut list);
    read.map_err(|error| format!("cannot read the list of layers: {error}"))?;
    pull.layers(&list)
}
