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
//! If the zonepath is a mount point of its own file system, the layers are in `<zonepath>/.layers`,
//! because a seal is a rename, and a rename cannot cross file systems. The removal of such a zone
//! keeps the folder of layers while a clone on another file system needs it. Unmounting the file
//! system then breaks the clone.
//!
//! Everything except the trees consists of folders and symbolic links. Therefore each step of an
//! operation is one atomic change of metadata.
//!
//! # Invariants
//!
//! 1. A layer exists while its folder `refs` exists. A process that adds a reference already holds
//!    a reference, or holds the lock of a dataset that has one. Therefore `rmdir refs`, which fails
//!    while a reference exists, decides the end of a layer. A layer drops its own reference on the
//!    layer below before it is moved to `.dead`.
//! 2. A dataset's link to a layer lacks its reference only after a crash, and opening the dataset
//!    repairs this. A reference without a dataset never harms a zone, and [`collect()`] removes it.
//! 3. If `root` is missing, and `root.new` and a link exist, a seal or clone is valid and lacks
//!    only its last rename. If `root` is missing otherwise, the zonepath holds no dataset, or the
//!    rest of a removed dataset.
//! 4. A layer without `tree` is not valid: a dataset whose link names such a layer is based on the
//!    layer below it.
//! 5. A layer that no dataset, snapshot or image refers to is garbage. While a process works on a
//!    folder of layers, it keeps a mark in `.dead`, or the root of the dataset that it removes is
//!    in `.dead`. If `.dead` contains an entry while no process works there, the next command looks
//!    for garbage ([`tidy`]).
//! 6. The removal of a dataset also removes every reference to the dataset, even a reference that
//!    an interrupted operation left. After the removal, no evidence would show that such a
//!    reference is stale.
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
//! The steps need no fsync of their own. ext4 and xfs have one journal, which stores each change of
//! metadata completely and in order. After a power failure, the disk therefore has the first steps
//! up to some point, as after a crash. An fsync of a file that was written later (the caller's
//! index) writes the journal up to that file, so it also makes all earlier steps durable, and
//! [`Dataset::settle`] costs nothing. btrfs commits whole transactions in order, but its fsync
//! writes only the changes of one file. Other file systems do the same. An index on another file
//! system gives no order at all. In these cases `settle` is one syncfs. tmpfs keeps nothing after a
//! power failure.
//!
//! The content of files is not synced. Processes of a zone must sync their own writes; unmounting
//! the overlay when the zone halts also syncs them. A caller that fills a top on the host calls
//! [`Dataset::sync`] before it marks the zone as installed. (ext2, and ext4 without a journal, keep
//! no order, so they need fsck after a power failure anyway.)
//!
//! # Concurrency
//!
//! Operations on one dataset wait for each other through flock on the zonepath. Operations on
//! different datasets run in parallel, even on the same layers. The caller makes sure that a zone
//! is halted while its dataset is sealed or removed.

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
mod export;
mod folder;
mod form;
mod fstype;
mod fullness;
mod id;
mod images;
mod layers;
mod layout;
mod memory;
mod merge;
mod name;
mod patch;
mod project;
mod quota;
mod relocate;
mod remove;
mod repair;
mod running;
mod sha256;
mod size;
mod small;
mod snapshot;
pub mod sparse;
mod stack;
mod survey;
mod together;
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
pub use export::export;
pub use folder::must_be_known;
pub use fstype::name_at as fstype_at;
pub use fullness::{Fullness, settle_removals};
pub use id::{BadId, Id};
pub use images::{About, Base, Download, Image, Images, Import, Part, Pruned};
pub use layers::MAX_LAYERS;
pub use layout::{EXPORT, LINK, ROOT, WORK};
pub use memory::MemoryTop;
pub use name::{BadName, Name};
pub use patch::{Misfit, Obstacle, changed_folder, differences, holds, misfit};
pub use relocate::{copy_zonepath, rename_zonepath};
pub use remove::remove_tree;
pub use running::{Method, TopCopy};
pub use sha256::{BadDigest, Digest};
pub use small::write_out;
pub use snapshot::{Snapshot, SnapshotUsage};
pub use stack::Stack;
pub use survey::{Garbage, survey};
pub use transfer::Known;
pub use usage::Usage;
pub use zfs::{Received, Zfs, delegate, receive_beside, set_apart, take_back, why_not_delegated};

#[cfg(test)]
mod tests;
