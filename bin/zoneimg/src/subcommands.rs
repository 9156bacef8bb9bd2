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
               Device nodes and foreign attributes are left out. An image with the same files\n\
               is not made twice and keeps its name; layers of container images are kept once.\n\
               \t-n name             the name of the image, by default that of its source\n\
               \t--digest digest     refuses other content: SHA-256 of the archive, as its\n\
               \t                    publisher gives it, of the image, as list shows it, or of\n\
               \t                    the manifest of a container image\n\
               \t--arch name         the kind of machine (arm64), by default that of the host\n\
               \t--credentials file  users and passwords of registries, as Docker and Podman\n\
               \t                    write them; by default /etc/zones/registries.json",
        examples: &[
            "zoneimg import /tmp/debian-12.tar.xz",
            "zoneimg import docker://debian:12",
            "zoneimg import -n alpine --digest 1c4b...e2 alpine-minirootfs.tar.gz",
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
