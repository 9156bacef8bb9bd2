//! Checks the output of a comparison: it must turn the tree before into the tree after.

use std::collections::{BTreeMap, BTreeSet};

/// A tree: a description of the object at each path.
pub type Tree = BTreeMap<Vec<u8>, String>;

/// A change of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `+`, `-`, `M` or `R`.
    pub action: char,
    pub path: Vec<u8>,
    pub from: Option<Vec<u8>>,
    /// True if content or attributes differ.
    pub differs: bool,
}

fn text(path: &[u8]) -> String {
    path.escape_ascii().to_string()
}

/// Returns true if the changes have the order of a walk: a folder before its content.
pub fn is_sorted(seen: &[Seen]) -> bool {
    let names = |seen: &Seen| -> Vec<Vec<u8>> {
        let parts = seen.path.split(|&byte| byte == b'/');
        parts.map(<[u8]>::to_vec).collect()
    };
    seen.is_sorted_by_key(names)
}

/// Applies changes to `before`. Fails with the first path at which the result is not `after`, and
/// with a change that changes nothing.
pub fn check(before: &Tree, after: &Tree, seen: &[Seen]) -> Result<(), String> {
    let of = |action: char| -> BTreeSet<&[u8]> {
        let chosen = seen.iter().filter(|one| one.action == action);
        chosen.map(|one| one.path.as_slice()).collect()
    };
    let (removed, added) = (of('-'), of('+'));
    let modified: BTreeSet<&[u8]> = seen
        .iter()
        .filter(|one| matches!(one.action, 'M' | 'R') && one.differs)
        .map(|one| one.path.as_slice())
        .collect();
    let renamed: Vec<(&[u8], &[u8])> = seen
        .iter()
        .filter(|one| one.action == 'R')
        .map(|one| (one.from.as_deref().unwrap(), one.path.as_slice()))
        .collect();
    let mut result = Tree::new();
    let missing = |path: &[u8]| format!("{} is told, and not there", text(path));
    for (path, old) in before {
        if removed.contains(path.as_slice()) {
            continue;
        }
        let is_below = |from: &[u8]| {
            path.strip_prefix(from)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let inner = renamed.iter().filter(|(from, _)| is_below(from));
        let new = match inner.max_by_key(|(from, _)| from.len()) {
            Some((from, to)) => [*to, &path[from.len()..]].concat(),
            None => path.clone(),
        };
        let is_modified = modified.contains(new.as_slice());
        let value = match is_modified {
            true => after.get(&new).ok_or_else(|| missing(&new))?,
            false => old,
        };
        if is_modified && value == old {
            return Err(format!("{} is told and the same: {old}", text(&new)));
        }
        if result.insert(new.clone(), value.clone()).is_some() {
            return Err(format!("{} comes from two paths", text(&new)));
        }
    }
    for path in added {
        let value = after.get(path).ok_or_else(|| missing(path))?;
        if result.insert(path.to_vec(), value.clone()).is_some() {
            return Err(format!("{} is added and not removed", text(path)));
        }
    }
    let all: BTreeSet<&Vec<u8>> = result.keys().chain(after.keys()).collect();
    for path in all {
        let (got, want) = (result.get(path), after.get(path));
        if got != want {
            return Err(format!(
                "{}: {got:?} by the output, in the tree {want:?}",
                text(path)
            ));
        }
    }
    Ok(())
}
