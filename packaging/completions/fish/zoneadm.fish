# fish completion for zoneadm(8). Generated: cargo run -p generate

# The zones whose state is among the arguments; all of them without arguments.
function __zoneadm_list
    PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | while read -d : -l id name state more
        if test "$name" != global; and begin
                test (count $argv) -eq 0; or contains -- $state $argv
            end
            printf '%s\t%s\n' $name $state
        end
    end
end

# The states in which a subcommand acts; nothing for one that acts on no zone.
function __zoneadm_states
    switch "$argv[1]"
        case verify; printf 'configured\ninstalled\nready\nrunning\nshutting_down\ndown\nmounted\n'
        case install; printf 'configured\n'
        case clone; printf 'configured\n'
        case uninstall; printf 'incomplete\ninstalled\n'
        case move; printf 'installed\n'
        case detach; printf 'installed\n'
        case attach; printf 'configured\n'
        case export; printf 'installed\nready\nrunning\n'
        case backup; printf 'installed\nready\nrunning\n'
        case migrate; printf 'installed\nready\nrunning\n'
        case ready; printf 'installed\n'
        case boot; printf 'installed\nready\n'
        case reboot; printf 'ready\nrunning\n'
        case shutdown; printf 'running\n'
        case suspend; printf 'running\n'
        case savecore; printf 'running\n'
        case halt; printf 'ready\nrunning\nshutting_down\ndown\n'
        case mount; printf 'installed\n'
        case unmount; printf 'mounted\n'
        case snapshot; printf 'installed\nready\nrunning\n'
        case snapshots; printf 'installed\nready\nrunning\nshutting_down\ndown\nmounted\n'
        case diff; printf 'installed\nready\nrunning\nshutting_down\ndown\nmounted\n'
        case files; printf 'installed\nready\nrunning\nshutting_down\ndown\nmounted\n'
        case rollback; printf 'installed\n'
        case destroy-snapshot; printf 'installed\nready\nrunning\nshutting_down\ndown\nmounted\n'
        case beadm; printf 'installed\nready\nrunning\nmounted\n'
        case storage; printf 'installed\nready\nrunning\nshutting_down\ndown\nmounted\n'
        case merge; printf 'installed\nready\nrunning\n'
        case links; printf 'configured\nincomplete\ninstalled\nready\nrunning\nshutting_down\ndown\nmounted\n'
        case push; printf 'installed\nrunning\n'
        case pull; printf 'installed\nrunning\n'
        case rctl; printf 'configured\nincomplete\ninstalled\nready\nrunning\nshutting_down\ndown\nmounted\n'
        case quota; printf 'installed\nready\nrunning\nshutting_down\ndown\nmounted\n'
        case apply; printf 'running\n'
        case mark; printf 'configured\nincomplete\ninstalled\n'
    end
end

