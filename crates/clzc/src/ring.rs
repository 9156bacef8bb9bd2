//! The configuration of corosync in the zones: a ring of their own, which the hosts do not trust.

use std::fmt::Write as _;

use crate::config::{ZoneCluster, addresses};

/// Path of the configuration in each zone.
pub const CONFIG_FILE: &str = "/etc/corosync/corosync.conf";
/// Path of the key in each zone.
pub const KEY_FILE: &str = "/etc/corosync/authkey";

/// Returns the text of `corosync.conf`. Returns `None` if a node has no address of its own, so that the zones cannot
/// know each other.
#[must_use]
pub fn ring(cluster: &ZoneCluster) -> Option<String> {
    let mut nodes = String::new();
    for (place, node) in cluster.nodes.iter().enumerate() {
        let zone = cluster.zone_of(node).ok()?;
        let address = addresses(&zone).into_iter().next()?;
        let _ = write!(
            nodes,
            "\tnode {{\n\t\tname: {}\n\t\tnodeid: {}\n\t\tring0_addr: {address}\n\t}}\n",
            node.hostname,
            place + 1
        );
    }
    // With two nodes, votequorum lets one of them continue alone; wait_for_all is then the default.
    let two = match cluster.nodes.len() {
        2 => "\ttwo_node: 1\n",
        _ => "",
    };
    Some(format!(
        "# Made by clzonecluster for zone cluster {name}.\n\
         totem {{\n\tversion: 2\n\tcluster_name: {name}\n\ttransport: knet\n\tcrypto_cipher: aes256\n\tcrypto_hash: sha256\n}}\n\
         quorum {{\n\tprovider: corosync_votequorum\n{two}}}\n\
         logging {{\n\tto_stderr: yes\n\tto_syslog: no\n}}\n\
         nodelist {{\n{nodes}}}\n",
        name = cluster.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{THREE, read};

    #[test]
    fn each_node_has_its_address_on_the_ring() {
        insta::assert_snapshot!(ring(&read(THREE)).unwrap());
    }

    #[test]
    fn two_nodes_are_told_so() {
        let mut cluster = read(THREE);
        cluster.nodes.pop();
        assert!(ring(&cluster).unwrap().contains("two_node: 1"));
    }

    #[test]
    fn a_node_without_an_address_has_no_ring() {
        let mut cluster = read(THREE);
        cluster.nodes[1].config = model::Config::new(cluster.name().clone());
        assert_eq!(ring(&cluster), None);
    }
}
