//! Images: layers that zones are installed from, called by their digest.
//!
//! ```text
//! <images>/
//!   <digest>/dataset   link to the reference that the image holds on its layer
//!   <digest>/config    what the image says of itself, if it came with that
//!   <digest>/...       links whose texts say what is known of it, see `About`
//!   .layers/           as beside zonepaths: the layers, and who uses them
//!   .fetch-<id>/       what is being fetched, locked by whoever fetches it
//! ```
//!
//! The digest of an image of one layer is that of its tree; that of one more layer is
//! made of the digest below and of the layer's tree, whiteouts and all ([`stack`]). What
//! an image says of itself goes into its digest, too: on the same layers stand several.
//!
//! A zone installed from an image stands on its layer like a clone on that of its
//! origin, so the image's layer lives as long as any zone, snapshot or layer needs
//! it. An image counts while it holds its reference and the layer has its tree.
//!
//! | operation | steps, in order | a crash after the step leaves |
//! |---|---|---|
//! | import | fill trees in `.dead`, sync them | garbage, removed by `prune` |
//! | | make the layers without trees, with the image's reference on the uppermost | the same |
//! | | make `<digest>` with its links | an image that does not count, removed by `prune` |
//! | | rename the trees into the layers, **the uppermost last** | - |
//! | remove | **drop the reference** | an image that does not count |
//! | | remove `<digest>` | garbage, removed by `prune` |

mod stack;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, RenameFlags};
use rustix::io::Errno;

use crate::collect::{Collected, Lost, collect};
use crate::crash;
use crate::dataset::{Bond, Dataset, has_tree, ref_target};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::folder::{Folder, Lock};
use crate::id::Id;
use crate::layers::{LAYERS, LayerPath, Layers, User, dataset_ref, relative};
use crate::remove;
use crate::top::Form;
use crate::usage;
use crate::zfs;

pub use stack::{Base, Part};
use stack::{DIGEST, STACK, configured, stacked};

/// What an image says of itself.
const CONFIG: &str = "config";

/// The most that is kept of that.
const MAX_CONFIG: u64 = 4 << 20;

/// What is being fetched.
const FETCH: &str = ".fetch-";

/// An image folder that is being made or removed.
const HALF: &str = ".half-";

/// The longest text that is kept of an image, in bytes.
const LONGEST: usize = 1024;

/// What is known of an image besides its files.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct About {
    /// What people call it.
    pub name: String,
    /// Where it came from.
    pub source: String,
    /// The digest of the archive it came from, if that was a file.
    pub archive: Option<Digest>,
    /// Files, folders and links.
    pub entries: u64,
    /// Bytes in files.
    pub bytes: u64,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of its trees and of what it says of itself, its true name.
    pub digest: Digest,
    /// What is known of it.
    pub about: About,
    /// When it was imported, to the second.
    pub imported: SystemTime,
    /// Where its files are, the uppermost layer first. They must not be changed.
    pub trees: Vec<PathBuf>,
    /// The zonepaths and layers that stand on it.
    pub users: Vec<PathBuf>,
}

/// What [`Images::prune`] removed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// Images that nothing stood on.
    pub images: Vec<Image>,
    /// What crashes had left.
    pub collected: Collected,
}

/// The folder of images.
#[derive(Debug)]
pub struct Images {
    folder: Folder,
}

/// A tree being filled to become an image. Dropped, it is garbage.
#[derive(Debug)]
pub struct Import {
    tree: PathBuf,
    // Keeps `collect` away from what looks like garbage.
    _shared: Lock,
}

impl Import {
    /// The empty folder to fill.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// Removes what was filled in.
    pub fn discard(self) {
        // What cannot be removed is garbage for `prune`.
        let _ = remove::bury(&self.tree);
    }
}

/// A folder for what is being fetched, removed when it is dropped.
#[derive(Debug)]
pub struct Download {
    folder: Folder,
    _lock: Lock,
}

impl Download {
    /// The folder to fill.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // What cannot be removed is garbage for `prune`.
        let _ = remove::bury(self.folder.path());
    }
}

impl Images {
    /// Opens the folder of images, making it and those above it when missing.
    pub fn open(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(|e| Error::io("mkdir", path, e))?;
        let folder = Folder::open(path)?;
        // Images hold the password files of their zones.
        rustix::fs::fchmod(&folder, Mode::RWXU).map_err(|e| folder.fail("fchmod", "", e))?;
        Ok(Self { folder })
    }

