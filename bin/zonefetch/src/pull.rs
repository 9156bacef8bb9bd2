//! Downloads an image into the folder.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oci::layout::{BLOBS, INDEX, MARK, blob_name};
use oci::manifest::{MEDIA_TYPES, choose};
use oci::{Digest, Document, Hasher, MAX_LAYER, MAX_MANIFEST, Platform};

use crate::client::{Client, read_all};

/// Maximum depth of nested indexes.
const MAX_INDEX_DEPTH: usize = 3;

/// Interval between progress reports.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of attempts for each layer, because connections break.
const MAX_ATTEMPTS: u64 = 3;

pub struct Pull {
    client: Client,
    into: PathBuf,
}

impl Pull {
    pub fn new(client: Client, into: PathBuf) -> Self {
        Self { client, into }
    }

    /// Fetches index, manifest and configuration, and writes them as a layout.
    pub fn documents(&self, platform: &Platform) -> Result<(), String> {
        let accept = MEDIA_TYPES.join(", ");
        let mut wanted = self.client.reference.digest;
        let mut target = self.client.reference.target();
        for _ in 0..MAX_INDEX_DEPTH {
            let mut answer = self.client.get(&format!("manifests/{target}"), &accept)?;
            let text = read_all(&mut answer, MAX_MANIFEST).map_err(|error| self.what(&error))?;
            let digest = Digest::of(&text);
            if let Some(wanted) = wanted.filter(|wanted| *wanted != digest) {
                return Err(self.what(&format!("expected {wanted}, the registry sent {digest}")));
            }
            let name = digest.to_string();
            match Document::read(&name, &text).map_err(|error| self.what(&error.to_string()))? {
                Document::Index(entries) => {
                    let entry = choose(&name, &entries, platform);
                    let entry = entry.map_err(|error| self.what(&error.to_string()))?;
                    wanted = Some(entry.descriptor.digest);
                    target = entry.descriptor.digest.to_string();
                }
                Document::Manifest(manifest) => {
                    let fail = |error: io::Error| self.what(&format!("cannot write: {error}"));
                    fs::create_dir_all(self.into.join(BLOBS)).map_err(fail)?;
                    fs::write(self.into.join(blob_name(&digest)), &text).map_err(fail)?;
                    self.blob(
                        &manifest.config.digest,
                        manifest.config.size,
                        "configuration",
                    )?;
                    let index = format!(
                        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"{}","digest":"{digest}","size":{}}}]}}"#,
                        MEDIA_TYPES[2],
                        text.len()
                    );
                    fs::write(self.into.join(INDEX), index).map_err(fail)?;
                    let mark = r#"{"imageLayoutVersion":"1.0.0"}"#;
                    return fs::write(self.into.join(MARK), mark).map_err(fail);
                }
            }
        }
        Err(self.what("more indexes in one another than are followed"))
    }

    /// Fetches the listed layers: one line for each layer, with digest and size.
    pub fn layers(&self, list: &str) -> Result<(), String> {
        let mut all = Vec::new();
        for line in list.lines() {
            let pair = line.split_once(' ');
            let pair =
                pair.and_then(|(digest, size)| Some((digest.parse().ok()?, size.parse().ok()?)));
            let (digest, size): (Digest, u64) =
                pair.ok_or_else(|| format!("{line}: not a digest and a size"))?;
            if size > MAX_LAYER {
                return Err(self.what(&format!("a layer of {size} bytes")));
            }
            all.push((digest, size));
        }
        has_space(&self.into, &all).map_err(|error| self.what(&error))?;
        let count = all.len();
        for (n, (digest, size)) in all.iter().enumerate() {
            self.blob(digest, *size, &format!("layer {} of {count}", n + 1))?;
        }
        Ok(())
    }

    fn blob(&self, digest: &Digest, size: u64, called: &str) -> Result<(), String> {
        let place = self.into.join(blob_name(digest));
        if place.exists() {
            return Ok(());
        }
        let mut tried = 0;
        loop {
            tried += 1;
            match self.try_blob(digest, size, called) {
                Ok(()) => return Ok(()),
                Err(Failed::Broken(text)) if tried < MAX_ATTEMPTS => {
                    say(&format!("  {called}: {text}; once more"))?;
                    std::thread::sleep(Duration::from_secs(tried));
                }
                Err(Failed::Broken(text) | Failed::Final(text)) => return Err(text),
            }
        }
    }

    fn try_blob(&self, digest: &Digest, size: u64, called: &str) -> Result<(), Failed> {
        let path = format!("blobs/{digest}");
        let mut answer = self.client.get(&path, "*/*").map_err(Failed::Final)?;
        let part = self.into.join(format!("{}.part", digest.hex()));
        let fail = |error: io::Error| Failed::Final(self.what(&format!("cannot write: {error}")));
        let mut file = File::create(&part).map_err(fail)?;
        let body = answer.body_mut().with_config().limit(u64::MAX).reader();
        // One byte more than the limit is read, to detect a layer that is too long.
        let mut body = body.take(size + 1);
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; 128 << 10];
        let (mut have, mut ticked) = (0_u64, Instant::now());
        loop {
            let read = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failed::Broken(self.what(&format!("{called}: {error}")))),
            };
            hasher.update(&buffer[..read]);
            file.write_all(&buffer[..read]).map_err(fail)?;
            have += read as u64;
            if ticked.elapsed() >= PROGRESS_INTERVAL {
                ticked = Instant::now();
                say(&format!("  {called}: {} of {} MiB", have >> 20, size >> 20))
                    .map_err(Failed::Final)?;
            }
        }
        if have < size {
            return Err(Failed::Broken(
                self.what(&format!("{called}: ended after {have} of {size} bytes")),
            ));
        }
        if have > size {
            return Err(Failed::Final(self.what(&format!(
                "{called}: longer than the {size} bytes it should have"
            ))));
        }
        let found = hasher.finish();
        if found != *digest {
            return Err(Failed::Final(self.what(&format!(
                "{called}: expected {digest}, the registry sent {found}"
            ))));
        }
        fs::rename(&part, self.into.join(blob_name(digest))).map_err(fail)
    }

    fn what(&self, problem: &str) -> String {
        format!("{}: {problem}", self.client.reference)
    }
}

