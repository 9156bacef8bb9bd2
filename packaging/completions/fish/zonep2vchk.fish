# fish completion for zonep2vchk(1). Generated: cargo run -p generate

complete -c zonep2vchk -f
complete -c zonep2vchk -s b -d 'basic checks'
complete -c zonep2vchk -s c -d 'commands for zonecfg'
complete -c zonep2vchk -s f -r -F -d 'the configuration of a container'
complete -c zonep2vchk -s j -d 'as JSON'
complete -c zonep2vchk -l json -d 'as JSON'
complete -c zonep2vchk -s P -d 'for programs'
complete -c zonep2vchk -s R -x -a '(__fish_complete_directories)' -d 'the system below this directory'
complete -c zonep2vchk -s S -r -F -d 'programs at the paths in this file'
complete -c zonep2vchk -s s -r -F -d 'programs at this path and below'
complete -c zonep2vchk -s T -x -a 'S10 S11' -d 'zones as there'
complete -c zonep2vchk -s V -d 'the version'
