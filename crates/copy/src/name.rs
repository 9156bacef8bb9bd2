//! Names of files, which may have any bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::MAX_DEPTH;

/// Maximum length of a name in a folder, in bytes (NAME_MAX).
const MAX_NAME_BYTES: usize = 255;

/// Returns a name for messages: control characters, characters that change the direction of text,
/// and bytes that are not UTF-8 are escaped, so that the name stays on its line.
#[must_use]
pub fn shown(name: impl AsRef<Path>) -> String {
    let mut text = String::new();
    for chunk in name.as_ref().as_os_str().as_bytes().utf8_chunks() {
        for one in chunk.valid().chars() {
            match one {
                '\\' => text.push_str("\\\\"),
                '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    text.extend(one.escape_unicode());
                }
                '\u{2028}' | '\u{2029}' => text.extend(one.escape_unicode()),
                one if one.is_control() => text.extend(one.escape_default()),
                one => text.push(one),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Returns the components of a member's name, without `.` and empty ones. The name of the
/// destination itself has none. Fails with the reason if the name can lead out of the destination
/// or no file can have it.
pub(crate) fn components(name: &[u8]) -> Result<Vec<&OsStr>, &'static str> {
    let mut list = Vec::new();
    for part in name.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => continue,
            b".." => return Err("has .. in its name"),
            part if part.len() > MAX_NAME_BYTES => return Err("has a name that is too long"),
            part if part.contains(&0) => return Err("has a zero byte in its name"),
            part => list.push(OsStr::from_bytes(part)),
        }
        if list.len() > MAX_DEPTH {
            return Err("is too deep in folders");
        }
    }
    Ok(list)
}

/// Returns the name that a path of the caller has in the stream: `.` if the path stands for the
/// content of a folder, and otherwise its last component.
pub(crate) fn of_source(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/');
    let bytes = end.map_or(&b""[..], |end| &bytes[..=end]);
    match bytes.rsplit(|&byte| byte == b'/').next() {
        None | Some(b"" | b"." | b"..") => b".",
        Some(name) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_one_line() {
        let shown = |bytes: &[u8]| shown(OsStr::from_bytes(bytes));
        assert_eq!(shown(b"/srv/a b"), "/srv/a b");
        assert_eq!(shown("/srv/\u{e4}".as_bytes()), "/srv/\u{e4}");
        assert_eq!(shown(b"a\nb\x1b[2J\\"), "a\\nb\\u{1b}[2J\\\\");
        assert_eq!(shown(b"a\xffb"), "a\\xffb");
        assert_eq!(shown("\u{202e}txt".as_bytes()), "\\u{202e}txt");
    }

    #[test]
    fn components_never_lead_upwards() {
        let read = |name: &[u8]| components(name).map(|list| list.len());
        assert_eq!(read(b"./a//b/."), Ok(2));
        assert_eq!(read(b"/etc/passwd"), Ok(2));
        assert_eq!(read(b"."), Ok(0));
        for wrong in [&b"../a"[..], b"a/../../b", b"..", b"a\0b", &[b'x'; 256]] {
            assert!(read(wrong).is_err());
        }
        assert!(read(&b"a/".repeat(MAX_DEPTH + 1)).is_err());
    }

    #[test]
    fn a_path_that_ends_in_a_dot_stands_for_the_content() {
        for (path, name) in [
            ("/srv/site", "site"),
            ("/srv/site/", "site"),
            ("/srv/site/.", "."),
            ("/srv/site/./", "."),
            ("/srv/..", "."),
            ("/", "."),
        ] {
            assert_eq!(of_source(Path::new(path)), name.as_bytes(), "{path}");
        }
    }
}
