# fish completion for zonecfg(8). Generated: cargo run -p generate

function __zonecfg_zones
    PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | while read -d : -l id name state more
        test "$name" != global; and printf '%s\t%s\n' $name $state
    end
end

function __zonecfg_commands
    printf '%s\t%s\n' add 'Begins a new resource; end completes it'
    printf '%s\t%s\n' cancel 'Discards the changes to the resource and returns to the global scope'
    printf '%s\t%s\n' clear 'Resets a property to its default'
    printf '%s\t%s\n' commit 'Verifies the configuration and saves it, or with zonecfg -r changes the running zone'
    printf '%s\t%s\n' create 'Begins a configuration'
    printf '%s\t%s\n' delete 'Deletes the configuration at once'
    printf '%s\t%s\n' end 'Completes the resource'
    printf '%s\t%s\n' exit 'Commits the changes and leaves zonecfg'
    printf '%s\t%s\n' export 'Prints the commands that make this configuration, for zonecfg -f; with -j JSON'
    printf '%s\t%s\n' help 'Prints help'
    printf '%s\t%s\n' info 'Prints the configuration, one property, or the resources that match; with -j as JSON'
    printf '%s\t%s\n' remove 'Removes the resource that matches; without properties, all of the type'
    printf '%s\t%s\n' revert 'Discards all changes since the last commit'
    printf '%s\t%s\n' select 'Opens the resource that matches, to change it until end'
    printf '%s\t%s\n' set 'Sets a property'
    printf '%s\t%s\n' verify 'Checks the configuration and prints all problems'
end
function __zonecfg_scope
    switch "$argv[1]"
        case global
            printf 'add\nclear\ncommit\ncreate\ndelete\nexit\nexport\nhelp\ninfo\nremove\nrevert\nselect\nset\nverify\n'
        case '*'
            printf 'add\ncancel\nclear\ncommit\nend\nexit\nexport\nhelp\ninfo\nremove\nset\nverify\n'
    end
end
function __zonecfg_command_options
    switch "$argv[1]"
        case commit; printf '-n\n-q\n'
        case create; printf '-F\n-b\n-t\n-a\n-X\n'
        case delete; printf '-F\n'
        case exit; printf '-F\n'
        case export; printf '-j\n-f\n'
        case info; printf '-j\n'
        case remove; printf '-F\n'
        case revert; printf '-F\n'
        case set; printf '-F\n'
    end
end
function __zonecfg_resources
    printf '%s\t%s\n' inherit-pkg-dir 'A directory of software that the zone shares with the host, read-only'
    printf '%s\t%s\n' fs 'A file system that is mounted in the zone when it becomes ready'
    printf '%s\t%s\n' net 'An address on a link of the host (shared IP), or a link that moves into the zone (exclusive IP)'
    printf '%s\t%s\n' anet 'A network link that exists while the zone is up (exclusive IP)'
    printf '%s\t%s\n' publish 'Port forwarding'
    printf '%s\t%s\n' device 'Devices of the host that the zone can use; in kz a disk'
    printf '%s\t%s\n' dedicated-cpu 'CPUs that only this zone uses'
    printf '%s\t%s\n' capped-cpu 'A limit on the CPU time of the zone'
    printf '%s\t%s\n' capped-memory 'Limits on the memory of the zone; set at least one'
    printf '%s\t%s\n' virtual-cpu 'The processors of the machine'
    printf '%s\t%s\n' suspend 'The place of the suspended zone\'s image'
    printf '%s\t%s\n' keysource 'The key that protects the image of the suspended zone'
    printf '%s\t%s\n' verified-boot 'Checks of the signatures of loader and kernel'
    printf '%s\t%s\n' rootzpool 'A ZFS pool for the zone\'s root'
    printf '%s\t%s\n' zpool 'A ZFS pool that is imported for the zone'
    printf '%s\t%s\n' npiv 'A virtual Fibre Channel port'
    printf '%s\t%s\n' smf-dependency 'A service of the host that the zone waits for'
    printf '%s\t%s\n' security-flags 'Security flags of the zone\'s processes'
    printf '%s\t%s\n' attr 'A named value, for comments, brands and tools'
    printf '%s\t%s\n' dataset 'A ZFS dataset that the zone administers'
    printf '%s\t%s\n' snapshots 'The schedule of automatic snapshots, and the number that is kept of each period'
    printf '%s\t%s\n' admin 'A user of the host who may administer the zone'
    printf '%s\t%s\n' rctl 'A resource control of the zone'
end
function __zonecfg_templates
    printf 'SUNWdefault\nSUNWblank\nSUNWlx\nSYSdefault\nSYSblank\nSYSlx\nSYSsmall\nSYSsystemd\nSYSsolaris\nSYSsolaris-kz\n'
end

