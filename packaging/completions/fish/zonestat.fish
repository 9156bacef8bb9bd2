# fish completion for zonestat(1). Generated: cargo run -p generate

# The zones whose state is among the arguments; all of them without arguments.
function __zonestat_list
    PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | while read -d : -l id name state more
        if test "$name" != global; and begin
                test (count $argv) -eq 0; or contains -- $state $argv
            end
            printf '%s\t%s\n' $name $state
        end
    end
end

complete -c zonestat -f
complete -c zonestat -l dashboard -d 'the dashboard of 2009'
complete -c zonestat -s j -d 'as JSON'
complete -c zonestat -l json -d 'as JSON'
complete -c zonestat -s l -d 'the dashboard with limits'
complete -c zonestat -s N -d 'the dashboard with names in full'
complete -c zonestat -s n -x -d 'resources of these names'
complete -c zonestat -l openmetrics -d 'for Prometheus'
complete -c zonestat -s P -d 'lines with -p, else the dashboard with colons'
complete -c zonestat -s p -d 'for programs'
complete -c zonestat -s q -d 'reports only'
complete -c zonestat -s R -x -a 'total average high' -d 'reports over all intervals'
complete -c zonestat -s r -x -a 'summary physical-memory virtual-memory locked-memory memory processor-set psets default-pset processes lwps lofi limits shm-memory shm-ids sem-ids msg-ids sysv network disk pressure all' -d 'these resources'
complete -c zonestat -l root -x -a '(__fish_complete_directories)' -d 'alternate root'
complete -c zonestat -s S -x -a 'name used cap pcap shr pshru cpu physical-memory virtual-memory' -d 'sorted by'
complete -c zonestat -l serve -d 'serve figures for Prometheus'
complete -c zonestat -s T -x -a 'u d i' -d 'with the time'
complete -c zonestat -l tui -d 'full screen'
complete -c zonestat -s z -x -a '(__zonestat_list ready running shutting_down down)' -d 'this zone'
