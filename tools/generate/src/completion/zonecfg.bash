# shellcheck shell=bash disable=SC2046 # words are split
# bash completion for zonecfg(8). Generated: cargo run -p generate

_zonecfg_zones() {
    local name
    while IFS=: read -r _ name _; do
        if [[ $name =~ ^[A-Za-z0-9_.-]+$ && $name != global ]]; then printf '%s\n' "$name"; fi
    done < <(PATH=$PATH:/usr/sbin zoneadm list -cp 2>/dev/null)
}

@function zonecfg-options@
_zonecfg_commands() {
    if [ "$1" = global ]; then
        @zonecfg-global-commands@
    else
        @zonecfg-resource-commands@
    fi
}
@function zonecfg-command-options@
@function zonecfg-resources@
@function zonecfg-templates@

# The properties of the zone (global) or of a resource: all, those that clear takes,
# and those that are lists.
@function zonecfg-properties@
@function zonecfg-clearable@
@function zonecfg-lists@
@function zonecfg-values@

# What the word behind the given ones of a command may be. The first argument is the
# scope, the second the word so far.
_zonecfg_next() {
    local scope=$1 current=$2
    shift 2
    if [ $# -gt 0 ] && [[ $current == -* ]]; then
        _zonecfg_command_options "$1"
        return
    fi
    case ${1-} in
    '') _zonecfg_commands "$scope" ;;
    set)
        if [[ $current == *=* ]]; then
            printf "${current%%=*}=%s\n" $(_zonecfg_values "$scope:${current%%=*}")
        else
            printf '%s=\n' $(_zonecfg_properties "$scope")
        fi
        ;;
    clear) _zonecfg_clearable "$scope" ;;
    add)
        if [ "$scope" != global ]; then
            _zonecfg_lists "$scope"
        elif [ $# -eq 1 ]; then
            _zonecfg_resources
        fi
        ;;
    remove | select)
        if [ "$scope" != global ]; then
            _zonecfg_lists "$scope"
        elif [ $# -eq 1 ]; then
            _zonecfg_resources
        else
            printf '%s=\n' $(_zonecfg_properties "$2")
        fi
        ;;
    info)
        if [ $# -gt 1 ]; then
            printf '%s=\n' $(_zonecfg_properties "$2")
        else
            _zonecfg_properties "$scope"
            if [ "$scope" = global ]; then _zonecfg_resources; fi
        fi
        ;;
    create)
        if [ "${!#}" = -t ]; then
            _zonecfg_templates
            _zonecfg_zones
        else
            _zonecfg_command_options create
        fi
        ;;
    delete | exit | revert | export) _zonecfg_command_options "$1" ;;
    help)
        echo 'usage commands syntax'
        _zonecfg_commands global
        _zonecfg_resources
        _zonecfg_properties global
        ;;
    esac
}

_zonecfg() {
    # Commands may stand in quotes, so the words are not bash's.
    local line=${COMP_LINE:0:COMP_POINT} current scope=global word before=''
    local -a words=() command=()
    COMPREPLY=()
    line=${line//[\'\"\\]/ }
    line=${line//;/ ; }
    read -ra words <<<"$line"
    if [[ $line == *[[:blank:]] || ${#words[@]} -lt 2 ]]; then words+=(''); fi
    current=${words[-1]}
    unset 'words[-1]' 'words[0]'
    words=("${words[@]}")

    while [ ${#words[@]} -gt 0 ] && [[ ${words[0]} == -* ]]; do
        before=${words[0]}
        words=("${words[@]:1}")
        case $before in
        -z | -u | -f | -R)
            if [ ${#words[@]} -gt 0 ]; then
                before=''
                words=("${words[@]:1}")
            fi
            ;;
        *) before='' ;;
        esac
    done
    case $before in
    -z) mapfile -t COMPREPLY < <(compgen -W "$(_zonecfg_zones)" -- "$current") && return ;;
    -f | -R) mapfile -t COMPREPLY < <(compgen -f -- "$current") && return ;;
    esac
    if [ -n "$before" ]; then return; fi
    if [ ${#words[@]} -eq 0 ] && [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_zonecfg_options)" -- "$current")
        return
    fi

    for word in "${words[@]}"; do
        if [ "$word" != ';' ]; then
            command+=("$word")
            continue
        fi
        case ${command[0]-}:$scope in
        add:global | select:global) scope=${command[1]-global} ;;
        end:* | cancel:*) scope=global ;;
        esac
        command=()
    done
    if [[ "${command[*]: -1}" == -[af] ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$(_zonecfg_next "$scope" "$current" "${command[@]}")" -- "$current")
    if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2>/dev/null; fi
    # bash replaces its own idea of the word: more in quotes, less behind "=".
    if [ "$current" != "${2-}" ]; then
        if [[ $current == *"$2" ]]; then
            COMPREPLY=("${COMPREPLY[@]#"${current%"$2"}"}")
        elif [[ $2 == *"$current" ]]; then
            COMPREPLY=("${COMPREPLY[@]/#/"${2%"$current"}"}")
        fi
    fi
}

complete -F _zonecfg zonecfg
