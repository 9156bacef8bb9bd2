//! Finds the configuration of the network in the files of ifupdown, systemd, NetworkManager and
//! netplan.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::args::Target;
use crate::report::{Finding, Section};
use crate::system::{System, base};

/// An interface with its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Addresses with their prefix lengths.
    pub addresses: Vec<String>,
    /// The default routers.
    pub routers: Vec<String>,
    /// True if the interface requests its address from a server (DHCP).
    pub dynamic: bool,
    /// The kind of the interface if it is no plain interface: vlan, bond, bridge, ...
    pub kind: Option<String>,
}

/// The interfaces by name.
pub type Interfaces = BTreeMap<String, Interface>;

/// Returns every configured interface except the loopback interface.
pub fn interfaces(system: &System) -> Interfaces {
    let mut found = Interfaces::new();
    let mut files = vec!["etc/network/interfaces".to_owned()];
    files.extend(system.paths("etc/network/interfaces.d", ""));
    for file in files {
        ifupdown(&mut found, &system.lines(&file));
    }
    for file in system.paths("etc/systemd/network", ".network") {
        networkd(&mut found, &system.lines(&file));
    }
    for file in system.paths("etc/systemd/network", ".netdev") {
        netdev(&mut found, &system.lines(&file));
    }
    for file in system.paths("etc/NetworkManager/system-connections", ".nmconnection") {
        let name = base(&file).trim_end_matches(".nmconnection").to_owned();
        network_manager(&mut found, &name, &system.lines(&file));
    }
    for file in system.paths("etc/netplan", ".yaml") {
        netplan(&mut found, &system.read(&file));
    }
    found.retain(|name, _| name != "lo");
    found
}

/// Returns findings for the lines of netplan's files that may configure the network and cannot be
/// parsed here.
pub fn unread(system: &System) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in system.paths("etc/netplan", ".yaml") {
        let lines = netplan(&mut Interfaces::new(), &system.read(&file));
        findings.extend(lines.into_iter().map(|line| {
            Finding::new(
                format!("/{file}:{line}"),
                "this form of YAML is not read: set the property of this line with zonecfg",
            )
        }));
    }
    findings
}

/// Returns the report sections about the network.
pub fn check(system: &System, target: Target) -> Vec<Section> {
    let advice = |kind: &str| match kind {
        "wifi" => "wireless networks are joined by the host".to_owned(),
        kind => format!("a {kind}: make it on the host, and give it to the zone as lower-link"),
    };
    let found = interfaces(system);
    let findings = found.iter().filter_map(|(name, interface)| {
        let kind = interface.kind.as_deref()?;
        Some(Finding::new(name, advice(kind)))
    });
    let made = Section::new(
        "network",
        "The following interfaces are made by the system. A zone gets its links made:",
        findings.collect(),
    );
    let dynamic = match target {
        Target::S10 => found.iter().filter(|(_, one)| one.dynamic).collect(),
        Target::S11 => Vec::new(),
    };
    let dynamic = dynamic.into_iter().map(|(name, _)| {
        Finding::new(
            name,
            "give the zone a fixed address (address of its net resource), or ip-type=exclusive (-T S11)",
        )
    });
    let dhcp = Section::new(
        "dhcp",
        "The following interfaces get their addresses from a server. A zone with ip-type=shared cannot ask one:",
        dynamic.collect(),
    );
    let unread = Section::new(
        "network-files",
        "The following lines of network configuration were not read:",
        unread(system),
    );
    vec![made, dhcp, unread]
}

