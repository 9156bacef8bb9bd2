# fish completion for zps(1). Generated: cargo run -p generate

# The zones whose state is among the arguments; all of them without arguments.
function __zps_list
    PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | while read -d : -l id name state more
        if test "$name" != global; and begin
                test (count $argv) -eq 0; or contains -- $state $argv
            end
            printf '%s\t%s\n' $name $state
        end
    end
end

complete -c zps -f
complete -c zps -s A -d 'all processes (the default)'
complete -c zps -s e -d 'all processes (the default)'
complete -c zps -s f -d 'more columns'
complete -c zps -s j -d 'as JSON'
complete -c zps -l json -d 'as JSON'
complete -c zps -s M -d 'the label of the zone'
complete -c zps -s o -x -d 'these columns'
complete -c zps -s p -x -d 'these processes'
complete -c zps -s R -x -a '(__fish_complete_directories)' -d 'alternate root'
complete -c zps -s w -d 'lines as long as they are'
complete -c zps -s Z -d 'the zone first'
complete -c zps -s z -x -a '(__zps_list ready running shutting_down down)' -d 'processes of this zone'
