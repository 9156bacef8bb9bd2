//! Finds the image that a name means, and searches catalogues.

use catalogue::names::{self, Missing, Shelf};
use catalogue::{Product, Protocol, Remote};
use host::{Error, Host, flatten};

use super::cache::Cached;
use super::chosen::{Chosen, architecture, refused};
use super::{refresh, remotes};
use crate::images::Source;

/// The message for commands that need a catalogue.
pub const NONE_CONFIGURED: &str = "no catalogue of images is configured; configure a mirror: \
     zoneimg remote add NAME https://HOST/PATH --keyring FILE";

/// An image of a catalogue, as `search` returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the remote.
    pub remote: String,
    /// The product, with its newest version.
    pub product: Product,
}

/// Returns the image that a name means. `remote:name` is looked up in one remote, other names in all
/// remotes with a catalogue.
///
/// # Errors
/// Fails with [`Error::Refused`] if no remote is configured, or if no image or several images have
/// this name.
pub fn resolve(
    host: &Host,
    word: &str,
    wanted: Option<&str>,
    progress: &mut dyn FnMut(&str),
) -> Result<Source, Error> {
    let remotes = remotes::list(host)?;
    if remotes.is_empty() {
        return Err(refused(without_remotes(word)));
    }
    let (one, name) = match word.split_once(':') {
        Some((before, rest)) => match remotes.iter().find(|remote| remote.name == before) {
            Some(remote) => (Some(remote), rest),
            None => (None, word),
        },
        None => (None, word),
    };
    if let Some(remote) = one
        && let Protocol::Oci(prefix) = &remote.protocol
    {
        let reference = format!("{prefix}/{name}").parse();
        return reference
            .map(Source::Registry)
            .map_err(|error: oci::BadReference| refused(error.to_string()));
    }
    let catalogues = catalogues(host, &remotes, one, progress)?;
    let wanted_of: Vec<String> = catalogues
        .found
        .iter()
        .map(|(remote, _)| architecture(remote, wanted))
        .collect();
    let shelves: Vec<Shelf<'_>> = catalogues
        .found
        .iter()
        .zip(&wanted_of)
        .map(|((remote, cached), architecture)| Shelf {
            remote: &remote.name,
            architecture,
            products: &cached.products,
        })
        .collect();
    let found = match names::find(&shelves, name) {
        Ok(found) => found,
        Err(missing) => {
            // The image may be in a catalogue that could not be read.
            if let Some(error) = catalogues.failed {
                return Err(error);
            }
            return Err(refused(not_found(word, &remotes, one, &wanted_of, missing)));
        }
    };
    let remote = remotes.iter().find(|remote| remote.name == found.remote);
    let remote = remote.ok_or_else(|| refused(remotes::unknown_of(found.remote, &remotes)))?;
    Ok(Source::Catalogue(Box::new(Chosen {
        remote: remote.clone(),
        word: name.to_owned(),
        product: found.product.clone(),
    })))
}

/// The catalogues of remotes, and the first error.
struct Catalogues<'r> {
    found: Vec<(&'r Remote, Cached)>,
    failed: Option<Error>,
}

/// Reads the catalogue of one remote or of all remotes. Of all remotes, some may fail.
fn catalogues<'r>(
    host: &Host,
    remotes: &'r [Remote],
    one: Option<&'r Remote>,
    progress: &mut dyn FnMut(&str),
) -> Result<Catalogues<'r>, Error> {
    let mut all = Catalogues {
        found: Vec::new(),
        failed: None,
    };
    if let Some(remote) = one {
        let cached = refresh::current(host, remote, progress)?;
        all.found.push((remote, cached));
        return Ok(all);
    }
    for remote in remotes {
        if matches!(remote.protocol, Protocol::Oci(_)) {
            continue;
        }
        match refresh::current(host, remote, progress) {
            Ok(cached) => all.found.push((remote, cached)),
            Err(error) => {
                progress(&format!("Skipping {}: {}.", remote.name, flatten(&error)));
                all.failed.get_or_insert(error);
            }
        }
    }
    Ok(all)
}

/// Returns the message for a name if no remote is configured.
fn without_remotes(word: &str) -> String {
    format!(
        "{}: this host has no image of this name, and no catalogue of images is configured; \
         configure a mirror: zoneimg remote add NAME https://HOST/PATH --keyring FILE; or install \
         from a file: -a FILE; or without -i, after zonecfg create -b: that makes a Debian root \
         with mmdebstrap",
        oci::shown(word)
    )
}

/// Returns the message for a name that means no image or several images.
fn not_found(
    word: &str,
    remotes: &[Remote],
    one: Option<&Remote>,
    wanted: &[String],
    missing: Missing,
) -> String {
    let shown = oci::shown(word);
    let (near, architectures) = match missing {
        Missing::Ambiguous(names) => {
            return format!(
                "{shown}: expected the name of one image, found {}; take one of these",
                names.join(" and ")
            );
        }
        Missing::Unknown {
            near,
            architectures,
        } => (near, architectures),
    };
    if let (None, Some((before, rest))) = (one, word.split_once(':'))
        && !rest.contains(':')
    {
        return remotes::unknown_of(before, remotes);
    }
    let place = match one {
        Some(remote) => format!("the catalogue {} has", remote.name),
        None => format!(
            "this host and the catalogues {} have",
            remotes::names(remotes)
        ),
    };
    let mut text = match architectures.is_empty() {
        true => format!("{shown}: {place} no image of this name"),
        false => format!(
            "{shown}: {place} it for {}, not for {}; -x arch=NAME (zoneimg import --arch NAME) takes another",
            architectures.join(", "),
            wanted.first().map_or("this host", String::as_str)
        ),
    };
    match near.split_last() {
        None => text.push_str("; zoneimg search lists all images"),
        Some((last, [])) => text.push_str(&format!("; did you mean {last}?")),
        Some((last, rest)) => {
            text.push_str(&format!("; did you mean {} or {last}?", rest.join(", ")));
        }
    }
    text
}

/// Returns the images of all catalogues whose names contain a pattern, for the architecture of their
/// remote. A remote that fails is reported as progress.
///
/// # Errors
/// Fails if no remote is configured, or if no catalogue can be read.
pub fn search(
    host: &Host,
    pattern: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, Error> {
    let remotes = remotes::list(host)?;
    if remotes.is_empty() {
        return Err(refused(NONE_CONFIGURED.to_owned()));
    }
    let all = catalogues(host, &remotes, None, progress)?;
    if let (Some(error), true) = (all.failed, all.found.is_empty()) {
        return Err(error);
    }
    let pattern = pattern.to_lowercase();
    let mut rows = Vec::new();
    for (remote, cached) in all.found {
        let wanted = architecture(remote, None);
        let fits = |product: &Product| {
            let mut called = product.aliases.iter().chain([&product.name]);
            product.architecture == wanted
                && called.any(|name| name.to_lowercase().contains(&pattern))
        };
        rows.extend(cached.products.into_iter().filter(fits).map(|product| Row {
            remote: remote.name.clone(),
            product,
        }));
    }
    rows.sort_by(|a, b| (a.product.called(), &a.remote).cmp(&(b.product.called(), &b.remote)));
    Ok(rows)
}