/// The reason why a layer was not fetched.
enum Failed {
    /// A later attempt may succeed.
    Broken(String),
    /// No later attempt can succeed.
    Final(String),
}

/// Refuses layers that do not fit on the disk, before the download: their sizes come from the
/// registry.
fn has_space(into: &Path, layers: &[(Digest, u64)]) -> Result<(), String> {
    let missing: HashMap<Digest, u64> = layers
        .iter()
        .filter(|(digest, _)| !into.join(blob_name(digest)).exists())
        .copied()
        .collect();
    let sizes = missing.values();
    let needed = sizes.fold(0, |sum: u64, size| sum.saturating_add(*size));
    check_space(into, needed, "its layers have")
}

/// Fails if a folder has less free space than a download needs. `subject` begins the message.
pub fn check_space(into: &Path, needed: u64, subject: &str) -> Result<(), String> {
    let shown = into.display();
    let space = rustix::fs::statvfs(into)
        .map_err(|errno| format!("{shown}: {}", io::Error::from(errno)))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    if needed >= free {
        return Err(format!(
            "{subject} {} MiB, and {shown} has {} MiB free",
            needed >> 20,
            free >> 20
        ));
    }
    Ok(())
}

/// Prints a progress line. If the output has no reader any more, nobody needs the image, and the
/// download fails.
pub fn say(line: &str) -> Result<(), String> {
    writeln!(io::stdout(), "{line}")
        .map_err(|error| format!("could not write to standard output: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_have_to_fit_all_together() {
        let into = std::env::temp_dir();
        let space = rustix::fs::statvfs(&into).unwrap();
        let half = space.f_bavail * space.f_frsize / 2 + (1 << 30);
        let (one, other) = (Digest::of(b"1"), Digest::of(b"2"));
        assert!(has_space(&into, &[(one, 1), (other, 1)]).is_ok());
        // A layer that is listed twice is fetched once and fits; two different layers of this size
        // do not fit.
        let error = has_space(&into, &[(one, half), (one, half), (other, half)]).unwrap_err();
        assert!(error.contains("MiB free"), "{error}");
        assert!(has_space(&into, &[(one, u64::MAX), (other, u64::MAX)]).is_err());
    }
}
