//! The configuration of a zone cluster.

use std::collections::BTreeMap;
use std::path::Path;

use model::config::{Resource, Value};
use model::{Config, ZoneName, verify};
use syntax::{export, info};

/// Maximum number of nodes, which is the number that vendors of corosync support.
pub const MAX_NODES: usize = 32;
/// Maximum length of the name of a host, in bytes (RFC 1035).
const MAX_HOST_NAME: usize = 253;

/// A node: the zone on one host.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the host, as `uname -n` prints it, by which the other hosts reach it.
    pub physical_host: String,
    /// Host name in the zone.
    pub hostname: String,
    /// Resources that only this node has. Its properties are not used.
    pub config: Config,
}

impl Node {
    /// Returns a node without properties.
    #[must_use]
    pub fn new(cluster: &ZoneName) -> Self {
        Self {
            physical_host: String::new(),
            hostname: String::new(),
            config: Config::new(cluster.clone()),
        }
    }
}

/// A zone cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneCluster {
    /// Properties and resources that all nodes have. Its name is that of the zone cluster.
    pub base: Config,
    /// The nodes, in the order in which they were added.
    pub nodes: Vec<Node>,
}

impl ZoneCluster {
    /// Returns a zone cluster without nodes.
    #[must_use]
    pub const fn new(base: Config) -> Self {
        Self {
            base,
            nodes: Vec::new(),
        }
    }

    /// Returns the name, which is also that of each zone.
    #[must_use]
    pub const fn name(&self) -> &ZoneName {
        self.base.name()
    }

    /// Returns the names of the hosts.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        self.nodes
            .iter()
            .map(|node| node.physical_host.clone())
            .collect()
    }

    /// Returns the node on a host.
    #[must_use]
    pub fn node(&self, host: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.physical_host == host)
    }

    /// Returns the configuration of the zone of a node. A resource of the node whose keys are those of a resource of
    /// the cluster adds to it, and its properties take precedence.
    ///
    /// # Errors
    /// Fails if the resources do not fit together.
    pub fn zone_of(&self, node: &Node) -> Result<Config, model::config::Error> {
        let mut zone = self.base.clone();
        for resource in node.config.resources() {
            if resource.spec().name == "net" && resource.has("address") {
                zone.remove_default_link()?;
            }
            let same = zone.resources().iter().find(|one| one.is_same(resource));
            match same.cloned() {
                Some(same) => {
                    let both = overlaid(&same, resource)?;
                    zone.replace(&same, both)?;
                }
                None => zone.add(resource.clone())?,
            }
        }
        Ok(zone)
    }

    /// Moves the zonepath, with the properties that name files in it.
    ///
    /// # Errors
    /// Fails if a path is not valid.
    pub fn relocate(&mut self, zonepath: &Path) -> Result<(), model::config::Error> {
        let from = self.base.get("zonepath").to_owned();
        for node in &mut self.nodes {
            let mut moved = node.config.clone();
            moved.set_zonepath(&from)?;
            moved.relocate(zonepath)?;
            // A node has resources only.
            node.config = Config::new(self.base.name().clone());
            for resource in moved.resources() {
                node.config.add(resource.clone())?;
            }
        }
        self.base.relocate(zonepath)
    }

    /// Returns the problems that need no host to be found, each as a line.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.nodes.is_empty() {
            problems.push("expected at least one node; 'add node' adds one".to_owned());
        }
        if self.nodes.len() > MAX_NODES {
            problems.push(format!(
                "{} nodes: expected at most {MAX_NODES}",
                self.nodes.len()
            ));
        }
        // The owner of each name and address that must be unique.
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        for node in &self.nodes {
            let host = node.physical_host.as_str();
            for (property, value) in [("physical-host", host), ("hostname", &node.hostname)] {
                if !is_host_name(value) {
                    problems.push(format!(
                        "node {host}: {property} '{value}': expected letters, digits, '-', '_' and '.', a letter or digit first"
                    ));
                }
            }
            let mut unique = vec![
                format!("physical-host {host}"),
                format!("hostname {}", node.hostname),
            ];
            match self.zone_of(node) {
                Ok(zone) => {
                    problems.extend(
                        verify::config(&zone)
                            .iter()
                            .map(|one| format!("node {host}: {one}")),
                    );
                    unique.extend(
                        addresses(&zone)
                            .into_iter()
                            .map(|one| format!("address {one}")),
                    );
                }
                Err(error) => problems.push(format!("node {host}: {error}")),
            }
            for one in unique {
                match owners.get(&one) {
                    Some(owner) => {
                        problems.push(format!("node {host}: {one}: node {owner} has it already"));
                    }
                    None => {
                        owners.insert(one, host);
                    }
                }
            }
        }
        problems
    }

    /// Returns the commands that recreate the configuration.
    #[must_use]
    pub fn export(&self) -> String {
        let mut out = export::export(&self.base);
        for node in &self.nodes {
            out.push_str("add node\n");
            for (property, value) in node.properties() {
                export::set(&mut out, property, value);
            }
            for resource in node.config.resources() {
                export::resource(&mut out, resource);
            }
            out.push_str("end\n");
        }
        out
    }

    /// Returns the text of `info`.
    #[must_use]
    pub fn info(&self) -> String {
        let nodes: String = self.nodes.iter().map(Node::info).collect();
        info::all(&self.base) + &nodes
    }
}

