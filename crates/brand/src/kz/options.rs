//! The options of `zoneadm install` for kz.

use std::path::{Path, PathBuf};

use crate::install::Error;

/// The source of a guest's system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An image of a disk, that of an installer's CD, or the archive of a root.
    File(PathBuf),
    /// A directory of the host that is the root of a system.
    Directory(PathBuf),
}

/// The firmware that starts the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// The BIOS that comes with QEMU.
    Bios,
    /// The UEFI firmware from another package of the host.
    Uefi,
}

/// The install options of the brand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The source of `-a` or `-d`; `None` installs the host's own distribution.
    pub source: Option<Source>,
    /// The size of `-x install-size=SIZE`, in bytes.
    pub size: Option<u64>,
    /// The firmware of `-x firmware=bios|uefi`; `None` chooses the firmware for which the disk is
    /// made.
    pub firmware: Option<Firmware>,
}

/// Minimum size of a disk, in bytes.
const MIN_DISK_BYTES: u64 = 16 << 20;

impl Options {
    /// Parses the options.
    ///
    /// # Errors
    /// Fails with [`Error::Usage`].
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        let mut options = Self {
            source: None,
            size: None,
            firmware: None,
        };
        let usage = |text: String| Err(Error::Usage(text));
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let (flag, attached) = match word.split_at_checked(2) {
                Some((flag, rest)) if flag.starts_with('-') && !flag.starts_with("--") => {
                    (flag, Some(rest).filter(|rest| !rest.is_empty()))
                }
                _ => return usage(format!("invalid option: {word}")),
            };
            match flag {
                // Scripts for Solaris give these options. They have no effect, because the guest
                // sets its identity itself.
                "-u" | "-s" | "-v" if attached.is_none() => continue,
                "-a" | "-b" | "-d" | "-x" => {}
                "-m" | "-c" => {
                    return usage(format!(
                        "{flag}: installers of Solaris do not run here; give -a IMAGE, -b CD or -d DIRECTORY"
                    ));
                }
                _ => return usage(format!("invalid option: {word}")),
            }
            let Some(value) = attached.or_else(|| words.next()) else {
                return usage(format!("option requires an argument: {flag}"));
            };
            if flag == "-x" {
                match value.split_once('=') {
                    Some(("firmware", "bios")) => options.firmware = Some(Firmware::Bios),
                    Some(("firmware", "uefi")) => options.firmware = Some(Firmware::Uefi),
                    Some(("install-size", text)) if size(text).is_some() => {
                        options.size = size(text);
                    }
                    _ => {
                        return usage(format!(
                            "-x {value}: install-size=SIZE is known, 16M or more, as in install-size=16G, and firmware=bios or firmware=uefi"
                        ));
                    }
                }
                continue;
            }
            if !Path::new(value).is_absolute() {
                return usage(format!("{flag} {value}: not an absolute path"));
            }
            let source = match flag {
                "-a" | "-b" => Source::File(value.into()),
                _ => Source::Directory(value.into()),
            };
            if options.source.replace(source).is_some() {
                return usage("give one of -a, -b and -d, once".to_owned());
            }
        }
        Ok(options)
    }
}

/// Returns a size with a suffix as a number of bytes, in whole MiB.
fn size(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let shift = match unit {
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    let size = number.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (MIN_DISK_BYTES..=vm::image::MAX_DISK_BYTES)
        .contains(&size)
        .then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_those_of_solaris_as_far_as_they_mean_something() {
        let options = parse("-v -d /srv/root -x install-size=8G").unwrap();
        assert_eq!(options.source, Some(Source::Directory("/srv/root".into())));
        assert_eq!((options.size, options.firmware), (Some(8 << 30), None));
        let options = parse("-x firmware=uefi").unwrap();
        assert_eq!(options.firmware, Some(Firmware::Uefi));
        let options = parse("-a/srv/disk.qcow2").unwrap();
        assert_eq!(options.source, Some(Source::File("/srv/disk.qcow2".into())));
        assert_eq!(parse("").unwrap().source, None);
    }

    #[test]
    fn errors_name_the_wrong_option() {
        for (text, expected) in [
            ("-d", "requires an argument"),
            ("-d rel", "not an absolute path"),
            ("-a /x -d /y", "once"),
            ("-x cert=/x", "install-size"),
            ("-x install-size=1K", "install-size"),
            ("-x install-size=1M", "16M or more"),
            ("-x install-size=99999999999999999999T", "install-size"),
            ("-x firmware=efi", "firmware=uefi"),
            ("-m /x.xml", "Solaris"),
            ("--what", "invalid option"),
            ("word", "invalid option"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
