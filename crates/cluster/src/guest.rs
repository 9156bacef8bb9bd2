//! Guest nodes: a zone in which the Pacemaker of the hosts runs resources, by pacemaker-remoted.
//!
//! Root in a guest node sends requests to the Pacemaker of the hosts under the name of the node. Without access control
//! lists, each of these requests is granted: it can add a resource, which then runs as root on a host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::escape::escape;
use quick_xml::events::{BytesStart, Event};

use crate::view::{BadView, value};

/// Names that Pacemaker lets do everything, whatever the lists say.
const PRIVILEGED: [&str; 2] = ["root", "hacluster"];

/// A guest node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Name of the node.
    pub name: String,
    /// Address by which the hosts reach it; if empty, the name is looked up.
    pub address: String,
}

/// The reason why a zone cannot be a guest node.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GuestRefused {
    /// Access control lists are off.
    #[error(
        "guest {0}: root in the zone could run programs as root on the hosts, because access control lists are off; \
         crm_attribute -t crm_config -n enable-acl -v true switches them on"
    )]
    NoAcl(String),
    /// A list lets the guest write.
    #[error(
        "guest {name}: {element} {id} lets it change the configuration of the hosts; \
         cibadmin --delete --xpath '//{element}[@id=\"{id}\"]' removes this list"
    )]
    MayWrite {
        /// Name of the guest.
        name: String,
        /// Type of the list.
        element: String,
        /// Its id.
        id: String,
    },
    /// Pacemaker grants this name everything.
    #[error("guest {0}: Pacemaker grants everything to this name; use another name")]
    Privileged(String),
    /// The name is in use.
    #[error("guest {0}: a node or a resource has this name already; use another name")]
    Taken(String),
}

/// The parts of a CIB that matter for guests.
#[derive(Debug, Default)]
struct Facts {
    /// Values of enable-acl.
    enable_acl: Vec<String>,
    /// Roles with a permission to write.
    writers: BTreeSet<String>,
    lists: Vec<List>,
    /// Ids of resources, and names of nodes.
    names: BTreeSet<String>,
    /// Resources that are in no other one, without fence devices.
    resources: Vec<String>,
    /// Guest nodes by the id of their resource.
    guests: BTreeMap<String, String>,
    /// Resources that a constraint allows on a node, and the node.
    allowed: BTreeSet<(String, String)>,
}

/// The roles of a user or group.
#[derive(Debug)]
struct List {
    element: String,
    id: String,
    name: String,
    roles: Vec<String>,
}

/// Elements that are resources.
const RESOURCES: [&str; 5] = ["primitive", "group", "clone", "master", "bundle"];

impl Facts {
    fn read(cib: &str) -> Result<Self, BadView> {
        let mut facts = Self::default();
        let mut reader = Reader::from_str(cib);
        // Elements that are open, with their ids.
        let mut open: Vec<(String, String)> = Vec::new();
        loop {
            match reader.read_event()? {
                Event::Start(start) => {
                    facts.take(&start, &open)?;
                    open.push((named(&start), attribute(&start, "id")?));
                }
                Event::Empty(start) => facts.take(&start, &open)?,
                Event::End(_) => {
                    open.pop();
                }
                Event::Eof => return Ok(facts),
                _ => {}
            }
        }
    }

