//! Changes the zonepath or the name of a zone whose files exist, with the paths of files in the
//! zonepath.

use std::path::Path;

use super::{Config, Error};
use crate::ZoneName;

/// The properties that may name a file in the zonepath: the resource and the property.
const IN_ZONEPATH: [(&str, &str); 4] = [
    ("device", "storage"),
    ("device", "match"),
    ("suspend", "path"),
    ("suspend", "storage"),
];

/// The begin of a storage URI that names a file of this host.
const FILE_URI: &str = "file://";

impl Config {
    /// Sets the zonepath to a literal path. The properties that name files in the former zonepath
    /// name them in the new one.
    ///
    /// # Errors
    /// Fails if a path is not valid.
    pub fn relocate(&mut self, zonepath: &Path) -> Result<(), Error> {
        let old = self.zonepath().to_string_lossy().into_owned();
        let new = zonepath.to_string_lossy().into_owned();
        let paths = self.paths_in(&old);
        self.set_zonepath(&literal(&new))?;
        self.set_paths(&paths, &new)
    }

    /// Renames a zone whose files exist. Its zonepath stays, and so do the paths of files in it.
    ///
    /// # Errors
    /// Fails if a path is not valid.
    pub fn rename_in_place(&mut self, name: ZoneName) -> Result<(), Error> {
        let zonepath = self.zonepath();
        let fixed = zonepath.to_string_lossy().into_owned();
        let paths = self.paths_in(&fixed);
        self.rename(name);
        if self.zonepath() != zonepath {
            self.set_zonepath(&literal(&fixed))?;
        }
        self.set_paths(&paths, &fixed)
    }

    /// Returns the properties that name files in a folder: the number of the resource, the
    /// property, its text before the folder, and its text behind the folder.
    fn paths_in(&self, folder: &str) -> Vec<(usize, &'static str, String, String)> {
        let mut found = Vec::new();
        for (number, resource) in self.resources.iter().enumerate() {
            for (_, property) in IN_ZONEPATH
                .into_iter()
                .filter(|(of, _)| *of == resource.spec().name)
            {
                let text = self.text(resource, property);
                let begin = if text.starts_with(FILE_URI) {
                    FILE_URI.len()
                } else {
                    0
                };
                let (before, path) = text.split_at(begin);
                let behind = path.strip_prefix(folder);
                if let Some(behind) = behind.filter(|behind| behind.starts_with('/')) {
                    found.push((number, property, before.to_owned(), behind.to_owned()));
                }
            }
        }
        found
    }

    fn set_paths(
        &mut self,
        paths: &[(usize, &'static str, String, String)],
        folder: &str,
    ) -> Result<(), Error> {
        for (number, property, before, behind) in paths {
            let wanted = format!("{before}{folder}{behind}");
            if self.text(&self.resources[*number], property) != wanted {
                self.resources[*number].set(property, &literal(&wanted))?;
            }
        }
        Ok(())
    }
}

/// Returns a text in which no part is a token.
fn literal(text: &str) -> String {
    text.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Resource;
    use crate::table;

    fn kernel_zone() -> Config {
        let mut config = Config::new("web1".parse().unwrap());
        config.set("brand", "solaris-kz").unwrap();
        config.set_zonepath("/zones/%{zonename}").unwrap();
        for storage in [
            "file:///zones/%{zonename}/disk%{id}",
            "file:///zones/web1x/d",
        ] {
            let mut disk = Resource::new(table::resource("device").unwrap());
            disk.set("storage", storage).unwrap();
            config.add(disk).unwrap();
        }
        let mut suspend = Resource::new(table::resource("suspend").unwrap());
        suspend.set("path", "/zones/%{zonename}/suspend").unwrap();
        config.add(suspend).unwrap();
        config
    }

    fn paths(config: &Config) -> Vec<String> {
        let disks = config.machine_disks().into_iter().map(|disk| disk.storage);
        let suspend = config.suspend_path().unwrap().display().to_string();
        let zonepath = config.zonepath().display().to_string();
        [zonepath]
            .into_iter()
            .chain(disks)
            .chain([suspend])
            .collect()
    }

    #[test]
    fn paths_in_the_zonepath_follow_a_move() {
        let mut config = kernel_zone();
        config.relocate(Path::new("/srv/100%")).unwrap();
        assert_eq!(
            paths(&config),
            [
                "/srv/100%",
                "file:///srv/100%/disk0",
                "file:///zones/web1x/d",
                "/srv/100%/suspend"
            ]
        );
    }

    #[test]
    fn paths_of_a_zone_with_files_stay_at_a_rename() {
        let mut config = kernel_zone();
        let before = paths(&config);
        config.rename_in_place("web2".parse().unwrap()).unwrap();
        assert_eq!(config.name().as_str(), "web2");
        assert_eq!(paths(&config), before);
        // A literal zonepath is not changed.
        let text = config.get("zonepath").to_owned();
        config.rename_in_place("web3".parse().unwrap()).unwrap();
        assert_eq!(config.get("zonepath"), text);
    }
}
