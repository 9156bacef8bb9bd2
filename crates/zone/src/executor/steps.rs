//! The steps of a plan that need more than a few lines of code.

use std::fs;
use std::path::Path;

use brand::first_boot::{self, Kind};
use brand::{Identity, InstallRequest};
use model::{State, Uuid};
use storage::driver_at;
use store::xml::manifest;

use super::zonepath::mark_unfinished;
use super::{Work, record_now, refuse_root, undo_dataset};
use crate::{environments, inventory};
use host::outcome::AnyError;
use host::undo::UndoStack;
use subject::zfs_stream::Received;
use subject::{FORCED, UNFINISHED, UNPACKING};

impl Work<'_> {
    /// Stores the zone as incomplete, and adds an undo that stores its former entry.
    pub(super) fn begin(
        &mut self,
        uuid: Uuid,
        what: String,
        undo: &mut UndoStack,
    ) -> Result<(), AnyError> {
        let before = self.entry.clone();
        let host = self.host.clone();
        self.entry.state = State::Incomplete;
        self.entry.uuid = Some(uuid);
        record_now(self.host, self.entry.clone())?;
        undo.push(what, move || record_now(&host, before).map_err(Into::into));
        Ok(())
    }

    /// Makes an empty root.
    pub(super) fn make_dataset(
        &mut self,
        path: &Path,
        undo: &mut UndoStack,
    ) -> Result<(), AnyError> {
        refuse_root(path)?;
        undo_dataset(path, undo);
        let driver = driver_at(path)?;
        driver.create(path)?;
        (self.progress)(&format!("Storage: {}.", driver.kind(path)?));
        Ok(())
    }

    /// Writes an init to the root that runs the command of the image.
    pub(super) fn lay_image_init(&self, path: &Path) -> Result<(), AnyError> {
        let images = crate::images::open(self.host)?;
        let image = images.find(&self.image.ok_or("no image")?.to_string())?;
        let text = images
            .config(&image)?
            .ok_or("the image does not name a command to run; install it without -x image-init")?;
        let config = oci::Config::read("the image's configuration", &text)?;
        let stack = driver_at(path)?.stack(path)?;
        Ok(brand::init::write(
            &stack.top,
            &stack.lowers,
            &config.command,
        )?)
    }

    /// Applies a profile of Solaris, and prints a line for each part of it that has no effect.
    pub(super) fn apply_profile(&mut self, path: &Path, profile: &Path) -> Result<(), AnyError> {
        let Kind::Profiles(paths) = first_boot::kind_of(profile)? else {
            return Err(format!("{}: no longer a profile", profile.display()).into());
        };
        let settings = first_boot::read(&paths)?;
        for remark in &settings.remarks {
            (self.progress)(remark);
        }
        let stack = driver_at(path)?.stack(path)?;
        Ok(first_boot::apply(
            &settings,
            self.config,
            &stack.top,
            &stack.lowers,
        )?)
    }

    /// Makes a root whose lower layers are the layers of an image.
    pub(super) fn stand_on_image(
        &mut self,
        image: &str,
        path: &Path,
        undo: &mut UndoStack,
    ) -> Result<(), AnyError> {
        refuse_root(path)?;
        undo_dataset(path, undo);
        let images = crate::images::open(self.host)?;
        let digest = match self.image {
            Some(imported) => imported,
            None => images.find(image)?.digest,
        };
        self.image = Some(digest);
        let made = images.install(&digest, path)?;
        (self.progress)(&format!("Storage: {}.", made.kind()?));
        Ok(())
    }

    /// Populates a root with the files of the brand.
    pub(super) fn populate(&mut self, root: &Path, options: &[String]) -> Result<(), AnyError> {
        let brand = self.brand()?;
        let received = Received::of(root, options, &mut *self.progress)?;
        let mut request = InstallRequest {
            config: self.config,
            root,
            host_root: Path::new("/"),
            options: received.options(options),
            progress: &mut *self.progress,
        };
        brand.install(&mut request)?;
        received.discard()
    }

    /// Makes the disks of a kernel zone.
    pub(super) fn make_machine(
        &mut self,
        path: &Path,
        options: &[String],
        undo: &mut UndoStack,
    ) -> Result<(), AnyError> {
        kernelzone::install::refuse_there(self.host, self.config, path)?;
        kernelzone::install::undo(self.host, self.config, path, undo);
        let made = kernelzone::install::make(self.host, self.config, path, options, self.progress)?;
        Ok(made.save(path)?)
    }

    /// Writes the zone's name and machine id to its root.
    pub(super) fn identify(&self, path: &Path, uuid: Uuid) -> Result<(), AnyError> {
        let identity = Identity {
            name: self.entry.name.clone(),
            machine_id: uuid.simple(),
        };
        let stack = driver_at(path)?.stack(path)?;
        brand::identity::apply(&stack.top, &stack.lowers, &identity)?;
        first_boot::seed::renew(&stack.top, &stack.lowers, &identity)?;
        Ok(self.brand()?.prepare(&self.place(&stack))?)
    }

    /// Removes a root.
    pub(super) fn destroy_dataset(&self, path: &Path) -> Result<(), AnyError> {
        environments::forget(path)?;
        Ok(driver_at(path)?.destroy(path)?)
    }

    /// Stores the zone's state and uuid in the index.
    pub(super) fn store_state(&mut self, state: State, uuid: Option<Uuid>) -> Result<(), AnyError> {
        self.entry.state = state;
        self.entry.uuid = uuid;
        if uuid.is_none() {
            self.entry.slot = None;
        }
        (self.record)(self.entry.clone())?;
        if let (State::Installed, Some(uuid)) = (state, uuid) {
            let zonepath = self.host.root.path(&self.entry.zonepath);
            // While a clone's unfinished mark exists, the identity file is not written: the mark
            // becomes this file when the clone is stored.
            if !zonepath.join(UNFINISHED).exists() {
                // An error is ignored, because the next command that reads the zone tries again.
                let root = &self.host.root;
                let _ = subject::identity::write(root, &self.entry, &zonepath, uuid);
            }
        }
        Ok(())
    }

    /// Writes the manifest of a zone that is being detached.
    pub(super) fn write_manifest(
        &self,
        path: &Path,
        what: String,
        undo: &mut UndoStack,
    ) -> Result<(), AnyError> {
        let system = inventory::of_zone(self.host, path, self.config)?;
        let manifest = inventory::manifest(self.config, self.entry.uuid, system);
        manifest.save(path)?;
        let _ = fs::remove_file(path.join(FORCED));
        let written = path.to_owned();
        undo.push(what, move || manifest::remove(&written).map_err(Into::into));
        Ok(())
    }

    /// Unpacks the root of a zone that keeps its identity. No brand changes this root.
    pub(super) fn unpack(&mut self, root: &Path, options: &[String]) -> Result<(), AnyError> {
        let received = Received::of(root, options, &mut *self.progress)?;
        let source = match received.options(options) {
            [flag, path] if flag == "-a" => brand::ImageSource::Archive(path.into()),
            [_, path] => brand::ImageSource::Directory(path.into()),
            _ => return Err("neither an archive nor a directory".into()),
        };
        if brand::sparse::is_sparse(self.config) {
            brand::unpack_part(root, &source, &mut *self.progress)?;
        } else {
            brand::unpack_image(root, &source, &mut *self.progress)?;
        }
        received.discard()?;
        // An archive from zoneadm export contains its manifest.
        let inside = root.join(manifest::DETACHED);
        if !fs::symlink_metadata(&inside).is_ok_and(|meta| meta.is_file()) {
            return Ok(());
        }
        if let (Some(zonepath), Some(found)) = (root.parent(), manifest::Manifest::load(&inside)?) {
            found.save(zonepath)?;
        }
        Ok(fs::remove_file(&inside)?)
    }
}

/// Marks a zonepath as one in which a root is being unpacked.
pub(super) fn mark_unpacking(
    path: &Path,
    what: String,
    undo: &mut UndoStack,
) -> Result<(), AnyError> {
    let mark = path.join(UNPACKING);
    store::atomic::write(&mark, b"", 0o600)?;
    undo.push(what, move || {
        store::atomic::remove(&mark).map_err(Into::into)
    });
    Ok(())
}

/// Makes a root from the root of another zone, or from its snapshot.
pub(super) fn clone_dataset(
    from: &Path,
    to: &Path,
    snapshot: Option<&str>,
    undo: &mut UndoStack,
) -> Result<(), AnyError> {
    refuse_root(to)?;
    mark_unfinished(to, undo)?;
    undo_dataset(to, undo);
    let snapshot = snapshot.map(str::parse).transpose()?;
    // The files are synced later, when the clone is stored together with the other clones of the
    // same command.
    Ok(driver_at(from)?.clone(from, snapshot.as_ref(), to)?)
}
