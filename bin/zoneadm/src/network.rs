//! `zoneadm network`: shows and repairs the network setup that zones use on the host.

use cli::table::{Column, Table};
use host::flatten;
use subject::network::host_network::{self, HostNetwork, PartState};

use crate::call::Call;
use crate::listing;
use crate::whole_host::{self, Options};

pub fn run(call: &Call) -> u8 {
    whole_host::run(call, "network", "look at the host's network", show)
}

fn show(options: Options) -> Result<u8, String> {
    let look = || host_network::look().map_err(|error| flatten(&error));
    let mut seen = look()?;
    if options.repair && seen.is_damaged() {
        host_network::repair().map_err(|error| flatten(&error))?;
        seen = look()?;
    }
    print!("{}", render(&seen, options.json));
    if options.repair && seen.is_damaged() {
        eprintln!(
            "zoneadm: another program removes or changes the lost parts again: find that program"
        );
    }
    Ok(match seen.is_damaged() {
        true => cli::status::ERROR,
        false => cli::status::OK,
    })
}

fn render(network: &HostNetwork, json: bool) -> String {
    if json {
        return listing::json_object(network);
    }
    if network.links.is_empty() && network.parts.is_empty() {
        return "The host routes for no running zone.\n".to_owned();
    }
    let mut text = String::new();
    if !network.parts.is_empty() {
        let columns = [
            Column::left("STATE", 5),
            Column::left("BEFORE", 6),
            Column::left("HOST", 0),
        ];
        let mut table = Table::new(columns);
        for part in &network.parts {
            let state = match part.state {
                PartState::Set => "set",
                PartState::Lost => "lost",
            };
            let before = part.before.as_deref().unwrap_or("-");
            table.row(vec![state.into(), before.into(), part.part.clone()]);
        }
        text += &table.render();
        text.push('\n');
    }
    let columns = [
        Column::left("ZONE", 16),
        Column::left("LINK", 10),
        Column::left("HOST", 12),
        Column::left("OVER", 24),
        Column::left("ADDRESSES", 24),
        Column::left("PUBLISHED", 9),
        Column::left("ROOT", 0),
    ];
    let mut table = Table::new(columns);
    let or_dash = |text: String| match text.is_empty() {
        true => "-".to_owned(),
        false => text,
    };
    for link in &network.links {
        table.row(vec![
            link.zone.clone(),
            link.link.clone(),
            or_dash(link.host.clone().unwrap_or_default()),
            link.over.clone(),
            or_dash(link.addresses.join(" ")),
            or_dash(link.published.join(" ")),
            link.root.clone(),
        ]);
    }
    text += &table.render();
    for warning in network.firewall.iter().chain(&network.names) {
        text += "\n";
        text += warning;
        text.push('\n');
    }
    // Names of links and chains may have any characters.
    text.replace(|c: char| c.is_control() && c != '\n', "?")
}

#[cfg(test)]
mod tests {
    use subject::network::host_network::{Part, ZoneLink};

    use super::*;

    fn network() -> HostNetwork {
        HostNetwork {
            parts: vec![
                Part {
                    part: "/proc/sys/net/ipv4/conf/eth0/forwarding".into(),
                    state: PartState::Set,
                    before: Some("0".into()),
                },
                Part {
                    part: "table inet zones".into(),
                    state: PartState::Lost,
                    before: None,
                },
            ],
            links: vec![ZoneLink {
                root: "/".into(),
                zone: "web".into(),
                link: "net0".into(),
                host: Some("zone1-0".into()),
                over: "routed by the host".into(),
                addresses: vec!["10.208.0.16/13".into()],
                published: vec!["8080/tcp".into()],
            }],
            firewall: Some("the firewall drops".into()),
            names: Some("zones have no names".into()),
        }
    }

    #[test]
    fn the_report_shows_lost_parts_links_and_published_ports() {
        assert_eq!(
            render(&network(), false),
            "STATE BEFORE HOST\n\
             set   0      /proc/sys/net/ipv4/conf/eth0/forwarding\n\
             lost  -      table inet zones\n\
             \n\
             ZONE             LINK       HOST         OVER                     ADDRESSES                PUBLISHED ROOT\n\
             web              net0       zone1-0      routed by the host       10.208.0.16/13           8080/tcp  /\n\
             \n\
             the firewall drops\n\
             \n\
             zones have no names\n"
        );
        let nothing = render(&HostNetwork::default(), false);
        assert_eq!(nothing, "The host routes for no running zone.\n");
        let json: serde_json::Value = serde_json::from_str(&render(&network(), true)).unwrap();
        assert_eq!(json["parts"][1]["state"], "lost");
        assert_eq!(json["links"][0]["published"][0], "8080/tcp");
    }
}
