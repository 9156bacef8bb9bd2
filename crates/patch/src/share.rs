//! Patches once, and shares the result between zones.
//!
//! Zones with the same packages on a common layer get the same result from the same order. Two such
//! zones are really patched. If both changed the same paths in the same way, the result of one zone
//! becomes a layer below the own layers of each other zone. If an own layer of a zone has one of
//! those paths, the zone is patched separately.
//!
//! | file | holds |
//! |---|---|
//! | `running` | the layer for a running zone: in a boot environment, which its next boot uses |
//! | `take` | the two patched zones use the layer, too |

mod running;
mod take;

use std::path::{Path, PathBuf};

use host::{Error, Host};
use model::{State, ZoneName};
use storage::{Dataset, Name, changed_folder, differences, holds, misfit};
use zone::job;

use crate::ending::End;
use crate::record::{self, Change, How, Journal, Phase};
use crate::recover;
use crate::recover::{keep_or_go_back, look};
use crate::transaction::{self, Done, Patch, Ready, Running, Witness};

/// Files and links that differ from zone to zone or from run to run. They are not part of a patch,
/// and are neither compared nor shared. A `/` at the end means every path below.
const NOISE: &[&str] = &[
    "etc/hostid",
    "etc/hostname",
    "etc/hosts",
    "etc/machine-id",
    "etc/resolv.conf",
    "run/",
    "tmp/",
    "var/cache/apt/",
    "var/cache/debconf/config.dat-old",
    "var/cache/debconf/passwords.dat-old",
    "var/cache/debconf/templates.dat-old",
    "var/cache/ldconfig/aux-cache",
    "var/lib/apt/lists/",
    "var/lib/apt/periodic/",
    "var/lib/dpkg/available-old",
    "var/lib/dpkg/diversions-old",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/statoverride-old",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/triggers/Lock",
    "var/lib/systemd/random-seed",
    "var/log/",
    "var/tmp/",
];

/// Returns true if a path is not part of a patch.
#[must_use]
pub fn is_noise(path: &Path) -> bool {
    NOISE.iter().any(|name| match name.strip_suffix('/') {
        Some(folder) => path.starts_with(folder),
        None => path == Path::new(name),
    })
}

/// A layer with the result of a patch, for other zones.
#[derive(Debug)]
pub struct Shared {
    /// The dataset that holds the layer.
    place: PathBuf,
    /// The tree of the layer below it.
    base: PathBuf,
    /// The tree of the layer itself.
    tree: PathBuf,
    /// The fingerprint that a zone must have before the patch.
    before: String,
    after: String,
    /// The changed packages.
    packages: Vec<Change>,
    services: Vec<String>,
    journal: PathBuf,
}

/// A zone that was patched also for others.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The name of the zone.
    pub zone: ZoneName,
    /// The result of the patch.
    pub witness: Witness,
    /// The changed packages.
    pub packages: Vec<Change>,
    /// Services that the packages want to restart.
    pub services: Vec<String>,
    /// The boot environment that has the result; `None` if the zone was halted and has it already.
    pub environment: Option<Name>,
}

/// Returns the reason why other zones cannot use this zone's result; `None` if they can.
///
/// # Errors
/// Fails if the layers of the zone cannot be read.
pub fn unfit(seen: &Seen) -> Result<Option<String>, Error> {
    if let Some(why) = &seen.witness.unfit {
        return Ok(Some(why.clone()));
    }
    let Witness {
        tree, above, below, ..
    } = &seen.witness;
    if let Some(why) = in_the_way(tree, above)? {
        return Ok(Some(why));
    }
    let changed = changed_folder(tree, above, below, &is_noise)?;
    Ok(changed.map(|misfit| misfit.to_string()))
}

/// A file that a package manager writes in every run.
const DATABASE: &str = "var/lib/dpkg/status";

/// Returns a file of the zone that prevents a shared layer. If the package database is such a file,
/// returns it, because all other differences follow from it.
fn in_the_way(layer: &Path, own: &[PathBuf]) -> Result<Option<String>, Error> {
    let database = Path::new(DATABASE);
    if holds(layer, database)? {
        for tree in own {
            if holds(tree, database)? {
                return Ok(Some(
                    "packages were installed, removed or updated in this zone alone".to_owned(),
                ));
            }
        }
    }
    let misfit = misfit(layer, own, &is_noise)?;
    Ok(misfit.map(|misfit| misfit.to_string()))
}