    /// Begins an import.
    pub fn begin(&self) -> Result<Import> {
        let (layers, shared) = Layers::enter(&self.layers())?;
        let dead = layers.graves()?;
        let name = Id::random()?.to_string();
        dead.make(&name)?;
        let tree = dead.open_child(&name)?;
        rustix::fs::fchmod(&tree, Mode::from_raw_mode(0o755))
            .map_err(|e| tree.fail("fchmod", "", e))?;
        Ok(Import {
            tree: tree.path().to_owned(),
            _shared: shared,
        })
    }

    /// Makes a folder for what is fetched.
    pub fn download(&self) -> Result<Download> {
        let name = format!("{FETCH}{}", Id::random()?);
        // Between the two it looks like what somebody left who was cut off.
        let _lock = self.lock()?;
        self.folder.make(&name)?;
        let folder = self.folder.open_child(&name)?;
        let lock = folder.lock(rustix::fs::FlockOperation::LockExclusive)?;
        Ok(Download {
            folder,
            _lock: lock,
        })
    }

    /// Makes a filled tree an image, unless there is one with the same files: then
    /// that is returned, and the tree removed.
    pub fn finish(&self, import: Import, about: &About) -> Result<Image> {
        let part = Part {
            import,
            stack: None,
        };
        self.finish_on(None, vec![part], about, None)
    }

    /// The same for several trees, the lowest first, on layers that are here. `config` is
    /// what the image says of itself.
    pub fn finish_on(
        &self,
        base: Option<Base>,
        mut parts: Vec<Part>,
        about: &About,
        config: Option<&[u8]>,
    ) -> Result<Image> {
        let made = match self.squash(base.as_ref(), &mut parts) {
            Ok(()) => self.take(base.as_ref(), &parts, about, config),
            Err(error) => Err(error),
        };
        if !matches!(made, Ok((_, true))) {
            for part in parts {
                part.import.discard();
            }
        }
        drop(base);
        let digest = made?.0;
        self.image(&digest)?
            .ok_or_else(|| Error::NoImage(digest.to_string()))
    }

    fn take(
        &self,
        base: Option<&Base>,
        parts: &[Part],
        about: &About,
        config: Option<&[u8]>,
    ) -> Result<(Digest, bool)> {
        let mut digests = Vec::with_capacity(parts.len());
        let mut below = base.map(|base| base.digest);
        for part in parts {
            let digest = stacked(below.as_ref(), &Digest::of_tree(part.import.tree())?);
            digests.push(digest);
            below = Some(digest);
        }
        let stack = below.ok_or_else(|| Error::NoImage(String::new()))?;
        let digest = config.map_or(stack, |config| configured(&stack, config));
        // One at a time: two may import the same.
        let _lock = self.lock()?;
        if self.image(&digest)?.is_some() {
            return Ok((digest, false));
        }
        self.clear(&digest.hex())?;
        let (layers, _shared) = Layers::enter(&self.layers())?;
        rustix::fs::syncfs(&self.folder).map_err(|e| self.folder.fail("syncfs", "", e))?;
        let id = Id::random()?;
        let place = self.folder.path().join(digest.hex());
        let mut made: Vec<LayerPath> = Vec::with_capacity(parts.len());
        for (part, digest) in parts.iter().zip(&digests) {
            let below = made.last().or(base.map(|base| &base.layer)).cloned();
            let layer = layers.make(below.as_ref(), &dataset_ref(id), &place)?;
            crash::point();
            let folder = layer.open()?;
            folder.link(DIGEST, digest.to_string())?;
            if let Some(name) = &part.stack {
                folder.link(STACK, name)?;
            }
            // The layer above holds it now.
            if let Some(below) = made.last() {
                below.drop_ref(&dataset_ref(id))?;
            }
            made.push(layer);
        }
        let top = made.last().or(base.map(|base| &base.layer));
        let top = top.ok_or_else(|| Error::NoImage(String::new()))?.clone();
        let half = OsString::from(format!("{HALF}{id}"));
        self.folder.make(&half)?;
        crash::point();
        let folder = self.folder.open_child(&half)?;
        let bond = Bond {
            layer: top.clone(),
            id,
        };
        write_about(&folder, about)?;
        if let Some(config) = config {
            let at = folder.path().join(CONFIG);
            std::fs::write(&at, config).map_err(|e| Error::io("write", &at, e))?;
        }
        // As deep in folders as it will be.
        Dataset::at(folder).write_bond(&bond)?;
        crash::point();
        let (from, to) = (&self.folder, digest.hex());
        rustix::fs::renameat_with(from, &half, from, &to, RenameFlags::NOREPLACE)
            .map_err(|e| from.fail("rename", &to, e))?;
        crash::point();
        if made.is_empty() {
            let place = relative(&top.refs(), &place, &layers.common());
            top.add_ref(&dataset_ref(id), &place)?;
        }
        for (part, layer) in parts.iter().zip(&made) {
            layers.take_up(part.import.tree(), layer, Form::Folder)?;
            crash::point();
        }
        // The trees were on disk before; now their names are.
        rustix::fs::syncfs(&self.folder).map_err(|e| self.folder.fail("syncfs", "", e))?;
        Ok((digest, true))
    }

