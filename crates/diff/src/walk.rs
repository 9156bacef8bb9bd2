//! Compares two trees.

use std::ops::ControlFlow;

use rustix::io::Errno;

use crate::change::{Action, Change, Event, Kind, What};
use crate::layer::{Entry, Reader};
use crate::moment::{Done, MAX_DEPTH};
use crate::moves::Moves;
use crate::names::{Memory, Names};
use crate::view::{Dir, Found, Reach, Side, View, join, push};

/// A folder whose names are compared.
struct Level<F> {
    before: Option<Dir<F>>,
    after: Option<Dir<F>>,
    names: Names<F>,
    /// The name of the folder.
    name: Vec<u8>,
    /// The path before, if the folder was renamed.
    origin: Option<Vec<u8>>,
    /// The lengths of both paths; `None` before the first name.
    lengths: Option<(usize, usize)>,
}

/// Both paths of the present folder.
#[derive(Debug)]
struct Paths {
    before: Vec<u8>,
    after: Vec<u8>,
}

struct Walk<'r, 't, R: Reader> {
    views: [View<'r, R>; 2],
    moves: [Moves; 2],
    memory: Memory,
    levels: Vec<Level<R::Folder>>,
    paths: Paths,
    done: Done,
    tell: &'t mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
}

/// Compares two trees, before and after.
pub(crate) fn walk<R: Reader>(
    reader: &R,
    sides: &[Side; 2],
    tell: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Done {
    let views = [0, 1].map(|n| View {
        reader,
        side: &sides[n],
    });
    let mut walk = Walk {
        moves: [Moves::of(&views[0]), Moves::of(&views[1])],
        views,
        memory: Memory::default(),
        levels: Vec::new(),
        paths: Paths {
            before: b"/".to_vec(),
            after: b"/".to_vec(),
        },
        done: Done::default(),
        tell,
    };
    let _ = walk.run();
    walk.done
}

/// Breaks when the receiver of the events ends the comparison.
type Flow = ControlFlow<()>;

impl<R: Reader> Walk<'_, '_, R> {
    fn run(&mut self) -> Flow {
        let (before, after) = (self.views[0].root(), self.views[1].root());
        self.folders(&before, &after)?;
        self.enter(Some(before), Some(after), Vec::new(), None)?;
        while let Some(level) = self.levels.last_mut() {
            match level.lengths {
                Some((before, after)) => {
                    self.paths.before.truncate(before);
                    self.paths.after.truncate(after);
                }
                None => {
                    // The root has no name.
                    if !level.name.is_empty() {
                        push(&mut self.paths.after, &level.name);
                        match level.origin.as_mut() {
                            Some(origin) => std::mem::swap(&mut self.paths.before, origin),
                            None => push(&mut self.paths.before, &level.name),
                        }
                    }
                    level.lengths = Some((self.paths.before.len(), self.paths.after.len()));
                }
            }
            match level.names.next(self.views[0].reader, &self.memory) {
                Ok(Some(name)) => self.name(&name)?,
                Ok(None) => self.leave(),
                Err(errno) => {
                    self.problem(None, errno)?;
                    self.leave();
                }
            }
        }
        Flow::Continue(())
    }

    fn leave(&mut self) {
        if let Some(mut level) = self.levels.pop() {
            level.names.release(&self.memory);
            if let Some(origin) = level.origin {
                self.paths.before = origin;
            }
        }
        // The paths of a folder whose turn comes next begin with the path of the folder above.
        let above = self.levels.iter().rev().find_map(|level| level.lengths);
        if let Some((before, after)) = above {
            self.paths.before.truncate(before);
            self.paths.after.truncate(after);
        }
    }

    /// Plans the comparison of two folders, or the list of one.
    fn enter(
        &mut self,
        before: Option<Dir<R::Folder>>,
        after: Option<Dir<R::Folder>>,
        name: Vec<u8>,
        origin: Option<Vec<u8>>,
    ) -> Flow {
        if self.levels.len() >= MAX_DEPTH {
            return self.problem_text(Some(&name), "the folders are too deep: not compared");
        }
        let mut folders: Vec<R::Folder> = Vec::new();
        // The shared parts of both are the same if they continue under the same path.
        let differs_below = match (&before, &after) {
            (Some(before), Some(after)) => before.below != after.below,
            _ => true,
        };
        for dir in [&before, &after].into_iter().flatten() {
            folders.extend(dir.own_parts());
            if differs_below {
                folders.extend(dir.shared_parts());
            }
        }
        self.levels.push(Level {
            before,
            after,
            names: Names::new(folders, false),
            name,
            origin,
            lengths: None,
        });
        Flow::Continue(())
    }

    /// Compares the objects that have a name in the present folders.
    fn name(&mut self, name: &[u8]) -> Flow {
        let Some(level) = self.levels.last() else {
            return Flow::Continue(());
        };
        let look = |view: &View<'_, R>, dir: &Option<Dir<R::Folder>>| match dir {
            Some(dir) => view.look(dir, name, Reach::Whole),
            None => Ok(Found::Nothing),
        };
        let found = look(&self.views[0], &level.before)
            .and_then(|before| Ok((before, look(&self.views[1], &level.after)?)));
        let (mut before, mut after) = match found {
            Ok(found) => found,
            Err(errno) => return self.problem(Some(name), errno),
        };
        let mut origin = None;
        if !self.moves.iter().all(Moves::is_empty) {
            let is_same = matches!((&before, &after), (Found::Folder(before), Found::Folder(after))
                if before.below == after.below && before.below.is_some());
            if !is_same {
                origin = self.origin(name, &after);
                if self.has_gone(name, &before) {
                    before = Found::Nothing;
                }
            }
        }
        if let Some((from, dir)) = origin {
            let to = std::mem::replace(&mut after, Found::Nothing);
            // A file or another folder had the name.
            self.differ(name, before, after)?;
            return self.renamed(name, from, dir, to);
        }
        self.differ(name, before, after)
    }

    /// Returns the former path of a folder, and the folder there, if it was renamed.
    fn origin(&self, name: &[u8], after: &Found<R::Folder>) -> Option<(Vec<u8>, Dir<R::Folder>)> {
        let Found::Folder(dir) = after else {
            return None;
        };
        let (from, to) = self.pair(dir.below.as_deref()?)?;
        (to == join(&self.paths.after, name)).then_some(from)
    }

    /// Returns true if a folder has another path after.
    fn has_gone(&self, name: &[u8], before: &Found<R::Folder>) -> bool {
        let Found::Folder(dir) = before else {
            return false;
        };
        let pair = dir.below.as_deref().and_then(|below| self.pair(below));
        pair.is_some_and(|((from, _), _)| from == join(&self.paths.before, name))
    }

    /// Returns both places of a folder of the shared layers: the path and the folder before, and the
    /// path after.
    #[expect(clippy::type_complexity, reason = "a pair of places")]
    fn pair(&self, below: &[u8]) -> Option<((Vec<u8>, Dir<R::Folder>), Vec<u8>)> {
        let (to, _) = self.moves[1].place(&self.views[1], below)?;
        let from = self.moves[0].place(&self.views[0], below)?;
        Some((from, to))
    }

    fn renamed(
        &mut self,
        name: &[u8],
        from: Vec<u8>,
        before: Dir<R::Folder>,
        after: Found<R::Folder>,
    ) -> Flow {
        let Found::Folder(after) = after else {
            return Flow::Continue(());
        };
        let what = self.compare_folders(name, &before, &after)?;
        let path = join(&self.paths.after, name);
        self.change(Change {
            action: Action::Renamed,
            path: &path,
            from: Some(&from),
            kind: Kind::Directory,
            what,
        })?;
        self.enter(Some(before), Some(after), name.to_vec(), Some(from))
    }

    fn differ(&mut self, name: &[u8], before: Found<R::Folder>, after: Found<R::Folder>) -> Flow {
        match (before, after) {
            (Found::Nothing, Found::Nothing) => Flow::Continue(()),
            (Found::Folder(before), Found::Folder(after)) => {
                let what = self.compare_folders(name, &before, &after)?;
                self.modified(name, Kind::Directory, what)?;
                self.enter(Some(before), Some(after), name.to_vec(), None)
            }
            (
                Found::File { at, entry },
                Found::File {
                    at: at_after,
                    entry: entry_after,
                },
            ) if entry.kind == entry_after.kind => {
                self.files(name, (&at, &entry), (&at_after, &entry_after))
            }
            (before, after) => {
                self.one_sided(name, Action::Removed, &before)?;
                self.one_sided(name, Action::Added, &after)?;
                let name = name.to_vec();
                match (before, after) {
                    (Found::Folder(dir), _) => self.enter(Some(dir), None, name, None),
                    (_, Found::Folder(dir)) => self.enter(None, Some(dir), name, None),
                    _ => Flow::Continue(()),
                }
            }
        }
    }

    fn one_sided(&mut self, name: &[u8], action: Action, found: &Found<R::Folder>) -> Flow {
        let kind = match found {
            Found::Nothing => return Flow::Continue(()),
            Found::Folder(_) => Kind::Directory,
            Found::File { entry, .. } => entry.kind.unwrap_or(Kind::CharacterDevice),
        };
        let above = match action {
            Action::Removed => &self.paths.before,
            _ => &self.paths.after,
        };
        let path = join(above, name);
        self.change(Change {
            action,
            path: &path,
            from: None,
            kind,
            what: What::default(),
        })
    }

    fn files(
        &mut self,
        name: &[u8],
        before: (&R::Folder, &Entry),
        after: (&R::Folder, &Entry),
    ) -> Flow {
        // Both names lead to one file.
        if before.1.id == after.1.id {
            return Flow::Continue(());
        }
        let reader = self.views[0].reader;
        match reader.compare((before.0, name, before.1), (after.0, name, after.1)) {
            Ok(what) => self.modified(name, after.1.kind.unwrap_or(Kind::File), what),
            // The file was removed meanwhile. The next comparison finds this.
            Err(Errno::NOENT) => Flow::Continue(()),
            Err(errno) => self.problem(Some(name), errno),
        }
    }

    fn folders(&mut self, before: &Dir<R::Folder>, after: &Dir<R::Folder>) -> Flow {
        let what = self.compare_folders(b"", before, after)?;
        self.modified(b"", Kind::Directory, what)
    }

    fn compare_folders(
        &mut self,
        name: &[u8],
        before: &Dir<R::Folder>,
        after: &Dir<R::Folder>,
    ) -> ControlFlow<(), What> {
        let (Some(before), Some(after)) = (before.top(), after.top()) else {
            return ControlFlow::Continue(What::default());
        };
        match self.views[0].reader.compare_folders(before, after) {
            Ok(what) => ControlFlow::Continue(what),
            Err(errno) => {
                self.problem(Some(name), errno)?;
                ControlFlow::Continue(What::default())
            }
        }
    }

    fn modified(&mut self, name: &[u8], kind: Kind, what: What) -> Flow {
        if what.is_nothing() {
            return Flow::Continue(());
        }
        let (mut from, mut path) = (self.paths.before.clone(), self.paths.after.clone());
        if !name.is_empty() {
            push(&mut from, name);
            push(&mut path, name);
        }
        self.change(Change {
            action: Action::Modified,
            path: &path,
            from: (from != path).then_some(&from),
            kind,
            what,
        })
    }

    fn change(&mut self, change: Change<'_>) -> Flow {
        self.done.changes += 1;
        self.pass(&Event::Change(change))
    }

    fn problem(&mut self, name: Option<&[u8]>, errno: Errno) -> Flow {
        let why = match errno {
            Errno::AGAIN => "gets new names too quickly: not compared to its end".to_owned(),
            Errno::STALE => "was replaced during the comparison: not compared".to_owned(),
            errno => std::io::Error::from(errno).to_string(),
        };
        self.problem_text(name, &why)
    }

    fn problem_text(&mut self, name: Option<&[u8]>, why: &str) -> Flow {
        self.done.problems += 1;
        let mut path = self.paths.after.clone();
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            push(&mut path, name);
        }
        self.pass(&Event::Problem { path: &path, why })
    }

    fn pass(&mut self, event: &Event<'_>) -> Flow {
        let flow = (self.tell)(event);
        self.done.ended |= flow.is_break();
        flow
    }
}
