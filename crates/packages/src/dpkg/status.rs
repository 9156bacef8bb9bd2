//! The status file of dpkg: one stanza per package, in the format of deb-control(5).

use std::io::BufRead;

use crate::lines::{Lines, ParseError};
use crate::{Conffile, Package, Status};

/// Maximum number of packages in one database.
pub const MAX_PACKAGES: usize = 500_000;

/// Maximum number of configuration files in one database.
pub const MAX_CONFFILES: usize = 1_000_000;

/// Maximum length of a name, version or architecture, in bytes.
const MAX_WORD: usize = 1024;

/// The fields that this module reads. It ignores all other fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Package,
    Status,
    Architecture,
    Version,
    MultiArch,
    Conffiles,
    Other,
}

impl Field {
    fn named(name: &[u8]) -> Self {
        for (text, field) in [
            ("Package", Self::Package),
            ("Status", Self::Status),
            ("Architecture", Self::Architecture),
            ("Version", Self::Version),
            ("Multi-Arch", Self::MultiArch),
            ("Conffiles", Self::Conffiles),
        ] {
            if name.eq_ignore_ascii_case(text.as_bytes()) {
                return field;
            }
        }
        Self::Other
    }
}

/// The fields of the current stanza that were read so far.
#[derive(Default)]
struct Parser {
    packages: Vec<Package>,
    conffiles: usize,
    /// The stanza that the reader is in.
    stanza: Option<Stanza>,
}

#[derive(Default)]
struct Stanza {
    /// The field to which continuation lines belong.
    field: Option<Field>,
    name: String,
    architecture: String,
    version: String,
    status: Option<Status>,
    multi_arch_same: bool,
    conffiles: Vec<Conffile>,
}

/// Reads the status file of dpkg.
///
/// # Errors
/// Fails if dpkg itself would refuse the file, or if a limit is exceeded.
pub fn parse(reader: impl BufRead) -> Result<Vec<Package>, ParseError> {
    let mut lines = Lines::new(reader);
    let mut parser = Parser::default();
    while let Some(line) = lines.next_line()? {
        parser.line(line).map_err(|problem| lines.wrong(problem))?;
    }
    parser.finish().map_err(|problem| lines.wrong(problem))?;
    Ok(parser.packages)
}

impl Parser {
    fn line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        match line.first() {
            None => self.finish(),
            Some(b' ' | b'\t') if line.iter().all(u8::is_ascii_whitespace) => self.finish(),
            Some(b' ' | b'\t') => self.continuation(line),
            Some(_) => self.field(line),
        }
    }

    fn field(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let colon = line.iter().position(|&byte| byte == b':');
        let Some(colon) = colon.filter(|&at| at > 0) else {
            return Err("no field name");
        };
        let field = Field::named(&line[..colon]);
        let stanza = self.stanza.get_or_insert_default();
        stanza.field = Some(field);
        let value = line[colon + 1..].trim_ascii();
        match field {
            Field::Package => stanza.name = name(value)?,
            Field::Architecture => stanza.architecture = name(value)?,
            Field::Version => stanza.version = word(value)?,
            Field::Status => stanza.status = Some(status(value)?),
            Field::MultiArch => stanza.multi_arch_same = value == b"same",
            Field::Conffiles if !value.is_empty() => {
                return Err("a value on the line of Conffiles");
            }
            Field::Conffiles | Field::Other => {}
        }
        Ok(())
    }

    fn continuation(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let stanza = self.stanza.as_mut();
        let field = stanza.as_ref().and_then(|stanza| stanza.field);
        match (stanza, field) {
            (Some(stanza), Some(Field::Conffiles)) => {
                self.conffiles += 1;
                if self.conffiles > MAX_CONFFILES {
                    return Err("too many configuration files");
                }
                stanza.conffiles.push(conffile(line.trim_ascii())?);
                Ok(())
            }
            (Some(_), Some(Field::Other)) => Ok(()),
            (Some(_), Some(_)) => Err("a continuation of a field of one line"),
            _ => Err("a continuation without a field"),
        }
    }

    fn finish(&mut self) -> Result<(), &'static str> {
        let Some(stanza) = self.stanza.take() else {
            return Ok(());
        };
        if stanza.name.is_empty() {
            return Err("a stanza without a package name");
        }
        if self.packages.len() == MAX_PACKAGES {
            return Err("too many packages");
        }
        self.packages.push(Package {
            name: stanza.name,
            architecture: stanza.architecture,
            version: stanza.version,
            status: stanza.status.unwrap_or(Status::NotInstalled),
            multi_arch_same: stanza.multi_arch_same,
            conffiles: stanza.conffiles,
        });
        Ok(())
    }
}

