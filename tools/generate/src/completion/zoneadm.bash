# shellcheck shell=bash disable=SC2046 # words are split
# bash completion for zoneadm(8). Generated: cargo run -p generate

# The zones there are, with those in front whose state is among the arguments; all of
# them without arguments. A zone's own tool says it, so ZONES_ROOT counts.
@list zoneadm@

_zoneadm_uuids() { PATH=$PATH:/usr/sbin zoneadm list -cp 2>/dev/null | grep -Eo ':[0-9a-f-]{36}:' | tr -d :; }

@function zoneadm-subcommands@

# The states in which a subcommand acts; nothing for one that acts on no zone.
@function zoneadm-states@

@function zoneadm-suboptions@

# The subcommands that the states of the zones admit.
_zoneadm_admitted() {
    local verb state states=''
    if [ $# -gt 0 ]; then states=$(PATH=$PATH:/usr/sbin zoneadm "$@" list -p 2>/dev/null | cut -d: -f3); fi
    for verb in $(_zoneadm_subcommands); do
        if [ -z "$states" ] || [ -z "$(_zoneadm_states "$verb")" ]; then
            printf '%s\n' "$verb"
            continue
        fi
        for state in $states; do
            if [[ " $(_zoneadm_states "$verb") " == *" $state "* ]]; then
                printf '%s\n' "$verb"
                break
            fi
        done
    done
}

_zoneadm() {
    local current=$2 verb='' at=0 i before
    local -a zones=() words=()
    COMPREPLY=()
    # Between two words bash says that the cursor is in the second.
    if [ -z "$current" ] && [ -n "${COMP_WORDS[COMP_CWORD]-}" ]; then
        COMP_WORDS=("${COMP_WORDS[@]:0:COMP_CWORD}" '' "${COMP_WORDS[@]:COMP_CWORD}")
    fi
    before=${COMP_WORDS[COMP_CWORD - 1]}
    for ((i = 1; i < ${#COMP_WORDS[@]}; i++)); do
        case ${COMP_WORDS[i]} in
        -z | -u)
            if ((i + 1 < COMP_CWORD)); then zones+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}"); fi
            i=$((i + 1))
            ;;
        # Bash divides --progress=json into three words.
        -R | =) i=$((i + 1)) ;;
        -*) ;;
        *)
            if ((i != COMP_CWORD)); then
                verb=${COMP_WORDS[i]}
                at=$i
            fi
            break
            ;;
        esac
    done

    if [ -z "$verb" ] || ((COMP_CWORD < at)); then
        case $before in
        -z)
            mapfile -t words < <(_zoneadm_list $(_zoneadm_states "$verb"))
            ;;
        -u) mapfile -t words < <(_zoneadm_uuids) ;;
        -R)
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            return
            ;;
        *)
            if [[ $current == -* ]]; then
                read -ra words <<<"$(_zoneadm_options)"
            else
                mapfile -t words < <(_zoneadm_admitted "${zones[@]}")
            fi
            ;;
        esac
    elif [[ $current == -* ]]; then
        read -ra words <<<"$(_zoneadm_suboptions "$verb")"
    else
        case $verb:$before in
        install:-a)
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            compopt -o filenames 2>/dev/null
            return
            ;;
        install:-d | move:*)
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            compopt -o filenames 2>/dev/null
            return
            ;;
        install:-i)
            mapfile -t words < <(PATH=$PATH:/usr/sbin zoneimg list -p 2>/dev/null | cut -d: -f6 | grep -x '[A-Za-z0-9_.-]*')
            ;;
        clone:-m) words=(copy) ;;
        clone:-s) ;;
        clone:*) mapfile -t words < <(_zoneadm_list installed) ;;
        diff:* | rollback:* | destroy-snapshot:*)
            mapfile -t words < <(PATH=$PATH:/usr/sbin zoneadm "${zones[@]}" snapshots -p 2>/dev/null | cut -d: -f2)
            ;;
        mark:*) words=(incomplete) ;;
        help:*) read -ra words <<<"$(_zoneadm_subcommands)" ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "$current")
}

@function zoneadm-options@

complete -F _zoneadm zoneadm
