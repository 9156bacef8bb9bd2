//! Downloads the catalogue of a remote, checks it, and replaces the cached one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use catalogue::{
    Base, Index, MAX_INDEX, MAX_PRODUCTS, MAX_SIGNATURE, Products, Protocol, Remote, Trust,
};
use control::log::timestamp;
use host::{Error, Host, flatten};
use store::lock;

use super::cache::{self, Cached};
use super::chosen::refused;
use super::signature;
use super::web::{self, Failed};

/// Age in seconds from which a catalogue is downloaded again.
const MAX_AGE: u64 = 3600;

/// The path of the index. `.sjson` is the clear-signed form.
const INDEX: &str = "streams/v1/index.json";

/// The rule for a catalogue that is older than the cached one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It is refused: someone may replay it to hide an update.
    RefuseOlder,
    /// It is taken, because the administrator says so.
    AllowOlder,
}

/// Returns the catalogue of a remote: the cached one if it is less than an hour old or if the server
/// cannot be reached. A plan (`-n`) uses the cached one alone.
pub(super) fn current(
    host: &Host,
    remote: &Remote,
    progress: &mut dyn FnMut(&str),
) -> Result<Cached, Error> {
    let name = &remote.name;
    let cached = cache::load(host, remote)?;
    if host.plan_only {
        return cached.ok_or_else(|| {
            refused(format!(
                "the catalogue {name} was not downloaded yet, and a plan downloads nothing; run zoneimg refresh {name}"
            ))
        });
    }
    let age = cached
        .as_ref()
        .map(|cached| cache::now().saturating_sub(cached.fetched));
    match cached {
        Some(cached) if age.is_some_and(|age| age < MAX_AGE) => Ok(cached),
        Some(cached) => match download(host, remote, Age::RefuseOlder, progress) {
            Ok(fresh) => Ok(fresh),
            Err(Failed::Away(why)) => {
                progress(&format!(
                    "{why}; using the catalogue {name} of {}, {} old.",
                    timestamp(cached.fetched),
                    span(age.unwrap_or_default())
                ));
                Ok(cached)
            }
            Err(failed) => Err(failed.into()),
        },
        None => Ok(download(host, remote, Age::RefuseOlder, progress)?),
    }
}

/// Downloads the catalogue of a remote now. Returns the number of its images.
///
/// # Errors
/// Fails if the server cannot be reached, and with [`Error::Refused`] if the catalogue is not signed
/// by a key of the keyring, is older than the cached one, or is not valid. The cached catalogue then
/// stays.
pub fn refresh(
    host: &Host,
    remote: &Remote,
    age: Age,
    progress: &mut dyn FnMut(&str),
) -> Result<usize, Error> {
    Ok(download(host, remote, age, progress)?.products.len())
}

/// Returns an age in words.
fn span(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..7_200 => (seconds / 60, "minutes"),
        7_200..172_800 => (seconds / 3600, "hours"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{count} {unit}")
}

fn download(
    host: &Host,
    remote: &Remote,
    age: Age,
    progress: &mut dyn FnMut(&str),
) -> Result<Cached, Failed> {
    let name = &remote.name;
    let Protocol::SimpleStreams(base) = &remote.protocol else {
        return Err(refused(format!(
            "{name}: a registry has no catalogue; name an image: {name}:NAME:TAG"
        ))
        .into());
    };
    // Of several commands that want the same catalogue, the first one downloads it.
    let asked = cache::now();
    let _lock = lock::exclusive(&host.root.run().join("catalogues.lock")).map_err(Error::from)?;
    let known = match age {
        Age::AllowOlder => None,
        Age::RefuseOlder => cache::load(host, remote)?,
    };
    if let Some(cached) = known.as_ref().filter(|cached| cached.fetched > asked) {
        return Ok(cached.clone());
    }
    let folder = super::super::open(host)?.download().map_err(Error::from)?;
    let mut fetcher = Fetcher {
        host,
        remote,
        base,
        folder: folder.path(),
        count: 0,
        times: BTreeMap::new(),
        known: known.as_ref(),
    };
    progress(&format!("Refreshing the catalogue {name} from {base}."));
    let text = fetcher.document(INDEX, MAX_INDEX, progress)?;
    let index = Index::read(INDEX, &text).map_err(|error| fetcher.bad(&error.to_string()))?;
    fetcher.dated(INDEX, index.updated)?;
    let mut products = Vec::new();
    for path in index.documents {
        let text = fetcher.document(&path, MAX_PRODUCTS, progress)?;
        let read = Products::read(&path, &text).map_err(|error| fetcher.bad(&error.to_string()))?;
        fetcher.dated(&path, read.updated)?;
        products.extend(read.products);
    }
    let cached = Cached {
        origin: cache::origin(remote),
        fetched: cache::now(),
        documents: fetcher.times,
        products,
    };
    cache::save(host, remote, &cached)?;
    Ok(cached)
}

/// Downloads and checks the documents of one catalogue.
struct Fetcher<'a> {
    host: &'a Host,
    remote: &'a Remote,
    base: &'a Base,
    /// The private folder of the download.
    folder: &'a Path,
    /// The number of files so far, which gives each file its name.
    count: usize,
    /// The times of the documents so far, by path.
    times: BTreeMap<String, u64>,
    /// The catalogue that must not be newer.
    known: Option<&'a Cached>,
}

