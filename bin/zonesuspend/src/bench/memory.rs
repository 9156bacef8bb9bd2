//! Memory that resembles a guest's: the content of files of /usr, and zeros.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::MemfdFlags;
use suspend::format::CHUNK;
use sys::mapping::Mapping;

/// Maximum length of a run, in pages: a run of zeros follows three of files.
const MAX_RUN_PAGES: usize = 1024;

pub struct Memory {
    pub file: File,
    pub length: usize,
    /// Number of bytes in pages that are not all zeros.
    pub nonzero: usize,
    folder: Option<PathBuf>,
}

impl Memory {
    pub fn filled(folder: Option<&Path>, length: usize) -> Result<Self> {
        let mut memory = Self {
            file: new_file(folder, length)?,
            length,
            nonzero: 0,
            folder: folder.map(Path::to_owned),
        };
        memory.fill()?;
        let mut chunk = vec![0; CHUNK];
        for offset in (0..length).step_by(CHUNK) {
            let size = CHUNK.min(length - offset);
            memory
                .file
                .read_exact_at(&mut chunk[..size], offset as u64)?;
            let pages = suspend::nonzero_pages(&chunk[..size]);
            memory.nonzero += pages.count_ones() as usize * 4096;
        }
        Ok(memory)
    }

    /// Returns empty memory of the same size and kind.
    pub fn empty(&self) -> Result<File> {
        new_file(self.folder.as_deref(), self.length)
    }

    pub fn map(&self, file: &File) -> Result<Mapping> {
        Mapping::new(file.as_fd(), self.length).context("cannot map memory")
    }

    fn fill(&mut self) -> Result<()> {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |count: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random >> 33).unwrap_or_default() % count
        };
        let mut files = Files::new();
        let mut run = vec![0; MAX_RUN_PAGES * 4096];
        let mut at = 0;
        while at < self.length {
            let length = (4096 * (16 + below(MAX_RUN_PAGES - 16))).min(self.length - at);
            if below(4) > 0 {
                files.fill(&mut run[..length])?;
                self.file
                    .write_all_at(&run[..length], at as u64)
                    .context("cannot fill memory")?;
            }
            at += length;
        }
        Ok(())
    }
}

fn new_file(folder: Option<&Path>, length: usize) -> Result<File> {
    let file = match folder {
        None => File::from(rustix::fs::memfd_create("bench", MemfdFlags::CLOEXEC)?),
        Some(folder) => {
            // The file has no name: the kernel removes it when the process ends.
            let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let file = rustix::fs::open(folder, flags, mode);
            File::from(file.with_context(|| format!("{}: no file here", folder.display()))?)
        }
    };
    file.set_len(length as u64)?;
    Ok(file)
}

/// Reads the files below /usr one after another, and starts again after the last.
struct Files {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
    open: Option<File>,
    empty_rounds: u32,
}

impl Files {
    fn new() -> Self {
        Self {
            folders: Vec::new(),
            files: Vec::new(),
            open: None,
            empty_rounds: 0,
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            let read = match &mut self.open {
                Some(file) => file.read(&mut bytes[filled..]).unwrap_or(0),
                None => 0,
            };
            filled += read;
            if read > 0 {
                self.empty_rounds = 0;
            } else {
                self.next()?;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if let Some(path) = self.files.pop() {
            self.open = File::open(path).ok();
            return Ok(());
        }
        if self.folders.is_empty() {
            self.empty_rounds += 1;
            ensure!(self.empty_rounds < 3, "there is nothing to read in /usr");
            let all = ["share", "lib", "bin"];
            self.folders = all
                .iter()
                .map(|name| Path::new("/usr").join(name))
                .collect();
        }
        if let Some(folder) = self.folders.pop() {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let mut entries: Vec<_> = entries.collect();
            entries.sort_by_key(fs::DirEntry::path);
            for entry in entries {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => self.folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => self.files.push(entry.path()),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
