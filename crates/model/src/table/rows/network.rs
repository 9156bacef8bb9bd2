//! The table rows of a zone's network links.

use super::{KZ, NOT_KZ, in_info, kept, many, property, required};
use crate::table::spec::{Brands, Effect, PropertySpec, ResourceSpec, Show, Xml};
use crate::table::{Kind, Token};

pub(super) const NET: ResourceSpec = ResourceSpec {
    brands: NOT_KZ,
    live: true,
    xml: "network",
    ..many(
        "net",
        &["address", "allowed-address", "physical"],
        &[
            property(
                "address",
                Kind::Address,
                "The zone's address on this link, with its prefix length (shared IP).",
            ),
            property(
                "allowed-address",
                Kind::Addresses,
                "The addresses that the zone may use on this link (exclusive IP).",
            ),
            PropertySpec {
                default: "true",
                show: Show::WhenSet,
                ..property(
                    "configure-allowed-address",
                    Kind::Bool,
                    "Configures allowed-address at each boot (exclusive IP): true or false.",
                )
            },
            PropertySpec {
                tokens: &[Token::Id],
                ..required("physical", Kind::Link, "The network link of the host.")
            },
            property(
                "defrouter",
                Kind::Router,
                "The default router, an address on the link's network.",
            ),
            kept("global-nic", "The link on which a virtual one is made."),
            PropertySpec {
                effect: Effect::None,
                show: Show::WhenSet,
                ..property(
                    "mac-addr",
                    Kind::Mac,
                    "The Ethernet address of the virtual link.",
                )
            },
            PropertySpec {
                effect: Effect::None,
                show: Show::WhenSet,
                ..property(
                    "vlan-id",
                    Kind::Int { min: 0, max: 4094 },
                    "The VLAN of the virtual link.",
                )
            },
            PropertySpec {
                effect: Effect::None,
                show: Show::WhenSet,
                xml: Xml::Children {
                    element: "net-attr",
                    attribute: "",
                },
                ..property(
                    "property",
                    Kind::Complex(&["name", "value"]),
                    "Named values for the brand: (name=...,value=...).",
                )
            },
        ],
        "An address on a link of the host (shared IP), or a link that moves into the zone (exclusive IP).",
    )
};

pub(super) const PUBLISH: ResourceSpec = ResourceSpec {
    brands: Brands::All,
    live: true,
    xml: "publish",
    ..many(
        "publish",
        &["protocol", "host-address", "host-port"],
        &[
            required(
                "host-port",
                Kind::Ports,
                "The port of the host, or a range of ports such as 8000-8010.",
            ),
            property(
                "zone-port",
                Kind::Ports,
                "The port of the zone, or a range of the same length; by default host-port.",
            ),
            PropertySpec {
                default: "tcp",
                ..property(
                    "protocol",
                    Kind::Enum(&["tcp", "udp"]),
                    "The protocol: tcp or udp.",
                )
            },
            property(
                "host-address",
                Kind::Router,
                "The address of the host that is published; by default all its addresses.",
            ),
        ],
        "Port forwarding: a port of the host that leads to a port of the zone.",
    )
};

