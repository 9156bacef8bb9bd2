//! Creates folders of programs in which the programs that others start are replaced by wrappers.
//!
//! ```text
//! front/   the programs, but zoneadmd is the wrapper of real/zoneadmd
//! real/    the programs
//! far/     the programs, but zoneadm is the wrapper of front/zoneadm
//! ```
//!
//! The zone programs find each other in their own folder, so the folder of a command determines the
//! programs that it starts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Creates the folders below `at` for the programs in `bin`. Returns the first of the folders.
///
/// # Errors
/// Fails if a program is missing or a folder cannot be written.
pub fn make(at: &Path, bin: &Path) -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    for (folder, wrapper) in [
        ("front", Some("zoneadmd")),
        ("real", None),
        ("far", Some("zoneadm")),
    ] {
        let folder = at.join(folder);
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(bin)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_ours = name.to_string_lossy().starts_with('z') && entry.path().is_file();
            if is_ours && !name.to_string_lossy().contains('.') {
                let from = match wrapper {
                    Some(wrapper) if name == wrapper => own.clone(),
                    _ => entry.path(),
                };
                link(&from, &folder.join(name))?;
            }
        }
    }
    Ok(at.join("front"))
}

/// Creates a hard link, or a copy if a hard link is not possible.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(_) => fs::copy(from, to).map(|_| ()),
    }
}
