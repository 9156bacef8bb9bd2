//! Zone clusters: one zone of the same name on each of several hosts, which form a cluster of their own.
//!
//! The modules with the configuration and the plans are pure. Effects are behind [`Remote`], which runs a command
//! on a host.
//!
//! | module | holds |
//! |---|---|
//! | `config` | the configuration of a zone cluster, and the zone of each node that it makes |
//! | `shell` | the commands of `configure`, a layer above the language of zonecfg |
//! | `memory` | the store of the sessions in `shell` |
//! | `document` | the file of a zone cluster, which each host keeps |
//! | `edit` | the commands of zonecfg that change one configuration into another |
//! | `fence` | the fence requests of a zone about other nodes of its zone cluster |
//! | `report` | the view of one host, and the choice of the newest configuration |
//! | `remote` | commands for hosts, and their outcomes |
//! | `revision` | the releases of programs on the hosts |
//! | `ring` | the configuration of corosync in the zones |
//! | `show` | tables |

mod config;
mod document;
mod edit;
mod fence;
mod memory;
mod remote;
mod report;
mod revision;
mod ring;
mod shell;
mod show;

pub use config::{MAX_NODES, Node, ZoneCluster, is_host_name};
pub use document::{BadDocument, Document, KEY_BYTES, Version};
pub use edit::edit;
pub use fence::{FenceAction, FenceRefused, FenceRequest, Power};
pub use memory::{NoTemplates, Templates, read_script};
pub use remote::{Order, Outcome, Remote, Stream, everywhere, quoted};
pub use report::{Conflict, HostReport, Newest, Reported, newest};
pub use revision::{Revision, release_of, revision_table};
pub use ring::{CONFIG_FILE, KEY_FILE, ring};
pub use shell::{Shell, Step};
pub use show::{Row, list_of, status_json, status_table};
