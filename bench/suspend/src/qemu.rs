//! A small guest that only QEMU runs, for the comparisons with a zone: its files and its process.
//!
//! The guest has as much memory as the zone, filled with as much data, and prints the same ticks, on
//! a serial line that QEMU writes to a file.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::place::wait;
use crate::zones::{MEMORY, TICK};

/// The only process of the guest. It fills a file system in memory, until that has no more space.
const INIT: &str = "#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs -o size=@DATA@m data /data
exec >/dev/ttyS0 2>&1
busybox dd if=/dev/urandom of=/data/part bs=1M count=16
while busybox cat /data/part; do :; done >/data/file
busybox mkfifo /f
exec 3<>/f
@LOAD@
while :; do echo @TICK@; read -t 0.005 -u 3 x; done
";

/// The files from which QEMU starts the guest.
pub struct System {
    pub kernel: PathBuf,
    pub initrd: PathBuf,
}

impl System {
    /// Writes the files below `folder`: the kernel is that of the root `system`. The guest fills
    /// `data` MiB of its memory, and runs the lines of shell in `load` before it prints ticks.
    pub fn new(system: &Path, folder: &Path, data: u64, load: &str) -> Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self {
            kernel: kernel_of(system)?,
            initrd: make_initrd(folder, data, load)?,
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

fn make_initrd(folder: &Path, data: u64, load: &str) -> Result<PathBuf> {
    let root = folder.join("root");
    for name in ["bin", "dev", "data"] {
        fs::create_dir_all(root.join(name))?;
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).context("/bin/busybox")?;
    let init = root.join("init");
    let text = INIT.replace("@DATA@", &data.to_string());
    fs::write(&init, text.replace("@TICK@", TICK).replace("@LOAD@", load))?;
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

/// A QEMU that answers on its standard input and output. Killed when dropped.
pub struct Qemu {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Qemu {
    /// Starts QEMU with more words on its command line. The guest's ticks go to the file `console`,
    /// which is removed first.
    pub fn start(system: &System, console: &Path, more: &[&str]) -> Result<Self> {
        // The ticks of an earlier QEMU.
        let _ = fs::remove_file(console);
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
            .arg(format!("file:{}", console.display()))
            .arg("-kernel")
            .arg(&system.kernel)
            .arg("-initrd")
            .arg(&system.initrd)
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
    pub fn execute(&mut self, command: &str) -> Result<Value> {
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

    /// Executes a command until its answer is as expected, and returns this answer.
    pub fn until(&mut self, command: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
        let command = format!(r#"{{"execute":"{command}"}}"#);
        wait(&command, || match self.execute(&command) {
            Ok(answer) => is(&answer).then_some(Ok(answer)),
            Err(err) => Some(Err(err)),
        })?
    }

    pub fn quit(mut self) -> Result<()> {
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

/// Waits for a tick in the file that [`Qemu::start`] was given.
pub fn first_tick(console: &Path) -> Result<()> {
    wait("tick of QEMU's guest", || {
        let text = fs::read(console).ok()?;
        String::from_utf8_lossy(&text).contains(TICK).then_some(())
    })
}
