//! Datasets of zones: one writable top on a chain of sealed, shared layers.
//!
//! # On disk
//!
//! ```text
//! <zonepath>/            0700, root
//!   root/                the writable top; a whole tree when no layer is below
//!   work/                overlay's work folder
//!   dataset              link to this dataset's reference on the topmost layer:
//!                        ../.layers/<layer>/refs/dataset-<id>; absent without layers
//!   root.new/            only while a seal or clone is under way
//!   snapshots/<name>/    named snapshots, see `snapshot.rs`
//!   mounted/             link to layers that only a running zone needs, see
//!                        `dataset/mounted.rs`
//!   quota                link whose text limits the top, see `quota.rs`
//!   vol/root, vol/work   in place of root and work on btrfs, see `top.rs`
//!   zfs                  on ZFS alone, where all is otherwise, see `zfs.rs`
//! <parent of zonepath>/.layers/
//!   <layer>/tree/        the sealed top; never written again
//!   <layer>/parent       link to the layer below; absent for the lowest
//!   <layer>/refs/        a link per user, dataset-<id> or layer-<id>, leading to it
//!   .dead/               trees being removed; whatever is here is garbage. busy-<id>
//!                        says that somebody is at work; of the killed it stays
//! ```
//!
//! If the zonepath is a mount of its own the layers are in `<zonepath>/.layers`: sealing is a
//! rename, and that cannot leave a file system. Removing such a zone leaves that folder while a
//! clone elsewhere needs it; unmounting the file system then breaks the clone.
//!
//! Everything but the trees is folders and symbolic links, so that every step
//! is one change of metadata, atomic by itself.
//!
//! # Invariants
//!
//! 1. A layer lives while `refs` exists. A process that adds a reference holds one, or holds the
//!    lock of a dataset that does; `rmdir refs` therefore decides a layer's end. A layer drops its
//!    own reference on the layer below before it is put aside.
//! 2. A user's link is never without reference for longer than a crash, a
//!    reference without user never counts against a zone: opening a dataset
//!    mends the first, [`collect`] removes the second.
//! 3. `root` missing beside `root.new` and a link is a seal or clone that
//!    counts and lacks its last rename. `root` missing otherwise is a removal
//!    or nothing: no dataset.
//! 4. A layer without `tree` does not count: a dataset that names one stands on
//!    the layer below it.
//! 5. A layer that no dataset, snapshot or image refers to is garbage. A process that works on a
//!    folder of layers has a mark in `.dead` meanwhile, or has the root of the removed dataset
//!    there. A mark or another object in `.dead` while no process is at work tells the next command
//!    ([`tidy`]) to look for garbage.
//! 6. A dataset that goes takes along every reference that leads to it, also one that an
//!    operation left which was cut off: no evidence against that would be left.
//!
//! | operation | steps, in order | a crash after the step leaves |
//! |---|---|---|
//! | seal | make `root.new` like `root` | `root.new`, removed when opened |
//! | | make the layer with its reference, and the one on the layer below | a layer without tree, removed by `collect` |
//! | | point `dataset` at it | rule 4: opening points it back and removes the layer |
//! | | **rename `root` to `tree`** | rule 3: opening finishes it |
//! | | rename `root.new` to `root` | an extra reference on the layer below, removed by `collect` |
//! | | drop the dataset's reference on the layer below | - |
//! | clone | seal the origin | as above |
//! | | make `work` and `root.new` in the new zonepath | no dataset |
//! | | **link `dataset`** | rules 2 and 3: opening makes it whole |
//! | | add the reference, rename `root.new` to `root` | the same |
//! | shorten | merge the layers to a tree in `.dead` | garbage, removed by `collect` |
//! | | make a layer with its reference, rename the tree into it | a stale reference: `collect` removes the layer |
//! | | **point `dataset` at it** | a stale reference on the former layer, removed by `collect` |
//! | | drop the reference on the former layer | - |
//! | of a running zone | merge the layers to a tree in `.dead` | garbage, removed by `collect` |
//! | | make `mounted`, link it to the former layer | used again, or removed by the next seal or boot |
//! | | add that reference | the same |
//! | | go on as to shorten | the same |
//! | let go | drop that reference, remove `mounted` | letting go again goes on |
//! | move | link `dataset` absolutely | right at both places |
//! | | **rename the zonepath** | a reference to the former path: opening corrects it |
//! | snapshot, rollback | see `snapshot.rs` | |
//! | take over | make `root.new` like the other's layer | `root.new`, removed when opened |
//! | | **link `back` to that layer** | as for a rollback |
//! | put below | make a layer with the upper content, on the layer that is put below | a stale reference: `collect` removes the layer |
//! | | **point `dataset` at it** | a stale reference on the former layer, removed by `collect` |
//! | destroy | **rename `root` to `.dead`** | no dataset; destroying again goes on |
//! | | drop the references, ending layers that nobody uses | the same |
//! | | remove `dataset` and `work` | the same |
//! | | remove the trees in `.dead` | garbage, removed by `collect` |
//!
//! # Power cuts
//!
//! The steps need no fsync of their own. ext4 and xfs keep one journal, and each change of metadata
//! goes to it whole and in order: after a power cut a first part of the steps is there, as after a
//! crash. An fsync of a file that was written later (the caller's index) forces the journal up to
//! there, so it makes all earlier steps durable, too: [`Dataset::settle`] then costs nothing. btrfs
//! commits whole transactions in order, but an fsync writes only the changes of that one file; so
//! do other file systems, and an index on another file system orders nothing. There `settle` is one
//! syncfs. tmpfs keeps nothing.
//!
//! The content of files is not synced. Processes of a zone must sync their own writes; unmounting
//! the overlay when the zone halts syncs them, too. A caller that fills a top on the host calls
//! [`Dataset::sync`] before it marks the zone as installed. (ext4 without a journal, and ext2, keep
//! no order: after a power cut they need fsck anyway.)
//!
//! # Concurrency
//!
//! Operations on one dataset wait for each other (flock of the zonepath).
//! Different datasets work in parallel, also on the same layers. The caller
//! makes sure that a zone is halted while its dataset is sealed or removed.

