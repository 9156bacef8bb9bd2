//! Parses the brand options that name the source of a root.

use std::path::{Path, PathBuf};

use crate::install::Error;

/// The source of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A tar archive, plain or compressed.
    Archive(PathBuf),
    /// A directory of the host.
    Directory(PathBuf),
}

/// The brand options of an install.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The source of `-a` or `-d`.
    pub source: Option<Source>,
}

impl Options {
    /// Parses the options. `-u`, `-s` and `-v` are accepted for scripts of Solaris and have no
    /// effect here: the identity is always new, and the caller decides about the output.
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let (flag, attached) = match word.split_at_checked(2) {
                Some((flag, rest)) if flag.starts_with('-') && !flag.starts_with("--") => {
                    (flag, Some(rest).filter(|rest| !rest.is_empty()))
                }
                _ => return Err(Error::Usage(format!("invalid option: {word}"))),
            };
            let make = match flag {
                "-a" => Source::Archive,
                "-d" => Source::Directory,
                "-u" | "-s" | "-v" if attached.is_none() => continue,
                "-p" => {
                    return Err(Error::Usage(
                        "-p: a zone does not take over the identity of its source".to_owned(),
                    ));
                }
                _ => return Err(Error::Usage(format!("invalid option: {word}"))),
            };
            let path = attached
                .or_else(|| words.next())
                .ok_or_else(|| Error::Usage(format!("option requires an argument: {flag}")))?;
            if !Path::new(path).is_absolute() {
                return Err(Error::Usage(format!("{flag} {path}: not an absolute path")));
            }
            if options.source.replace(make(path.into())).is_some() {
                return Err(Error::Usage("give one of -a and -d, once".to_owned()));
            }
        }
        Ok(options)
    }
}
