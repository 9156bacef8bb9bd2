use super::*;

use model::table;

/// A host whose link eth0 leads to the internet, with eth1, and a bridge br0 with the port tap0.
#[derive(Default)]
struct Host {
    out: Option<u32>,
}

fn host_link(index: u32, name: &str) -> HostLink {
    HostLink {
        index,
        name: name.to_owned(),
        alias: None,
        kind: (name == "br0").then(|| "bridge".to_owned()),
        mac: None,
        mtu: if name == "lo" { 65_536 } else { 1_500 },
        controller: (name == "tap0").then_some(4),
        peer: None,
        ethernet: name != "lo",
        up: true,
        running: true,
        received: None,
        sent: None,
    }
}

const LINKS: [&str; 5] = ["lo", "eth0", "eth1", "br0", "tap0"];

impl Facts for Host {
    fn link(&self, name: &str) -> io::Result<Option<HostLink>> {
        let found = (1..).zip(LINKS).find(|(_, link)| *link == name);
        Ok(found.map(|(index, name)| host_link(index, name)))
    }

    fn link_at(&self, index: u32) -> io::Result<Option<HostLink>> {
        let found = (1..).zip(LINKS).find(|(number, _)| *number == index);
        Ok(found.map(|(index, name)| host_link(index, name)))
    }

    fn way_out(&self) -> io::Result<Option<Way>> {
        Ok(self.out.map(|link| Way {
            link,
            router: Some("10.0.0.1".parse().unwrap()),
            local: false,
            source: None,
        }))
    }

    fn addresses(&self, link: u32) -> io::Result<Vec<Subnet>> {
        let own = Subnet {
            ip: "10.0.0.9".parse().unwrap(),
            prefix: 24,
        };
        Ok(if link == 2 { vec![own] } else { Vec::new() })
    }
}

type Resources<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)])];

fn planned(ip_type: &str, resources: Resources<'_>, out: Option<u32>) -> Result<Vec<Link>, String> {
    let mut config = Config::new("web1".parse().unwrap());
    config.set("ip-type", ip_type).unwrap();
    for (name, properties) in resources {
        let mut resource = Resource::new(table::resource(name).unwrap());
        for (property, value) in *properties {
            resource.set(property, value).unwrap();
        }
        config.add(resource).unwrap();
    }
    let owner = Owner {
        uuid: None,
        slot: Some(3),
        random: true,
    };
    links(&config, owner, &Host { out }).map_err(|error| error.to_string())
}

fn texts(subnets: &[Subnet]) -> Vec<String> {
    subnets.iter().map(ToString::to_string).collect()
}

#[test]
fn addresses_on_one_physical_are_one_link() {
    let links = planned(
        "shared",
        &[
            ("net", &[("physical", "eth0"), ("address", "10.0.0.2")]),
            (
                "net",
                &[
                    ("physical", "eth0"),
                    ("address", "fd00::2/64"),
                    ("defrouter", "fd00::1"),
                ],
            ),
            ("net", &[("physical", "lo"), ("address", "10.7.0.1/8")]),
        ],
        None,
    )
    .unwrap();
    assert_eq!(links.len(), 2);
    assert_eq!(links[0].name, "eth0");
    // An address without a prefix length gets the prefix length of the host's own address.
    assert_eq!(texts(&links[0].addresses), ["10.0.0.2/24", "fd00::2/64"]);
    assert_eq!(links[0].routers, ["fd00::1".parse::<IpAddr>().unwrap()]);
    assert_eq!(links[0].outside_mtu, Some(1500));
    let sources = links[0].protection.sources.as_deref().unwrap();
    assert_eq!(texts(sources), ["10.0.0.2/32", "fd00::2/128"]);
    assert_eq!(
        (links[1].name.as_str(), links[1].outside_mtu),
        ("net0", None)
    );
}

#[test]
fn a_floating_address_is_allowed_and_not_configured() {
    let link = [
        ("linkname", "net0"),
        ("lower-link", "eth0"),
        ("allowed-address", "10.0.0.2/24"),
        ("floating-address", "10.0.0.9/24,fd00::9/64"),
    ];
    let links = planned("exclusive", &[("anet", &link)], None).unwrap();
    assert_eq!(texts(&links[0].addresses), ["10.0.0.2/24"]);
    let sources = links[0].protection.sources.as_deref().unwrap();
    assert_eq!(
        texts(sources),
        ["10.0.0.2/32", "10.0.0.9/32", "fd00::9/128"]
    );
}

