//! The configuration of Pacemaker for failover zones, and Pacemaker's view of them. All of it is
//! pure: text in, text or data out.
//!
//! | module | holds |
//! |---|---|
//! | `base` | the resource that provides the storage of a zone |
//! | `failover` | the resources and constraints of a failover zone, as XML |
//! | `cib` | changes to the text of Pacemaker's configuration |
//! | `constraint` | the constraints that keep a group from being deleted |
//! | `guest` | guest nodes, and the rights that they must not have |
//! | `fence` | the fence devices of the configuration, and the input of their agents |
//! | `setting` | parameters of a resource |
//! | `view` | the members, fence devices and zones that `crm_mon` reports |

mod base;
mod cib;
mod constraint;
mod failover;
mod fence;
mod guest;
mod setting;
mod view;

pub use base::{Base, BaseRefused};
pub use cib::{BadCib, has_id, with_failover};
pub use constraint::{constraints_of, constraints_on};
pub use failover::{Failover, MIGRATION_SECONDS, group_id, storage_id, zone_id};
pub use fence::Device;
pub use guest::{Guest, GuestRefused, check_guest, guest_constraints, guest_of, guest_prefix};
pub use setting::setting;
pub use view::{BadView, Fencing, GuestNode, Node, Place, View};
