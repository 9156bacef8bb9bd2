# fish completion for zoneadm(8). Generated: cargo run -p generate

# The zones whose state is among the arguments; all of them without arguments.
@list zoneadm@

# The states in which a subcommand acts; nothing for one that acts on no zone.
@function zoneadm-states@

function __zoneadm_all
    @zoneadm-subcommands@
end

@function zoneadm-suboptions@

@verb zoneadm -z -u -R@

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
                    @zoneadm-options@
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