impl Fetcher<'_> {
    /// Returns the text of a document. With a keyring, this is the text that was signed.
    fn document(
        &mut self,
        path: &str,
        most: u64,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<u8>, Failed> {
        let stem = path
            .strip_suffix(".sjson")
            .or_else(|| path.strip_suffix(".json"));
        let plain = stem.map_or_else(|| path.to_owned(), |stem| format!("{stem}.json"));
        match &self.remote.trust {
            Trust::Keyring(keyring) => {
                let clear = stem.map(|stem| format!("{stem}.sjson"));
                if let Some(clear) = &clear
                    && let Some(text) = self.clear_signed(keyring, path, clear, most, progress)?
                {
                    return Ok(text);
                }
                match self.detached(keyring, path, &plain, most, progress)? {
                    Some(text) => Ok(text),
                    None => Err(self.bad(&format!(
                        "expected a signed document, found neither {} nor {plain}.gpg; take another mirror, or trust its certificate alone: zoneimg remote add --tls-only",
                        clear.as_deref().unwrap_or(path)
                    ))),
                }
            }
            Trust::TlsOnly => {
                let file = self.file(&plain, most, progress)?;
                Ok(signature::read(&file, most)?)
            }
        }
    }

    /// Returns the signed text of a clear-signed document; `None` if the server has no such document.
    fn clear_signed(
        &mut self,
        keyring: &Path,
        path: &str,
        clear: &str,
        most: u64,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Option<Vec<u8>>, Failed> {
        let file = match self.file(clear, most, progress) {
            Err(Failed::Missing(_)) => return Ok(None),
            other => other?,
        };
        let read = signature::clear_signed(keyring, self.folder, &file, most);
        let (text, signature) =
            read.map_err(|error| self.bad(&format!("{clear}: {}", flatten(&error))))?;
        self.signed(path, signature.time)?;
        Ok(Some(text))
    }

    /// Returns the text of a document with a detached signature; `None` if the server has no such
    /// signature.
    fn detached(
        &mut self,
        keyring: &Path,
        path: &str,
        plain: &str,
        most: u64,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Option<Vec<u8>>, Failed> {
        let proof = match self.file(&format!("{plain}.gpg"), MAX_SIGNATURE, progress) {
            Err(Failed::Missing(_)) => return Ok(None),
            other => other?,
        };
        let file = self.file(plain, most, progress)?;
        let read = signature::detached(keyring, self.folder, &proof, &file, most);
        let (text, signature) =
            read.map_err(|error| self.bad(&format!("{plain}: {}", flatten(&error))))?;
        self.signed(path, signature.time)?;
        Ok(Some(text))
    }

    fn file(
        &mut self,
        path: &str,
        most: u64,
        progress: &mut dyn FnMut(&str),
    ) -> Result<PathBuf, Failed> {
        let url = self.base.join(path);
        let url = url.ok_or_else(|| self.bad(&format!("{}: not a path", oci::shown(path))))?;
        self.count += 1;
        let into = self.folder.join(format!("{}.document", self.count));
        web::fetch(self.host, &url, &into, most, None, progress)?;
        Ok(into)
    }

    /// Records the time of a document's signature.
    fn signed(&mut self, path: &str, time: u64) -> Result<(), Failed> {
        self.not_older(path, Some(time))?;
        self.times.insert(path.to_owned(), time);
        Ok(())
    }

    /// Records the time that a document states, if its signature states none.
    fn dated(&mut self, path: &str, updated: Option<u64>) -> Result<(), Failed> {
        if self.times.contains_key(path) {
            return Ok(());
        }
        self.not_older(path, updated)?;
        if let Some(time) = updated {
            self.times.insert(path.to_owned(), time);
        }
        Ok(())
    }

    fn not_older(&self, path: &str, time: Option<u64>) -> Result<(), Failed> {
        let known = self.known.and_then(|known| known.documents.get(path));
        match known {
            Some(known) if time.is_none_or(|time| time < *known) => Err(self.bad(&format!(
                "{path}: expected a document of {} or later, found one {}; an old catalogue hides updates; if the mirror went back itself: zoneimg refresh --allow-older {}",
                timestamp(*known),
                time.map_or_else(|| "without a time".to_owned(), |time| format!("of {}", timestamp(time))),
                self.remote.name
            ))),
            _ => Ok(()),
        }
    }

    fn bad(&self, problem: &str) -> Failed {
        Failed::Other(refused(format!(
            "catalogue {}: {problem}",
            self.remote.name
        )))
    }
}