mod assemble;
mod attributes;
mod choose;
mod collect;
mod copy;
mod crash;
mod dataset;
mod digest;
mod driver;
mod environment;
mod error;
mod folder;
mod form;
mod fstype;
mod id;
mod images;
mod layers;
mod layout;
mod memory;
mod merge;
mod name;
mod patch;
mod quota;
mod remove;
mod repair;
mod sha256;
mod small;
mod snapshot;
pub mod sparse;
mod stack;
mod survey;
mod top;
mod transfer;
mod usage;
mod zfs;

pub use assemble::{Scratch, assemble, assemble_keeping, view};
pub use choose::driver_at;
pub use collect::{Collected, Lost, collect, tidy};
pub use copy::Copied;
pub use dataset::{Dataset, LAYERS_AFTER_MERGE, MERGE_DEPTH};
pub use digest::Keeps;
pub use driver::{Driver, Layered};
pub use error::{Error, Result};
pub use folder::must_be_known;
pub use fstype::name_at as fstype_at;
pub use id::{BadId, Id};
pub use images::{About, Base, Download, Image, Images, Import, Part, Pruned};
pub use layers::MAX_LAYERS;
pub use layout::{LINK, ROOT, WORK};
pub use memory::MemoryTop;
pub use name::{BadName, Name};
pub use patch::{Misfit, Obstacle, differences, holds, misfit};
pub use remove::remove_tree;
pub use sha256::{BadDigest, Digest};
pub use small::write_out;
pub use snapshot::{Method, Snapshot, SnapshotUsage, TopCopy};
pub use stack::Stack;
pub use survey::{Garbage, survey};
pub use transfer::Known;
pub use usage::Usage;
pub use zfs::{Received, Zfs, delegate, receive_beside, set_apart, take_back, why_not_delegated};

#[cfg(test)]
mod tests;