impl Node {
    /// Returns the properties that are set.
    fn properties(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("physical-host", self.physical_host.as_str()),
            ("hostname", self.hostname.as_str()),
        ];
        all.into_iter().filter(|(_, value)| !value.is_empty())
    }

    /// Returns the text of `info`.
    #[must_use]
    pub fn info(&self) -> String {
        let mut text = String::from("node:\n");
        for (property, value) in self.properties() {
            text.push_str(&format!("\t{property}: {value}\n"));
        }
        for resource in self.config.resources() {
            for line in info::resource(&self.config, resource).lines() {
                text.push_str(&format!("\t{line}\n"));
            }
        }
        text
    }
}

/// Returns the addresses of a zone, without prefix lengths. An address that is allowed but not configured floats, so
/// several nodes may have it.
pub(crate) fn addresses(zone: &Config) -> Vec<String> {
    let mut found = Vec::new();
    for resource in zone.resources() {
        if !matches!(resource.spec().name, "net" | "anet")
            || resource.get("configure-allowed-address") == "false"
        {
            continue;
        }
        let text = [resource.get("address"), resource.get("allowed-address")].join(",");
        let addresses = text.split([',', ' ']).filter(|one| !one.is_empty());
        found.extend(addresses.map(|one| one.split('/').next().unwrap_or(one).to_owned()));
    }
    found
}

/// Returns a resource with the properties of another one of the same keys over its own.
fn overlaid(below: &Resource, above: &Resource) -> Result<Resource, model::config::Error> {
    let mut both = below.clone();
    for spec in above.spec().properties {
        if !above.is_set(spec.name) {
            continue;
        }
        match spec.is_list() {
            true => both.set_value(spec.name, Value::List(above.list(spec.name).to_vec()))?,
            false => both.set(spec.name, above.get(spec.name))?,
        }
    }
    Ok(both)
}

/// Returns true if the text can be the name of a host. It becomes an argument of ssh, so it begins with a letter or
/// digit.
#[must_use]
pub fn is_host_name(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(good)
        && text.len() <= MAX_HOST_NAME
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::NoTemplates;
    use crate::shell;

    /// A zone cluster of three nodes.
    pub(crate) const THREE: &str = "create -b
set zonepath=/zones/%{zonename}
set ip-type=exclusive
add anet
set linkname=net0
set lower-link=br0
set defrouter=10.66.0.254
end
add node
set physical-host=host1
set hostname=pg1
add anet
set linkname=net0
set allowed-address=10.66.0.61/24
end
end
add node
set physical-host=host2
set hostname=pg2
add anet
set linkname=net0
set allowed-address=10.66.0.62/24
end
end
add node
set physical-host=host3
set hostname=pg3
add anet
set linkname=net0
set allowed-address=10.66.0.63/24
end
end
";

    pub(crate) fn read(text: &str) -> ZoneCluster {
        shell::read(&"pg".parse().unwrap(), text, NoTemplates).unwrap()
    }

    #[test]
    fn an_export_reads_as_the_same_cluster() {
        let cluster = read(THREE);
        assert_eq!(cluster.nodes.len(), 3);
        assert_eq!(read(&cluster.export()), cluster);
        insta::assert_snapshot!(cluster.export());
    }

    #[test]
    fn a_node_adds_to_the_link_of_the_cluster() {
        let cluster = read(THREE);
        let zone = cluster.zone_of(&cluster.nodes[1]).unwrap();
        insta::assert_snapshot!(export::export(&zone));
    }

    #[test]
    fn a_whole_cluster_has_no_problems() {
        assert_eq!(read(THREE).problems(), Vec::<String>::new());
    }

    #[test]
    fn an_address_belongs_to_one_node() {
        let text = THREE.replace("10.66.0.63", "10.66.0.61");
        assert_eq!(
            read(&text).problems(),
            ["node host3: address 10.66.0.61: node host1 has it already"]
        );
    }

    #[test]
    fn the_zonepath_moves_and_the_nodes_stay() {
        assert!(read(THREE).relocate("tank".as_ref()).is_err());
        let mut cluster = read(THREE);
        cluster.relocate("/tank/pg".as_ref()).unwrap();
        assert_eq!(
            cluster,
            read(&THREE.replace("/zones/%{zonename}", "/tank/pg"))
        );
    }

    #[test]
    fn a_host_has_one_node() {
        let mut cluster = read(THREE);
        cluster.nodes[2].physical_host = "host1".to_owned();
        assert_eq!(
            cluster.problems(),
            ["node host1: physical-host host1: node host1 has it already"]
        );
        cluster.nodes.clear();
        assert_eq!(cluster.problems().len(), 1);
    }

    #[test]
    fn a_floating_address_may_be_on_several_nodes() {
        let add = "add anet\nset linkname=vip0\nset lower-link=br0\nset allowed-address=10.66.0.60/24\n\
                   set configure-allowed-address=false\nend\nadd node\n";
        assert_eq!(
            read(&THREE.replacen("add node\n", add, 1)).problems(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn names_of_hosts_are_no_options_and_no_paths() {
        for bad in ["", "-oProxyCommand=x", "a b", "../x", "a;b", "a\n", "a@b"] {
            assert!(!is_host_name(bad), "{bad}");
        }
        assert!(is_host_name("host-1.example.org"));
    }
}
