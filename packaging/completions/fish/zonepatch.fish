# fish completion for zonepatch(1). Generated: cargo run -p generate

# The zones whose state is among the arguments; all of them without arguments.
function __zonepatch_list
    PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | while read -d : -l id name state more
        if test "$name" != global; and begin
                test (count $argv) -eq 0; or contains -- $state $argv
            end
            printf '%s\t%s\n' $name $state
        end
    end
end

complete -c zonepatch -f
complete -c zonepatch -l activate -x -a 'next now' -d 'running zones, too'
complete -c zonepatch -l dist-upgrade -d 'with packages installed and removed'
complete -c zonepatch -s g -d 'the global zone first'
complete -c zonepatch -l health -x -d 'succeeds in zones that are well'
complete -c zonepatch -s j -d 'as JSON'
complete -c zonepatch -l live -d 'running zones, too, in place'
complete -c zonepatch -s n -d 'show what would be done'
complete -c zonepatch -l no-share -d 'each zone by its own package manager'
complete -c zonepatch -l time-limit -x -d 'seconds for the package manager of a zone'
complete -c zonepatch -s P -x -d 'so many zones at a time'
complete -c zonepatch -l progress -x -a 'json' -d 'progress and errors as lines of JSON'
complete -c zonepatch -s R -x -a '(__fish_complete_directories)' -d 'alternate root'
complete -c zonepatch -l security -d 'what a security archive has'
complete -c zonepatch -s t -x -d 'behind this patch'
complete -c zonepatch -s z -x -a '(__zonepatch_list installed ready running shutting_down down mounted)' -d 'zone, glob or range'
complete -c zonepatch -n 'not __fish_seen_subcommand_from apply help history plan recover remove rollback status' -a 'apply help history plan recover remove rollback status'
