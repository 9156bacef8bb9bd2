//! Several layers as one tree, by the rules of the kernel's overlay.

use rustix::io::Errno;

use crate::change::Kind;
use crate::layer::{Entry, Mark, Reader};

/// The layers of a moment.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// The numbers of the layers, topmost first.
    pub layers: Vec<usize>,
    /// The number of layers, from the topmost, that the other side does not have.
    pub own: usize,
}

/// A folder of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Dir<F> {
    /// The position of each layer that has a part of the folder, and the part; topmost first.
    pub parts: Vec<(usize, F)>,
    /// The number of parts in own layers.
    pub own: usize,
    /// The path under which the shared layers continue the folder. `None` if they do not, or if
    /// there are none.
    pub below: Option<Vec<u8>>,
}

impl<F: Clone> Dir<F> {
    /// Returns the part whose attributes the folder has.
    pub(crate) fn top(&self) -> Option<&F> {
        self.parts.first().map(|(_, folder)| folder)
    }

    pub(crate) fn own_parts(&self) -> impl Iterator<Item = F> + '_ {
        self.parts[..self.own]
            .iter()
            .map(|(_, folder)| folder.clone())
    }

    pub(crate) fn shared_parts(&self) -> impl Iterator<Item = F> + '_ {
        self.parts[self.own..]
            .iter()
            .map(|(_, folder)| folder.clone())
    }
}

/// The object that a name leads to.
#[derive(Debug)]
pub(crate) enum Found<F> {
    Nothing,
    Folder(Dir<F>),
    /// Another file, in the part `at` of its folder.
    File {
        at: F,
        entry: Entry,
    },
}

/// The layers that a search reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Whole,
    Own,
}

/// The name or path that the next layer has for the folder.
enum Next {
    Name(Vec<u8>),
    Path(Vec<u8>),
    Stop,
}

/// A tree.
#[derive(Debug)]
pub(crate) struct View<'r, R> {
    pub reader: &'r R,
    pub side: &'r Side,
}

impl<R> Clone for View<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for View<'_, R> {}

/// The folder at the end of a path in one layer, and the path for the layers below.
type Walked<F> = (Option<F>, Option<Vec<u8>>);

/// A search for a folder.
struct Search<F> {
    dir: Dir<F>,
    next: Next,
}

