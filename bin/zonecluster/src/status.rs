//! `zonecluster status`: Pacemaker's view of zones beside the states of this host.

use cluster::{Place, View};

use crate::call::{self, Zone};

/// Prints hosts and zones.
pub fn print() -> anyhow::Result<()> {
    cli::output::only_prints();
    let view = call::view()?;
    print!("{}", table(&view, &call::zones()?));
    Ok(())
}

fn table(view: &View, local: &[Zone]) -> String {
    let yes_no = |yes| if yes { "yes" } else { "NO" };
    let mut text = format!(
        "quorum: {}, fencing: {}\n\n{:<20} STATE\n",
        yes_no(view.quorum),
        yes_no(view.fencing),
        "HOST"
    );
    for node in &view.nodes {
        let state = match (node.online, node.standby) {
            (false, _) => "offline",
            (true, true) => "evacuated",
            (true, false) => "online",
        };
        text += &format!("{:<20} {state}\n", node.name);
    }
    for guest in &view.guests {
        let state = if guest.online { "online" } else { "offline" };
        text += &format!("{:<20} {state}, guest: zone {}\n", guest.name, guest.zone);
    }
    text += &format!("\n{:<20} {:<20} HERE\n", "ZONE", "RUNS ON");
    for place in &view.zones {
        let here = local.iter().find(|zone| zone.name == place.zone);
        let here = here.map_or("not configured", |zone| zone.state.as_str());
        text += &format!("{:<20} {:<20} {here}\n", place.zone, runs_on(place));
    }
    text
}

fn runs_on(place: &Place) -> String {
    let mut text = match place.hosts.as_slice() {
        [] => "-".to_owned(),
        [host] => host.clone(),
        more => format!("{}: FAULT, runs twice", more.join(" ")),
    };
    if place.role != "Started" {
        text += &format!(" ({})", place.role.to_lowercase());
    }
    if place.failed {
        text += " (failed)";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(zone: &str, role: &str, hosts: &[&str]) -> Place {
        Place {
            zone: zone.into(),
            role: role.into(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            failed: false,
        }
    }

    #[test]
    fn joins_both_views() {
        let view = View {
            quorum: true,
            zones: vec![
                place("web", "Started", &["host2"]),
                place("db", "Stopped", &[]),
            ],
            guests: vec![cluster::GuestNode {
                name: "gweb".into(),
                zone: "web".into(),
                online: true,
            }],
            ..View::default()
        };
        let local = [Zone {
            name: "web".into(),
            state: "installed".into(),
            path: "/zones/web".into(),
        }];
        let text = table(&view, &local);
        assert!(text.contains("quorum: yes, fencing: NO"), "{text}");
        assert!(
            text.contains("web                  host2                installed"),
            "{text}"
        );
        assert!(
            text.contains("gweb                 online, guest: zone web"),
            "{text}"
        );
        assert!(
            text.contains("db                   - (stopped)          not configured"),
            "{text}"
        );
    }

    #[test]
    fn a_zone_on_two_hosts_is_a_fault() {
        assert!(runs_on(&place("web", "Started", &["a", "b"])).contains("FAULT"));
    }
}
