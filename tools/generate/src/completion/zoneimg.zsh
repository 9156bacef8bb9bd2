#compdef zoneimg
# zsh completion for zoneimg(8). Generated: cargo run -p generate

# The names of the images that are plain words; ZONES_ROOT counts.
_zoneimg_images() {
    compadd -- $(PATH=$PATH:/usr/sbin zoneimg list -p 2>/dev/null | cut -d: -f6 | grep -x '[A-Za-z0-9_.-]*')
}

_zoneimg() {
    local verb= before=${words[CURRENT-1]}
    local -a subcommands options
    integer i
    subcommands=(
        @zoneimg-subcommands@
    )
    for (( i = 2; i < CURRENT; i++ )); do
        case ${words[i]} in
        -R) (( i++ )) ;;
        -*) ;;
        *)
            verb=${words[i]}
            break
            ;;
        esac
    done

    case $verb:$before in
    :-R)
        _files -/
        return
        ;;
    import:-n|import:--digest) return ;;
    esac
    if [[ -z $verb ]]; then
        if [[ $PREFIX == -* ]]; then
            options=(
                @zoneimg-options@
            )
            _describe option options
        else
            _describe subcommand subcommands
        fi
        return
    fi
    if [[ $PREFIX == -* ]]; then
        case $verb in
        @zoneimg-suboptions@
        esac
        _describe option options
        return
    fi
    case $verb in
    import) _files ;;
    inspect|verify|remove) _zoneimg_images ;;
    help) _describe subcommand subcommands ;;
    esac
}

_zoneimg "$@"
