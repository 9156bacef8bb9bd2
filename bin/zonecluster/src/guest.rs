//! The conditions under which a zone becomes a guest node.

use std::path::Path;

use anyhow::{bail, ensure};
use cluster::{Guest, check_guest};

use crate::call;

/// The key that the hosts and pacemaker-remoted in the zone share.
const KEY: &str = "/etc/pacemaker/authkey";

/// Refuses a guest whose root could change the configuration of the hosts.
pub fn ensure_safe(cib: &str, guest: &Guest) -> anyhow::Result<()> {
    let name = &guest.name;
    // Pacemaker asks the host for the groups of the user who has the name of the guest.
    if call::output("getent", &["passwd", name], "")?
        .status
        .success()
    {
        bail!(
            "guest {name}: a user of this host has this name, and the guest would have its rights; use another name"
        );
    }
    let groups = call::run("getent", &["group"])?;
    check_guest(cib, name, &groups_with(&groups, name))??;
    Ok(())
}

/// Returns the groups that have a member, from lines `group:password:id:member,member`.
fn groups_with(listed: &str, member: &str) -> Vec<String> {
    let lines = listed.lines().map(|line| line.split(':'));
    lines
        .filter_map(|mut fields| Some((fields.next()?, fields.nth(2)?)))
        .filter(|(_, members)| members.split(',').any(|one| one == member))
        .map(|(group, _)| group.to_owned())
        .collect()
}

/// Refuses a host without the key of guest nodes.
pub fn ensure_key() -> anyhow::Result<()> {
    ensure!(
        Path::new(KEY).is_file(),
        "{KEY}: no such file: each host and the zone need the same key, which no command copies; see 'Guest nodes' in \
         docs/clusters.md"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_groups_of_a_member() {
        let listed = "root:x:0:\nops:x:900:anna,gweb\nhaclient:x:108:gweb2\n";
        assert_eq!(groups_with(listed, "gweb"), ["ops"]);
        assert!(groups_with(listed, "web").is_empty());
    }
}
