# fish completion for fence_zone(1). Generated: cargo run -p generate

complete -c fence_zone -f
complete -c fence_zone -s o -x -a 'off on reboot status list monitor metadata validate-all' -d 'the action'
complete -c fence_zone -s n -x -d 'the host name of the node\'s zone'
complete -c fence_zone -s v -d 'print each request'
