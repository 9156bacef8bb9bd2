//! zonefetch: fetches container images from registries into a folder, and single files of
//! catalogues, for zoneadm and zoneimg.
//!
//! It is the only program that speaks HTTP and TLS. It writes only blobs whose digests it
//! has checked, and only into the folder of `--into`. The calling program reads this folder
//! as an OCI layout and checks all blobs again.
//!
//! ```text
//! zonefetch documents --platform linux/amd64 --into DIR [--credentials FILE] REFERENCE
//! zonefetch layers --into DIR [--credentials FILE] REFERENCE   (digests on standard input)
//! zonefetch file --into FILE --size BYTES [--digest DIGEST] URL
//! ```
//!
//! It reports its progress on standard output, in lines.

mod client;
mod file;
mod probe;
mod pull;
mod tls;
mod trust;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use client::Client;
use file::Failed;
use lexopt::prelude::*;
use oci::{Platform, Reference, auth};
use pull::Pull;

const USAGE: &str = "\
usage:	zonefetch documents --platform linux/ARCH --into DIR [--credentials FILE] REFERENCE
	zonefetch layers --into DIR [--credentials FILE] REFERENCE
	zonefetch file --into FILE --size BYTES [--digest DIGEST] URL

Downloads a container image from a registry, or a file of a catalogue of images, for
zoneadm and zoneimg, which call this program.
	documents  writes the index, manifest and configuration of the image into DIR
	layers     reads digests on standard input, one a line, and writes these layers
	           into DIR
	file       writes the file at URL, which begins with https://, to FILE: at most
	           BYTES, or with a digest exactly this file
REFERENCE is docker://host[:port]/name[:tag][@sha256:digest]. FILE has the users and
passwords of registries, as docker login writes them.

Exit status: 0 success, 1 error, 2 usage; of file also 3 if the server cannot be reached
or cannot answer now, 4 if it has no such file.
";

/// The request on the command line.
enum Call {
    Image(Image),
    File(file::Wanted),
}

/// A request for parts of a container image.
struct Image {
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
    let done = match &call {
        Call::Image(image) => run(image).map_err(Failed::Final),
        Call::File(wanted) => file::fetch(wanted),
    };
    let (text, status) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failed::Final(text)) => (text, 1),
        Err(Failed::Away(text)) => (text, 3),
        Err(Failed::Missing(text)) => (text, 4),
    };
    complain(&format!("{text}\n"));
    ExitCode::from(status)
}

/// Prints on standard error, without a panic if the stream cannot be written.
fn complain(text: &str) {
    let _ = io::stderr().write_all(format!("zonefetch: {text}").as_bytes());
}

fn parse() -> Result<Option<Call>, String> {
    let mut words = lexopt::Parser::from_env();
    let (mut verb, mut operand, mut into) = (None, None, None);
    let (mut platform, mut credentials) = (None, None);
    let (mut size, mut digest) = (None, None);
    while let Some(word) = words.next().map_err(|error| error.to_string())? {
        match word {
            Short('h' | '?') | Long("help" | "version") => return Ok(None),
            Long("into") => into = Some(PathBuf::from(value(&mut words)?)),
            Long("credentials") => credentials = Some(PathBuf::from(value(&mut words)?)),
            Long("platform") => platform = Some(value(&mut words)?.to_string_lossy().into_owned()),
            Long("size") => size = Some(number(&value(&mut words)?.to_string_lossy())?),
            Long("digest") => {
                let text = value(&mut words)?.to_string_lossy().into_owned();
                digest = Some(text.parse().map_err(|error| format!("{text}: {error}"))?);
            }
            Value(word) if verb.is_none() => verb = Some(word.to_string_lossy().into_owned()),
            Value(word) if operand.is_none() => {
                operand = Some(word.to_string_lossy().into_owned());
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    match (verb, operand, into, size) {
        (Some(verb), Some(text), Some(into), None) if verb == "documents" || verb == "layers" => {
            let reference = text.parse::<Reference>();
            Ok(Some(Call::Image(Image {
                verb,
                reference: reference.map_err(|error| error.to_string())?,
                into,
                platform,
                credentials,
            })))
        }
        (Some(verb), Some(url), Some(into), Some(size)) if verb == "file" => {
            Ok(Some(Call::File(file::Wanted {
                url,
                into,
                size,
                digest,
            })))
        }
        _ => Err(
            "expected documents or layers, --into and a reference, or file, --into, --size and an address"
                .to_owned(),
        ),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{text}: expected a number of bytes"))
}

fn value(words: &mut lexopt::Parser) -> Result<std::ffi::OsString, String> {
    words.value().map_err(|error| error.to_string())
}

fn run(call: &Image) -> Result<(), String> {
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
