//! Measures QEMU's own resume: a guest that QEMU migrated to a file, and that `-incoming` reads.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::qemu::{Qemu, System, first_tick};
use crate::zones::DATA;

/// The guest, in a QEMU that runs or in an image.
pub struct Guest {
    system: System,
    console: PathBuf,
    image: PathBuf,
    qemu: Option<Qemu>,
}

/// The times of a resume.
pub struct Times {
    /// From the start of QEMU until it has read the image.
    pub load: Duration,
    /// From `cont` to the first tick.
    pub tick: Duration,
}

impl Guest {
    /// Starts a guest with the kernel of the root `system`, and waits until its memory is filled. Its
    /// files are below `scratch`.
    pub fn start(system: &Path, scratch: &Path) -> Result<Self> {
        let folder = scratch.join("incoming");
        let mut guest = Self {
            system: System::new(system, &folder, DATA, "")?,
            console: folder.join("console"),
            image: folder.join("image"),
            qemu: None,
        };
        guest.qemu = Some(Qemu::start(&guest.system, &guest.console, &[])?);
        first_tick(&guest.console)?;
        Ok(guest)
    }

    /// Migrates the stopped guest to the image, and ends its QEMU.
    pub fn save(&mut self) -> Result<()> {
        let mut qemu = self
            .qemu
            .take()
            .context("the guest is in its image already")?;
        qemu.execute(r#"{"execute":"stop"}"#)?;
        // The rate is unlimited.
        qemu.execute(
            r#"{"execute":"migrate-set-parameters","arguments":{"max-bandwidth":1099511627776}}"#,
        )?;
        let file = self.image.display();
        qemu.execute(&format!(
            r#"{{"execute":"migrate","arguments":{{"uri":"exec:cat >{file}"}}}}"#
        ))?;
        qemu.until("query-migrate", |answer| answer["status"] == "completed")?;
        qemu.quit()
    }

    /// Starts QEMU with the image, and lets the guest run.
    pub fn resume(&mut self) -> Result<Times> {
        let began = Instant::now();
        let from = format!("exec:cat {}", self.image.display());
        let mut qemu = Qemu::start(&self.system, &self.console, &["-S", "-incoming", &from])?;
        qemu.until("query-status", |answer| answer["status"] == "paused")?;
        let load = began.elapsed();
        let lets = Instant::now();
        qemu.execute(r#"{"execute":"cont"}"#)?;
        first_tick(&self.console)?;
        let tick = lets.elapsed();
        self.qemu = Some(qemu);
        Ok(Times { load, tick })
    }
}
