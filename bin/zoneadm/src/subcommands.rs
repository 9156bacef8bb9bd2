//! The table of subcommands. It is only data: the manual page and the shells'
//! completions are made from it too (tools/generate).

use cli::command::Subcommand;

/// Every subcommand, in the order of help.
pub const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "help",
        form: "help [subcommand]",
        help: "Prints the usage of zoneadm, or the help of a subcommand.",
        examples: &["zoneadm help clone"],
    },
    Subcommand {
        name: "list",
        form: "list [-cins] [-p | -v | -j]",
        help: "Lists the running zones.\n\
               \t-i  lists installed zones too\n\
               \t-c  lists all zones\n\
               \t-n  leaves out the global zone\n\
               \t-s  shows auxiliary states\n\
               \t-v  in columns\n\
               \t-p  for programs: zoneid:zonename:state:zonepath:uuid:brand:ip-type\n\
               \t-j  as JSON, with boot time, addresses, limits, snapshots, rights of the caller\n\
               With -z or -u: lists those zones in any state.",
        examples: &["zoneadm list -cv", "zoneadm -z web1 list -p"],
    },
    Subcommand {
        name: "monitor",
        form: "monitor [-j]",
        help: "Prints events as they happen, until its reader ends: changes of states and of\n\
               configurations, snapshots, limits that a zone reached, and the messages of zones.\n\
               With -z, those of these zones; a pattern also selects zones that do not exist yet.\n\
               Users without root see states and configurations only.\n\
               \t-j  a JSON object in each line",
        examples: &["zoneadm monitor -j", "zoneadm -z 'web*' monitor"],
    },
    Subcommand {
        name: "check",
        form: "check [-r] [-j]",
        help: "Lists leftovers of killed commands on this host, and objects that no zone, image or\n\
               snapshot uses: layers, references, copies, mounts, control groups, records.\n\
               Takes no -z. The exit status is 1 if there are any.\n\
               \t-r  removes them, and completes commands that were killed\n\
               \t-j  as JSON",
        examples: &["zoneadm check", "zoneadm check -r"],
    },
    Subcommand {
        name: "network",
        form: "network [-r] [-j]",
        help: "Lists the parts of the host's network that were made or changed for zones, the links\n\
               for which the host routes, and their published ports. It covers the zones of\n\
               every ZONES_ROOT. Takes no -z. The exit status is 1 if a part is lost.\n\
               \t-r  restores lost parts\n\
               \t-j  as JSON",
        examples: &["zoneadm network", "zoneadm network -r"],
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
        help: "Populates the root of a configured zone. A sparse zone needs no options; a whole\n\
               root of brand native is made by the host's own installer (mmdebstrap, dnf, ...)\n\
               and kept as an image for the next zone.\n\
               -c or -p path: settings for the first boot: a profile of Solaris (XML), a\n\
               directory with user-data for cloud-init, or a directory of files for the root.\n\
               Brand lx, and native with a whole root: -a archive (tar, cpio, squashfs),\n\
               -d directory, or -i image: its name or digest, see zoneimg. Zones from the same\n\
               image share its files until they write. -a oci:path[:name] is a container\n\
               image in a directory or archive, -a docker://host/name[:tag][@digest] one\n\
               in a registry. With container images:\n\
               \t-x image-init        the zone runs the image's command, and ends with it\n\
               \t-x arch=name         the image for this kind of machine\n\
               \t-x credentials=file  users and passwords of registries",
        examples: &[
            "zoneadm -z master install",
            "zoneadm -z web1 install -i debian-12",
            "zoneadm -z web1 install -c /srv/sc_profile.xml",
            "zoneadm -z alpine install -a /tmp/alpine.tar.gz",
            "zoneadm -z db install -x image-init -a docker://postgres:17",
        ],
    },
    Subcommand {
        name: "clone",
        form: "clone [-n] [--create] [-s snapshot] [-c profile] [-m copy] source",
        help: "Installs a configured zone as a copy of an installed, halted one. No data is\n\
               copied: both share the source's files until they write.\n\
               \t--create  configures zones that do not exist like the source\n\
               \t-s name   clones a snapshot of the source, which may be running\n\
               \t-c path   gives each clone settings for its first boot, as install does",
        examples: &[
            "zoneadm -z web1 clone master",
            "zoneadm -z web1 clone -s golden master",
            "zoneadm -z 'web[1-50]' clone --create master",
        ],
    },
    Subcommand {
        name: "uninstall",
        form: "uninstall [--delete | --shared-disks] [-F] [-n]",
        help: "Removes the zone's files. Asks first, unless -F is given.\n\
               \t--delete        deletes the configuration, too; also takes configured zones\n\
               \t--shared-disks  removes the zonepath of a kernel zone only if no data is in it: all\n\
               \t                disks are files elsewhere, and it is not suspended. Does not ask.\n\
               \t                With -F also if a cut-off migration may have brought it elsewhere",
        examples: &[
            "zoneadm -z web1 uninstall -F",
            "zoneadm -z 'web[1-50]' uninstall --delete -F",
        ],
    },
    Subcommand {
        name: "move",
        form: "move [-n] zonepath",
        help: "Moves the files of a halted zone to another zonepath, and changes the configuration.\n\
               The folder must be missing or empty, and the folder above it must exist.\n\
               On the same file system the zonepath is renamed, which takes no time. To another\n\
               file system all files, layers and snapshots are copied, and the old zonepath is\n\
               removed after that. If the command fails, the zone stays where it was.",
        examples: &[
            "zoneadm -z web1 move -n /srv/zones/web1",
            "zoneadm -z web1 move /srv/zones/web1",
        ],
    },
    Subcommand {
        name: "detach",
        form: "detach [-F | --lost] [-n]",
        help: "Makes a halted zone a configured one. Its root stays in the zonepath, with a\n\
               manifest of its configuration and packages.\n\
               \t--lost  or -F: forgets a zone whose root is not here or that another host owns now;\n\
               \t        changes the index only\n\
               \t-n      prints the manifest and changes nothing",
        examples: &[
            "zoneadm -z web1 detach",
            "zoneadm -z web1 detach -n | ssh other zoneadm attach -n -",
        ],
    },
    Subcommand {
        name: "attach",
        form: "attach [--take-over] [-F | -u | -U] [-a archive | -d directory] | attach -n manifest",
        help: "Makes a detached zone an installed one, if the packages here are those it\n\
               needs: all of them for a zone that shares this host's programs, those that\n\
               both have for a whole root of the same release. Lists the mismatches.\n\
               \t-u       updates packages that are too old; downgrades none\n\
               \t-U       updates all packages\n\
               \t-F       does not compare packages; also takes a root that was never detached\n\
               \t--take-over  takes the zone from the host that owns it, with -u or without a\n\
               \t         comparison of packages. Only if that host is off or fenced.\n\
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
        help: "Writes the zone into one file, a tar archive with zstd: the manifest, then the\n\
               root without inherited directories. Exports a snapshot of a running zone.\n\
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
        help: "Makes a zone from a file of export, and attaches it. The zone gets the\n\
               configuration in the file, unless it is configured already.\n\
               \t-t       accepts a configuration that uses file systems, devices or links of\n\
               \t         this host, or more privileges\n\
               \t-F       does not compare packages\n\
               \t-u       updates packages that are too old, see attach\n\
               \t-U       updates all packages\n\
               \t-i file  the key of a file that is encrypted with age",
        examples: &["zoneadm -z web1 import /srv/web1.tar.zst"],
    },
    Subcommand {
        name: "backup",
        form: "backup [-n] [-f] [-r repository] [-k keyfile]",
        help: "Stores the zone in a repository of restic: encrypted, and without data that the\n\
               repository has already. Stores a snapshot of a running zone. The repository is a\n\
               folder or sftp:[user@]host:/path; the first backup makes it, with a new key, and\n\
               notes both in /etc/zones/backup. Leaves out inherited directories and the data of\n\
               fs resources.\n\
               \t-f  reads every file again, also those with unchanged size and times\n\
               \t-r  another repository than that of /etc/zones/backup\n\
               \t-k  the file with the key of the repository",
        examples: &[
            "zoneadm -z web1 backup -r /srv/backup",
            "zoneadm -z 'web*' backup",
        ],
    },
    Subcommand {
        name: "backups",
        form: "backups [-j] [--check | --keep policy [-n]] [-r repository] [-k keyfile]",
        help: "Lists the backups of the zones, the oldest first; without -z of all zones. ADDED is\n\
               the size of the data that the repository did not have before.\n\
               \t-j             as JSON\n\
               \t--check        reads and verifies all data of the repository\n\
               \t--keep policy  removes older backups: the number of backups to keep for each of\n\
               \t               last, hourly, daily, weekly, monthly, yearly\n\
               \t-n             prints the backups that --keep would remove\n\
               \t-r repository  another repository than that of /etc/zones/backup\n\
               \t-k keyfile     the file with the key of the repository",
        examples: &[
            "zoneadm backups",
            "zoneadm backups --keep daily=7,weekly=4",
            "zoneadm backups --check",
        ],
    },
    Subcommand {
        name: "restore",
        form: "restore [-n] [-s backup] [-t] [-F | -u | -U] [-d directory] [-r repository] [-k keyfile] [path ...]",
        help: "Restores a backup, by default the newest. Without paths: the whole zone, as import\n\
               does. If the zone has a root, the backup becomes a new boot environment. With\n\
               paths: these files and directories, into the zone, which may be running.\n\
               \t-s backup      a backup of any zone by its id, or the newest of this zone whose\n\
               \t               time begins so\n\
               \t-t             accepts a configuration that uses file systems, devices or links\n\
               \t               of this host, or more privileges\n\
               \t-F             does not compare packages\n\
               \t-u             updates packages that are too old, see attach\n\
               \t-U             updates all packages\n\
               \t-d directory   writes the files below this new directory of the host instead\n\
               \t-r repository  another repository than that of /etc/zones/backup\n\
               \t-k keyfile     the file with the key of the repository",
        examples: &[
            "zoneadm -z web1 restore /etc/nginx",
            "zoneadm -z web1 restore -s 2026-11-24 -d /tmp/old /srv/data",
            "zoneadm -z web1 restore -s 298e665f",
        ],
    },
    Subcommand {
        name: "migrate",
        form: "migrate [-n] [-q] [-u] [-t type] [-c cipher] [-o option] [user@]host",
        help: "Moves the zone to another host, over ssh: the layers that host lacks, then the\n\
               top while the zone runs, then the changes since, with the zone halted. A zone\n\
               that ran is booted there. A running kernel zone moves while it runs (live) or, if\n\
               that is impossible, is suspended on the way. If the command is cut off, the zone is\n\
               whole on one of the hosts: give the same command again.\n\
               \t-n         asks the other host, and changes nothing\n\
               \t-q         prints errors only\n\
               \t-u         updates a zone that shares its host's programs to the other host's\n\
               \t-t type    the way of a running kernel zone (auto, live or warm)\n\
               \t-c cipher  ciphers for ssh\n\
               \t-o option  an option for ssh, as for its own -o",
        examples: &[
            "zoneadm -z web1 migrate -n root@two",
            "zoneadm -z web1 migrate root@two",
        ],
    },
    Subcommand {
        name: "ready",
        form: "ready [-n]",
        help: "Sets up the zone's virtual platform without starting a process in it.",
        examples: &["zoneadm -z web1 ready"],
    },
    Subcommand {
        name: "boot",
        form: "boot [-n] [-w | -W] [-- boot_options]",
        help: "Boots the zone.\n\
               \t-w       an immutable zone is writable until its next boot\n\
               \t-W       an immutable zone is writable until its services have started\n\
               Boot options go to its init:\n\
               \t-i path  another init, a path in the zone\n\
               \t-s       single-user\n\
               \t-m text  passed on to init\n\
               \t-Z be    boots this boot environment, once: see beadm",
        examples: &[
            "zoneadm -z web1 boot",
            "zoneadm -z 'web*' boot",
            "zoneadm -z web1 boot -- -i /bin/sh",
        ],
    },
    Subcommand {
        name: "reboot",
        form: "reboot [-n] [-w | -W] [-- boot_options]",
        help: "Halts the zone and boots it again with the stored configuration.\n\
               \t-w       an immutable zone is writable until its next boot\n\
               \t-W       an immutable zone is writable until its services have started",
        examples: &["zoneadm -z web1 reboot", "zoneadm -z web1 reboot -w"],
    },
    Subcommand {
        name: "shutdown",
        form: "shutdown [-n] [-r [-- boot_options]]",
        help: "Asks the zone's init to stop its services, and waits until it has ended.\n\
               \t-r  boots the zone again",
        examples: &["zoneadm -z web1 shutdown", "zoneadm -z web1 shutdown -r"],
    },
    Subcommand {
        name: "suspend",
        form: "suspend [-n]",
        help: "Saves the memory of a zone with a kernel of its own (brand kz) and ends it; the\n\
               next boot resumes it. Zones of other brands are refused: use shutdown, and\n\
               snapshot to keep their files.",
        examples: &["zoneadm -z vm1 suspend"],
    },
    Subcommand {
        name: "savecore",
        form: "savecore [-n]",
        help: "Writes the memory of a running zone with a kernel of its own (brand kz) into a file\n\
               below /var/crash for crash(8). The zone is paused meanwhile.",
        examples: &["zoneadm -z vm1 savecore"],
    },
    Subcommand {
        name: "halt",
        form: "halt [-n]",
        help: "Kills every process of the zone and takes down its platform.",
        examples: &["zoneadm -z web1 halt"],
    },
    Subcommand {
        name: "mount",
        form: "mount [-n]",
        help: "Mounts the whole root of a halted zone at <zonepath>/lu.",
        examples: &["zoneadm -z web1 mount"],
    },
    Subcommand {
        name: "unmount",
        form: "unmount [-n]",
        help: "Unmounts the root that mount has mounted.",
        examples: &["zoneadm -z web1 unmount"],
    },
    Subcommand {
        name: "snapshot",
        form: "snapshot [-n] name",
        help: "Keeps the present state of the zone's root under a name. No data of a halted zone\n\
               is copied. Of a running zone, the files that changed since the last snapshot are\n\
               copied; it is paused for the last of them. The snapshot then holds the state\n\
               that a power cut would leave.",
        examples: &[
            "zoneadm -z web1 snapshot before-upgrade",
            "zoneadm -z 'web*' snapshot monday",
        ],
    },
    Subcommand {
        name: "snapshots",
        form: "snapshots [-p | -j] [--no-size]",
        help: "Lists the zone's snapshots, the oldest first: the time, the number of layers, the\n\
               space that removing it would free, and the size of all its layers.\n\
               \t-p  for programs: zonename:snapshot:seconds since 1970:layers:bytes:bytes\n\
               \t-j  as JSON\n\
               \t--no-size  without the sizes, which may have to be found first",
        examples: &[
            "zoneadm -z web1 snapshots",
            "zoneadm -z 'web*' snapshots -j",
        ],
    },
    Subcommand {
        name: "diff",
        form: "diff [-j] snapshot [snapshot]",
        help: "Lists the changes between two snapshots or boot environments, or between one and the\n\
               present root of the zone, which may be running: + added, - removed, M modified\n\
               (content, owner, mode or attributes), R a renamed directory. Times do not count.\n\
               Names are escaped. The exit status is 1 if a file could not be compared.\n\
               \t-j  as JSON, an object for each line",
        examples: &[
            "zoneadm -z web1 diff before-upgrade",
            "zoneadm -z web1 diff -j monday tuesday",
        ],
    },
    Subcommand {
        name: "files",
        form: "files ls [-b] [-j] snapshot path | cat [-b] [-e] snapshot path | restore [-b] [-k] [-n] snapshot path ...",
        help: "Looks into a snapshot or boot environment, and takes files back. ls lists a directory,\n\
               names escaped; cat prints a file; both follow links only inside the snapshot.\n\
               restore writes files and directories to where they were, into the running or\n\
               halted zone, with owners, modes and attributes, as the zone's own root. A file that\n\
               exists is replaced in one step; files that the snapshot lacks stay. Links are not\n\
               followed. Paths are absolute. For backups of restic see restore.\n\
               \t-j  as JSON, an object for each line\n\
               \t-e  escapes control characters, as it does on a terminal\n\
               \t-k  keeps files that exist\n\
               \t-b  takes paths in base64, as diff -j prints those that are not UTF-8",
        examples: &[
            "zoneadm -z web1 files ls monday /etc",
            "zoneadm -z web1 files cat monday /etc/passwd",
            "zoneadm -z web1 files restore monday /etc/nginx /srv/site",
        ],
    },
    Subcommand {
        name: "rollback",
        form: "rollback [-F] [-n] name",
        help: "Returns the root of a halted zone to a snapshot. Files written since are lost,\n\
               so it asks first, unless -F is given. All snapshots stay.",
        examples: &["zoneadm -z web1 rollback -F before-upgrade"],
    },
    Subcommand {
        name: "destroy-snapshot",
        form: "destroy-snapshot [-n] name",
        help: "Removes a snapshot, and the layers that only it uses.",
        examples: &["zoneadm -z web1 destroy-snapshot before-upgrade"],
    },
    Subcommand {
        name: "beadm",
        form: "beadm list [-H | -j] [be] | create [-a] [-e be] [-n] be | activate [--now] [-n] be | mount be [directory] | unmount be | rename [-n] be be | destroy [-F] [-n] be",
        help: "Manages the boot environments of the zone: its snapshots and its present root.\n\
               The list has the flags N, active now, and R, active on reboot.\n\
               create copies the present root, also of a running zone; activate selects the\n\
               boot environment for the next boot; mount mounts one on the host, where it can\n\
               be changed while the zone runs. boot -- -Z be boots one once. Root of a zone\n\
               manages its own, without -z and without mount, also with the command beadm.\n\
               \t-H     for programs: be;;flags;mountpoint;bytes;policy;seconds since 1970\n\
               \t-j     as JSON\n\
               \t-a     activates the new one\n\
               \t-e be  copies this one\n\
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
        help: "Shows how the zone's root is stored: driver and file system, number of layers and\n\
               snapshots, space of the zone alone, shared space, and quota.\n\
               \t-p  for programs: zonename:driver:fs:layers:snapshots:bytes:bytes:quota\n\
               \t-j  as JSON",
        examples: &["zoneadm -z 'web*' storage"],
    },
    Subcommand {
        name: "merge",
        form: "merge [-n]",
        help: "Merges the layers below the zone's root until four are left. Files get another\n\
               name; their content is not copied. A running zone keeps the former layers\n\
               until its next boot. Usually not needed: every command that adds a layer\n\
               merges them before there are more than eight.",
        examples: &["zoneadm -z web1 merge"],
    },
    Subcommand {
        name: "links",
        form: "links [-p | -j]",
        help: "Lists the zone's network links: lower link, addresses, traffic, and the number of\n\
               packets that were dropped because of a false source address.\n\
               Of a zone that is not up: the links that it would have.\n\
               \t-p  for programs: zonename:link:over:state:host:mac:mtu:received:sent:dropped:addresses\n\
               \t-j  as JSON, with dropped packets by reason",
        examples: &["zoneadm -z web1 links", "zoneadm -z 'web*' links -j"],
    },
    Subcommand {
        name: "push",
        form: "push [-n] [-a | -o user[:group]] [-S] [-r] path ... path | - path",
        help: "Copies files and folders of the host into the zone, as cp -r does: into the last\n\
               path if it is a folder, otherwise under that name. path/. is the content of a\n\
               folder. Works in running and in halted zones; paths in the zone are absolute.\n\
               A file that has the name is replaced. - reads a tar stream from standard input.\n\
               Keeps modes, times, links, hard links, holes and attributes user.*; leaves out\n\
               devices, FIFOs and sockets. Root of the zone owns the copies.\n\
               \t-a       keeps the numbers of the owners\n\
               \t-o user  gives the copies to this user of the zone\n\
               \t-S       keeps set-id bits\n\
               \t-r       with -: a path that is no folder is the new name of the only file",
        examples: &[
            "zoneadm -z web1 push site.conf /etc/nginx/conf.d",
            "zoneadm -z web1 push -o www-data /srv/site/. /var/www",
            "tar c site | zoneadm -z web1 push - /srv",
        ],
    },
    Subcommand {
        name: "pull",
        form: "pull [-n] [-a] [-S] path ... path | path ... -",
        help: "Copies files and folders of the zone to the host, with the rules of push. The caller\n\
               owns the copies. - writes a tar stream to standard output, with the numbers that\n\
               the owners have in the zone.\n\
               \t-a  keeps the numbers of the owners\n\
               \t-S  keeps set-id bits: programs of the zone may then get rights on the host",
        examples: &[
            "zoneadm -z web1 pull /var/log/nginx /tmp",
            "zoneadm -z web1 pull /etc /home - | tar t",
        ],
    },
    Subcommand {
        name: "logs",
        form: "logs [-f] [-j] [-n lines] [messages | console | journal ...]",
        help: "Prints the last lines of the messages of zoneadmd, of the zone's console, and of the\n\
               journal of systemd in a running zone; with names, of these sources only.\n\
               Control characters of the zone are left out or escaped.\n\
               \t-f  prints new lines as they come, until Ctrl-C\n\
               \t-j  as JSON, an object for each line\n\
               \t-n  number of lines of each source, by default 20",
        examples: &["zoneadm -z web1 logs", "zoneadm -z 'web*' logs -f messages"],
    },
    Subcommand {
        name: "rctl",
        form: "rctl [-p | -j]",
        help: "Lists the zone's resource controls: the configured limit, the limit in the kernel,\n\
               the use, and how often the zone has reached a limit since it booted.\n\
               \t-p  for programs: zonename:control:privilege:limit:action:effective:used:hits\n\
               \t-j  as JSON",
        examples: &["zoneadm -z web1 rctl", "zoneadm -z 'web*' rctl -j"],
    },
    Subcommand {
        name: "quota",
        form: "quota [-n] size | none",
        help: "Limits the space of files that the zone writes into its root, or removes the\n\
               limit. Layers do not count. Needs ext4 or xfs mounted with prjquota, btrfs with\n\
               quotas enabled, or ZFS. On ext4 and xfs, halt the zone for its first limit.",
        examples: &["zoneadm -z web1 quota 10G", "zoneadm -z web1 quota none"],
    },
    Subcommand {
        name: "apply",
        form: "apply [-n] [-q]",
        help: "Applies the stored configuration to a running zone: resource controls, file\n\
               systems, devices. Lists the changes, and those that need a reboot. If a change\n\
               fails, all are undone.\n\
               \t-n  changes nothing\n\
               \t-q  prints only warnings and errors",
        examples: &["zoneadm -z web1 apply -n", "zoneadm -z web1 apply"],
    },
    Subcommand {
        name: "mark",
        form: "mark [-n] incomplete",
        help: "Marks the zone as incomplete; after that only uninstall is allowed.",
        examples: &["zoneadm -z web1 mark incomplete"],
    },
];
