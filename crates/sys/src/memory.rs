//! What a process that waits for days keeps in memory.

use std::io;

/// Lets go of the pages of program code that are mapped only because they were
/// needed once. What is used again comes back from the page cache, with no
/// disk access as long as it is there.
///
/// # Errors
/// When /proc cannot be read.
pub fn release_program_pages() -> io::Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    for (start, end) in maps.lines().filter_map(program_part) {
        // SAFETY: the range is a whole private mapping of a file, as the kernel just
        // listed it, executable and not writable: nothing ever wrote to its pages
        // (relocations are for data, which is left alone), so dropping them loses
        // nothing; they come back from the file.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
    Ok(())
}

/// The range of a line of /proc/PID/maps that is code of a file.
fn program_part(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, mode) = (fields.next()?, fields.next()?);
    // Offset, device and inode stand before the path.
    let path = fields.nth(3)?;
    if mode != "r-xp" || !path.starts_with('/') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_of_files_that_cannot_change() {
        let text = "00401000-004a2000 r-xp 00001000 fe:00 1013 /usr/lib/zones/zoneadmd";
        assert_eq!(program_part(text), Some((0x40_1000, 0x4a_2000)));
        for other in [
            "004cb000-004cd000 rw-p 000ca000 fe:00 1013 /usr/lib/zones/zoneadmd",
            // Read-only only since the loader has written to it.
            "004cb000-004cd000 r--p 000ca000 fe:00 1013 /usr/lib/zones/zoneadmd",
            "7f50e54fe000-7f50e553e000 rw-p 00000000 00:00 0",
            "7f50e5548000-7f50e554a000 r-xp 00000000 00:00 0 [vdso]",
            "00401000-004a2000 r-xs 00001000 fe:00 1013 /dev/shm/x",
        ] {
            assert_eq!(program_part(other), None, "{other}");
        }
    }

    #[test]
    fn the_program_goes_on() {
        release_program_pages().unwrap();
        assert_eq!(program_part(""), None);
    }
}
