# shellcheck shell=bash
# bash completion for zonesuspend(8). Generated: cargo run -p generate

@function zonesuspend-subcommands@

@function zonesuspend-suboptions@

_zonesuspend() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=''
    local -a words=()
    COMPREPLY=()
    if ((COMP_CWORD > 1)); then verb=${COMP_WORDS[1]}; fi
    case $verb:$before in
    bench:-r)
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        compopt -o filenames 2>/dev/null
        return
        ;;
    bench:-[mnt] | verify:-t) return ;;
    esac
    if [ -z "$verb" ] || [ "$verb" = help ]; then
        read -ra words <<<"$(_zonesuspend_subcommands)"
    elif [[ $current == -* ]]; then
        read -ra words <<<"$(_zonesuspend_suboptions "$verb")"
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "$current")
}

complete -F _zonesuspend zonesuspend