/// Checks the name of a package or architecture. The name becomes part of file names, so only the
/// characters of deb-control(5) and upper case letters are allowed.
fn name(value: &[u8]) -> Result<String, &'static str> {
    let mut bytes = value.iter();
    let legal = bytes.next().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-._".contains(byte));
    if legal {
        word(value)
    } else {
        Err("not a legal name")
    }
}

fn word(value: &[u8]) -> Result<String, &'static str> {
    match std::str::from_utf8(value) {
        Ok(text) if text.len() <= MAX_WORD => Ok(text.to_owned()),
        _ => Err("not a legal value"),
    }
}

/// Reads the field "want flag status". Only its last word gives the state on disk.
fn status(value: &[u8]) -> Result<Status, &'static str> {
    let words: Vec<&[u8]> = value
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .collect();
    let [_, _, status] = words[..] else {
        return Err("Status has not three words");
    };
    Ok(match status {
        b"not-installed" => Status::NotInstalled,
        b"config-files" => Status::ConfigFiles,
        b"half-installed" => Status::HalfInstalled,
        b"unpacked" => Status::Unpacked,
        b"half-configured" => Status::HalfConfigured,
        b"triggers-awaited" => Status::TriggersAwaited,
        b"triggers-pending" => Status::TriggersPending,
        b"installed" => Status::Installed,
        _ => return Err("unknown status"),
    })
}