    fn take(&mut self, start: &BytesStart<'_>, open: &[(String, String)]) -> Result<(), BadView> {
        let element = named(start);
        let id = attribute(start, "id")?;
        let above = open.last().map_or("", |(name, _)| name.as_str());
        let is_in = |name: &str| open.iter().any(|(one, _)| one == name);
        if is_in("status") {
            return Ok(());
        }
        match element.as_str() {
            "nvpair" if is_in("crm_config") && attribute(start, "name")? == "enable-acl" => {
                self.enable_acl.push(attribute(start, "value")?);
            }
            "nvpair" if is_in("resources") && attribute(start, "name")? == "remote-node" => {
                let of = open.iter().rev().find(|(name, _)| name == "primitive");
                let guest = attribute(start, "value")?;
                self.names.insert(guest.clone());
                if let Some((_, resource)) = of {
                    self.guests.insert(resource.clone(), guest);
                }
            }
            "acl_permission" if attribute(start, "kind")? == "write" => {
                self.writers
                    .extend(open.last().map(|(_, role)| role.clone()));
            }
            "acl_target" | "acl_group" | "acl_user" => {
                let name = attribute(start, "name")?;
                self.lists.push(List {
                    name: if name.is_empty() { id.clone() } else { name },
                    element,
                    id,
                    roles: Vec::new(),
                });
            }
            "role" => {
                if let Some(list) = self.lists.last_mut() {
                    list.roles.push(id);
                }
            }
            "node" if above == "nodes" => {
                self.names.insert(attribute(start, "uname")?);
            }
            "rsc_location" if attribute(start, "score")? != "-INFINITY" => {
                let place = (attribute(start, "rsc")?, attribute(start, "node")?);
                self.allowed.insert(place);
            }
            name if RESOURCES.contains(&name) && is_in("resources") => {
                self.names.insert(id.clone());
                if above == "resources" && attribute(start, "class")? != "stonith" {
                    self.resources.push(id);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn named(start: &BytesStart<'_>) -> String {
    String::from_utf8_lossy(start.name().as_ref()).into_owned()
}

fn attribute(start: &BytesStart<'_>, key: &str) -> Result<String, BadView> {
    Ok(value(start, key)?.unwrap_or_default())
}

/// Returns true if Pacemaker reads the text as true.
pub(crate) fn is_on(text: &str) -> bool {
    ["true", "on", "yes", "y", "1"].contains(&text.to_ascii_lowercase().as_str())
}

/// Tells if a zone can be a guest node of this name. `groups` are the groups of the hosts that have a member of this name.
/// The outer error is a CIB that is no XML.
///
/// # Errors
/// Fails if the CIB cannot be read.
pub fn check_guest(
    cib: &str,
    name: &str,
    groups: &[String],
) -> Result<Result<(), GuestRefused>, BadView> {
    let facts = Facts::read(cib)?;
    let owned = name.to_owned();
    if PRIVILEGED.contains(&name) {
        return Ok(Err(GuestRefused::Privileged(owned)));
    }
    if facts.names.contains(name) {
        return Ok(Err(GuestRefused::Taken(owned)));
    }
    if facts.enable_acl.is_empty() || !facts.enable_acl.iter().all(|text| is_on(text)) {
        return Ok(Err(GuestRefused::NoAcl(owned)));
    }
    let writes = |list: &&List| {
        let counts = match list.element.as_str() {
            "acl_group" => groups.contains(&list.name),
            _ => list.name == name,
        };
        // The lists of Pacemaker 1.1 hold their permissions themselves.
        counts
            && (list.element == "acl_user"
                || list.roles.iter().any(|role| facts.writers.contains(role)))
    };
    Ok(match facts.lists.iter().find(writes) {
        Some(list) => Err(GuestRefused::MayWrite {
            name: owned,
            element: list.element.clone(),
            id: list.id.clone(),
        }),
        None => Ok(()),
    })
}

/// Returns the guest node that a resource makes, or `None` if it makes none.
///
/// # Errors
/// Fails if the CIB cannot be read.
pub fn guest_of(cib: &str, resource: &str) -> Result<Option<String>, BadView> {
    Ok(Facts::read(cib)?.guests.remove(resource))
}

/// Returns the constraints, as XML, that keep the resources of the hosts and their probes off a guest. A resource for which a
/// constraint names the guest is meant for it.
///
/// # Errors
/// Fails if the CIB cannot be read.
pub fn guest_constraints(cib: &str, guest: &str, group: &str) -> Result<String, BadView> {
    let facts = Facts::read(cib)?;
    let is_meant = |id: &&String| facts.allowed.contains(&((*id).clone(), guest.to_owned()));
    let own = group.to_owned();
    let resources = facts.resources.iter().filter(|id| !is_meant(id));
    let (start, guest) = (guest_prefix(guest), escape(guest));
    let mut text = String::new();
    for id in resources.chain([&own]) {
        let id = escape(id.as_str());
        let _ = write!(
            text,
            "<rsc_location id=\"{start}{id}\" rsc=\"{id}\" node=\"{guest}\" score=\"-INFINITY\" \
             resource-discovery=\"never\"/>"
        );
    }
    Ok(text)
}

/// Returns the beginning of the ids of the constraints that [`guest_constraints`] makes.
pub fn guest_prefix(guest: &str) -> String {
    format!("guest-{guest}-without-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cib::with_failover;
    use crate::failover::tests::web;

    const CIB: &str = r#"<cib><configuration>
        <crm_config><cluster_property_set id="p"><nvpair id="p1" name="enable-acl" value="true"/></cluster_property_set></crm_config>
        <nodes><node id="1" uname="host1"/></nodes>
        <resources><primitive id="fence" class="stonith" type="x"/><primitive id="ip" class="ocf" type="IPaddr2"/>
        <group id="g-db"><primitive id="zone-db" class="ocf" type="Zone"><meta_attributes id="m">
        <nvpair id="m1" name="remote-node" value="gdb"/></meta_attributes></primitive></group>
        <clone id="c"><primitive id="dlm" class="ocf" type="x"/></clone>
        <primitive id="app" class="ocf" type="Dummy"/></resources>
        <constraints><rsc_location id="l" rsc="app" node="gweb" score="100"/>
        <rsc_location id="l2" rsc="ip" node="gweb" score="-INFINITY"/></constraints>
        <acls><acl_role id="see"><acl_permission id="s1" kind="read" xpath="/cib"/></acl_role>
        <acl_role id="all"><acl_permission id="a1" kind="write" xpath="/cib"/></acl_role>
        <acl_target id="gsee"><role id="see"/></acl_target><acl_target id="t7" name="gall"><role id="see"/><role id="all"/></acl_target>
        <acl_group id="ops"><role id="all"/></acl_group></acls>
        </configuration><status><node_state id="1" uname="ghost"/></status></cib>"#;

    fn check(cib: &str, name: &str, groups: &[&str]) -> Result<(), GuestRefused> {
        let groups: Vec<String> = groups.iter().map(|&one| one.to_owned()).collect();
        check_guest(cib, name, &groups).unwrap()
    }

    #[test]
    fn a_guest_needs_access_control_lists() {
        assert_eq!(check(CIB, "gweb", &["users"]), Ok(()));
        let off = |to: &str| CIB.replace("name=\"enable-acl\" value=\"true\"", to);
        for change in [
            "name=\"enable-acl\" value=\"false\"",
            "name=\"enable-acl\" value=\"\"",
            "name=\"other\" value=\"true\"",
        ] {
            let said = check(&off(change), "gweb", &[]);
            assert_eq!(said, Err(GuestRefused::NoAcl("gweb".into())), "{change}");
        }
        // Two values that differ: which of them counts depends on rules.
        let both = off(
            "name=\"enable-acl\" value=\"true\"/><nvpair id=\"p2\" name=\"enable-acl\" value=\"no\"",
        );
        assert!(check(&both, "gweb", &[]).is_err());
    }

    #[test]
    fn a_guest_must_not_have_the_right_to_write() {
        assert_eq!(check(CIB, "gsee", &[]), Ok(()));
        let refused = |name: &str, element: &str, id: &str| {
            Err(GuestRefused::MayWrite {
                name: name.into(),
                element: element.into(),
                id: id.into(),
            })
        };
        assert_eq!(check(CIB, "gall", &[]), refused("gall", "acl_target", "t7"));
        assert_eq!(
            check(CIB, "gweb", &["ops"]),
            refused("gweb", "acl_group", "ops")
        );
        let old = CIB
            .replace("acl_target id=\"gsee\"", "acl_user id=\"gsee\"")
            .replace(
                "</acl_target><acl_target id=\"t7\"",
                "</acl_user><acl_target id=\"t7\"",
            );
        assert_eq!(
            check(&old, "gsee", &[]),
            refused("gsee", "acl_user", "gsee")
        );
    }

    #[test]
    fn names_that_are_taken_or_may_do_everything_are_refused() {
        for name in ["root", "hacluster"] {
            assert_eq!(
                check(CIB, name, &[]),
                Err(GuestRefused::Privileged(name.into()))
            );
        }
        for name in ["host1", "ip", "gdb", "zone-db", "c"] {
            assert_eq!(check(CIB, name, &[]), Err(GuestRefused::Taken(name.into())));
        }
        assert!(check_guest("<a", "gweb", &[]).is_err());
    }

    #[test]
    fn resources_of_hosts_are_not_looked_for_in_the_guest() {
        let text = guest_constraints(CIB, "gweb", "g-web").unwrap();
        for id in ["ip", "g-db", "c", "g-web"] {
            let wanted = format!(
                "<rsc_location id=\"guest-gweb-without-{id}\" rsc=\"{id}\" node=\"gweb\" score=\"-INFINITY\" resource-discovery=\"never\"/>"
            );
            assert!(text.contains(&wanted), "{id}: {text}");
        }
        // A fence device runs on no guest, and app is meant for it.
        assert_eq!(text.matches("<rsc_location").count(), 4, "{text}");
    }

    #[test]
    fn the_zone_is_the_guest() {
        let mut zone = web();
        assert!(!zone.resources().contains("remote-node"));
        zone.guest = Some(Guest {
            name: "gweb".into(),
            address: "10.0.0.50".into(),
        });
        let text = with_failover(CIB, &zone, &[]).unwrap();
        assert_eq!(
            guest_of(&text, "zone-web").unwrap().as_deref(),
            Some("gweb")
        );
        assert!(
            text.contains("name=\"remote-addr\" value=\"10.0.0.50\""),
            "{text}"
        );
        assert!(text.contains("rsc=\"g-web\" node=\"gweb\""), "{text}");
        assert_eq!(guest_of(CIB, "ip").unwrap(), None);
    }
}
