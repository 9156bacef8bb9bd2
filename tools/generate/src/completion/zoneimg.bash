# shellcheck shell=bash
# bash completion for zoneimg(8). Generated: cargo run -p generate

# The names of the images that are plain words; ZONES_ROOT counts.
_zoneimg_images() { PATH=$PATH:/usr/sbin zoneimg list -p 2>/dev/null | cut -d: -f6 | grep -x '[A-Za-z0-9_.-]*'; }

@function zoneimg-subcommands@

@function zoneimg-options@

@function zoneimg-suboptions@

_zoneimg() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb='' i
    local -a words=()
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -R) i=$((i + 1)) ;;
        -*) ;;
        *)
            verb=${COMP_WORDS[i]}
            break
            ;;
        esac
    done
    case $verb:$before in
    :-R)
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        compopt -o filenames 2>/dev/null
        return
        ;;
    import:-n | import:--digest) return ;;
    esac
    if [ -z "$verb" ]; then
        if [[ $current == -* ]]; then
            read -ra words <<<"$(_zoneimg_options)"
        else
            read -ra words <<<"$(_zoneimg_subcommands)"
        fi
    elif [[ $current == -* ]]; then
        read -ra words <<<"$(_zoneimg_suboptions "$verb")"
    else
        case $verb in
        import)
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            compopt -o filenames 2>/dev/null
            return
            ;;
        inspect | verify | remove) mapfile -t words < <(_zoneimg_images) ;;
        help) read -ra words <<<"$(_zoneimg_subcommands)" ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "$current")
}

complete -F _zoneimg zoneimg