function __zoneadm_all
    printf '%s\t%s\n' help 'Prints the usage of zoneadm, or the help of a subcommand'
    printf '%s\t%s\n' list 'Lists the running zones'
    printf '%s\t%s\n' monitor 'Prints events as they happen, until its reader ends'
    printf '%s\t%s\n' check 'Lists leftovers of killed commands on this host, and objects that no zone, image or snapshot uses'
    printf '%s\t%s\n' network 'Lists the parts of the host\'s network that were made or changed for zones, the links for which the host routes, and their published ports'
    printf '%s\t%s\n' verify 'Checks whether the zone could run on this host; changes nothing'
    printf '%s\t%s\n' install 'Populates the root of a configured zone'
    printf '%s\t%s\n' clone 'Installs a configured zone as a copy of an installed, halted one'
    printf '%s\t%s\n' uninstall 'Removes the zone\'s files'
    printf '%s\t%s\n' move 'Moves the files of a halted zone to another zonepath, and changes the configuration'
    printf '%s\t%s\n' detach 'Makes a halted zone a configured one'
    printf '%s\t%s\n' attach 'Makes a detached zone an installed one, if the packages here are those it needs'
    printf '%s\t%s\n' export 'Writes the zone into one file, a tar archive with zstd'
    printf '%s\t%s\n' import 'Makes a zone from a file of export, and attaches it'
    printf '%s\t%s\n' backup 'Stores the zone in a repository of restic'
    printf '%s\t%s\n' backups 'Lists the backups of the zones, the oldest first; without -z of all zones'
    printf '%s\t%s\n' restore 'Restores a backup, by default the newest'
    printf '%s\t%s\n' migrate 'Moves the zone to another host, over ssh'
    printf '%s\t%s\n' ready 'Sets up the zone\'s virtual platform without starting a process in it'
    printf '%s\t%s\n' boot 'Boots the zone'
    printf '%s\t%s\n' reboot 'Halts the zone and boots it again with the stored configuration'
    printf '%s\t%s\n' shutdown 'Asks the zone\'s init to stop its services, and waits until it has ended'
    printf '%s\t%s\n' suspend 'Saves the memory of a zone with a kernel of its own (brand kz) and ends it; the next boot resumes it'
    printf '%s\t%s\n' savecore 'Writes the memory of a running zone with a kernel of its own (brand kz) into a file below /var/crash for crash(8)'
    printf '%s\t%s\n' halt 'Kills every process of the zone and takes down its platform'
    printf '%s\t%s\n' mount 'Mounts the whole root of a halted zone at <zonepath>/lu'
    printf '%s\t%s\n' unmount 'Unmounts the root that mount has mounted'
    printf '%s\t%s\n' snapshot 'Keeps the present state of the zone\'s root under a name'
    printf '%s\t%s\n' snapshots 'Lists the zone\'s snapshots, the oldest first'
    printf '%s\t%s\n' diff 'Lists the changes between two snapshots or boot environments, or between one and the present root of the zone, which may be running'
    printf '%s\t%s\n' files 'Looks into a snapshot or boot environment, and takes files back'
    printf '%s\t%s\n' rollback 'Returns the root of a halted zone to a snapshot'
    printf '%s\t%s\n' destroy-snapshot 'Removes a snapshot, and the layers that only it uses'
    printf '%s\t%s\n' beadm 'Manages the boot environments of the zone'
    printf '%s\t%s\n' storage 'Shows how the zone\'s root is stored'
    printf '%s\t%s\n' merge 'Merges the layers below the zone\'s root until four are left'
    printf '%s\t%s\n' links 'Lists the zone\'s network links'
    printf '%s\t%s\n' push 'Copies files and folders of the host into the zone, as cp -r does'
    printf '%s\t%s\n' pull 'Copies files and folders of the zone to the host, with the rules of push'
    printf '%s\t%s\n' logs 'Prints the last lines of the messages of zoneadmd, of the zone\'s console, and of the journal of systemd in a running zone; with names, of these sources only'
    printf '%s\t%s\n' rctl 'Lists the zone\'s resource controls'
    printf '%s\t%s\n' quota 'Limits the space of files that the zone writes into its root, or removes the limit'
    printf '%s\t%s\n' apply 'Applies the stored configuration to a running zone'
    printf '%s\t%s\n' mark 'Marks the zone as incomplete; after that only uninstall is allowed'
end