# The properties of the zone (global) or of a resource: all, those that clear takes,
# and those that are lists.
function __zonecfg_properties
    switch "$argv[1]"
        case global; printf 'zonename\nzonepath\nbrand\nautoboot\nautoshutdown\nbootargs\nfile-mac-profile\nlabel\npool\nlimitpriv\nscheduling-class\nip-type\nhostid\ntenant\nfs-allowed\nmax-lwps\nmax-processes\nmax-shm-memory\nmax-shm-ids\nmax-msg-ids\nmax-sem-ids\ncpu-shares\nzfs-io-priority\nboot-priority\ncpu-arch\ndefault-network\ndefault-quota\nglobal-time\n'
        case inherit-pkg-dir; printf 'dir\n'
        case fs; printf 'dir\nspecial\nraw\ntype\noptions\n'
        case net; printf 'address\nallowed-address\nconfigure-allowed-address\nphysical\ndefrouter\nglobal-nic\nmac-addr\nvlan-id\nproperty\n'
        case anet; printf 'linkname\nlower-link\nallowed-address\nconfigure-allowed-address\nfloating-address\ndefrouter\nallowed-dhcp-cids\nlink-protection\nmac-address\nmac-prefix\nmac-slot\nvlan-id\npriority\nrxrings\ntxrings\nmtu\nmaxbw\nbwshare\nrxfanout\nvsi-typeid\nvsi-vers\nvsi-mgrid\netsbw-lcl\ncos\nevs\nvport\niov\nlro\nring-group\npkey\nlinkmode\nmac\nvlan\nid\n'
        case publish; printf 'host-port\nzone-port\nprotocol\nhost-address\n'
        case device; printf 'match\nstorage\nallow-partition\nallow-raw-io\nbootpri\nsize\nid\n'
        case dedicated-cpu; printf 'ncpus\nimportance\ncpus\ncores\nsockets\n'
        case capped-cpu; printf 'ncpus\n'
        case capped-memory; printf 'physical\nswap\nlocked\npagesize-policy\npagesize\n'
        case virtual-cpu; printf 'ncpus\n'
        case suspend; printf 'path\nstorage\n'
        case keysource; printf 'raw\nfile\n'
        case verified-boot; printf 'policy\ncert\n'
        case rootzpool; printf 'storage\n'
        case zpool; printf 'storage\nname\n'
        case npiv; printf 'virtual-port-wwn\nover-hba\nid\n'
        case smf-dependency; printf 'name\nfmri\ngrouping\n'
        case security-flags; printf 'lower\ndefault\nupper\n'
        case attr; printf 'name\ntype\nvalue\n'
        case dataset; printf 'name\nalias\n'
        case snapshots; printf 'frequent\nhourly\ndaily\nweekly\nmonthly\nmax-size\n'
        case admin; printf 'user\nauths\n'
        case rctl; printf 'name\nvalue\n'
    end
end
function __zonecfg_clearable
    switch "$argv[1]"
        case global; printf 'autoboot\nautoshutdown\nbootargs\nfile-mac-profile\nlabel\npool\nlimitpriv\nscheduling-class\nip-type\nhostid\ntenant\nfs-allowed\nmax-lwps\nmax-processes\nmax-shm-memory\nmax-shm-ids\nmax-msg-ids\nmax-sem-ids\ncpu-shares\nzfs-io-priority\nboot-priority\ncpu-arch\ndefault-network\ndefault-quota\nglobal-time\n'
        case fs; printf 'raw\noptions\n'
        case net; printf 'address\nallowed-address\nconfigure-allowed-address\ndefrouter\nglobal-nic\nmac-addr\nvlan-id\nproperty\n'
        case anet; printf 'linkname\nlower-link\nallowed-address\nconfigure-allowed-address\nfloating-address\ndefrouter\nallowed-dhcp-cids\nlink-protection\nmac-address\nmac-prefix\nmac-slot\nvlan-id\npriority\nrxrings\ntxrings\nmtu\nmaxbw\nbwshare\nrxfanout\nvsi-typeid\nvsi-vers\nvsi-mgrid\netsbw-lcl\ncos\nevs\nvport\niov\nlro\nring-group\npkey\nlinkmode\nmac\nvlan\nid\n'
        case publish; printf 'zone-port\nprotocol\nhost-address\n'
        case device; printf 'match\nstorage\nallow-partition\nallow-raw-io\nbootpri\nsize\nid\n'
        case dedicated-cpu; printf 'ncpus\nimportance\ncpus\ncores\nsockets\n'
        case capped-memory; printf 'physical\nswap\nlocked\npagesize-policy\npagesize\n'
        case suspend; printf 'path\nstorage\n'
        case keysource; printf 'raw\nfile\n'
        case verified-boot; printf 'policy\ncert\n'
        case npiv; printf 'virtual-port-wwn\nover-hba\nid\n'
        case smf-dependency; printf 'grouping\n'
        case security-flags; printf 'lower\ndefault\nupper\n'
        case dataset; printf 'alias\n'
        case snapshots; printf 'frequent\nhourly\ndaily\nweekly\nmonthly\nmax-size\n'
    end
end
function __zonecfg_lists
    switch "$argv[1]"
        case fs; printf 'options\n'
        case net; printf 'property\n'
        case anet; printf 'mac\nvlan\n'
        case dedicated-cpu; printf 'cpus\ncores\nsockets\n'
        case verified-boot; printf 'cert\n'
        case rootzpool; printf 'storage\n'
        case zpool; printf 'storage\n'
        case rctl; printf 'value\n'
    end
