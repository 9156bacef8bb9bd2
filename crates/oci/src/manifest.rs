//! Indexes, which name an image for each platform, and manifests, which name the layers of an
//! image.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{Digest, Error, MAX_CONFIG, MAX_LAYER, MAX_LAYERS, MAX_MANIFEST, shown};

/// The media types of indexes, followed by those of manifests, for requests to a registry.
pub const MEDIA_TYPES: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// The media types of configurations of runnable images. A manifest may also describe other
/// content.
const CONFIGS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];

/// The annotation that holds the name of an image in a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Maximum number of images in an index.
const MAX_ENTRIES: usize = 1024;

/// The digest and the size of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The media type that the descriptor names.
    pub media_type: String,
    /// The digest of the blob.
    pub digest: Digest,
    /// The length of the blob in bytes.
    pub size: u64,
}

/// A platform, in the words of the Go language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The operating system, for example `linux`.
    pub os: String,
    /// The processor architecture, for example `amd64` or `arm64`.
    pub architecture: String,
    /// The variant of the architecture, for example `v7`; `None` if there is only one variant.
    pub variant: Option<String>,
}

impl Platform {
    /// Returns the platform of Linux on an architecture. `name` is the name of the architecture in
    /// Go (`arm64`) or in the kernel (`aarch64`).
    #[must_use]
    pub fn linux(name: &str) -> Self {
        let (name, variant) = match name.split_once('/') {
            Some((name, variant)) => (name, Some(variant.to_owned())),
            None => (name, None),
        };
        let architecture = match name {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" | "i386" | "i686" => "386",
            "powerpc64le" => "ppc64le",
            "armv7l" => "arm",
            other => other,
        };
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant,
        }
    }

    fn fits(&self, wanted: &Self) -> bool {
        self.os == wanted.os
            && self.architecture == wanted.architecture
            && (wanted.variant.is_none() || self.variant == wanted.variant)
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", shown(&self.os), shown(&self.architecture))?;
        match &self.variant {
            Some(variant) => write!(f, "/{}", shown(variant)),
            None => Ok(()),
        }
    }
}

/// An image that an index lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The digest and size of the image's manifest, or of a further index.
    pub descriptor: Descriptor,
    /// The platform of the image, if the index names one.
    pub platform: Option<Platform>,
    /// The name of the image in a layout.
    pub name: Option<String>,
}

/// The blobs of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The blob of the configuration.
    pub config: Descriptor,
    /// The blobs of the layers, the lowest first.
    pub layers: Vec<Descriptor>,
}

/// The kinds of document to which a reference can lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// An index of several images.
    Index(Vec<Entry>),
    /// The manifest of a single image.
    Manifest(Manifest),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: i64,
    #[serde(default)]
    platform: Option<RawPlatform>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    urls: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RawPlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: i64,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    artifact_type: Option<String>,
    #[serde(default)]
    manifests: Option<Vec<RawDescriptor>>,
    #[serde(default)]
    config: Option<RawDescriptor>,
    #[serde(default)]
    layers: Option<Vec<RawDescriptor>>,
}

impl Document {
    /// Reads an index or a manifest. `what` is the name of the document in messages.
    ///
    /// # Errors
    /// Fails if the document is neither an index nor a manifest, or if the image is not a file
    /// system.
    pub fn read(what: &str, bytes: &[u8]) -> Result<Self, Error> {
        let bad = |problem: String| Error::bad(what, problem);
        if bytes.len() as u64 > MAX_MANIFEST {
            return Err(bad(format!("more than {MAX_MANIFEST} bytes")));
        }
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| bad(format!("neither an index nor a manifest: {error}")))?;
        if raw.schema_version != 2 {
            let version = raw.schema_version;
            return Err(bad(format!("schema version {version}; only 2 is read")));
        }
        let says_index = raw
            .media_type
            .as_deref()
            .map(|kind| MEDIA_TYPES[..2].contains(&kind));
        match (raw.manifests, raw.config, raw.layers) {
            (Some(entries), None, None) if says_index != Some(false) => {
                if entries.len() > MAX_ENTRIES {
                    return Err(bad(format!("more than {MAX_ENTRIES} images")));
                }
                let entries = entries.into_iter().map(|raw| entry(what, raw));
                Ok(Self::Index(entries.collect::<Result<_, _>>()?))
            }
            (None, Some(config), Some(layers)) if says_index != Some(true) => {
                if raw.artifact_type.is_some_and(|kind| !kind.is_empty())
                    || !(config.media_type.is_empty() || CONFIGS.contains(&&*config.media_type))
                {
                    let kind = shown(&config.media_type);
                    return Err(bad(format!("not an image that runs: its config is {kind}")));
                }
                manifest(what, config, layers).map(Self::Manifest)
            }
            // Refuses a document that some programs read as an index and others as a manifest: this
            // ambiguity is a known attack.
            _ => Err(bad("neither an index nor a manifest".to_owned())),
        }
    }
}

