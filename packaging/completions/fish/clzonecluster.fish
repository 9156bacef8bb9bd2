# fish completion for clzonecluster(1). Generated: cargo run -p generate

complete -c clzonecluster -f
complete -c clzonecluster -s n -x -d 'only on these hosts'
complete -c clzonecluster -s f -r -F -d 'configure, export: the file; move: the zonepath'
complete -c clzonecluster -s p -x -d 'set: a property and its value'
complete -c clzonecluster -s v -d 'show-rev: also corosync and pacemaker'
complete -c clzonecluster -s F -d 'uninstall: do not ask; delete: also without hosts that do not answer'
complete -c clzonecluster -s Z -x -d 'clone: the zone cluster that is installed'
complete -c clzonecluster -s w -d 'boot: writable until the next boot'
complete -c clzonecluster -s W -d 'boot: writable until the zone is set up'
complete -c clzonecluster -s j -d 'status: as JSON'
complete -c clzonecluster -s a -r -F -d 'install: the archive'
complete -c clzonecluster -s d -x -a '(__fish_complete_directories)' -d 'install: the folder; apply: only show the changes'
complete -c clzonecluster -s i -x -d 'install: the image'
complete -c clzonecluster -s x -x -d 'install: an option of the brand'
complete -c clzonecluster -s m -x -a 'copy' -d 'clone: copy the files'
complete -c clzonecluster -l from -x -d 'apply: the host whose configuration all take'
complete -c clzonecluster -n 'not __fish_seen_subcommand_from apply boot clone configure delete export halt install list move ready reboot set show show-rev status uninstall verify' -a 'apply boot clone configure delete export halt install list move ready reboot set show show-rev status uninstall verify'
