//! Renamed folders.
//!
//! The kernel marks a folder that was renamed with the path under which the layers below continue
//! it. A folder that continues under the same path of the shared layers in both moments is the same
//! folder.

use std::collections::BTreeMap;

use crate::layer::Reader;
use crate::moment::MAX_DEPTH;
use crate::names::{Memory, Names};
use crate::view::{Dir, Found, Reach, View, join, push};

/// Memory for the paths of renamed folders of a moment, in bytes. Further ones count as removed and
/// added.
const MOVES_BYTES: usize = 16 << 20;

/// The renamed folders of a moment: the path in the shared layers, and the path in the tree.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    by_below: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

/// A folder on the way from the root.
struct Level<F> {
    dir: Dir<F>,
    names: Names<F>,
    /// The length of the path of the folder.
    length: usize,
}

impl<F: Clone> Level<F> {
    fn new(dir: Dir<F>, length: usize) -> Self {
        let names = Names::new(dir.own_parts().collect(), true);
        Self { dir, names, length }
    }
}

impl Moves {
    /// Finds the renamed folders. Reads the folders of own layers. Folders that cannot be read are
    /// left out here, because the comparison reports them.
    pub(crate) fn of<R: Reader>(view: &View<'_, R>) -> Self {
        let mut moves = Self::default();
        // Without shared layers, no path continues in them.
        if view.side.own == 0 || view.side.own == view.side.layers.len() {
            return moves;
        }
        let memory = Memory::default();
        let mut path = b"/".to_vec();
        let mut levels = vec![Level::new(view.root(), path.len())];
        while let Some(level) = levels.last_mut() {
            path.truncate(level.length);
            let Ok(Some(name)) = level.names.next(view.reader, &memory) else {
                level.names.release(&memory);
                levels.pop();
                continue;
            };
            let Ok(Found::Folder(dir)) = view.look(&level.dir, &name, Reach::Own) else {
                continue;
            };
            let natural = level.dir.below.as_ref().map(|below| join(below, &name));
            push(&mut path, &name);
            if let Some(below) = dir.below.as_ref().filter(|_| dir.below != natural) {
                moves.add(below, &path);
            }
            if levels.len() < MAX_DEPTH {
                levels.push(Level::new(dir, path.len()));
            }
        }
        moves
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_below.is_empty()
    }

    fn add(&mut self, below: &[u8], path: &[u8]) {
        let bytes = below.len() + path.len() + 128;
        if self.bytes + bytes <= MOVES_BYTES {
            self.bytes += bytes;
            self.by_below.insert(below.to_vec(), path.to_vec());
        }
    }

    /// Returns the path at which a moment can have a folder of the shared layers: it was renamed, or
    /// a folder above it, or it has the path of the shared layers.
    fn candidate(&self, below: &[u8]) -> Vec<u8> {
        let mut end = below.len();
        loop {
            if let Some(path) = self.by_below.get(&below[..end]) {
                return [path, &below[end..]].concat();
            }
            match below[..end].iter().rposition(|&byte| byte == b'/') {
                Some(slash) if slash > 0 => end = slash,
                _ => return below.to_vec(),
            }
        }
    }

    /// Returns the path at which a moment has a folder of the shared layers, and the folder.
    pub(crate) fn place<R: Reader>(
        &self,
        view: &View<'_, R>,
        below: &[u8],
    ) -> Option<(Vec<u8>, Dir<R::Folder>)> {
        let path = self.candidate(below);
        let dir = view.resolve(&path).ok().flatten()?;
        // A path that the shared layers do not have is no proof that the folder is the same.
        let is_there = dir.below.as_deref() == Some(below) && dir.parts.len() > dir.own;
        is_there.then_some((path, dir))
    }
}
