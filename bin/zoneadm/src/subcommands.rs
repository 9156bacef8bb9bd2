//! The table of subcommands. It is only data: the manual page and the shells'
//! completions are made from it too (tools/generate).

/// A subcommand as help shows it.
pub struct Subcommand {
    pub name: &'static str,
    /// How it is called, behind `zoneadm -z zone`.
    pub form: &'static str,
    pub help: &'static str,
    pub examples: &'static [&'static str],
}

/// Every subcommand, in the order of help.
pub const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "help",
        form: "help [subcommand]",
        help: "Prints usage, or what is known of one subcommand.",
        examples: &["zoneadm help clone"],
    },
    Subcommand {
        name: "list",
        form: "list [-cins] [-p | -v | -j]",
        help: "Lists zones: running ones, or\n\
               \t-i  installed ones too\n\
               \t-c  configured ones too, so all\n\
               \t-n  not the global zone\n\
               \t-s  with auxiliary states\n\
               \t-v  in columns\n\
               \t-p  for programs: zoneid:zonename:state:zonepath:uuid:brand:ip-type\n\
               \t-j  as JSON\n\
               With -z or -u: those zones, whatever their state.",
        examples: &["zoneadm list -cv", "zoneadm -z web1 list -p"],
    },
    Subcommand {
        name: "verify",
        form: "verify",
        help: "Checks whether the zone could run on this host; changes nothing.",
        examples: &["zoneadm -z web1 verify"],
    },
    Subcommand {
        name: "install",
        form: "install [-n] [brand options]",
        help: "Populates the root of a configured zone. Brand native takes no options.\n\
               Brand lx, and native with a whole root: -a archive.tar[.gz|.xz|.zst|.bz2],\n\
               -d directory, or -i image: its name or digest, see zoneimg. Zones on one\n\
               image share its files until they write.",
        examples: &[
            "zoneadm -z master install",
            "zoneadm -z web1 install -i debian-12",
            "zoneadm -z alpine install -a /tmp/alpine.tar.gz",
        ],
    },
    Subcommand {
        name: "clone",
        form: "clone [-n] [--create] [-s snapshot] [-m copy] source",
        help: "Installs a configured zone as a copy of an installed, halted one. Nothing is\n\
               copied: both share the source's files until they write.\n\
               \t--create  configures zones that do not exist like the source\n\
               \t-s name   clones a snapshot of the source, which may be running",
        examples: &[
            "zoneadm -z web1 clone master",
            "zoneadm -z web1 clone -s golden master",
            "zoneadm -z 'web[1-50]' clone --create master",
        ],
    },
    Subcommand {
        name: "uninstall",
        form: "uninstall [-F] [-n]",
        help: "Removes the zone's files. Asks first, unless -F is given.",
        examples: &["zoneadm -z web1 uninstall -F"],
    },
    Subcommand {
        name: "ready",
        form: "ready [-n]",
        help: "Makes the zone's virtual platform and starts no process in it.",
        examples: &["zoneadm -z web1 ready"],
    },
    Subcommand {
        name: "boot",
        form: "boot [-n] [-- boot_options]",
        help: "Boots the zone. Boot options go to its init:\n\
               \t-i path  another init, a path in the zone\n\
               \t-s       single-user\n\
               \t-m text  passed on to init",
        examples: &[
            "zoneadm -z web1 boot",
            "zoneadm -z 'web*' boot",
            "zoneadm -z web1 boot -- -i /bin/sh",
        ],
    },
    Subcommand {
        name: "reboot",
        form: "reboot [-n] [-- boot_options]",
        help: "Halts the zone and boots it again, with its configuration read anew.",
        examples: &["zoneadm -z web1 reboot"],
    },
    Subcommand {
        name: "shutdown",
        form: "shutdown [-n] [-r [-- boot_options]]",
        help: "Lets the zone's init stop everything in order, and waits for it.\n\
               \t-r  boots the zone again",
        examples: &["zoneadm -z web1 shutdown", "zoneadm -z web1 shutdown -r"],
    },
    Subcommand {
        name: "halt",
        form: "halt [-n]",
        help: "Ends every process of the zone at once and takes its platform down.",
        examples: &["zoneadm -z web1 halt"],
    },
    Subcommand {
        name: "mount",
        form: "mount [-n]",
        help: "Shows the whole root of a halted zone at <zonepath>/lu.",
        examples: &["zoneadm -z web1 mount"],
    },
    Subcommand {
        name: "unmount",
        form: "unmount [-n]",
        help: "Takes away what mount shows.",
        examples: &["zoneadm -z web1 unmount"],
    },
    Subcommand {
        name: "snapshot",
        form: "snapshot [-n] name",
        help: "Keeps the zone's root as it is now under a name. Of a halted zone nothing is\n\
               copied. A running zone stands still while what it has written is copied: a\n\
               moment on btrfs and xfs, as long as a copy takes on ext4. What it then finds\n\
               is what it would find after a power cut.",
        examples: &[
            "zoneadm -z web1 snapshot before-upgrade",
            "zoneadm -z 'web*' snapshot monday",
        ],
    },
    Subcommand {
        name: "snapshots",
        form: "snapshots [-p | -j]",
        help: "Lists the zone's snapshots, the oldest first: when each was made, on how many\n\
               layers it stands, what removing it would free, and what is in all its layers.\n\
               \t-p  for programs: zonename:snapshot:seconds since 1970:layers:bytes:bytes\n\
               \t-j  as JSON",
        examples: &[
            "zoneadm -z web1 snapshots",
            "zoneadm -z 'web*' snapshots -j",
        ],
    },
    Subcommand {
        name: "rollback",
        form: "rollback [-F] [-n] name",
        help: "Takes the root of a halted zone back to a snapshot. What was written since is\n\
               lost, so it asks first, unless -F is given. All snapshots stay.",
        examples: &["zoneadm -z web1 rollback -F before-upgrade"],
    },
    Subcommand {
        name: "destroy-snapshot",
        form: "destroy-snapshot [-n] name",
        help: "Removes a snapshot, and layers that nothing else needs.",
        examples: &["zoneadm -z web1 destroy-snapshot before-upgrade"],
    },
    Subcommand {
        name: "storage",
        form: "storage [-p | -j]",
        help: "Says how the zone's root is stored: driver and file system, how many layers and\n\
               snapshots there are, what the zone alone holds, what it shares, and its quota.\n\
               \t-p  for programs: zonename:driver:fs:layers:snapshots:bytes:bytes:quota\n\
               \t-j  as JSON",
        examples: &["zoneadm -z 'web*' storage"],
    },
    Subcommand {
        name: "quota",
        form: "quota [-n] size | none",
        help: "Limits what the zone may write into its root, or lifts the limit. Layers do\n\
               not count. On btrfs with quotas enabled; elsewhere it says why not.",
        examples: &["zoneadm -z web1 quota 10G", "zoneadm -z web1 quota none"],
    },
    Subcommand {
        name: "apply",
        form: "apply [-n] [-q]",
        help: "Changes a running zone to what is configured: resource controls, file systems,\n\
               devices. Tells what is changed now, and what needs a reboot. When something\n\
               fails, all of it is taken back.\n\
               \t-n  changes nothing\n\
               \t-q  tells only warnings and errors",
        examples: &["zoneadm -z web1 apply -n", "zoneadm -z web1 apply"],
    },
    Subcommand {
        name: "mark",
        form: "mark [-n] incomplete",
        help: "Says by hand that the zone is incomplete: only uninstall then helps.",
        examples: &["zoneadm -z web1 mark incomplete"],
    },
];
