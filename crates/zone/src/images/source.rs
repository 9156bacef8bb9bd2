//! Parses the source of an image on a command line.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use oci::Reference;

use super::by_name::Chosen;

/// The source of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An archive or a folder of files.
    Files(PathBuf),
    /// A container image in a folder or an archive.
    Images {
        /// The path of the folder or archive.
        path: PathBuf,
        /// The name of the image in the folder or archive; required if it contains several images.
        name: Option<String>,
    },
    /// An image in a registry.
    Registry(Reference),
    /// An image of a catalogue.
    Catalogue(Box<Chosen>),
}

/// Prefixes that mark a path as the path of a container image.
const PREFIXES: [&str; 3] = ["oci:", "oci-archive:", "docker-archive:"];

impl Source {
    /// Returns true if a text names a container image by its form.
    #[must_use]
    pub fn is_image(text: &str) -> bool {
        text.starts_with(oci_scheme()) || PREFIXES.iter().any(|prefix| text.starts_with(prefix))
    }

    /// Finds out whether the folder or archive at a path contains container images or plain files.
    #[must_use]
    pub fn look(path: &Path) -> Self {
        let is_image = match path.is_dir() {
            true => oci::Layout::is_at(path),
            false => brand::container::is_container(path),
        };
        match is_image {
            true => Self::Images {
                path: path.to_owned(),
                name: None,
            },
            false => Self::Files(path.to_owned()),
        }
    }

    /// Returns the default name of the image.
    #[must_use]
    pub fn called(&self) -> String {
        let text = match self {
            Self::Registry(reference) => reference.to_string().replacen(oci_scheme(), "", 1),
            Self::Catalogue(chosen) => chosen.word.clone(),
            Self::Images { path, name } => match name {
                Some(name) => name.clone(),
                None => called(path),
            },
            Self::Files(path) => called(path),
        };
        // A digest in the name is left out.
        let text = text.split('@').next().unwrap_or_default();
        text.chars()
            .filter(|char| !char.is_control())
            .take(64)
            .collect()
    }
}

const fn oci_scheme() -> &'static str {
    "docker://"
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(path) => write!(f, "{}", path.display()),
            Self::Images { path, name: None } => write!(f, "oci:{}", path.display()),
            Self::Images {
                path,
                name: Some(name),
            } => write!(f, "oci:{}:{}", path.display(), oci::shown(name)),
            Self::Registry(reference) => reference.fmt(f),
            Self::Catalogue(chosen) => chosen.fmt(f),
        }
    }
}

/// The reason why a text does not name a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSource {
    /// The path is relative, so its meaning would depend on the working directory of the command.
    #[error("{0}: not an absolute path")]
    Relative(String),
    /// The text is not a valid name of an image in a registry.
    #[error(transparent)]
    Reference(#[from] oci::BadReference),
}

impl FromStr for Source {
    type Err = BadSource;

    /// Parses the name of a container image. Any other text must be an absolute path.
    fn from_str(text: &str) -> Result<Self, BadSource> {
        if text.starts_with(oci_scheme()) {
            return Ok(Self::Registry(text.parse()?));
        }
        let absolute = |path: &str| match Path::new(path).is_absolute() {
            true => Ok(PathBuf::from(path)),
            false => Err(BadSource::Relative(text.to_owned())),
        };
        let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) else {
            return Ok(Self::look(&absolute(text)?));
        };
        // A path may contain colons, so the whole text is the path if such a file exists.
        let (path, name) = match rest.split_once(':') {
            Some((path, name)) if !Path::new(rest).exists() => (path, Some(name.to_owned())),
            _ => (rest, None),
        };
        Ok(Self::Images {
            path: absolute(path)?,
            name: name.filter(|name| !name.is_empty()),
        })
    }
}

/// Returns a name for the image at `path`: `debian-12` for `/tmp/debian-12.tar.xz`.
fn called(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ends = [".gz", ".xz", ".zst", ".bz2", ".tgz", ".txz", ".tar"];
    let mut name = name.as_ref();
    while let Some(rest) = ends.iter().find_map(|end| name.strip_suffix(end)) {
        name = rest;
    }
    name.chars()
        .filter(|char| !char.is_control())
        .take(64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_by_their_form() {
        let read = |text: &str| text.parse::<Source>();
        let images = |path: &str, name: Option<&str>| Source::Images {
            path: path.into(),
            name: name.map(str::to_owned),
        };
        assert_eq!(read("oci:/no/where"), Ok(images("/no/where", None)));
        assert_eq!(
            read("oci:/no/where:1.2"),
            Ok(images("/no/where", Some("1.2")))
        );
        assert_eq!(
            read("docker-archive:/x.tar:a/b:latest"),
            Ok(images("/x.tar", Some("a/b:latest")))
        );
        assert_eq!(
            read("/no/where.tar"),
            Ok(Source::Files("/no/where.tar".into()))
        );
        assert!(read("oci:where").is_err() && read("x.tar").is_err());
        assert!(read("docker://A/B").is_err());
        let registry = read("docker://quay.io/a/b:1").unwrap();
        assert_eq!(registry.called(), "quay.io/a/b:1");
        assert_eq!(registry.to_string(), "docker://quay.io/a/b:1");
        assert!(Source::is_image("docker://x") && !Source::is_image("/x"));
    }

    #[test]
    fn an_image_is_called_like_its_file() {
        for (path, name) in [
            ("/tmp/debian-12.tar.xz", "debian-12"),
            ("/tmp/alpine.tgz", "alpine"),
            ("/srv/root", "root"),
            ("/srv/v1.2", "v1.2"),
            ("/", ""),
        ] {
            assert_eq!(called(Path::new(path)), name);
        }
    }
}