/// Returns an address in the form that zonecfg accepts; `None` if the text is no address.
fn address(text: &str, prefix: Option<&str>) -> Option<String> {
    let (ip, own) = text
        .split_once('/')
        .map_or((text, None), |(ip, own)| (ip, Some(own)));
    let ip: IpAddr = ip.parse().ok()?;
    let whole = if ip.is_ipv4() { 32 } else { 128 };
    let length = match own.or(prefix) {
        None => whole,
        Some(mask) => match mask.parse::<IpAddr>() {
            Ok(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
            _ => mask.parse().ok().filter(|length| *length <= whole)?,
        },
    };
    Some(format!("{ip}/{length}"))
}

fn router(text: &str) -> Option<String> {
    text.parse::<IpAddr>().ok().map(|ip| ip.to_string())
}

/// Parses interfaces(5).
fn ifupdown(found: &mut Interfaces, lines: &[String]) {
    let mut current: Option<String> = None;
    let mut mask = None;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["iface", name, .., method] => {
                // eth0:1 is a further address of eth0.
                let name = name.split(':').next().unwrap_or(name).to_owned();
                found.entry(name.clone()).or_default().dynamic |= matches!(method, "dhcp" | "auto");
                mask = None;
                current = Some(name);
            }
            [
                "auto" | "source" | "mapping" | "source-directory" | "no-auto-down",
                ..,
            ] => current = None,
            [key, value, ..] => {
                let Some(interface) = current.as_ref().and_then(|name| found.get_mut(name)) else {
                    continue;
                };
                match key {
                    "address" => interface.addresses.extend(address(value, mask)),
                    "netmask" => {
                        mask = Some(value);
                        // It follows the address as a rule.
                        if let Some(last) = interface.addresses.pop() {
                            let ip = last.split('/').next().unwrap_or_default();
                            interface.addresses.extend(address(ip, mask));
                        }
                    }
                    "gateway" => interface.routers.extend(router(value)),
                    "vlan-raw-device" | "vlan_raw_device" => {
                        interface.kind = Some("vlan".to_owned());
                    }
                    "bond-slaves" | "bond-mode" => interface.kind = Some("bond".to_owned()),
                    "bridge_ports" | "bridge-ports" => interface.kind = Some("bridge".to_owned()),
                    "wpa-ssid" | "wpa-conf" => interface.kind = Some("wifi".to_owned()),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// Returns the key-value pairs of an ini file, each with its section.
fn pairs(lines: &[String]) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut section = "";
    lines.iter().filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            return None;
        }
        let (key, value) = line.split_once('=')?;
        Some((section, key.trim(), value.trim()))
    })
}

/// Parses systemd.network(5).
fn networkd(found: &mut Interfaces, lines: &[String]) {
    let name = pairs(lines).find(|(section, key, _)| (*section, *key) == ("Match", "Name"));
    let Some((_, _, name)) = name else { return };
    let interface = found.entry(name.to_owned()).or_default();
    for (section, key, value) in pairs(lines) {
        match (section, key) {
            ("Network" | "Address", "Address") => interface.addresses.extend(address(value, None)),
            ("Network" | "Route", "Gateway") => interface.routers.extend(router(value)),
            ("Network", "DHCP") => interface.dynamic |= !matches!(value, "no" | "false"),
            _ => {}
        }
    }
}

/// Parses systemd.netdev(5).
fn netdev(found: &mut Interfaces, lines: &[String]) {
    let value = |wanted: &str| {
        pairs(lines).find(|(section, key, _)| (*section, *key) == ("NetDev", wanted))
    };
    if let (Some((_, _, name)), Some((_, _, kind))) = (value("Name"), value("Kind")) {
        found.entry(name.to_owned()).or_default().kind = Some(kind.to_owned());
    }
}

/// Parses a key file of NetworkManager.
fn network_manager(found: &mut Interfaces, file: &str, lines: &[String]) {
    let value = |wanted: &str| {
        let pair =
            pairs(lines).find(|(section, key, _)| (*section, *key) == ("connection", wanted));
        pair.map(|(_, _, value)| value)
    };
    let interface = found
        .entry(value("interface-name").unwrap_or(file).to_owned())
        .or_default();
    if let Some(kind) = value("type").filter(|kind| !kind.ends_with("ethernet")) {
        interface.kind = Some(kind.to_owned());
    }
    for (section, key, value) in pairs(lines) {
        if !matches!(section, "ipv4" | "ipv6") {
            continue;
        }
        let number = key.strip_prefix("address").unwrap_or_default();
        if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) {
            let (first, second) = value.split_once(',').unwrap_or((value, ""));
            interface.addresses.extend(address(first, None));
            interface.routers.extend(router(second));
        } else if key == "gateway" {
            interface.routers.extend(router(value));
        } else if key == "method" {
            interface.dynamic |= value == "auto";
        }
    }
}

