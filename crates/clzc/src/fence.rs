//! The fence requests of a zone about other nodes of its zone cluster.
//!
//! A request comes from the root of a zone, which may be hostile. The zone is known from the socket on which the
//! request arrived; the request names only an action and the host name of a node.

use crate::config::{Node, ZoneCluster, is_host_name};

/// Actions of a fence agent that need the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceAction {
    /// Checks that requests are answered.
    Monitor,
    /// Lists the other nodes.
    List,
    /// Tells if the zone of a node runs.
    Status,
    /// Halts the zone of a node.
    Off,
    /// Boots the zone of a node.
    On,
    /// Halts the zone of a node, and boots it again.
    Reboot,
}

const ACTIONS: [(&str, FenceAction); 6] = [
    ("monitor", FenceAction::Monitor),
    ("list", FenceAction::List),
    ("status", FenceAction::Status),
    ("off", FenceAction::Off),
    ("on", FenceAction::On),
    ("reboot", FenceAction::Reboot),
];

impl FenceAction {
    /// Returns the action of this name.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        let found = ACTIONS.iter().find(|(name, _)| *name == word);
        found.map(|(_, action)| *action)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = ACTIONS.iter().find(|(_, action)| *action == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns true if the action needs a node.
    #[must_use]
    pub const fn needs_node(self) -> bool {
        !matches!(self, Self::Monitor | Self::List)
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceRequest {
    /// The action.
    pub action: FenceAction,
    /// Host name of the node, for actions that need one.
    pub node: Option<String>,
}

/// The reason why a request is refused. The texts go to the zone: they name no host and no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FenceRefused {
    /// The words are no request.
    #[error(
        "expected monitor, list, or one of status, off, on and reboot with the host name of a node"
    )]
    Words,
    /// The zone is in no zone cluster.
    #[error("this zone is no node of a zone cluster")]
    NoCluster,
    /// The node does not exist.
    #[error("{0}: this zone cluster has no such node")]
    NoNode(String),
    /// A zone asks to fence itself, and would not see the answer.
    #[error("{0}: a node does not fence itself; another node does")]
    Itself(String),
}

impl FenceRequest {
    /// Reads the words of a request.
    ///
    /// # Errors
    /// Fails with [`FenceRefused::Words`] on anything but an action, and a host name if the action needs one.
    pub fn read(words: &[String]) -> Result<Self, FenceRefused> {
        let action = words.first().and_then(|word| FenceAction::read(word));
        let action = action.ok_or(FenceRefused::Words)?;
        let node = match (action.needs_node(), &words[1..]) {
            (false, []) => None,
            (true, [node]) if is_host_name(node) => Some(node.clone()),
            _ => return Err(FenceRefused::Words),
        };
        Ok(Self { action, node })
    }

    /// Returns the words.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let action = self.action.name().to_owned();
        [action].into_iter().chain(self.node.clone()).collect()
    }

    /// Returns the node that the zone on `own` may act on. Returns `None` if the action needs no node.
    ///
    /// # Errors
    /// Fails if the zone cluster has no node on `own`, if it does not have the node, or if the zone names itself.
    pub fn node<'a>(
        &self,
        cluster: &'a ZoneCluster,
        own: &str,
    ) -> Result<Option<&'a Node>, FenceRefused> {
        if cluster.node(own).is_none() {
            return Err(FenceRefused::NoCluster);
        }
        let Some(name) = &self.node else {
            return Ok(None);
        };
        let mut nodes = cluster.nodes.iter();
        let node = nodes.find(|node| node.hostname == *name);
        let node = node.ok_or_else(|| FenceRefused::NoNode(name.clone()))?;
        if node.physical_host == own {
            return Err(FenceRefused::Itself(name.clone()));
        }
        Ok(Some(node))
    }
}

/// Power of a zone, in the words of fence agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// The zone may have processes.
    On,
    /// The zone has no processes.
    Off,
}

impl Power {
    /// Reads the state of a zone from `zoneadm list`; the empty text is a zone that the host does not have. Returns
    /// `None` for states that prove neither.
    #[must_use]
    pub fn of_state(state: &str) -> Option<Self> {
        match state {
            "" | "configured" | "incomplete" | "installed" => Some(Self::Off),
            "ready" | "running" | "mounted" | "shutting_down" | "down" => Some(Self::On),
            _ => None,
        }
    }

    /// Returns the word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        match word {
            "on" => Some(Self::On),
            "off" => Some(Self::Off),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::tests::{THREE, read};

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn request(text: &str) -> FenceRequest {
        FenceRequest::read(&words(text)).unwrap()
    }

    #[test]
    fn a_request_is_an_action_and_a_node() {
        for text in [
            "monitor",
            "list",
            "status pg2",
            "off pg2",
            "on pg-2.x",
            "reboot pg2",
        ] {
            assert_eq!(request(text).words(), words(text));
        }
        for text in [
            "",
            "fly pg2",
            "off",
            "off ",
            "monitor pg2",
            "list x",
            "off pg2 pg3",
            "off -F",
            "off ../pg2",
            "off pg2;reboot",
            "OFF pg2",
            "off .pg2",
            "off pg2 -F",
        ] {
            assert_eq!(
                FenceRequest::read(&words(text)),
                Err(FenceRefused::Words),
                "{text}"
            );
        }
        assert_eq!(FenceRequest::read(&[]), Err(FenceRefused::Words));
    }

    #[test]
    fn a_zone_acts_on_other_nodes_of_its_cluster_only() {
        let cluster = read(THREE);
        let (own, other) = (&cluster.nodes[0], &cluster.nodes[1]);
        let off = |name: &str| FenceRequest {
            action: FenceAction::Off,
            node: Some(name.to_owned()),
        };
        let host = own.physical_host.as_str();
        assert_eq!(off(&other.hostname).node(&cluster, host), Ok(Some(other)));
        assert_eq!(request("list").node(&cluster, host), Ok(None));
        // Neither a host nor a node of another zone cluster.
        for name in [other.physical_host.as_str(), "elsewhere", "global"] {
            let refused = FenceRefused::NoNode(name.to_owned());
            assert_eq!(off(name).node(&cluster, host), Err(refused));
        }
        let refused = FenceRefused::Itself(own.hostname.clone());
        assert_eq!(off(&own.hostname).node(&cluster, host), Err(refused));
        // A zone of the same name on a host that has no node.
        for asked in [off(&other.hostname), request("list")] {
            assert_eq!(
                asked.node(&cluster, "stranger"),
                Err(FenceRefused::NoCluster)
            );
        }
    }

    #[test]
    fn only_states_without_processes_are_off() {
        for state in ["", "configured", "incomplete", "installed"] {
            assert_eq!(Power::of_state(state), Some(Power::Off), "{state}");
        }
        for state in ["ready", "running", "mounted", "shutting_down", "down"] {
            assert_eq!(Power::of_state(state), Some(Power::On), "{state}");
        }
        assert_eq!(Power::of_state("unavailable"), None);
        assert_eq!(Power::of_state("Installed"), None);
    }

    proptest! {
        #[test]
        fn an_accepted_request_reads_back_and_is_safe_for_a_shell(text in "(off|on|status|list|fly)? ?[a-z0-9._;$ -]{0,12}") {
            if let Ok(read) = FenceRequest::read(&words(&text)) {
                prop_assert_eq!(FenceRequest::read(&read.words()), Ok(read.clone()));
                let quoted = crate::quoted(&read.words());
                prop_assert!(!quoted.contains([';', '$', '\'']));
            }
        }
    }
}
