//! Layers in memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use rustix::io::Errno;

use super::check::Tree;
use crate::change::{Kind, What};
use crate::layer::{Entry, Lister, Mark, Reader};

/// An object of a layer.
#[derive(Clone, Debug)]
pub enum Node {
    Whiteout,
    /// A file with this content.
    File(u8),
    Folder {
        mark: Mark,
        /// The attributes.
        look: u8,
        children: BTreeMap<Vec<u8>, Self>,
    },
}

/// Layers for the walk.
pub struct Layers(Vec<Rc<Item>>);

/// An object with a number of its own.
#[derive(Debug)]
pub struct Item {
    number: u64,
    node: Node,
    children: BTreeMap<Vec<u8>, Rc<Self>>,
}

impl Item {
    fn new(node: &Node, next: &mut u64) -> Rc<Self> {
        *next += 1;
        let number = *next;
        let children = match node {
            Node::Folder { children, .. } => children
                .iter()
                .map(|(name, child)| (name.clone(), Self::new(child, next)))
                .collect(),
            _ => BTreeMap::new(),
        };
        Rc::new(Self {
            number,
            node: node.clone(),
            children,
        })
    }

    fn entry(&self) -> Entry {
        let (kind, mode) = match &self.node {
            Node::Whiteout => (None, 0),
            Node::File(_) => (Some(Kind::File), 0),
            Node::Folder { look, .. } => (Some(Kind::Directory), u32::from(*look)),
        };
        Entry {
            kind,
            id: (0, self.number),
            mode,
            owner: (0, 0),
            device: 0,
            size: 0,
            changed: (0, 0),
        }
    }
}

impl Layers {
    pub fn new(layers: &[&Node]) -> Self {
        let mut next = 0;
        Self(
            layers
                .iter()
                .map(|node| Item::new(node, &mut next))
                .collect(),
        )
    }
}

impl Lister for Layers {
    type Folder = Rc<Item>;

    fn names(
        &self,
        at: &Rc<Item>,
        each: &mut dyn FnMut(&[u8], bool) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        for (name, child) in &at.children {
            if each(name, matches!(child.node, Node::Folder { .. })).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Reader for Layers {
    fn root(&self, layer: usize, _marks: bool) -> Rc<Item> {
        Rc::clone(&self.0[layer])
    }

    fn entry(&self, at: &Rc<Item>, name: &[u8]) -> Result<Option<Entry>, Errno> {
        Ok(at.children.get(name).map(|child| child.entry()))
    }

    fn open(&self, at: &Rc<Item>, name: &[u8], _: &Entry) -> Result<Option<Rc<Item>>, Errno> {
        Ok(at.children.get(name).cloned())
    }

    fn mark(&self, at: &Rc<Item>) -> Mark {
        match &at.node {
            Node::Folder { mark, .. } => mark.clone(),
            _ => Mark::None,
        }
    }

    fn compare(
        &self,
        before: (&Rc<Item>, &[u8], &Entry),
        after: (&Rc<Item>, &[u8], &Entry),
    ) -> Result<What, Errno> {
        let content = |(at, name, _): (&Rc<Item>, &[u8], &Entry)| match at.children[name].node {
            Node::File(content) => content,
            _ => panic!("only files are compared"),
        };
        Ok(What {
            content: content(before) != content(after),
            ..What::default()
        })
    }

    fn compare_folders(&self, before: &Rc<Item>, after: &Rc<Item>) -> Result<What, Errno> {
        Ok(What {
            mode: before.entry().mode != after.entry().mode,
            ..What::default()
        })
    }
}

/// A plain tree.
#[derive(Clone, Debug)]
pub enum Plain {
    File(u8),
    Folder {
        look: u8,
        /// The number of the folder of the shared layers that is in it.
        number: Option<u64>,
        children: BTreeMap<Vec<u8>, Self>,
    },
}

impl Plain {
    /// Merges layers, topmost first, and the tree `below` under them.
    pub fn of(layers: &[Node], below: Option<&Self>) -> Self {
        let mut tree = below.cloned();
        for layer in layers.iter().rev() {
            tree = Some(over(layer, tree.as_ref(), tree.as_ref()));
        }
        tree.unwrap()
    }

    /// Gives each folder a number.
    pub fn number(&mut self) {
        fn visit(tree: &mut Plain, next: &mut u64) {
            if let Plain::Folder {
                number, children, ..
            } = tree
            {
                *next += 1;
                *number = Some(*next);
                children.values_mut().for_each(|child| visit(child, next));
            }
        }
        visit(self, &mut 0);
    }

    fn child(&self, name: &[u8]) -> Option<&Self> {
        match self {
            Self::Folder { children, .. } => children.get(name),
            Self::File(_) => None,
        }
    }

    /// Returns true if no folder of the shared layers has two places.
    pub fn is_real(&self) -> bool {
        fn visit(tree: &Plain, known: &mut Vec<u64>) {
            if let Plain::Folder {
                number, children, ..
            } = tree
            {
                known.extend(number);
                children.values().for_each(|child| visit(child, known));
            }
        }
        let mut known = Vec::new();
        visit(self, &mut known);
        let all = known.len();
        known.sort_unstable();
        known.dedup();
        all == known.len()
    }

    pub fn tree(&self) -> Tree {
        fn visit(tree: &Plain, path: &str, to: &mut Tree) {
            let shown = if path.is_empty() { "/" } else { path };
            let text = match tree {
                Plain::File(content) => format!("file {content}"),
                Plain::Folder { look, .. } => format!("folder {look}"),
            };
            to.insert(shown.as_bytes().to_vec(), text);
            if let Plain::Folder { children, .. } = tree {
                for (name, child) in children {
                    let name = std::str::from_utf8(name).unwrap();
                    visit(child, &format!("{path}/{name}"), to);
                }
            }
        }
        let mut to = Tree::new();
        visit(self, "", &mut to);
        to
    }
}

/// Puts a folder of a layer over its counterpart in the tree below, whose root is `root`.
fn over(upper: &Node, lower: Option<&Plain>, root: Option<&Plain>) -> Plain {
    let Node::Folder { look, children, .. } = upper else {
        panic!("only folders are merged");
    };
    let (number, below) = match lower {
        Some(Plain::Folder {
            number, children, ..
        }) => (*number, Some(children)),
        _ => (None, None),
    };
    let mut merged = below.cloned().unwrap_or_default();
    for (name, node) in children {
        match node {
            Node::Whiteout => drop(merged.remove(name)),
            Node::File(content) => drop(merged.insert(name.clone(), Plain::File(*content))),
            Node::Folder { mark, .. } => {
                let counterpart = match mark {
                    Mark::None => below.and_then(|below| below.get(name)),
                    Mark::Opaque => None,
                    Mark::Name(name) => below.and_then(|below| below.get(name)),
                    Mark::Path(path) => path
                        .split(|&byte| byte == b'/')
                        .filter(|name| !name.is_empty())
                        .try_fold(root, |at, name| at.map(|at| at.child(name)))
                        .flatten(),
                };
                merged.insert(name.clone(), over(node, counterpart, root));
            }
        }
    }
    Plain::Folder {
        look: *look,
        number,
        children: merged,
    }
}