pub(super) const ANET: ResourceSpec = ResourceSpec {
    brands: Brands::All,
    live: true,
    xml: "automatic-network",
    ..many(
        "anet",
        &["linkname"],
        &[
            PropertySpec {
                default: "net%{id}",
                tokens: &[Token::Id],
                ..property("linkname", Kind::Link, "The name of the link in the zone.")
            },
            PropertySpec {
                default: "auto",
                ..property(
                    "lower-link",
                    Kind::OneOf(&["auto"], &Kind::Link),
                    "The lower link, a link or bridge of the host; auto chooses one.",
                )
            },
            property(
                "allowed-address",
                Kind::Addresses,
                "The addresses that the zone may use on this link.",
            ),
            PropertySpec {
                default: "true",
                ..property(
                    "configure-allowed-address",
                    Kind::Bool,
                    "Configures allowed-address at each boot: true or false.",
                )
            },
            property(
                "floating-address",
                Kind::Addresses,
                "Further addresses that the zone may use and configures itself, as a cluster does.",
            ),
            property(
                "defrouter",
                Kind::Router,
                "The default router, an address on the link's network.",
            ),
            property(
                "allowed-dhcp-cids",
                Kind::Text,
                "The DHCP client ids that the zone may use, besides that of its Ethernet address.",
            ),
            PropertySpec {
                default: "mac-nospoof",
                ..property(
                    "link-protection",
                    Kind::Words(&[
                        "none",
                        "mac-nospoof",
                        "ip-nospoof",
                        "dhcp-nospoof",
                        "restricted",
                    ]),
                    "The checks on packets that the zone sends: mac-nospoof, ip-nospoof, dhcp-nospoof, restricted.",
                )
            },
            PropertySpec {
                default: "auto",
                ..property(
                    "mac-address",
                    Kind::OneOf(&["auto", "random", "factory", "default"], &Kind::Mac),
                    "The Ethernet address: auto (the same at each boot), random, or a given one.",
                )
            },
            in_info(kept(
                "mac-prefix",
                "The first bytes of random Ethernet addresses.",
            )),
            in_info(kept("mac-slot", "The slot of a factory Ethernet address.")),
            property(
                "vlan-id",
                Kind::Int { min: 0, max: 4094 },
                "The VLAN on the lower link.",
            ),
            PropertySpec {
                ..property(
                    "priority",
                    Kind::Enum(&["low", "medium", "high"]),
                    "The priority of the link's packets: low, medium or high.",
                )
            },
            in_info(kept("rxrings", "Receive rings of the hardware.")),
            in_info(kept("txrings", "Send rings of the hardware.")),
            property(
                "mtu",
                Kind::Int {
                    min: 68,
                    max: 65_535,
                },
                "The maximum length of packets, in bytes.",
            ),
            property(
                "maxbw",
                Kind::Bandwidth,
                "The maximum bits a second, with K, M or G; without a suffix in M.",
            ),
            PropertySpec {
                // Shares of the bandwidth would need queues on the host's own link.
                effect: Effect::None,
                show: Show::WhenSet,
                ..property(
                    "bwshare",
                    Kind::Int { min: 1, max: 100 },
                    "The link's share of its lower link when that is busy, from 1 to 100.",
                )
            },
            kept("rxfanout", "CPUs that share the work of receiving."),
            kept("vsi-typeid", "The type of an edge virtual bridge."),
            kept("vsi-vers", "The version of an edge virtual bridge."),
            kept("vsi-mgrid", "The manager of an edge virtual bridge."),
            kept("etsbw-lcl", "Bandwidth share of data center bridging."),
            kept("cos", "Class of service of data center bridging."),
            kept("evs", "The elastic virtual switch to connect to."),
            kept("vport", "The port of the elastic virtual switch."),
            kept("iov", "Uses a virtual function of the hardware."),
            kept("lro", "Joins received packets."),
            kept("ring-group", "Hardware rings that are shared."),
            kept("pkey", "The partition of an InfiniBand link."),
            kept("linkmode", "The mode of an InfiniBand link."),
            PropertySpec {
                effect: Effect::None,
                show: Show::WhenSet,
                xml: Xml::Children {
                    element: "mac",
                    attribute: "",
                },
                brands: KZ,
                ..property(
                    "mac",
                    Kind::Complex(&["mac-address"]),
                    "Further Ethernet addresses: (mac-address=...).",
                )
            },
            PropertySpec {
                effect: Effect::None,
                show: Show::WhenSet,
                xml: Xml::Children {
                    element: "vlan",
                    attribute: "",
                },
                brands: KZ,
                ..property(
                    "vlan",
                    Kind::Complex(&["vlan-id"]),
                    "Further VLANs: (vlan-id=...).",
                )
            },
            property(
                "id",
                Kind::Int { min: 0, max: 4095 },
                "The number of the link, the value of %{id}; by default the lowest free one.",
            ),
        ],
        "A network link that exists while the zone is up (exclusive IP).",
    )
};
