# fish completion for zonecfg(8). Generated: cargo run -p generate

function __zonecfg_zones
    PATH=$PATH:/usr/sbin command zoneadm list -cp 2>/dev/null | while read -d : -l id name state more
        test "$name" != global; and printf '%s\t%s\n' $name $state
    end
end

@function zonecfg-commands@
function __zonecfg_scope
    switch "$argv[1]"
        case global
            @zonecfg-global-commands@
        case '*'
            @zonecfg-resource-commands@
    end
end
@function zonecfg-command-options@
@function zonecfg-resources@
@function zonecfg-templates@

# The properties of the zone (global) or of a resource: all, those that clear takes,
# and those that are lists.
@function zonecfg-properties@
@function zonecfg-clearable@
@function zonecfg-lists@
@function zonecfg-values@

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
        @zonecfg-options@
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
