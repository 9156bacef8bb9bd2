//! The files of a package in dpkg's folder `info`: lists of paths, and of checksums.

use std::ffi::OsStr;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::lines::{Lines, ParseError};

/// Maximum number of paths of one package.
pub const MAX_PATHS: usize = 2_000_000;

/// Maximum length of a path in bytes: the kernel's PATH_MAX.
const MAX_PATH: usize = 4096;

/// Reads a `list` file: one absolute path in each line, and `/.` for the root.
///
/// # Errors
/// Fails if a line has another form, or if a limit is exceeded.
pub fn parse_list(reader: impl BufRead) -> Result<Vec<PathBuf>, ParseError> {
    let mut lines = Lines::new(reader);
    let mut paths = Vec::new();
    while let Some(line) = lines.next_line()? {
        let parsed = if line == b"/." {
            Ok(PathBuf::from("/"))
        } else {
            path(line)
        };
        paths.push(parsed.map_err(|problem| lines.wrong(problem))?);
        if paths.len() > MAX_PATHS {
            return Err(lines.wrong("too many paths"));
        }
    }
    Ok(paths)
}

/// Reads an `md5sums` file. Each line has a checksum, two blanks, and a path relative to the root.
///
/// # Errors
/// Fails if a line has another form, or if a limit is exceeded.
pub fn parse_md5sums(reader: impl BufRead) -> Result<Vec<(PathBuf, [u8; 16])>, ParseError> {
    let mut lines = Lines::new(reader);
    let mut sums = Vec::new();
    while let Some(line) = lines.next_line()? {
        let parsed = line
            .split_at_checked(32)
            .and_then(|(sum, rest)| Some((sum, rest.strip_prefix(b"  ")?)))
            .ok_or("no checksum and path")
            .and_then(|(sum, rest)| Ok((path(&[b"/", rest].concat())?, md5(sum)?)));
        sums.push(parsed.map_err(|problem| lines.wrong(problem))?);
        if sums.len() > MAX_PATHS {
            return Err(lines.wrong("too many paths"));
        }
    }
    Ok(sums)
}

pub(super) fn md5(text: &[u8]) -> Result<[u8; 16], &'static str> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err("not an MD5 sum"),
    };
    let mut sum = [0; 16];
    if text.len() != 2 * sum.len() {
        return Err("not an MD5 sum");
    }
    for (byte, pair) in sum.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(sum)
}

pub(super) fn path(text: &[u8]) -> Result<PathBuf, &'static str> {
    if text.first() != Some(&b'/') {
        return Err("not an absolute path");
    }
    if text.len() > MAX_PATH || text.contains(&0) {
        return Err("not a legal path");
    }
    let path = Path::new(OsStr::from_bytes(text));
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("a path with '..'");
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sums_need_their_shape() {
        let text = b"d41d8cd98f00b204e9800998ecf8427e  usr/share/a b\n";
        let sums = parse_md5sums(&text[..]).unwrap();
        assert_eq!(sums[0].0, Path::new("/usr/share/a b"));
        for bad in [
            &b"d41d8cd98f00b204e9800998ecf8427  usr\n"[..],
            b"D41D8CD98F00B204E9800998ECF8427E  usr\n",
            b"d41d8cd98f00b204e9800998ecf8427e usr\n",
            b"d41d8cd98f00b204e9800998ecf8427e  ../etc\n",
            b"\n",
        ] {
            assert!(parse_md5sums(bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse_md5sums(&bytes[..]);
            if let Ok(paths) = parse_list(&bytes[..]) {
                prop_assert!(paths.iter().all(|path| path.is_absolute()));
            }
        }
    }
}