impl<R: Reader> View<'_, R> {
    /// A single layer is mounted without overlay, so nothing in it is a mark.
    fn has_marks(&self) -> bool {
        self.side.layers.len() > 1
    }

    fn has_shared(&self) -> bool {
        self.side.own < self.side.layers.len()
    }

    fn part(&self, at: usize) -> R::Folder {
        self.reader.root(self.side.layers[at], self.has_marks())
    }

    pub(crate) fn root(&self) -> Dir<R::Folder> {
        Dir {
            parts: (0..self.side.layers.len())
                .map(|at| (at, self.part(at)))
                .collect(),
            own: self.side.own,
            below: self.has_shared().then(|| b"/".to_vec()),
        }
    }

    /// Finds the object with a name in a folder.
    pub(crate) fn look(
        &self,
        dir: &Dir<R::Folder>,
        name: &[u8],
        reach: Reach,
    ) -> Result<Found<R::Folder>, Errno> {
        let mut search = Search {
            dir: Dir {
                parts: Vec::new(),
                own: 0,
                below: dir.below.as_ref().map(|path| join(path, name)),
            },
            next: Next::Name(name.to_vec()),
        };
        for (at, folder) in &dir.parts {
            if reach == Reach::Own && *at >= self.side.own {
                break;
            }
            let Next::Name(name) = &search.next else {
                break;
            };
            let name = name.clone();
            let Some(entry) = self.reader.entry(folder, &name)? else {
                continue;
            };
            match entry.kind {
                Some(Kind::Directory) => {
                    if let Some(part) = self.reader.open(folder, &name, &entry)? {
                        self.add(&mut search, *at, part, dir.below.as_deref());
                    }
                }
                Some(_) if search.dir.parts.is_empty() => {
                    let at = folder.clone();
                    return Ok(Found::File { at, entry });
                }
                // Whiteouts and files end the search.
                _ => self.stop(&mut search, *at),
            }
        }
        let last = search.dir.parts.last().map(|(at, _)| *at);
        if let (Next::Path(_), Some(last)) = (&search.next, last) {
            self.follow(&mut search, last + 1, reach)?;
        }
        Ok(match search.dir.parts.is_empty() {
            true => Found::Nothing,
            false => Found::Folder(search.dir),
        })
    }

    /// Finds the folder with a path, which begins with a slash.
    pub(crate) fn resolve(&self, path: &[u8]) -> Result<Option<Dir<R::Folder>>, Errno> {
        let mut dir = self.root();
        for name in names_of(path) {
            match self.look(&dir, name, Reach::Whole)? {
                Found::Folder(inner) => dir = inner,
                _ => return Ok(None),
            }
        }
        Ok(Some(dir))
    }

    /// Adds a part of the folder. Its mark decides about the layers below.
    fn add(
        &self,
        search: &mut Search<R::Folder>,
        at: usize,
        part: R::Folder,
        parent: Option<&[u8]>,
    ) {
        let mark = match self.has_marks() {
            true => self.reader.mark(&part),
            false => Mark::None,
        };
        let is_own = at < self.side.own;
        search.dir.parts.push((at, part));
        search.dir.own += usize::from(is_own);
        match mark {
            Mark::None => {}
            Mark::Opaque => self.stop(search, at),
            Mark::Name(name) => {
                if is_own {
                    search.dir.below = parent.map(|path| join(path, &name));
                }
                search.next = Next::Name(name);
            }
            Mark::Path(path) => {
                if is_own {
                    search.dir.below = self.has_shared().then(|| path.clone());
                }
                search.next = Next::Path(path);
            }
        }
    }

    fn stop(&self, search: &mut Search<R::Folder>, at: usize) {
        search.next = Next::Stop;
        if at < self.side.own {
            search.dir.below = None;
        }
    }

    /// Follows an absolute path through the layers from the position `first`. Each folder on the way
    /// can change the path for the layers below it.
    fn follow(
        &self,
        search: &mut Search<R::Folder>,
        first: usize,
        reach: Reach,
    ) -> Result<(), Errno> {
        let end = match reach {
            Reach::Whole => self.side.layers.len(),
            Reach::Own => self.side.own,
        };
        for at in first..end {
            let Next::Path(path) = &search.next else {
                break;
            };
            let (part, after) = self.walk(at, path)?;
            let is_own = at < self.side.own;
            if let Some(part) = part {
                search.dir.parts.push((at, part));
                search.dir.own += usize::from(is_own);
            }
            if is_own {
                search.dir.below = after.clone().filter(|_| self.has_shared());
            }
            search.next = after.map_or(Next::Stop, Next::Path);
        }
        Ok(())
    }

    /// Walks along a path in one layer. Returns the folder at its end, if there is one, and the path
    /// for the layers below; `None` if they do not belong to the folder.
    fn walk(&self, at: usize, path: &[u8]) -> Result<Walked<R::Folder>, Errno> {
        let mut folder = self.part(at);
        let names: Vec<&[u8]> = names_of(path).collect();
        // The begin of the path for the layers below.
        let (mut begin, mut continues): (Vec<Vec<u8>>, bool) = (Vec::new(), true);
        for (n, name) in names.iter().enumerate() {
            let after = |begin: &[Vec<u8>], rest: &[&[u8]]| {
                let begin = begin.iter().map(Vec::as_slice);
                continues.then(|| joined(begin.chain(rest.iter().copied())))
            };
            let Some(entry) = self.reader.entry(&folder, name)? else {
                return Ok((None, after(&begin, &names[n..])));
            };
            if entry.kind != Some(Kind::Directory) {
                return Ok((None, None));
            }
            let Some(inner) = self.reader.open(&folder, name, &entry)? else {
                return Ok((None, after(&begin, &names[n..])));
            };
            match self.reader.mark(&inner) {
                Mark::None => begin.push(name.to_vec()),
                Mark::Opaque => {
                    begin.push(name.to_vec());
                    continues = false;
                }
                Mark::Name(new) => begin.push(new),
                Mark::Path(new) => begin = names_of(&new).map(<[u8]>::to_vec).collect(),
            }
            folder = inner;
        }
        let after = continues.then(|| joined(begin.iter().map(Vec::as_slice)));
        Ok((Some(folder), after))
    }
}

/// Returns the names in a path.
pub(crate) fn names_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty())
}

/// Appends a name to a path that begins with a slash.
pub(crate) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = path.to_vec();
    push(&mut joined, name);
    joined
}

/// Appends a name to a path that begins with a slash.
pub(crate) fn push(path: &mut Vec<u8>, name: &[u8]) {
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend(name);
}

fn joined<'a>(names: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut path = b"/".to_vec();
    names.for_each(|name| push(&mut path, name));
    path
}
