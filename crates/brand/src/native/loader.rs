//! The dynamic loader's cache (ld.so.cache), written again with only the libraries that the zone
//! inherits from the host.
//!
//! The format is that of glibc 2.2 and newer: a header, entries in the order of the loader's
//! search, and strings, which the entries name by offset. Without a cache, a zone still finds the
//! libraries of the standard directories. Therefore a cache in an unknown format is left out.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::install::Error;
use crate::native::fill::Fill;
use crate::tree::Meta;

pub const NAME: &str = "etc/ld.so.cache";
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// Flag in the hwcap of entries that need the extensions at the end of the file: variants for newer
/// processors. The extensions are not copied.
const HWCAP_EXTENSION: u64 = 1 << 62;

/// The byte order field of the header for this machine; 0 if the field was never set.
const ENDIANNESS: u8 = if cfg!(target_endian = "little") { 2 } else { 3 };

const MAX_FILE: u64 = 64 << 20;
const MAX_ENTRIES: usize = 1_000_000;
const MAX_STRING: usize = 4096;

/// Writes the cache.
pub fn make(fill: &mut Fill<'_>) -> Result<(), Error> {
    let name = Path::new(NAME);
    let Some((content, _)) = fill.host.read(name, MAX_FILE)? else {
        return Ok(());
    };
    let layout = &fill.layout;
    match filter(&content, |path| layout.covers(path)) {
        Some(cache) => fill.file(name, Meta::root(0o644), &cache),
        None => {
            fill.leave_out(name, "not in a known format");
            Ok(())
        }
    }
}

/// A library in the cache, with its texts instead of offsets.
struct Entry<'c> {
    flags: [u8; 4],
    soname: &'c [u8],
    path: &'c [u8],
    os_version: [u8; 4],
    hwcap: [u8; 8],
}

/// Returns a cache with the entries whose path `keep` accepts, in the same order.
fn filter(cache: &[u8], keep: impl Fn(&Path) -> bool) -> Option<Vec<u8>> {
    let header = cache.get(..HEADER)?;
    if !header.starts_with(MAGIC) || !matches!(header[28] & 3, 0 | ENDIANNESS) {
        return None;
    }
    let count = usize::try_from(number(cache, 20)?).ok()?;
    if count > MAX_ENTRIES {
        return None;
    }
    let mut kept = Vec::new();
    for index in 0..count {
        let entry = entry(cache, HEADER + index * ENTRY)?;
        let plain = u64::from_ne_bytes(entry.hwcap) & HWCAP_EXTENSION == 0;
        if plain && keep(Path::new(OsStr::from_bytes(entry.path))) {
            kept.push(entry);
        }
    }
    write(&kept)
}

fn entry(cache: &[u8], at: usize) -> Option<Entry<'_>> {
    let bytes = cache.get(at..at + ENTRY)?;
    let (soname, path) = (string(cache, at + 4)?, string(cache, at + 8)?);
    // A soname is a plain name without a slash. Only libraries without a soname are listed by their
    // path.
    let soname_is_plain = soname
        .iter()
        .all(|byte| byte.is_ascii_graphic() && *byte != b'/');
    if !soname_is_plain || path.first() != Some(&b'/') {
        return None;
    }
    Some(Entry {
        flags: bytes[..4].try_into().ok()?,
        soname,
        path,
        os_version: bytes[12..16].try_into().ok()?,
        hwcap: bytes[16..24].try_into().ok()?,
    })
}

fn number(cache: &[u8], at: usize) -> Option<u32> {
    let bytes = cache.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Returns the string whose offset is stored at `at`.
fn string(cache: &[u8], at: usize) -> Option<&[u8]> {
    let offset = usize::try_from(number(cache, at)?).ok()?;
    let rest = cache.get(offset..)?;
    let rest = &rest[..rest.len().min(MAX_STRING)];
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(&rest[..end])
}

fn write(entries: &[Entry<'_>]) -> Option<Vec<u8>> {
    let strings_at = HEADER + entries.len() * ENTRY;
    let mut strings = Vec::new();
    let mut known: HashMap<&[u8], u32> = HashMap::new();
    let mut table = Vec::with_capacity(strings_at - HEADER);
    for entry in entries {
        table.extend_from_slice(&entry.flags);
        for text in [entry.soname, entry.path] {
            let offset = match known.get(text) {
                Some(&offset) => offset,
                None => {
                    let offset = u32::try_from(strings_at + strings.len()).ok()?;
                    strings.extend_from_slice(text);
                    strings.push(0);
                    known.insert(text, offset);
                    offset
                }
            };
            table.extend_from_slice(&offset.to_ne_bytes());
        }
        table.extend_from_slice(&entry.os_version);
        table.extend_from_slice(&entry.hwcap);
    }
    let mut cache = Vec::with_capacity(strings_at + strings.len());
    cache.extend_from_slice(MAGIC);
    cache.extend_from_slice(&u32::try_from(entries.len()).ok()?.to_ne_bytes());
    cache.extend_from_slice(&u32::try_from(strings.len()).ok()?.to_ne_bytes());
    cache.push(ENDIANNESS);
    cache.resize(HEADER, 0);
    cache.extend_from_slice(&table);
    cache.extend_from_slice(&strings);
    Some(cache)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(libraries: &[(&str, &str)]) -> Vec<u8> {
        let entries: Vec<Entry<'_>> = libraries
            .iter()
            .map(|(soname, path)| Entry {
                flags: [3, 3, 0, 0],
                soname: soname.as_bytes(),
                path: path.as_bytes(),
                os_version: [0; 4],
                hwcap: [0; 8],
            })
            .collect();
        write(&entries).unwrap()
    }

    #[test]
    fn keeps_what_is_shared_and_drops_every_trace_of_the_rest() {
        let libraries = [
            ("libz.so.1", "/lib/libz.so.1"),
            ("libsecret.so", "/opt/SECRET/libsecret.so"),
            ("liba.so", "/usr/lib/liba.so"),
        ];
        let mut cache = sample(&libraries);
        cache.extend_from_slice(b"SECRET");
        let kept = filter(&cache, |path| !path.starts_with("/opt")).unwrap();
        assert_eq!(kept, sample(&[libraries[0], libraries[2]]));
    }

    #[test]
    fn an_own_cache_reads_back_the_same() {
        // ldconfig prints the cache that it reads. This test uses ldconfig if it is installed.
        let Ok(cache) = std::fs::read("/etc/ld.so.cache") else {
            eprintln!("skipped: this machine has no ld.so.cache");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("cache");
        std::fs::write(&copy, filter(&cache, |_| true).unwrap()).unwrap();
        let list = |cache: &Path| {
            let output = std::process::Command::new("/sbin/ldconfig")
                .args(["-p", "-C"])
                .arg(cache)
                .output();
            output.ok().map(|output| {
                let text = String::from_utf8(output.stdout).unwrap();
                let libraries = text.lines().filter(|line| line.contains("=>"));
                libraries.map(str::to_owned).collect::<Vec<_>>()
            })
        };
        let Some(before) = list(Path::new("/etc/ld.so.cache")) else {
            eprintln!("skipped: this machine has no ldconfig");
            return;
        };
        assert_eq!(list(&copy).unwrap(), before);
        assert!(!before.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_answer(
            count in any::<u32>(),
            rest in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut cache = MAGIC.to_vec();
            cache.extend_from_slice(&count.min(12).to_ne_bytes());
            cache.extend_from_slice(&rest);
            if let Some(kept) = filter(&cache, |_| true) {
                prop_assert_eq!(filter(&kept, |_| true), Some(kept.clone()));
            }
        }
    }
}
