//! The scope `node` of the shell.

use model::ZoneName;
use model::config::Value;
use syntax::{Command, Console, Session};

use super::{Inner, Shell};
use crate::config::{Node, is_host_name};
use crate::memory::{Memory, NoTemplates, Templates};

/// Name of the scope.
pub(super) const NODE: &str = "node";

pub(super) const NODE_HELP: &str = "node: the zone on one host. A resource of a node adds to the resource of the cluster with the same keys.\n\
    \tphysical-host  name of the host, by which the other hosts reach it\n\
    \thostname       host name in the zone\n\
    example: add node; set physical-host=host1; set hostname=pg1\n\
    \t add anet; set linkname=net0; set allowed-address=10.0.0.61/24; end; end\n";

/// The node that the user specifies now.
pub(super) struct Open<C> {
    pub node: Node,
    pub session: Inner<NoTemplates, C>,
    /// Place of the node in the list, if it was selected and not added.
    place: Option<usize>,
}

impl<T: Templates + Clone, C: Console> Shell<T, C> {
    pub(super) fn add_node(&mut self) {
        if self.current_or_fail().is_some() {
            self.open_node(Node::new(&self.name), None);
        }
    }

    pub(super) fn open_node(&mut self, node: Node, place: Option<usize>) {
        let memory = Memory {
            stored: Some(node.config.clone()),
            templates: NoTemplates,
        };
        let session = Session::new(self.name.clone(), self.mode, memory, self.console.clone());
        self.open = Some(Open {
            node,
            session,
            place,
        });
    }

    /// Returns the place of the one node that matches.
    pub(super) fn find(&mut self, filters: &[(String, Value)]) -> Option<usize> {
        let matches = |node: &Node| {
            filters
                .iter()
                .all(|(property, value)| match property.as_str() {
                    "physical-host" => *value == Value::Simple(node.physical_host.clone()),
                    "hostname" => *value == Value::Simple(node.hostname.clone()),
                    _ => false,
                })
        };
        let mut places = (0..self.nodes.len()).filter(|place| matches(&self.nodes[*place]));
        let found = (places.next(), places.next());
        match found {
            (Some(place), None) => Some(place),
            (None, _) => {
                self.fail("node: no such node; filters are physical-host=... and hostname=...");
                None
            }
            (Some(_), Some(_)) => {
                self.fail("node: several nodes match: name one with physical-host=...");
                None
            }
        }
    }

    /// Runs a command in the scope of a node, outside a resource.
    pub(super) fn in_node(&mut self, command: Command) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        match command {
            Command::End => {
                if !self.end_node(&mut open) {
                    self.open = Some(open);
                }
                return;
            }
            Command::Cancel => return,
            Command::Set {
                property, value, ..
            } => self.set_of_node(&mut open.node, &property, value),
            Command::Clear { property } => {
                self.set_of_node(&mut open.node, &property, Value::Simple(String::new()));
            }
            Command::Info {
                what: None,
                json: false,
                ..
            } => {
                open.node.config = config_of(&mut open.session);
                self.console.page(&open.node.info());
            }
            Command::Help { subject: None } => self.console.page(NODE_HELP),
            Command::Add { ref what, .. } if what == NODE => self.fail("a node contains no node"),
            Command::Add { .. }
            | Command::Select { .. }
            | Command::Remove { .. }
            | Command::Info { .. }
            | Command::Help { .. } => {
                open.session.execute(command);
            }
            other => {
                let text = format!(
                    "The {} command only makes sense in the global scope: 'end' or 'cancel' leaves the node.",
                    other.verb()
                );
                self.fail(&text);
            }
        }
        self.open = Some(open);
    }

    /// Sets properties of the nodes on these hosts. The hosts are those before the first property: one of the properties
    /// can be their name.
    pub fn set_of_nodes(&mut self, hosts: &[&str], values: &[(String, String)]) {
        let is_meant = |place: &usize| hosts.contains(&self.nodes[*place].physical_host.as_str());
        let places: Vec<usize> = (0..self.nodes.len()).filter(is_meant).collect();
        for place in places {
            let mut node = self.nodes[place].clone();
            for (property, value) in values {
                self.set_of_node(&mut node, property, Value::Simple(value.clone()));
            }
            self.nodes[place] = node;
        }
    }

    fn set_of_node(&mut self, node: &mut Node, property: &str, value: Value) {
        let field = match property {
            "physical-host" => &mut node.physical_host,
            "hostname" => &mut node.hostname,
            _ => {
                let text = format!(
                    "{property}: No such property type; a node has physical-host and hostname"
                );
                return self.fail(&text);
            }
        };
        match value {
            Value::Simple(text) if text.is_empty() || is_host_name(&text) => *field = text,
            _ => {
                let text = format!(
                    "{property}: expected letters, digits, '-', '_' and '.', a letter or digit first"
                );
                self.fail(&text);
            }
        }
    }

    /// Adds the node to the list. Returns false if it is incomplete.
    fn end_node(&mut self, open: &mut Open<C>) -> bool {
        let node = &mut open.node;
        for (property, value) in [
            ("physical-host", &node.physical_host),
            ("hostname", &node.hostname),
        ] {
            if value.is_empty() {
                self.fail(&format!("{property} not specified"));
                return false;
            }
        }
        let taken = self.nodes.iter().enumerate();
        let mut taken = taken.filter(|(place, _)| Some(*place) != open.place);
        if taken.any(|(_, other)| other.physical_host == node.physical_host) {
            let text = format!(
                "physical-host {}: another node is on it",
                node.physical_host
            );
            self.fail(&text);
            return false;
        }
        node.config = config_of(&mut open.session);
        match open.place {
            Some(place) => self.nodes[place] = node.clone(),
            None => self.nodes.push(node.clone()),
        }
        true
    }
}

/// Returns the configuration of a session, or an empty one if nothing is stored or set.
fn config_of<C: Console>(session: &mut Inner<NoTemplates, C>) -> model::Config {
    let changed = session.context(&[]).config.cloned();
    let stored = session.backing().stored.clone();
    let name = session
        .backing()
        .stored
        .as_ref()
        .map(|config| config.name().clone());
    changed
        .or(stored)
        .unwrap_or_else(|| model::Config::new(name.unwrap_or_else(ZoneName::global)))
}