end
function __zonecfg_values
    switch "$argv[1]"
        case global:brand; printf 'native\nlx\nkz\nsolaris-kz\nsolaris\nipkg\nlipkg\nsparse\n'
        case global:autoboot; printf 'true\nfalse\n'
        case global:autoshutdown; printf 'shutdown\nhalt\nsuspend\n'
        case global:file-mac-profile; printf 'none\nstrict\nfixed-configuration\nflexible-configuration\ndynamic-zones\n'
        case global:ip-type; printf 'shared\nexclusive\n'
        case global:boot-priority; printf 'high\nnormal\nlow\n'
        case global:default-network; printf 'anet\nnone\n'
        case global:default-quota; printf 'none\n'
        case global:global-time; printf 'true\nfalse\n'
        case fs:type; printf 'lofs\ntmpfs\next4\nbtrfs\nxfs\nzfs\n'
        case net:configure-allowed-address; printf 'true\nfalse\n'
        case anet:lower-link; printf 'auto\n'
        case anet:configure-allowed-address; printf 'true\nfalse\n'
        case anet:link-protection; printf 'none\nmac-nospoof\nip-nospoof\ndhcp-nospoof\nrestricted\n'
        case anet:mac-address; printf 'auto\nrandom\nfactory\ndefault\n'
        case anet:priority; printf 'low\nmedium\nhigh\n'
        case publish:protocol; printf 'tcp\nudp\n'
        case device:allow-partition; printf 'true\nfalse\n'
        case device:allow-raw-io; printf 'true\nfalse\n'
        case capped-memory:pagesize-policy; printf 'largest-available\nlargest-only\nsmallest-only\n'
        case verified-boot:policy; printf 'none\nwarning\nenforce\n'
        case attr:type; printf 'int\nuint\nboolean\nstring\n'
        case admin:auths; printf 'login\nmanage\nclonefrom\ncopyfrom\nconfig\nliveconfig\nmigrate\nmigrate.cold\n'
    end
end

function __zonecfg_candidates
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -e words[1]
    while string match -q -- '-*' "$words[1]"
        if contains -- $words[1] -z -u -f -R
            if not set -q words[2]
                switch $words[1]
                    case -z
                        __zonecfg_zones
                    case -u
                        PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | cut -d: -f5
                    case -f
                        __fish_complete_path $current
                    case -R
                        __fish_complete_directories $current
                end
                return
            end
            set -e words[1]
        end
        set -e words[1]
    end
    if not set -q words[1]; and string match -q -- '-*' $current
        printf '%s\t%s\n' -R 'alternate root'
        printf '%s\t%s\n' -z 'zone'
        printf '%s\t%s\n' -u 'the zone with this uuid'
        printf '%s\t%s\n' -r 'the running configuration'
        printf '%s\t%s\n' --atomic 'save all changes or none'
        printf '%s\t%s\n' --expect 'refuse another digest'
        printf '%s\t%s\n' -f 'commands from a file'
        printf '%s\t%s\n' --digest 'print the digest of the configuration'
        return
    end

    # Commands end with ";", in quotes or with a backslash.
    set -l scope global
    set -l command
    for word in $words
        set -l bare (string replace -r ';$' '' -- $word)
        test -n "$bare"; and set -a command $bare
        string match -q -- '*;' $word; or continue
        switch "$command[1]:$scope"
            case add:global select:global
                set scope $command[2]
            case 'end:*' 'cancel:*'
                set scope global
        end
        set command
    end
    if set -q command[1]; and string match -q -- '-*' $current
        __zonecfg_command_options $command[1]
        return
    end
    switch "$command[1]"
        case ''
            set -l names (__zonecfg_scope $scope)
            __zonecfg_commands | while read -d \t -l name help
                contains -- $name $names; and printf '%s\t%s\n' $name $help
            end
        case set
            set -l property (string replace -r '=.*' '' -- $current)
            if test "$property" = "$current"
                printf '%s=\n' (__zonecfg_properties $scope)
            else
                for value in (__zonecfg_values $scope:$property)
                    echo $property=$value
                end
            end
        case clear
            __zonecfg_clearable $scope
        case add remove select info
            if test $scope != global
                __zonecfg_lists $scope
            else if test (count $command) -eq 1
                __zonecfg_resources
                test $command[1] = info; and __zonecfg_properties global
            else if test $command[1] != add
                printf '%s=\n' (__zonecfg_properties $command[2])
            end
        case create
            if test "$command[-1]" = -t
                __zonecfg_templates
                __zonecfg_zones
            else if test "$command[-1]" = -a
                __fish_complete_directories $current
            else
                __zonecfg_command_options create
            end
        case delete exit revert
            __zonecfg_command_options $command[1]
        case export
            if test "$command[-1]" = -f
                __fish_complete_path $current
            else
                __zonecfg_command_options export
            end
        case help
            printf '%s\n' usage commands syntax
            __zonecfg_commands
            __zonecfg_resources
            __zonecfg_properties global
    end
end

complete -c zonecfg -f -a '(__zonecfg_candidates)'
