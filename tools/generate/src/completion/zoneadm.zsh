#compdef zoneadm
# zsh completion for zoneadm(8). Generated: cargo run -p generate

# The zones whose state is among the arguments; all of them without arguments.
_zoneadm_list() {
    local name state
    PATH=$PATH:/usr/sbin zoneadm list -cp 2>/dev/null | while IFS=: read -r _ name state _; do
        [[ $name == [A-Za-z0-9_.-]## && $name != global ]] || continue
        if (( $# == 0 )) || (( ${@[(Ie)$state]} )); then print -r -- $name; fi
    done
}

# The states in which a subcommand acts; nothing for one that acts on no zone.
@function zoneadm-states@

_zoneadm() {
    setopt local_options extended_glob
    local verb= before=${words[CURRENT-1]} one state
    local -a zones subcommands options states found
    integer at=0 i
    subcommands=(
        @zoneadm-subcommands@
    )
    for (( i = 2; i <= $#words; i++ )); do
        case ${words[i]} in
        -z|-u)
            (( i + 1 < CURRENT )) && zones+=(${words[i]} ${(Q)words[i+1]})
            (( i++ ))
            ;;
        -R) (( i++ )) ;;
        -*) ;;
        *)
            (( i != CURRENT )) && { verb=${words[i]}; at=$i }
            break
            ;;
        esac
    done

    if [[ -z $verb ]] || (( CURRENT < at )); then
        case $before in
        -z) compadd -- $(_zoneadm_list $(_zoneadm_states "$verb")) ;;
        -u) compadd -- $(PATH=$PATH:/usr/sbin zoneadm list -cp 2>/dev/null | cut -d: -f5) ;;
        -R) _files -/ ;;
        *)
            if [[ $PREFIX == -* ]]; then
                options=(
                    @zoneadm-options@
                )
                _describe option options
                return
            fi
            # The subcommands that the states of the zones admit.
            (( $#zones )) && states=($(PATH=$PATH:/usr/sbin zoneadm $zones list -p 2>/dev/null | cut -d: -f3))
            for one in $subcommands; do
                found=($(_zoneadm_states ${one%%:*}))
                if (( $#states == 0 || $#found == 0 || ${#states:*found} > 0 )); then options+=($one); fi
            done
            _describe subcommand options
            ;;
        esac
        return
    fi
    if [[ $PREFIX == -* ]]; then
        case $verb in
        @zoneadm-suboptions@
        esac
        _describe option options
        return
    fi
    case $verb:$before in
    install:-a) _files ;;
    install:-d | move:*) _files -/ ;;
    install:-i) compadd -- $(PATH=$PATH:/usr/sbin zoneimg list -p 2>/dev/null | cut -d: -f6 | grep -x '[A-Za-z0-9_.-]*') ;;
    clone:-m) compadd copy ;;
    clone:-s) ;;
    clone:*) compadd -- $(_zoneadm_list installed) ;;
    diff:*|rollback:*|destroy-snapshot:*)
        compadd -- $(PATH=$PATH:/usr/sbin zoneadm $zones snapshots -p 2>/dev/null | cut -d: -f2)
        ;;
    mark:*) compadd incomplete ;;
    help:*) _describe subcommand subcommands ;;
    esac
}

_zoneadm "$@"
