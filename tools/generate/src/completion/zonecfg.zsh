#compdef zonecfg
# zsh completion for zonecfg(8). Generated: cargo run -p generate

_zonecfg_zones() {
    local name
    PATH=$PATH:/usr/sbin zoneadm list -cp 2>/dev/null | while IFS=: read -r _ name _; do
        [[ $name != global ]] && print -r -- $name
    done
}

_zonecfg_scope() {
    if [[ $1 == global ]]; then
        @zonecfg-global-commands@
    else
        @zonecfg-resource-commands@
    fi
}
@function zonecfg-command-options@
@function zonecfg-templates@

# The properties of the zone (global) or of a resource: all, those that clear takes,
# and those that are lists.
@function zonecfg-properties@
@function zonecfg-clearable@
@function zonecfg-lists@
@function zonecfg-values@

_zonecfg() {
    local scope=global word before=
    local -a commands resources options command rest templates
    integer i
    commands=(
        @zonecfg-commands@
    )
    resources=(
        @zonecfg-resources@
    )
    for (( i = 2; i < CURRENT; i++ )); do
        case ${words[i]} in
        -z|-u|-f|-R)
            before=${words[i]}
            (( i++ ))
            ;;
        -*) ;;
        *) break ;;
        esac
    done
    # The cursor stands right behind an option that takes a word.
    if (( i > CURRENT )); then
        case $before in
        -z) compadd -- $(_zonecfg_zones) ;;
        -u) compadd -- $(PATH=$PATH:/usr/sbin zoneadm list -cp 2>/dev/null | cut -d: -f5) ;;
        -f) _files ;;
        -R) _files -/ ;;
        esac
        return
    fi
    if (( i == CURRENT )) && [[ $PREFIX == -* ]]; then
        options=(
            @zonecfg-options@
        )
        _describe option options
        return
    fi

    # Commands end with ";", in quotes or with a backslash.
    for word in ${(Q)words[i,CURRENT-1]}; do
        command+=(${word%;})
        [[ $word == *\; ]] || continue
        case ${command[1]}:$scope in
        add:global|select:global) scope=${command[2]} ;;
        end:*|cancel:*) scope=global ;;
        esac
        command=()
    done
    command=(${command:#})
    if (( $#command )) && [[ $PREFIX == -* ]]; then
        compadd -- $(_zonecfg_command_options "${command[1]}")
        return
    fi
    case ${command[1]} in
    '')
        rest=($(_zonecfg_scope $scope))
        options=()
        for word in $commands; do
            (( ${rest[(Ie)${word%%:*}]} )) && options+=($word)
        done
        _describe command options
        ;;
    set)
        if compset -P '*='; then
            compadd -- $(_zonecfg_values "$scope:${IPREFIX%=}")
        else
            compadd -S = -- $(_zonecfg_properties "$scope")
        fi
        ;;
    clear) compadd -- $(_zonecfg_clearable "$scope") ;;
    add|remove|select|info)
        if [[ $scope != global ]]; then
            compadd -- $(_zonecfg_lists "$scope")
        elif (( $#command == 1 )); then
            _describe resource resources
            [[ ${command[1]} == info ]] && compadd -- $(_zonecfg_properties global)
        elif [[ ${command[1]} != add ]]; then
            compadd -S = -- $(_zonecfg_properties "${command[2]}")
        fi
        ;;
    create)
        if [[ ${command[-1]} == -t ]]; then
            templates=($(_zonecfg_templates))
            compadd -- $templates $(_zonecfg_zones)
        elif [[ ${command[-1]} == -a ]]; then
            _files -/
        else
            compadd -- $(_zonecfg_command_options create)
        fi
        ;;
    delete|exit|revert) compadd -- $(_zonecfg_command_options "${command[1]}") ;;
    export)
        if [[ ${command[-1]} == -f ]]; then _files; else compadd -- $(_zonecfg_command_options export); fi
        ;;
    help)
        compadd -- usage commands syntax ${commands%%:*} ${resources%%:*} $(_zonecfg_properties global)
        ;;
    esac
}

_zonecfg "$@"