fn entry(what: &str, raw: RawDescriptor) -> Result<Entry, Error> {
    let platform = raw.platform.as_ref().map(|platform| Platform {
        os: platform.os.clone(),
        architecture: platform.architecture.clone(),
        variant: platform.variant.clone().filter(|text| !text.is_empty()),
    });
    let annotations = raw.annotations.as_ref();
    let name = annotations.and_then(|all| all.get(REF_NAME)).cloned();
    Ok(Entry {
        descriptor: descriptor(what, raw, MAX_MANIFEST)?,
        platform,
        name,
    })
}

fn manifest(
    what: &str,
    config: RawDescriptor,
    layers: Vec<RawDescriptor>,
) -> Result<Manifest, Error> {
    if layers.len() > MAX_LAYERS {
        let count = layers.len();
        return Err(Error::bad(
            what,
            format!("{count} layers, at most {MAX_LAYERS} are taken"),
        ));
    }
    if layers.is_empty() {
        return Err(Error::bad(what, "no layers"));
    }
    let mut all = Vec::with_capacity(layers.len());
    for layer in layers {
        let kind = &layer.media_type;
        let problem = if kind.contains("foreign") || layer.urls.is_some_and(|urls| !urls.is_empty())
        {
            Some("a layer that is kept elsewhere (foreign)")
        } else if kind.ends_with("+encrypted") {
            Some("an encrypted layer")
        } else if !(kind.contains("tar") || kind.is_empty()) {
            Some("a layer that is no tar archive")
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(Error::bad(what, format!("{problem}: {}", shown(kind))));
        }
        let layer = RawDescriptor {
            urls: None,
            ..layer
        };
        all.push(descriptor(what, layer, MAX_LAYER)?);
    }
    Ok(Manifest {
        config: descriptor(what, config, MAX_CONFIG)?,
        layers: all,
    })
}

fn descriptor(what: &str, raw: RawDescriptor, most: u64) -> Result<Descriptor, Error> {
    let digest = raw
        .digest
        .parse()
        .map_err(|error| Error::bad(what, format!("{}: {error}", shown(&raw.digest))))?;
    let size = u64::try_from(raw.size)
        .ok()
        .filter(|size| (1..=most).contains(size))
        .ok_or_else(|| {
            let size = raw.size;
            Error::bad(
                what,
                format!("{digest}: a size of {size}; 1 to {most} is taken"),
            )
        })?;
    Ok(Descriptor {
        media_type: raw.media_type,
        digest,
        size,
    })
}

