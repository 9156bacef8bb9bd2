//! Reduces the memory of a process that waits for days.

use std::io;

/// Releases the pages of the program file, which are mapped because they were used once. If the
/// program uses such a page again, the kernel maps it again: from the page cache, or from the disk
/// if the page cache no longer has the page.
///
/// # Errors
/// Fails if /proc cannot be read.
pub fn release_program_pages() -> io::Result<()> {
    let maps = std::fs::read_to_string("/proc/self/smaps")?;
    for (start, end) in untouched_parts(&maps) {
        // SAFETY: the range is a whole private mapping of a file, as the kernel has just listed it.
        // The mapping is not writable and has no anonymous page, so its content equals the file,
        // and the kernel reads the same content again.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
    Ok(())
}

/// Returns the ranges of /proc/PID/smaps that are read-only parts of files with unchanged content.
/// A part to which the loader wrote, before it became read-only, has anonymous pages and is left
/// out.
fn untouched_parts(smaps: &str) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let mut current = None;
    for line in smaps.lines() {
        match line.split_once(':') {
            Some(("Anonymous", size)) => {
                parts.extend(current.take().filter(|_| size.trim() == "0 kB"));
            }
            // A line with another figure of the mapping.
            Some((name, _)) if !name.contains(' ') => {}
            _ => current = unwritable_file(line),
        }
    }
    parts
}

/// Returns the range of a line that begins a mapping, if it is a read-only mapping of a file.
fn unwritable_file(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, mode) = (fields.next()?, fields.next()?);
    // The fields before the path are offset, device and inode.
    let path = fields.nth(3)?;
    if !matches!(mode, "r-xp" | "r--p") || !path.starts_with('/') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(line: &str, anonymous: &str) -> String {
        format!("{line}\nSize: 4 kB\nAnonymous:      {anonymous}\nVmFlags: rd mr mw me\n")
    }

    #[test]
    fn only_unwritten_parts_of_files_are_dropped() {
        let file = "/usr/lib/zones/zoneadmd";
        let text = [
            mapping(
                &format!("00401000-004a2000 r-xp 00001000 fe:00 10 {file}"),
                "0 kB",
            ),
            mapping(
                &format!("004a2000-004cb000 r--p 000a2000 fe:00 10 {file}"),
                "0 kB",
            ),
            // The loader has written to this part before it became read-only.
            mapping(
                &format!("004cb000-004cd000 r--p 000ca000 fe:00 10 {file}"),
                "8 kB",
            ),
            mapping(
                &format!("004cd000-004cf000 rw-p 000cc000 fe:00 10 {file}"),
                "0 kB",
            ),
            mapping("7f50e54fe000-7f50e553e000 rw-p 00000000 00:00 0", "0 kB"),
            mapping(
                "7f50e5548000-7f50e554a000 r-xp 00000000 00:00 0 [vdso]",
                "0 kB",
            ),
            mapping(
                "00401000-004a2000 r-xs 00001000 fe:00 10 /dev/shm/x",
                "0 kB",
            ),
        ]
        .concat();
        assert_eq!(
            untouched_parts(&text),
            [(0x40_1000, 0x4a_2000), (0x4a_2000, 0x4c_b000)]
        );
    }

    #[test]
    fn the_program_still_runs_after_dropping_its_pages() {
        let before = std::fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(!untouched_parts(&before).is_empty());
        release_program_pages().unwrap();
        assert_eq!(format!("{:?}", untouched_parts("")), "[]");
    }
}
