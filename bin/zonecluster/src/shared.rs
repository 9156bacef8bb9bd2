//! Kernel zones whose disks are on storage that all hosts have mounted.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use crate::call::{self, Zone};

/// Seconds in which another host must answer.
const SSH_TIMEOUT_OPTION: &str = "ConnectTimeout=10";
/// The status of ssh if it could not log in.
const SSH_FAILED: i32 = 255;

/// The disks of a kernel zone, all of them files outside of its zonepath.
#[derive(Debug, PartialEq, Eq)]
pub struct Disks(Vec<PathBuf>);

impl Disks {
    /// Returns the disks that the configuration of a zone names, in its order.
    ///
    /// # Errors
    /// Fails if it names none, or one that is no file or is in the zonepath.
    pub fn of(zone: &Zone) -> anyhow::Result<Self> {
        let export = call::run("zonecfg", &["-z", &zone.name, "export"])?;
        Self::read(&export, &zone.path).with_context(|| format!("zone {}", zone.name))
    }

    fn read(export: &str, zonepath: &str) -> anyhow::Result<Self> {
        let brand = export
            .lines()
            .any(|line| line == "set brand=solaris-kz" || line == "set brand=kz");
        ensure!(brand, "--shared-disks: expected a kernel zone");
        let values = export
            .lines()
            .filter_map(|line| line.strip_prefix("set storage="));
        let mut disks = Vec::new();
        for value in values.map(|value| value.trim_matches('"')) {
            let Some(path) = value.strip_prefix("file://").map(PathBuf::from) else {
                bail!(
                    "{value}: expected a file (file://PATH): QEMU does not lock other disks between hosts"
                );
            };
            ensure!(
                !path.starts_with(zonepath),
                "{}: expected a file on shared storage, found one in the zonepath",
                path.display()
            );
            disks.push(path);
        }
        ensure!(
            !disks.is_empty(),
            "--shared-disks: its configuration names no disk"
        );
        Ok(Self(disks))
    }

    /// Returns the file beside the first disk with the configuration of the zone, which every host uses.
    pub fn config_path(&self, zone: &str) -> PathBuf {
        self.0[0].with_file_name(format!("{zone}.cluster.cfg"))
    }

    /// Refuses a zone that runs here, has data in its zonepath, or has a disk that a host does not
    /// reach; and hosts that cannot log in on each other.
    ///
    /// # Errors
    /// Fails with the first reason.
    pub fn ensure_ready(&self, zone: &Zone, hosts: &[String]) -> anyhow::Result<()> {
        let name = &zone.name;
        match zone.state.as_str() {
            "installed" => {
                let words = ["-z", name, "uninstall", "--shared-disks", "-n"];
                call::run("zoneadm", &words)?;
            }
            "configured" => {}
            state => bail!(
                "zone {name}: it is {state}; expected a zone that does not run (zoneadm -z {name} halt)"
            ),
        }
        for disk in &self.0 {
            let meta = fs::metadata(disk).with_context(|| disk.display().to_string())?;
            ensure!(meta.is_file(), "{}: it is no file", disk.display());
        }
        self.ensure_safe_folder()?;
        let here = call::run("crm_node", &["-n"])?;
        for host in hosts.iter().filter(|host| *host != here.trim()) {
            self.ensure_reached_by(host)?;
        }
        Ok(())
    }

    /// Refuses a folder in which other users could replace the configuration, which names devices of
    /// the hosts.
    fn ensure_safe_folder(&self) -> anyhow::Result<()> {
        /// Write permission of group and others.
        const OTHERS_WRITE: u32 = 0o022;
        let folder = self.0[0].parent().context("a disk is in a folder")?;
        let meta = fs::metadata(folder).with_context(|| folder.display().to_string())?;
        ensure!(
            meta.uid() == 0 && meta.mode() & OTHERS_WRITE == 0,
            "{}: expected a folder that only root can write to, because the configuration of the zone lies there; \
             move the disk to one",
            folder.display()
        );
        Ok(())
    }

    fn ensure_reached_by(&self, host: &str) -> anyhow::Result<()> {
        let to = format!("root@{host}");
        for disk in &self.0 {
            let test = format!("test -f {}", quoted(disk));
            let words = ["-o", "BatchMode=yes", "-o", SSH_TIMEOUT_OPTION, &to, &test];
            let output = call::output("ssh", &words, "")?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(
                output.status.code() != Some(SSH_FAILED),
                "{host}: root cannot log in there by ssh without a question, which a migration needs: {}",
                said.trim()
            );
            ensure!(
                output.status.success(),
                "{host}: {}: no such file there: is the shared storage mounted?",
                disk.display()
            );
        }
        Ok(())
    }
}

/// Returns a path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(devices: &[&str]) -> Result<Disks, String> {
        let mut text = "create -b\nset brand=solaris-kz\n".to_owned();
        for device in devices {
            text += &format!("add device\nset storage={device}\nset id=0\nend\n");
        }
        Disks::read(&text, "/zones/k1").map_err(|error| error.to_string())
    }

    #[test]
    fn the_configuration_lies_beside_the_first_disk() {
        let disks = read(&["file:///nfs/a/k1.raw", "\"file:///nfs/b c/k1.raw\""]).unwrap();
        assert_eq!(disks.0[1], Path::new("/nfs/b c/k1.raw"));
        assert_eq!(disks.config_path("k1"), Path::new("/nfs/a/k1.cluster.cfg"));
    }

    #[test]
    fn refuses_disks_that_are_not_shared_files() {
        for (device, why) in [
            ("file:///zones/k1/disk0", "in the zonepath"),
            ("dev:/dev/sdb", "expected a file"),
        ] {
            let error = read(&["file:///nfs/k1.raw", device]).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(read(&[]).unwrap_err().contains("names no disk"));
        let native = Disks::read("create\nset storage=file:///nfs/x\n", "/zones/k1");
        assert!(native.unwrap_err().to_string().contains("a kernel zone"));
    }

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(quoted(Path::new("/a b'c")), r"'/a b'\''c'");
    }
}
