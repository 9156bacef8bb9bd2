//! Programs of Debian packages that are not installed on this machine: `./check` unpacks the
//! packages into folders beside its tools, and a zone gets such a folder as a resource `fs`.

use std::path::{Path, PathBuf};

/// The folders of system programs.
pub(crate) const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// A folder with unpacked packages.
#[derive(Debug)]
pub struct Unpacked {
    name: &'static str,
    folder: PathBuf,
}

impl Unpacked {
    /// Looks for `trees/NAME` in the folders of `PATH`. If it does not exist, prints that the test
    /// is skipped.
    #[must_use]
    pub fn find(name: &'static str) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folder = std::env::split_paths(&path)
            .find_map(|folder| folder.join("trees").join(name).canonicalize().ok());
        if folder.is_none() {
            crate::skip(&format!(
                "no unpacked packages of {name}: ./check unpacks podman and samba, ./check --long docker"
            ));
        }
        Some(Self {
            name,
            folder: folder?,
        })
    }

    /// Returns the variables `PATH` and `LD_LIBRARY_PATH` with which programs of the folder run on
    /// this machine.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, String); 2] {
        let at = |folder: &str| self.folder.join(folder).display().to_string();
        let programs = format!("{}:{}:{SYSTEM_PATH}", at("usr/bin"), at("usr/sbin"));
        let libraries = at("usr/lib/x86_64-linux-gnu");
        [("PATH", programs), ("LD_LIBRARY_PATH", libraries)]
    }

    /// Returns the path of the folder in a zone.
    #[must_use]
    pub fn place(&self) -> String {
        format!("/opt/{}", self.name)
    }

    /// Returns the commands of zonecfg that add the folder to a zone.
    #[must_use]
    pub fn configured(&self) -> String {
        format!(
            "add fs; set dir={}; set special={}; set type=lofs; add options ro; end",
            self.place(),
            self.folder.display()
        )
    }

    /// Returns the lines of a shell script that add the programs to `PATH`.
    #[must_use]
    pub fn profile(&self) -> String {
        let place = self.place();
        format!("export PATH={place}/usr/bin:{place}/usr/sbin:$PATH\n")
    }

    /// Returns the lines of a shell script that make the loader find the libraries, also those in
    /// further folders.
    #[must_use]
    pub fn libraries(&self, more: &[&str]) -> String {
        let mut folders = String::new();
        for library in std::fs::read_dir(self.folder.join("usr/lib"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().contains("-linux-gnu"))
        {
            let at = Path::new(&self.place())
                .join("usr/lib")
                .join(library.file_name());
            folders.push_str(&format!("{}\n", at.display()));
            for one in more {
                folders.push_str(&format!("{}\n", at.join(one).display()));
            }
        }
        format!(
            "mkdir -p /etc/ld.so.conf.d\nprintf '{folders}' >/etc/ld.so.conf.d/unpacked.conf\nldconfig\n"
        )
    }
}
