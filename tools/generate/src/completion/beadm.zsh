#compdef beadm
# zsh completion for beadm(8). Generated: cargo run -p generate

_beadm() {
    local verb= before=${words[CURRENT-1]}
    local -a subcommands options environments
    subcommands=(
        'list:Lists boot environments'
        'create:Makes one of the root as it is now'
        'activate:Has the next boot take one'
        'rename:Gives one another name'
        'destroy:Removes one'
    )
    (( CURRENT > 2 )) && verb=${words[2]}
    if [[ -z $verb ]]; then
        _describe subcommand subcommands
        return
    fi
    if [[ $PREFIX == -* ]]; then
        case $verb in
        list) options=('-H:For programs' '-j:As JSON') ;;
        create) options=('-a:Activates it' '-e:Makes it of another one') ;;
        destroy) options=('-F:Does not ask') ;;
        esac
        _describe option options
        return
    fi
    [[ $verb == create && $before != -e ]] && return
    environments=(${(f)"$(beadm list -H 2>/dev/null | cut -d';' -f1)"})
    compadd -a environments
}

_beadm "$@"
