//! Images: layers from which zones are installed. The name of an image is its digest.
//!
//! ```text
//! <images>/
//!   format             a link whose text is the format; without it this is format 1
//!   <digest>/dataset   link to the reference that the image holds on its layer
//!   <digest>/config    what the image says of itself, if it came with that
//!   <digest>/...       links whose texts say what is known of it, see `About`
//!   .layers/           as beside zonepaths: the layers, and who uses them
//!   .fetch-<id>/       what is being fetched, locked by whoever fetches it
//! ```
//!
//! The digest of an image with one layer is the digest of the layer's tree. The digest of an image
//! with several layers is made from the digest of the layers below and the digest of the top
//! layer's tree with its whiteouts ([`stack`]). An image's configuration is part of its digest,
//! because several images may have the same layers.
//!
//! A zone that is installed from an image uses the image's layer as a clone uses the layer of its
//! origin. Therefore the image's layer exists while any zone, snapshot or layer needs it. An image
//! is valid while it holds its reference and its layer has a tree.
//!
//! | operation | steps, in order | a crash after the step leaves |
//! |---|---|---|
//! | import | fill trees in `.dead`, sync them | garbage, removed by `prune` |
//! | | make the layers without trees, with the image's reference on the uppermost | the same |
//! | | make `<digest>` with its links | an image that does not count, removed by `prune` |
//! | | rename the trees into the layers, **the uppermost last** | - |
//! | remove | **drop the reference** | an image that does not count |
//! | | remove `<digest>` | garbage, removed by `prune` |

mod about;
mod import;
mod stack;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::Mode;

use crate::collect::{Collected, Lost, collect};
use crate::dataset::{Dataset, has_tree, ref_target};
use crate::error::{Error, Result};
use crate::folder::{Folder, Lock};
use crate::layers::{LayerPath, Layers, User, dataset_ref};
use crate::layout::LAYERS;
use crate::sha256::Digest;
use crate::{crash, remove, usage, zfs};
use about::read_about;
use stack::{configured, stacked};

pub use about::About;
pub use import::{Download, Import};
pub use stack::{Base, Part};

/// The name of the file with the configuration of an image.
const CONFIG: &str = "config";

/// Maximum size of the stored configuration of an image, in bytes.
const MAX_CONFIG: u64 = 4 << 20;

/// The prefix of the name of a folder for a download.
const FETCH: &str = ".fetch-";

/// The name of an image folder that is being made or removed.
const HALF: &str = ".half-";

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of the image's trees and configuration, which identifies the image.
    pub digest: Digest,
    /// The properties of the image.
    pub about: About,
    /// The time of the import, to the second.
    pub imported: SystemTime,
    /// The trees with the image's files, the uppermost layer first. Callers must not change these
    /// trees.
    pub trees: Vec<PathBuf>,
    /// The zonepaths and layers that use the image's layers.
    pub users: Vec<PathBuf>,
}

/// The images that [`Images::prune`] removed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// The removed images, which no zone and no layer used.
    pub images: Vec<Image>,
    /// The removals of files that crashes left.
    pub collected: Collected,
}

/// The folder of images.
#[derive(Debug)]
pub struct Images {
    folder: Folder,
}

impl Images {
    /// Opens the folder of images. Creates this folder and its parent folders if they do not exist.
    pub fn open(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(|e| Error::io("mkdir", path, e))?;
        let folder = Folder::open(path)?;
        folder.must_be_known()?;
        // Only root may read the folder, because images hold the password files of their zones.
        rustix::fs::fchmod(&folder, Mode::RWXU).map_err(|e| folder.fail("fchmod", "", e))?;
        Ok(Self { folder })
    }

    /// Opens the folder of images for reading. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Fails if the folder cannot be opened, or if a newer version of these programs made it.
    pub fn existing(path: &Path) -> Result<Option<Self>> {
        let folder = match Folder::open(path) {
            Err(e) if e.is_missing() => return Ok(None),
            other => other?,
        };
        folder.must_be_known()?;
        Ok(Some(Self { folder }))
    }

