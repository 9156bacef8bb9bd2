//! Finds the host name of a zone.

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// The file in the zone that may name another host name than the zone's name.
const FILE: &str = "/etc/hostname";

/// Maximum length of a host name, in bytes (the kernel's bound).
const MAX_BYTES: usize = 64;

/// Returns the host name in the zone's /etc/hostname, or `name` if that file has none. The root of
/// this process is already that of the zone, so no link leads out of the zone.
pub(crate) fn of_zone(name: &str) -> String {
    read().unwrap_or_else(|| name.to_owned())
}

fn read() -> Option<String> {
    // An open of a pipe or a device would wait or have an effect.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, FILE, flags, Mode::empty()).ok()?;
    if FileType::from_raw_mode(fstat(&file).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = [0_u8; 4 * MAX_BYTES];
    let length = rustix::io::read(&file, &mut text[..]).ok()?;
    parse(&text[..length])
}

/// Returns the first line that is no comment, if it is a host name.
fn parse(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_name = line.len() <= MAX_BYTES && line.bytes().all(legal) && !line.starts_with('-');
    is_name.then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_host_name_and_nothing_else() {
        for (text, expected) in [
            (&b"db-1.example\n"[..], Some("db-1.example")),
            (b"# comment\n\n web \nother", Some("web")),
            (b"", None),
            (b"two words\n", None),
            (b"-x\n", None),
            (b"a/b\n", None),
            (b"\xff\n", None),
            (&[b'x'; 65], None),
        ] {
            assert_eq!(parse(text).as_deref(), expected, "{text:?}");
        }
    }
}
