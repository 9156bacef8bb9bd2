//! Folders of programs in which those that others start are wrappers.
//!
//! ```text
//! front/   the programs, but zoneadmd is the wrapper of real/zoneadmd
//! real/    the programs
//! far/     the programs, but zoneadm is the wrapper of front/zoneadm
//! ```
//!
//! Our programs find each other beside themselves, so which ones a command starts is told
//! by the folder that it is started from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Makes the folders below `at` for the programs in `bin`. Returns the first of them.
///
/// # Errors
/// When a program is missing or a folder cannot be written.
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

/// A hard link, or a copy where there can be none.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(_) => fs::copy(from, to).map(|_| ()),
    }
}