    /// Returns the configuration of an image, or `None` if the image has no configuration.
    pub fn config(&self, image: &Image) -> Result<Option<Vec<u8>>> {
        let at = self.folder.path().join(image.digest.hex()).join(CONFIG);
        let fail = |e| Error::io("read", &at, e);
        let file = match std::fs::File::open(&at) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(fail)?,
        };
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, MAX_CONFIG), &mut text)
            .map_err(fail)?;
        Ok(Some(text))
    }

    /// Returns all images, sorted by name and then by age.
    pub fn list(&self) -> Result<Vec<Image>> {
        let mut all = Vec::new();
        for (name, _) in self.folder.entries()? {
            if let Some(digest) = parse(&name) {
                all.extend(self.image(&digest)?);
            }
        }
        all.sort_by(|a, b| {
            (&a.about.name, a.imported, a.digest).cmp(&(&b.about.name, b.imported, b.digest))
        });
        Ok(all)
    }

    /// Finds an image by its digest, by at least six first digits of its digest that no other image
    /// has, or by its name. Of several images with the same name, returns the one that was imported
    /// last.
    pub fn find(&self, word: &str) -> Result<Image> {
        let missing = || Error::NoImage(word.chars().take(100).collect());
        if let Ok(digest) = word.parse::<Digest>() {
            return self.image(&digest)?.ok_or_else(missing);
        }
        let all = self.list()?;
        if let Some(image) = all.iter().rev().find(|image| image.about.name == word) {
            return Ok(image.clone());
        }
        let digits = word.strip_prefix("sha256:").unwrap_or(word).to_lowercase();
        let mut found = all
            .into_iter()
            .filter(|image| digits.len() >= 6 && image.digest.hex().starts_with(&digits));
        match (found.next(), found.next()) {
            (Some(image), None) => Ok(image),
            (Some(_), Some(_)) => Err(Error::ManyImages(digits)),
            _ => Err(missing()),
        }
    }

    /// Reads all files of an image and compares them with the image's digest.
    pub fn verify(&self, image: &Image) -> Result<()> {
        let mut below = None;
        for tree in image.trees.iter().rev() {
            below = Some(stacked(below.as_ref(), &Digest::of_tree(tree)?));
        }
        let Some(stack) = below else {
            return Ok(());
        };
        let config = self.config(image)?;
        let found = config.map_or(stack, |config| configured(&stack, &config));
        // The digest of an image that an earlier version imported covers only the layers.
        if [found, stack].contains(&image.digest) {
            return Ok(());
        }
        Err(Error::Damaged {
            digest: image.digest,
            found,
        })
    }

    /// Returns the disk space that an image uses, in bytes.
    pub fn usage(&self, image: &Image) -> Result<u64> {
        let mut all = 0;
        for tree in &image.trees {
            all += usage::tree(tree)?.0;
        }
        Ok(all)
    }

    /// Creates a dataset at `zonepath` on the layers of an image.
    pub fn install(&self, digest: &Digest, zonepath: &Path) -> Result<Dataset> {
        zfs::refuse_layers(zonepath)?;
        // The lock prevents the removal of the image by another process.
        let _lock = self.lock()?;
        match self.image(digest)? {
            None => Err(Error::NoImage(digest.to_string())),
            Some(_) => {
                let folder = Dataset::at(self.folder.open_child(digest.hex())?);
                let bond = folder
                    .bond()?
                    .ok_or_else(|| Error::NoImage(digest.to_string()))?;
                Dataset::make_on(&bond.layer, zonepath)
            }
        }
    }

    /// Removes an image's name. The image's files stay while a zone or a layer uses them.
    pub fn remove(&self, digest: &Digest) -> Result<()> {
        let _lock = self.lock()?;
        if self.image(digest)?.is_none() {
            return Err(Error::NoImage(digest.to_string()));
        }
        self.clear(&digest.hex())
    }

    /// Removes the images that no zone uses, and the files that crashes left.
    pub fn prune(&self) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        {
            let _lock = self.lock()?;
            self.clear_cut_off_locked()?;
            for (name, _) in self.folder.entries()? {
                if let Some(digest) = parse(&name) {
                    match self.image(&digest)? {
                        Some(image) if image.users.is_empty() => pruned.images.push(image),
                        _ => continue,
                    }
                    self.clear(&digest.hex())?;
                }
            }
        }
        pruned.collected = collect(&self.layers(), Lost::Keep)?;
        Ok(pruned)
    }

    /// Returns the folders of downloads and imports that were killed. Returns no folder while
    /// another command changes images.
    pub fn cut_off(&self) -> Result<Vec<PathBuf>> {
        match self.folder.try_lock()? {
            Some(_lock) => self.cut_off_locked(),
            None => Ok(Vec::new()),
        }
    }

    /// Removes the folders that [`Images::cut_off`] returns, with the layers that only these
    /// folders use.
    pub fn clear_cut_off(&self) -> Result<()> {
        {
            let _lock = self.lock()?;
            self.clear_cut_off_locked()?;
        }
        collect(&self.layers(), Lost::Keep).map(drop)
    }

    fn cut_off_locked(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for (name, _) in self.folder.entries()? {
            let is_cut_off = if name.to_string_lossy().starts_with(FETCH) {
                match self.folder.open_child(&name) {
                    // The process that used this download folder has ended and removed the folder.
                    Err(e) if e.is_missing() => false,
                    // No process holds the lock of the folder, so the download was interrupted.
                    other => other?.try_lock()?.is_some(),
                }
            } else if name.to_string_lossy().starts_with(HALF) {
                true
            } else {
                match parse(&name) {
                    Some(digest) => self.image(&digest)?.is_none(),
                    None => false,
                }
            };
            if is_cut_off {
                found.push(self.folder.path().join(name));
            }
        }
        Ok(found)
    }

    fn clear_cut_off_locked(&self) -> Result<()> {
        for path in self.cut_off_locked()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            match name.starts_with(FETCH) {
                true => remove::bury(&path)?,
                false => self.clear(&name)?,
            }
        }
        Ok(())
    }

    fn layers(&self) -> PathBuf {
        self.folder.path().join(LAYERS)
    }

    fn lock(&self) -> Result<Lock> {
        self.folder.lock(rustix::fs::FlockOperation::LockExclusive)
    }

    /// Returns the image with this digest, or `None` if no valid image has this digest.
    fn image(&self, digest: &Digest) -> Result<Option<Image>> {
        let folder = match self.folder.open_child(digest.hex()) {
            Err(e) if e.is_missing() => return Ok(None),
            other => Dataset::at(other?),
        };
        let Some(bond) = folder.bond()? else {
            return Ok(None);
        };
        let own = dataset_ref(bond.id);
        if !has_tree(&bond.layer)? || ref_target(&bond.layer, own.as_ref())?.is_none() {
            return Ok(None);
        }
        let mut users = Vec::new();
        for (name, _) in Folder::open(&bond.layer.refs())?.entries()? {
            if User::parse(&name).is_some() && name != OsStr::new(&own) {
                users.extend(ref_target(&bond.layer, &name)?);
            }
        }
        users.sort();
        let (about, imported) = read_about(&folder.zonepath)?;
        Ok(Some(Image {
            digest: *digest,
            about,
            imported,
            trees: bond
                .layer
                .chain()?
                .iter()
                .map(LayerPath::tree)
                .collect::<Result<_>>()?,
            users,
        }))
    }

    /// Removes an image folder, even if the folder is incomplete.
    fn clear(&self, name: &str) -> Result<()> {
        let folder = match self.folder.open_child(name) {
            Err(e) if e.is_missing() => return Ok(()),
            other => Dataset::at(other?),
        };
        let graves = {
            let (layers, _shared) = Layers::enter(&self.layers())?;
            let mut graves = Vec::new();
            if let Some(bond) = folder.bond()? {
                if bond.layer.path().exists() {
                    graves = bond.layer.drop_ref(&dataset_ref(bond.id))?;
                }
            }
            crash::point();
            graves.extend(layers.put_aside(&self.folder, OsStr::new(name))?);
            graves
        };
        crash::point();
        graves.iter().try_for_each(|grave| remove::bury(grave))
    }
}

fn parse(name: &OsStr) -> Option<Digest> {
    let text = name.to_str()?;
    // The text must be exactly as an image folder is written: without a prefix and without capital
    // letters.
    text.parse()
        .ok()
        .filter(|digest: &Digest| digest.hex() == text)
}