/// The reason why the results of two zones cannot become a layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoLayer {
    /// The two zones have different packages.
    #[error("zones {} and {} came to different packages", .0[0], .0[1])]
    Packages([ZoneName; 2]),
    /// These files differ between the two zones.
    #[error("zones {} and {} came to differ in {}", .0[0], .0[1], listed(.1))]
    Files([ZoneName; 2], Vec<PathBuf>),
    /// The layers of the zones cannot be used.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// Another step failed.
    #[error(transparent)]
    Step(#[from] Error),
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| format!("/{}", path.display()))
        .collect();
    paths.join(", ")
}

/// Makes a layer from the result of two zones.
///
/// # Errors
/// Fails with [`NoLayer`], which names the differences of the two zones.
pub fn judge(
    patch: &Patch<'_>,
    base: &Path,
    before: &str,
    number: usize,
    [one, other]: [&Seen; 2],
) -> Result<Shared, NoLayer> {
    let (a, b) = (&one.witness, &other.witness);
    let zones = || [one.zone.clone(), other.zone.clone()];
    if a.fingerprint != b.fingerprint {
        return Err(NoLayer::Packages(zones()));
    }
    let paths = differences(&a.tree, &b.tree, &is_noise, 3)?;
    if !paths.is_empty() {
        return Err(NoLayer::Files(zones(), paths));
    }
    // The lock prevents changes to the layers of the zone in the meantime.
    let subject = transaction::admit(patch.host, &one.zone)?;
    let name = format!(".patch-{}-{number}", patch.name);
    let place = job::place_beside(&subject.zonepath, &name)?;
    let journal = record::folder(&patch.host.root).join(format!("{name}.journal"));
    let begun = Journal {
        patch: patch.name.clone(),
        zone: None,
        snapshot: String::new(),
        copy: place.clone(),
        phase: Phase::Working,
    };
    record::save(&journal, &begun)?;
    let made = Dataset::open(&subject.zonepath).and_then(|dataset| {
        if topmost(&dataset, one.environment.as_ref())?.as_ref() != Some(&a.tree) {
            return Err(storage::Error::NotBelow {
                zonepath: subject.zonepath.clone(),
                tree: a.tree.clone(),
            });
        }
        let shared = match &one.environment {
            Some(name) => dataset.extract_of_snapshot(name, base, &place, &is_noise)?,
            None => dataset.extract(base, &place, &is_noise)?,
        };
        shared.sync()?;
        shared.stack()
    });
    let shared = made.and_then(|stack| {
        let tree = stack.lowers.first().filter(|tree| *tree != base);
        tree.cloned()
            .ok_or(storage::Error::NoDataset(place.clone()))
    });
    match shared {
        Ok(tree) => Ok(Shared {
            place,
            base: base.to_owned(),
            tree,
            before: before.to_owned(),
            after: a.fingerprint.clone(),
            packages: one.packages.clone(),
            services: one.services.clone(),
            journal,
        }),
        Err(error) => {
            let _ = job::remove_copy(&place);
            let _ = store::atomic::remove(&journal);
            Err(error.into())
        }
    }
}

/// Returns the tree of the topmost layer: of a boot environment, or of the zone's present root.
fn topmost(dataset: &Dataset, environment: Option<&Name>) -> storage::Result<Option<PathBuf>> {
    match environment {
        Some(name) => dataset.snapshot_stack(name).map(|stack| Some(stack.top)),
        None => Ok(dataset.stack()?.lowers.into_iter().next()),
    }
}

/// The result for a zone that should use a shared layer.
#[derive(Debug)]
pub enum Fared {
    /// The zone uses the layer.
    Patched(Box<Done>),
    /// The zone cannot use the layer, for this reason. The zone is unchanged.
    Unlike(String),
}

impl Shared {
    /// Gives a zone the shared layer, below the zone's own layers: a halted zone at once, a running
    /// zone in a boot environment for its next boot.
    ///
    /// # Errors
    /// Fails if a step fails. The zone is then unchanged.
    pub fn give(&self, patch: &Patch<'_>, ready: &Ready) -> Result<Fared, Error> {
        if ready.before.fingerprint != self.before {
            return Ok(Fared::Unlike("its packages changed meanwhile".to_owned()));
        }
        match (ready.subject.state, patch.running) {
            (State::Running, Running::Live) => {
                Ok(Fared::Unlike("it was booted meanwhile".to_owned()))
            }
            (State::Running, Running::Environment(_)) => self.give_running(patch, ready),
            _ => {
                patch.admit(ready)?;
                self.give_halted(patch, ready)
            }
        }
    }

