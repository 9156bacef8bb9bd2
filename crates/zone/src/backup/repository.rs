//! A repository of backups, opened or made.

use std::fs;
use std::path::Path;

use model::{Uuid, ZoneName};
use store::index::Index;

use super::engine::{Engine, Failure};
use super::moments::{self, Moment};
use super::settings::{self, Named, Repository, Settings};
use host::{Error, Host};

/// A repository that this command has opened.
#[derive(Clone, Debug)]
pub struct Backups {
    pub(super) engine: Engine,
}

impl Backups {
    /// Opens a repository that exists.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if no repository or key is known, or if restic is not
    /// installed. The repository itself is read later.
    pub fn open(host: &Host, named: &Named) -> Result<Self, Error> {
        let settings = Settings::of(host, named)?;
        settings::check_key(&settings.key)?;
        let engine = Engine::find(host, settings)?;
        Ok(Self { engine })
    }

    /// Opens a repository. If the command line names the repository and its folder is missing or
    /// empty, makes it, with a new key if there is none. Stores the settings for later commands if
    /// none are stored.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] as [`Backups::open`] does, and if the folder has other files.
    pub fn open_or_make(
        host: &Host,
        named: &Named,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        // Without -r nothing is made: an empty folder may be that of a disk that is not mounted.
        if named.repository.is_none() {
            return Self::open(host, named);
        }
        let settings = Settings::of(host, named)?;
        let engine = Engine::find(host, settings.clone())?;
        let is_there = match &settings.repository {
            Repository::Folder(path) => Some(is_repository(path)?),
            Repository::Ssh { .. } => None,
        };
        // A repository that exists has its key already.
        let new_key = is_there != Some(true) && settings::make_key(&settings.key)?;
        let made = settings::check_key(&settings.key)
            .and_then(|()| initialise(&engine, is_there))
            .inspect_err(|_| {
                if new_key {
                    let _ = fs::remove_file(&settings.key);
                }
            })?;
        if made {
            progress(&format!(
                "Made the repository {}. Only the key in {} opens it: keep a copy of the key on another machine.",
                settings.repository,
                settings.key.display()
            ));
        }
        if settings.keep(host)? {
            progress("Later commands use this repository without -r: see /etc/zones/backup.");
        }
        Ok(Self { engine })
    }

    /// Returns all moments of zones, the oldest first.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if the repository cannot be read with the key.
    pub fn moments(&self) -> Result<Vec<Moment>, Error> {
        moments::parse(&self.answer(&["snapshots", "--json"])?)
    }

    /// Returns the moments of one zone, the oldest first.
    ///
    /// # Errors
    /// Fails as [`Backups::moments`] does.
    pub fn moments_of(&self, host: &Host, zone: &ZoneName) -> Result<Vec<Moment>, Error> {
        Ok(moments::of_zone(
            &self.moments()?,
            zone,
            uuid_of(host, zone)?,
        ))
    }

    pub(super) fn find(
        &self,
        host: &Host,
        zone: &ZoneName,
        word: Option<&str>,
    ) -> Result<Moment, Error> {
        moments::find(&self.moments()?, zone, uuid_of(host, zone)?, word)
    }

    pub(super) fn answer(&self, words: &[&str]) -> Result<Vec<u8>, Error> {
        let answer = self.engine.answer(words, Path::new("/"));
        answer.map_err(|failure| self.engine.error(failure))
    }
}

/// Returns the uuid of a zone that this host knows.
fn uuid_of(host: &Host, zone: &ZoneName) -> Result<Option<Uuid>, Error> {
    Ok(Index::load(&host.root)?
        .find(zone)
        .and_then(|entry| entry.uuid))
}

/// Returns true if a folder has a repository, and false if the folder is missing or empty.
fn is_repository(path: &Path) -> Result<bool, Error> {
    if path.join("config").is_file() {
        return Ok(true);
    }
    match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::Io(format!("look at {}", path.display()), error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(false),
            Some(_) => Err(Error::Refused(format!(
                "{} has files and no repository: name an empty folder",
                path.display()
            ))),
        },
    }
}

/// Makes the repository if it does not exist. Returns true if it was made.
fn initialise(engine: &Engine, is_there: Option<bool>) -> Result<bool, Error> {
    let run = |words: &[&str]| engine.answer(words, Path::new("/"));
    let missing = match is_there {
        Some(is_there) => !is_there,
        None => match run(&["cat", "config"]) {
            Ok(_) => false,
            Err(Failure::NoRepository) => true,
            Err(failure) => return Err(engine.error(failure)),
        },
    };
    if missing {
        run(&["init"]).map_err(|failure| engine.error(failure))?;
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_other_files_becomes_no_repository() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_repository(&dir.path().join("new")).unwrap());
        assert!(!is_repository(dir.path()).unwrap());
        fs::write(dir.path().join("photo"), "").unwrap();
        let error = is_repository(dir.path()).unwrap_err().to_string();
        assert!(error.contains("name an empty folder"), "{error}");
        fs::write(dir.path().join("config"), "").unwrap();
        assert!(is_repository(dir.path()).unwrap());
    }
}
