# fish completion for zonecluster(1). Generated: cargo run -p generate

complete -c zonecluster -f
complete -c zonecluster -s n -d 'add: print, and change nothing'
complete -c zonecluster -s d -x -d 'add: the device of the zonepath'
complete -c zonecluster -s s -x -d 'add: the resource that provides the storage'
complete -c zonecluster -s t -x -d 'add: the type of its file system'
complete -c zonecluster -s o -x -d 'add: options of the mount'
complete -c zonecluster -s p -x -d 'add: the command of the health check'
complete -c zonecluster -s H -x -d 'add: hosts, the preferred first'
complete -c zonecluster -l guest -x -d 'add: the guest node that the zone is'
complete -c zonecluster -l guest-address -x -d 'add: its address'
complete -c zonecluster -l shared-disks -d 'add: a kernel zone whose disks every host has'
complete -c zonecluster -n 'not __fish_seen_subcommand_from add update remove status move evacuate return' -a 'add update remove status move evacuate return'
