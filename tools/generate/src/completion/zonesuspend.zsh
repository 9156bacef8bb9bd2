#compdef zonesuspend
# zsh completion for zonesuspend(8). Generated: cargo run -p generate

_zonesuspend() {
    local verb= before=${words[CURRENT-1]}
    local -a subcommands options
    subcommands=(
        @zonesuspend-subcommands@
    )
    (( CURRENT > 2 )) && verb=${words[2]}

    case $verb:$before in
    bench:-r)
        _files -/
        return
        ;;
    bench:-[mnt]|verify:-t) return ;;
    esac
    if [[ -z $verb || $verb == help ]]; then
        _describe subcommand subcommands
        return
    fi
    if [[ $PREFIX == -* ]]; then
        case $verb in
        @zonesuspend-suboptions@
        esac
        _describe option options
        return
    fi
    _files
}

_zonesuspend "$@"