/// Returns the image for a platform.
///
/// # Errors
/// Fails if no image fits. The error lists the available platforms.
pub fn choose<'e>(what: &str, entries: &'e [Entry], wanted: &Platform) -> Result<&'e Entry, Error> {
    let fitting = |entry: &&Entry| entry.platform.as_ref().is_some_and(|one| one.fits(wanted));
    if let Some(entry) = entries.iter().find(fitting) {
        return Ok(entry);
    }
    match entries {
        // This entry names no platform. The configuration of the image names it.
        [one] if one.platform.is_none() => Ok(one),
        _ => {
            let all: Vec<String> = entries
                .iter()
                .filter_map(|entry| entry.platform.as_ref())
                .filter(|platform| platform.os != "unknown")
                .take(20)
                .map(ToString::to_string)
                .collect();
            let all = if all.is_empty() {
                "none that names its platform".to_owned()
            } else {
                all.join(", ")
            };
            Err(Error::bad(
                what,
                format!("no image for {wanted}; there are: {all}"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> String {
        format!("sha256:{}", format!("{n:02x}").repeat(32))
    }

    fn read(text: &str) -> Result<Document, String> {
        Document::read("m", text.as_bytes()).map_err(|error| error.to_string())
    }

    fn blob(kind: &str, n: u8, size: &str) -> String {
        format!(
            r#"{{"mediaType":"{kind}","digest":"{}","size":{size}}}"#,
            digest(n)
        )
    }

    const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

    #[test]
    fn a_manifest_is_read() {
        let text = format!(
            r#"{{"schemaVersion":2,"config":{},"layers":[{},{}]}}"#,
            blob(CONFIG, 1, "10"),
            blob(LAYER, 2, "20"),
            blob(LAYER, 3, "30")
        );
        let Document::Manifest(manifest) = read(&text).unwrap() else {
            panic!("an index");
        };
        assert_eq!(manifest.config.size, 10);
        let sizes: Vec<u64> = manifest.layers.iter().map(|layer| layer.size).collect();
        assert_eq!(sizes, [20, 30]);
    }

    #[test]
    fn an_index_names_images_by_machine() {
        let entry =
            |n: u8, platform: &str| format!(r#"{{"digest":"{}","size":5{platform}}}"#, digest(n));
        let text = format!(
            r#"{{"schemaVersion":2,"manifests":[{},{},{}]}}"#,
            entry(
                1,
                r#","platform":{"os":"unknown","architecture":"unknown"}"#
            ),
            entry(2, r#","platform":{"os":"linux","architecture":"arm64"}"#),
            entry(3, r#","platform":{"os":"linux","architecture":"amd64"}"#)
        );
        let Document::Index(entries) = read(&text).unwrap() else {
            panic!("a manifest");
        };
        let chosen = |name: &str| {
            choose("i", &entries, &Platform::linux(name))
                .map(|entry| entry.descriptor.digest.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(chosen("x86_64"), Ok(digest(3)));
        assert_eq!(chosen("aarch64"), Ok(digest(2)));
        assert_eq!(
            chosen("s390x").unwrap_err(),
            "i: no image for linux/s390x; there are: linux/arm64, linux/amd64"
        );
    }

    #[test]
    fn invalid_manifests_are_refused() {
        let config = blob(CONFIG, 1, "10");
        let layer = blob(LAYER, 2, "20");
        let with = |config: &str, layers: &str| {
            format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layers}]}}"#)
        };
        for (text, why) in [
            ("", "neither"),
            ("[]", "neither"),
            (r#"{"schemaVersion":1}"#, "schema version 1"),
            (r#"{"schemaVersion":2}"#, "neither"),
            (
                &format!(
                    r#"{{"schemaVersion":2,"manifests":[],"config":{config},"layers":[{layer}]}}"#
                ),
                "neither",
            ),
            (&with(&config, ""), "no layers"),
            (&with(&blob(CONFIG, 1, "-1"), &layer), "a size of -1"),
            (
                &with(&blob(CONFIG, 1, "99999999999"), &layer),
                "a size of 99999999999",
            ),
            (
                &with(
                    &blob("application/vnd.cncf.helm.config.v1+json", 1, "1"),
                    &layer,
                ),
                "not an image that runs",
            ),
            (
                &with(
                    &config,
                    &blob(
                        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
                        2,
                        "2",
                    ),
                ),
                "kept elsewhere",
            ),
            (
                &with(
                    &config,
                    &blob(
                        "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
                        2,
                        "2",
                    ),
                ),
                "encrypted",
            ),
            (
                &with(&config, &blob("text/plain", 2, "2")),
                "no tar archive",
            ),
            (
                &with(&config, &layer.replace("sha256", "sha512")),
                "other than sha256",
            ),
            (
                &with(&config, &layer.replace("sha256:02", "sha256:0z")),
                "not a digest",
            ),
            (
                &with(&config, &vec![layer.clone(); 128].join(",")),
                "128 layers",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