#[test]
fn automatic_links_have_addresses_of_the_slot() {
    let two: Resources<'_> = &[
        ("anet", &[("linkname", "net0"), ("maxbw", "80M")]),
        ("anet", &[("linkname", "net1"), ("mtu", "9000")]),
    ];
    let links = planned("exclusive", two, Some(2)).unwrap();
    assert_eq!(
        texts(&links[0].addresses),
        ["10.208.0.64/13", "fd7a:6f6e:6573::40/64"]
    );
    assert_eq!(
        texts(&links[1].addresses),
        ["10.208.0.65/13", "fd7a:6f6e:6573::41/64"]
    );
    assert_eq!(links[0].rate, Some(10_000_000));
    assert_eq!((links[0].mtu, links[1].mtu), (Some(MAX_MTU), Some(9000)));
    assert_eq!(links[0].outside_mtu, Some(1500));
    assert_ne!(links[0].mac, links[1].mac);
    assert_eq!(links, planned("exclusive", two, Some(2)).unwrap());
    let first = links[0].mac.unwrap().0[0];
    assert_eq!(first & 3, 2, "of one host, and locally administered");
}

#[test]
fn the_lower_link_decides_the_kind_of_link() {
    let allowed = ("allowed-address", "10.0.0.2/24,fd00::2/64");
    let links = planned(
        "exclusive",
        &[
            ("anet", &[("linkname", "a"), ("lower-link", "br0"), allowed]),
            (
                "anet",
                &[("linkname", "b"), ("lower-link", "eth1"), ("vlan-id", "5")],
            ),
            (
                "net",
                &[("physical", "eth0"), allowed, ("defrouter", "10.0.0.1")],
            ),
        ],
        None,
    )
    .unwrap();
    assert_eq!(
        links[0].over,
        Over::Moved {
            nic: "eth0".to_owned()
        }
    );
    assert_eq!(
        links[1].over,
        Over::Port {
            bridge: "br0".to_owned()
        }
    );
    let sources = links[1].protection.sources.as_deref().unwrap();
    assert_eq!(texts(sources), ["10.0.0.2/32", "fd00::2/128"]);
    let wire = Over::Wire {
        lower: "eth1".to_owned(),
        vlan: Some(5),
    };
    assert_eq!((&links[2].over, links[2].mtu), (&wire, Some(1500)));
    assert_eq!(links[2].protection.sources, None);
}

#[test]
fn impossible_links_are_refused_with_the_reason() {
    let cases: &[(&str, Resources<'_>, &str)] = &[
        (
            "shared",
            &[("net", &[("physical", "eth7"), ("address", "10.0.0.2")])],
            "net eth7: the host has no such link",
        ),
        (
            "shared",
            &[("net", &[("physical", "tap0"), ("address", "10.0.0.2")])],
            "net tap0: it belongs to br0: use that",
        ),
        (
            "exclusive",
            &[("net", &[("physical", "eth0")])],
            "net eth0: the host's default route is on it; remove the route, or add attr net-force of type boolean with the value true",
        ),
        (
            "exclusive",
            &[(
                "anet",
                &[("linkname", "a"), ("lower-link", "eth1"), ("mtu", "1501")],
            )],
            "anet a: mtu 1501 is more than the 1500 of its lower link",
        ),
        (
            "exclusive",
            &[("anet", &[("linkname", "a"), ("lower-link", "lo")])],
            "anet a: lower-link lo: is not Ethernet",
        ),
        (
            "exclusive",
            &[(
                "anet",
                &[("linkname", "a"), ("lower-link", "br0"), ("vlan-id", "4")],
            )],
            "anet a: lower-link br0: vlan-id is for links, not for bridges",
        ),
        (
            "exclusive",
            &[(
                "anet",
                &[
                    ("linkname", "a"),
                    ("lower-link", "br0"),
                    ("link-protection", "ip-nospoof"),
                ],
            )],
            "anet a: link-protection ip-nospoof needs allowed-address",
        ),
    ];
    for (ip_type, resources, expected) in cases {
        assert_eq!(planned(ip_type, resources, Some(2)).unwrap_err(), *expected);
    }
}

#[test]
fn networks_hold_their_addresses() {
    let network = |text: &str| {
        let (ip, prefix) = text.split_once('/').unwrap();
        Subnet {
            ip: ip.parse().unwrap(),
            prefix: prefix.parse().unwrap(),
        }
    };
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    assert!(contains(&network("10.0.0.9/24"), ip("10.0.0.200")));
    assert!(!contains(&network("10.0.0.9/24"), ip("10.0.1.1")));
    assert!(contains(&network("0.0.0.0/0"), ip("1.2.3.4")));
    assert!(!contains(&network("::/0"), ip("1.2.3.4")));
    assert!(contains(&network("fd00::1/64"), ip("fd00::ffff")));
    assert!(!contains(&network("fd00::1/128"), ip("fd00::2")));
}
