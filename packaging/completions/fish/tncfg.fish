# fish completion for tncfg(1). Generated: cargo run -p generate

# The zones whose state is among the arguments; all of them without arguments.
function __tncfg_list
    PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | while read -d : -l id name state more
        if test "$name" != global; and begin
                test (count $argv) -eq 0; or contains -- $state $argv
            end
            printf '%s\t%s\n' $name $state
        end
    end
end

complete -c tncfg -f
complete -c tncfg -s f -r -F -d 'the commands in this file'
complete -c tncfg -s R -x -a '(__fish_complete_directories)' -d 'alternate root'
complete -c tncfg -s t -x -d 'this template of hosts'
complete -c tncfg -s z -x -a '(__tncfg_list )' -d 'the ports of this zone'
complete -c tncfg -n 'not __fish_seen_subcommand_from add clear commit create delete export get help info list remove select set verify' -a 'add clear commit create delete export get help info list remove select set verify'