    /// Returns the reason why the layer does not fit below the zone's own layers. `trees` are all
    /// trees of the zone, the topmost first.
    fn misfit(&self, trees: &[PathBuf]) -> Result<Option<String>, Error> {
        match transaction::split(trees, Some(&self.base)) {
            None => Ok(Some("its layers were merged".to_owned())),
            Some((own, _)) => in_the_way(&self.tree, &own),
        }
    }

    fn give_halted(&self, patch: &Patch<'_>, ready: &Ready) -> Result<Fared, Error> {
        let (subject, dataset) = (&ready.subject, &ready.dataset);
        if let Some(why) = self.misfit(&dataset.stack()?.trees())? {
            return Ok(Fared::Unlike(why));
        }
        let zone = &subject.entry.name;
        let name = patch.snapshot()?;
        let mut entry = patch.entry(
            zone,
            How::Shared,
            self.packages.clone(),
            self.services.clone(),
        );
        entry.log = PathBuf::new();
        let verifying = Phase::Verifying {
            tree: self.tree.clone(),
            entry: Box::new(entry.clone()),
            fingerprint: self.after.clone(),
        };
        let journal = patch.begin(subject, name.as_str(), verifying)?;
        match self.switch(patch.host, ready, &name) {
            Ok(None) => {}
            Ok(Some(why)) => {
                recover::zone(patch.host, subject)?;
                return Ok(Fared::Unlike(why));
            }
            // `switch` has already returned the zone to its former layers, if that was possible.
            Err(error) => return Ok(Fared::Patched(Box::new(patch.undo(subject, error)?))),
        }
        let entry = Box::new(entry);
        let warning = patch.leave(ready, &journal, &End::New(entry.clone()));
        let witness = Witness {
            warning,
            ..Witness::default()
        };
        Ok(Fared::Patched(Box::new(Done::Patched(
            entry,
            Box::new(witness),
        ))))
    }

    /// Puts the shared layer below the zone's own layers. Returns `None` on success. Returns a
    /// reason if the packages are not as expected; the zone then has its former layers again.
    fn switch(&self, host: &Host, ready: &Ready, name: &Name) -> Result<Option<String>, Error> {
        let dataset = &ready.dataset;
        dataset.snapshot(name)?;
        if !dataset.stack()?.lowers.contains(&self.base) {
            return Ok(Some("its layers were merged".to_owned()));
        }
        let after = Dataset::open(&self.place)
            .and_then(|shared| dataset.put_below(&shared, &self.base))
            .map_err(Error::from)
            .and_then(|()| look(host, &ready.config, dataset));
        Ok(match keep_or_go_back(dataset, name, after, &self.after)? {
            true => None,
            false => Some("it did not come to the same packages".to_owned()),
        })
    }

    /// Releases the layer. The zones on it keep it.
    ///
    /// # Errors
    /// Fails if a file or layer cannot be removed. The next call tries again.
    pub fn let_go(&self) -> Result<(), Error> {
        job::remove_copy(&self.place)?;
        Ok(store::atomic::remove(&self.journal)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_zone_are_not_shared() {
        for (path, noise) in [
            ("etc/hostname", true),
            ("etc/hostname.d", false),
            ("var/log/apt/term.log", true),
            ("var/lib/dpkg/status", false),
            ("var/lib/apt/extended_states", false),
            ("var/lib/apt/lists/x", true),
        ] {
            assert_eq!(is_noise(Path::new(path)), noise, "{path}");
        }
    }

    #[test]
    fn a_package_database_of_its_own_is_the_reason() {
        let (layer, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let put = |root: &tempfile::TempDir, path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        let why = || in_the_way(layer.path(), &[own.path().to_owned()]).unwrap();
        for path in [DATABASE, "usr/bin/a", "var/log/apt/eipp.log.xz"] {
            put(&layer, path);
        }
        put(&own, "var/log/apt/eipp.log.xz");
        assert_eq!(why(), None);
        put(&own, "usr/bin/a");
        assert_eq!(why().unwrap(), "/usr/bin/a was changed in this zone");
        put(&own, DATABASE);
        assert!(why().unwrap().contains("in this zone alone"));
    }
}
