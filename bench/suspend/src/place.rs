//! A host of the measurements: a root folder with zones, its programs and its logs.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Timeout of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(300);

/// The host on which the zones are created.
pub struct Place {
    pub programs: PathBuf,
    pub root: PathBuf,
    pub cgroup: String,
}

impl Place {
    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command
            .args(words)
            .env("ZONES_ROOT", &self.root)
            .env("ZONES_CGROUP", &self.cgroup)
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, program: &str, words: &[&str]) -> Result<Output> {
        let output = self.command(program, words).output()?;
        ensure!(
            output.status.success(),
            "{program} {words:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(output)
    }

    pub fn zoneadm(&self, words: &[&str]) -> Result<Output> {
        self.run("zoneadm", words)
    }

    pub fn guest(&self, script: &str) -> Result<Output> {
        self.run("zlogin", &["-n", "k1", script])
    }

    pub fn log(&self, what: &str) -> Log {
        let path = self.root.join(format!("var/log/zones/k1.{what}"));
        let from = fs::metadata(&path).map_or(0, |meta| meta.len());
        Log { path, from }
    }
}

/// The lines that are added to a log after a moment.
pub struct Log {
    path: PathBuf,
    from: u64,
}

impl Log {
    pub fn text(&self) -> String {
        let mut bytes = Vec::new();
        // A rotated log starts at zero again.
        let from = fs::metadata(&self.path).map_or(0, |meta| meta.len().min(self.from));
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(from))?;
            file.read_to_end(&mut bytes)
        });
        drop(read);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for a line that contains `what`.
    pub fn line(&self, what: &str) -> Result<String> {
        let text = wait(what, || {
            let text = self.text();
            let line = text.lines().find(|line| line.contains(what));
            line.map(str::to_owned)
        })?;
        Ok(text)
    }
}

pub fn wait<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(seen) = seen() {
            return Ok(seen);
        }
        ensure!(Instant::now() < end, "no {what} within {WAIT_TIMEOUT:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Removes the zones when it is dropped.
pub struct Zones<'a>(pub &'a Place);

impl Drop for Zones<'_> {
    fn drop(&mut self) {
        for zone in ["k2", "k1"] {
            for words in [&["halt"][..], &["uninstall", "-F"]] {
                let words = [&["-z", zone], words].concat();
                let _ = self.0.command("zoneadm", &words).output();
            }
            let words = ["-z", zone, "delete", "-F"];
            let _ = self.0.command("zonecfg", &words).output();
        }
    }
}