function __zoneadm_suboptions
    switch "$argv[1]"
        case list
            printf '%s\t%s\n' -c 'lists all zones'
            printf '%s\t%s\n' -i 'lists installed zones too'
            printf '%s\t%s\n' -n 'leaves out the global zone'
            printf '%s\t%s\n' -s 'shows auxiliary states'
            printf '%s\t%s\n' -p 'for programs: zoneid:zonename:state:zonepath:uuid:brand:ip-type'
            printf '%s\t%s\n' -v 'in columns'
            printf '%s\t%s\n' -j 'as JSON, with boot time, addresses, limits, snapshots, rights of the caller'
        case monitor
            printf '%s\t%s\n' -j 'a JSON object in each line'
        case check
            printf '%s\t%s\n' -r 'removes them, and completes commands that were killed'
            printf '%s\t%s\n' -j 'as JSON'
        case network
            printf '%s\t%s\n' -r 'restores lost parts'
            printf '%s\t%s\n' -j 'as JSON'
        case install
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' -a 'from an archive'
            printf '%s\t%s\n' -d 'from a directory'
            printf '%s\t%s\n' -i 'on an image'
            printf '%s\t%s\n' -x 'what of the image is taken'
        case clone
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' --create 'configures zones that do not exist like the source'
            printf '%s\t%s\n' -s 'clones a snapshot of the source, which may be running'
            printf '%s\t%s\n' -c 'gives each clone settings for its first boot, as install does'
            printf '%s\t%s\n' -m 'how the files are copied'
        case uninstall
            printf '%s\t%s\n' --delete 'deletes the configuration, too; also takes configured zones'
            printf '%s\t%s\n' --shared-disks 'removes the zonepath of a kernel zone only if no data is in it: all'
            printf '%s\t%s\n' -F 'do not ask'
            printf '%s\t%s\n' -n 'show what would be done'
        case move
            printf '%s\t%s\n' -n 'show what would be done'
        case detach
            printf '%s\t%s\n' -F 'do not ask'
            printf '%s\t%s\n' --lost 'or -F: forgets a zone whose root is not here or that another host owns now;'
            printf '%s\t%s\n' -n 'prints the manifest and changes nothing'
        case attach
            printf '%s\t%s\n' --take-over 'takes the zone from the host that owns it, with -u or without a'
            printf '%s\t%s\n' -F 'does not compare packages; also takes a root that was never detached'
            printf '%s\t%s\n' -u 'updates packages that are too old; downgrades none'
            printf '%s\t%s\n' -U 'updates all packages'
            printf '%s\t%s\n' -a 'the root is in an archive, as zoneadm export makes it'
            printf '%s\t%s\n' -d 'the root is in a directory of this host'
            printf '%s\t%s\n' -n 'only looks at a manifest; - is standard input. No zone is needed.'
        case export
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' --age 'encrypts it with age, for this public key'
            printf '%s\t%s\n' --gpg 'encrypts it with GnuPG, for a key in the keyring of root'
        case import
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' -t 'accepts a configuration that uses file systems, devices or links of'
            printf '%s\t%s\n' -F 'does not compare packages'
            printf '%s\t%s\n' -u 'updates packages that are too old, see attach'
            printf '%s\t%s\n' -U 'updates all packages'
            printf '%s\t%s\n' -i 'the key of a file that is encrypted with age'
        case backup
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' -f 'reads every file again, also those with unchanged size and times'
            printf '%s\t%s\n' -r 'another repository than that of /etc/zones/backup'
            printf '%s\t%s\n' -k 'the file with the key of the repository'
        case backups
            printf '%s\t%s\n' -j 'as JSON'
            printf '%s\t%s\n' --check 'reads and verifies all data of the repository'
            printf '%s\t%s\n' --keep 'removes older backups: the number of backups to keep for each of'
            printf '%s\t%s\n' -n 'prints the backups that --keep would remove'
            printf '%s\t%s\n' -r 'another repository than that of /etc/zones/backup'
            printf '%s\t%s\n' -k 'the file with the key of the repository'
        case restore
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' -s 'a backup of any zone by its id, or the newest of this zone whose'
            printf '%s\t%s\n' -t 'accepts a configuration that uses file systems, devices or links'
            printf '%s\t%s\n' -F 'does not compare packages'
            printf '%s\t%s\n' -u 'updates packages that are too old, see attach'
            printf '%s\t%s\n' -U 'updates all packages'
            printf '%s\t%s\n' -d 'writes the files below this new directory of the host instead'
            printf '%s\t%s\n' -r 'another repository than that of /etc/zones/backup'
            printf '%s\t%s\n' -k 'the file with the key of the repository'
        case migrate
            printf '%s\t%s\n' -n 'asks the other host, and changes nothing'
            printf '%s\t%s\n' -q 'prints errors only'
            printf '%s\t%s\n' -u 'updates a zone that shares its host\'s programs to the other host\'s'
            printf '%s\t%s\n' -t 'the way of a running kernel zone (auto, live or warm)'
            printf '%s\t%s\n' -c 'ciphers for ssh'
            printf '%s\t%s\n' -o 'an option for ssh, as for its own -o'
        case ready
            printf '%s\t%s\n' -n 'show what would be done'
        case boot
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' -w 'an immutable zone is writable until its next boot'
            printf '%s\t%s\n' -W 'an immutable zone is writable until its services have started'
            printf '%s\t%s\n' -- 'options for the zone\'s init'
        case reboot
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' -w 'an immutable zone is writable until its next boot'
            printf '%s\t%s\n' -W 'an immutable zone is writable until its services have started'
            printf '%s\t%s\n' -- 'options for the zone\'s init'
        case shutdown
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' -r 'boots the zone again'
            printf '%s\t%s\n' -- 'options for the zone\'s init'
        case suspend
            printf '%s\t%s\n' -n 'show what would be done'
        case savecore
            printf '%s\t%s\n' -n 'show what would be done'
        case halt
            printf '%s\t%s\n' -n 'show what would be done'
        case mount
            printf '%s\t%s\n' -n 'show what would be done'
        case unmount
            printf '%s\t%s\n' -n 'show what would be done'
        case snapshot
            printf '%s\t%s\n' -n 'show what would be done'
        case snapshots
            printf '%s\t%s\n' -p 'for programs: zonename:snapshot:seconds since 1970:layers:bytes:bytes'
            printf '%s\t%s\n' -j 'as JSON'
            printf '%s\t%s\n' --no-size 'without the sizes, which may have to be found first'
        case diff
            printf '%s\t%s\n' -j 'as JSON, an object for each line'
        case files
            printf '%s\t%s\n' -b 'takes paths in base64, as diff -j prints those that are not UTF-8'
            printf '%s\t%s\n' -j 'as JSON, an object for each line'
            printf '%s\t%s\n' -e 'escapes control characters, as it does on a terminal'
            printf '%s\t%s\n' -k 'keeps files that exist'
            printf '%s\t%s\n' -n 'show what would be done'
        case rollback
            printf '%s\t%s\n' -F 'do not ask'
            printf '%s\t%s\n' -n 'show what would be done'
        case destroy-snapshot
            printf '%s\t%s\n' -n 'show what would be done'
        case beadm
            printf '%s\t%s\n' -H 'for programs: be;;flags;mountpoint;bytes;policy;seconds since 1970'
            printf '%s\t%s\n' -j 'as JSON'
            printf '%s\t%s\n' -a 'activates the new one'
            printf '%s\t%s\n' -e 'copies this one'
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' --now 'reboots a running zone into it'
            printf '%s\t%s\n' -F 'does not ask'
        case storage
            printf '%s\t%s\n' -p 'for programs: zonename:driver:fs:layers:snapshots:bytes:bytes:quota'
            printf '%s\t%s\n' -j 'as JSON'
        case merge
            printf '%s\t%s\n' -n 'show what would be done'
        case links
            printf '%s\t%s\n' -p 'for programs: zonename:link:over:state:host:mac:mtu:received:sent:dropped:addresses'
            printf '%s\t%s\n' -j 'as JSON, with dropped packets by reason'
        case push
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' -a 'keeps the numbers of the owners'
            printf '%s\t%s\n' -o 'gives the copies to this user of the zone'
            printf '%s\t%s\n' -S 'keeps set-id bits'
            printf '%s\t%s\n' -r 'with -: a path that is no folder is the new name of the only file'
        case pull
            printf '%s\t%s\n' -n 'show what would be done'
            printf '%s\t%s\n' -a 'keeps the numbers of the owners'
            printf '%s\t%s\n' -S 'keeps set-id bits: programs of the zone may then get rights on the host'
        case logs
            printf '%s\t%s\n' -f 'prints new lines as they come, until Ctrl-C'
            printf '%s\t%s\n' -j 'as JSON, an object for each line'
            printf '%s\t%s\n' -n 'number of lines of each source, by default 20'
        case rctl
            printf '%s\t%s\n' -p 'for programs: zonename:control:privilege:limit:action:effective:used:hits'
            printf '%s\t%s\n' -j 'as JSON'
        case quota
            printf '%s\t%s\n' -n 'show what would be done'
        case apply
            printf '%s\t%s\n' -n 'changes nothing'
            printf '%s\t%s\n' -q 'prints only warnings and errors'
        case mark
            printf '%s\t%s\n' -n 'show what would be done'
    end