/// Keys of an interface in a netplan file that are looked for.
const NETPLAN_KEYS: [&str; 6] = [
    "addresses",
    "routes",
    "gateway4",
    "gateway6",
    "dhcp4",
    "dhcp6",
];

/// Takes the interfaces from a netplan file. Its language is YAML, and this knows the two ways in
/// which people write the few keys that are looked for. Returns the numbers of the lines, from 1,
/// that write them in another way: a mapping or a list that is not closed on one line, an alias.
fn netplan(found: &mut Interfaces, text: &str) -> Vec<usize> {
    let mut unread = Vec::new();
    // Indentation and key of the mappings around the line.
    let mut within: Vec<(usize, String)> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split(" #").next().unwrap_or_default().trim_end();
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let indent = line.len() - content.len();
        let item = content.strip_prefix("- ").map(str::trim_start);
        within.retain(|(outer, _)| *outer < indent || (*outer == indent && item.is_some()));
        let content = item.unwrap_or(content);
        let (key, value) = match content.split_once(':') {
            // An IPv6 address has colons too, but no blank or end behind the first.
            Some((key, rest)) if rest.is_empty() || rest.starts_with(' ') => (key, rest.trim()),
            _ => ("-", content),
        };
        let plain = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
        let concerns = match within.get(3) {
            Some((_, list)) => NETPLAN_KEYS.contains(&list.as_str()),
            None => within.len() < 3 || key == "<<" || NETPLAN_KEYS.contains(&key),
        };
        let is_read = match value {
            "{}" | "[]" => true,
            value if value.starts_with('[') => value.ends_with(']'),
            value => !value.starts_with(['{', '&', '*', '|', '>']),
        };
        if concerns && (!is_read || content.starts_with(['{', '['])) {
            unread.push(number);
            continue;
        }
        if let (Some((_, kind)), Some((_, name))) = (within.get(1), within.get(2)) {
            let interface = found.entry(name.clone()).or_default();
            if let Some(kind) = kind.strip_suffix('s').filter(|kind| *kind != "ethernet") {
                interface.kind = Some(kind.to_owned());
            }
            let list = within.get(3).map(|(_, key)| key.as_str());
            match (list, key) {
                (None, "addresses") => {
                    let inner = value.trim_matches(['[', ']']).split(',').map(plain);
                    interface
                        .addresses
                        .extend(inner.filter_map(|ip| address(&ip, None)));
                }
                (Some("addresses"), "-") => {
                    interface.addresses.extend(address(&plain(value), None));
                }
                (None, "gateway4" | "gateway6") | (Some("routes"), "via") => {
                    interface.routers.extend(router(&plain(value)));
                }
                (None, "dhcp4" | "dhcp6") => {
                    interface.dynamic |= matches!(value, "true" | "yes" | "on");
                }
                _ => {}
            }
        }
        if value.is_empty() && key != "-" {
            within.push((indent, plain(key)));
        }
    }
    unread
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn interface(addresses: &[&str], routers: &[&str]) -> Interface {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Interface {
            addresses: list(addresses),
            routers: list(routers),
            ..Interface::default()
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(
            address("192.0.2.1/24", None).as_deref(),
            Some("192.0.2.1/24")
        );
        assert_eq!(
            address("192.0.2.1", Some("255.255.254.0")).as_deref(),
            Some("192.0.2.1/23")
        );
        assert_eq!(address("192.0.2.1", None).as_deref(), Some("192.0.2.1/32"));
        assert_eq!(
            address("2001:DB8::1", Some("64")).as_deref(),
            Some("2001:db8::1/64")
        );
        for bad in ["", "x", "192.0.2.1/33", "192.0.2.1/x", "host/24"] {
            assert_eq!(address(bad, None), None, "{bad}");
        }
    }

    #[test]
    fn interfaces_of_ifupdown_are_read() {
        let mut found = Interfaces::new();
        let text = "auto lo eth0\niface lo inet loopback\niface eth0 inet static\n address 192.0.2.5\n\
                    netmask 255.255.255.0\n gateway 192.0.2.1\niface eth0 inet6 static\n address 2001:db8::5/64\n\
                    iface eth0.7 inet static\n address 198.51.100.5/25\n vlan-raw-device eth0\niface eth1 inet dhcp\n";
        ifupdown(&mut found, &lines(text));
        assert_eq!(
            found["eth0"],
            interface(&["192.0.2.5/24", "2001:db8::5/64"], &["192.0.2.1"])
        );
        assert_eq!(found["eth0.7"].kind.as_deref(), Some("vlan"));
        assert_eq!(found["eth0.7"].addresses, ["198.51.100.5/25"]);
        assert!(found["eth1"].dynamic && found["eth1"].addresses.is_empty());
    }

    #[test]
    fn interfaces_of_systemd_and_network_manager_are_read() {
        let mut found = Interfaces::new();
        networkd(
            &mut found,
            &lines(
                "[Match]\nName=eth0\n[Network]\nAddress=192.0.2.5/24\nDHCP=no\n[Route]\nGateway=192.0.2.1\n",
            ),
        );
        netdev(&mut found, &lines("[NetDev]\nName=br0\nKind=bridge\n"));
        network_manager(
            &mut found,
            "wired",
            &lines(
                "[connection]\ntype=ethernet\ninterface-name=eth1\n[ipv4]\nmethod=manual\naddress1=192.0.2.6/24,192.0.2.1\n[ipv6]\nmethod=auto\n",
            ),
        );
        network_manager(
            &mut found,
            "home",
            &lines("[connection]\ntype=wifi\n[ipv4]\nmethod=auto\n"),
        );
        assert_eq!(found["eth0"], interface(&["192.0.2.5/24"], &["192.0.2.1"]));
        assert_eq!(found["br0"].kind.as_deref(), Some("bridge"));
        assert_eq!(found["eth1"].addresses, ["192.0.2.6/24"]);
        assert_eq!(found["eth1"].routers, ["192.0.2.1"]);
        assert!(found["eth1"].dynamic && found["home"].dynamic);
        assert_eq!(found["home"].kind.as_deref(), Some("wifi"));
    }

    #[test]
    fn interfaces_of_netplan_are_read() {
        let mut found = Interfaces::new();
        let text = "# made by hand\nnetwork:\n  version: 2\n  ethernets:\n    eth0:\n      addresses: [192.0.2.5/24, \"2001:db8::5/64\"]\n      \
                    gateway4: 192.0.2.1\n    eth1:\n      dhcp4: true\n    eth2:\n      addresses:\n        - 198.51.100.5/25\n        \
                    - 198.51.100.6/25 # second\n      routes:\n        - to: default\n          via: 198.51.100.1\n  bridges:\n    \
                    br0:\n      interfaces: [eth3]\n";
        netplan(&mut found, text);
        assert_eq!(
            found["eth0"],
            interface(&["192.0.2.5/24", "2001:db8::5/64"], &["192.0.2.1"])
        );
        assert!(found["eth1"].dynamic);
        assert_eq!(
            found["eth2"],
            interface(&["198.51.100.5/25", "198.51.100.6/25"], &["198.51.100.1"])
        );
        assert_eq!(found["br0"].kind.as_deref(), Some("bridge"));
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn yaml_that_is_not_read_is_told_by_its_line() {
        for (text, unread) in [
            (
                "network: {version: 2, ethernets: {eth0: {dhcp4: true}}}\n",
                vec![1],
            ),
            ("network:\n  ethernets: {eth0: {dhcp4: true}}\n", vec![2]),
            (
                "network:\n  ethernets:\n    eth0: {dhcp4: true}\n    eth1: {}\n",
                vec![3],
            ),
            (
                "network:\n  ethernets:\n    eth0:\n      addresses: [192.0.2.5/24,\n        192.0.2.6/24]\n",
                vec![4],
            ),
            (
                "network:\n  ethernets:\n    eth0:\n      routes:\n        - {to: default, via: 192.0.2.1}\n",
                vec![5],
            ),
            (
                "network:\n  ethernets:\n    eth0: &all\n      dhcp4: true\n    eth1:\n      <<: *all\n",
                vec![3, 6],
            ),
            // These netplan lines contain no addresses.
            (
                "network:\n  version: 2\n  ethernets:\n    eth0:\n      match: {name: eth0}\n      nameservers: {addresses: [192.0.2.9]}\n      dhcp4: true\n",
                vec![],
            ),
        ] {
            assert_eq!(netplan(&mut Interfaces::new(), text), unread, "{text}");
        }
    }
}
