//! The table of subcommands. It is only data: the manual page and the shells'
//! completions are made from it too (tools/generate).

use cli::command::{Program, Subcommand};

/// The program.
pub const PROGRAM: Program = Program {
    name: "zoneimg",
    options: "[-R root] ",
    subcommands: SUBCOMMANDS,
    examples: &[
        "zoneimg import /tmp/debian-12.tar.xz",
        "zoneadm -z web1 install -i debian-12",
        "zoneimg remote add images https://mirror.example.org --keyring /etc/zones/mirror.gpg",
        "zoneadm -z web2 install -i debian/13",
    ],
};

/// Every subcommand, in the order of help.
pub const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "list",
        form: "list [-p | -j]",
        help: "Lists the images: digest, size on disk, number of zones and layers that use it,\n\
               time of the import, and name.\n\
               \t-p  for programs: digest:bytes:users:seconds since 1970:name\n\
               \t-j  as JSON",
        examples: &["zoneimg list"],
    },
    Subcommand {
        name: "import",
        form: "import [-n name] [--digest digest] [--arch name] [--credentials file] source",
        help: "Makes an image and prints its digest. The source is one of\n\
               \ta file              an archive: tar or cpio (newc), plain or with gzip, xz, zstd\n\
               \t                    or bzip2; or squashfs\n\
               \ta directory         a root file system\n\
               \toci:path[:name]     container images in a directory or an archive (also of\n\
               \t                    docker save); the name selects one of several\n\
               \tdocker://host[:port]/name[:tag][@sha256:digest]\n\
               \t                    a registry, over https; http to this machine itself\n\
               \t[remote:]name       an image of a catalogue (see zoneimg help remote), as\n\
               \t                    search shows it; or remote:name[:tag] of a registry\n\
               Device nodes and foreign attributes are left out. An image with the same files\n\
               is not made twice and keeps its name; layers of container images are kept once.\n\
               \t-n name             the name of the image, by default that of its source\n\
               \t--digest digest     refuses other content: SHA-256 of the archive, as its\n\
               \t                    publisher gives it, of the image, as list shows it, of\n\
               \t                    the manifest of a container image, or the fingerprint\n\
               \t                    of an image of a catalogue\n\
               \t--arch name         the kind of machine (arm64), by default that of the host\n\
               \t--credentials file  users and passwords of registries, as Docker and Podman\n\
               \t                    write them; by default /etc/zones/registries.json",
        examples: &[
            "zoneimg import /tmp/debian-12.tar.xz",
            "zoneimg import docker://debian:12",
            "zoneimg import images:debian/13/cloud",
            "zoneimg import -n alpine --digest 1c4b...e2 alpine-minirootfs.tar.gz",
        ],
    },
    Subcommand {
        name: "search",
        form: "search [-j] [pattern]",
        help: "Lists the images of all catalogues whose names contain the pattern: name, remote,\n\
               version, size and fingerprint of the newest version. A catalogue that is older\n\
               than an hour is refreshed first; if its server cannot be reached, the cached one\n\
               is used, and its age printed.\n\
               \t-j  as JSON",
        examples: &["zoneimg search debian"],
    },
    Subcommand {
        name: "refresh",
        form: "refresh [--allow-older] [remote ...]",
        help: "Downloads the catalogues of all remotes, or of these, and checks them.\n\
               \t--allow-older  takes a catalogue that is older than the cached one\n\
               \t               Without this option it is refused, because it may hide an update.",
        examples: &["zoneimg refresh", "zoneimg refresh images"],
    },
    Subcommand {
        name: "remote",
        form: "remote {add [--protocol name] {--keyring file | --tls-only} [--arch name] name url | list [-j] | remove name ...}",
        help: "Adds, lists or removes servers of images. None is configured by default.\n\
               \t--protocol name  simplestreams (the default for https://) or oci (for docker://)\n\
               \t--keyring file   a keyring; catalogues must be signed by one of its keys\n\
               \t--tls-only       trust the certificate of the server alone\n\
               \t                 Whoever controls the server can change images. Registries have\n\
               \t                 no other proof.\n\
               \t--arch name      the architecture of images, by default that of the host\n\
               \t-j               as JSON",
        examples: &[
            "zoneimg remote add images https://mirror.example.org --keyring /etc/zones/mirror.gpg",
            "zoneimg remote add quay docker://registry.example.org/team --tls-only",
            "zoneimg remote list",
        ],
    },
    Subcommand {
        name: "inspect",
        form: "inspect [-j] image",
        help: "Shows all properties of an image, and the zones and layers that use it. An image\n\
               is selected by its digest, six or more of its first digits, or its name.\n\
               \t-j  as JSON",
        examples: &["zoneimg inspect debian-12"],
    },
    Subcommand {
        name: "verify",
        form: "verify image ...",
        help: "Reads images and compares them with their digests.",
        examples: &["zoneimg verify debian-12"],
    },
    Subcommand {
        name: "remove",
        form: "remove [-f] image ...",
        help: "Removes images.\n\
               \t-f  also an image in use: its files are removed with the last zone or snapshot",
        examples: &["zoneimg remove 1c4be2"],
    },
    Subcommand {
        name: "prune",
        form: "prune [-j]",
        help: "Removes images that no zone, snapshot or layer uses, and leftovers of interrupted\n\
               imports and commands.\n\
               \t-j  as JSON",
        examples: &["zoneimg prune"],
    },
];