    /// What an image says of itself, if it came with that.
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

    /// All images, by name and then by age.
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

    /// Finds an image by its digest, by at least six first digits that no other has, or
    /// by its name: then the one that was imported last.
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

    /// Compares an image with its digest; reads all of it.
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
        // Of images that earlier versions made it is that of the layers alone.
        if [found, stack].contains(&image.digest) {
            return Ok(());
        }
        Err(Error::Damaged {
            digest: image.digest,
            found,
        })
    }

    /// The space of an image on disk, in bytes.
    pub fn usage(&self, image: &Image) -> Result<u64> {
        let mut all = 0;
        for tree in &image.trees {
            all += usage::tree(tree)?.0;
        }
        Ok(all)
    }

    /// Makes a dataset at `zonepath` that stands on an image.
    pub fn install(&self, digest: &Digest, zonepath: &Path) -> Result<Dataset> {
        zfs::refuse_layers(zonepath)?;
        // Nobody removes the image meanwhile.
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

    /// Removes an image's name. Its files stay while something stands on them.
    pub fn remove(&self, digest: &Digest) -> Result<()> {
        let _lock = self.lock()?;
        if self.image(digest)?.is_none() {
            return Err(Error::NoImage(digest.to_string()));
        }
        self.clear(&digest.hex())
    }

    /// Removes images that nothing stands on, and what crashes left.
    pub fn prune(&self) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        {
            let _lock = self.lock()?;
            for (name, _) in self.folder.entries()? {
                if name.to_string_lossy().starts_with(FETCH) {
                    // One that was ready goes by itself.
                    let left = match self.folder.open_child(&name) {
                        Err(e) if e.is_missing() => continue,
                        other => other?,
                    };
                    // Nobody holds it: whoever fetched was cut off.
                    if left.try_lock()?.is_some() {
                        remove::bury(left.path())?;
                    }
                } else if name.to_string_lossy().starts_with(HALF) {
                    self.clear(&name.to_string_lossy())?;
                } else if let Some(digest) = parse(&name) {
                    match self.image(&digest)? {
                        Some(image) if !image.users.is_empty() => continue,
                        image => pruned.images.extend(image),
                    }
                    self.clear(&digest.hex())?;
                }
            }
        }
        pruned.collected = collect(&self.layers(), Lost::Keep)?;
        Ok(pruned)
    }

    fn layers(&self) -> PathBuf {
        self.folder.path().join(LAYERS)
    }

    fn lock(&self) -> Result<Lock> {
        self.folder.lock(rustix::fs::FlockOperation::LockExclusive)
    }

    /// An image, if it counts.
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

    /// Removes an image folder, whatever state it is in.
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
    // Only as it is written: not with prefix, not in capitals.
    text.parse()
        .ok()
        .filter(|digest: &Digest| digest.hex() == text)
}

fn write_about(folder: &Folder, about: &About) -> Result<()> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let archive = about.archive.map(|digest| digest.to_string());
    for (name, text) in [
        ("name", about.name.clone()),
        ("source", about.source.clone()),
        ("archive", archive.unwrap_or_default()),
        ("entries", about.entries.to_string()),
        ("bytes", about.bytes.to_string()),
        ("imported", now.as_secs().to_string()),
    ] {
        let mut text = text.into_bytes();
        text.truncate(LONGEST);
        if !text.is_empty() {
            folder.link(name, OsString::from_vec(text))?;
        }
    }
    Ok(())
}

fn read_about(folder: &Folder) -> Result<(About, SystemTime)> {
    let text = |name: &str| -> Result<String> {
        match folder.read_link(name) {
            Ok(text) => Ok(text.unwrap_or_default().to_string_lossy().into_owned()),
            Err(Error::Io { source, .. })
                if source.raw_os_error() == Some(Errno::INVAL.raw_os_error()) =>
            {
                Ok(String::new())
            }
            Err(e) => Err(e),
        }
    };
    let number = |name: &str| Ok::<_, Error>(text(name)?.parse().unwrap_or(0));
    let about = About {
        name: text("name")?,
        source: text("source")?,
        archive: text("archive")?.parse().ok(),
        entries: number("entries")?,
        bytes: number("bytes")?,
    };
    let imported = Duration::from_secs(number("imported")?.min(u64::from(u32::MAX) * 16));
    Ok((about, SystemTime::UNIX_EPOCH + imported))
}