/// Reads a line `path md5 [obsolete] [remove-on-upgrade]` from its end, because the path may
/// contain spaces.
fn conffile(line: &[u8]) -> Result<Conffile, &'static str> {
    let mut rest = line;
    let (mut obsolete, mut remove_on_upgrade) = (false, false);
    let md5 = loop {
        let space = rest.iter().rposition(|&byte| byte == b' ');
        let Some(space) = space else {
            return Err("a configuration file without a checksum");
        };
        let last = &rest[space + 1..];
        rest = rest[..space].trim_ascii_end();
        match last {
            b"obsolete" if !obsolete => obsolete = true,
            b"remove-on-upgrade" if !remove_on_upgrade => remove_on_upgrade = true,
            b"newconffile" => break None,
            _ => break Some(super::records::md5(last)?),
        }
    };
    Ok(Conffile {
        path: super::records::path(rest)?,
        md5,
        obsolete,
        remove_on_upgrade,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Package {
        let mut packages = parse(text.as_bytes()).unwrap();
        assert_eq!(packages.len(), 1);
        packages.remove(0)
    }

    #[test]
    fn reads_the_fields_and_passes_over_the_rest() {
        let package = one("Package: bash\n\
            Essential: yes\n\
            Status: install ok installed\n\
            Architecture: amd64\n\
            Multi-Arch: same\n\
            Version: 5.2.15-2+b8\n\
            Conffiles:\n\
            \x20/etc/bash.bashrc 89269e1298235f1b12b4c16e4065ad0d\n\
            \x20/etc/with space 22bfb8c1dd94b5f3813a2b25da67463f obsolete\n\
            \x20/etc/gone newconffile remove-on-upgrade\n\
            Description: shell\n\
            \x20/etc/passwd 22bfb8c1dd94b5f3813a2b25da67463f\n\
            \x20.\n");
        assert_eq!(
            (package.name.as_str(), package.version.as_str()),
            ("bash", "5.2.15-2+b8")
        );
        assert_eq!(package.status, Status::Installed);
        assert!(package.multi_arch_same && package.status.is_unpacked());
        let [bashrc, space, gone] = &package.conffiles[..] else {
            panic!("{:?}", package.conffiles);
        };
        assert_eq!(bashrc.path, Path::new("/etc/bash.bashrc"));
        assert_eq!(bashrc.md5.unwrap()[..2], [0x89, 0x26]);
        assert_eq!(space.path, Path::new("/etc/with space"));
        assert!(space.obsolete && !space.remove_on_upgrade);
        assert!(gone.md5.is_none() && gone.remove_on_upgrade && !gone.obsolete);
    }

    #[test]
    fn a_file_of_blank_lines_is_empty() {
        assert!(parse(&b"\n \n\n"[..]).unwrap().is_empty());
        assert!(parse(&b""[..]).unwrap().is_empty());
    }

    #[test]
    fn refusals_name_the_line() {
        for (text, expected) in [
            (" x\n", "line 1: a continuation without a field"),
            (
                "Package: a\n\n x\n",
                "line 3: a continuation without a field",
            ),
            ("Package: ../a\n", "line 1: not a legal name"),
            (
                "Package: a\n b\n",
                "line 2: a continuation of a field of one line",
            ),
            ("Version: 1\n\n", "line 2: a stanza without a package name"),
            (
                "Package: a\nStatus: installed\n",
                "line 2: Status has not three words",
            ),
            ("Package: a\nStatus: a b c\n", "line 2: unknown status"),
            (": x\n", "line 1: no field name"),
            (
                "Package: a\nConffiles:\n /etc/x\n",
                "line 3: a configuration file without a checksum",
            ),
            (
                "Package: a\nConffiles:\n /etc/x 12\n",
                "line 3: not an MD5 sum",
            ),
            (
                "Package: a\nConffiles:\n etc/x newconffile\n",
                "line 3: not an absolute path",
            ),
            (
                "Package: a\nConffiles:\n /etc/../x newconffile\n",
                "line 3: a path with '..'",
            ),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn long_lines_end_the_reading() {
        let mut text = b"Package: a\nDepends: ".to_vec();
        text.resize(3 << 20, b'x');
        let error = parse(&text[..]).unwrap_err().to_string();
        assert_eq!(error, "line 2: the line is too long");
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes[..]);
        }

        #[test]
        fn any_lines_of_the_right_kind_end_in_an_answer(
            lines in proptest::collection::vec(
                "(Package|Status|Conffiles|X)?:? ?(install ok )?(installed|a)?( /[a. /]{0,9} (newconffile|[0-9a-f]{32}|obsolete)){0,2}",
                0..20,
            ),
        ) {
            if let Ok(packages) = parse(lines.join("\n").as_bytes()) {
                for conffile in packages.iter().flat_map(|package| &package.conffiles) {
                    prop_assert!(conffile.path.is_absolute());
                    prop_assert!(!conffile.path.to_string_lossy().split('/').any(|part| part == ".."));
                }
            }
        }

        #[test]
        fn conffiles_come_back_as_written(
            written in proptest::collection::vec(
                ("/[a-z]([a-z ]{0,8}[a-z])?", proptest::option::of(any::<[u8; 16]>()), any::<bool>(), any::<bool>()),
                1..8,
            ),
        ) {
            let mut text = "Package: p\nConffiles:\n".to_owned();
            for (path, md5, obsolete, remove) in &written {
                let sum = md5.map_or("newconffile".to_owned(), |md5| {
                    md5.iter().map(|byte| format!("{byte:02x}")).collect()
                });
                let flags = [("obsolete", obsolete), ("remove-on-upgrade", remove)];
                let flags: String = flags
                    .iter()
                    .filter(|(_, set)| **set)
                    .map(|(flag, _)| format!(" {flag}"))
                    .collect();
                text += &format!(" {path} {sum}{flags}\n");
            }
            let read = parse(text.as_bytes()).unwrap().remove(0).conffiles;
            prop_assert_eq!(read.len(), written.len());
            for (read, (path, md5, obsolete, remove)) in read.iter().zip(&written) {
                prop_assert_eq!(read.path.to_str(), Some(path.as_str()));
                prop_assert_eq!(&read.md5, md5);
                prop_assert_eq!((read.obsolete, read.remove_on_upgrade), (*obsolete, *remove));
            }
        }
    }
}
