//! The table of subcommands. It is only data: the manual page and the shells'
//! completions are made from it too (tools/generate).

use cli::command::Subcommand;

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
        name: "check",
        form: "check [-r] [-j]",
        help: "Shows what commands that were killed left on this host, and what no zone, image or\n\
               snapshot refers to: layers, references, copies, mounts, control groups, records.\n\
               It takes no zone. The status is 1 if something is left.\n\
               \t-r  removes it, and completes what was cut off\n\
               \t-j  as JSON",
        examples: &["zoneadm check", "zoneadm check -r"],
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
        help: "Populates the root of a configured zone. A sparse one takes no options; a whole\n\
               root of brand native is made by the host's own installer (mmdebstrap, dnf, ...)\n\
               and kept as an image for the next zone. -c or -p directory: files that are laid\n\
               over the zone's own.\n\
               Brand lx, and native with a whole root: -a archive (tar, cpio, squashfs),\n\
               -d directory, or -i image: its name or digest, see zoneimg. Zones on one\n\
               image share its files until they write. -a oci:path[:name] is a container\n\
               image in a directory or archive, -a docker://host/name[:tag][@digest] one\n\
               in a registry. With images:\n\
               \t-x image-init        the zone runs what the image runs, and ends with it\n\
               \t-x arch=name         the image for this kind of machine\n\
               \t-x credentials=file  users and passwords of registries",
        examples: &[
            "zoneadm -z master install",
            "zoneadm -z web1 install -i debian-12",
            "zoneadm -z alpine install -a /tmp/alpine.tar.gz",
            "zoneadm -z db install -x image-init -a docker://postgres:17",
        ],
    },
    Subcommand {
        name: "clone",
        form: "clone [-n] [--create] [-s snapshot] [-c profile] [-m copy] source",
        help: "Installs a configured zone as a copy of an installed, halted one. Nothing is\n\
               copied: both share the source's files until they write.\n\
               \t--create  configures zones that do not exist like the source\n\
               \t-s name   clones a snapshot of the source, which may be running\n\
               \t-c dir    gives each clone the files in a directory of the host",
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
        name: "detach",
        form: "detach [-F] [-n]",
        help: "Makes a halted zone a configured one whose root stays in the zonepath, with a\n\
               manifest: its configuration, and which packages it has.\n\
               \t-F  forgets a zone whose root is not here, as another host has its storage now\n\
               \t-n  prints the manifest and changes nothing",
        examples: &[
            "zoneadm -z web1 detach",
            "zoneadm -z web1 detach -n | ssh other zoneadm attach -n -",
        ],
    },
    Subcommand {
        name: "attach",
        form: "attach [-F | -u | -U] [-a archive | -d directory] | attach -n manifest",
        help: "Makes a detached zone an installed one, if the packages here are those it\n\
               needs: all of them for a zone that shares this host's programs, those that\n\
               both have for a whole root of the same release. Says what does not match.\n\
               \t-u       updates what must be; nothing goes back to an older version\n\
               \t-U       updates all that can be\n\
               \t-F       without a look at packages\n\
               \t-a file  the root is in an archive, as zoneadm export makes it\n\
               \t-d dir   the root is in a directory of this host\n\
               \t-n file  only looks at a manifest; - is standard input. No zone is needed.",
        examples: &[
            "zonecfg -z web1 create -a /zones/web1",
            "zoneadm -z web1 attach -u",
            "zoneadm attach -n /mnt/web1/SUNWdetached.xml",
        ],
    },
    Subcommand {
        name: "export",
        form: "export [-n] [--age recipient | --gpg recipient] file | -",
        help: "Writes the zone into one file: a tar archive with zstd, its manifest first, then\n\
               its root without what it inherits. Of a running zone a snapshot is exported.\n\
               \t--age key  encrypts it with age, for this public key\n\
               \t--gpg key  encrypts it with GnuPG, for a key in the keyring of root\n\
               - is standard output.",
        examples: &[
            "zoneadm -z web1 export /srv/web1.tar.zst",
            "zoneadm -z web1 export - | ssh other 'cat >web1.tar.zst'",
        ],
    },
    Subcommand {
        name: "import",
        form: "import [-n] [-t] [-F | -u | -U] [-i identity] file",
        help: "Makes a zone of a file that export wrote, and attaches it. The zone is configured\n\
               as the file says, unless it is configured already.\n\
               \t-t       also if that configuration reaches into this host: file systems and\n\
               \t         devices of it, its links, more privileges\n\
               \t-F       without a look at packages\n\
               \t-u       updates what must be, see attach\n\
               \t-U       updates all that can be\n\
               \t-i file  the key of a file that is encrypted with age",
        examples: &["zoneadm -z web1 import /srv/web1.tar.zst"],
    },
    Subcommand {
        name: "migrate",
        form: "migrate [-n] [-q] [-u] [-t type] [-c cipher] [-o option] [user@]host",
        help: "Takes the zone to another host, over ssh: the layers that host lacks, then the\n\
               top while the zone runs, then what has changed since, with the zone halted.\n\
               A zone that ran runs there afterwards. A kernel zone that runs goes while it runs\n\
               (live), or, where that cannot be, is suspended on the way. Cut off anywhere, it is\n\
               whole on one side: give the same command again.\n\
               \t-n         asks the other host, and changes nothing\n\
               \t-q         tells errors only\n\
               \t-u         lets a zone that shares its host's programs follow the other host\n\
               \t-t type    how a kernel zone goes that runs (auto, live or warm)\n\
               \t-c cipher  ciphers for ssh\n\
               \t-o option  an option for ssh, as behind its own -o",
        examples: &[
            "zoneadm -z web1 migrate -n root@two",
            "zoneadm -z web1 migrate root@two",
        ],
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
               \t-m text  passed on to init\n\
               \t-Z be    this boot environment, once: see beadm",
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
        name: "suspend",
        form: "suspend [-n]",
        help: "Keeps the memory of a zone with a kernel of its own (brand kz) and ends it; the\n\
               next boot goes on from there. Zones of other brands are refused: stop them with\n\
               shutdown, keep their files with snapshot.",
        examples: &["zoneadm -z vm1 suspend"],
    },
    Subcommand {
        name: "savecore",
        form: "savecore [-n]",
        help: "Writes the memory of a running zone with a kernel of its own (brand kz) into a file\n\
               below /var/crash, which crash(8) reads. The zone stands still meanwhile.",
        examples: &["zoneadm -z vm1 savecore"],
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
        name: "beadm",
        form: "beadm list [-H | -j] [be] | create [-a] [-e be] [-n] be | activate [--now] [-n] be | mount be [directory] | unmount be | rename [-n] be be | destroy [-F] [-n] be",
        help: "Sees to the boot environments of the zone: its snapshots, and the root that it\n\
               has now. The list has the flags N, active now, and R, active on reboot.\n\
               create makes one of the root as it is now, also of a running zone; activate has\n\
               the next boot take one; mount shows one on the host, to be written into while\n\
               the zone runs. boot -- -Z be boots one once. Root of a zone has them of its own,\n\
               without -z and without mount, also where this program is called beadm.\n\
               \t-H     for programs: be;;flags;mountpoint;bytes;policy;seconds since 1970\n\
               \t-j     as JSON\n\
               \t-a     activates the new one\n\
               \t-e be  makes it of another one\n\
               \t--now  reboots a running zone into it\n\
               \t-F     does not ask",
        examples: &[
            "zoneadm -z web1 beadm create before-upgrade",
            "zoneadm -z web1 beadm activate --now before-upgrade",
            "zoneadm -z web1 beadm list",
        ],
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
        name: "merge",
        form: "merge [-n]",
        help: "Merges the layers below the zone's root until four are left. Files get one more\n\
               name, nothing in them is copied or changed. A running zone goes on with the\n\
               former layers: its next boot takes the merged ones. This needs no thought:\n\
               what adds a layer merges before there are more than eight.",
        examples: &["zoneadm -z web1 merge"],
    },
    Subcommand {
        name: "links",
        form: "links [-p | -j]",
        help: "Lists the zone's network links: what each is made on, its addresses, what went\n\
               over it, and how many packets were dropped because they pretended to be others'.\n\
               Of a zone that is not up: the links that it would have.\n\
               \t-p  for programs: zonename:link:over:state:host:mac:mtu:received:sent:dropped:addresses\n\
               \t-j  as JSON, with what was dropped by reason",
        examples: &["zoneadm -z web1 links", "zoneadm -z 'web*' links -j"],
    },
    Subcommand {
        name: "rctl",
        form: "rctl [-p | -j]",
        help: "Lists the zone's resource controls: what is configured, what the kernel says that\n\
               holds, what is used, and how often the zone ran into a limit since it booted.\n\
               \t-p  for programs: zonename:control:privilege:limit:action:effective:used:hits\n\
               \t-j  as JSON",
        examples: &["zoneadm -z web1 rctl", "zoneadm -z 'web*' rctl -j"],
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
