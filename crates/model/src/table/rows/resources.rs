//! The resource types, in the order of `info`.

use super::{alias, kept, many, property, required, single};
use crate::brands::Family;
use crate::table::{Brands, Effect, Kind, PropertySpec, ResourceSpec, Show, Token, Unit, Xml};

/// Elements of the zones DTD that say nothing about a configuration: what was
/// installed in a detached zone, and a remnant of old releases.
pub static IGNORED_ELEMENTS: &[&str] = &["deleted-device", "package", "patch", "dev-perm"];

const KZ: Brands = Brands::Only(&[Family::Kz]);
const NOT_KZ: Brands = Brands::Only(&[Family::Native, Family::Lx]);
const ALL_TOKENS: &[Token] = &[Token::ZoneName, Token::Id, Token::RootPool];

const AUTHS: &[&str] = &[
    "login",
    "manage",
    "clonefrom",
    "copyfrom",
    "config",
    "liveconfig",
    "migrate",
    "migrate.cold",
];

const fn storage(help: &'static str) -> PropertySpec {
    PropertySpec {
        xml: Xml::Children {
            element: "storage",
            attribute: "uri",
        },
        tokens: ALL_TOKENS,
        ..required("storage", Kind::List, help)
    }
}

/// The resource types.
pub static RESOURCES: &[ResourceSpec] = &[
    ResourceSpec {
        fixed: true,
        brands: Brands::Only(&[Family::Native]),
        xml: "inherited-pkg-dir",
        ..many(
            "inherit-pkg-dir",
            &["dir"],
            &[PropertySpec {
                xml: Xml::Attribute("directory"),
                ..required(
                    "dir",
                    Kind::Path,
                    "The directory of the host that the zone shares, read-only.",
                )
            }],
            "A directory of software that the zone shares with the host, read-only.",
        )
    },
    ResourceSpec {
        live: true,
        brands: NOT_KZ,
        xml: "filesystem",
        ..many(
            "fs",
            &["dir"],
            &[
                PropertySpec {
                    xml: Xml::Attribute("directory"),
                    tokens: &[Token::ZoneName],
                    ..required("dir", Kind::Path, "The mount point in the zone.")
                },
                required(
                    "special",
                    Kind::Text,
                    "What to mount: a host directory for lofs, a device for others.",
                ),
                PropertySpec {
                    effect: Effect::None,
                    ..property(
                        "raw",
                        Kind::Path,
                        "The raw device to check before the mount.",
                    )
                },
                required(
                    "type",
                    Kind::FsType,
                    "The file system type, such as lofs, tmpfs or ext4.",
                ),
                PropertySpec {
                    xml: Xml::Children {
                        element: "fsoption",
                        attribute: "name",
                    },
                    ..property("options", Kind::List, "Mount options, as a list.")
                },
            ],
            "A file system that is mounted in the zone when it becomes ready.",
        )
    },
    ResourceSpec {
        brands: NOT_KZ,
        effect: Effect::NotYet,
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
                        "Whether allowed-address is configured at each boot: true or false.",
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
                    ..property(
                        "mac-addr",
                        Kind::Mac,
                        "The Ethernet address of the virtual link.",
                    )
                },
                PropertySpec {
                    effect: Effect::None,
                    ..property(
                        "vlan-id",
                        Kind::Int { min: 0, max: 4094 },
                        "The VLAN of the virtual link.",
                    )
                },
                PropertySpec {
                    effect: Effect::None,
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
    },
    ResourceSpec {
        brands: Brands::All,
        effect: Effect::NotYet,
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
                        "The link or bridge of the host that it is made on; auto chooses.",
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
                        "Whether allowed-address is configured at each boot: true or false.",
                    )
                },
                property(
                    "defrouter",
                    Kind::Router,
                    "The default router, an address on the link's network.",
                ),
                property(
                    "allowed-dhcp-cids",
                    Kind::Text,
                    "The DHCP client ids that the zone may use.",
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
                        "What the zone cannot pretend: mac-nospoof, ip-nospoof, dhcp-nospoof, restricted.",
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
                kept(
                    "mac-prefix",
                    "The first bytes of random Ethernet addresses.",
                ),
                kept("mac-slot", "The slot of a factory Ethernet address."),
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
                kept("rxrings", "Receive rings of the hardware."),
                kept("txrings", "Send rings of the hardware."),
                property(
                    "mtu",
                    Kind::Int {
                        min: 68,
                        max: 65_535,
                    },
                    "The longest packet in bytes.",
                ),
                property(
                    "maxbw",
                    Kind::Bandwidth,
                    "Most bits a second, with K, M or G; M when none is given.",
                ),
                property(
                    "bwshare",
                    Kind::Int { min: 1, max: 100 },
                    "The link's share of its lower link when that is busy, from 1 to 100.",
                ),
                kept("rxfanout", "CPUs that share the work of receiving."),
                kept("vsi-typeid", "The type of an edge virtual bridge."),
                kept("vsi-vers", "The version of an edge virtual bridge."),
                kept("vsi-mgrid", "The manager of an edge virtual bridge."),
                kept("etsbw-lcl", "Bandwidth share of data center bridging."),
                kept("cos", "Class of service of data center bridging."),
                kept("evs", "The elastic virtual switch to connect to."),
                kept("vport", "The port of the elastic virtual switch."),
                kept("iov", "Whether a virtual function of the hardware is used."),
                kept("lro", "Whether received packets are joined."),
                kept("ring-group", "Hardware rings that are shared."),
                kept("pkey", "The partition of an InfiniBand link."),
                kept("linkmode", "The mode of an InfiniBand link."),
                PropertySpec {
                    effect: Effect::None,
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
                    "The number of the link, which %{id} stands for; the lowest free one by default.",
                ),
            ],
            "A network link that exists while the zone is up (exclusive IP).",
        )
    },
    ResourceSpec {
        live: true,
        ..many(
            "device",
            &["match", "storage", "id"],
            &[
                PropertySpec {
                    tokens: ALL_TOKENS,
                    ..property(
                        "match",
                        Kind::Text,
                        "The devices of the host to show in the zone: a path, *, ? and [...] match.",
                    )
                },
                PropertySpec {
                    tokens: ALL_TOKENS,
                    brands: KZ,
                    ..property(
                        "storage",
                        Kind::Text,
                        "The disk of the zone, a storage URI.",
                    )
                },
                PropertySpec {
                    default: "false",
                    effect: Effect::None,
                    ..property(
                        "allow-partition",
                        Kind::Bool,
                        "Whether the zone may partition the disk: true or false.",
                    )
                },
                PropertySpec {
                    default: "false",
                    effect: Effect::None,
                    ..property(
                        "allow-raw-io",
                        Kind::Bool,
                        "Whether the zone may send commands to the disk: true or false.",
                    )
                },
                PropertySpec {
                    brands: KZ,
                    ..property(
                        "bootpri",
                        Kind::Int { min: 0, max: 4095 },
                        "The place of the disk in the boot order.",
                    )
                },
                PropertySpec {
                    brands: KZ,
                    ..property(
                        "id",
                        Kind::Int { min: 0, max: 4095 },
                        "The number of the disk, which %{id} stands for; the lowest free one by default.",
                    )
                },
            ],
            "Devices of the host that the zone can use; in kz a disk.",
        )
    },
    ResourceSpec {
        live: true,
        brands: Brands::AndGlobal,
        xml: "pset",
        ..single(
            "dedicated-cpu",
            &[
                PropertySpec {
                    xml: Xml::Range {
                        min: "ncpu_min",
                        max: "ncpu_max",
                    },
                    ..property(
                        "ncpus",
                        Kind::CpuRange,
                        "How many CPUs, or a range such as 1-4.",
                    )
                },
                PropertySpec {
                    show: Show::WhenSet,
                    xml: Xml::Sibling {
                        element: "tmp_pool",
                        attribute: "importance",
                    },
                    ..property(
                        "importance",
                        Kind::Int {
                            min: 0,
                            max: u32::MAX as u64,
                        },
                        "Who comes first when CPUs are short; the higher wins.",
                    )
                },
                PropertySpec {
                    show: Show::WhenSet,
                    xml: Xml::Children {
                        element: "cpu",
                        attribute: "id",
                    },
                    ..property(
                        "cpus",
                        Kind::List,
                        "Which CPUs, as a list of numbers and ranges.",
                    )
                },
                PropertySpec {
                    show: Show::WhenSet,
                    xml: Xml::Children {
                        element: "core",
                        attribute: "id",
                    },
                    ..property(
                        "cores",
                        Kind::List,
                        "Which cores, as a list of numbers and ranges.",
                    )
                },
                PropertySpec {
                    show: Show::WhenSet,
                    xml: Xml::Children {
                        element: "socket",
                        attribute: "id",
                    },
                    ..property(
                        "sockets",
                        Kind::List,
                        "Which sockets, as a list of numbers and ranges.",
                    )
                },
            ],
            "CPUs for the zone alone. Not with pool, capped-cpu and cpu-shares.",
        )
    },
    ResourceSpec {
        live: true,
        brands: Brands::Only(&[Family::Native, Family::Lx, Family::Global]),
        delegable: true,
        xml: "",
        ..single(
            "capped-cpu",
            &[PropertySpec {
                required: true,
                clearable: false,
                ..alias(
                    "ncpus",
                    Kind::Cpus,
                    "zone.cpu-cap",
                    "deny",
                    Unit::Cpus,
                    "How many CPUs' time the zone may use: 1.5 is one and a half.",
                )
            }],
            "A limit on the CPU time of the zone.",
        )
    },
    ResourceSpec {
        live: true,
        brands: Brands::AndGlobal,
        delegable: true,
        xml: "mcap",
        ..single(
            "capped-memory",
            &[
                PropertySpec {
                    live: true,
                    xml: Xml::Attribute("physcap"),
                    ..property(
                        "physical",
                        Kind::Size,
                        "Most memory in bytes, or with K, M, G or T; in kz the memory of the machine.",
                    )
                },
                alias(
                    "swap",
                    Kind::Size,
                    "zone.max-swap",
                    "deny",
                    Unit::Bytes,
                    "Most virtual memory, physical memory and swap together.",
                ),
                alias(
                    "locked",
                    Kind::Size,
                    "zone.max-locked-memory",
                    "deny",
                    Unit::Bytes,
                    "Most memory that cannot be swapped out.",
                ),
                PropertySpec {
                    brands: KZ,
                    ..kept(
                        "pagesize-policy",
                        "Which page sizes the machine's memory has.",
                    )
                },
                PropertySpec {
                    brands: KZ,
                    ..kept("pagesize", "The page size of the machine's memory.")
                },
            ],
            "Limits on the memory of the zone; at least one.",
        )
    },
    ResourceSpec {
        brands: KZ,
        effect: Effect::NotYet,
        ..single(
            "virtual-cpu",
            &[required(
                "ncpus",
                Kind::CpuRange,
                "How many processors the machine has.",
            )],
            "The processors of the machine.",
        )
    },
    ResourceSpec {
        brands: KZ,
        effect: Effect::NotYet,
        ..single(
            "suspend",
            &[
                PropertySpec {
                    tokens: &[Token::ZoneName],
                    ..property("path", Kind::Path, "The file of the suspended machine.")
                },
                PropertySpec {
                    tokens: ALL_TOKENS,
                    ..property("storage", Kind::Text, "The same as a storage URI.")
                },
            ],
            "Where a suspended zone is kept: path or storage.",
        )
    },
    ResourceSpec {
        brands: KZ,
        effect: Effect::NotYet,
        ..single(
            "keysource",
            &[required("raw", Kind::Text, "The key, in base64.")],
            "The key that protects the zone's data on the host.",
        )
    },
    ResourceSpec {
        brands: KZ,
        effect: Effect::NotYet,
        ..single(
            "verified-boot",
            &[
                PropertySpec {
                    default: "warning",
                    ..property(
                        "policy",
                        Kind::Enum(&["none", "warning", "enforce"]),
                        "What happens with an unsigned kernel: none, warning or enforce.",
                    )
                },
                PropertySpec {
                    xml: Xml::Children {
                        element: "cert",
                        attribute: "uri",
                    },
                    ..property("cert", Kind::List, "Certificates that are trusted.")
                },
            ],
            "Whether what boots must be signed.",
        )
    },
    ResourceSpec {
        effect: Effect::NotYet,
        ..single(
            "rootzpool",
            &[storage("Where the pool lies: storage URIs.")],
            "A ZFS pool for the zone's root.",
        )
    },
    ResourceSpec {
        effect: Effect::NotYet,
        ..many(
            "zpool",
            &["name"],
            &[
                storage("Where the pool lies: storage URIs."),
                required("name", Kind::Dataset, "The name of the pool in the zone."),
            ],
            "A ZFS pool that is imported for the zone.",
        )
    },
    ResourceSpec {
        effect: Effect::None,
        ..many(
            "npiv",
            &["virtual-port-wwn"],
            &[
                property(
                    "virtual-port-wwn",
                    Kind::Text,
                    "The name of the Fibre Channel port.",
                ),
                property("over-hba", Kind::Text, "The adapter of the port."),
                property(
                    "id",
                    Kind::Int { min: 0, max: 4095 },
                    "The number of the port.",
                ),
            ],
            "A virtual Fibre Channel port.",
        )
    },
    ResourceSpec {
        effect: Effect::None,
        ..many(
            "smf-dependency",
            &["name"],
            &[
                required("name", Kind::Text, "The name of the dependency."),
                required("fmri", Kind::Text, "The service that must be up."),
                property("grouping", Kind::Text, "How several services count."),
            ],
            "A service of the host that the zone waits for.",
        )
    },
    ResourceSpec {
        effect: Effect::None,
        ..single(
            "security-flags",
            &[
                property("lower", Kind::Text, "Flags that every process has."),
                property("default", Kind::Text, "Flags that processes start with."),
                property("upper", Kind::Text, "Flags that processes can have."),
            ],
            "Security flags of the zone's processes.",
        )
    },
    ResourceSpec {
        delegable: true,
        ..many(
            "attr",
            &["name"],
            &[
                required("name", Kind::AttrName, "The name of the attribute."),
                required(
                    "type",
                    Kind::Enum(&["int", "uint", "boolean", "string"]),
                    "The type of its value: int, uint, boolean or string.",
                ),
                required("value", Kind::Text, "Its value."),
            ],
            "A named value, for comments, brands and tools.",
        )
    },
    ResourceSpec {
        brands: NOT_KZ,
        ..many(
            "dataset",
            &["name"],
            &[
                PropertySpec {
                    tokens: &[Token::ZoneName],
                    ..required("name", Kind::Dataset, "The ZFS dataset.")
                },
                PropertySpec {
                    show: Show::WhenSet,
                    effect: Effect::NotYet,
                    ..property("alias", Kind::Dataset, "The name of its pool in the zone.")
                },
            ],
            "A ZFS dataset that the zone administers.",
        )
    },
    many(
        "admin",
        &["user"],
        &[
            required("user", Kind::User, "A user of the host."),
            required(
                "auths",
                Kind::Words(AUTHS),
                "What the user may do: login, manage, clonefrom, copyfrom, config, liveconfig, migrate.",
            ),
        ],
        "A user of the host who may administer the zone.",
    ),
    ResourceSpec {
        live: true,
        delegable: true,
        brands: Brands::AndGlobal,
        ..many(
            "rctl",
            &["name"],
            &[
                required("name", Kind::RctlName, "The resource control, zone.<name>."),
                PropertySpec {
                    live: true,
                    xml: Xml::Children {
                        element: "rctl-value",
                        attribute: "",
                    },
                    ..required(
                        "value",
                        Kind::Complex(&["priv", "limit", "action"]),
                        "Its values: (priv=privileged,limit=<number>,action=none|deny).",
                    )
                },
            ],
            "A resource control of the zone.",
        )
    },
];
