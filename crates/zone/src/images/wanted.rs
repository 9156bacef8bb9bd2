//! Parses the image options of install.

use std::path::{Path, PathBuf};

use crate::images::{Request, Source};
use host::Error;

/// The image options of install.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub image: Option<Named>,
    /// True if the zone runs the command of the image.
    pub init: bool,
}

#[derive(Debug)]
pub(crate) enum Named {
    /// An image of this host, by name or digest, or of a catalogue.
    Here(ByName),
    /// An image that must be imported.
    There(Request),
}

/// An image that is given by its name.
#[derive(Debug)]
pub(crate) struct ByName {
    pub word: String,
    /// The architecture to select from a catalogue; `None` for the host's.
    pub architecture: Option<String>,
    /// The file with credentials for registries; `None` for the host's own file.
    pub credentials: Option<PathBuf>,
}

/// Returns the options of install with `-t` of SmartOS and OmniOS replaced: `-i` with the name or
/// digest of an image, or `-a` with the absolute path of an archive.
pub(crate) fn without_t(options: &[String]) -> Vec<String> {
    let mut own = Vec::with_capacity(options.len());
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let Some(attached) = word.strip_prefix("-t") else {
            own.push(word.clone());
            // The next word is the value of this option, even if it begins with `-t`.
            if matches!(word.as_str(), "-a" | "-b" | "-c" | "-d" | "-i" | "-x") {
                own.extend(words.next().cloned());
            }
            continue;
        };
        let value = match attached {
            "" => words.next().map(String::as_str),
            attached => Some(attached),
        };
        let is_path = value.is_some_and(|value| value.starts_with('/'));
        own.push(if is_path { "-a" } else { "-i" }.to_owned());
        own.extend(value.map(str::to_owned));
    }
    own
}

impl Wanted {
    /// Reads the options that concern images. If the options name no image, they belong to the
    /// brand.
    pub fn read(options: &[String]) -> Result<Self, Error> {
        let usage = |text: String| Err(Error::Usage(text));
        let mut wanted = Self::default();
        let (mut architecture, mut credentials) = (None, None);
        // True if an option is found that is not allowed together with an image.
        let mut others = false;
        let mut words = options.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let (flag, attached) = match word.split_at_checked(2) {
                Some((flag, rest)) if flag.starts_with('-') && !rest.is_empty() => {
                    (flag, Some(rest))
                }
                _ => (word, None),
            };
            match flag {
                "-i" | "-a" | "-d" => {
                    let Some(value) = attached.or_else(|| words.next()) else {
                        return usage(match flag {
                            "-i" => "-i takes the name or digest of an image".to_owned(),
                            _ => format!("option requires an argument: {flag}"),
                        });
                    };
                    let named = match flag {
                        "-i" => Some(Named::Here(ByName {
                            word: value.to_owned(),
                            architecture: None,
                            credentials: None,
                        })),
                        _ => there(value)?.map(|source| Named::There(Request::of(source))),
                    };
                    if others && named.is_some() || wanted.image.is_some() {
                        return usage(ONE.to_owned());
                    }
                    others |= named.is_none();
                    wanted.image = named;
                }
                "-x" => match attached.or_else(|| words.next()).unwrap_or_default() {
                    "image-init" => wanted.init = true,
                    pair => match pair.split_once('=') {
                        Some(("arch", name)) => architecture = Some(name.to_owned()),
                        Some(("credentials", path)) => {
                            if !Path::new(path).is_absolute() {
                                return usage(format!("{path}: not an absolute path"));
                            }
                            credentials = Some(PathBuf::from(path));
                        }
                        _ => others = true,
                    },
                },
                // These options are accepted and ignored for scripts of Solaris, as they are
                // without an image.
                "-u" | "-s" | "-v" => {}
                _ => others = true,
            }
        }
        let own = wanted.init || architecture.is_some() || credentials.is_some();
        match &mut wanted.image {
            Some(_) if others => return usage(ONE.to_owned()),
            Some(Named::There(request)) => {
                request.architecture = architecture;
                request.credentials = credentials;
            }
            Some(Named::Here(named)) => {
                named.architecture = architecture;
                named.credentials = credentials;
            }
            None if own => {
                return usage(
                    "-x image-init, arch and credentials are for container images".to_owned(),
                );
            }
            _ => {}
        }
        Ok(wanted)
    }
}

const ONE: &str = "-i takes the name or digest of an image, and one source is enough";

/// Returns the container image that a value names; `None` if the value names a plain archive or
/// directory.
fn there(value: &str) -> Result<Option<Source>, Error> {
    if !Source::is_image(value) && !Path::new(value).is_absolute() {
        return Ok(None);
    }
    match value.parse::<Source>() {
        Ok(Source::Files(_)) => Ok(None),
        Ok(source) => Ok(Some(source)),
        Err(error) => Err(Error::Usage(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Wanted, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Wanted::read(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_option_t_of_other_systems_names_an_image_or_an_archive() {
        for (line, expected) in [
            ("-x nodataset -t deb", "-x nodataset -i deb"),
            ("-tdeb -v", "-i deb -v"),
            ("-t /srv/root.tar.gz", "-a /srv/root.tar.gz"),
            ("-t", "-i"),
            ("-a -t", "-a -t"),
            ("-d /usr -u", "-d /usr -u"),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(without_t(&words).join(" "), expected);
        }
    }

    #[test]
    fn options_name_an_image_or_are_the_brands() {
        for line in [
            "",
            "-u",
            "-a /no/where.tar -u",
            "-d /usr",
            "-p -a /x",
            "-q",
            "-a",
            "-x other",
        ] {
            let read = read(line);
            assert!(
                read.map_or(line == "-a", |wanted| wanted.image.is_none()),
                "{line}"
            );
        }
        for line in ["-i deb", "-ideb", "-i deb -x image-init -u"] {
            assert!(
                matches!(read(line).unwrap().image, Some(Named::Here(named)) if named.word == "deb")
            );
        }
        let wanted = read("-x image-init -x arch=arm64 -a docker://a/b -x credentials=/c").unwrap();
        let Some(Named::There(request)) = wanted.image else {
            panic!("no image")
        };
        assert!(wanted.init);
        assert_eq!(request.architecture.as_deref(), Some("arm64"));
        assert_eq!(request.credentials.as_deref(), Some(Path::new("/c")));
        for line in [
            "-i",
            "-i a -i b",
            "-i a -d /",
            "-d / -i a",
            "-i a -p",
            "-a docker://A",
            "-a oci:x",
            "-x image-init -d /",
            "-x arch=arm64",
            "-a docker://a -x credentials=c",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
