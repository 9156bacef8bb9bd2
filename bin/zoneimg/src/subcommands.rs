//! The table of subcommands, and the help that is made from it.

/// A subcommand as help shows it.
pub struct Subcommand {
    pub name: &'static str,
    /// How it is called, behind `zoneimg`.
    pub form: &'static str,
    pub help: &'static str,
    pub examples: &'static [&'static str],
}

/// Every subcommand, in the order of help.
pub const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "list",
        form: "list [-p | -j]",
        help: "Lists the images: digest, size on disk, how many zones and layers stand on each,\n\
               when it was imported, and its name.\n\
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
               \toci:path[:name]     container images in a directory or an archive (also what\n\
               \t                    docker save writes); needed only where there are several\n\
               \tdocker://host[:port]/name[:tag][@sha256:digest]\n\
               \t                    a registry, over https; http to this machine itself\n\
               Device nodes and foreign attributes are left out. An image with the same files\n\
               is not made twice and keeps its name; layers of container images are kept once.\n\
               \t-n name             what it is called, by default like its source\n\
               \t--digest digest     refuses anything else: SHA-256 of the archive, as its\n\
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
        help: "Shows all that is known of an image, with the zones and layers on it. An image\n\
               is named by its digest, six or more of its first digits, or its name.\n\
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
               \t-f  also one that is in use: its files go with the last zone or snapshot",
        examples: &["zoneimg remove 1c4be2"],
    },
    Subcommand {
        name: "prune",
        form: "prune [-j]",
        help: "Removes images that nothing stands on, and what imports and commands left that\n\
               were cut off.\n\
               \t-j  as JSON",
        examples: &["zoneimg prune"],
    },
];

/// Finds a subcommand; abbreviations are none.
pub fn find(name: &str) -> Option<&'static Subcommand> {
    SUBCOMMANDS.iter().find(|one| one.name == name)
}

/// What `help`, or `--help` behind a subcommand, prints.
pub fn help(verb: Option<&str>) -> String {
    let Some(one) = verb.and_then(find) else {
        return usage(None);
    };
    let mut text = format!("usage:\tzoneimg {}\n{}\n\nexamples:\n", one.form, one.help);
    for example in one.examples {
        text.push_str(&format!("\t{example}\n"));
    }
    text
}

/// How zoneimg, or one subcommand, is called.
pub fn usage(verb: Option<&str>) -> String {
    if let Some(one) = verb.and_then(find) {
        return format!("usage:\tzoneimg {}\n", one.form);
    }
    let mut text = String::from("usage:\tzoneimg [-R root] <subcommand>\n\nsubcommands:\n");
    text.push_str("\thelp [subcommand]\n");
    for one in SUBCOMMANDS {
        text.push_str(&format!("\t{}\n", one.form));
    }
    text.push_str("\nexamples:\n\tzoneimg import /tmp/debian-12.tar.xz\n");
    text.push_str("\tzoneadm -z web1 install -i debian-12\n");
    text
}
