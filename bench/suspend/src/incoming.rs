//! Measures QEMU's own resume: a guest that QEMU migrated to a file, and that `-incoming` reads.
//!
//! The guest has as much memory as the zone, filled with as much data, and prints the same ticks, on
//! a serial line that QEMU writes to a file.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::zones::{DATA, MEMORY, TICK, wait};

/// The only process of the guest. It fills a file system in memory, until that has no more space.
const INIT: &str = "#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs -o size=@DATA@m data /data
exec >/dev/ttyS0 2>&1
busybox dd if=/dev/urandom of=/data/part bs=1M count=16
while busybox cat /data/part; do :; done >/data/file
busybox mkfifo /f
exec 3<>/f
while :; do echo @TICK@; read -t 0.005 -u 3 x; done
";

/// The guest, in a QEMU that runs or in an image.
pub struct Guest {
    kernel: PathBuf,
    initrd: PathBuf,
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
        fs::create_dir_all(&folder)?;
        let mut guest = Self {
            kernel: kernel_of(system)?,
            initrd: make_initrd(&folder)?,
            console: folder.join("console"),
            image: folder.join("image"),
            qemu: None,
        };
        guest.qemu = Some(Qemu::start(&guest, &[])?);
        guest.first_tick()?;
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
        let mut qemu = Qemu::start(self, &["-S", "-incoming", &from])?;
        qemu.until("query-status", |answer| answer["status"] == "paused")?;
        let load = began.elapsed();
        let lets = Instant::now();
        qemu.execute(r#"{"execute":"cont"}"#)?;
        self.first_tick()?;
        let tick = lets.elapsed();
        self.qemu = Some(qemu);
        Ok(Times { load, tick })
    }

    fn first_tick(&self) -> Result<()> {
        wait("tick of QEMU's guest", || {
            let text = fs::read(&self.console).ok()?;
            String::from_utf8_lossy(&text).contains(TICK).then_some(())
        })
    }
}

/// Returns the kernel in the folder /boot of the root.
fn kernel_of(system: &Path) -> Result<PathBuf> {
    let boot = system.join("boot");
    let entries = fs::read_dir(&boot).with_context(|| boot.display().to_string())?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("vmlinuz")
        })
        .with_context(|| format!("{}: no vmlinuz", boot.display()))
}

fn make_initrd(folder: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    for name in ["bin", "dev", "data"] {
        fs::create_dir_all(root.join(name))?;
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).context("/bin/busybox")?;
    let init = root.join("init");
    let text = INIT.replace("@DATA@", &DATA.to_string());
    fs::write(&init, text.replace("@TICK@", TICK))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    let initrd = folder.join("initrd");
    let status = Command::new("sh")
        .args([
            "-c",
            "cd \"$1\" && find . | ./bin/busybox cpio -o -H newc 2>/dev/null >\"$2\"",
            "sh",
        ])
        .args([&root, &initrd])
        .status()?;
    ensure!(status.success(), "cpio: {status}");
    Ok(initrd)
}

/// A QEMU that answers on its standard input and output.
struct Qemu {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Qemu {
    fn start(guest: &Guest, more: &[&str]) -> Result<Self> {
        // The ticks of an earlier QEMU.
        let _ = fs::remove_file(&guest.console);
        let mut child = Command::new("qemu-system-x86_64")
            .args(["-machine", "q35,sata=off,smbus=off,usb=off,vmport=off"])
            .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "1"])
            .args([
                "-m",
                &format!("{MEMORY}M"),
                "-nodefaults",
                "-no-user-config",
            ])
            .args(["-display", "none", "-qmp", "stdio"])
            .args(["-device", "virtio-rng-pci", "-serial"])
            .arg(format!("file:{}", guest.console.display()))
            .arg("-kernel")
            .arg(&guest.kernel)
            .arg("-initrd")
            .arg(&guest.initrd)
            .args(["-append", "console=ttyS0 mitigations=off loglevel=3"])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("qemu-system-x86_64")?;
        let commands = child.stdin.take().context("no way to QEMU")?;
        let answers = BufReader::new(child.stdout.take().context("no way from QEMU")?);
        let mut qemu = Self {
            child,
            commands,
            answers,
        };
        qemu.execute(r#"{"execute":"qmp_capabilities"}"#)?;
        Ok(qemu)
    }

    /// Returns the answer to a command of the machine protocol. Fails if it is an error.
    fn execute(&mut self, command: &str) -> Result<Value> {
        writeln!(self.commands, "{command}")?;
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line)?;
            ensure!(read > 0, "QEMU has ended after {command}");
            let mut answer: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
            ensure!(answer.get("error").is_none(), "{command}: {line}");
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    /// Executes a command until its answer is as expected.
    fn until(&mut self, command: &str, mut is: impl FnMut(&Value) -> bool) -> Result<()> {
        let command = format!(r#"{{"execute":"{command}"}}"#);
        let mut failed = None;
        let seen = wait(&command, || match self.execute(&command) {
            Ok(answer) => is(&answer).then_some(()),
            Err(err) => {
                failed = Some(err);
                Some(())
            }
        });
        match failed {
            Some(err) => Err(err),
            None => seen,
        }
    }

    fn quit(mut self) -> Result<()> {
        self.execute(r#"{"execute":"quit"}"#)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "QEMU: {status}");
        Ok(())
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // After `quit` it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
