//! Templates and multilevel ports as text.

use std::fmt::Write as _;

use cli::table::{Column, Table};
use label::Label;
use model::plan::network::{MultilevelPort, Subnet};
use store::Root;
use store::labels;
use store::labels::network::{HostType, Network, Ports, Template, port_text};

fn label_text(label: Option<Label>, root: &Root) -> String {
    match label {
        Some(Label::ADMIN_LOW) => "ADMIN_LOW".to_owned(),
        Some(Label::ADMIN_HIGH) => "ADMIN_HIGH".to_owned(),
        Some(label) => labels::text(root, label),
        None => "not specified".to_owned(),
    }
}

fn hosts(list: &[Subnet]) -> String {
    let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
    texts.join(",")
}

fn ports(list: &[MultilevelPort]) -> String {
    let texts: Vec<String> = list.iter().map(port_text).collect();
    texts.join(",")
}

/// Returns all properties of a template.
pub fn template(one: &Template, root: &Root) -> String {
    let mut text = format!("template: {}\n", one.name);
    let _ = writeln!(text, "\thost_type: {}", one.host_type.as_str());
    for (name, label) in [
        ("def_label", one.def_label),
        ("min_label", one.min_label),
        ("max_label", one.max_label),
    ] {
        let _ = writeln!(text, "\t{name}: {}", label_text(label, root));
    }
    for host in &one.hosts {
        let _ = writeln!(text, "\thost: {host}");
    }
    text
}

/// Returns the label and the multilevel ports of a zone.
pub fn zone(one: &Ports, root: &Root) -> String {
    let mut text = format!("zone: {}\n", one.zone);
    let label = labels::of_zone(root, &one.zone).ok().flatten();
    let _ = writeln!(text, "\tlabel: {}", label_text(label, root));
    let _ = writeln!(text, "\tmlp_private: {}", ports(&one.private));
    let _ = writeln!(text, "\tmlp_shared: {}", ports(&one.shared));
    text
}

/// Returns all properties of all templates and zones.
pub fn all(network: &Network, root: &Root) -> String {
    let templates = network.templates().iter().map(|one| template(one, root));
    let zones = network.zones().iter().map(|one| zone(one, root));
    templates.chain(zones).collect()
}

/// Returns a line for each template and for each zone with multilevel ports.
pub fn list(network: &Network, root: &Root) -> String {
    let mut text = String::new();
    if !network.templates().is_empty() {
        let columns = [
            ("TEMPLATE", 16),
            ("HOST_TYPE", 10),
            ("LABEL", 24),
            ("HOSTS", 0),
        ];
        let mut table = Table::new(columns.map(|(name, least)| Column::left(name, least)));
        for one in network.templates() {
            let label = match one.host_type {
                HostType::Unlabeled => label_text(one.def_label, root),
                HostType::Multilevel => format!(
                    "{} to {}",
                    label_text(one.min_label, root),
                    label_text(one.max_label, root)
                ),
            };
            let kind = one.host_type.as_str().to_owned();
            table.row(vec![one.name.clone(), kind, label, hosts(&one.hosts)]);
        }
        text.push_str(&table.render());
    }
    if !network.zones().is_empty() {
        let columns = [("ZONE", 16), ("MLP_PRIVATE", 24), ("MLP_SHARED", 0)];
        let mut table = Table::new(columns.map(|(name, least)| Column::left(name, least)));
        for one in network.zones() {
            let zone = one.zone.to_string();
            table.row(vec![zone, ports(&one.private), ports(&one.shared)]);
        }
        text.push_str(&table.render());
    }
    text
}

/// Returns commands that make all templates and ports on a host that has none.
pub fn export(network: &Network) -> String {
    let mut text = String::new();
    for one in network.templates() {
        let _ = writeln!(text, "create -t {}", one.name);
        let _ = writeln!(text, "set host_type={}", one.host_type.as_str());
        for (name, label) in [
            ("def_label", one.def_label),
            ("min_label", one.min_label),
            ("max_label", one.max_label),
        ] {
            if let Some(label) = label {
                let _ = writeln!(text, "set {name}={label}");
            }
        }
        for host in &one.hosts {
            let _ = writeln!(text, "add host={host}");
        }
    }
    for one in network.zones() {
        let _ = writeln!(text, "select -z {}", one.zone);
        for (name, list) in [("mlp_private", &one.private), ("mlp_shared", &one.shared)] {
            for port in list {
                let _ = writeln!(text, "add {name}={}", port_text(port));
            }
        }
    }
    text
}