end

# Among the words given: the subcommand, nothing when there is none yet.
function __zoneadm_verb
    set -l words $argv[2..-1]
    while set -q words[1]
        switch $words[1]
            case -z -u -R
                set -e words[1]
            case '-*'
            case '*'
                echo $words[1]
                return 0
        end
        set -e words[1]
    end
    return 1
end

# The options that name zones, one word a line.
function __zoneadm_zones_of
    for i in (seq (count $argv))
        contains -- $argv[$i] -z -u; and printf '%s\n' $argv[$i] $argv[(math $i + 1)]
    end
end

# The subcommands that the states of the zones admit.
function __zoneadm_admitted
    set -l states
    set -q argv[1]; and set states (PATH=$PATH:/usr/sbin command zoneadm $argv list -p 2>/dev/null | cut -d: -f3)
    __zoneadm_all | while read -d \t -l verb help
        set -l admits (__zoneadm_states $verb)
        set -l fits no
        if test (count $states) -eq 0 -o (count $admits) -eq 0
            set fits yes
        end
        for state in $states
            contains -- $state $admits; and set fits yes
        end
        test $fits = yes; and printf '%s\t%s\n' $verb $help
    end
end

function __zoneadm_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l verb (__zoneadm_verb $words)
    set -l before $words[-1]
    if test -z "$verb"
        switch $before
            case -z
                # A subcommand behind the cursor says which zones make sense.
                set -l all (commandline -op)
                __zoneadm_list (__zoneadm_states (__zoneadm_verb $all[1..(count $words)] $all[(math (count $words) + 2)..-1]))
            case -u
                PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | cut -d: -f5
            case -R
                __fish_complete_directories $current
            case '*'
                if string match -q -- '-*' $current
                    printf '%s\t%s\n' --progress=json 'progress and errors as lines of JSON'
                    printf '%s\t%s\n' -R 'alternate root'
                    printf '%s\t%s\n' -u 'the zone with this uuid'
                    printf '%s\t%s\n' -z 'zone, glob or range'
                else
                    __zoneadm_admitted (__zoneadm_zones_of $words)
                end
        end
        return
    end
    if string match -q -- '-*' $current
        __zoneadm_suboptions $verb
        return
    end
    switch $verb:$before
        case install:-a
            __fish_complete_path $current
        case install:-d 'move:*'
            __fish_complete_directories $current
        case install:-i
            PATH=$PATH:/usr/sbin command zoneimg list -p 2>/dev/null | cut -d: -f6
        case clone:-m
            echo copy
        case clone:-s
        case 'clone:*'
            __zoneadm_list installed
        case 'diff:*' 'rollback:*' 'destroy-snapshot:*'
            PATH=$PATH:/usr/sbin command zoneadm (__zoneadm_zones_of $words) snapshots -p 2>/dev/null | cut -d: -f2
        case 'mark:*'
            echo incomplete
        case 'help:*'
            __zoneadm_all
    end
end

complete -c zoneadm -f -a '(__zoneadm_candidates)'
